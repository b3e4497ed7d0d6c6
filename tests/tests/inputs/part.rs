//! Jobs over a part of their inputs, for a first try: `--limit` and `--sample`.

use insta::assert_snapshot;
use sandmill_tests::{TestJob, texts};
use std::path::Path;

/// A job over 100 rows, with ten rows per mini-batch.
fn rows() -> TestJob {
    let table: String = (0..100).map(|id| format!("{id}\n")).collect();
    TestJob::new(Path::new("score.py"))
        .yaml("inputs: {t: {path: t.csv, format: csv}}\npython: {runtime: light}\nmini_batch_size: 10 rows")
        .file("score.py", "def run(table):\n    return table['id']\n")
        .file("t.csv", format!("id\n{table}"))
}

#[test]
fn limit_takes_the_first_items() {
    let ran = texts("run_only").run(&["--limit", "2"]);
    ran.exits_with(0).says("only the first 2 items of each input are taken (--limit)");
    assert_eq!(ran.sorted_output(), ["a.txt", "b.txt"]);
    let ran = rows().run(&["--limit", "13"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 13);
    // The job records its limit. A resume uses the recorded limit, and a result is reused only if the limit
    // is the same.
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

/// `take` in an `MLTable` limits the rows of all files together.
#[test]
fn take_in_an_mltable_limits_the_rows() {
    let job = |reader: &str, ending: &str, files: [&str; 2]| {
        TestJob::new(Path::new("score.py"))
            .file("code/score.py", "def run(table):\n    return table['id']\n")
            .file(
                "azure.yml",
                "type: parallel\nname: take\ninputs: {t: {type: mltable, path: table, mode: direct}}\n\
                 input_data: ${{inputs.t}}\nmini_batch_size: 10kb\n\
                 task: {type: run_function, code: code, entry_script: score.py, append_row_to: '${{outputs.o}}'}\n\
                 outputs: {o: {type: uri_file}}\n",
            )
            .file(
                "table/MLTable",
                format!(
                    "paths: [{{pattern: ./*.{ending}}}]\ntransformations: [{reader}, {{take: 5}}]\n"
                ),
            )
            .file(&format!("table/a.{ending}"), files[0])
            .file(&format!("table/b.{ending}"), files[1])
    };
    let csv = ["id\n0\n1\n2\n", "id\n3\n4\n5\n6\n"];
    let lines = ["{\"id\":0}\n{\"id\":1}\n{\"id\":2}\n", "{\"id\":3}\n{\"id\":4}\n{\"id\":5}\n"];
    for (reader, ending, files) in
        [("read_delimited", "csv", csv), ("read_json_lines", "jsonl", lines)]
    {
        let light = "python.runtime=light";
        let ran = job(reader, ending, files).command(&[
            "run",
            "azure.yml",
            "--job-dir",
            "job",
            "--set",
            light,
        ]);
        ran.exits_with(0).says("items         5\n");
        assert_eq!(ran.sorted_output(), ["0", "1", "2", "3", "4"], "{ending}");
    }
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
fn limit_is_refused_with_partition_keys() {
    let groups = TestJob::new(Path::new("score.py"))
        .yaml("inputs: {f: {path: in, partition_format: '{user}/{file}.txt'}}\npartition_keys: [user]")
        .file("score.py", "def run(files):\n    return files\n")
        .file("in/ann/a.txt", "1")
        .file("in/bob/a.txt", "2");
    let limited = groups.run(&["--limit", "1"]);
    limited.exits_with(2);
    assert_snapshot!(limited.messages(), @"error: --limit cannot be used with partition_keys, because grouping needs all items; --sample 1% runs a share of the groups");
    let sampled = limited.into_job().run(&["--sample", "1%"]);
    sampled.exits_with(0);
    assert_eq!(sampled.sorted_output().len(), 1);
    let ran = texts("run_only").run(&["--sample", "0"]);
    ran.exits_with(2);
    assert_snapshot!(ran.messages(), @"error: --set sample: found 0; expected a number above 0 and up to 100, in percent (e.g. 1)");
}
