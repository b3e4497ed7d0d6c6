//! Jobs on several nodes without failures, and bad usage.

use crate::cluster::{
    Cluster, assert_complete, assert_files, expected_rows, job, job_of, rows, rows_of,
};
use rustix::process::Signal;
use sandmill_tests::{Broker, TestJob, guest, texts};

#[test]
fn three_nodes_run_one_job() {
    // So many that each node gets some.
    let files = 400;
    let job = job_of(files, 3, "");
    let mut cluster = Cluster::new();
    cluster.start_agents(3);
    let ran = cluster.run(job, "leader");
    ran.exits_with(0);
    assert_eq!(rows(&ran), rows_of(files));
    assert_files(&ran);
    for node in 0..3 {
        ran.says(&format!("note: node {node} (machine-"));
        assert!(ran.has(&format!("leader/logs/sys/node/{node}/_main.txt")), "{ran}");
        assert!(ran.has(&format!("leader/logs/perf/{node}/machine.json")), "{ran}");
        // The entry script wrote this file in its log folder.
        let first = format!("process{:03}", node * 100_000);
        let left = format!("leader/logs/user/entry_script_log/{node}/files/{first}.shutdown");
        assert!(ran.has(&left), "{ran}");
    }
    let nodes = ran.text("leader/logs/sys/job_report/node_summary.csv");
    assert_eq!(nodes.lines().count(), 4, "{nodes}");
    for number in 0..3 {
        cluster.agent(number).until("is over");
    }
    // The result is reused, and needs neither the broker nor a node.
    drop(cluster);
    let again = ran.into_job().command(&[
        "run",
        "job.yaml",
        "--job-dir",
        "leader",
        "--set",
        "node_count=1",
    ]);
    again.exits_with(0);
}

/// A job that finds no node says so and waits. It uses nodes that come later, and runs with fewer than it wants.
#[test]
fn a_job_waits_for_nodes() {
    let job = job(3, "first_task_creation_timeout: 1");
    let mut cluster = Cluster::new();
    let mut running = cluster.start(job, "leader", &[]);
    running.until("it says what it waits for", |running| {
        running.stderr_so_far().contains("note: the job waits, because no node takes part yet")
    });
    cluster.start_agents(1);
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(rows(&ran), expected_rows());
    ran.says("a machine whose policy has signers runs only signed jobs (--signing-key)");
}

/// An agent that is asked to end finishes what runs, gives back the rest, and exits with 41.
#[test]
fn an_agent_drains() {
    let job = job(2, "");
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let mut running = cluster.start(job, "leader", &[]);
    running.until("node 1 works", |running| running.stderr_so_far().contains("note: node 1 ("));
    let agent = cluster.agent_of(&running, 1);
    agent.signal(Signal::TERM);
    let status = agent.wait();
    assert_eq!(status.code(), Some(41), "{}", agent.said());
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}

#[test]
fn a_broker_that_cannot_be_used_is_named() {
    let silent = texts("echo_files").yaml("job_store: store\noutput: out").file("store/x", "");
    let ran = silent.run(&["--broker", "nats://127.0.0.1:9"]);
    ran.exits_with(2).says("127.0.0.1:9");
    let ran = TestJob::empty().command(&["node"]);
    ran.exits_with(2).says("--broker nats://HOST:4222");
    let broker = Broker::start_with("authorization { user: a, password: b }");
    let job = ran.into_job();
    let ran = job.command(&["node", "--broker", &broker.url()]);
    ran.exits_with(2);
    assert!(!ran.messages().contains("a:b"), "{ran}");
}

/// A machine that cannot run the job says why, and so does the leader.
#[test]
fn a_machine_that_cannot_run_the_job_declines() {
    let job = job(1, "").file("policy.yaml", "limits: {memory: 16 MB}\n");
    let mut cluster = Cluster::new();
    let policy = job.path("policy.yaml");
    let options = ["--policy", policy.to_str().unwrap()];
    let strict = cluster.other_agent(9, &options);
    strict.until("waits for jobs");
    let mut running = cluster.start(job, "leader", &["--set", "limits.memory=64 MB"]);
    running.until("the leader says why", |running| {
        running.stderr_so_far().contains("note: the machine machine-9 takes no part:")
    });
    strict.until("takes no part in the job");
    cluster.start_agents(1);
    let ran = running.wait();
    ran.exits_with(0).says("limits.memory");
}

/// Rows that are grouped by key are in files that the planner made. All nodes can read them.
#[test]
fn rows_are_grouped_by_key() {
    let rows: String = (0..600).map(|row| format!("{},{row}\n", row % 30)).collect();
    let job = TestJob::new(&guest("echo_table")).file("in.csv", format!("key,x\n{rows}")).yaml(
        "inputs: {t: {path: in.csv, format: csv}}\npartition_keys: [key]\n\
         process_count_per_node: 1\nnode_count: 2\noutput: shared/out\njob_store: shared/jobs",
    );
    std::fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let ran = cluster.run(job, "leader");
    ran.exits_with(0).says("mini-batches  30").says("rows          600");
}
