//! Tests of the test harness with very simple jobs. Its reports about a run must be true.

use insta::assert_snapshot;
use sandmill_tests::{TestJob, guest, guests, python_guest};

const FILES: &str = "inputs: { files: input }\nmini_batch_size: 2\nprocess_count_per_node: 2";

fn three_files(job: TestJob) -> TestJob {
    job.yaml(FILES).file("input/a.txt", "").file("input/b.txt", "xx").file("input/c/d.txt", "y\n")
}

#[test]
fn a_job_runs_and_leaves_nothing_running() {
    let ran = three_files(TestJob::new(&guest("echo_files"))).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 3);
    assert!(ran.log("job_result.txt").contains("completed"), "{ran}");
}

#[test]
fn a_component_of_another_toolchain_runs() {
    let ran =
        three_files(TestJob::new(&python_guest()).yaml("arguments: [--prefix, '> ']")).run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.sorted_output().join("\n"), @r"
    > a.txt: 0
    > b.txt: 2
    > d.txt: 2
    ");
}

#[test]
fn every_guest_is_found_by_its_name() {
    for name in guests() {
        assert!(guest(&name).exists(), "{name}");
    }
    assert!(guests().contains(&"echo_table".to_owned()));
}
