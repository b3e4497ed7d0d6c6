//! What became of a job whose process has ended.

use crate::state::{JobCounts, JobPhase, JobRecord, JobWish};
use jiff::Timestamp;
use sandmill_leader::{JobStanding, JobState};
use sandmill_model::{JobDir, JobResult, JobStatus};
use sandmill_report::History;
use std::process::ExitStatus;

/// After so many processes in a row that ended before the job, without an ended mini-batch, the job fails.
const MOST_LOSSES: u32 = 5;
/// The exit codes with which a process says that it refuses the job, or that the job failed.
const REFUSED: [i32; 2] = [2, 42];

/// The counts in a job's history.
pub(super) fn counts_of(history: &History) -> JobCounts {
    JobCounts {
        planned: history.planned,
        planning_finished: history.plan_finished,
        succeeded: history.succeeded,
        failed: history.failed,
        items: history.items.total,
        items_succeeded: history.items.succeeded,
        items_failed: history.items.failed,
        rows: history.rows,
    }
}

/// The counts in a job's result.
fn counts_in(result: &JobResult) -> JobCounts {
    JobCounts {
        planned: result.mini_batches,
        planning_finished: result.status == JobStatus::Completed,
        succeeded: result.succeeded_mini_batches,
        failed: result.failed_mini_batches,
        items: result.items.total,
        items_succeeded: result.items.succeeded,
        items_failed: result.items.failed,
        rows: result.rows,
    }
}

/// The id of the run that a job's directory names. Empty if the job has not begun.
pub(super) fn run_in(dir: &JobDir) -> String {
    JobState::read(dir).ok().flatten().map(|state| state.id).unwrap_or_default()
}

/// What is known after the process of a job has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// What the directory says of the run that the process began. `None` if it began none.
    state: Option<JobState>,
    counts: Option<JobCounts>,
    /// How the process ended. `None` if an earlier server started it.
    exit: Option<ExitStatus>,
    /// What the process has printed.
    text: String,
}

impl Ended {
    /// Reads a job's directory. `job` names the run before the one that the process has begun.
    pub(super) fn read(
        dir: &JobDir,
        job: &JobRecord,
        exit: Option<ExitStatus>,
        text: String,
    ) -> Self {
        let state = JobState::read(dir).ok().flatten();
        let state = state.filter(|state| state.id != job.earlier_run);
        let counts = match state.as_ref().map(|state| state.result.as_ref()) {
            Some(Some(result)) => Some(counts_in(result)),
            // The events of a job without a result are read anew. That may take a second for each 100,000 mini-batches.
            Some(None) => History::read(dir).ok().map(|history| counts_of(&history)),
            None => None,
        };
        Self { state, counts, exit, text }
    }

    /// Notes in the record what became of the job.
    pub(super) fn note(&self, job: &mut JobRecord, now: Timestamp) {
        let counts = self.counts.unwrap_or(job.counts);
        let has_more = counts.succeeded + counts.failed > job.counts.succeeded + job.counts.failed;
        job.losses = if has_more { 0 } else { job.losses };
        job.counts = counts;
        let standing = self.state.as_ref().map(|state| state.status);
        job.phase = match (standing, job.wish) {
            (Some(JobStanding::Completed), _) => JobPhase::Completed,
            (Some(JobStanding::Failed), _) => JobPhase::Failed,
            (_, JobWish::Pause) => JobPhase::Paused,
            (_, JobWish::Cancel | JobWish::CancelAtOnce) => JobPhase::Cancelled,
            (None, JobWish::Run) if self.has_refused() => JobPhase::Failed,
            // The process was killed, or it was asked to end when the machine was shut down.
            (_, JobWish::Run) => {
                job.losses += 1;
                if job.losses < MOST_LOSSES { JobPhase::Queued } else { JobPhase::Failed }
            }
        };
        job.reason = match job.phase {
            JobPhase::Failed | JobPhase::Cancelled => self.reason(job),
            _ => String::new(),
        };
        job.ended = job.phase.has_ended().then_some(now);
    }

    /// Whether the process itself says that it cannot run the job.
    fn has_refused(&self) -> bool {
        let code = self.exit.and_then(|exit| exit.code());
        code.is_some_and(|code| REFUSED.contains(&code))
    }

    fn reason(&self, job: &JobRecord) -> String {
        let result = self.state.as_ref().and_then(|state| state.result.as_ref());
        match result {
            Some(result) => result.reason.clone(),
            None if job.phase == JobPhase::Cancelled => "cancelled".to_owned(),
            None if job.losses >= MOST_LOSSES => format!(
                "the job's process ended {} times in a row before the job did, and no mini-batch ended meanwhile; it printed last: {}",
                job.losses, self.text
            ),
            None => self.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{JobId, TenantName};
    use crate::state::WorkerNeeds;
    use std::os::unix::process::ExitStatusExt;

    /// A job directory whose job has this status in its last run, or none.
    fn directory(run: &str, status: Option<&str>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        if let Some(status) = status {
            let state = serde_json::json!({
                "version": 2, "name": "a", "id": run, "status": status, "output": "output", "output_file": null, "pid": 1,
                "begun": "2026-11-01T00:00:00Z", "started": "2026-11-01T00:00:00Z", "ended": null, "times_resumed": 0,
                "job_file": null, "result": null, "output_size": null,
            });
            std::fs::write(folder.path().join("job.json"), state.to_string()).unwrap();
        }
        folder
    }

    fn job(wish: JobWish, earlier_run: &str) -> JobRecord {
        let now = Timestamp::UNIX_EPOCH;
        JobRecord {
            id: JobId::new(),
            tenant: TenantName::try_from("ada".to_owned()).unwrap(),
            name: "a".to_owned(),
            phase: JobPhase::Running,
            wish,
            priority: 0,
            labels: Default::default(),
            script: None,
            needs: WorkerNeeds::default(),
            submitted_by: String::new(),
            submitted: now,
            began: Some(now),
            ended: None,
            reason: String::new(),
            starts: 1,
            losses: 0,
            earlier_run: earlier_run.to_owned(),
            counts: JobCounts::default(),
            version: 1,
        }
    }

    fn phase(folder: &tempfile::TempDir, mut job: JobRecord, exit: Option<ExitStatus>) -> JobPhase {
        let ended = Ended::read(&JobDir::new(folder.path()), &job, exit, "it says why".to_owned());
        ended.note(&mut job, Timestamp::UNIX_EPOCH);
        job.phase
    }

    #[test]
    fn the_end_of_a_process_is_judged_by_what_it_has_written() {
        let killed = Some(ExitStatus::from_raw(9));
        let code = |code: i32| Some(ExitStatus::from_raw(code << 8));
        let cases = [
            (Some("completed"), JobWish::Run, code(0), JobPhase::Completed),
            (Some("failed"), JobWish::Run, code(42), JobPhase::Failed),
            (Some("running"), JobWish::Run, killed, JobPhase::Queued),
            // The machine was shut down: the process ended in order, and the user wants the job.
            (Some("cancelled"), JobWish::Run, code(130), JobPhase::Queued),
            (Some("cancelled"), JobWish::Pause, code(130), JobPhase::Paused),
            (Some("cancelled"), JobWish::Cancel, code(130), JobPhase::Cancelled),
            (None, JobWish::Run, code(2), JobPhase::Failed),
            (None, JobWish::Run, killed, JobPhase::Queued),
            (None, JobWish::Run, None, JobPhase::Queued),
            (None, JobWish::Cancel, killed, JobPhase::Cancelled),
        ];
        for (status, wish, exit, expected) in cases {
            let folder = directory("new", status);
            assert_eq!(phase(&folder, job(wish, "old"), exit), expected, "{status:?} {wish:?}");
        }
    }

    /// A process that is lost before it begins a run leaves what the run before has written.
    #[test]
    fn what_an_earlier_run_has_written_does_not_count() {
        let killed = Some(ExitStatus::from_raw(9));
        for status in ["cancelled", "failed", "running"] {
            let folder = directory("old", Some(status));
            assert_eq!(phase(&folder, job(JobWish::Run, "old"), killed), JobPhase::Queued);
        }
    }

    #[test]
    fn a_job_whose_processes_always_end_fails() {
        let folder = directory("new", Some("running"));
        let mut lost = job(JobWish::Run, "old");
        let killed = Some(ExitStatus::from_raw(9));
        for loss in 1..=MOST_LOSSES {
            let ended = Ended::read(&JobDir::new(folder.path()), &lost, killed, "no".to_owned());
            ended.note(&mut lost, Timestamp::UNIX_EPOCH);
            let expected = if loss < MOST_LOSSES { JobPhase::Queued } else { JobPhase::Failed };
            assert_eq!(lost.phase, expected);
        }
        assert!(lost.reason.contains("5 times in a row"), "{}", lost.reason);
    }
}
