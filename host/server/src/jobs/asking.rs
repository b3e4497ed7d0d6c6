//! Asks the process of a job to end, on a thread of its own: a process that is stopped does not answer.

use super::process::JobProcesses;
use crate::state::{JobRecord, JobWish};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause between two tries: a process that is being prepared does not listen yet.
const PAUSE: Duration = Duration::from_millis(500);

/// What the process of a job was asked.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// What the process has agreed to.
    agreed: Option<JobWish>,
    /// The question that is on its way, when it was asked, and whether the process has agreed.
    asked: Option<(JobWish, Instant, JoinHandle<bool>)>,
    /// When the last question got no answer.
    unanswered: Option<Instant>,
}

impl Asking {
    /// Asks the process, if the user wants it to end and it has not agreed.
    pub(super) fn follow(&mut self, processes: &JobProcesses, job: &JobRecord) {
        if let Some((wish, at, answer)) = self.asked.take() {
            if !answer.is_finished() {
                self.asked = Some((wish, at, answer));
                return;
            }
            match answer.join() {
                Ok(true) => self.agreed = Some(wish),
                _ => self.unanswered = Some(at),
            }
        }
        let has_paused = self.unanswered.is_none_or(|at| at.elapsed() >= PAUSE);
        if job.wish == JobWish::Run || self.agreed == Some(job.wish) || !has_paused {
            return;
        }
        let (processes, job) = (processes.clone(), job.clone());
        let wish = job.wish;
        let ask = move || processes.cancel(&job, wish == JobWish::CancelAtOnce);
        self.asked = Some((wish, Instant::now(), std::thread::spawn(ask)));
    }
}
