//! Nodes, leaders and brokers that are lost while a job runs.

use crate::cluster::{self, Cluster, job, job_of};
use rustix::process::Signal;
use sandmill_tests::{Ran, Running};
use std::thread;
use std::time::Duration;

#[track_caller]
fn assert_complete(ran: &Ran) {
    // The workers of a paused agent may still be there.
    assert_eq!(ran.code, 0, "{ran}");
    cluster::assert_complete(ran);
}

/// Begins a job with these lines on the machine with this job directory, and waits until both of its nodes work.
fn begun(cluster: &mut Cluster, lines: &str, machine: &str) -> Running {
    cluster.start_agents(2);
    // Otherwise an agent would continue the job of a leader that is lost.
    let mut running = cluster.start(job(2, lines), machine, &["--no-takeover"]);
    running.until("both nodes work", |running| {
        let said = running.stderr_so_far();
        said.contains("note: node 0 (") && said.contains("note: node 1 (")
    });
    running
}

/// The mini-batches of a lost node run elsewhere, and the loss counts no try. A machine that returns gets a new
/// number.
#[test]
fn a_killed_node_is_replaced() {
    let mut cluster = Cluster::new();
    let running = begun(&mut cluster, "", "leader");
    cluster.agent_of(&running, 1).kill();
    let ran = running.wait();
    assert_complete(&ran);
    let report = ran.text("leader/logs/sys/job_report/processed_mini-batches.csv");
    assert!(!report.contains("failed"), "{report}");
}

/// The attempts of a lost node have receipts, and are not billable.
#[test]
fn attempts_of_a_killed_node_are_not_billable() {
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let job = job_of(16, 2, "arguments: [--nap, '300']");
    let mut running = cluster.start(job, "leader", &["--no-takeover", "--events", "-"]);
    running.until("node 1 has begun a mini-batch", |running| {
        let is_begin =
            |line: &str| line.contains("attempt_started") && line.contains("process10000");
        running.stdout_so_far().lines().any(is_begin)
    });
    cluster.agent_of(&running, 1).kill();
    let ran = running.wait();
    ran.exits_with(0);
    let used = ran.into_job().command(&["usage", "--json", "leader"]);
    let sums: serde_json::Value = serde_json::from_str(&used.stdout).unwrap();
    let total = &sums["total"];
    let lost = total["reasons"]["node_lost"].as_u64().unwrap_or_default();
    assert!((1..=2).contains(&lost), "the node had two workers: {sums:#}");
    assert!(total["not_billable"]["wall_us"].as_u64() > Some(0), "{sums:#}");
    assert_eq!(total["billable"]["attempts"], 16, "{sums:#}");
    used.into_job().command(&["usage", "--verify", "leader"]).exits_with(0);
}

/// An agent that was paused until it was lost does no harm when it wakes, and may take part again.
#[test]
fn a_paused_node_is_given_up() {
    let mut cluster = Cluster::new();
    let running = begun(&mut cluster, "", "leader");
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
    let mut cluster = Cluster::new();
    let mut running = begun(&mut cluster, "ordered: true", "first");
    running.kill_leader();
    let ran = running.wait();
    std::fs::remove_dir_all(ran.dir().join("first")).unwrap();
    let ran = cluster.run(ran.into_job(), "second");
    assert_complete(&ran);
    // The nodes go on, and keep their ids.
    ran.says("note: node 0 (").says("note: node 1 (");
    assert!(!ran.stderr.contains("note: node 2 ("), "{ran}");
    // The second leader has continued the chain of receipts of the first one.
    let verified = ran.into_job().command(&["usage", "--verify", "second"]);
    verified.exits_with(0);
    let used = verified.into_job().command(&["usage", "--export", "usage.csv", "second"]);
    let text = used.text("usage.csv");
    let succeeded = text.lines().filter(|line| line.contains(",succeeded,")).count();
    let batches: std::collections::BTreeSet<&str> = text
        .lines()
        .filter(|line| line.contains(",succeeded,"))
        .filter_map(|line| line.split(',').find(|value| value.starts_with("attempt ")))
        .collect();
    assert_eq!(batches.len(), succeeded, "a mini-batch has two successes: {text}");
}

/// A node on which `init` always fails keeps its number, and a machine that waits does the work.
#[test]
fn a_node_without_init_is_replaced() {
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let job = job(1, "arguments: [--no-init-on, '0']");
    let ran = cluster.start(job, "leader", &[]).wait();
    assert_complete(&ran);
    ran.says("The job fails if no other node joins within 30 s").says("note: node 1 (");
}

/// The broker may lose everything.
#[test]
fn the_broker_may_die() {
    let mut cluster = Cluster::new();
    let running = begun(&mut cluster, "", "leader");
    cluster.broker.kill();
    thread::sleep(Duration::from_millis(300));
    cluster.broker.start_again();
    assert_complete(&running.wait());
}
