//! Inputs and output folders that cannot be used.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A job for one worker over the folder `input`, which contains `a.txt`.
fn job() -> TestJob {
    job_of("echo_files")
}

fn job_of(entry_script: &str) -> TestJob {
    TestJob::new(&guest(entry_script))
        .yaml("process_count_per_node: 1\nrun_max_try: 1")
        .file("input/a.txt", "text")
}

/// Runs a job with this input after `prepare` has changed the folder. Returns the messages.
fn refused(input: &str, code: i32, prepare: impl FnOnce(&TestJob)) -> String {
    let entry_script = if input.contains("format:") { "echo_table" } else { "echo_files" };
    let job = job_of(entry_script).yaml(&format!("inputs: {{ texts: {input} }}"));
    prepare(&job);
    let ran = job.run(&[]);
    ran.exits_with(code);
    let messages = ran.messages();
    messages.lines().filter(|line| !line.starts_with("job test: ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn missing_inputs_are_refused() {
    let messages = [refused("nowhere", 2, |_| ()), refused("input/[a", 2, |_| ())];
    assert_snapshot!(messages.join("\n"), @r#"
    error: input 'texts': [DIR]/nowhere is not there; check the path
    error: job.yaml:5: not valid YAML (column 24): while parsing a flow mapping, did not find expected ',' or '}'; text that contains ": " must be in quotes
    "#);
}

/// Rule W10 (docs/parallel-run-step.md): an input without files ends the job in the same way as files without
/// rows.
#[test]
fn inputs_without_items_fail_the_job() {
    let table = |text: &'static str, format: &str| {
        let input = format!("{{ path: 'rows/*', format: {format} }}");
        refused(&input, 42, move |job| {
            fs::create_dir(job.path("rows")).unwrap();
            fs::write(job.path("rows/a"), text).unwrap();
        })
    };
    let messages = [
        refused("input/*.png", 42, |_| ()),
        refused("{ path: 'input/*.csv', format: csv }", 42, |_| ()),
        refused("{ path: 'input/*.parquet', format: parquet }", 42, |_| ()),
        refused("empty", 42, |job| fs::create_dir(job.path("empty")).unwrap()),
        table("", "csv"),
        table("id,x\n", "csv"),
        table("", "jsonl"),
    ];
    let reasons = messages.iter().map(|messages| {
        let last = messages.lines().find(|line| line.starts_with("Job test")).unwrap();
        let prefix = "Job test failed after [TIME]: the inputs hold no items, so there is nothing to write: ";
        last.strip_prefix(prefix).unwrap_or_else(|| panic!("{messages}"))
    });
    assert_snapshot!(reasons.collect::<Vec<_>>().join("\n"), @"
    input 'texts': the glob [DIR]/input/*.png matches no file; check the path
    input 'texts': the glob [DIR]/input/*.csv matches no file; check the path
    input 'texts': the glob [DIR]/input/*.parquet matches no file; check the path
    input 'texts': the folder [DIR]/empty holds no file
    [DIR]/rows/a is empty and gives no mini-batch
    [DIR]/rows/a holds a header and no rows and gives no mini-batch
    [DIR]/rows/a is empty and gives no mini-batch
    ");
    // A job without an output of rows succeeds.
    let job = job().yaml("inputs: { texts: 'input/*.png' }\noutput_action: summary_only");
    job.run(&[]).exits_with(0).says("matches no file; check the path");
}

/// Each entry of an input folder that is not a regular file fails, and the job continues with the other
/// files. The next test does the same for tables.
#[test]
fn entries_that_are_not_regular_files_fail_alone() {
    let job = TestJob::new(&guest("echo_files"))
        .yaml("inputs: { texts: input }\nprocess_count_per_node: 2\nmini_batch_size: 1")
        .file("input/a.txt", "text")
        .file("input/z/b.txt", "more")
        .file("away/c.txt", "c");
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, job.path("input/fifo"), kind, mode, 0).unwrap();
    let links = ["/etc/passwd", "../job.yaml", "nothing", "link3", "../away"];
    for (number, target) in links.iter().enumerate() {
        symlink(target, job.path(&format!("input/link{number}"))).unwrap();
    }
    fs::write(job.path("input").join(OsStr::from_bytes(b"caf\xe9.txt")), "").unwrap();
    let ran = job.run(&["--set", "error_threshold=7"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 4", "b.txt: 4"]);
    let text = ran.failed_items();
    for (name, reason) in [
        ("caf\u{fffd}.txt", "is not UTF-8; rename the file"),
        ("fifo", "is a device, fifo or socket"),
        ("link0", "leads out of the folder, to /etc/passwd"),
        ("link1", "leads out of the folder"),
        ("link2", "is a broken link"),
        ("link3", "Too many levels of symbolic links"),
        ("link4", "is a link to a folder outside of the input"),
    ] {
        let mut lines =
            text.lines().filter(|line| line.contains(&format!(",/inputs/texts/{name},")));
        let line = lines.next().unwrap_or_else(|| panic!("no {name} in {text}"));
        assert!(line.contains(reason), "{line}");
    }
    assert_eq!(ran.failed_kinds(), ["load_failed"; 7]);
    let ran = ran.into_job().run(&["--overwrite", "--set", "error_threshold=6"]);
    ran.exits_with(42).says("more than error_threshold allows (6)");
}

/// In a folder of tables, a link that cannot be followed also fails alone, and the job continues with the
/// other files.
#[test]
fn a_bad_link_among_tables_fails_alone() {
    let job = TestJob::new(&guest("echo_table"))
        .yaml("inputs: { rows: { path: rows, format: csv } }\nprocess_count_per_node: 1")
        .file("rows/a.csv", "id\n1\n2\n")
        .file("away.csv", "id\n3\n");
    symlink("../away.csv", job.path("rows/0.csv")).unwrap();
    symlink("nothing", job.path("rows/b.csv")).unwrap();
    let ran = job.run(&["--set", "error_threshold=2"]);
    ran.exits_with(0).says("leads out of the folder").says("is a broken link; remove or repair it");
    assert_eq!(ran.failed_items().lines().count(), 1 + 2, "{}", ran.failed_items());
}

#[test]
fn a_device_is_refused_as_an_input() {
    assert_snapshot!(refused("/dev/null", 2, |_| ()), @"error: input 'texts': /dev/null is neither a file nor a folder but a device, fifo or socket; inputs are read from files");
}

/// A link to a folder may lead in a circle, so it is skipped.
#[test]
fn links_to_folders_are_skipped() {
    let job = job().yaml("inputs: { texts: input }");
    symlink(".", job.path("input/round")).unwrap();
    let ran = job.run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "a.txt: 4\n");
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    note: input 'texts': [DIR]/input/round is a link to a folder and is skipped; name that folder as a path of the input to include it
    Job test completed in [TIME].
      mini-batches  1
      items         1
      rows          1
      output        job/output/parallel_run_step.txt
    ");
}

/// Whether the permissions of files apply to the user who runs the tests. They do not apply to
/// root. In that case, prints a message, because the test passes without checking anything.
fn permissions_apply(job: &TestJob) -> bool {
    let path = job.path("probe");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let apply = fs::read(&path).is_err();
    if !apply {
        eprintln!("skipped: permissions do not apply to this user");
    }
    apply
}

/// Rule T2: a file that may not be read fails, and the message names the file.
#[test]
fn files_without_read_permission_fail_alone() {
    let job = job().yaml("inputs: { texts: input }").file("input/b.txt", "secret");
    if !permissions_apply(&job) {
        return;
    }
    let closed = fs::Permissions::from_mode(0o000);
    fs::set_permissions(job.path("input/b.txt"), closed.clone()).unwrap();
    let ran = job.run(&["--set", "mini_batch_size=1", "--set", "error_threshold=1"]);
    ran.exits_with(0).says("/inputs/texts/b.txt: ");
    assert_eq!(ran.output(), "a.txt: 4\n");
    let job = ran.into_job();
    fs::set_permissions(job.path("input"), closed).unwrap();
    let ran = job.run(&["--overwrite"]);
    fs::set_permissions(ran.dir().join("input"), fs::Permissions::from_mode(0o700)).unwrap();
    ran.exits_with(2).says("input 'texts'").says("may not be read by this user");
}

#[test]
fn output_folders_without_write_permission_are_refused() {
    let job = job().yaml("inputs: { texts: input }\noutput: closed");
    fs::create_dir(job.path("closed")).unwrap();
    if !permissions_apply(&job) {
        return;
    }
    fs::set_permissions(job.path("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let ran = job.run(&[]);
    ran.exits_with(2)
        .says("cannot write to the output folder")
        .says("name a folder where you may write");
}

#[test]
fn a_file_larger_than_limits_read() {
    let ran = job()
        .yaml("inputs: { texts: input }\nlimits: { read: 10 }\nmini_batch_size: 1")
        .file("input/b.txt", "x".repeat(11))
        .run(&["--set", "error_threshold=1"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "a.txt: 4\n");
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    mini-batch 1, attempt 1 ([WORKER]): /inputs/texts/b.txt: it has 11 bytes, more than limits.read allows (10 bytes)
    Job test completed in [TIME].
      mini-batches  2, of which 1 failed
      items         2, of which 1 failed (see job/logs/failed_items.csv)
      rows          1
      output        job/output/parallel_run_step.txt
    ");
}

/// A job with this output folder. The files `full/theirs.txt` and `file` belong to the user, so they must
/// stay.
fn job_to(output: &str) -> TestJob {
    job()
        .yaml(&format!("inputs: {{ texts: input }}\noutput: {output}"))
        .file("full/theirs.txt", "theirs")
        .file("file", "theirs")
}

/// Checks that the job is refused and that the user's files are unchanged. Returns the messages.
fn refusal(ran: &Ran) -> String {
    ran.exits_with(2);
    assert_eq!(ran.text("full/theirs.txt"), "theirs");
    assert_eq!(ran.text("file"), "theirs");
    ran.messages()
}

#[test]
fn unusable_output_folders_and_job_directories_are_refused() {
    let mut messages: Vec<String> = ["full", "file", "/dev/full", "/proc/nowhere", "."]
        .iter()
        .map(|output| format!("{output}: {}", refusal(&job_to(output).run(&[]))))
        .collect();
    for dir in ["full", "file", "/proc/nowhere"] {
        let ran = job_to("results").command(&["run", "job.yaml", "--job-dir", dir]);
        messages.push(format!("--job-dir {dir}: {}", refusal(&ran)));
    }
    assert_snapshot!(messages.join("\n"), @"
    full: error: the output folder [DIR]/full is not empty (it holds 'theirs.txt'): it may be another job's output; name an empty or new folder for `output`
    file: error: job.yaml:6: output: [DIR]/file is a file; name a folder
    /dev/full: error: job.yaml:6: output: /dev/full is a file; name a folder
    /proc/nowhere: error: cannot make the folder /proc/nowhere: No such file or directory (os error 2); name a folder where you may write
    .: error: input 'texts' and the output folder [DIR] overlap, so the job would read what it writes: name another folder for `output`
    --job-dir full: error: [DIR]/full is not a job directory (it holds 'theirs.txt' but no job.json): name an empty or new folder with --job-dir
    --job-dir file: error: [DIR]/file is not a folder: name an empty or new one
    --job-dir /proc/nowhere: error: cannot make the folder /proc/nowhere: No such file or directory (os error 2); name a folder where you may write
    ");
}

#[test]
fn a_used_job_directory_is_refused() {
    let ran = job().yaml("inputs: { texts: input }\noutput: results").run(&[]);
    ran.exits_with(0);
    let again = ran.into_job().run(&["--no-reuse"]);
    again.exits_with(2);
    let mut messages = again.messages() + "\n";
    assert_eq!(again.text("results/parallel_run_step.txt"), "a.txt: 4\n");
    let other = again.into_job().run(&["--set", "name=second"]);
    other.exits_with(2);
    messages += &(other.messages() + "\n");
    let elsewhere = other.into_job().command(&["run", "job.yaml", "--job-dir", "elsewhere"]);
    elsewhere.exits_with(2);
    messages += &elsewhere.messages();
    assert_eq!(elsewhere.text("results/parallel_run_step.txt"), "a.txt: 4\n");
    assert_snapshot!(messages, @"
    error: job 'test' is finished in [DIR]/job: use --overwrite to run it again, or --job-dir for another place
    error: [DIR]/job is the directory of job 'test', not of 'second': name another place with --job-dir
    error: the output folder [DIR]/results is not empty (it holds 'parallel_run_step.txt'): it may be another job's output; name an empty or new folder for `output`
    ");
}

/// A file that cannot be read fails. After the file is corrected, a resume reads the new content, and repeats
/// nothing else.
#[test]
fn a_resume_reads_a_corrected_file() {
    let job = TestJob::new(&guest("echo_table"))
        .yaml(
            "inputs: {t: {path: in, format: csv}}\nmini_batch_size: 4\nprocess_count_per_node: 1\n\
             error_threshold: 0\narguments: [--rows]",
        )
        .file("in/a.csv", "n\n1\n2\n")
        .file("in/b.csv", b"\x1f\x8b\x08 no gzip")
        .file("in/c.csv", "n\n7\n8\n9\n");
    let ran = job.run(&[]);
    ran.exits_with(42);
    let before = ran.output().lines().count();
    let job = ran.into_job().file("in/b.csv", "n\n3\n4\n5\n6\n");
    let ran = job.resume(&[]);
    ran.exits_with(0);
    assert!(before < 9, "{before}");
    assert_eq!(ran.sorted_output(), ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    // If nothing changes after the resume, the next run reuses the result.
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    ran.says("nothing has changed");
}
