//! A job over a part of its inputs, for a first try: `--limit` and `--sample`.

use insta::assert_snapshot;
use sandmill_tests::{Job, texts};
use std::path::Path;

/// A job over 100 rows in mini-batches of ten.
fn rows() -> Job {
    let table: String = (0..100).map(|id| format!("{id}\n")).collect();
    Job::new(Path::new("score.py"))
        .yaml("inputs: {t: {path: t.csv, format: csv}}\npython: {runtime: light}\nmini_batch_size: 10 rows")
        .file("score.py", "def run(table):\n    return table['id']\n")
        .file("t.csv", format!("id\n{table}"))
}

#[test]
fn the_first_items_are_taken() {
    let ran = texts("run_only").run(&["--limit", "2"]);
    ran.exits_with(0).says("only the first 2 items of each input are taken (--limit)");
    assert_eq!(ran.sorted_output(), ["a.txt", "b.txt"]);
    let ran = rows().run(&["--limit", "13"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 13);
    // The limit is a part of what is resumed, and of what a result is reused for.
    let again = ran.into_job().run(&["--limit", "13"]);
    again.exits_with(0).says("reused, as nothing has changed since");
    let stopped = rows()
        .env("SANDMILL_FAIL_POINT", "end-committed")
        .run(&["--limit", "13"])
        .into_job()
        .env("SANDMILL_FAIL_POINT", "");
    let resumed = stopped.resume(&[]);
    resumed.exits_with(0);
    assert_eq!(resumed.sorted_output().len(), 13);
}

#[test]
fn a_sample_is_the_same_in_each_run() {
    let sample = || {
        let ran = rows().run(&["--sample", "30%"]);
        ran.exits_with(0).says("about 30 % of the mini-batches are run (sample)");
        ran.sorted_output()
    };
    let first = sample();
    assert!(first.len() < 100 && first.contains(&"0".to_owned()), "{first:?}");
    assert_eq!(first, sample());
}

#[test]
fn what_has_no_first_items_says_so() {
    let groups = Job::new(Path::new("score.py"))
        .yaml("inputs: {f: {path: in, partition_format: '{user}/{file}.txt'}}\npartition_keys: [user]")
        .file("score.py", "def run(files):\n    return files\n")
        .file("in/ann/a.txt", "1")
        .file("in/bob/a.txt", "2");
    let limited = groups.run(&["--limit", "1"]);
    limited.exits_with(2);
    assert_snapshot!(limited.told(), @"error: --limit does not go with partition_keys, as groups are made of all items; --sample 1% runs a share of the groups");
    let sampled = limited.into_job().run(&["--sample", "1%"]);
    sampled.exits_with(0);
    assert_eq!(sampled.sorted_output().len(), 1);
    let ran = texts("run_only").run(&["--sample", "0"]);
    ran.exits_with(2);
    assert_snapshot!(ran.told(), @"error: --set sample: found 0; expected a number above 0 and up to 100, in percent (e.g. 1)");
}
