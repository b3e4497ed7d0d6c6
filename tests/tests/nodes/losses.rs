//! Nodes, leaders and brokers that are lost while a job runs.

use crate::cluster::{Cluster, assert_files, expected_rows, job};
use rustix::process::Signal;
use sandmill_tests::{Ran, Running};
use std::thread;
use std::time::Duration;

#[track_caller]
fn assert_complete(ran: &Ran) {
    // The workers of a paused agent may still be there.
    assert_eq!(ran.code, 0, "{ran}");
    let mut rows: Vec<String> =
        ran.text("shared/out/parallel_run_step.txt").lines().map(str::to_owned).collect();
    rows.sort();
    assert_eq!(rows, expected_rows(), "{ran}");
    assert_files(ran);
}

/// Waits until both nodes work.
fn await_both(running: &mut Running) {
    running.until("both nodes work", |running| {
        let said = running.stderr_so_far();
        said.contains("note: node 0 (") && said.contains("note: node 1 (")
    });
}

/// The mini-batches of a lost node run elsewhere, and the loss counts no try. A machine that returns gets a new
/// number.
#[test]
fn a_killed_node_is_replaced() {
    let job = job(2, "");
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let mut running = cluster.start(job, "leader", &[]);
    await_both(&mut running);
    cluster.agent_of(&running, 1).kill();
    let ran = running.wait();
    assert_complete(&ran);
    let report = ran.text("leader/logs/sys/job_report/processed_mini-batches.csv");
    assert!(!report.contains("failed"), "{report}");
}

/// An agent that was paused until it was lost does no harm when it wakes, and may take part again.
#[test]
fn a_paused_node_is_given_up() {
    let job = job(2, "");
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let mut running = cluster.start(job, "leader", &[]);
    await_both(&mut running);
    let agent = cluster.agent_of(&running, 0);
    agent.signal(Signal::STOP);
    let ran = running.wait();
    assert_complete(&ran);
    let agent = cluster.agent(0);
    agent.signal(Signal::CONT);
    cluster.agent(1).signal(Signal::CONT);
}

/// If the leader is lost, another machine continues the job with the same agents.
#[test]
fn another_leader_takes_the_nodes_over() {
    let job = job(2, "ordered: true");
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let mut running = cluster.start(job, "first", &[]);
    await_both(&mut running);
    running.kill_leader();
    let ran = running.wait();
    std::fs::remove_dir_all(ran.dir().join("first")).unwrap();
    let ran = cluster.run(ran.into_job(), "second");
    assert_complete(&ran);
    // Node ids are never used again.
    ran.says("note: node 2 (");
}

/// The broker may lose everything.
#[test]
fn the_broker_may_die() {
    let job = job(2, "");
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let mut running = cluster.start(job, "leader", &[]);
    await_both(&mut running);
    cluster.broker.kill();
    thread::sleep(Duration::from_millis(300));
    cluster.broker.start_again();
    assert_complete(&running.wait());
}
