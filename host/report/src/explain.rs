//! What went wrong in a job, or made it slow, and what to do: the text of `sandmill explain`.

use super::advice::{
    BAD_INPUT, BUSY_SHARE, failure_advice, init_advice, result_advice, was_killed,
};
use super::history::{Attempt, FailureGroup, History, WorkerActivity};
use super::phrases::{count, counted, first_line, seconds, worker_id};
use super::report_paths::ReportPaths;
use crate::model::{EndedBy, FailureKind, JobStatus, MiniBatchId, printable};
use std::fmt::Write;
use std::path::PathBuf;

/// At most this many lines of a stack are shown.
const MAX_STACK_LINES: usize = 12;

/// The explanation, in sections: how the job ended, the first cause, failures by kind, failed items, the
/// slowest mini-batches, notices, what to read, what to change. Empty sections are left out.
pub fn explain_text(history: &History, paths: &ReportPaths, is_running: bool) -> String {
    let mut text = SectionedText(String::new());
    text.line(&title(history, paths, is_running));
    first_cause(&mut text, history);
    failures(&mut text, history);
    failed_items(&mut text, history);
    let ended_by = history.result.as_ref().map(|result| result.ended_by);
    if !is_running && matches!(ended_by, None | Some(Some(EndedBy::ProgressTimeout))) {
        unfinished(&mut text, history);
    }
    slowest(&mut text, history);
    let notices: Vec<String> =
        history.notices.iter().map(|notice| printable(notice).into_owned()).collect();
    text.section("Notices", &notices);
    text.section("What to read", &files_to_read(history, paths));
    let mut advice = advice_lines(history, paths);
    if history.result.is_none() && !is_running {
        advice.push(format!("Resume it: {}", paths.resume_command("")));
    }
    text.section("What to change", &advice);
    text.0
}

/// How the job ended, or its state.
fn title(history: &History, paths: &ReportPaths, is_running: bool) -> String {
    let job = &paths.job;
    match &history.result {
        Some(result) => {
            let how = match result.status {
                JobStatus::Completed => format!("Job {job} completed"),
                JobStatus::Failed => format!("Job {job} failed"),
                JobStatus::Cancelled => format!("Job {job} was cancelled"),
            };
            let why = if result.reason.is_empty() {
                String::new()
            } else {
                format!(": {}", result.reason)
            };
            format!("{how} after {}{}", seconds(result.seconds), printable(&why))
        }
        None => format!(
            "Job {job} {}: {} of {} mini-batches are done, {} failed",
            if is_running { "is running" } else { "was interrupted, and its process is gone" },
            count(history.succeeded + history.failed),
            count(history.planned),
            count(history.failed)
        ),
    }
}

fn first_cause(text: &mut SectionedText, history: &History) {
    let result = history.result.as_ref();
    let first = result.and_then(|result| result.first_failure.as_ref());
    if let Some((worker, failure)) = &history.first_init_failure
        && first.is_none_or(|first| first.mini_batch.is_none())
    {
        text.head("First failure");
        text.line(&format!("  {worker} could not start: {}", failure.kind));
        text.failure(&failure.message, &failure.detail);
        return;
    }
    let mini_batch = first.and_then(|first| first.mini_batch);
    let group =
        history.groups.iter().find(|group| mini_batch.is_none_or(|id| group.first.id == id));
    match (group, first) {
        (Some(group), _) => {
            text.head("First failure");
            text.line(&format!("  {}: {}", attempt_text(&group.first), group.failure.kind));
            text.line(&format!("  {}", printable(&group.first.location)));
            text.failure(&group.failure.message, &group.failure.detail);
        }
        (None, Some(first)) => {
            text.head("First failure");
            let place = first.mini_batch.map_or(String::new(), |id| format!("mini-batch {id}: "));
            text.line(&format!("  {place}{}", first.failure.kind));
            if let Some(item) = &first.item {
                text.line(&format!("  {}", item_place(&item.item, item.line, item.row)));
            }
            text.failure(&first.failure.message, &first.failure.detail);
        }
        (None, None) => {}
    }
}

fn failures(text: &mut SectionedText, history: &History) {
    let has_no_failures =
        history.groups.is_empty() && history.init_failures == 0 && history.exit_count == 0;
    if has_no_failures && history.late == 0 {
        return;
    }
    text.head("Failures");
    if history.init_failures > 0 {
        text.line(&format!("  {} of a worker", counted(history.init_failures, "failed start")));
    }
    for group in &history.groups {
        let times = counted(group.count, "attempt");
        text.line(&format!(
            "  {times}: {}: {}",
            group.failure.kind,
            first_line(&group.failure.message)
        ));
        text.line(&format!("    {}", group_mini_batches(group)));
    }
    if history.late > 0 {
        let late = counted(history.late, "attempt");
        text.line(&format!(
            "  {late} ended after Sandmill had stopped waiting (a time-out, say): their rows do not count"
        ));
    }
    for (worker, how) in &history.exits {
        // The words that users of ParallelRunStep search for.
        text.line(&format!("  {worker} {}", how.replacen("exited with", "exits with", 1)));
    }
    let more = history.exit_count.saturating_sub(history.exits.len() as u64);
    if more > 0 {
        text.line(&format!("  and {} that ended unexpectedly", counted(more, "worker")));
    }
}

/// `mini-batches 3, 4, 9 and more`.
fn group_mini_batches(group: &FailureGroup) -> String {
    let ids: Vec<String> = group.mini_batches.iter().map(MiniBatchId::to_string).collect();
    let noun = if ids.len() == 1 { "mini-batch" } else { "mini-batches" };
    let others = if group.has_more_mini_batches { " and more" } else { "" };
    format!("{noun} {}{others}", ids.join(", "))
}

fn failed_items(text: &mut SectionedText, history: &History) {
    let failed = history.items.failed;
    if failed == 0 {
        return;
    }
    text.head("Failed items");
    let which = match history.failed_items.len() as u64 {
        0 => "",
        listed if listed == failed => ":",
        _ => ", for example:",
    };
    text.line(&format!("  {} of {}{which}", count(failed), count(history.items.total)));
    for (id, item) in &history.failed_items {
        let place = item_place(&item.item, item.line, item.row);
        text.line(&format!("  mini-batch {id}: {place}: {}", first_line(&item.reason)));
    }
    if history.short > 0 {
        text.line(&format!(
            "  {} returned fewer rows than items",
            counted(history.short, "mini-batch")
        ));
    }
}

/// The mini-batches that workers were running when the job was cut off, or when it ended because of the
/// progress time-out.
fn unfinished(text: &mut SectionedText, history: &History) {
    let cut_off = history.workers.iter().filter_map(|(worker, state)| match state.doing {
        WorkerActivity::Running(id, attempt) => {
            Some(format!("mini-batch {id}, attempt {attempt}, {worker}"))
        }
        _ => None,
    });
    let ended = history.unfinished.iter().map(|(worker, id, attempt, lasted)| {
        format!("mini-batch {id}, attempt {attempt}, {worker}, for {}", seconds(*lasted))
    });
    text.section("Inside run at the end", &ended.chain(cut_off).collect::<Vec<_>>());
}

fn item_place(item: &str, line: Option<u64>, row: Option<u64>) -> String {
    let item = printable(item).into_owned();
    match (line, row) {
        (Some(line), _) => format!("{item}, line {line}"),
        (None, Some(row)) => format!("{item}, row {row}"),
        (None, None) => item,
    }
}

fn slowest(text: &mut SectionedText, history: &History) {
    let Some(median) = history.median_run() else { return };
    text.head("Slowest mini-batches");
    text.line(&format!(
        "  {:<10} {:>7} {:>9} {:>9} {:>9} {:>9}  location",
        "mini-batch", "attempt", "items", "elapsed s", "run s", "CPU s"
    ));
    for slow in history.slowest.iter().take(5) {
        text.line(&format!(
            "  {:<10} {:>7} {:>9} {:>9.3} {:>9.3} {:>9.3}  {}",
            slow.id.0,
            slow.attempt,
            slow.items,
            slow.elapsed,
            slow.run,
            slow.cpu,
            printable(&slow.location)
        ));
    }
    text.line(&format!(
        "  Half of all {} spent less than {:.3} s in run.",
        counted(history.attempts, "attempt"),
        median.max(0.001) // A shorter time would be shown as 0.000.
    ));
    if history.twins > 0 {
        text.line(&format!(
            "  {} near the end got a second attempt on another node (a twin).",
            counted(history.twins, "slow mini-batch")
        ));
    }
}

fn attempt_text(attempt: &Attempt) -> String {
    format!("mini-batch {}, attempt {}, {}", attempt.id, attempt.attempt, attempt.worker)
}

/// The files of the log tree that say more, each with a note on what it contains.
pub(super) fn files_to_read(history: &History, paths: &ReportPaths) -> Vec<String> {
    let dir = &paths.job_dir;
    let mut files: Vec<(PathBuf, &str)> = vec![
        (dir.result_file(), "the outcome"),
        (dir.leader_errors(), "what ended the job, if it was not the entry script"),
    ];
    let worker = history
        .groups
        .first()
        .map(|group| group.first.worker.as_str())
        .or(history.first_init_failure.as_ref().map(|(worker, _)| worker.as_str()))
        .and_then(worker_id);
    if let Some(worker) = worker {
        files.push((
            dir.worker_errors(worker),
            "each failure of that worker in full, with its stack",
        ));
        files.push((dir.script_stderr(worker), "what the entry script wrote to stderr"));
        files.push((dir.script_log(worker), "what it logged"));
        files.push((dir.worker_stderr(worker), "the output of the worker process itself"));
    }
    files.push((dir.user_errors(), "all failures, counted"));
    files.push((dir.failed_items(), "which items failed"));
    if history.attempts > 0 {
        files.push((dir.mini_batch_report(), "one row for each attempt"));
    }
    files
        .into_iter()
        .filter_map(|(path, what)| Some((paths.find_log(&path)?, what)))
        .map(|(path, what)| format!("{}: {what}", paths.show(&path)))
        .collect()
}

/// What to change, for each failure and for the end of the job.
pub fn advice_lines(history: &History, paths: &ReportPaths) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    if let Some((_, failure)) = &history.first_init_failure {
        init_advice(failure).into_iter().for_each(&mut add);
    }
    for group in history.groups.iter().take(3) {
        let killed = history.exits.iter().any(|(worker, _)| *worker == group.first.worker);
        failure_advice(&group.failure, &group.first, killed).into_iter().for_each(&mut add);
    }
    if let Some(result) = &history.result
        && let Some(end) = result.ended_by
    {
        let for_failures = matches!(
            end,
            EndedBy::ErrorThreshold
                | EndedBy::AllowedFailedCount
                | EndedBy::AllowedFailedPercent
                | EndedBy::NothingSucceeded
        );
        if history.failed_items.iter().any(|(_, item)| item.kind == FailureKind::BadInput) {
            add(BAD_INPUT.to_owned());
        }
        if for_failures && !history.failed_items.is_empty() {
            add("Fix the items that failed, or leave them out, and run again with --overwrite; files \
                 that could not be read at all only need to be fixed: resume reads them again"
                .to_owned());
        }
        // If failed attempts are listed above, the advice follows each of them.
        let is_listed = end == EndedBy::NothingSucceeded && !history.groups.is_empty();
        if let Some(advice) = result_advice(result, paths).filter(|_| !is_listed) {
            add(capital(&advice));
        }
    }
    if let (Some(median), Some(slow)) = (history.median_run(), history.slowest.first())
        && history.attempts >= 10
        && slow.run > 1.0
        && slow.run > 10.0 * median
    {
        let why = if slow.cpu < BUSY_SHARE * slow.run {
            "and waited for more than half of its time: first check the disk or network that holds its \
             files"
        } else {
            "so its data may be larger than the others'. A smaller mini_batch_size balances the workers"
        };
        add(format!(
            "Mini-batch {} took {:.0} times as long as most, {why}",
            slow.id,
            slow.run / median.max(0.001)
        ));
    }
    // The advice about killed workers is already in the text above.
    let killed = history
        .groups
        .iter()
        .any(|group| group.failure.kind == FailureKind::OutOfMemory || was_killed(&group.failure));
    if history.exit_count > 2 && !killed {
        add("Workers end unexpectedly again and again: read the output of their processes"
            .to_owned());
    }
    lines
}

/// Capitalizes the first letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// Text that is built of lines and sections.
struct SectionedText(String);

impl SectionedText {
    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{}", line.trim_end());
    }

    fn head(&mut self, title: &str) {
        self.line("");
        self.line(title);
    }

    fn section(&mut self, title: &str, lines: &[String]) {
        if !lines.is_empty() {
            self.head(title);
            lines.iter().for_each(|line| self.line(&format!("  - {line}")));
        }
    }

    fn failure(&mut self, message: &str, detail: &str) {
        for line in printable(message).lines() {
            self.line(&format!("  {line}"));
        }
        let detail = printable(detail);
        let mut lines = detail.lines();
        for line in lines.by_ref().take(MAX_STACK_LINES) {
            self.line(&format!("    {line}"));
        }
        match lines.count() {
            0 => {}
            more => self.line(&format!("    ... and {}", counted(more as u64, "more line"))),
        }
    }
}
