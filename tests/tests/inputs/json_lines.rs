//! JSON lines in practice: long numbers, keys that appear late, values of different types, and JSON documents
//! that are not JSON lines.

#![cfg(unix)]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};

/// A job for one worker over `file` in the folder `input`, with JSON lines as output.
fn job(file: &str, text: impl AsRef<[u8]>) -> TestJob {
    TestJob::new(&guest("echo_table"))
        .yaml(
            "inputs: { rows: { path: input, format: jsonl } }\n\
             process_count_per_node: 1\n\
             ordered: true\n\
             output_format: { type: jsonl }\n\
             mini_batch_size: 4 KB",
        )
        .file(&format!("input/{file}"), text)
}

/// The notes on stderr.
fn notes(ran: &Ran) -> String {
    let messages = ran.messages();
    messages.lines().filter(|line| line.starts_with("note: ")).collect::<Vec<_>>().join("\n")
}

/// DuckDB, polars and pandas give the same values.
#[test]
fn long_numbers_keep_their_digits() {
    let text = "{\"id\":9007199254740993,\"x\":0.5}\n{\"id\":18446744073709551615,\"x\":9007199254740993}\n";
    let ran = job("ids.jsonl", text).run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r#"
    {"id":9007199254740993,"x":"0.5"}
    {"id":18446744073709551615,"x":"9007199254740993"}
    "#);
    assert_snapshot!(notes(&ran), @"note: input rows: column 'x' is string (all digits are kept): it holds fractions, and whole numbers that float64 would round: ids.jsonl, about line 2");
    // The types in the note can be set in the job file.
    let typed = ["--overwrite", "--set", "inputs.rows.schema={id: uint64, x: json}"];
    let ran = ran.into_job().run(&typed);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r#"
    {"id":9007199254740993,"x":"0.5"}
    {"id":18446744073709551615,"x":"9007199254740993"}
    "#);
}

#[test]
fn columns_of_mixed_shapes_are_kept_as_json() {
    let text = "{\"type\":\"Point\",\"coordinates\":[1.0,2.0],\"bbox\":{}}\n\
        {\"type\":\"LineString\",\"coordinates\":[[0.0,0.0],[1.0,1.0]],\"bbox\":{}}\n";
    let ran = job("a.geojsonl", text).run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r#"
    {"type":"Point","coordinates":"[1.0,2.0]","bbox":"{}"}
    {"type":"LineString","coordinates":"[[0.0,0.0],[1.0,1.0]]","bbox":"{}"}
    "#);
    assert_snapshot!(notes(&ran), @"note: input rows: column 'coordinates' is json (the text of each value is kept): it holds a list here, and another kind of value before: a.geojsonl, about line 2");
    // Other output formats also accept such columns.
    for format in ["parquet", "arrow", "csv"] {
        let format = format!("output_format.type={format}");
        let ran = job("a.geojsonl", text).run(&["--set", &format]);
        ran.exits_with(0);
    }
    let ran = job("a.csv", "a\n{}\n").run(&[
        "--set",
        "inputs.rows.format=csv",
        "--set",
        "inputs.rows.schema={a: json}",
    ]);
    ran.exits_with(2);
    assert_snapshot!(ran.messages(), @r#"error: --set inputs.rows.schema: column "a" is json, which is for inputs of format jsonl only; write string, which gives the entry script the field's text"#);
}

/// Sandmill infers the columns from the first rows. It leaves out keys that appear only in later
/// rows, and counts the records with such keys. With `schema_inference: full`, these keys become
/// columns, as in pyarrow and pandas.
#[test]
fn keys_after_the_inferred_rows_are_counted() {
    let early = (0..60_000).map(|id| format!("{{\"a\":{id},\"o\":{{\"x\":1}}}}\n"));
    let late = (0..100).map(|id| format!("{{\"a\":{id},\"b\":{id}}}\n"));
    let later = (0..50).map(|id| format!("{{\"a\":{id},\"o\":{{\"y\":[]}}}}\n"));
    let text: String = early.chain(late).chain(later).collect();
    let ran = job("late.jsonl", text).run(&["--set", "mini_batch_size=64 KB"]);
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 60_150);
    assert_snapshot!(notes(&ran), @"
    note: input rows: records have keys that match none of its columns and are left out of the table: 'b', 'o.y', first in /inputs/rows/late.jsonl, line 60001; the columns were inferred from earlier rows. Set schema_inference to full, or name all columns in schema (json takes any value)
    note: input rows: 150 records had keys that match none of its columns: 'b', 'o.y'
    ");
    let ran = ran.into_job().run(&["--overwrite", "--set", "schema_inference=full"]);
    ran.exits_with(0);
    assert_snapshot!(notes(&ran), @"note: changed since the last run: columns of input rows: a int64, o object, b int64");
    assert_eq!(ran.output().matches("\"b\":").count(), 60_150);
}

#[test]
fn a_json_document_is_reported_once() {
    let text = "[\n  {\n    \"id\": 1\n  },\n  {\n    \"id\": 2\n  }\n]\n";
    let ran = job("a.json", text).run(&[]);
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    note: a file cannot be read, so its mini-batch fails: [DIR]/input/a.json is one JSON list over several lines, and format jsonl takes one object on each line; convert the file: jq -c '.[]' [DIR]/input/a.json > a-lines.jsonl (jq before 1.7 rounds long numbers), and use a-lines.jsonl as the input's path
    note: input rows: its only file cannot be read as jsonl; check its format and its path
    mini-batch 0, attempt 1 ([WORKER]): [DIR]/input/a.json is one JSON list over several lines, and format jsonl takes one object on each line; convert the file: jq -c '.[]' [DIR]/input/a.json > a-lines.jsonl (jq before 1.7 rounds long numbers), and use a-lines.jsonl as the input's path
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   [DIR]/input/a.json is one JSON list over several lines, and format jsonl takes one object on each line; convert the file: jq -c '.[]' [DIR]/input/a.json > a-lines.jsonl (jq before 1.7 rounds long numbers), and use a-lines.jsonl as the input's path
      where         mini-batch 0, [WORKER]
      mini-batches  1, of which 1 failed
      items         1, of which 1 failed (see job/logs/failed_items.csv)
      read next     job/logs/failed_items.csv
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
    // Other files are not affected.
    let job = job("a.json", text).file("input/b.jsonl", "{\"id\":3}\n");
    let ran = job.run(&["--set", "error_threshold=1"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "{\"id\":3}\n");
    let failed = ran.failed_items();
    assert_eq!(failed.lines().count(), 2, "{failed}");
}
