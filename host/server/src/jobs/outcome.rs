//! What became of a job whose process has ended.

use crate::state::{JobCounts, JobPhase, JobRecord, JobWish};
use jiff::Timestamp;
use sandmill_leader::{JobStanding, JobState};
use sandmill_model::{JobDir, JobResult, JobStatus};
use sandmill_report::History;

/// After so many processes in a row that ended before the job, without an ended mini-batch, the job fails.
const MOST_LOSSES: u32 = 5;

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

/// What a job's directory says after its process has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// `None` if the job did not begin.
    state: Option<JobState>,
    counts: JobCounts,
    /// What the process has printed last.
    text: String,
}

impl Ended {
    /// Reads a job's directory.
    pub(super) fn read(dir: &JobDir, text: String) -> Self {
        let state = JobState::read(dir).ok().flatten();
        let result = state.as_ref().and_then(|state| state.result.as_ref());
        let counts = match result {
            Some(result) => counts_in(result),
            // The events of a job without a result are read anew. That may take a second for each 100,000 mini-batches.
            None => History::read(dir).map(|history| counts_of(&history)).unwrap_or_default(),
        };
        Self { state, counts, text }
    }

    /// Notes in the record what became of the job. `was_asked`: whether its process was asked to end.
    pub(super) fn note(&self, job: &mut JobRecord, was_asked: bool, now: Timestamp) {
        let has_more =
            self.counts.succeeded + self.counts.failed > job.counts.succeeded + job.counts.failed;
        job.losses = if has_more { 0 } else { job.losses };
        if self.state.is_some() {
            job.counts = self.counts;
        }
        job.retries_failed = false;
        let standing = self.state.as_ref().map(|state| state.status);
        let phase = match (standing, job.wish) {
            (Some(JobStanding::Completed), _) => JobPhase::Completed,
            (Some(JobStanding::Failed), _) => JobPhase::Failed,
            (Some(JobStanding::Cancelled), JobWish::Pause) => JobPhase::Paused,
            // The user wanted to pause or cancel it, and then changed their mind.
            (Some(JobStanding::Cancelled), JobWish::Run) if was_asked => JobPhase::Queued,
            (Some(JobStanding::Cancelled), _) => JobPhase::Cancelled,
            (Some(JobStanding::Running) | None, JobWish::Cancel | JobWish::CancelAtOnce) => {
                JobPhase::Cancelled
            }
            (Some(JobStanding::Running) | None, JobWish::Pause) => JobPhase::Paused,
            // The process has refused the job, and says why.
            (None, JobWish::Run) if !self.text.is_empty() => JobPhase::Failed,
            (Some(JobStanding::Running) | None, JobWish::Run) => {
                job.losses += 1;
                if job.losses < MOST_LOSSES { JobPhase::Queued } else { JobPhase::Failed }
            }
        };
        job.phase = phase;
        job.reason = match phase {
            JobPhase::Failed | JobPhase::Cancelled => self.reason(job),
            _ => String::new(),
        };
        job.ended = phase.has_ended().then_some(now);
    }

    fn reason(&self, job: &JobRecord) -> String {
        let result = self.state.as_ref().and_then(|state| state.result.as_ref());
        match result {
            Some(result) => result.reason.clone(),
            None if job.phase == JobPhase::Cancelled => "cancelled before it began".to_owned(),
            None if job.losses >= MOST_LOSSES => format!(
                "the job's process ended {} times in a row before the job did, and no mini-batch ended meanwhile; it printed last: {}",
                job.losses, self.text
            ),
            None => self.text.clone(),
        }
    }
}
