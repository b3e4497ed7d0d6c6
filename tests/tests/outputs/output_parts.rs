//! Outputs with one file per worker: `output_layout: parts`.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, python};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

const PARTS_FOLDER: &str = "job/output/parallel_run_step";

/// A job with forty mini-batches of one row. Its entry script returns its input tables unchanged.
fn tables(settings: &str) -> TestJob {
    let job = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{rows: {{path: in, format: csv}}}}\nprocess_count_per_node: 2\n\
         output_layout: parts\n{settings}"
    ));
    (10..50).fold(job, |job, n| job.file(&format!("in/{n}.csv"), format!("id,name\n{n},n {n}\n")))
}

/// The names of the parts, with `*` instead of the workers' numbers.
fn names(ran: &Ran) -> Vec<String> {
    let entries = fs::read_dir(ran.dir().join(PARTS_FOLDER)).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| format!("{}*{}", &name[..12], &name[15..]))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Runs Python code that reads the folder with pyarrow. Returns what the code prints.
#[track_caller]
fn read_by_python(ran: &Ran, code: &str) -> String {
    let code = format!("import sys, pyarrow.dataset as ds\npath = sys.argv[1]\n{code}");
    let path = ran.dir().join(PARTS_FOLDER);
    let output = Command::new(python()).arg("-c").arg(code).arg(path).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}\n{ran}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn each_worker_writes_its_own_part() {
    let ran = tables("output_format: {type: csv}").run(&[]);
    ran.exits_with(0).says("output        job/output/parallel_run_step\n");
    let rows: Vec<String> = (10..50).map(|n| format!("{n},n {n}")).collect();
    assert_eq!(ran.sorted_parts("id,name\n"), rows, "{ran}");
    assert_eq!(names(&ran), ["part-process*.csv"]);
    assert!(!ran.has("job/parts"), "{ran}");
    for entry in fs::read_dir(ran.dir().join(PARTS_FOLDER)).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().nlink(), 1, "{ran}");
    }
    // The next run reuses the result, unless a part has changed.
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0).says("reused");
    let first = fs::read_dir(ran.dir().join(PARTS_FOLDER)).unwrap().next().unwrap().unwrap().path();
    fs::write(&first, "id,name\n").unwrap();
    let ran = ran.into_job().run(&[]);
    ran.exits_with(2).says("the output file");
    let ran = ran.into_job().run(&["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_parts("id,name\n"), rows, "{ran}");
}

#[test]
fn parts_may_be_compressed() {
    for (compression, ending) in [("gzip", "gz"), ("zstd", "zst")] {
        let format = format!("output_format: {{type: jsonl, compression: {compression}}}");
        let ran = tables(&format).run(&[]);
        ran.exits_with(0);
        assert_eq!(names(&ran), [format!("part-process*.jsonl.{ending}")]);
        let code = format!(
            "import glob, json, pyarrow as pa\nids = []\n\
             for part in glob.glob(path + '/*'):\n\
             \x20   text = pa.input_stream(part, compression='{compression}').read().decode()\n\
             \x20   ids += [json.loads(line)['id'] for line in text.splitlines()]\n\
             print(sorted(ids) == list(range(10, 50)))"
        );
        assert_eq!(read_by_python(&ran, &code), "True");
    }
}

#[test]
fn parts_may_have_types() {
    for kind in ["parquet", "arrow"] {
        let ran = tables(&format!("output_format: {{type: {kind}}}")).run(&[]);
        ran.exits_with(0);
        assert_eq!(names(&ran), [format!("part-process*.{kind}")]);
        let code = format!(
            "table = ds.dataset(path, format='{kind}').to_table()\n\
             print(table.schema.types, sorted(table['id'].to_pylist()) == list(range(10, 50)))"
        );
        assert_eq!(read_by_python(&ran, &code), "[DataType(int64), DataType(string)] True");
    }
}

#[test]
fn the_folder_of_parts_can_be_named() {
    let ran = TestJob::new(&guest("echo_files"))
        .yaml("inputs: {texts: in}\noutput_layout: parts\noutput: results")
        .yaml("append_row_file_name: all.d\njoin: input\noutput_format: {type: csv}")
        .file("in/a.txt", "12")
        .run(&[]);
    ran.exits_with(0).says("output        results/all.d\n");
    let parts: Vec<_> = fs::read_dir(ran.dir().join("results/all.d")).unwrap().flatten().collect();
    let text = fs::read_to_string(parts[0].path()).unwrap();
    assert_eq!((parts.len(), text.as_str()), (1, "file,value\n/inputs/texts/a.txt,a.txt: 2\n"));
    // A file that the entry script writes cannot have the name of the folder of parts.
    let ran = TestJob::new(&guest("writes_files"))
        .yaml("inputs: {texts: in}\noutput_layout: parts\nappend_row_file_name: a.txt.out")
        .file("in/a.txt", "12")
        .run(&[]);
    ran.exits_with(42).says("\"a.txt.out\" cannot be published");
}

/// After a failure, CSV parts are in the output folder, and Parquet parts stay in the job directory. After
/// `resume`, the output is complete.
#[test]
fn a_job_that_fails_keeps_its_parts() {
    let bad = "1,2,3\n";
    for (format, kept) in [("csv", PARTS_FOLDER), ("parquet", "job/parts")] {
        let job = tables(&format!("output_format: {{type: {format}}}\nrun_max_try: 1"));
        let ran = job.file("in/99.csv", format!("id,name\n{bad}")).run(&[]);
        ran.exits_with(42).says(&format!("rows, in {kept}\n"));
        assert_eq!(ran.has(PARTS_FOLDER), format == "csv", "{ran}");
        let ran = ran.into_job().resume(&["--set", "error_threshold=1"]);
        ran.exits_with(0);
        let code = format!(
            "table = ds.dataset(path, format='{format}').to_table()\n\
             print(sorted(table['id'].to_pylist()) == list(range(10, 50)))"
        );
        assert_eq!(read_by_python(&ran, &code), "True", "{ran}");
        assert!(!ran.has("job/parts"), "{ran}");
    }
}

#[test]
fn ordered_is_refused_with_parts() {
    let ran = tables("ordered: true").run(&[]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: job.yaml:6: ordered: with output_layout: parts each worker's rows are in its own file, in the order in which it made them, so the rows as a whole have no order; remove one of the two");
}
