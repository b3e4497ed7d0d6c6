//! Files that entry scripts write: they are published only if their attempt succeeded.

use sandmill_tests::{TestJob, guest};

fn writes_files() -> TestJob {
    TestJob::new(&guest("writes_files"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 1")
        .file("in/a.txt", "1")
        .file("in/b.txt", "22")
}

/// Rules F21, O7 in docs/parallel-run-step.md.
#[test]
fn files_are_published_beside_the_rows() {
    let ran = writes_files().run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "a.txt: 1\nb.txt: 2\n");
    assert_eq!(ran.text("job/output/a.txt.out"), "1");
    assert_eq!(ran.text("job/output/b.txt.out"), "2");
    assert_eq!(ran.text("job/output/batches/0.txt"), "attempt 1");
    // Written by shutdown.
    assert_eq!(ran.log("user/entry_script_log/0/files/process000.shutdown"), "done");
}

/// Rule O7.
#[test]
fn a_failed_attempt_leaves_no_files() {
    let ran = writes_files().run(&["--set", "arguments=[--fail]", "--set", "run_max_try=1"]);
    ran.exits_with(42);
    for file in ["a.txt.out", "b.txt.out", "batches/0.txt", "batches/1.txt"] {
        assert!(!ran.has(&format!("job/output/{file}")), "{file}\n{ran}");
    }
}

/// Rule O7.
#[test]
fn only_files_of_the_successful_attempt_are_published() {
    let ran = writes_files().run(&["--set", "arguments=[--fail]"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "a.txt: 1\nb.txt: 2\n");
    assert_eq!(ran.text("job/output/a.txt.out"), "1");
    assert_eq!(ran.text("job/output/batches/0.txt"), "attempt 2");
    assert_eq!(ran.text("job/output/batches/1.txt"), "attempt 2");
}

#[test]
fn the_output_folder_may_be_anywhere() {
    let ran =
        writes_files().run(&["--set", "output=results", "--set", "append_row_file_name=all.txt"]);
    ran.exits_with(0).says("results/all.txt");
    assert_eq!(ran.text("results/all.txt"), "a.txt: 1\nb.txt: 2\n");
    assert_eq!(ran.text("results/batches/1.txt"), "attempt 1");
    assert!(!ran.has("job/output/a.txt.out"));
}

/// Rules C13, O7, F21.
#[test]
fn summary_only_keeps_files_and_counts_rows() {
    let ran = writes_files().run(&["--set", "output_action=summary_only"]);
    ran.exits_with(0).says("items         2\n");
    assert!(!ran.has("job/output/parallel_run_step.txt"), "{ran}");
    assert_eq!(ran.text("job/output/b.txt.out"), "2");
}
