//! Agents that lead jobs: those that users submit, and those whose leader is lost.

use crate::cluster::{Cluster, is_alive, sorted};
use rustix::process::Signal;
use sandmill_tests::{Broker, Proxy, Ran, Running, TestJob, guest, root};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How many files a job has.
const FILES: usize = 60;

/// What an agent says when it leads the job.
const LEADS: &str = "leads the job test (";
/// What an agent says when the job that it leads has completed.
const COMPLETED: &str = "leads the job test no longer: exit status: 0";

/// A job that takes some seconds on two nodes.
fn slow_job() -> TestJob {
    let job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 2\nnode_count: 2\n\
         arguments: [--do, error, --on-batch, 9999, --nap, 150]\n\
         output: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    (0..FILES).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

/// Fails if the output does not have each row once.
#[track_caller]
fn assert_complete(job: &TestJob) {
    let text = fs::read_to_string(job.path("shared/out/parallel_run_step.txt")).unwrap();
    let mut expected: Vec<String> = (0..FILES).map(|n| format!("{n}.txt: {n}")).collect();
    expected.sort();
    assert_eq!(sorted(&text), expected);
}

/// How many rows are in the output.
fn rows_so_far(job: &TestJob) -> usize {
    let text = fs::read_to_string(job.path("shared/out/parallel_run_step.txt"));
    text.unwrap_or_default().lines().count()
}

/// Submits a job, and waits until it has some rows. Returns the job, and the number of the agent that leads it.
fn submitted(cluster: &mut Cluster, agents: usize) -> (TestJob, usize) {
    let job = slow_job();
    cluster.start_agents(agents);
    let ran = cluster.submit(&job, &[]);
    ran.exits_with(0).says("leads it");
    let leader = cluster.until_one_says(LEADS, None);
    let begun = Instant::now();
    while rows_so_far(&job) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", cluster.agent(leader).said());
        thread::sleep(Duration::from_millis(10));
    }
    (job, leader)
}

/// Waits until the job is completed, and checks its output. `but` no longer leads it.
#[track_caller]
fn until_completed(cluster: &Cluster, job: &TestJob, but: Option<usize>) {
    cluster.until_one_says(COMPLETED, but);
    assert_complete(job);
}

#[test]
fn a_submitted_job_needs_no_submitter() {
    let mut cluster = Cluster::new();
    let (job, leader) = submitted(&mut cluster, 2);
    assert!(rows_so_far(&job) < FILES, "it runs while the submitter has ended");
    // It is led once, by one agent.
    let ran = cluster.submit(&job, &[]);
    ran.exits_with(2).says(&format!("the machine machine-{leader} leads it"));
    until_completed(&cluster, &job, None);
    // The result is reused.
    let ran = cluster.submit(&job, &[]);
    ran.exits_with(0).says("led the job:");
    assert_complete(&job);
}

/// A killed leader loses nothing, and its agent lets the other one continue.
#[test]
fn an_agent_continues_after_a_killed_leader() {
    let mut cluster = Cluster::new();
    let (job, leader) = submitted(&mut cluster, 2);
    cluster.agent(leader).signal_leader(Signal::KILL);
    let begun = Instant::now();
    // It may be the same agent, if the other one has not joined yet.
    cluster.until_said(LEADS, 2);
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    until_completed(&cluster, &job, None);
    cluster.agent(leader).until("the leader of the job test is lost");
}

/// If the machine of the leader is lost, other agents notice its silence.
#[test]
fn another_agent_continues_after_a_killed_agent() {
    let mut cluster = Cluster::new();
    let (job, leader) = submitted(&mut cluster, 3);
    let agent = cluster.agent(leader);
    let process = agent.leaders()[0];
    agent.kill();
    let begun = Instant::now();
    cluster.until_one_says(LEADS, Some(leader));
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    assert!(!is_alive(process), "the leader ends with its agent");
    until_completed(&cluster, &job, Some(leader));
}

/// If all agents were lost, an agent that comes later finds the job in its store.
#[test]
fn an_agent_continues_a_job_in_a_store() {
    let mut cluster = Cluster::new();
    let (job, leader) = submitted(&mut cluster, 1);
    cluster.agent(leader).kill();
    let store = job.path("shared/jobs");
    let later = cluster.other_agent(9, &["--store", store.to_str().unwrap()]);
    later.until(COMPLETED);
    assert_complete(&job);
}

/// An agent that is asked to end finishes its mini-batches, and hands over the jobs that it leads.
#[test]
fn an_agent_that_drains_hands_over() {
    let mut cluster = Cluster::new();
    let (job, leader) = submitted(&mut cluster, 2);
    let agent = cluster.agent(leader);
    // A service manager may send the signal to all processes. It must not cancel the job.
    agent.signal_leader(Signal::TERM);
    agent.signal(Signal::TERM);
    let status = agent.wait();
    assert_eq!(status.code(), Some(41), "{}", agent.said());
    agent.until("hands over the job test");
    until_completed(&cluster, &job, Some(leader));
}

/// A leader that is only paused keeps its lock on the output folder, so its agent kills it.
#[test]
fn a_paused_leader_is_replaced() {
    let mut cluster = Cluster::new();
    let (job, leader) = submitted(&mut cluster, 2);
    cluster.agent(leader).signal_leader(Signal::STOP);
    cluster.agent(leader).until("was silent, and was killed");
    until_completed(&cluster, &job, None);
}

/// Begins a job whose leader is not started by an agent, and waits until it has some rows.
fn attached(cluster: &mut Cluster) -> Running {
    cluster.start_agents(2);
    let mut running = cluster.start(slow_job(), "leader", &[]);
    running.until("there are rows", has_rows);
    running
}

/// Whether the output has some rows.
fn has_rows(running: &Running) -> bool {
    let path = running.dir().join("shared/out/parallel_run_step.txt");
    fs::read_to_string(path).is_ok_and(|text| !text.is_empty())
}

/// The leader of a user is replaced, too, if it is lost.
#[test]
fn agents_continue_the_job_of_a_killed_user() {
    let mut cluster = Cluster::new();
    let mut running = attached(&mut cluster);
    running.kill_leader();
    // `wait` would kill the workers of agents.
    cluster.until_one_says(COMPLETED, None);
    let job = running.wait().into_job();
    assert_complete(&job);
}

/// If the leader of a user is paused, an agent waits for its lock. When the leader wakes, it goes on.
#[test]
fn a_leader_that_wakes_goes_on() {
    let mut cluster = Cluster::new();
    let running = attached(&mut cluster);
    let leader = rustix::process::Pid::from_raw(running.pid().cast_signed()).unwrap();
    rustix::process::kill_process(leader, Signal::STOP).unwrap();
    cluster.until_one_says("the leader of the job test is lost, and this machine takes over", None);
    thread::sleep(Duration::from_millis(500));
    rustix::process::kill_process(leader, Signal::CONT).unwrap();
    cluster.until_one_says("this machine does not take over", None);
    let ran = running.wait();
    assert_eq!(ran.code, 0, "{ran}");
    assert_complete(&ran.into_job());
}

/// A leader that is cut off from the broker, but not from the shared folder, notices that an agent waits for its
/// lock, and gives way.
#[test]
fn a_leader_that_is_cut_off_gives_way() {
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let proxy = Proxy::to(cluster.broker.port);
    let options = ["run", "job.yaml", "--job-dir", "leader", "--node-timeout", "2"];
    let mut running = slow_job().spawn(&[&options[..], &["--broker", &proxy.url()]].concat());
    running.until("there are rows", has_rows);
    proxy.cut();
    cluster.until_one_says(COMPLETED, None);
    let ran = running.wait();
    assert_eq!(ran.code, 42, "{ran}");
    ran.says("another process waits to lead the job");
    assert_complete(&ran.into_job());
}

/// A job that a user ends is not continued.
#[test]
fn a_cancelled_job_is_not_continued() {
    let mut cluster = Cluster::new();
    let running = attached(&mut cluster);
    running.interrupt();
    let ran: Ran = running.wait();
    assert_eq!(ran.code, 130, "{ran}");
    thread::sleep(Duration::from_secs(4));
    for number in 0..2 {
        let said = cluster.agent(number).said();
        assert!(!said.contains("takes over"), "{said}");
    }
}

/// A leader that was replaced ends, even if it has neither nodes nor anything to commit.
#[test]
fn a_replaced_leader_notices() {
    let mut cluster = Cluster::new();
    let mut first = cluster.start(slow_job(), "first", &["--no-takeover"]);
    first.until("it leads the job", |running| {
        let store = running.dir().join("shared/jobs/test");
        let runs = fs::read_dir(store).into_iter().flatten().flatten();
        runs.into_iter().any(|run| run.path().join("workers/nodes").exists())
            || running.dir().join("first/logs/sys").exists()
    });
    thread::sleep(Duration::from_millis(500));
    // As if the shared folder had lost the lock.
    let output = first.dir().join("shared/out");
    fs::rename(&output, first.dir().join("shared/old")).unwrap();
    let file = first.dir().join("job.yaml").display().to_string();
    let options = cluster.options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let second = TestJob::empty()
        .spawn(&[&["run", &file, "--job-dir", "second", "--no-takeover"], &*options].concat());
    let ran = first.wait();
    assert_eq!(ran.code, 42, "{ran}");
    ran.says("another process leads the job now");
    ran.says("what to do    nothing: the other process continues the job");
    cluster.start_agents(2);
    let second = second.wait();
    assert_eq!(second.code, 0, "{second}");
    assert_complete(&ran.into_job());
}

#[test]
fn a_job_that_no_machine_can_lead_is_refused() {
    let cluster = Cluster::new();
    let job = slow_job();
    cluster.submit(&job, &[]).exits_with(2).says("no machine answers that could lead the job");
    let agent = cluster.other_agent(9, &["--no-lead"]);
    agent.until("waits for jobs");
    cluster.submit(&job, &[]).exits_with(2).says("no machine answers that could lead the job");
    // The job is checked here first, and needs no agent for that.
    let ran = cluster.submit(&job, &["--set", "mini_batch_size=many", "--set", "nodes=3"]);
    ran.exits_with(2).says("mini_batch_size").says("nodes");
    let ran = TestJob::empty().command(&["run", "job.yaml", "--detach"]);
    ran.exits_with(2).says("--detach: no broker is given");
}

/// The logins of the documentation are sufficient. An agent whose login may not lead says so.
#[test]
fn the_documented_permissions_are_sufficient() {
    let page = fs::read_to_string(root().join("docs/nodes.md")).unwrap();
    let mut blocks = page.split("```text\n");
    let config = blocks.find(|block| block.starts_with("# nats-server.conf")).unwrap();
    let cluster = Cluster::on(Broker::start_with(config.split("```").next().unwrap()));
    let node = cluster.agent_as("node", 0);
    node.until("warning: this machine leads no jobs: the broker refuses");
    let leading = cluster.agent_as("leading", 1);
    leading.until("machine-1 waits for jobs");
    let submitted = slow_job();
    let file = submitted.path("job.yaml").display().to_string();
    let url = |user: &str| cluster.broker.url_for(user, "...");
    let ran = TestJob::empty().command(&["run", &file, "--detach", "--broker", &url("submitter")]);
    ran.exits_with(0).says("the machine machine-1 leads it");
    let ran = slow_job().command(&["run", "job.yaml", "--broker", &url("leader")]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_complete(&ran.into_job());
    leading.until(COMPLETED);
    assert_complete(&submitted);
    node.until("the job test is over");
}

/// If the machine that was chosen cannot lead the job, the user learns why.
#[test]
fn a_leader_that_cannot_begin_says_why() {
    let cluster = Cluster::new();
    let job = slow_job().file("policy.yaml", "limits: {memory: 16 MB}\n");
    let policy = job.path("policy.yaml");
    let agent = cluster.other_agent(9, &["--policy", policy.to_str().unwrap()]);
    agent.until("waits for jobs");
    let ran = cluster.submit(&job, &["--set", "limits.memory=64 MB"]);
    ran.exits_with(2).says("no machine leads the job: machine-9: ").says("limits.memory");
    agent.until("cannot lead the job test");
}
