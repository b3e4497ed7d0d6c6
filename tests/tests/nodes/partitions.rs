//! Machines that are cut off from the broker, but not from the shared folder. They and the broker have networks of
//! their own. Connections that are slow, held up, or dropped.

use crate::cluster::{Cluster, assert_complete, job};
use sandmill_tests::{Broker, Brokers, Direction, Network, Proxy, Running};
use std::thread;
use std::time::{Duration, Instant};

/// A job must end within this time after a machine was cut off from the others.
const END_WITHIN: Duration = Duration::from_secs(60);

/// The machine of the broker, and that of a leader or an agent that is never cut off.
const BROKER: u8 = 0;
const SAFE: u8 = 1;
/// The machine that is cut off.
const CUT: u8 = 2;

/// What arrives nowhere.
const TO_BROKER: (u8, u8) = (CUT, BROKER);
const FROM_BROKER: (u8, u8) = (BROKER, CUT);

/// A broker and two agents, `machine-0` on [`SAFE`] and `machine-1` on [`CUT`].
fn two_agents(network: &Network) -> Cluster {
    let host = network.address(BROKER);
    let broker = network.on(BROKER, || Broker::start_at(&host));
    let mut cluster = Cluster::on(broker);
    network.on(SAFE, || cluster.start_agents(1));
    network.on(CUT, || cluster.start_agents(1));
    cluster
}

/// Waits until both nodes work.
fn both_work(running: &mut Running) {
    running.until("both nodes work", |running| {
        let said = running.stderr_so_far();
        said.contains("note: node 0 (") && said.contains("note: node 1 (")
    });
}

/// Cuts off one of two agents while a job runs. The other one does the work. When the partition has healed, the agent
/// takes part in a job again.
fn an_agent_is_cut_off(cuts: &[(u8, u8)]) {
    let Some(network) = Network::of(3) else { return };
    let mut cluster = two_agents(&network);
    // Without naps, the job would end before the cut.
    let slow = job(2, "arguments: [--nap, '100']");
    let mut running = network.on(SAFE, || cluster.start(slow, "leader", &[]));
    both_work(&mut running);
    let node = cluster.node_on(&running, 1);
    cuts.iter().for_each(|(from, to)| network.cut(*from, *to));
    let begun = Instant::now();
    let ran = running.wait();
    assert_eq!(ran.code, 0, "{ran}");
    assert!(begun.elapsed() < END_WITHIN, "{:?}: {ran}", begun.elapsed());
    ran.says(&format!("node {node} (machine-1) takes no part any longer"));
    assert_complete(&ran);
    cuts.iter().for_each(|(from, to)| network.heal(*from, *to));
    // There is only this agent now.
    cluster.agent(0).kill();
    let begun = Instant::now();
    let ran = network.on(SAFE, || cluster.run(job(1, ""), "leader"));
    assert_eq!(ran.code, 0, "{ran}");
    assert!(begun.elapsed() < END_WITHIN, "{:?}: {ran}", begun.elapsed());
    ran.says("note: node 0 (machine-1) takes part");
    assert_complete(&ran);
}

#[test]
fn an_agent_that_is_cut_off_is_not_waited_for() {
    an_agent_is_cut_off(&[TO_BROKER, FROM_BROKER]);
}

#[test]
fn an_agent_that_is_not_heard_is_not_waited_for() {
    an_agent_is_cut_off(&[TO_BROKER]);
}

#[test]
fn an_agent_that_hears_nothing_is_not_waited_for() {
    an_agent_is_cut_off(&[FROM_BROKER]);
}

/// The machine of the leader is cut off. It has an agent, too. The other agent takes over, and the leader, which keeps
/// the lock on the output, gives way.
#[test]
fn a_leader_that_is_cut_off_is_replaced() {
    let Some(network) = Network::of(3) else { return };
    let mut cluster = two_agents(&network);
    let slow = job(2, "arguments: [--nap, '200']");
    let mut running = network.on(CUT, || cluster.start(slow, "leader", &[]));
    both_work(&mut running);
    network.cut(CUT, BROKER);
    network.cut(BROKER, CUT);
    let begun = Instant::now();
    cluster.agent(0).until("leads the job test no longer: exit status: 0");
    assert!(begun.elapsed() < END_WITHIN, "{:?}", begun.elapsed());
    let ran = running.wait();
    assert_eq!(ran.code, 42, "{ran}");
    assert_complete(&ran);
}

/// Two brokers are cut off from each other, and so is a leader from all agents. Its own broker works, so it hears
/// itself.
#[test]
fn a_leader_whose_broker_is_cut_off_is_replaced() {
    let Some(network) = Network::of(2) else { return };
    let mut brokers = Brokers::on(&network, &[0, 1]);
    let near_agents = brokers.servers.remove(1);
    let near_leader = brokers.servers.remove(0);
    let urls = [near_leader.url(), near_agents.url()];
    let mut cluster = Cluster::with_logins(near_leader, urls);
    network.on(1, || cluster.start_agents(2));
    let slow = job(2, "arguments: [--nap, '200']");
    let mut running = network.on(0, || cluster.start(slow, "leader", &[]));
    both_work(&mut running);
    network.cut(0, 1);
    network.cut(1, 0);
    let begun = Instant::now();
    cluster.until_one_says("leads the job test no longer: exit status: 0", None);
    assert!(begun.elapsed() < END_WITHIN, "{:?}", begun.elapsed());
    let ran = running.wait();
    assert_eq!(ran.code, 42, "{ran}");
    assert_complete(&ran);
}

/// A job whose agents have slow and unreliable connections.
#[test]
fn slow_connections_that_break_cost_only_time() {
    let cluster = Cluster::new();
    let proxies = [Proxy::to(cluster.broker.port), Proxy::to(cluster.broker.port)];
    let agents: Vec<_> = proxies
        .iter()
        .zip(0..)
        .map(|(proxy, number)| cluster.agent_at(&proxy.url(), number))
        .collect();
    agents.iter().for_each(|agent| agent.until("waits for jobs"));
    let slow = job(2, "arguments: [--nap, '50']");
    let mut running = cluster.start(slow, "leader", &[]);
    both_work(&mut running);
    let [first, second] = &proxies;
    first.delay(Duration::from_millis(150));
    for _ in 0..3 {
        first.drop_connections();
        for direction in [Direction::ToServer, Direction::ToClients] {
            second.hold(Some(direction));
            thread::sleep(Duration::from_millis(400));
            second.hold(None);
        }
    }
    let ran = running.wait();
    assert_eq!(ran.code, 0, "{ran}");
    assert_complete(&ran);
}

/// The connection of an agent stays, but nothing arrives in one direction.
#[test]
fn an_agent_whose_connection_is_held_up_is_not_waited_for() {
    for direction in [Direction::ToServer, Direction::ToClients] {
        let mut cluster = Cluster::new();
        cluster.start_agents(1);
        let proxy = Proxy::to(cluster.broker.port);
        let agent = cluster.agent_at(&proxy.url(), 1);
        agent.until("waits for jobs");
        let slow = job(2, "arguments: [--nap, '100']");
        let mut running = cluster.start(slow, "leader", &[]);
        both_work(&mut running);
        proxy.hold(Some(direction));
        let begun = Instant::now();
        let ran = running.wait();
        assert_eq!(ran.code, 0, "{direction:?}: {ran}");
        assert!(begun.elapsed() < END_WITHIN, "{:?}: {ran}", begun.elapsed());
        ran.says("(machine-1) takes no part any longer");
        assert_complete(&ran);
        drop(agent);
    }
}
