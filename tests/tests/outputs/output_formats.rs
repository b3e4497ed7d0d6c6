//! The formats of rows in the output file: as ParallelRunStep writes them, and as CSV or JSON lines.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};

/// Runs a job with five mini-batches of one row. Its entry script returns its input table unchanged.
fn tables(settings: &str) -> Ran {
    let mut job = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{rows: {{path: in, format: csv}}}}\nprocess_count_per_node: 1\n{settings}"
    ));
    for (number, row) in [
        "1,two words,true,0.5",
        "2,\"say \"\"hi\"\"\",false,1e20",
        "3,,,",
        "4,x,true,1",
        "5,a;b,,2",
    ]
    .iter()
    .enumerate()
    {
        job = job.file(&format!("in/{number}.csv"), format!("id,the text,good,width\n{row}\n"));
    }
    job.run(&[])
}

/// Runs a job whose entry script returns `NAME: BYTES` for each file.
fn rows(settings: &str) -> Ran {
    TestJob::new(&guest("echo_files"))
        .yaml(&format!("inputs: {{texts: in}}\nprocess_count_per_node: 1\n{settings}"))
        .file("in/a.txt", "1")
        .file("in/b,\"c\".txt", "22")
        .run(&[])
}

#[track_caller]
fn output(ran: &Ran) -> String {
    ran.exits_with(0).output().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Rules O1, O2 in docs/parallel-run-step.md.
#[test]
fn text_is_the_default_format() {
    assert_eq!(output(&rows("")), "a.txt: 1\nb,\"c\".txt: 2\n");
    let text = output(&tables(""));
    assert_snapshot!(text, @r#"
    1 "two words" True 0.5
    2 "say ""hi""" False 1e+20
    3
    4 x True 1.0
    5 a;b  2.0
    "#);
    assert_eq!(output(&tables("output_format: {type: text}")), text);
}

/// Rules O3, A9: the names of the columns are only in the first line, also with several mini-batches.
#[test]
fn tables_as_csv() {
    assert_snapshot!(output(&tables("output_format: {type: csv}")), @r#"
    id,the text,good,width
    1,two words,True,0.5
    2,"say ""hi""",False,1e+20
    3,,,
    4,x,True,1.0
    5,a;b,,2.0
    "#);
    let settings =
        "output_format: {type: csv, delimiter: ';', quoting: nonnumeric, null_value: NA}";
    assert_snapshot!(output(&tables(settings)), @r#"
    "id";"the text";"good";"width"
    1;"two words";True;0.5
    2;"say ""hi""";False;1e+20
    3;"NA";"NA";"NA"
    4;"x";True;1.0
    5;"a;b";"NA";2.0
    "#);
    let settings = "output_format: {type: csv, header: false, quoting: all}";
    assert_snapshot!(output(&tables(settings)), @r#"
    "1","two words","True","0.5"
    "2","say ""hi""","False","1e+20"
    "3","","",""
    "4","x","True","1.0"
    "5","a;b","","2.0"
    "#);
}

/// Rule A9.
#[test]
fn append_row_dataframe_header_puts_names_at_the_top() {
    let text = output(&tables("append_row_dataframe_header: true"));
    assert!(text.starts_with("id \"the text\" good width\n1 "), "{text}");
    assert_eq!(text.matches("width").count(), 1, "{text}");
}

#[test]
fn tables_as_json_lines() {
    assert_snapshot!(output(&tables("output_format: {type: jsonl}")), @r#"
    {"id":1,"the text":"two words","good":true,"width":0.5}
    {"id":2,"the text":"say \"hi\"","good":false,"width":1e+20}
    {"id":3,"the text":null,"good":null,"width":null}
    {"id":4,"the text":"x","good":true,"width":1.0}
    {"id":5,"the text":"a;b","good":null,"width":2.0}
    "#);
}

/// Rule O1: each row of text is a single field or JSON string.
#[test]
fn rows_of_text_as_csv_and_json_lines() {
    assert_snapshot!(output(&rows("output_format: {type: csv}")), @r#"
    a.txt: 1
    "b,""c"".txt: 2"
    "#);
    assert_snapshot!(output(&rows("output_format: {type: jsonl}")), @r#"
    "a.txt: 1"
    "b,\"c\".txt: 2"
    "#);
}

#[test]
fn a_value_that_needs_quotes_fails_without_quoting() {
    let settings = "output_format: {type: csv, quoting: none, delimiter: ';'}\nrun_max_try: 1\n\
                    error_threshold: 2";
    let ran = tables(settings);
    assert_snapshot!(output(&ran), @"
    id;the text;good;width
    1;two words;True;0.5
    3;;;
    4;x;True;1.0
    ");
    assert_eq!(ran.attempts("bad_results"), ["1, 1", "4, 1"], "{ran}");
    ran.says("and output_format.quoting is none");
}
