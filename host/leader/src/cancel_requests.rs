//! Requests to cancel a job, in the job's store. A request stays there: if the leader is dead, the next one reads
//! it, and nodes read it while they have no leader.
//!
//! A request names how many records the commit log had. The record of the job's end consumes all requests that were
//! made before. So a cancelled job can be resumed, and is not cancelled again.

use crate::cancel::Cancel;
use jiff::Timestamp;
use sandmill_commit_log::{LogError, LogStore, RecordSeries};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use tracing::warn;

/// The folder of the requests, in the folder of a run.
const FOLDER: &str = "cancel";
/// How often the leader reads the requests.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A request that a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    /// The number of the request in its run, from 0.
    pub number: u64,
    /// When it was made, by the clock of that machine.
    pub at: Timestamp,
    /// The machine where it was made.
    pub host: String,
    /// The user who made it.
    pub uid: u32,
    /// Whether running mini-batches are killed instead of finished.
    pub at_once: bool,
    /// How many records the commit log had.
    pub records: u64,
}

/// The payload of a request's record.
#[derive(Serialize, Deserialize)]
struct Payload {
    at: Timestamp,
    uid: u32,
    at_once: bool,
    records: u64,
}

impl CancelRequest {
    /// The reason that the job's result shows.
    pub fn reason(&self) -> String {
        format!("sandmill cancel on {}", self.host)
    }

    fn apply(&self, cancel: &Cancel) {
        if self.at_once {
            cancel.cancel_at_once(self.reason());
        } else {
            cancel.cancel(self.reason());
        }
    }
}

/// The requests to cancel a run of a job.
#[derive(Clone, Debug)]
pub struct CancelRequests {
    series: RecordSeries,
}

impl CancelRequests {
    /// The requests of the run with this id, in the store of its job.
    pub fn of_run(store: &Arc<dyn LogStore>, run: &str) -> Self {
        Self { series: RecordSeries::new(store, run, FOLDER) }
    }

    /// Makes a request. `records`: how many records the commit log has.
    ///
    /// # Errors
    /// If the store fails.
    pub fn add(&self, at_once: bool, records: u64) -> Result<(), LogError> {
        let uid = rustix::process::geteuid().as_raw();
        let payload = Payload { at: Timestamp::now(), uid, at_once, records };
        // Plain data always serialises. If it did not, the request would have no effect.
        let payload = serde_json::to_vec(&payload).unwrap_or_default();
        self.series.append(&payload).map(drop)
    }

    /// The requests from number `first` on that were made when the log had at least this many records. Skips
    /// requests that cannot be understood.
    ///
    /// # Errors
    /// If the store fails.
    pub fn since(&self, first: u64, records: u64) -> Result<Vec<CancelRequest>, LogError> {
        let numbers = self.series.numbers()?.into_iter().filter(|number| *number >= first);
        let mut found = Vec::new();
        for number in numbers {
            match self.read(number) {
                Ok(request) => found.extend(request),
                Err(error @ LogError::Unavailable { .. }) => return Err(error),
                Err(error) => warn!("a request to cancel the job cannot be read: {error}"),
            }
        }
        found.retain(|request| request.records >= records);
        Ok(found)
    }

    fn read(&self, number: u64) -> Result<Option<CancelRequest>, LogError> {
        let Some(record) = self.series.read(number)? else { return Ok(None) };
        let Ok(payload) = serde_json::from_slice::<Payload>(&record.payload) else {
            return Ok(None);
        };
        let Payload { at, uid, at_once, records } = payload;
        Ok(Some(CancelRequest { number, at, host: record.writer.host, uid, at_once, records }))
    }
}

/// A thread that reads the requests to cancel a job, until this value is dropped. A store that hangs blocks only the
/// thread.
#[derive(Debug)]
pub(super) struct CancelWatch {
    _stop: mpsc::Sender<()>,
}

impl CancelWatch {
    /// Cancels the job if there is a request now, before this returns, or later. Requests that were made when the log
    /// had fewer `records` do not count. `None` if there can be no thread.
    pub(super) fn start(requests: CancelRequests, records: u64, cancel: Cancel) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let mut poll = Poll { requests, records, cancel, next: 0 };
        poll.run();
        let run = move || {
            while stopped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                poll.run();
            }
        };
        let thread = thread::Builder::new().name("cancel-requests".to_owned()).spawn(run);
        thread.ok().map(|_| Self { _stop: stop })
    }
}

struct Poll {
    requests: CancelRequests,
    records: u64,
    cancel: Cancel,
    /// The number of the first request that was not read.
    next: u64,
}

impl Poll {
    fn run(&mut self) {
        match self.requests.since(self.next, self.records) {
            Ok(requests) => {
                for request in requests {
                    self.next = request.number + 1;
                    request.apply(&self.cancel);
                }
            }
            Err(error) => warn!("the requests to cancel the job cannot be read: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_commit_log::FolderStore;
    use std::time::Instant;

    fn requests() -> (tempfile::TempDir, CancelRequests) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let store: Arc<dyn LogStore> = Arc::new(FolderStore::new(root));
        (dir, CancelRequests::of_run(&store, "run-1"))
    }

    #[test]
    fn requests_count_until_the_job_has_ended() {
        let (_dir, requests) = requests();
        assert_eq!(requests.since(0, 0).unwrap(), []);
        requests.add(false, 3).unwrap();
        requests.add(true, 5).unwrap();
        let found = requests.since(0, 0).unwrap();
        let facts = |request: &CancelRequest| (request.number, request.at_once, request.records);
        assert_eq!(found.iter().map(facts).collect::<Vec<_>>(), [(0, false, 3), (1, true, 5)]);
        assert!(found[0].reason().starts_with("sandmill cancel on "));
        assert_eq!(requests.since(0, 4).unwrap().len(), 1);
        assert_eq!(requests.since(2, 0).unwrap(), []);
        // A damaged request hides no other one.
        requests.series.write(2, b"not JSON").unwrap();
        requests.add(false, 6).unwrap();
        assert_eq!(requests.since(1, 0).unwrap().len(), 2);
    }

    #[test]
    fn the_job_is_cancelled_now_or_later() {
        let (_dir, requests) = requests();
        requests.add(false, 3).unwrap();
        let cancel = Cancel::new();
        let _watch = CancelWatch::start(requests.clone(), 4, cancel.clone()).unwrap();
        assert_eq!(cancel.reason(), None, "the request is consumed");
        requests.add(true, 4).unwrap();
        let begun = Instant::now();
        while cancel.reason().is_none() && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(10));
        }
        let watched = cancel.watch();
        assert!(watched.borrow().as_ref().unwrap().at_once);
        let other = Cancel::new();
        let _watch = CancelWatch::start(requests, 0, other.clone());
        assert!(other.reason().is_some(), "before it returns");
    }
}
