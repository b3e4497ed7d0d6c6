//! The job directory: which job it belongs to, what a second run changes in it, and what its reports say.

use insta::assert_snapshot;
use sandmill_tests::{Ran, Running, TestJob, texts};
use std::fs;

/// A job whose second mini-batch never ends in its first attempt.
fn hanging_job() -> TestJob {
    texts("hostile_files").yaml("arguments: [--do, sleep, --on-batch, 1, --on-attempt, 1]")
}

/// Presses Ctrl-C as soon as the first mini-batch is committed, while the second one hangs.
fn interrupt_after_first(running: &mut Running) {
    running.until("the first mini-batch is committed", |running| {
        fs::read_to_string(running.dir().join("job/output/parallel_run_step.txt"))
            .is_ok_and(|output| output == "a.txt: 1\n")
    });
    running.interrupt();
}

/// Rules O5, T8 in docs/parallel-run-step.md.
#[test]
fn a_finished_job_changes_only_with_overwrite() {
    let first = texts("echo_files").run(&[]);
    first.exits_with(0);
    let output = first.output();
    let state = first.text("job/job.json");
    let second = first.into_job().file("in/d.txt", "4444").run(&["--no-reuse"]);
    second.exits_with(2);
    assert_snapshot!(second.redacted(), @"error: job 'test' is finished in [DIR]/job: use --overwrite to run it again, or --job-dir for another place");
    assert_eq!((second.output(), second.text("job/job.json")), (output.clone(), state));
    let third = second.into_job().run(&["--overwrite"]);
    third.exits_with(0);
    assert_eq!(third.output(), format!("{output}d.txt: 4\n"));
    let fourth = third.into_job().run(&["--overwrite"]);
    assert_eq!(fourth.exits_with(0).output(), format!("{output}d.txt: 4\n"));
}

#[test]
fn overwrite_restarts_an_unfinished_job() {
    let failed = texts("hostile_files")
        .yaml("arguments: [--do, error, --on-batch, 1]\nrun_max_try: 1")
        .run(&[]);
    failed.exits_with(42);
    let again = failed.into_job().run(&["--overwrite", "--set", "error_threshold=1"]);
    again.exits_with(0);
    assert_eq!(again.output(), "a.txt: 1\nc.txt: 3\n");
}

#[test]
fn folders_of_other_jobs_are_refused() {
    let first = texts("echo_files").run(&[]);
    let other = first.into_job().run(&["--set", "name=other", "--overwrite"]);
    other.exits_with(2);
    assert_snapshot!(other.redacted(), @"error: [DIR]/job is the directory of job 'test', not of 'other': name another place with --job-dir");
    assert_eq!(other.output().lines().count(), 3, "the first job's output is untouched");

    let foreign = texts("echo_files").file("job/thesis.txt", "mine").run(&["--overwrite"]);
    foreign.exits_with(2);
    assert_snapshot!(foreign.redacted(), @"error: [DIR]/job is not a job directory (it holds 'thesis.txt' but no job.json): name an empty or new folder with --job-dir");
    assert_eq!(foreign.text("job/thesis.txt"), "mine");
}

/// Rules O5, T8.
#[test]
fn the_output_of_another_job_is_refused() {
    let first = texts("echo_files").yaml("output: results").run(&[]);
    first.exits_with(0);
    let rows = first.text("results/parallel_run_step.txt");
    let arguments = ["run", "job.yaml", "--set", "name=other", "--overwrite"];
    let second = first.into_job().command(&arguments);
    second.exits_with(2);
    assert_snapshot!(second.redacted(), @"error: the output folder [DIR]/results is not empty (it holds 'parallel_run_step.txt'): it may be another job's output; name an empty or new folder for `output`");
    assert_eq!(second.text("results/parallel_run_step.txt"), rows);
}

#[test]
fn inputs_must_not_overlap_the_output() {
    let refused = |settings: &[&str]| {
        let job = texts("echo_files").file("results/a.txt", "");
        let mut arguments = vec!["run", "job.yaml"];
        for setting in settings {
            arguments.extend(["--set", setting]);
        }
        let ran = job.command(&arguments);
        ran.exits_with(2).says("overlap, so the job would read");
        assert!(!ran.has("jobs"), "{ran}");
        ran.redacted()
    };
    assert_snapshot!(refused(&["inputs.texts.path=."]), @"error: input 'texts' and the job directory [DIR]/jobs/test overlap, so the job would read what it writes: choose another job directory with --job-dir, or narrow the input (e.g. data/*.png)");
    assert_snapshot!(refused(&["inputs.texts.path=in", "output=in/out"]), @"error: input 'texts' and the output folder [DIR]/in/out overlap, so the job would read what it writes: name another folder for `output`");
    refused(&["inputs.texts.path=**/*.txt"]);
    refused(&["inputs.texts.path=j*/test/*.txt"]);
    refused(&["inputs.texts.path=results/a.txt", "output=results"]);
    // These globs match no file in jobs/test.
    for glob in ["*.yaml", "i*/*.txt", "in/**"] {
        let set = format!("inputs.texts.path={glob}");
        texts("echo_files").command(&["run", "job.yaml", "--set", &set]).exits_with(0);
    }
}

#[test]
fn an_input_in_the_job_directory_is_not_removed() {
    let first = texts("echo_files").run(&[]);
    first.exits_with(0);
    let again = first.into_job().run(&["--overwrite", "--set", "inputs.texts.path=job/output"]);
    again.exits_with(2).says("overlap, so the job would read");
    assert_eq!(again.output().lines().count(), 3);
}

#[test]
fn a_running_job_cannot_be_run_again() {
    let mut running = hanging_job().start(&[]);
    running.until("the job has begun", |running| running.dir().join("job/job.json").exists());
    let yaml = running.dir().join("job.yaml").display().to_string();
    let job_dir = running.dir().join("job").display().to_string();
    for command in [
        &["run", &yaml, "--job-dir", &job_dir, "--overwrite"][..],
        &["run", &yaml, "--job-dir", &job_dir],
        &["resume", &job_dir],
    ] {
        let ran = TestJob::empty().command(command);
        ran.exits_with(2).says("is running in").says("wait for it to end");
    }
}

/// Rule W11.
#[test]
fn ctrl_c_finishes_running_mini_batches_and_starts_none() {
    let job = texts("hostile_files").yaml("arguments: [--do, pause, --on-batch, 1]");
    let mut running = job.start(&[]);
    interrupt_after_first(&mut running);
    let ran = running.wait();
    ran.exits_with(130);
    assert_eq!(ran.output(), "a.txt: 1\nb.txt: 2\n");
    assert_snapshot!(ran.redacted(), @"
    job test: 1 worker
    Ctrl-C: running mini-batches are finished, no new ones begin; a second signal stops immediately
    stopping: Ctrl-C
    Job test was cancelled after [TIME]: Ctrl-C
      mini-batches  2 of 3
      items         2
      kept          2 rows, in job/output/parallel_run_step.txt
      what to do    to resume: sandmill resume job
    ");
    let again = ran.into_job().run(&[]);
    again.exits_with(0);
    assert_eq!(again.output(), "a.txt: 1\nb.txt: 2\nc.txt: 3\n");
    assert_eq!(again.attempts("RUN_DONE"), ["0, 1", "1, 1", "2, 1"], "each ran once");
}

/// Closing the terminal has the effect of Ctrl-C. Under `nohup`, it has no effect.
#[test]
fn a_hangup_acts_like_ctrl_c_unless_ignored() {
    let until_first_is_committed = |running: &mut Running| {
        running.until("the first mini-batch is committed", |running| {
            fs::read_to_string(running.dir().join("job/output/parallel_run_step.txt"))
                .is_ok_and(|output| output.starts_with("a.txt: 1\n"))
        });
    };
    let job = texts("hostile_files").yaml("arguments: [--do, pause, --on-batch, 1]");
    let mut running = job.start(&[]);
    until_first_is_committed(&mut running);
    running.hang_up();
    let ran = running.wait();
    ran.exits_with(130)
        .says("Job test was cancelled")
        .says("SIGHUP: running mini-batches are finished");
    let mut running = ran.into_job().start_ignoring_hangups();
    running.until("it has begun", |running| running.stderr_so_far().contains("job test"));
    running.hang_up();
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.output(), "a.txt: 1\nb.txt: 2\nc.txt: 3\n");
}

#[test]
fn failures_after_ctrl_c_are_not_retried() {
    let mut running = hanging_job().start(&["--set", "run_invocation_timeout=1"]);
    interrupt_after_first(&mut running);
    let ran = running.wait();
    ran.exits_with(130);
    assert_eq!(ran.output(), "a.txt: 1\n");
    let attempts = ran.log("sys/job_report/processed_mini-batches.csv");
    assert_eq!(attempts.lines().count(), 1 + 2, "{attempts}");
    assert!(attempts.contains("RUN_TIMEOUT"), "{attempts}");
}

#[test]
fn a_second_ctrl_c_stops_at_once() {
    let mut running = hanging_job().start(&[]);
    interrupt_after_first(&mut running);
    running.until("the first Ctrl-C has arrived", |running| {
        running.stderr_so_far().contains("a second signal stops immediately")
    });
    running.interrupt();
    let ran = running.wait();
    ran.exits_with(130);
    // Without the second Ctrl-C, the timeout of 60 s would end the hanging mini-batch.
    assert!(ran.took.as_secs() < 20, "{ran}");
    assert_eq!(ran.output(), "a.txt: 1\n");
    assert_snapshot!(ran.redacted(), @"
    job test: 1 worker
    Ctrl-C: running mini-batches are finished, no new ones begin; a second signal stops immediately
    Ctrl-C: stopping immediately; committed results are kept
    Job test was cancelled after [TIME]: Ctrl-C
      mini-batches  1 of 3
      items         1
      kept          1 row, in job/output/parallel_run_step.txt
      what to do    to resume: sandmill resume job
    ");
}

/// Rules W3, W13, F6, F16, K1.
#[test]
fn a_failed_attempt_is_retried() {
    let ran = texts("hostile_files").yaml("arguments: [--do, error, --on-attempt, 1]").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2", "c.txt: 3"]);
    assert_snapshot!(ran.redacted(), @r"
    job test: 1 worker
    mini-batch 0, attempt 1 (process000), will be tried again: this guest fails, as asked
    mini-batch 1, attempt 1 (process000), will be tried again: this guest fails, as asked
    mini-batch 2, attempt 1 (process000), will be tried again: this guest fails, as asked
    Job test completed in [TIME].
      mini-batches  3
      items         3
      rows          3
      output        job/output/parallel_run_step.txt
    ");
    let result = ran.log("job_result.txt");
    assert!(result.contains("receipts      6 attempts; the last has the hash "), "{result}");
    // Leave out the layers of the process wall, which differ between machines, and what differs between runs.
    let differs = ["  os_sandbox ", "  receipts ", "  used "];
    let is_same = |line: &&str| !differs.iter().any(|name| line.starts_with(name));
    let lines = result.lines().skip(1).filter(is_same);
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    mini-batches  3
    items         3
    rows          3
    output        job/output/parallel_run_step.txt
    ");
    assert_snapshot!(attempts(&ran), @r#"
    Mini-batch Id,Picked Count,Process,Node Id,Process Start Time,Total,Succeeded,Failed,Elapsed Seconds,Process Seconds,Run Method Seconds,Status,Error Category,Error Message,Mini-batch Detail,Inference Calls,Inference Seconds,Inference Bytes In,Inference Bytes Out,Device,Backend
    0,1,process000,0,1,0,1,RUN_EXCEPTION,script_error,"this guest fails, as asked","{""id"":0,""dequeue_count"":1,""minibatch"":""/inputs/texts/a.txt"",""location"":""/inputs/texts/a.txt"",""partition_size"":1,""task_type"":""run"",""will_retry"":true}",0,0.000000,0,0,,
    1,1,process000,0,1,0,1,RUN_EXCEPTION,script_error,"this guest fails, as asked","{""id"":1,""dequeue_count"":1,""minibatch"":""/inputs/texts/b.txt"",""location"":""/inputs/texts/b.txt"",""partition_size"":1,""task_type"":""run"",""will_retry"":true}",0,0.000000,0,0,,
    2,1,process000,0,1,0,1,RUN_EXCEPTION,script_error,"this guest fails, as asked","{""id"":2,""dequeue_count"":1,""minibatch"":""/inputs/texts/c.txt"",""location"":""/inputs/texts/c.txt"",""partition_size"":1,""task_type"":""run"",""will_retry"":true}",0,0.000000,0,0,,
    0,2,process000,0,1,1,0,RUN_DONE,,,"{""id"":0,""dequeue_count"":2,""minibatch"":""/inputs/texts/a.txt"",""location"":""/inputs/texts/a.txt"",""partition_size"":1,""task_type"":""run"",""rows"":1}",0,0.000000,0,0,,
    1,2,process000,0,1,1,0,RUN_DONE,,,"{""id"":1,""dequeue_count"":2,""minibatch"":""/inputs/texts/b.txt"",""location"":""/inputs/texts/b.txt"",""partition_size"":1,""task_type"":""run"",""rows"":1}",0,0.000000,0,0,,
    2,2,process000,0,1,1,0,RUN_DONE,,,"{""id"":2,""dequeue_count"":2,""minibatch"":""/inputs/texts/c.txt"",""location"":""/inputs/texts/c.txt"",""partition_size"":1,""task_type"":""run"",""rows"":1}",0,0.000000,0,0,,
    "#);
    assert_snapshot!(ran.log("user/error.txt"), @r"
    3 times: script_error: this guest fails, as asked
      first in mini-batch 0, attempt 1 (/inputs/texts/a.txt), process000
    Each failure in full: logs/user/error/<node>/<worker>.txt
    ");
}

/// The report of attempts, without times.
fn attempts(ran: &Ran) -> String {
    let report = ran.log("sys/job_report/processed_mini-batches.csv");
    let without_times = |line: &str| {
        let cells: Vec<&str> = line.splitn(12, ',').collect();
        assert_eq!(cells.len(), 12, "{line}");
        [&cells[..4], &cells[5..8], &cells[11..]].concat().join(",")
    };
    let header = report.lines().next().unwrap_or_default().to_owned();
    [header]
        .into_iter()
        .chain(report.lines().skip(1).map(without_times))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Rules W9, W10, W11, T1.
#[test]
fn failures_fail_the_job_by_default() {
    let job =
        texts("hostile_files").yaml("arguments: [--do, error, --on-batch, 1]\nrun_max_try: 2");
    let ran = job.run(&[]);
    ran.exits_with(42);
    assert_snapshot!(ran.redacted(), @"
    job test: 1 worker
    mini-batch 1, attempt 1 (process000), will be tried again: this guest fails, as asked
    mini-batch 1, attempt 2 (process000): this guest fails, as asked
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   this guest fails, as asked
      where         mini-batch 1, process000
      mini-batches  2 of 3, of which 1 failed
      items         2, of which 1 failed (see job/logs/failed_items.csv)
      kept          1 row, in job/output/parallel_run_step.txt
      read next     job/logs/user/error/0/process000.txt
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
    let ran = ran.into_job().run(&["--overwrite", "--set", "error_threshold=1"]);
    ran.exits_with(0).says("3, of which 1 failed");
    assert_eq!(ran.output(), "a.txt: 1\nc.txt: 3\n");
    let ran = ran.into_job().run(&[
        "--overwrite",
        "--set",
        "arguments=[--do, error]",
        "--set",
        "error_threshold=2",
    ]);
    ran.exits_with(42);
    // The job tolerates all failures, but there are no rows to write.
    let ran = ran.into_job().run(&[
        "--overwrite",
        "--set",
        "arguments=[--do, error]",
        "--set",
        "error_threshold=-1",
    ]);
    ran.exits_with(42);
    assert_snapshot!(ran.redacted(), @"
    job test: 1 worker
    mini-batch 0, attempt 1 (process000), will be tried again: this guest fails, as asked
    mini-batch 0, attempt 2 (process000): this guest fails, as asked
    mini-batch 1, attempt 1 (process000), will be tried again: this guest fails, as asked
    mini-batch 1, attempt 2 (process000): this guest fails, as asked
    mini-batch 2, attempt 1 (process000), will be tried again: this guest fails, as asked
    more failures follow; the logs have all of them
    Job test failed after [TIME]: no item succeeded, so there is nothing to write
      first cause   this guest fails, as asked
      where         mini-batch 0, process000
      mini-batches  3, of which 3 failed
      items         3, of which 3 failed (see job/logs/failed_items.csv)
      read next     job/logs/user/error/0/process000.txt
      what to do    fix the entry script as the first cause says; sandmill check COMPONENT --run FILE tries it on one file
      next command  sandmill explain job
    ");
}
