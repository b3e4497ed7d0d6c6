//! Tables in text files. A guest must receive the same rows that pyarrow reads. Other tests have files that
//! cannot be read, or can be read only in part.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, python, root};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A job for one worker over the folder `input`, with JSON lines as output.
fn job(format: &str) -> TestJob {
    TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{ rows: {{ path: input, format: {format} }} }}\n\
         process_count_per_node: 1\n\
         ordered: true\n\
         output_format: {{ type: jsonl }}\n\
         mini_batch_size: 4 KB"
    ))
}

fn rows(ran: &Ran) -> Vec<Value> {
    let output = ran.output();
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether two values are equal. The same number may be written in two ways, such as 1 and 1.0.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, one)| other.get(key).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}

/// Compares values, nulls, types, names and numbers of rows.
#[test]
fn tables_are_what_pyarrow_reads() {
    let folder = TestJob::empty();
    let output = Command::new(python())
        .arg(root().join("tests/formats/text.py"))
        .arg(folder.dir())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "text.py failed:\n{errors}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut cases = 0;
    for line in stdout.lines() {
        let expected: Value = serde_json::from_str(line).unwrap();
        let case = expected["case"].as_str().unwrap();
        let format = case.split('-').next().unwrap().replace("hive", "csv");
        let job = job(&format);
        fs::rename(folder.path(case), job.path("input")).unwrap();
        // As pyarrow does, infer the types from all rows. The order of files may differ.
        let ran = job.run(&["--set", "schema_inference=full"]);
        ran.exits_with(0);
        let mut found = rows(&ran);
        if case == "hive" {
            found.sort_by_key(|row| row["id"].as_i64());
        }
        let expected_rows = expected["rows"].as_array().unwrap();
        assert_eq!(found.len(), expected_rows.len(), "{case}: rows\n{ran}");
        for (number, (found, expected)) in found.iter().zip(expected_rows).enumerate() {
            assert!(is_same(found, expected), "{case}, row {number}:\n{found}\n{expected}");
        }
        let expected_types = expected["types"].as_array().unwrap();
        check_types(ran.into_job(), case, expected_types, expected_rows.is_empty());
        cases += 1;
    }
    assert_eq!(cases, 14);
}

fn check_types(job: TestJob, case: &str, expected: &[Value], is_empty: bool) {
    // Nested types are compared through their values. Without rows, the guest reports no types.
    if case.starts_with("jsonl") || is_empty {
        return;
    }
    let ran =
        job.run(&["--overwrite", "--set", "schema_inference=full", "--set", "arguments=[--types]"]);
    ran.exits_with(0);
    let types: Vec<_> =
        expected.iter().map(|column| format!("{} true", column[1].as_str().unwrap())).collect();
    for found in rows(&ran) {
        assert_eq!(found.as_str().unwrap(), types.join("; "), "{case}");
    }
}

/// Runs a job over these files. Returns the rows and the failed items.
fn outcome(format: &str, files: &[(&str, &[u8])], more_arguments: &[&str]) -> String {
    let files = files.iter();
    let job =
        files.fold(job(format), |job, (name, content)| job.file(&format!("input/{name}"), content));
    let mut arguments = vec!["--set", "error_threshold=-1"];
    arguments.extend(more_arguments);
    let ran = job.run(&arguments);
    ran.exits_with(0);
    let failed: Vec<String> = ran.failed_items().lines().skip(1).map(str::to_owned).collect();
    let text = format!("{}{}", ran.output(), failed.join("\n"));
    text.replace(&ran.dir().canonicalize().unwrap().display().to_string(), "[DIR]")
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let script = "import gzip, sys; sys.stdout.buffer.write(gzip.compress(sys.stdin.buffer.read(), mtime=0))";
    let mut child = Command::new(python())
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text).unwrap();
    child.wait_with_output().unwrap().stdout
}

/// Each unreadable file is one failed item, which is tried once, and does not affect other files.
#[test]
fn files_that_cannot_be_read_fail_alone() {
    let good = b"id,x\n1,2\n";
    let compressed = gzip(good);
    assert_snapshot!(outcome("csv", &[
        ("0.csv", b"\x7fELF\x02\x01\0\0\0\0\n\0\0"),
        ("1.csv", good),
        ("2.csv", b"id,y\n1,2\n"),
        ("3.csv.gz", &compressed),
        ("4.csv.gz", &compressed[..20]),
        ("5.csv.gz", b"id,x\n3,4\n"),
        ("6.csv", b""),
        ("7.csv", b"id,x\n5,6\n"),
    ], &[]), @r#"
    {"id":1,"x":2}
    {"id":1,"x":2}
    {"id":5,"x":6}
    0,/inputs/rows/0.csv,/inputs/rows/0.csv,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/input/0.csv: the name of column 1 in the header, ""\u{7f}ELF\u{2}\u{1}\0\0\0\0"", holds a null character, so this is not a CSV file; move it away, or name the files with a glob that leaves it out"
    2,/inputs/rows/2.csv,/inputs/rows/2.csv,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/input/2.csv: the header does not fit [DIR]/input/1.csv; expected 2 columns: id, x; found 2 columns: id, y: give them the same columns in the same order, or make them inputs of separate jobs"
    4,/inputs/rows/4.csv.gz,/inputs/rows/4.csv.gz,,,1,[WORKER],the whole mini-batch (1 item): [DIR]/input/4.csv.gz cannot be unpacked with gzip: it ends too early
    5,/inputs/rows/5.csv.gz,/inputs/rows/5.csv.gz,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/input/5.csv.gz is not packed with gzip, as its name says; give it another name, or pack it again"
    "#);
    // One failed item more than the threshold ends the job, as usual.
    let ran = job("csv").file("input/1.csv", good).file("input/2.csv", "other\n1\n").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    note: a file cannot be read, so its mini-batch fails: [DIR]/input/2.csv: the header does not fit [DIR]/input/1.csv; expected 2 columns: id, x; found 1 column: other: give them the same columns in the same order, or make them inputs of separate jobs
    mini-batch 1, attempt 1 ([WORKER]): [DIR]/input/2.csv: the header does not fit [DIR]/input/1.csv; expected 2 columns: id, x; found 1 column: other: give them the same columns in the same order, or make them inputs of separate jobs
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   [DIR]/input/2.csv: the header does not fit [DIR]/input/1.csv; expected 2 columns: id, x; found 1 column: other: give them the same columns in the same order, or make them inputs of separate jobs
      where         mini-batch 1, [WORKER]
      mini-batches  2, of which 1 failed
      items         2, of which 1 failed (see job/logs/failed_items.csv)
      kept          1 row, in job/output/parallel_run_step.jsonl
      read next     job/logs/failed_items.csv
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
}

#[test]
fn invalid_lines_fail_alone() {
    let text = "{\"id\": 1, \"x\": [1]}\n{\"id\": \"two\"}\n\n{\"id\": 3,\n\"x\": [2]}\n{\"id\": 4, \"x\": [\"a\"]}\n\
        [5]\n{\"id\": 6.5}\n{\"id\": 9223372036854775808}\n{\"id\": 7}\n";
    assert_snapshot!(outcome("jsonl", &[("a.jsonl", text.as_bytes())], &[]), @r#"
    {"id":"1","x":["1"]}
    {"id":"two","x":null}
    {"id":"4","x":["a"]}
    {"id":"6.5","x":null}
    {"id":"9223372036854775808","x":null}
    {"id":"7","x":null}
    0,"/inputs/rows/a.jsonl, line 4",/inputs/rows/a.jsonl,4,,1,[WORKER],is not JSON: EOF while parsing a value at character 9
    0,"/inputs/rows/a.jsonl, line 5",/inputs/rows/a.jsonl,5,,1,[WORKER],is not JSON: trailing characters at character 4
    0,"/inputs/rows/a.jsonl, line 7",/inputs/rows/a.jsonl,7,,1,[WORKER],"holds a list; each line must be an object, as in {""id"": 1}"
    "#);
    // An entry script fails rows by their position. Reports name the line.
    let arguments =
        ["--set", "arguments=[--fail, bad]", "--set", "inputs.rows.schema={id: int64, t: string}"];
    let text = "{\"id\": 1, \"t\": \"good\"}\nno\n\n{\"t\": \"bad\"}\n{\"t\": \"good\"}\r\n{\"t\": \"bad\"}";
    assert_snapshot!(outcome("jsonl", &[("a.jsonl", text.as_bytes())], &arguments), @r#"
    "1,good"
    "-,good"
    0,"/inputs/rows/a.jsonl, line 2",/inputs/rows/a.jsonl,2,,1,[WORKER],is not JSON: expected ident at character 2
    0,"/inputs/rows/a.jsonl, line 4",/inputs/rows/a.jsonl,4,,1,[WORKER],"""-,bad"" is not wanted"
    0,"/inputs/rows/a.jsonl, line 6",/inputs/rows/a.jsonl,6,,1,[WORKER],"""-,bad"" is not wanted"
    "#);
}

#[test]
fn wide_long_and_invalid_json_tables() {
    let wide: Vec<_> = (0..1_000_000).map(|n| format!("\"k{n}\":1")).collect();
    let wide = format!("{{{}}}\n", wide.join(","));
    let ran =
        job("jsonl").file("input/a.jsonl", &wide).run(&["--set", "inputs.rows.columns=[k9, k0]"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "{\"k9\":1,\"k0\":1}\n");
    let huge = format!("{{\"t\": \"{}\"}}\n{{\"t\": \"b\"}}\n", "x".repeat(1 << 19));
    let ran = job("jsonl").file("input/a.jsonl", &huge).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output().len(), huge.len() - 2, "both rows, without the two spaces");
    assert_snapshot!(outcome("jsonl", &[("a.jsonl", b"no JSON\nat all\n"), ("b.jsonl", b"{\"id\": 1}")], &[]), @r#"
    {"id":1}
    0,"/inputs/rows/a.jsonl, line 1",/inputs/rows/a.jsonl,1,,1,[WORKER],is not JSON: expected ident at character 2
    0,"/inputs/rows/a.jsonl, line 2",/inputs/rows/a.jsonl,2,,1,[WORKER],is not JSON: expected value at character 1
    "#);
}

/// When the job ends, Sandmill removes the files that it has unpacked. A resumed job unpacks the
/// inputs again.
#[test]
fn unpacked_files_are_removed() {
    let compressed = gzip(b"id\n1\n2\n3\n");
    let job = job("csv").file("input/a.csv.gz", &compressed).yaml("run_max_try: 1");
    let ran = job.run(&["--set", "mini_batch_size=1", "--set", "arguments=[--fail, 3]"]);
    ran.exits_with(42);
    let ran = ran.into_job().resume(&["--set", "error_threshold=1"]);
    ran.exits_with(0);
    assert!(!ran.has("job/spill"), "{ran}");
    let ran = ran.into_job().command(&["plan", "job.yaml"]);
    ran.exits_with(0);
    assert_snapshot!(ran.stdout, @"
    mini-batch  input      items  where
             0  rows           3  a.csv.gz, from line 2, 6 bytes
    ");
}
