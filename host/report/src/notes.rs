//! Decides which events get a line at the terminal while the job runs, and formats it.

use super::phrases::{count, counted, first_line};
use crate::event::{EventKind, Resumed};
use crate::model::on_one_line;

/// At most this many lines are about single failures. The log tree has all failures.
const MAX_FAILURE_LINES: u32 = 5;

/// Turns events into lines. Shows only the first failures.
#[derive(Debug, Default)]
pub(super) struct NoteLines {
    reported: u32,
    /// The columns as the last run of the job found them.
    columns: Vec<String>,
}

impl NoteLines {
    /// `columns` has a line for each input, as the last run of the job found them; empty if there was no
    /// earlier run.
    pub(super) fn new(columns: Vec<String>) -> Self {
        Self { reported: 0, columns }
    }

    /// The line for this event; `None` if the event gets no line.
    pub(super) fn line(&mut self, kind: &EventKind) -> Option<String> {
        match kind {
            EventKind::JobStarted { job, workers, resumed, .. } => {
                let mut line = format!("job {job}: {}", counted((*workers).into(), "worker"));
                if let Some(Resumed { succeeded, failed, .. }) = resumed {
                    let done = counted(succeeded + failed, "mini-batch");
                    line.push_str(&format!("; resumed: {done} done"));
                    if *failed > 0 {
                        line.push_str(&format!(", {} of them failed", count(*failed)));
                    }
                }
                Some(line)
            }
            EventKind::Columns { message } => {
                let message = on_one_line(message);
                let is_changed = !self.columns.is_empty()
                    && !self.columns.iter().any(|column| *column == message);
                is_changed.then(|| format!("note: changed since the last run: {message}"))
            }
            EventKind::Notice { message } => Some(format!("note: {}", on_one_line(message))),
            EventKind::InitFailed { worker, failure } => {
                self.failure(format!("{worker} could not start: {}", first_line(&failure.message)))
            }
            EventKind::WorkerExited { worker, how, expected: false } => {
                self.failure(format!("{worker} {}", first_line(how)))
            }
            EventKind::AttemptFinished { worker, report, will_retry, .. } => {
                let failure = report.outcome.as_ref().err()?;
                let next = if *will_retry { ", will be tried again" } else { "" };
                self.failure(format!(
                    "mini-batch {}, attempt {} ({worker}){next}: {}",
                    report.id,
                    report.attempt,
                    first_line(&failure.message)
                ))
            }
            _ => None,
        }
    }

    fn failure(&mut self, line: String) -> Option<String> {
        self.reported += 1;
        match self.reported {
            0..=MAX_FAILURE_LINES => Some(line),
            reported if reported == MAX_FAILURE_LINES + 1 => {
                Some("more failures follow; the logs have all of them".into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// Rule W15 in docs/parallel-run-step.md.
    #[test]
    fn a_resumed_job_shows_earlier_progress() {
        assert_eq!(
            NoteLines::default().line(&samples::resumed()).as_deref(),
            Some("job digits: 1 worker; resumed: 50 mini-batches done, 1 of them failed")
        );
    }

    /// Unchanged columns are not reported: each run would show the same line. `sandmill plan` shows the
    /// columns at any time.
    #[test]
    fn changed_columns_are_reported() {
        let line = |before: &[&str], now: &str| {
            let before = before.iter().map(|line| (*line).to_owned()).collect();
            NoteLines::new(before).line(&EventKind::Columns { message: now.to_owned() })
        };
        let was = "columns of input a: x int64";
        let other = "columns of input b: y date";
        assert_eq!(line(&[], was), None);
        assert_eq!(line(&[other, was], was), None);
        assert_eq!(
            line(&[other, was], "columns of input a: x string").as_deref(),
            Some("note: changed since the last run: columns of input a: x string")
        );
    }

    #[test]
    fn only_the_first_failures_are_shown() {
        let mut notes = NoteLines::default();
        let mut kinds: Vec<_> = samples::job().into_iter().map(|event| event.kind).collect();
        kinds.extend((3..20).map(|id| samples::failed(id, 1, samples::trap(), true)));
        let lines: Vec<_> = kinds.iter().filter_map(|kind| notes.line(kind)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        job digits: 2 workers
        note: node_count: 4 runs on one node
        mini-batch 2, attempt 1 (process001), will be tried again: panicked at src/lib.rs:12:9: no digit, "5" expected
        process000 exited with returncode -9
        mini-batch 2, attempt 2 (process001): panicked at src/lib.rs:12:9: no digit, "5" expected
        mini-batch 3, attempt 1 (process001), will be tried again: panicked at src/lib.rs:12:9: no digit, "5" expected
        mini-batch 4, attempt 1 (process001), will be tried again: panicked at src/lib.rs:12:9: no digit, "5" expected
        more failures follow; the logs have all of them
        "#);
    }
}
