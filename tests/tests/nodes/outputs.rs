//! Each kind of output, from three nodes of which one is killed.

use crate::cluster::{Cluster, expected_rows, expected_rows_in_order, job, rows_of_parts, sorted};
use sandmill_tests::Ran;

/// Runs a job with these lines on three nodes, and kills one of them as soon as it works.
fn run_with_a_kill(lines: &str) -> Ran {
    let job = job(3, lines);
    let mut cluster = Cluster::new();
    cluster.start_agents(3);
    let mut running = cluster.start(job, "leader", &[]);
    running.until("node 1 works", |running| running.stderr_so_far().contains("note: node 1 ("));
    cluster.agent_of(&running, 1).kill();
    let ran = running.wait();
    ran.exits_with(0);
    ran
}

#[test]
fn rows_in_order() {
    let ran = run_with_a_kill("ordered: true");
    let text = ran.text("shared/out/parallel_run_step.txt");
    assert_eq!(text.lines().collect::<Vec<_>>(), expected_rows_in_order());
}

#[test]
fn rows_in_parts() {
    let ran = run_with_a_kill("output_layout: parts");
    assert_eq!(rows_of_parts(&ran), expected_rows());
}

#[test]
fn rows_are_only_counted() {
    let ran = run_with_a_kill("output_action: summary_only");
    assert!(!ran.has("shared/out/parallel_run_step.txt"));
    ran.says("mini-batches  60");
}

#[test]
fn compressed_rows() {
    let ran = run_with_a_kill("output_format: {compression: gzip}");
    let packed =
        std::fs::File::open(ran.dir().join("shared/out/parallel_run_step.txt.gz")).unwrap();
    let unpacked = std::process::Command::new("gzip").arg("-dc").stdin(packed).output().unwrap();
    assert_eq!(sorted(&String::from_utf8(unpacked.stdout).unwrap()), expected_rows());
}

#[test]
fn files_that_are_appended_to() {
    let ran = run_with_a_kill("output_files: append");
    // Each file is written by one mini-batch, so it has its content once.
    crate::cluster::assert_files(&ran);
}
