//! A leader that continues a job: what the nodes run goes on, and the plan is not made again.

use crate::cluster::{Cluster, sorted};
use rustix::process::Signal;
use sandmill_tests::{Elsewhere, TestJob, guest};
use std::fs;

/// How many mini-batches run for some seconds.
const SLOW: usize = 4;

/// The workers go on while their leader is lost, and another one takes over what they do. No mini-batch begins twice.
#[test]
fn running_attempts_go_on() {
    let mut cluster = Cluster::new();
    let job = TestJob::new(&guest("surroundings")).yaml(
        "inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 1\nnode_count: 2\n\
         arguments: [--nap, '6000']\noutput: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let job = (0..SLOW).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x"));
    cluster.start_agents(2);
    // An agent leads the job, because the end of a command in a test also ends all workers.
    cluster.submit(&job, &[]).exits_with(0);
    let leader = cluster.until_one_says("leads the job test (", None);
    let other = Elsewhere::new(&job.path("shared/jobs"));
    let begins =
        |text: &str, number: usize| text.matches(&format!("\nrun {number} attempt 1\n")).count();
    let all_begun = |text: &str| (0..SLOW).map(|number| begins(text, number)).sum::<usize>();
    other.until(&["logs", "test"], |seen| all_begun(&seen.stdout) >= 2);
    cluster.agent(leader).signal_leader(Signal::KILL);
    cluster.until_one_says("leads the job test no longer: exit status: 0", None);
    for number in 0..2 {
        cluster.agent(number).until("the job test has another leader; the workers here go on");
    }
    let rows = fs::read_to_string(job.path("shared/out/parallel_run_step.txt")).unwrap();
    assert_eq!(rows.lines().count(), SLOW, "{rows}");
    let logs = other.run(&["logs", "test"]).stdout;
    for number in 0..SLOW {
        assert_eq!(begins(&logs, number), 1, "{number}: {logs}");
    }
}

/// A leader is lost while a table is half planned, and another one continues with short mini-batches.
#[test]
fn a_half_planned_table_is_continued() {
    const ROWS: usize = 4000;
    let mut cluster = Cluster::new();
    let job = TestJob::new(&guest("echo_table")).yaml(
        "inputs: {rows: {path: in.csv, format: csv}}\nmini_batch_size: 1 rows\n\
         process_count_per_node: 2\nnode_count: 2\narguments: [--rows]\noutput: shared/out\n\
         job_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let text: String = (0..ROWS).map(|number| format!("{number}\n")).collect();
    let job = job.file("in.csv", format!("id\n{text}")).env("SANDMILL_FAIL_POINT", "journaled:3");
    cluster.start_agents(2);
    let ran = cluster.start(job, "leader", &["--no-takeover"]).wait();
    assert_eq!(ran.code, -9, "{ran}");
    let ran = cluster.run(ran.into_job().env("SANDMILL_FAIL_POINT", ""), "second");
    assert_eq!(ran.code, 0, "{ran}");
    let mut expected: Vec<String> = (0..ROWS).map(|number| number.to_string()).collect();
    expected.sort();
    assert_eq!(sorted(&ran.text("shared/out/parallel_run_step.txt")), expected, "{ran}");
}
