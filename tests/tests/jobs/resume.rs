//! Jobs that are resumed, refused because something changed, or not run at all because nothing changed.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, texts};
use std::fs;

/// A job that fails, because its second of three mini-batches always fails.
fn failing_job() -> TestJob {
    texts("hostile_files").yaml("arguments: [--do, error, --on-batch, 1]\nrun_max_try: 1")
}

/// [`failing_job`] after it has failed.
fn failed_job() -> TestJob {
    let ran = failing_job().run(&[]);
    ran.exits_with(42);
    ran.into_job()
}

/// The content of `job.json`.
fn state(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.text("job/job.json")).unwrap()
}

/// Rules W1 and W15 (docs/parallel-run-step.md): new workers try failed mini-batches again, and good results
/// are kept.
#[test]
fn a_failed_job_resumes_with_a_higher_threshold() {
    let again = failed_job().resume(&[]);
    again.exits_with(42).says("error_threshold allows (0)");
    let done = again.into_job().resume(&["--set", "error_threshold=1"]);
    done.exits_with(0);
    assert_eq!(done.output(), "a.txt: 1\nc.txt: 3\n");
    assert_eq!(done.attempts("RUN_EXCEPTION"), ["1, 1"; 3], "mini-batch 1 is tried in each run");
    assert_eq!(done.attempts("RUN_DONE"), ["0, 1", "2, 1"], "the others are done once");
    for worker in ["process000", "process001", "process002"] {
        assert!(!done.attempts(worker).is_empty(), "each run has a new worker: {done}");
    }
    assert_eq!(state(&done)["times_resumed"], 2);
    assert_eq!(state(&done)["status"], "completed");
}

/// Earlier versions of Sandmill wrote CSV into `parallel_run_step.txt`. A job that such a version began keeps
/// that name.
#[test]
fn a_job_of_an_earlier_version_keeps_the_name_of_its_output() {
    let settings = "output_format: csv\nappend_row_file_name: parallel_run_step.txt";
    let ran = failing_job().yaml(settings).run(&[]);
    ran.exits_with(42);
    let job = ran.into_job();
    let text = fs::read_to_string(job.path("job.yaml")).unwrap();
    let text = text.replace("append_row_file_name: parallel_run_step.txt", "");
    fs::write(job.path("job.yaml"), text).unwrap();
    let done = job.resume(&["--set", "error_threshold=1"]);
    done.exits_with(0);
    assert_eq!(done.text("job/output/parallel_run_step.txt"), "a.txt: 1\nc.txt: 3\n");
    let reused = done.into_job().run(&["--set", "error_threshold=1"]);
    reused.exits_with(0).says("reused, as nothing has changed since");
    let restarted = reused.into_job().run(&["--set", "error_threshold=1", "--overwrite"]);
    restarted.exits_with(0);
    assert_eq!(restarted.text("job/output/parallel_run_step.csv"), "a.txt: 1\nc.txt: 3\n");
}

/// Rule W15: failed mini-batches are also retried if the leader ended before `job.json` recorded the failure,
/// or during a resume.
#[test]
fn failed_mini_batches_are_retried_after_any_crash() {
    let with_fail_point = |point: &str, job: TestJob| job.env("SANDMILL_FAIL_POINT", point);
    let mut job = failing_job();
    for point in ["end-committed", "job-resumed"] {
        let crashed = match point {
            "end-committed" => with_fail_point(point, job).run(&[]),
            _ => with_fail_point(point, job).resume(&[]),
        };
        crashed.exits_with(-9);
        let again = with_fail_point("", crashed.into_job()).resume(&[]);
        again.exits_with(42);
        let restored = &state(&again)["result"]["restored_mini_batches"];
        assert_eq!(*restored, 1, "{point}: the failed mini-batch counts as done\n{again}");
        job = again.into_job();
    }
}

/// Rule W15: a mini-batch that failed for lack of a resource may succeed with a higher limit. So limits and
/// timeouts may change, and also thresholds, the numbers of workers and attempts, and settings that only
/// affect reports.
#[test]
fn settings_that_do_not_affect_rows_may_change() {
    let failed = texts("hostile_files")
        .yaml("arguments: [--do, huge-rows, --on-batch, 1]\nrun_max_try: 1\nlimits: {results: 1MB}")
        .run(&[]);
    failed.exits_with(42);
    let settings = [
        "limits.results=100MB",
        "run_invocation_timeout=170",
        "run_max_try=2",
        "error_threshold=0",
        "process_count_per_node=2",
        "logging_level=DEBUG",
    ];
    let mut arguments = vec!["--process-count", "2"];
    arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    let ran = failed.into_job().resume(&arguments);
    ran.exits_with(0);
    let lengths: Vec<usize> = ran.sorted_output().iter().map(String::len).collect();
    assert_eq!(lengths, ["a.txt: 1".len(), "c.txt: 3".len(), 64 << 20]);
}

/// With other settings, the resume runs nothing and changes nothing on the disk.
#[test]
fn settings_that_affect_rows_must_be_unchanged() {
    let settings = "side_inputs: {model: model}\nenvironment_variables: {TOKEN: one}";
    let ran = failing_job().yaml(settings).file("model/weights", "1").run(&[]);
    ran.exits_with(42);
    let before = (ran.text("job/job.json"), ran.log("sys/events.jsonl"), ran.output());
    let mut job = ran.into_job();
    let mut refused = |settings: &[&str]| {
        let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let job_now = std::mem::replace(&mut job, TestJob::empty());
        let ran = job_now.resume(&arguments);
        ran.exits_with(2);
        let after = (ran.text("job/job.json"), ran.log("sys/events.jsonl"), ran.output());
        assert!(after == before, "{ran}");
        let message = without_counts(&ran.redacted());
        job = ran.into_job();
        message
    };
    assert_snapshot!(refused(&["arguments=[--do, error]"]), @r#"
    error: job 'test' in [DIR]/job failed before it was finished, with N done. These results do not match the current job: arguments: was [--do, error, --on-batch, "1"], is now [--do, error]. To keep these results, undo the change and run the job again; to start over, use --overwrite, or --job-dir for another place
    --overwrite and --job-dir are options of sandmill run: sandmill run [DIR]/job.yaml --set 'arguments=[--do, error]' --job-dir job --overwrite
    "#);
    assert_snapshot!(refused(&["environment_variables.TOKEN=two"]), @"
    error: job 'test' in [DIR]/job failed before it was finished, with N done. These results do not match the current job: environment_variables.TOKEN has changed. To keep these results, undo the change and run the job again; to start over, use --overwrite, or --job-dir for another place
    --overwrite and --job-dir are options of sandmill run: sandmill run [DIR]/job.yaml --job-dir job --overwrite
    ");
    assert_snapshot!(refused(&["mini_batch_size=2", "append_row_file_name=rows.txt"]), @r#"
    error: job 'test' in [DIR]/job failed before it was finished, with N done. These results do not match the current job: mini_batch_size: was 1 file, is now 2 files; append_row_file_name: was parallel_run_step.txt, is now rows.txt. To keep these results, undo the change and run the job again; to start over, use --overwrite, or --job-dir for another place
    --overwrite and --job-dir are options of sandmill run: sandmill run [DIR]/job.yaml --set 'mini_batch_size=2' --set 'append_row_file_name=rows.txt' --job-dir job --overwrite
    "#);
    let other = format!("entry_script={}", guest("echo_files").display());
    assert!(
        refused(&[&other]).contains(": the entry script is a different component now. To keep")
    );
    assert!(refused(&["inputs.texts.path=in/*"]).contains(": inputs.texts.path: was "));
    assert!(refused(&["output=elsewhere"]).contains(": output: was not set, is now "));
    assert!(refused(&["output_action=summary_only"]).contains(": output_action: was "));
    job = job.file("model/weights", "12");
    assert!(
        refusal_of_changed_files(job)
            .contains(": the files in the side input at /side_inputs/model have changed. To keep")
    );
}

/// The message of a resume with the same settings, but changed files.
fn refusal_of_changed_files(job: TestJob) -> String {
    let ran = job.resume(&[]);
    ran.exits_with(2);
    without_counts(&ran.redacted())
}

/// Replaces the numbers of mini-batches that were done, which differ from run to run.
fn without_counts(message: &str) -> String {
    let (before, counts) = message.split_once(" finished, with ").unwrap();
    let (_, after) = counts.split_once(" done").unwrap();
    format!("{before} finished, with N done{after}")
}

/// The usual case: a script fails immediately, is corrected, and runs again.
#[test]
fn a_job_without_any_success_starts_over() {
    let failing = "arguments: [--do, error]\nrun_max_try: 1";
    let ran = texts("hostile_files").yaml(failing).run(&[]);
    ran.exits_with(42);
    let again = ran.into_job().run(&["--set", "arguments=[--do, error, --on-batch, 7]"]);
    again.exits_with(0).says(
        "job 'test' failed before any mini-batch had succeeded, and starts over: arguments: was [--do, error], \
         is now [--do, error, --on-batch, \"7\"]",
    );
    assert_eq!(state(&again)["times_resumed"], 0);
}

/// Rule M9: a job is not resumed if its inputs have changed.
#[test]
fn inputs_must_be_unchanged() {
    let message = refusal_of_changed_files(failed_job().file("in/a.txt", "1234"));
    assert_snapshot!(message, @"
    error: job 'test' in [DIR]/job failed before it was finished, with N done. These results do not match the current job: input 'texts' changed: mini-batch 0 (/inputs/texts/a.txt) has changed since it was done. To keep these results, undo the change and run the job again; to start over, use --overwrite, or --job-dir for another place
    --overwrite and --job-dir are options of sandmill run: sandmill run [DIR]/job.yaml --job-dir job --overwrite
    ");
    // The new file is the first in the list, so mini-batch 0 would have another file.
    let message = refusal_of_changed_files(failed_job().file("in/0.txt", "0"));
    assert!(
        message.contains("input 'texts' changed: mini-batch 0 (/inputs/texts/0.txt) has changed since it was done"),
        "{message}"
    );
    let message = refusal_of_changed_files(failed_job().file("in/d.txt", "4"));
    assert!(
        message.contains(": the inputs changed: there were 3 mini-batches, now 4. To keep"),
        "{message}"
    );
    let job = failed_job();
    fs::remove_dir_all(job.path("in")).unwrap();
    let ran = job.resume(&[]);
    ran.exits_with(2).says("input 'texts'");
    // With unchanged inputs, the job is resumed, and fails as before.
    let again = failed_job().file("unrelated.txt", "").resume(&[]);
    again.exits_with(42);
}

#[test]
fn a_resume_works_from_any_folder_with_earlier_settings() {
    let ran = failing_job().yaml("output: results").run(&[
        "--set",
        "mini_batch_size=2",
        "--process-count",
        "2",
    ]);
    ran.exits_with(42);
    let job_dir = ran.dir().join("job").display().to_string();
    let elsewhere = TestJob::empty().command(&["resume", &job_dir, "--set", "error_threshold=-1"]);
    elsewhere.exits_with(0);
    assert_eq!(ran.text("results/parallel_run_step.txt").lines().count(), 2);
    assert!(ran.log("sys/events.jsonl").contains(r#""workers":2"#));
}

#[test]
fn only_a_job_directory_can_be_resumed() {
    let ran = texts("echo_files").command(&["resume", "in"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: in is not a job directory (it has no job.json): name the directory of a job that was started");
    TestJob::empty().command(&["resume", "nowhere"]).exits_with(2).says("is not a job directory");
    let old =
        TestJob::empty().file("job/job.json", r#"{"version": 1}"#).command(&["resume", "job"]);
    old.exits_with(2).says("its version is 1, this program knows 2").says("use the version of");
    let ran = failed_job();
    fs::remove_file(ran.path("job.yaml")).unwrap();
    ran.resume(&[]).exits_with(2).says("job.yaml: there is no such file");
}

/// Rule C25.
#[test]
fn the_result_of_a_job_is_reused_if_nothing_changed() {
    let first = texts("echo_files").run(&[]);
    first.exits_with(0);
    let before = (first.text("job/job.json"), first.log("sys/events.jsonl"), first.output());
    let result = first.log("job_result.txt");
    let second = first.into_job().run(&["--set", "run_max_try=7", "--process-count", "2"]);
    second.exits_with(0);
    assert_snapshot!(second.redacted(), @"
    Job test completed: result of [WHEN] reused, as nothing has changed since (--overwrite runs it again)
      mini-batches  3
      items         3
      rows          3
      output        job/output/parallel_run_step.txt
    ");
    let again = second.into_job().resume(&[]);
    again.exits_with(0).says("reused, as nothing has changed since");
    let after = (again.text("job/job.json"), again.log("sys/events.jsonl"), again.output());
    assert!(before == after, "{again}");
    assert_eq!(again.log("job_result.txt"), result);
    assert!(!again.has("job/spill"));
}

/// Rule C25.
#[test]
fn a_result_is_not_reused_if_it_would_differ() {
    let refused = |job: TestJob, arguments: &[&str]| {
        let ran = job.run(arguments);
        ran.exits_with(2).says("use --overwrite to run it again");
        let message = ran.redacted();
        (ran.into_job(), message)
    };
    let done = texts("echo_files").run(&[]);
    done.exits_with(0);
    let (job, message) = refused(done.into_job(), &["--set", "arguments=[--x]"]);
    assert_snapshot!(message, @r#"error: job 'test' is finished in [DIR]/job, and its result is not reused: arguments: was [], is now [--x]; use --overwrite to run it again, or --job-dir for another place"#);
    let (job, message) = refused(job, &["--no-reuse"]);
    assert_snapshot!(message, @"error: job 'test' is finished in [DIR]/job: use --overwrite to run it again, or --job-dir for another place");
    let (job, message) = refused(job, &["--set", "allow_reuse=false"]);
    assert!(message.contains("is finished in [DIR]/job: use --overwrite"), "{message}");
    let output = fs::read(job.path("job/output/parallel_run_step.txt")).unwrap();
    let (job, message) = refused(job.file("job/output/parallel_run_step.txt", "a"), &[]);
    assert!(message.contains("parallel_run_step.txt had 27 bytes, now 1;"), "{message}");
    let job = job.file("job/output/parallel_run_step.txt", output);
    let (_, message) = refused(job.file("in/d.txt", ""), &[]);
    assert!(
        message.contains(": the inputs changed: there were 3 mini-batches, now 4;"),
        "{message}"
    );
}

/// Rule C25, for files that the entry script wrote.
#[test]
fn a_result_is_reused_only_with_all_its_files() {
    let job = texts("writes_files").yaml("output_action: summary_only\noutput: results");
    let first = job.run(&[]);
    first.exits_with(0);
    let second = first.into_job().run(&[]);
    second.exits_with(0).says("reused, as nothing has changed since");
    let job = second.into_job();
    fs::remove_file(job.path("results/b.txt.out")).unwrap();
    job.run(&[]).exits_with(2).says("held 6 files, now 5");
}

/// At the end of a job, the leader checks that the output contains the committed rows.
#[test]
fn a_changed_output_fails_the_job_and_a_resume_repairs_it() {
    let job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: {texts: in}\narguments: [--do, pause]\nmini_batch_size: 1\n\
         process_count_per_node: 1",
    );
    let job = (0..3).fold(job, |job, n| job.file(&format!("in/f{n}.txt"), "x"));
    let mut running = job.start(&[]);
    let output = running.dir().join("job/output/parallel_run_step.txt");
    running.until("the first mini-batch is done", |_| {
        fs::metadata(&output).is_ok_and(|file| file.len() > 0)
    });
    let file = fs::OpenOptions::new().write(true).open(&output).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"F", 0).unwrap();
    let ran = running.wait();
    ran.exits_with(42)
        .says("differs in bytes 0 up to 10 from the rows that process000 reported")
        .says("what to do    check the disk, then resume: sandmill resume job");
    let ran = ran.into_job().resume(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["f0.txt: 1", "f1.txt: 1", "f2.txt: 1"], "{ran}");
}
