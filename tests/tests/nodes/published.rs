//! A leader is stopped between the end of its job in the commit log and the publication of the results. Meanwhile, other
//! leaders publish the same results and those of a later run. When it wakes, it must leave them as they are.

use crate::cluster::{Cluster, sorted};
use crate::stored::{cluster, rows};
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Ran, Running, Server, TestJob, guest};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// How many files the input of the first run has. The later run has one more.
const FILES: usize = 8;
/// How long a test waits for something at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job with rows, for two nodes.
fn job(stores: &str) -> TestJob {
    let job = TestJob::new(&guest("hostile_files")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 1\nnode_count: 2\n\
         arguments: [--do, error, --on-batch, 9999]\n{stores}"
    ));
    (0..FILES).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

fn expected(files: usize) -> Vec<String> {
    (0..files).map(|number| format!("{number}.txt: {number}")).collect()
}

/// Starts the job, and waits until its leader has stopped itself at this fail point.
pub(crate) fn stopped_at(
    cluster: &Cluster,
    job: TestJob,
    point: &str,
    options: &[&str],
) -> Running {
    let job = job.env("SANDMILL_FAIL_POINT", &format!("{point}:1:stop"));
    let mut running = cluster.start(job, "first", options);
    running.until("the leader has stopped", |running| is_stopped(running.pid()));
    running
}

fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| stat.contains(") T "))
}

fn wake(running: &Running) {
    kill_process(Pid::from_raw(running.pid().cast_signed()).unwrap(), Signal::CONT).unwrap();
}

/// Starts the job in this folder over on another machine, which has these environment variables, too.
fn start_over(cluster: &Cluster, folder: &Path, variables: Vec<(String, String)>) -> Output {
    let mut command = Command::new(sandmill_tests::sandmill());
    command.args(["run", "job.yaml", "--job-dir", "second", "--overwrite"]);
    command.args(cluster.options()).current_dir(folder).envs(variables);
    command.env("SANDMILL_CACHE_DIR", sandmill_tests::root().join("target/test-cache"));
    command.output().unwrap()
}

#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// An agent publishes the results of a leader that has stopped at this fail point. Then the job runs once more, with another
/// input. Returns what the first leader did when it woke, and the rows in the store.
fn wakes_after_a_later_run(point: &str) -> (Ran, Vec<String>) {
    let moto = Server::moto();
    moto.put("/box", "");
    let mut cluster = cluster(&moto);
    cluster.start_agents(2);
    let job = moto.opened_for(job("output: s3://box/results\njob_store: s3://box/jobs\n"));
    let running = stopped_at(&cluster, job, point, &[]);
    assert_eq!(moto.names("box", "results/"), [""; 0], "it has not published anything");
    until("another leader publishes the results", || sorted(&rows(&moto)) == expected(FILES));
    fs::write(running.dir().join(format!("in/{FILES}.txt")), "x".repeat(FILES)).unwrap();
    let later = start_over(&cluster, running.dir(), Server::variables(moto.port));
    assert_eq!(later.status.code(), Some(0), "{}", String::from_utf8_lossy(&later.stderr));
    assert_eq!(sorted(&rows(&moto)), expected(FILES + 1));
    wake(&running);
    let ran = running.wait();
    let left = sorted(&rows(&moto));
    (ran, left)
}

#[test]
fn a_leader_that_wakes_leaves_the_results_of_a_later_run() {
    let (ran, left) = wakes_after_a_later_run("finished");
    assert_eq!(left, expected(FILES + 1), "{ran}");
    ran.exits_with(42).says("another process continues the job, or has started it over");
}

#[test]
fn a_leader_that_wakes_while_it_publishes_leaves_the_results_of_a_later_run() {
    let (ran, left) = wakes_after_a_later_run("results-publishing");
    assert_eq!(left, expected(FILES + 1), "{ran}");
    assert_ne!(ran.code, 0, "{ran}");
}

/// In a shared folder, the results are there before the end is in the log. No other leader can begin while the stopped one
/// lives: it locks the output folder.
#[test]
fn a_stopped_leader_keeps_its_output_folder() {
    let mut cluster = Cluster::new();
    cluster.start_agents(2);
    let job = job("output: shared/out\njob_store: shared/jobs\n");
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let running = stopped_at(&cluster, job, "finished", &["--no-takeover"]);
    let output = running.dir().join("shared/out/parallel_run_step.txt");
    assert_eq!(sorted(&fs::read_to_string(output).unwrap()), expected(FILES));
    fs::write(running.dir().join(format!("in/{FILES}.txt")), "x".repeat(FILES)).unwrap();
    let again = |folder: &Path| start_over(&cluster, folder, Vec::new());
    let refused = again(running.dir());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("is running: process {} on", running.pid())), "{said}");
    wake(&running);
    let ran = running.wait();
    assert_eq!(ran.code, 0, "{ran}");
    let later = again(ran.dir());
    assert_eq!(later.status.code(), Some(0), "{}", String::from_utf8_lossy(&later.stderr));
    assert_eq!(sorted(&ran.text("shared/out/parallel_run_step.txt")), expected(FILES + 1), "{ran}");
}
