//! Machines that have other files than the leader at the paths of an input, because a folder is not shared or not mounted.

use crate::cluster::Cluster;
use sandmill_tests::{Ran, TestJob, guest};
use std::fs;

const FILES: usize = 20;

/// A job whose input has files of two bytes, and a folder with other contents under the same names.
fn job() -> TestJob {
    let lines = "inputs: {texts: in}\njob_store: store\noutput: shared\nmini_batch_size: 1\nprocess_count_per_node: 1\n\
                 arguments: [--nap, '50']\nnode_count: 2";
    let files = 0..FILES;
    let job = files.fold(TestJob::new(&guest("writes_files")).yaml(lines), |job, file| {
        let job = job.file(&format!("in/{file:02}.txt"), "ab");
        job.file(&format!("other/{file:02}.txt"), "older")
    });
    for folder in ["empty", "store"] {
        fs::create_dir(job.path(folder)).unwrap();
    }
    job
}

fn rows(ran: &Ran) -> Vec<String> {
    let text = fs::read_to_string(ran.dir().join("shared/parallel_run_step.txt")).unwrap();
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// A machine with other files gives no rows. The other one makes them all.
fn other_files_give_no_rows(other: &str) {
    let mut cluster = Cluster::new();
    let job = job();
    if !cluster.add_agent_with_folder(&job.path("in"), &job.path(other)) {
        return;
    }
    cluster.start_agents(1);
    let ran = cluster.run(job, "leader");
    ran.exits_with(0);
    let rows = rows(&ran);
    assert_eq!(rows.len(), FILES, "{ran}");
    assert!(rows.iter().all(|row| row.ends_with(": 2")), "{rows:?}");
    ran.says("is not what the leader's machine has there (2 bytes");
    ran.says("machine-0");
}

#[test]
fn a_machine_with_older_files_gives_no_rows() {
    other_files_give_no_rows("other");
}

#[test]
fn a_machine_without_the_folder_gives_no_rows() {
    other_files_give_no_rows("empty");
}

/// If every machine has other files, the job fails and says why.
#[test]
fn a_job_fails_if_all_machines_have_other_files() {
    let mut cluster = Cluster::new();
    let job = job();
    if !cluster.add_agent_with_folder(&job.path("in"), &job.path("other")) {
        return;
    }
    cluster.add_agent_with_folder(&job.path("in"), &job.path("other"));
    let ran = cluster.run(job, "leader");
    ran.exits_with(42);
    ran.says("is not what the leader's machine has there (2 bytes");
}
