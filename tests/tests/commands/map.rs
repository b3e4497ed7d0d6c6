//! `sandmill map`: reads an Arrow IPC stream from standard input, and writes a stream to standard output.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use insta::assert_snapshot;
use sandmill_tests::{Ran, Running, TestJob, guest, sandmill};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A record batch of the numbers in this range.
fn batch(from: i64, to: i64) -> RecordBatch {
    let numbers: Int64Array = (from..to).collect();
    let names: StringArray = (from..to).map(|number| Some(format!("n{number}"))).collect();
    let columns = [("id", Arc::new(numbers) as ArrayRef), ("name", Arc::new(names) as ArrayRef)];
    RecordBatch::try_from_iter(columns).expect("Arrow")
}

/// Three record batches of 3, 0 and 2 rows.
fn stream() -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch(0, 0).schema_ref()).expect("Arrow");
    for batch in [batch(0, 3), batch(3, 3), batch(3, 5)] {
        writer.write(&batch).expect("Arrow");
    }
    writer.into_inner().expect("Arrow")
}

/// Runs `sandmill map` with this script in a shell. `rest` has the options and the redirections of the
/// command. The input is in `in.arrows`.
fn spawn(job: TestJob, input: &[u8], script: &str, rest: &str) -> Running {
    let program = sandmill().display();
    let command = format!("exec {program} map {script} {rest}");
    job.file("in.arrows", input).spawn_program(Path::new("sh"), &["-c", &command])
}

/// Maps the input with a guest and more options.
fn mapped(input: &[u8], name: &str, options: &str) -> Ran {
    let script = guest(name).display().to_string();
    spawn(TestJob::empty(), input, &script, &format!("{options} < in.arrows > out.arrows")).wait()
}

/// The record batches of the output stream.
fn output(ran: &Ran) -> Vec<RecordBatch> {
    let file = File::open(ran.dir().join("out.arrows")).expect("the output");
    StreamReader::try_new(file, None).expect("Arrow").map(Result::unwrap).collect()
}

#[test]
fn tables_pass_through() {
    let ran = mapped(&stream(), "echo_table", "");
    ran.exits_with(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(rows(&output(&ran)), [[0, 1, 2].to_vec(), [3, 4].to_vec()]);
    let ran = mapped(&stream(), "echo_table", "--rows 2");
    assert_eq!(rows(&output(&ran)), [[0, 1].to_vec(), [2].to_vec(), [3, 4].to_vec()]);
}

/// The column `id` of each record batch.
fn rows(batches: &[RecordBatch]) -> Vec<Vec<i64>> {
    let ids = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    batches.iter().map(ids).collect()
}

#[test]
fn rows_of_text_are_a_table() {
    let ran = mapped(&stream(), "echo_table", "--arg --rows");
    let batches = output(&ran);
    let texts = batches.iter().flat_map(|batch| {
        assert_eq!(batch.schema().field(0).name(), "value");
        batch.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>()
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["0,n0", "1,n1", "2,n2", "3,n3", "4,n4"]);
}

#[test]
fn failed_rows_end_the_map_unless_tolerated() {
    let ran = mapped(&stream(), "echo_table", "--arg --fail --arg n4");
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @r#"
    row 5 failed: "4,n4" is not wanted
    error: 1 row failed, more than --error-threshold allows (0); to continue despite all failures: --error-threshold -1
    "#);
    let ran = mapped(&stream(), "echo_table", "--arg --fail --arg n4 --error-threshold 1");
    ran.exits_with(0).says("row 5 failed");
    assert_eq!(output(&ran).iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [3, 1]);
    let mut many = StreamWriter::try_new(Vec::new(), batch(0, 0).schema_ref()).unwrap();
    many.write(&batch(0, 3000)).unwrap();
    let ran = mapped(
        &many.into_inner().unwrap(),
        "echo_table",
        "--arg --fail --arg n --error-threshold 2999",
    );
    ran.exits_with(42).says("3,000 rows failed, more than --error-threshold allows (2999)");
}

#[test]
fn an_input_without_rows_gives_a_stream_without_columns() {
    let mut writer = StreamWriter::try_new(Vec::new(), batch(0, 0).schema_ref()).unwrap();
    writer.write(&batch(0, 0)).unwrap();
    let ran = mapped(&writer.into_inner().unwrap(), "echo_table", "");
    ran.exits_with(0);
    assert!(output(&ran).is_empty());
}

#[test]
fn an_invalid_or_incomplete_stream_is_reported() {
    let whole = stream();
    let cut = &whole[..whole.len() - 100];
    let messages = [(b"" as &[u8], 2), (b"id,name\n1,a\n", 2), (cut, 42)].map(|(input, code)| {
        let ran = mapped(input, "echo_table", "");
        ran.exits_with(code);
        ran.messages()
    });
    assert_snapshot!(messages.join("\n"), @r#"
    error: standard input is empty: an Arrow IPC stream has at least a schema
    error: standard input is not an Arrow IPC stream: it begins with "id,n"; write it with pyarrow.ipc.new_stream
    error: standard input is cut off after 3 rows: it ends without an end-of-stream mark, which a program writes when it closes the stream
    "#);
}

#[test]
fn a_panic_or_endless_loop_is_reported_with_its_rows() {
    let messages = [
        ("hostile_table", "--arg --do --arg panic"),
        ("hostile_table", "--arg --do --arg loop --timeout 1"),
    ]
    .map(|(name, options)| {
        let ran = mapped(&stream(), name, options);
        ran.exits_with(42);
        ran.messages()
    });
    assert_snapshot!(messages.join("\n"), @"
    error: mini-batch 0 (rows 1 to 3 of the input): the entry script panicked in run at src/harm.rs:[LINE]: this guest panics, as asked
    stack of the entry script, innermost call first:
       0: test_guests::harm::harm
       1: test_guests::harm::Harm::run
       2: <hostile_table::_::_::__SandmillComponent as sandmill_guest::bindings::exports::sandmill::entry::entry::Guest>::run
       3: sandmill:entry/entry@0.2.0#run
    stderr of the entry script:
      thread '<unnamed>' (1) panicked at src/harm.rs:[LINE]:
      this guest panics, as asked
      note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
    error: mini-batch 0 (rows 1 to 3 of the input): stopped: run did not return within 1 s (--timeout)
    ");
}

/// A job tolerates some failures of `init` and `shutdown`. A map fails: otherwise, the reader of
/// its output would wait for the end of the stream.
#[test]
fn init_and_shutdown_have_the_timeout_of_a_call() {
    let mut empty = StreamWriter::try_new(Vec::new(), batch(0, 0).schema_ref()).unwrap();
    empty.finish().unwrap();
    let empty = empty.into_inner().unwrap();
    let messages = ["", "--arg --in-shutdown"].map(|option| {
        let ran =
            mapped(&empty, "hostile_init", &format!("--arg --do --arg loop {option} --timeout 1"));
        ran.exits_with(42);
        ran.messages()
    });
    assert_snapshot!(messages.join("\n"), @"
    error: stopped: init did not return within 1 s (--timeout)
    error: stopped: shutdown did not return within 1 s (--timeout)
    ");
}

#[test]
fn unusable_inputs_and_outputs_are_reported() {
    let script = guest("echo_table").display().to_string();
    let ran = spawn(TestJob::empty(), b"", &script, "< /dev/null | cat").wait();
    ran.says("standard input is empty");
    let ran = spawn(TestJob::empty(), b"", &script, "< . > out.arrows").wait();
    ran.exits_with(42).says("standard input cannot be read: Is a directory");
    let ran = spawn(TestJob::empty(), &stream(), &script, "< in.arrows > /dev/full").wait();
    ran.exits_with(42).says("cannot be written to standard output: No space left");
    let line = format!("{} map {script} 2>&1", sandmill().display());
    let ran =
        TestJob::empty().spawn_program(Path::new("script"), &["-qec", &line, "/dev/null"]).wait();
    ran.exits_with(2);
    assert!(ran.stdout.contains("standard input is a terminal"), "{}", ran.stdout);
}

/// The reader of the results may close the pipe early.
#[test]
fn a_closed_output_is_reported() {
    let mut writer = StreamWriter::try_new(Vec::new(), batch(0, 0).schema_ref()).unwrap();
    (0..50).for_each(|_| writer.write(&batch(0, 5000)).unwrap());
    let script = guest("echo_table").display().to_string();
    let line = "< in.arrows 2> messages | head -c 100 > /dev/null; sleep 0.1; cat messages >&2";
    let program = sandmill().display().to_string();
    let line = format!("{program} map {script} {line}");
    let job = TestJob::empty().file("in.arrows", writer.into_inner().unwrap());
    let ran = job.spawn_program(Path::new("sh"), &["-c", &line]).wait();
    ran.says("standard output was closed before all results were written");
}

#[test]
fn ctrl_c_ends_the_map() {
    let script = guest("echo_table").display().to_string();
    let line = "< wait > out.arrows";
    let job = TestJob::empty();
    rustix::fs::mkfifoat(rustix::fs::CWD, job.path("wait"), rustix::fs::Mode::RWXU).unwrap();
    // While the fifo is open for writing, the map waits for the rest of its input.
    let fifo = File::options().read(true).write(true).open(job.path("wait")).unwrap();
    std::io::Write::write_all(&mut &fifo, &stream()[..stream().len() - 8]).unwrap();
    let mut running = spawn(job, b"", &script, line);
    running.until("rows", |running| {
        running.dir().join("out.arrows").metadata().is_ok_and(|found| found.len() > 0)
    });
    running.interrupt();
    let ran = running.wait();
    ran.exits_with(130).says("Ctrl-C: stopped");
}

/// `make python-light` installs the runtime.
#[test]
fn a_script_in_python_maps() {
    let script =
        "def run(table):\n    return table.with_columns(twice=[2 * id for id in table['id']])\n";
    let line = "--runtime light < in.arrows > out.arrows";
    let ran = spawn(TestJob::empty().file("score.py", script), &stream(), "score.py", line).wait();
    ran.exits_with(0);
    let twice = output(&ran)
        .iter()
        .map(|batch| batch.column(2).as_primitive::<Int64Type>().values().to_vec())
        .collect::<Vec<_>>();
    assert_eq!(twice, [[0, 2, 4].to_vec(), [6, 8].to_vec()]);
    let failing = "def run(table):\n    raise ValueError(f'no {len(table)}')\n";
    let ran = spawn(TestJob::empty().file("score.py", failing), &stream(), "score.py", line).wait();
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @r#"
    error: mini-batch 0 (rows 1 to 3 of the input): ValueError: no 3 (score.py, line 2, in run)
    Traceback (most recent call last):
      File "/source/score.py", line 2, in run
        raise ValueError(f'no {len(table)}')
    ValueError: no 3
    "#);
}
