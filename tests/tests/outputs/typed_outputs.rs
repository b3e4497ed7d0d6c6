//! Parquet and Arrow outputs. They keep the types of columns, and the output file is made at the end of a
//! job.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Ran, Running, TestJob, guest, python, root};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs `tests/src/reference_tables.py`.
#[track_caller]
fn reference(arguments: &[&str]) -> String {
    let script = root().join("tests/src/reference_tables.py");
    let output = Command::new(python()).arg(script).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Runs Python code that can use pyarrow, pandas and the path of a file. Returns what the code prints.
#[track_caller]
fn read_by_python(ran: &Ran, file: &str, code: &str) -> String {
    let code = format!(
        "import os, sys, pandas as pd, pyarrow as pa, pyarrow.parquet as pq\npath = sys.argv[1]\n{code}\n\
         sys.stdout.flush()\nos._exit(0)"
    );
    let path = ran.dir().join(file);
    let output = Command::new(python()).arg("-c").arg(code).arg(path).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}\n{ran}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A job whose entry script returns the tables of the reference script, one in each mini-batch. Also returns
/// the folder with these tables.
fn tables(count: usize, settings: &str) -> (TestJob, String) {
    let job = TestJob::new(&guest("hostile_returns_file"))
        .yaml(&format!("inputs: {{tables: in}}\nmini_batch_size: 1\n{settings}"));
    fs::create_dir_all(job.path("in")).unwrap();
    let folder = job.path("in").display().to_string();
    let kind = if settings.contains("parquet") { "parquet" } else { "" };
    reference(&["make", &folder, &count.to_string(), kind]);
    (job, folder)
}

fn rows(settings: &str) -> Ran {
    TestJob::new(&guest("outcomes"))
        .yaml(&format!("inputs: {{texts: in}}\nprocess_count_per_node: 1\n{settings}"))
        .yaml("error_threshold: -1")
        .file("in/a.txt", "1")
        .file("in/bad.txt", "22")
        .file("in/c.txt", "333")
        .run(&[])
}

/// Checks the output with the reference script. Returns the numbers of rows and columns.
#[track_caller]
fn check_output(ran: &Ran, file: &str, folder: &str) -> String {
    assert!(!ran.has(&format!("{file}.part")), "the appended rows are left\n{ran}");
    reference(&["check", &ran.dir().join(file).display().to_string(), folder])
}

#[test]
fn parquet_keeps_types_values_and_nulls() {
    for compression in ["none", "snappy", "zstd"] {
        let settings = format!("output_format: {{type: parquet, compression: {compression}}}");
        let (job, folder) = tables(7, &settings);
        let ran = job.run(&[]);
        ran.exits_with(0).says("job/output/parallel_run_step.parquet");
        let found = check_output(&ran, "job/output/parallel_run_step.parquet", &folder);
        assert_eq!(found, "35 rows, 24 columns", "{compression}");
        let code = "print(pq.ParquetFile(path).metadata.row_group(0).column(0).compression)";
        let found = read_by_python(&ran, "job/output/parallel_run_step.parquet", code);
        let name = if compression == "none" { "UNCOMPRESSED" } else { compression };
        assert_eq!(found.to_lowercase(), name.to_lowercase());
    }
}

#[test]
fn arrow_keeps_types_values_and_nulls() {
    let settings = "output_format: {type: arrow}\nappend_row_file_name: all.feather\nordered: true";
    let (job, folder) = tables(7, settings);
    let ran = job.run(&[]);
    ran.exits_with(0);
    let found = check_output(&ran, "job/output/all.feather", &folder);
    assert_eq!(found, "35 rows, 25 columns");
    // The rows are in the order of the input.
    let code = "print(list(pd.read_feather(path).id) == list(range(35)))";
    assert_eq!(read_by_python(&ran, "job/output/all.feather", code), "True");
}

#[test]
fn rows_of_text_are_a_column() {
    let show = "print(pd.read_parquet(path).to_csv(index=False))";
    let ran = rows("output_format: {type: parquet}");
    ran.exits_with(0);
    assert_snapshot!(read_by_python(&ran, "job/output/parallel_run_step.parquet", show), @"
    value
    a.txt: 1
    c.txt: 3
    ");
    let ran = rows("output_format: {type: arrow}");
    ran.exits_with(0);
    let show = "print(pd.read_feather(path).to_csv(index=False))";
    assert_snapshot!(read_by_python(&ran, "job/output/parallel_run_step.arrow", show), @"
    value
    a.txt: 1
    c.txt: 3
    ");
}

/// If a table has other columns than the first table, its attempt fails, and the message names the columns.
#[test]
fn all_tables_have_the_same_columns() {
    let (job, folder) = tables(3, "output_format: {type: parquet}");
    let write_other_columns = "import pyarrow as pa, sys\nt = pa.table({'id': pa.array([1], pa.int32())})\n\
                 with pa.ipc.new_stream(sys.argv[1], t.schema) as s: s.write_table(t)";
    let file = Path::new(&folder).join("900.txt");
    assert!(
        Command::new(python())
            .args(["-c", write_other_columns])
            .arg(&file)
            .status()
            .unwrap()
            .success()
    );
    let job = job.file("in/901-good.txt", "");
    let ran =
        job.run(&["--set", "run_max_try=1", "--set", "error_threshold=-1", "--process-count", "1"]);
    ran.exits_with(0);
    let reasons = ran.reasons();
    let reasons: Vec<_> = reasons.iter().map(|(id, why)| format!("{id}: {why}")).collect();
    assert_snapshot!(reasons.join("\n"), @r#"
    3: "the whole mini-batch (1 item): the mini-batch's rows have other columns than the first rows of the job: column 1 is ""id"" Int32, and was ""id"" Int64. Return the same columns, with the same types and in the same order, from every call of run"
    4: "the whole mini-batch (1 item): the mini-batch's rows have other columns than the first rows of the job: column 1 is ""value"" Utf8, and was ""id"" Int64. Return the same columns, with the same types and in the same order, from every call of run"
    "#);
    fs::remove_file(file).unwrap();
    fs::remove_file(Path::new(&folder).join("901-good.txt")).unwrap();
    check_output(&ran, "job/output/parallel_run_step.parquet", &folder);
}

/// A failed job keeps its committed rows as an Arrow stream. A new run makes the complete output.
#[test]
fn a_job_that_fails_keeps_its_rows() {
    let (job, folder) = tables(4, "output_format: {type: parquet}");
    let bad = Path::new(&folder).join("100.txt");
    fs::write(&bad, "no table").unwrap();
    let ran = job.run(&["--set", "run_max_try=1"]);
    ran.exits_with(42);
    assert!(!ran.has("job/output/parallel_run_step.parquet"), "{ran}");
    let code = "print(pa.ipc.open_stream(path).read_all().num_rows % 5)";
    let found = read_by_python(&ran, "job/output/parallel_run_step.parquet.part", code);
    assert_eq!(found, "0");
    let job = ran.into_job();
    let other = Path::new(&folder).join("000.txt");
    fs::copy(other, &bad).unwrap();
    let ran = job.run(&["--overwrite"]);
    ran.exits_with(0);
    assert!(!ran.has("job/output/parallel_run_step.parquet.part"), "{ran}");
}

const FAIL_POINT: &str = "SANDMILL_FAIL_POINT";

/// The leader is killed at each fail point before, while and after the output is made, and the job is
/// resumed.
#[test]
fn a_leader_may_end_while_the_output_is_made() {
    for point in [
        "rows-appended",
        "output-made",
        "output-named:1:cut",
        "finished",
        "appended-removed",
        "leftovers-removed",
    ] {
        let (job, folder) = tables(3, "output_format: {type: arrow}");
        let ran = job.env(FAIL_POINT, point).run(&[]);
        assert_eq!(ran.code, -9, "{point}\n{ran}");
        let ran = ran.into_job().env(FAIL_POINT, "").run(&[]);
        ran.exits_with(0);
        check_output(&ran, "job/output/parallel_run_step.arrow", &folder);
        let files = fs::read_dir(ran.dir().join("job/output")).unwrap().count();
        assert_eq!(files, 1, "{point}\n{ran}");
        assert!(!ran.has("job/parts"), "{point}\n{ran}");
    }
}

/// A job that needs some time to make its output, because each row has 64 MB.
fn job_with_large_rows() -> TestJob {
    let job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: { texts: input }\narguments: [--do, huge-rows]\nmini_batch_size: 1\n\
         process_count_per_node: 1\noutput_format: {type: parquet, compression: zstd}",
    );
    (0..4).fold(job, |job, n| job.file(&format!("input/f{n}.txt"), "x"))
}

/// Waits until the process that makes the output has started. Returns its id.
fn wait_for_the_maker_of_the_output(running: &mut Running) -> u32 {
    let output_maker = |running: &Running| {
        let children = running.children();
        children.into_iter().find(|(_, command)| command.contains(" finish-output "))
    };
    let mut found = None;
    running.until("the output is made", |running| {
        found = output_maker(running);
        found.is_some()
    });
    found.unwrap().0
}

/// Checks that the output has all rows, and that there are no other files.
#[track_caller]
fn assert_complete(ran: &Ran) {
    ran.exits_with(0);
    let code = "print([len(v) for v in pq.read_table(path)['value'].to_pylist()])";
    let rows = read_by_python(ran, "job/output/parallel_run_step.parquet", code);
    assert_eq!(rows, "[67108864, 67108864, 67108864, 67108864]", "{ran}");
    assert_eq!(fs::read_dir(ran.dir().join("job/output")).unwrap().count(), 1, "{ran}");
}

/// If the process that makes the output is killed, the job fails, and a resume makes the output.
#[test]
fn a_killed_maker_of_the_output_fails_the_job() {
    let mut running = job_with_large_rows().start(&[]);
    let pid = wait_for_the_maker_of_the_output(&mut running);
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let ran = running.wait();
    ran.exits_with(42);
    ran.says("could not be made: the process that makes it was killed (signal 9");
    ran.says("kept          4 rows, in job/output/parallel_run_step.parquet.part\n");
    assert!(!ran.has("job/output/parallel_run_step.parquet"), "{ran}");
    assert_complete(&ran.into_job().resume(&[]));
}

/// If the leader is killed, the process that makes the output also ends.
#[test]
fn the_maker_of_the_output_ends_with_its_leader() {
    let mut running = job_with_large_rows().start(&[]);
    wait_for_the_maker_of_the_output(&mut running);
    running.kill_leader();
    let ran = running.wait();
    ran.exits_with(-9);
    assert!(!ran.has("job/output/parallel_run_step.parquet"), "{ran}");
    assert_complete(&ran.into_job().resume(&[]));
}

/// The disk becomes full while the output is made. The job is resumed when the disk has room.
#[test]
fn no_room_for_the_output() {
    let job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: { texts: input }\narguments: [--do, huge-rows]\nmini_batch_size: 1\n\
         process_count_per_node: 1\noutput: results\n\
         output_format: {type: parquet, compression: none}",
    );
    let job = (0..2).fold(job, |job, n| job.file(&format!("input/f{n}.txt"), "x"));
    let folder = job.path("results");
    fs::create_dir_all(&folder).unwrap();
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&folder);
        command.status().is_ok_and(|status| status.success())
    };
    // The disk has room for the appended rows (two of 64 MB), but not for the output file as well.
    if !mount("size=140m") {
        eprintln!("skipped: this user cannot mount file systems");
        return;
    }
    let ran = job.run(&[]);
    let grown = mount("remount,size=400m");
    let text = ran.messages();
    let ran = if ran.code == 42 && grown { ran.into_job().resume(&[]) } else { ran };
    let rows = (ran.code == 0).then(|| {
        read_by_python(
            &ran,
            "results/parallel_run_step.parquet",
            "print(sorted(len(v) for v in pq.read_table(path)['value'].to_pylist()))",
        )
    });
    let _ = Command::new("umount").arg("-l").arg(&folder).status();
    let first = text.lines().find(|line| line.starts_with("Job test")).unwrap_or_default();
    assert_snapshot!(first, @"Job test failed after [TIME]: the output file [DIR]/results/parallel_run_step.parquet could not be made: No space left on device (os error 28). The rows are kept in [DIR]/results/parallel_run_step.parquet.part: fix the cause, then resume the job");
    assert_eq!(rows.as_deref(), Some("[67108864, 67108864]"), "{ran}");
}

/// A job whose entry script returns one table of two rows in each mini-batch. `columns`: the
/// columns of each table, as Python code.
fn tables_of(columns: &[&str], settings: &str) -> TestJob {
    let job = TestJob::new(&guest("hostile_returns_file"))
        .yaml(&format!("inputs: {{tables: in}}\nmini_batch_size: 1\n{settings}"));
    fs::create_dir_all(job.path("in")).unwrap();
    let mut code = "import sys, pyarrow as pa\n".to_owned();
    for (number, columns) in columns.iter().enumerate() {
        code += &format!(
            "i = {number}\nt = pa.table({columns})\n\
             with pa.ipc.new_stream(sys.argv[1] + '/{number:03}.txt', t.schema) as s: s.write_table(t)\n"
        );
    }
    let made = Command::new(python()).args(["-c", &code]).arg(job.path("in")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    job
}

/// Columns that are all null in some mini-batches.
const PARTLY_NULL: [&str; 5] = [
    "{'id': [i, i], 'x': pa.nulls(2), 's': pa.nulls(2)}",
    "{'id': [i, i], 'x': pa.nulls(2), 's': [{'a': None, 'b': []}] * 2}",
    "{'id': [i, i], 'x': ['one', None], 's': [{'a': None, 'b': ['u']}] * 2}",
    "{'id': [i, i], 'x': pa.nulls(2), 's': [{'a': 1.5, 'b': []}, None]}",
    "{'id': [i, i], 'x': ['two', 'three'], 's': [{'a': 2.5, 'b': ['v', None]}] * 2}",
];

/// A column that is all null in a mini-batch has no type there. It takes its type from other mini-batches,
/// even if they come later.
#[test]
fn all_null_columns_take_the_known_type() {
    let show = "t = (pq.read_table(path) if 'parquet' in path else pa.ipc.open_file(path).read_all())\n\
                t = t.sort_by('id')\nprint([str(t.schema.field(c).type) for c in t.column_names])\n\
                print(t['x'].to_pylist())\nprint(t['s'].to_pylist()[4:8])";
    for (kind, workers, is_reversed) in
        [("parquet", 1, false), ("arrow", 1, true), ("parquet", 3, false), ("arrow", 3, true)]
    {
        let mut columns = PARTLY_NULL;
        // The table with all types is the last one, or the first one if reversed.
        if is_reversed {
            columns.reverse();
        }
        let settings =
            format!("process_count_per_node: {workers}\noutput_format: {{type: {kind}}}");
        let ran = tables_of(&columns, &settings).run(&[]);
        ran.exits_with(0);
        let found = read_by_python(&ran, &format!("job/output/parallel_run_step.{kind}"), show);
        let types = "['int64', 'string', 'struct<a: double, b: list<item: string>>']";
        let (x, s) = if is_reversed {
            (
                "['two', 'three', None, None, 'one', None, None, None, None, None]",
                "[{'a': None, 'b': ['u']}, {'a': None, 'b': ['u']}, {'a': None, 'b': []}, {'a': None, 'b': []}]",
            )
        } else {
            (
                "[None, None, None, None, 'one', None, None, None, 'two', 'three']",
                "[{'a': None, 'b': ['u']}, {'a': None, 'b': ['u']}, {'a': 1.5, 'b': []}, None]",
            )
        };
        assert_eq!(found, format!("{types}\n{x}\n{s}"), "{kind}, {workers} workers");
    }
}

/// If no mini-batch has the types of all columns, each column takes its type from the mini-batches that know
/// it. This holds for an output of one file, and for parts, which must all have the same types. It also holds
/// after the leader is killed and the job is resumed.
#[test]
fn column_types_are_merged_across_tables() {
    let show = "import glob\n\
                paths = sorted(glob.glob(path + '/*')) if '.' not in path.split('/')[-1] else [path]\n\
                tables = [pq.read_table(p) for p in paths]\n\
                print(sorted({str(t.schema.field(c).type) for t in tables for c in t.column_names}))\n\
                print(sum(t.num_rows for t in tables))";
    let columns = &PARTLY_NULL[..4];
    for layout in ["file", "parts"] {
        let settings = format!(
            "process_count_per_node: 2\noutput_format: {{type: parquet}}\noutput_layout: {layout}"
        );
        let ran = tables_of(columns, &settings).env(FAIL_POINT, "journaled:1").run(&[]);
        assert_eq!(ran.code, -9, "{ran}");
        let ran = ran.into_job().env(FAIL_POINT, "").run(&[]);
        ran.exits_with(0);
        let name =
            if layout == "parts" { "parallel_run_step" } else { "parallel_run_step.parquet" };
        let found = read_by_python(&ran, &format!("job/output/{name}"), show);
        let types = "['int64', 'string', 'struct<a: double, b: list<item: string>>']";
        assert_eq!(found, format!("{types}\n8"), "{layout}");
    }
}

/// Integers in one mini-batch and floats in another are an error.
#[test]
fn integers_and_floats_do_not_mix() {
    let columns = ["{'x': [1, 2]}", "{'x': [1.5, 2.5]}"];
    let settings = "process_count_per_node: 1\noutput_format: {type: parquet}\nrun_max_try: 1\nerror_threshold: -1";
    let ran = tables_of(&columns, settings).run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.reasons().into_values().collect::<String>(), @r#""the whole mini-batch (1 item): the mini-batch's rows have other columns than the first rows of the job: column 1 is ""x"" Float64, and was ""x"" Int64. Return the same columns, with the same types and in the same order, from every call of run""#);
}

/// For types that Parquet lacks, the output has substitute types, which pyarrow can read. If a
/// value does not fit its substitute type, the mini-batch fails, and the reason names the row.
#[test]
fn types_that_parquet_lacks_are_substituted() {
    let columns = [
        "{'s': pa.array([253402300800, -62167219201], pa.timestamp('s', 'UTC')), 'd': pa.array([0, -86400000], pa.date64()), \
          't': pa.array([1, 86399], pa.time32('s'))}",
        "{'s': pa.array([0, 2**62], pa.timestamp('s', 'UTC')), 'd': pa.array([0, 0], pa.date64()), 't': pa.array([1, 1], pa.time32('s'))}",
        "{'s': pa.array([0, 0], pa.timestamp('s', 'UTC')), 'd': pa.Array.from_buffers(pa.date64(), 2, [None, pa.array([0, 1]).buffers()[1]]), \
          't': pa.array([1, 1], pa.time32('s'))}",
    ];
    let settings = "output_format: {type: parquet}\nrun_max_try: 1\nerror_threshold: -1";
    let ran = tables_of(&columns, settings).run(&[]);
    ran.exits_with(0);
    let reasons: Vec<_> = ran.reasons().into_values().collect();
    assert_snapshot!(reasons.join("\n"), @r#"
    "the whole mini-batch (1 item): the returned table cannot be written as parquet: in row 1 (counted from 0), column ""s"", of the type Timestamp(s, ""UTC""), does not fit (4611686018427387904 s is out of range in milliseconds, the unit of this file). Return another value or type, or set output_format.type to arrow or jsonl"
    "the whole mini-batch (1 item): the returned table cannot be written as parquet: in row 1 (counted from 0), column ""d"", of the type Date64, does not fit (1 ms is not the beginning of a day, and a date in this file is a day). Return another value or type, or set output_format.type to arrow or jsonl"
    "#);
    let show = "t = pq.read_table(path)\nprint(t.schema.types)\nprint([c.cast(pa.int64() if i < 1 else pa.int32()).to_pylist() for i, c in enumerate(t.columns)])";
    assert_snapshot!(read_by_python(&ran, "job/output/parallel_run_step.parquet", show), @r#"
    [TimestampType(timestamp[ms, tz=UTC]), DataType(date32[day]), Time32Type(time32[ms])]
    [[253402300800000, -62167219201000], [0, -1], [1000, 86399000]]
    "#);
}

/// In JSON lines, `null` replaces nan and infinite numbers, and a note counts them.
#[test]
fn numbers_that_json_lacks_are_noted() {
    let columns = ["{'x': [float('nan'), 0.5]}", "{'x': [float('inf'), float('-inf')]}"];
    let ran = tables_of(&columns, "output_format: {type: jsonl}\nordered: true").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "{\"x\":null}\n{\"x\":0.5}\n{\"x\":null}\n{\"x\":null}\n");
    let messages = ran.messages();
    let notes: Vec<_> = messages.lines().filter(|line| line.contains("nan")).collect();
    assert_snapshot!(notes.join("\n"), @"note: 3 values of the rows are null in the output: JSON has no nan or infinite numbers (output_format.type parquet or arrow keeps them)");
}
