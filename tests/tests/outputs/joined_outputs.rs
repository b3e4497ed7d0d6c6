//! `join`: each row of the output begins with the input's columns.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, python};
use std::process::Command;

/// Runs a job over three files. The second file fails.
fn files(settings: &str) -> Ran {
    TestJob::new(&guest("outcomes"))
        .yaml(&format!("inputs: {{texts: in}}\njoin: input\nerror_threshold: -1\n{settings}"))
        .file("in/a.txt", "1")
        .file("in/bad.txt", "22")
        .file("in/c, d.txt", "333")
        .run(&[])
}

#[test]
fn rows_are_joined_with_their_files() {
    let ran = files("output_format: {type: csv}");
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r#"
    file,value
    /inputs/texts/a.txt,a.txt: 1
    "/inputs/texts/c, d.txt","c, d.txt: 3"
    "#);
    let ran = files("output_format: {type: jsonl}");
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r#"
    {"file":"/inputs/texts/a.txt","value":"a.txt: 1"}
    {"file":"/inputs/texts/c, d.txt","value":"c, d.txt: 3"}
    "#);
    let ran = files("output_format: {type: parquet}");
    ran.exits_with(0);
    let code = "import sys, pandas as pd; print(pd.read_parquet(sys.argv[1]).to_csv(index=False))";
    let file = ran.dir().join("job/output/parallel_run_step.parquet");
    let output = Command::new(python()).args(["-c", code]).arg(file).output().unwrap();
    assert_snapshot!(String::from_utf8_lossy(&output.stdout), @r#"
    file,value
    /inputs/texts/a.txt,a.txt: 1
    "/inputs/texts/c, d.txt","c, d.txt: 3"
    "#);
}

/// A job whose entry script returns its input table unchanged.
fn tables(join: &str) -> Ran {
    TestJob::new(&guest("echo_table"))
        .yaml("inputs: {rows: {path: in.csv, format: csv}}\nrun_max_try: 1\nerror_threshold: -1")
        .yaml(&format!("output_format: {{type: csv}}\njoin: {join}"))
        .file("in.csv", "id,colour\n1,red\n2,blue\n")
        .run(&[])
}

#[test]
fn a_duplicate_or_unknown_column_is_reported() {
    let ran = tables("[id]");
    ran.exits_with(42)
        .says("the returned rows have a column \"id\", and join puts the input's column");
    let ran = tables("[key]");
    ran.exits_with(42).says("join names the column \"key\", which the input does not have; it has");
}
