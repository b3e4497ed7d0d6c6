//! `logs/sys/error/<node>/`: failures outside the entry script. `processNNN.txt` has those of a worker,
//! `_main.txt` those of the leader.

use super::advice::leader_gave_up;
use super::appended::FailureFiles;
use super::budget::ReportBudget;
use super::phrases::worker_id;
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::{Failure, FailureKind, JobDir, JobStatus, printable};
use jiff::Timestamp;
use std::io;

const MAX_FILE_BYTES: u64 = 8 << 20;

/// Writes these files. Without failures outside the entry script, there are no files.
pub(super) struct SystemErrors {
    dir: JobDir,
    files: FailureFiles,
}

impl SystemErrors {
    pub(super) fn new(dir: &JobDir, budget: &ReportBudget) -> Self {
        Self { dir: dir.clone(), files: FailureFiles::new(MAX_FILE_BYTES, budget) }
    }

    fn log_worker(&mut self, at: Timestamp, worker: &str, text: &str) -> io::Result<()> {
        let Some(worker) = worker_id(worker) else { return Ok(()) };
        let text = format!("{at:.3} {}\n\n", printable(text.trim_end()));
        self.files.append(self.dir.worker_system_errors(worker), text)
    }

    fn log_failure(
        &mut self,
        at: Timestamp,
        worker: &str,
        during: &str,
        failure: &Failure,
    ) -> io::Result<()> {
        if !is_system_failure(failure.kind) {
            return Ok(());
        }
        let Failure { kind, message, detail } = failure;
        self.log_worker(at, worker, &format!("{during}: {kind}\n{}\n{detail}", message.trim_end()))
    }
}

/// Whether something other than the entry script failed.
fn is_system_failure(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::HostFault | FailureKind::NoSpace | FailureKind::WorkerDied)
}

impl Reporter for SystemErrors {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let at = event.at;
        match &event.kind {
            EventKind::InitFailed { worker, failure } => {
                self.log_failure(at, worker, "init", failure)
            }
            EventKind::AttemptFinished { worker, report, location, .. } => {
                let Err(failure) = &report.outcome else { return Ok(()) };
                let id = report.id;
                let attempt = report.attempt;
                let during = format!("mini-batch {id}, attempt {attempt} ({location})");
                self.log_failure(at, worker, &during, failure)
            }
            EventKind::WorkerExited { worker, how, expected: false } => {
                self.log_worker(at, worker, &format!("{worker} {how}"))
            }
            EventKind::JobFinished { result }
                if result.status == JobStatus::Failed && leader_gave_up(result.ended_by) =>
            {
                let text = format!("{at:.3} {}\n\n", printable(result.reason.trim_end()));
                self.files.append(self.dir.leader_errors(), text)
            }
            EventKind::JobFinished { .. } => self.files.flush(),
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        self.files.tick()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EndedBy, WorkerId};
    use crate::samples;

    /// Rule F13 in docs/parallel-run-step.md: system errors are listed for each process, separately from the
    /// entry script's errors.
    #[test]
    fn system_errors_have_their_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut errors = SystemErrors::new(&dir, &ReportBudget::default());
        let fault = Failure::new(FailureKind::HostFault, "cannot write rows: disk full");
        let mut events = samples::job();
        events.insert(3, samples::event(3, samples::failed(9, 1, fault, true)));
        for event in events {
            errors.on_event(&event).unwrap();
        }
        let read = |path| std::fs::read_to_string(path).unwrap();
        insta::assert_snapshot!(read(dir.worker_system_errors(WorkerId(0))), @"2026-11-21T10:00:00.000Z process000 exited with returncode -9");
        // The traps of process001 are the entry script's own.
        insta::assert_snapshot!(read(dir.worker_system_errors(WorkerId(1))), @"
        2026-11-21T10:00:00.000Z mini-batch 9, attempt 1 (/inputs/images/img_0090.png and 9 more): host_fault
        cannot write rows: disk full
        ");
        assert!(!dir.leader_errors().exists());
    }

    /// W9: a system error that ends the job.
    #[test]
    fn errors_of_the_leader_are_logged_too() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut result = samples::result(JobStatus::Failed);
        result.reason = "results cannot be written: no space left on device".to_owned();
        result.ended_by = Some(EndedBy::Commit);
        let end = samples::event(0, EventKind::JobFinished { result });
        SystemErrors::new(&dir, &ReportBudget::default()).on_event(&end).unwrap();
        let text = std::fs::read_to_string(dir.leader_errors()).unwrap();
        insta::assert_snapshot!(text, @"2026-11-21T10:00:00.000Z results cannot be written: no space left on device");
    }
}
