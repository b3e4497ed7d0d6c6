//! Finds requests to cancel a job in the job's store, while its leader is silent. If the leader is alive, it reads them
//! itself.

use crate::engine::CancelRequests;
use crate::model::JobDir;
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

/// A leader that is silent for this long may be dead. It says something every second.
const SILENCE: Duration = Duration::from_secs(3);
/// The pause between two checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks for requests to cancel a job. A store that hangs blocks only a thread.
#[derive(Debug, Default)]
pub(super) struct CancelCheck {
    /// The answer of the check that runs now.
    answer: Option<mpsc::Receiver<bool>>,
    /// When the last check began.
    begun: Option<Duration>,
}

impl CancelCheck {
    /// Whether the job was cancelled after its leader had begun with record `epoch` of the commit log. Begins a check
    /// if one is due, and returns the answer of an earlier one. `workers`: the folder of the workers' folders.
    pub(super) fn is_cancelled(
        &mut self,
        workers: &JobDir,
        epoch: u64,
        now: Duration,
        silence: Duration,
    ) -> bool {
        if let Some(answer) = &self.answer {
            match answer.try_recv() {
                Err(TryRecvError::Empty) => return false,
                Ok(true) => return true,
                Ok(false) | Err(TryRecvError::Disconnected) => self.answer = None,
            }
        }
        let is_due = self.begun.is_none_or(|begun| now >= begun + INTERVAL);
        if silence >= SILENCE && is_due {
            self.begun = Some(now);
            let workers = workers.clone();
            let (sender, answer) = mpsc::channel();
            let thread = std::thread::Builder::new().name("cancel-check".to_owned());
            let check = move || {
                // If this fails, the part has ended.
                let _ = sender.send(has_request(&workers, epoch));
            };
            self.answer = thread.spawn(check).ok().map(|_| answer);
        }
        false
    }
}

fn has_request(workers: &JobDir, epoch: u64) -> bool {
    let requests = CancelRequests::of_workers(workers);
    // The leader knew of requests that were made before its own record.
    let found = requests.map(|requests| requests.since(0, epoch + 1));
    // After an error, the next check tries again.
    matches!(found, Some(Ok(found)) if !found.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_request_counts_only_for_a_silent_leader() {
        let dir = tempfile::tempdir().unwrap();
        let workers = JobDir::new(dir.path().canonicalize().unwrap().join("run/workers"));
        let requests = CancelRequests::of_workers(&workers).unwrap();
        let is_cancelled = |silence| {
            let mut check = CancelCheck::default();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) {
                if check.is_cancelled(&workers, 7, Duration::ZERO, silence) {
                    return true;
                }
                if check.begun.is_none() || check.answer.is_none() {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            panic!("no answer");
        };
        requests.add(false, 7).unwrap();
        assert!(!is_cancelled(Duration::from_secs(9)), "it was made before the leader began");
        requests.add(false, 8).unwrap();
        assert!(is_cancelled(Duration::from_secs(9)));
        assert!(!is_cancelled(Duration::ZERO));
    }
}
