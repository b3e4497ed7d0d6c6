//! The leader's thread that copies its logs to the job's store. If the store hangs, only this thread waits.

use super::heartbeat::Heart;
use super::tails::Tails;
use crate::model::JobDir;
use sandmill_commit_log::{LogError, LogStore, RecordSeries};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// How often new parts of logs are copied.
const SHARE_INTERVAL: Duration = Duration::from_secs(2);
/// The time between two heartbeats.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// The most chunks that are written between two heartbeats.
const MAX_CHUNKS: u32 = 16;
/// How long the begin of the job waits for the first heartbeat.
const BEGIN_WITHIN: Duration = Duration::from_secs(1);
/// How long the end of the job waits until everything is copied.
const FINISH_WITHIN: Duration = Duration::from_secs(5);
/// This many chunks in a row are also written as one, so that a reader needs fewer requests.
pub(super) const MERGED_CHUNKS: u64 = 64;
/// If chunks have more bytes than this together, they are not merged.
const MERGED_BYTES: usize = 4 << 20;

/// The folders of a leader's logs, in the folder of a run: its chunks, and its merged chunks.
pub(super) fn folders(epoch: u64) -> [String; 2] {
    ["chunks", "merged"].map(|name| format!("logs/{epoch:020}/{name}"))
}

/// A leader whose logs are shared.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    /// The store of the job.
    pub(crate) store: &'a Arc<dyn LogStore>,
    /// The id of the run that began the commit log.
    pub(crate) run: &'a str,
    /// The number of the record with which the leader began.
    pub(crate) epoch: u64,
    /// The leader's job directory, which has the log tree.
    pub(crate) job_dir: &'a JobDir,
    /// An id of the job directory, as in the commit log.
    pub(crate) directory: String,
    /// Whether workers on this machine write to the log tree.
    pub(crate) has_workers: bool,
}

/// The thread that copies the logs of a leader, until this value is dropped.
#[derive(Debug)]
pub(crate) struct LogSharing {
    finish: mpsc::Sender<Finish>,
}

/// Asks the thread to copy the rest.
#[derive(Debug)]
struct Finish {
    /// Whether the process has ended its part in the job.
    has_ended: bool,
    /// Receives a message when the rest is copied.
    done: mpsc::Sender<()>,
}

impl LogSharing {
    /// Starts the thread, and waits briefly for its first heartbeat. `notices` receives one line for the user if the
    /// store fails. `None` if there can be no thread.
    pub(crate) fn start(shared: Shared<'_>, notices: UnboundedSender<String>) -> Option<Self> {
        let Shared { store, run, epoch, job_dir, directory, has_workers } = shared;
        let [chunks, merged] = folders(epoch).map(|name| RecordSeries::new(store, run, &name));
        let sharer = Sharer {
            tails: Tails::new(job_dir, has_workers),
            chunks,
            merged,
            heart: Heart::new(store, run, epoch, directory),
            beaten: None,
            next: 0,
            unwritten: Vec::new(),
            to_merge: Some(Vec::new()),
            notices: Some(notices),
        };
        let (finish, asked) = mpsc::channel();
        let (begun, has_begun) = mpsc::channel();
        let thread = thread::Builder::new().name("log-sharing".to_owned());
        thread.spawn(move || sharer.serve(&asked, &begun)).ok()?;
        // After a time-out, the heartbeat comes later.
        let _ = has_begun.recv_timeout(BEGIN_WITHIN);
        Some(Self { finish })
    }

    /// Copies the rest of the logs. Waits for this briefly: the job ends also if the store hangs. `publishes`: whether
    /// this process goes on to publish the job's results, with heartbeats of a [`Pulse`](super::Pulse).
    pub(crate) fn finish(self, publishes: bool) {
        let (done, is_done) = mpsc::channel();
        if self.finish.send(Finish { has_ended: !publishes, done }).is_ok() {
            // After a time-out, the thread ends with the process.
            let _ = is_done.recv_timeout(FINISH_WITHIN);
        }
    }
}

struct Sharer {
    tails: Tails,
    chunks: RecordSeries,
    merged: RecordSeries,
    heart: Heart,
    /// When the last heartbeat was written.
    beaten: Option<Instant>,
    /// The number of the next chunk.
    next: u64,
    /// A chunk that could not be written yet.
    unwritten: Vec<u8>,
    /// The chunks that will be merged. `None` if they are too large.
    to_merge: Option<Vec<u8>>,
    /// Receives the first error.
    notices: Option<UnboundedSender<String>>,
}

impl Sharer {
    fn serve(mut self, asked: &mpsc::Receiver<Finish>, begun: &mpsc::Sender<()>) {
        loop {
            let result = self.beat_if_due();
            // If this fails, the leader no longer waits.
            let _ = begun.send(());
            let shared = result.and_then(|()| self.share(MAX_CHUNKS));
            let has_more = matches!(shared, Ok(true));
            self.report(shared.map(drop));
            match asked.recv_timeout(if has_more { Duration::ZERO } else { SHARE_INTERVAL }) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(Finish { has_ended, done }) => {
                    let result = self.share(u32::MAX).and_then(|_| self.heart.beat(has_ended));
                    self.report(result);
                    // If this fails, the leader no longer waits.
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    fn beat_if_due(&mut self) -> Result<(), LogError> {
        if self.beaten.is_some_and(|at| at.elapsed() < HEARTBEAT_INTERVAL) {
            return Ok(());
        }
        self.heart.beat(false)?;
        self.beaten = Some(Instant::now());
        Ok(())
    }

    /// Writes the new parts of logs, in at most this many chunks. Returns whether there may be more.
    fn share(&mut self, max_chunks: u32) -> Result<bool, LogError> {
        for _ in 0..max_chunks {
            if self.unwritten.is_empty() {
                self.unwritten = self.tails.next_chunk();
            }
            if self.unwritten.is_empty() {
                return Ok(false);
            }
            self.write_chunk()?;
        }
        Ok(true)
    }

    fn write_chunk(&mut self) -> Result<(), LogError> {
        if self.next == 0 {
            self.chunks.make()?;
        }
        // A chunk with this number was written by an earlier try, whose reply was lost.
        self.chunks.write(self.next, &self.unwritten)?;
        self.next += 1;
        let chunk = std::mem::take(&mut self.unwritten);
        self.to_merge = self.to_merge.take().and_then(|mut chunks| {
            chunks.extend_from_slice(&chunk);
            (chunks.len() <= MERGED_BYTES).then_some(chunks)
        });
        if self.next.is_multiple_of(MERGED_CHUNKS)
            && let Some(merged) = self.to_merge.replace(Vec::new())
        {
            // Readers do not need it.
            let _ = self
                .merged
                .make()
                .and_then(|()| self.merged.write(self.next / MERGED_CHUNKS - 1, &merged).map(drop));
        }
        Ok(())
    }

    /// Notifies the user of the first error. The next round tries again.
    fn report(&mut self, result: Result<(), LogError>) {
        if let Err(error) = result
            && let Some(notices) = self.notices.take()
        {
            // If this fails, the job has ended.
            let _ = notices.send(format!(
                "the logs cannot be copied to the job store now, so other machines may not see the latest state \
                 of the job, which continues: {error}"
            ));
        }
    }
}
