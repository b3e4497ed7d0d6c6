//! Tests of [`super`].

use super::*;
use crate::model::{Device, EndedBy, Failure, InferenceStats, ItemCounts, shell_word};
use crate::samples;

fn paths() -> ReportPaths {
    ReportPaths {
        shown_from: "/home/ada".into(),
        ..samples::paths("/home/ada/jobs/digits".as_ref())
    }
}

fn text(result: &JobResult) -> String {
    result_text(result, &paths())
}

/// Rule W8 in docs/parallel-run-step.md: the text of a completed job.
#[test]
fn completed() {
    let mut result = samples::result(JobStatus::Completed);
    insta::assert_snapshot!(text(&result), @r"
    Job digits completed in 3.2 s.
      mini-batches  180
      items         1,797
      rows          1,797
      output        jobs/digits/output/parallel_run_step.txt
    ");
    result.items = ItemCounts::from_returned(1797, 1790);
    result.rows = 0;
    insta::assert_snapshot!(text(&result), @r"
    Job digits completed in 3.2 s.
      mini-batches  180
      items         1,797, of which 7 failed (see jobs/digits/logs/failed_items.csv)
      output        jobs/digits/output/parallel_run_step.txt
    ");
}

/// The text says how often models ran and where. It also says that a model for a GPU ran on the CPU.
#[test]
fn inference_is_reported() {
    let mut result = samples::result(JobStatus::Completed);
    result.inference = InferenceStats { device: Some(Device::Gpu(0)), ..samples::inference() };
    result.inference.fell_back = false;
    insta::assert_snapshot!(text(&result), @"
    Job digits completed in 3.2 s.
      mini-batches  180
      items         1,797
      rows          1,797
      inference     3 calls on gpu 0 by tract, 0.06 s
      output        jobs/digits/output/parallel_run_step.txt
    ");
    result.inference = samples::inference();
    let reported = text(&result);
    let line = reported.lines().find(|line| line.contains("inference")).unwrap();
    insta::assert_snapshot!(line.trim(), @"inference     3 calls on cpu by tract, 0.06 s; a model that is meant for a GPU fell back to cpu, as the job allows");
    let mut failed = samples::result(JobStatus::Failed);
    failed.inference = samples::inference();
    assert!(text(&failed).contains("fell back to cpu"), "{}", text(&failed));
}

/// W9, F2, T1: the text has the message, the first cause, and the file and the command that come next.
#[test]
fn failed() {
    insta::assert_snapshot!(text(&samples::result(JobStatus::Failed)), @r#"
    Job digits failed after 3.2 s: 10 items failed, more than error_threshold allows (0)
      first cause   panicked at src/lib.rs:12:9: no digit, "5" expected
      where         mini-batch 2, process001
      mini-batches  3 of 180, of which 1 failed
      items         30, of which 10 failed (see jobs/digits/logs/failed_items.csv)
      kept          20 rows, in jobs/digits/output/parallel_run_step.txt
      read next     jobs/digits/logs/user/error/0/process001.txt
      next command  sandmill explain jobs/digits
    "#);
}

#[test]
fn failed_by_an_item() {
    let mut result = samples::result(JobStatus::Failed);
    result.items = ItemCounts::from_returned(30, 29);
    result.reason = "1 item failed, more than error_threshold allows (0)".to_owned();
    if let Some(first) = &mut result.first_failure {
        let mut item = samples::broken_item();
        item.line = Some(12);
        first.failure = Failure::new(FailureKind::ScriptError, item.reason.clone());
        first.item = Some(item);
    }
    insta::assert_snapshot!(text(&result), @"
    Job digits failed after 3.2 s: 1 item failed, more than error_threshold allows (0)
      first cause   not a PNG file
      item          /inputs/images/img_0007.png, line 12
      where         mini-batch 2, process001
      mini-batches  3 of 180, of which 1 failed
      items         30, of which 1 failed (see jobs/digits/logs/failed_items.csv)
      kept          20 rows, in jobs/digits/output/parallel_run_step.txt
      read next     jobs/digits/logs/failed_items.csv
      next command  sandmill explain jobs/digits
    ");
}

#[test]
fn failed_before_the_first_mini_batch() {
    let mut result = samples::result(JobStatus::Failed);
    result.reason = "init failed in 6 workers in a row".to_owned();
    result.items = ItemCounts::default();
    (result.succeeded_mini_batches, result.failed_mini_batches) = (0, 0);
    if let Some(first) = &mut result.first_failure {
        first.mini_batch = None;
    }
    insta::assert_snapshot!(text(&result), @r#"
    Job digits failed after 3.2 s: init failed in 6 workers in a row
      first cause   panicked at src/lib.rs:12:9: no digit, "5" expected
      where         process001
      mini-batches  0 of 180
      items         0
      kept          20 rows, in jobs/digits/output/parallel_run_step.txt
      read next     jobs/digits/logs/user/error/0/process001.txt
      next command  sandmill explain jobs/digits
    "#);
    result.first_failure = None;
    insta::assert_snapshot!(text(&result), @"
    Job digits failed after 3.2 s: init failed in 6 workers in a row
      mini-batches  0 of 180
      items         0
      kept          20 rows, in jobs/digits/output/parallel_run_step.txt
      read next     jobs/digits/logs/sys/events.jsonl
      next command  sandmill explain jobs/digits
    ");
    result.mini_batches = 0;
    result.reason = "input 'images': the folder data holds no file".to_owned();
    insta::assert_snapshot!(text(&result), @"Job digits did not begin: input 'images': the folder data holds no file");
}

#[test]
fn dropped_rows_are_marked() {
    let result = samples::result(JobStatus::Completed);
    let paths = ReportPaths { output: "/home/ada/out".into(), drops_rows: true, ..paths() };
    insta::assert_snapshot!(result_text(&result, &paths), @r"
    Job digits completed in 3.2 s.
      mini-batches  180
      items         1,797
      rows          1,797, dropped (summary_only)
      output        out
    ");
}

#[test]
fn cancelled() {
    let mut result = samples::result(JobStatus::Cancelled);
    result.reason = "interrupted with Ctrl-C".to_owned();
    result.succeeded_mini_batches = 40;
    result.items = ItemCounts::from_returned(400, 400);
    result.rows = 400;
    insta::assert_snapshot!(text(&result), @r"
    Job digits was cancelled after 3.2 s: interrupted with Ctrl-C
      mini-batches  40 of 180
      items         400
      kept          400 rows, in jobs/digits/output/parallel_run_step.txt
    ");
}

/// T1.
#[test]
fn the_next_file_fits_the_cause() {
    let dir = JobDir::new("j");
    let next = |worker: Option<&str>, kind| {
        let mut result = samples::result(JobStatus::Failed);
        let first = result.first_failure.as_mut().unwrap();
        first.worker = worker.map(str::to_owned);
        first.failure = Failure::new(kind, "x");
        next_file(&result, &dir).display().to_string()
    };
    assert_eq!(next(Some("process003"), FailureKind::Trap), "j/logs/user/error/0/process003.txt");
    assert_eq!(next(Some("process003"), FailureKind::LoadFailed), "j/logs/failed_items.csv");
    assert_eq!(next(None, FailureKind::HostFault), "j/logs/sys/events.jsonl");
}

/// F2.
#[test]
fn the_file_has_the_same_text() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ReportPaths { job_dir: JobDir::new(folder.path()), ..paths() };
    let mut file = ResultFile::new(paths.clone());
    for event in samples::job() {
        file.on_event(&event).unwrap();
    }
    let read = || std::fs::read_to_string(paths.job_dir.result_file()).unwrap();
    let reported = result_text(&samples::result(JobStatus::Failed), &paths);
    assert_eq!(read().strip_prefix(&reported), Some("  kind          trap, RUN_EXCEPTION\n"));
    // W15: while the job is resumed, the old result is marked as such.
    let mut again = samples::job_again().into_iter();
    file.on_event(&again.next().unwrap()).unwrap();
    assert!(
        read().starts_with("Job digits has been running again since 2026-11-21T12:00:00Z. "),
        "{}",
        read()
    );
    assert!(read().contains(&reported));
    again.for_each(|event| file.on_event(&event).unwrap());
    assert!(read().starts_with("Job digits completed in 3.2 s.\n"));
}

/// Section 1.11: each reason for the end has its advice. W4: the text counts short mini-batches. W15: it
/// counts what earlier runs did.
#[test]
fn every_end_has_advice() {
    let mut result = samples::result(JobStatus::Failed);
    result.ended_by = Some(EndedBy::AllowedFailedCount);
    (result.short_mini_batches, result.restored_mini_batches) = (2, 1);
    result.reason = "3 mini-batches failed, more than allowed_failed_count allows (2)".to_owned();
    insta::assert_snapshot!(text(&result) + &machine_readable_causes(&result), @r#"
    Job digits failed after 3.2 s: 3 mini-batches failed, more than allowed_failed_count allows (2)
      first cause   panicked at src/lib.rs:12:9: no digit, "5" expected
      where         mini-batch 2, process001
      mini-batches  3 of 180, of which 1 failed and 2 have fewer rows than items; 1 was done by an earlier run
      items         30, of which 10 failed (see jobs/digits/logs/failed_items.csv)
      kept          20 rows, in jobs/digits/output/parallel_run_step.txt
      read next     jobs/digits/logs/user/error/0/process001.txt
      what to do    to tolerate more and resume: sandmill resume jobs/digits --set allowed_failed_count=N; -1 tolerates all
      next command  sandmill explain jobs/digits
      ended by      allowed_failed_count
      kind          trap, RUN_EXCEPTION
    "#);
    let all = [
        EndedBy::ErrorThreshold,
        EndedBy::AllowedFailedPercent,
        EndedBy::NothingSucceeded,
        EndedBy::InitFailures,
        EndedBy::StuckInInit,
        EndedBy::FirstTaskTimeout,
        EndedBy::ProgressTimeout,
        EndedBy::Plan,
        EndedBy::Commit,
        EndedBy::Replaced,
        EndedBy::Spawn,
        EndedBy::Cancelled,
        EndedBy::MiniBatchLimit,
        EndedBy::JobTime,
    ];
    let paths =
        ReportPaths { job_dir: JobDir::new("/here/jobs/a"), shown_from: "/here".into(), ..paths() };
    let all = all.map(|by| {
        let result = JobResult { ended_by: Some(by), ..*samples::result(JobStatus::Failed) };
        let result = JobResult { first_failure: None, ..result };
        format!("{}: {}", ended_by_name(by), result_advice(&result, &paths).unwrap())
    });
    insta::assert_snapshot!(all.join("\n"), @"
    error_threshold: to tolerate more and resume: sandmill resume jobs/a --set error_threshold=N; -1 tolerates all
    allowed_failed_percent: to tolerate more and resume: sandmill resume jobs/a --set allowed_failed_percent=N
    nothing_succeeded: logs/failed_items.csv says why each item failed, also in earlier runs of the job
    init_failures: repair what init reads, and resume: sandmill resume jobs/a; if you change the entry script or mini_batch_size for that, run the job again with --overwrite
    stuck_in_init: find out what init waits for; if it is only slow, raise run_invocation_timeout
    first_task_timeout: run sandmill plan to see how long it takes to cut the inputs; if it is only slow, raise first_task_creation_timeout
    progress_timeout: see in logs/sys/node/0 what each worker did last; if mini-batches are only slow, make them smaller or raise progress_update_timeout; if you change the entry script or mini_batch_size for that, run the job again with --overwrite
    plan: run sandmill plan to check the inputs
    commit: check the disk, then resume: sandmill resume jobs/a
    replaced: nothing: the other process continues the job
    spawn: the machine may be short of memory or of processes; to resume with fewer workers: sandmill resume jobs/a --set process_count_per_node=N
    cancelled: to resume: sandmill resume jobs/a
    mini_batch_limit: make mini_batch_size larger, so that there are fewer mini-batches; sandmill plan counts them; if you change the entry script or mini_batch_size for that, run the job again with --overwrite
    job_time: to resume, for as long again: sandmill resume jobs/a
    ");
    assert_eq!(shell_word("jobs/it's mine"), r"'jobs/it'\''s mine'");
}

/// W10: if no item succeeded, the advice depends on where the items failed, which may be before `run`.
#[test]
fn advice_mentions_run_only_if_run_was_called() {
    let describe = |kind| {
        let mut result = samples::result(JobStatus::Failed);
        result.ended_by = Some(EndedBy::NothingSucceeded);
        if let Some(first) = &mut result.first_failure {
            first.failure = Failure::new(kind, "x");
        }
        format!("{kind}: {}", result_advice(&result, &paths()).unwrap())
    };
    let kinds = [
        FailureKind::BadInput,
        FailureKind::LoadFailed,
        FailureKind::ScriptError,
        FailureKind::Trap,
        FailureKind::OutOfMemory,
        FailureKind::OutOfFuel,
        FailureKind::Timeout,
        FailureKind::ShortResults,
    ];
    insta::assert_snapshot!(kinds.map(describe).join("\n"), @"
    bad_input: fix the inputs as the first cause says; logs/failed_items.csv names each item that could not be read
    load_failed: fix the inputs as the first cause says; logs/failed_items.csv names each item that could not be read
    script_error: fix the entry script as the first cause says; sandmill check COMPONENT --run FILE tries it on one file; if you change the entry script or mini_batch_size for that, run the job again with --overwrite
    trap: fix the entry script as the first cause says; sandmill check COMPONENT --run FILE tries it on one file; if you change the entry script or mini_batch_size for that, run the job again with --overwrite
    out_of_memory: raise limits.memory, or have the entry script hold less: make mini_batch_size smaller; if you change the entry script or mini_batch_size for that, run the job again with --overwrite
    out_of_fuel: raise limits.fuel, or look for a loop that does not end
    timeout: raise run_invocation_timeout, or make mini_batch_size smaller; if you change the entry script or mini_batch_size for that, run the job again with --overwrite
    short_results: compare what run returns with what it is given; a script that writes its own files and returns nothing needs output_action: summary_only; if you change the entry script or mini_batch_size for that, run the job again with --overwrite
    ");
    let mut none = samples::result(JobStatus::Failed);
    (none.ended_by, none.first_failure) = (Some(EndedBy::NothingSucceeded), None);
    none.items = ItemCounts::default();
    let reported = result_advice(&none, &paths()).unwrap();
    assert_eq!(reported, "run sandmill plan to see what it finds in the inputs");
}

/// W9: a system error that ends the job leads to its file.
#[test]
fn a_system_error_leads_to_its_file() {
    let mut result = samples::result(JobStatus::Failed);
    result.ended_by = Some(EndedBy::Commit);
    assert_eq!(
        next_file(&result, &JobDir::new("j")).display().to_string(),
        "j/logs/sys/error/0/_main.txt"
    );
}

/// C25: the result of an earlier run is reused.
#[test]
fn a_reused_result_is_marked() {
    let ended = "2026-11-20T09:30:00.7Z".parse().unwrap();
    let text = reused_text(&samples::result(JobStatus::Completed), ended, &paths());
    insta::assert_snapshot!(text, @"
    Job digits completed: result of 2026-11-20T09:30:00Z reused, as nothing has changed since (--overwrite runs it again)
      mini-batches  180
      items         1,797
      rows          1,797
      output        jobs/digits/output/parallel_run_step.txt
    ");
}

/// Every report counts the results that came after Sandmill had stopped waiting for them.
#[test]
fn late_attempts_are_reported() {
    use crate::{
        events::EventWriter, explain::explain_text, history::History, master_role::MasterRole,
        overview::Overview,
    };
    let folder = tempfile::tempdir().unwrap();
    let paths = samples::paths(folder.path());
    let dir = &paths.job_dir;
    let mut events = samples::job();
    let kind = EventKind::AttemptDiscarded {
        worker: "process000".into(),
        id: crate::model::MiniBatchId(2),
        attempt: 1,
        succeeded: true,
    };
    events.insert(16, samples::event(16, kind));
    if let Some(Event { kind: EventKind::JobFinished { result }, .. }) = events.last_mut() {
        result.late_attempts = 1;
    }
    let mut reporters: [Box<dyn Reporter>; 3] = [
        Box::new(Overview::new(paths.clone())),
        Box::new(MasterRole::new(dir, 7)),
        Box::new(EventWriter::new(dir, &Default::default())),
    ];
    for event in &events {
        reporters.iter_mut().for_each(|reporter| reporter.on_event(event).unwrap());
    }
    let read = |path| std::fs::read_to_string(path).unwrap();
    let reported = [
        read(dir.overview()),
        read(dir.master_role("20261121100000")),
        explain_text(&History::read(dir).unwrap(), &paths, false),
    ];
    let reported =
        reported.iter().flat_map(|text| text.lines()).filter(|line| line.contains("not count"));
    insta::assert_snapshot!(reported.collect::<Vec<_>>().join("\n"), @"
      too late      1 attempt (the rows do not count)
      too late      1 attempt ended after Sandmill had stopped waiting (a time-out, say); the rows do not count
    2026-11-21 10:00:00,000|WARNING|7|leader|mini-batch 2, attempt 1: process000 reported a success after Sandmill had stopped waiting for it; it does not count
      1 attempt ended after Sandmill had stopped waiting (a time-out, say): their rows do not count
    ");
}
