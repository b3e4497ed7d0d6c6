//! File inputs: which files are found, in which order, and the paths at which guests see them.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};

/// A job over a tree of files. `inputs`: the lines below `inputs:` in the job file.
fn tree(inputs: &str) -> TestJob {
    let mut job = TestJob::new(&guest("run_only")).yaml(&format!("inputs:\n{inputs}"));
    for file in [
        "in/b.txt",
        "in/a.txt",
        "in/c 10.txt",
        "in/c 9.txt",
        "in/é.txt",
        "in/deep/a.txt",
        "in/deep/er/b.md",
        "in/a.md",
        "other/z.txt",
        "other/y.txt",
    ] {
        job = job.file(file, "");
    }
    job
}

fn plan(inputs: &str, batch: usize) -> Ran {
    let ran =
        tree(inputs).command(&["plan", "job.yaml", "--set", &format!("mini_batch_size={batch}")]);
    ran.exits_with(0);
    assert!(!ran.has("jobs"), "a plan writes no files\n{ran}");
    ran
}

/// Rule M1 in docs/parallel-run-step.md.
#[test]
fn a_folder_input_includes_all_its_files() {
    let first = plan("  texts: in", 3);
    assert_snapshot!(first.stdout, @r"
    mini-batch  input      items  where
             0  texts          3  a.md .. b.txt
             1  texts          3  c 10.txt .. deep/a.txt
             2  texts          2  deep/er/b.md .. é.txt
    ");
    assert_eq!(
        first.stderr,
        "3 mini-batches, 8 items; 2 workers; the results go to jobs/test/output\n"
    );
    assert_eq!(first.stdout, plan("  texts: in/", 3).stdout, "the order is stable");
}

/// Rule C7.
#[test]
fn mini_batch_size_counts_files() {
    assert_eq!(plan("  texts: in", 1).stdout.lines().count(), 1 + 8);
    assert_eq!(plan("  texts: in", 7).stdout.lines().count(), 1 + 2);
    assert_eq!(plan("  texts: in", 8).stdout.lines().count(), 1 + 1);
    assert_eq!(plan("  texts: in", 1000).stdout.lines().count(), 1 + 1);
}

#[test]
fn globs_match_the_expected_files() {
    assert_snapshot!(plan("  texts: 'in/*.txt'", 1).stdout, @r"
    mini-batch  input      items  where
             0  texts          1  a.txt
             1  texts          1  b.txt
             2  texts          1  c 10.txt
             3  texts          1  c 9.txt
             4  texts          1  é.txt
    ");
    assert_snapshot!(plan("  texts: 'in/**/*.{md,txt}'", 20).stdout, @r"
    mini-batch  input      items  where
             0  texts          8  a.md .. é.txt
    ");
    assert_snapshot!(plan("  texts: 'in/**/b.*'", 1).stdout, @r"
    mini-batch  input      items  where
             0  texts          1  b.txt
             1  texts          1  deep/er/b.md
    ");
    assert_snapshot!(plan("  texts: 'in/[ab].txt'", 1).stdout, @r"
    mini-batch  input      items  where
             0  texts          1  a.txt
             1  texts          1  b.txt
    ");
}

/// Rules M1, C21.
#[test]
fn inputs_are_not_mixed_and_keep_their_order() {
    let inputs = "  second: {paths: [other/z.txt, in/deep, 'in/*.md']}\n  first: other";
    assert_snapshot!(plan(inputs, 2).stdout, @r"
    mini-batch  input       items  where
             0  second          1  z.txt
             1  second          2  a.txt .. er/b.md
             2  second          1  a.md
             3  first           2  y.txt .. z.txt
    ");
}

/// Rule E5.
#[test]
fn guests_see_folders_below_the_inputs_name() {
    let inputs =
        "  texts: in/deep\n  one: in/a.md\n  some: {paths: [other/z.txt, 'in/**/b.*', in/deep]}";
    let ran = tree(inputs)
        .yaml("process_count_per_node: 1")
        .run(&["--set", &format!("entry_script={}", guest("surroundings").display())]);
    ran.exits_with(0);
    let paths: Vec<String> = ran
        .output()
        .lines()
        .map(|row| row.split('|').take(3).collect::<Vec<_>>().join("|"))
        .collect();
    assert_snapshot!(paths.join("\n"), @r"
    /inputs/texts/a.txt|id=0|dataset=texts
    /inputs/texts/er/b.md|id=0|dataset=texts
    /inputs/one/a.md|id=1|dataset=one
    /inputs/some/0/z.txt|id=2|dataset=some
    /inputs/some/1/b.txt|id=3|dataset=some
    /inputs/some/1/deep/er/b.md|id=3|dataset=some
    /inputs/some/2/a.txt|id=4|dataset=some
    /inputs/some/2/er/b.md|id=4|dataset=some
    ");
}

#[test]
fn both_ways_of_reading_give_the_same_bytes() {
    let inputs = "  whole: in\n  picked: {paths: ['in/*.txt', other/y.txt]}";
    let output = |name: &str| {
        let ran = tree(inputs)
            .file("in/b.txt", "12345")
            .file("other/y.txt", "x".repeat(100_000))
            .run(&["--set", &format!("entry_script={}", guest(name).display())]);
        ran.exits_with(0);
        ran.sorted_output()
    };
    let through_the_host = output("echo_files");
    assert_eq!(through_the_host.len(), 8 + 6);
    assert_eq!(through_the_host.iter().filter(|row| *row == "b.txt: 5").count(), 2);
    assert!(through_the_host.contains(&"y.txt: 100000".to_owned()));
    assert_eq!(through_the_host, output("echo_fs"));
}
