//! Table formats with a log, such as Delta. Sandmill refuses their Parquet files as inputs, because the files
//! may have rows that the table no longer has.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, with the place")]

use insta::assert_snapshot;
use sandmill_tests::{Server, TestJob, guest, python};
use std::fs;
use std::process::Command;
use std::sync::LazyLock;

/// A Parquet file with two rows: `number` and `number + 1`.
fn parquet(number: usize) -> &'static [u8] {
    static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let code = "import sys, pyarrow as pa, pyarrow.parquet as pq\n\
                    for n in range(8):\n    \
                        pq.write_table(pa.table({'n': [n, n + 1]}), f'{sys.argv[1]}/{n}')";
        let output = Command::new(python()).args(["-c", code]).arg(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (0..8).map(|n| fs::read(folder.path().join(n.to_string())).unwrap()).collect()
    });
    &FILES[number]
}

/// A job over a folder with a Delta table whose second commit removes its first file, an Iceberg table, and
/// plain files.
fn lake(input: &str) -> TestJob {
    let commits =
        [r#"{"add":{"path":"day=1/old.parquet"}}"#, r#"{"remove":{"path":"day=1/old.parquet"}}"#];
    TestJob::new(&guest("echo_table"))
        .yaml(&format!("inputs: {{rows: {input}}}\nprocess_count_per_node: 1\narguments: [--rows]"))
        .file("lake/delta/_delta_log/00000000000000000000.json", commits[0])
        .file("lake/delta/_delta_log/00000000000000000001.json", commits[1])
        .file("lake/delta/day=1/old.parquet", parquet(1))
        .file("lake/delta/day=2/new.parquet", parquet(3))
        .file("lake/ice/metadata/v1.metadata.json", "{}")
        .file("lake/ice/data/a.parquet", parquet(5))
        .file("lake/plain/a.parquet", parquet(7))
}

/// Runs the job. Returns the table that is refused, or the rows if the job succeeds.
fn outcome(input: &str) -> String {
    let ran = lake(input).run(&[]);
    let messages =
        ran.stderr.replace(&ran.dir().canonicalize().unwrap().display().to_string(), "[DIR]");
    refused(&messages).unwrap_or_else(|| {
        ran.exits_with(0);
        ran.sorted_output().join(" ")
    })
}

/// Finds the refused table and its format in the messages. `None` if no table is refused.
fn refused(messages: &str) -> Option<String> {
    let table = |line: &str| {
        let (_, rest) = line.split_once("input '")?;
        let (_, refusal) = rest.split_once("': ")?;
        Some(refusal.split_once(" table: its folder ")?.0.to_owned())
    };
    messages.lines().find_map(table)
}

#[test]
fn a_delta_table_is_refused_with_advice() {
    let ran = lake("{path: lake/delta, format: parquet}").run(&[]);
    ran.exits_with(2);
    let messages =
        ran.stderr.replace(&ran.dir().canonicalize().unwrap().display().to_string(), "[DIR]");
    assert_snapshot!(messages, @"error: input 'rows': [DIR]/lake/delta is a Delta table: its folder _delta_log says which rows it has, and its Parquet files also hold rows that were removed or replaced. Sandmill does not read Delta tables: write the table's rows to plain Parquet files (in DuckDB: COPY (FROM delta_scan('[DIR]/lake/delta')) TO 'rows.parquet'), and use them as the input; or, to read the files themselves, write files: true beside format: parquet");
}

/// Inputs are refused if they lead to a table: by naming the table, a folder inside or above it, a glob or
/// several paths. Plain files, and files that the user names explicitly, are read.
#[test]
fn every_path_into_a_table_is_refused() {
    for (path, expected) in [
        ("path: lake/delta/day=2", "[DIR]/lake/delta is a Delta"),
        ("path: lake", "[DIR]/lake/delta is a Delta"),
        ("path: 'lake/*/*/*.parquet'", "[DIR]/lake/delta is a Delta"),
        ("path: 'lake/delta/*/new.parquet'", "[DIR]/lake/delta is a Delta"),
        ("path: 'lake/**/a.parquet'", "[DIR]/lake/ice is an Iceberg"),
        ("path: lake/ice", "[DIR]/lake/ice is an Iceberg"),
        ("path: lake/ice/data", "[DIR]/lake/ice is an Iceberg"),
        ("paths: [lake/plain, lake/ice]", "[DIR]/lake/ice is an Iceberg"),
        ("path: lake/plain", "7 8"),
        ("path: lake/delta/day=2/new.parquet", "3 4"),
    ] {
        assert_eq!(outcome(&format!("{{{path}, format: parquet}}")), expected, "{path}");
    }
    let all_files = outcome("{path: lake/delta, format: parquet, files: true}");
    assert_eq!(all_files, "1,1 2,1 3,2 4,2");
}

/// File inputs may contain the files of a table. A message reports this.
#[test]
fn file_inputs_may_contain_a_table() {
    let job = TestJob::new(&guest("echo_files"))
        .yaml("inputs: {t: lake}\nprocess_count_per_node: 1")
        .file("lake/_delta_log/0.json", "x")
        .file("lake/a.parquet", "yy");
    let ran = job.run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["0.json: 1", "a.parquet: 2"], "{ran}");
    ran.says("is a table of the format Delta; all its files are read");
}

/// Tables in a store are refused, too. Sandmill finds them in the list of objects, and also checks the
/// folders above the prefix.
#[test]
fn tables_in_stores_are_refused() {
    let moto = Server::moto();
    moto.put("/box", "");
    for name in
        ["lake/t/_delta_log/0.json", "lake/t/day=1/a.parquet", "lake/ice/metadata/v1.metadata.json"]
    {
        moto.put(&format!("/box/{name}"), "x");
    }
    for name in ["lake/ice/data/a.parquet", "lake/plain/a.parquet"] {
        moto.put(&format!("/box/{name}"), parquet(5));
    }
    let outcome = |path: &str| {
        let job = TestJob::new(&guest("echo_table")).yaml(&format!(
            "inputs: {{r: {{path: '{path}', format: parquet}}}}\nprocess_count_per_node: 1"
        ));
        let ran = moto.opened_for(job.datastores("1 MB", "")).command(&["plan", "job.yaml"]);
        refused(&ran.stderr).unwrap_or_else(|| ran.stdout.clone())
    };
    for (path, expected) in [
        ("s3://box/lake/t/", "s3://box/lake/t is a Delta"),
        ("s3://box/lake/t", "s3://box/lake/t is a Delta"),
        ("s3://box/lake/t/day=1/", "s3://box/lake/t is a Delta"),
        ("s3://box/lake/t/day=*/*.parquet", "s3://box/lake/t is a Delta"),
        ("s3://box/lake/", "s3://box/lake/ice is an Iceberg"),
        ("s3://box/lake/ice/data/*.parquet", "s3://box/lake/ice is an Iceberg"),
    ] {
        assert_eq!(outcome(path), expected, "{path}");
    }
    assert!(outcome("s3://box/lake/plain/").contains("a.parquet"));
}
