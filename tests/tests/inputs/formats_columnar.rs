//! Parquet and Arrow inputs: a guest must receive the same tables that pyarrow reads. Unreadable files must
//! not affect others.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, with the place")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, python, root};
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Output};

/// Runs `tests/formats/columnar.py`.
fn columnar(arguments: &[&str]) -> Output {
    let script = root().join("tests/formats/columnar.py");
    Command::new(python()).arg(script).args(arguments).output().unwrap()
}

/// Writes the test files into `data` in the job's folder. Returns the job file's `inputs`, with a line for
/// each file.
fn write_test_files(job: &TestJob) -> String {
    let output = columnar(&["make", job.path("data").to_str().unwrap()]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "columnar.py failed:\n{errors}");
    let mut inputs = "inputs:\n".to_owned();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (name, kind) = line.split_once(' ').unwrap();
        let _ = writeln!(inputs, "  {name}: {{path: data/{name}, format: {kind}}}");
    }
    inputs
}

#[test]
fn a_guest_gets_what_pyarrow_reads() {
    let job = TestJob::new(&guest("dumps_table"));
    let inputs = write_test_files(&job);
    let cases = inputs.lines().count() - 1;
    let ran = job.yaml(&inputs).yaml("process_count_per_node: 2\nmini_batch_size: 20 KB").run(&[]);
    ran.exits_with(0);
    let data = ran.dir().join("data");
    let dumped = ran.dir().join("job/output");
    let output = columnar(&["compare", data.to_str().unwrap(), dumped.to_str().unwrap()]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{errors}");
    assert_eq!(stdout.lines().filter(|line| line.ends_with(": same")).count(), cases, "{stdout}");
    println!("{stdout}");
}

/// Writes a Parquet file with this Python code.
fn write_parquet(job: &TestJob, file: &str, code: &str) {
    let path = job.path(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let head = "import sys, pyarrow as pa, pyarrow.parquet as pq\npath = sys.argv[1]\n";
    let output =
        Command::new(python()).args(["-c", &format!("{head}{code}")]).arg(&path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

const WRITE_20_NUMBERS: &str = "pq.write_table(pa.table({'n': range(20)}), path, row_group_size=8)";

/// A job without `mini_batch_size`, which jobs with partition keys must not have. [`table`] adds the size for
/// other tests.
fn job_without_size() -> TestJob {
    TestJob::new(&guest("echo_table")).yaml(
        "inputs: {rows: {path: in, format: parquet}}\nprocess_count_per_node: 1\narguments: [--rows]",
    )
}

fn table() -> TestJob {
    job_without_size().yaml("mini_batch_size: 6 rows")
}

fn rows(ran: &Ran) -> String {
    ran.output().lines().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_plan_shows_rows_and_bytes() {
    let job = table();
    write_parquet(&job, "in/a.parquet", WRITE_20_NUMBERS);
    let ran = job.command(&["plan", "job.yaml"]);
    ran.exits_with(0);
    assert_snapshot!(ran.redacted_stdout(), @"
    mini-batch  input      items  where
             0  rows           6  a.parquet, from row 1, about 48 bytes
             1  rows           6  a.parquet, from row 7, about 48 bytes
             2  rows           6  a.parquet, from row 13, about 48 bytes
             3  rows           2  a.parquet, from row 19, about 16 bytes
    ");
}

#[test]
fn files_that_cannot_be_read_fail_alone() {
    let job = table();
    write_parquet(&job, "in/b.parquet", WRITE_20_NUMBERS);
    let good = fs::read(job.path("in/b.parquet")).unwrap();
    let cut = good[..good.len() / 2].to_vec();
    // A broken page, which Sandmill notices only when it decodes the page.
    let mut broken_page = good;
    broken_page[4..60].fill(0x5a);
    let job = job
        .file("in/a.parquet", "id,text\n1,one\n")
        .file("in/c.parquet", cut)
        .file("in/d.parquet", "")
        .file("in/e.parquet", broken_page)
        .file("in/_SUCCESS", "");
    write_parquet(&job, "in/f.parquet", "pq.write_table(pa.table({'n': ['text']}), path)");
    write_parquet(&job, "in/g.parquet", "pq.write_table(pa.table({'n': [1], 'more': [2]}), path)");
    write_parquet(
        &job,
        "in/h.parquet",
        "pq.write_table(pa.table({'n': pa.array([7], pa.int8())}), path)",
    );
    let ran = job.run(&["--set", "error_threshold=20"]);
    ran.exits_with(0);
    // The rows 12 to 19 occur twice: e.parquet has the same rows as b.parquet, but its first two mini-batches
    // (rows 0 to 11) need the broken page.
    let expected: Vec<_> = (0..20).chain(12..20).chain([7]).map(|n: i32| n.to_string()).collect();
    assert_eq!(rows(&ran), expected.join(" "), "{ran}");
    let failed = ran.failed_items().replace(&ran.dir().display().to_string(), "[DIR]");
    assert_snapshot!(failed, @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    0,/inputs/rows/a.parquet,/inputs/rows/a.parquet,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/in/a.parquet is not parquet, but text, possibly CSV: write format: csv; or name the files with a glob that leaves it out"
    5,/inputs/rows/c.parquet,/inputs/rows/c.parquet,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/in/c.parquet is cut off or broken: a Parquet file ends with PAR1, but this file does not"
    6,/inputs/rows/d.parquet,/inputs/rows/d.parquet,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/in/d.parquet is empty, without even a schema; remove it, or write the file again"
    7,"/inputs/rows/e.parquet, 6 rows from row 1",/inputs/rows/e.parquet,,1,1,[WORKER],the whole mini-batch (6 items): /inputs/rows/e.parquet cannot be decoded (rows 1 to 6 from the start of row group 0): Parquet argument error: Parquet error: Unexpected list/set element type 0
    8,"/inputs/rows/e.parquet, 6 rows from row 7",/inputs/rows/e.parquet,,7,1,[WORKER],the whole mini-batch (6 items): /inputs/rows/e.parquet cannot be decoded (rows 7 to 12 from the start of row group 0): Parquet argument error: Parquet error: Unexpected list/set element type 0
    11,/inputs/rows/f.parquet,/inputs/rows/f.parquet,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/in/f.parquet column 'n' is Utf8, but Int64 in [DIR]/in/b.parquet; set schema_inference: full, which takes the wider type, or write the files with one type"
    12,/inputs/rows/g.parquet,/inputs/rows/g.parquet,,,1,[WORKER],"the whole mini-batch (1 item): [DIR]/in/g.parquet has a column 'more' (Int64), which [DIR]/in/b.parquet does not have; set schema_inference: full, which takes the columns of all files, or list the wanted columns with the key `columns`"
    "#);
}

#[test]
fn full_inference_unites_the_columns_of_all_files() {
    let job = table();
    write_parquet(
        &job,
        "in/a.parquet",
        "pq.write_table(pa.table({'n': pa.array([1], pa.int8())}), path)",
    );
    write_parquet(
        &job,
        "in/b.parquet",
        "pq.write_table(pa.table({'t': ['x'], 'n': [1 << 40]}), path)",
    );
    write_parquet(&job, "in/c.parquet", "pq.write_table(pa.table({'t': ['y']}), path)");
    write_parquet(&job, "in/d.parquet", "pq.write_table(pa.table({'n': ['text']}), path)");
    let ran = job.run(&["--set", "schema_inference=full", "--set", "error_threshold=1"]);
    ran.exits_with(0);
    assert_eq!(rows(&ran), "1,- 1099511627776,x -,y");
    let failed = ran.failed_items();
    let reason = "column 'n' is Utf8, but Int64 in ";
    assert!(failed.contains(reason) && !failed.contains("schema_inference"), "{failed}");
}

#[test]
fn columns_are_chosen() {
    let job = table();
    write_parquet(
        &job,
        "in/a.parquet",
        "pq.write_table(pa.table({'a': [1], 'b': ['x'], 'c': [2]}), path)",
    );
    let ran = job.run(&["--set", "inputs.rows.columns=[c, a]"]);
    ran.exits_with(0);
    assert_eq!(rows(&ran), "2,1");
}

#[test]
fn failed_rows_have_their_number_in_the_file() {
    let job = table();
    write_parquet(&job, "in/a.parquet", WRITE_20_NUMBERS);
    let ran = job.run(&["--set", "arguments=[--fail, '13']", "--set", "error_threshold=1"]);
    ran.exits_with(0);
    assert_snapshot!(ran.failed_items(), @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    2,"/inputs/rows/a.parquet, row 14",/inputs/rows/a.parquet,,14,1,[WORKER],"""13"" is not wanted"
    "#);
}

#[test]
fn folders_make_columns_and_groups() {
    let job = job_without_size();
    write_parquet(&job, "in/k=a/1.parquet", WRITE_20_NUMBERS);
    write_parquet(&job, "in/k=b/1.parquet", "pq.write_table(pa.table({'n': [1, 2]}), path)");
    write_parquet(&job, "in/k=a/2.parquet", "pq.write_table(pa.table({'n': [100]}), path)");
    let ran = job.run(&["--set", "partition_keys=[k]"]);
    ran.exits_with(0);
    let mut expected: Vec<_> = (0..20).chain([100]).map(|n| format!("{n},a")).collect();
    expected.extend(["1,b".to_owned(), "2,b".to_owned()]);
    assert_eq!(rows(&ran), expected.join(" "));
    assert_eq!(ran.attempts("RUN_DONE").len(), 2, "{ran}");
    let ran = ran.into_job().command(&["plan", "job.yaml", "--set", "partition_keys=[n]"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"
    note: columns of input rows: n int64
    note: input rows: its folders' names make the last columns: k; set hive to false if they should not
    error: input 'rows': partition_keys names 'n', which is in no folder's name, and parquet files are grouped by their folders only; put the files into folders named n=…/, or name the levels of their folders with partition_format, or use format: csv, whose rows are grouped by any column
    ");
}

/// Writes a page whose header claims 4 MB, but which unpacks to 4 GB. The Parquet library unpacks such pages
/// completely.
const WRITE_BOMB: &str = r"
import gzip, os
table = pa.table({'x': pa.array([os.urandom(4 << 20)], pa.binary())})
pq.write_table(table, path, compression='gzip', use_dictionary=False, write_statistics=False)
content = bytearray(open(path, 'rb').read())
page = content.index(b'\x1f\x8b\x08')
bomb = gzip.compress(bytes(64 << 20)) * 60
assert page + len(bomb) < 4 << 20
content[page:page + len(bomb)] = bomb
open(path, 'wb').write(content)
";

/// A worker's memory is also limited outside of its guest. If reading a page exceeds this limit, the worker
/// is killed, and another one continues.
#[test]
#[cfg(target_os = "linux")]
fn a_page_that_unpacks_to_gigabytes_kills_its_worker() {
    let job = job_without_size().yaml(
        "limits: {memory: 16MB, results: 1MB, read: 1MB}\nmini_batch_size: 64KB\nrun_max_try: 1\n\
         error_threshold: -1",
    );
    write_parquet(&job, "in/a.parquet", "pq.write_table(pa.table({'x': [b'one']}), path)");
    write_parquet(&job, "in/b.parquet", WRITE_BOMB);
    write_parquet(&job, "in/c.parquet", "pq.write_table(pa.table({'x': [b'two']}), path)");
    let ran = job.run(&[]);
    ran.exits_with(0);
    // Three things may stop the worker, whichever is first: the leader's watcher, the limit of the cgroup, or
    // the limit of the process.
    let table = ran.log("sys/job_report/processed_mini-batches.csv");
    assert!(table.contains("out_of_memory"), "{table}\n{ran}");
    assert_eq!(ran.sorted_output().len(), 2, "{ran}");
}
