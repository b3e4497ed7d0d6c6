//! Runs the examples of the repository and compares their results with scikit-learn's predictions.

use sandmill_tests::{Ran, TestJob, root};
use std::fs;

/// Runs a job of an example, and compares its rows with the expected rows in the repository, in any order.
#[track_caller]
fn run(example: &str, job: &str, rows: usize) -> Ran {
    let folder = root().join("examples").join(example);
    let job = folder.join(job).display().to_string();
    let ran = TestJob::with_compilers().command(&["run", &job, "--job-dir", "job"]);
    ran.exits_with(0);
    let mut expected = Vec::new();
    for file in fs::read_dir(folder.join("expected")).expect("the example has expected rows") {
        let text = fs::read_to_string(file.expect("a folder can be listed").path());
        expected.extend(text.expect("rows are text").lines().map(str::to_owned));
    }
    expected.sort();
    // Make sure that the lists are not empty.
    assert_eq!(expected.len(), rows);
    assert!(ran.sorted_output() == expected, "the rows differ from the expected rows\n{ran}");
    ran
}

#[test]
fn digit_identification_equals_scikit_learn_for_all_digits() {
    let ran = run("digit-identification", "job.yaml", 1797);
    ran.says("items         1,797\n");
    // 1,797 files, 20 per mini-batch.
    ran.says("mini-batches  90\n");
}

#[test]
fn digit_identification_equals_scikit_learn_with_own_weights() {
    run("digit-identification", "job-weights.yaml", 1797);
}

#[test]
fn iris_equals_scikit_learn_for_all_flowers() {
    run("iris", "job.yaml", 150).says("rows          150\n");
}

#[test]
fn word_count_counts_as_wc_does() {
    run("word-count", "job.yaml", 8);
}

#[test]
fn word_count_counts_the_same_in_every_language() {
    for language in ["python", "javascript", "c"] {
        run("word-count", &format!("{language}/job.yaml"), 8);
    }
}

#[test]
fn iris_equals_scikit_learn_in_javascript() {
    run("iris", "javascript/job.yaml", 150);
}
