//! Finds requests to cancel a job in the job's store, while its leader is silent. If the leader is alive, it reads them
//! itself.

use crate::engine::CancelRequests;
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
    /// if one is due, and returns the answer of an earlier one.
    pub(super) fn is_cancelled(
        &mut self,
        requests: &CancelRequests,
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
            let requests = requests.clone();
            let (sender, answer) = mpsc::channel();
            let thread = std::thread::Builder::new().name("cancel-check".to_owned());
            let check = move || {
                // If this fails, the part has ended.
                let _ = sender.send(has_request(&requests, epoch));
            };
            self.answer = thread.spawn(check).ok().map(|_| answer);
        }
        false
    }
}

fn has_request(requests: &CancelRequests, epoch: u64) -> bool {
    // The leader knew of requests that were made before its own record. After an error, the next check tries again.
    requests.since(0, epoch + 1).is_ok_and(|found| !found.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::folder_objects;
    use std::time::Instant;

    #[test]
    fn a_request_counts_only_for_a_silent_leader() {
        let dir = tempfile::tempdir().unwrap();
        let store = folder_objects(dir.path(), "job").unwrap();
        let requests = CancelRequests::of_run(&store, "run");
        let is_cancelled = |silence| {
            let mut check = CancelCheck::default();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) {
                if check.is_cancelled(&requests, 7, Duration::ZERO, silence) {
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
