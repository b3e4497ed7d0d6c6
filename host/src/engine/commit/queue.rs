//! What waits for the committer. Made so that the thread is woken once for each group, not for
//! each request.

use super::committer::CommitRequest;
use crate::model::JobStatus;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Requests in a group, at most.
const GROUP: usize = 512;

/// How much earlier than others a group is given out that is full of bytes.
const EARLIER: Duration = Duration::from_millis(80);

/// The queue between the leader and the committer. Never makes the leader wait, which would then see
/// no time-out; how much is in it, the machine bounds (`Policy::UNWRITTEN`).
#[derive(Debug)]
pub(super) struct Queue {
    /// Bytes of rows that make a group full.
    full: u64,
    state: Mutex<State>,
    /// Told to the committer.
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<CommitRequest>,
    /// Of rows that the requests bring.
    bytes: u64,
    flush: bool,
    finish: Option<JobStatus>,
    /// The leader's end is gone.
    closed: bool,
    /// The committer is gone.
    stopped: bool,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Task {
    /// Commit these.
    Commit(Vec<CommitRequest>),
    /// Nothing waits, and this is how the job ended.
    Finish(JobStatus),
}

impl Queue {
    /// `full`: bytes of rows that make a group full.
    pub(super) fn new(full: u64) -> Self {
        Self { full, state: Mutex::default(), work: Condvar::new() }
    }

    pub(super) fn submit(&self, request: CommitRequest) {
        let mut state = self.lock();
        if state.stopped {
            return;
        }
        let was_full = self.is_full(&state);
        state.bytes += bytes(&request);
        state.requests.push_back(request);
        // In between, the committer sleeps until it is time for the next group.
        if state.requests.len() == 1 || !was_full && self.is_full(&state) {
            self.work.notify_one();
        }
    }

    fn is_full(&self, state: &State) -> bool {
        state.requests.len() >= GROUP || state.bytes >= self.full
    }

    pub(super) fn flush(&self) {
        self.lock().flush = true;
        self.work.notify_one();
    }

    pub(super) fn finish(&self, status: JobStatus) {
        self.lock().finish = Some(status);
        self.work.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
    }

    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.requests.clear();
        state.bytes = 0;
    }

    /// Waits for the next task; `None` when the leader is gone and nothing waits. A group is given
    /// out not before `earliest`, or not much before that if it is full of bytes, unless it is full of requests or
    /// somebody is in a hurry.
    pub(super) fn next(&self, earliest: Instant) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.requests.is_empty() {
                state.flush = false;
                if let Some(status) = state.finish.take() {
                    return Some(Task::Finish(status));
                }
                if state.closed {
                    return None;
                }
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let hurry = state.flush || state.closed || state.finish.is_some();
            let mut wait = earliest.saturating_duration_since(Instant::now());
            if state.bytes >= self.full {
                wait = wait.saturating_sub(EARLIER);
            }
            if hurry || state.requests.len() >= GROUP || wait.is_zero() {
                let count = state.requests.len().min(GROUP);
                let group: Vec<_> = state.requests.drain(..count).collect();
                state.bytes -= group.iter().map(bytes).sum::<u64>();
                return Some(Task::Commit(group));
            }
            let woken = self.work.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is a single step, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of rows that a request brings.
fn bytes(request: &CommitRequest) -> u64 {
    match request {
        CommitRequest::Success(success) => success.segment.length,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::commit::Success;
    use crate::model::{ItemCounts, MiniBatchId, Segment, WorkerId};
    use std::time::Duration;

    fn request(number: u32) -> CommitRequest {
        CommitRequest::WorkerGone(WorkerId(number))
    }

    fn sizes(queue: &Queue, earliest: Instant) -> Vec<usize> {
        let mut sizes = Vec::new();
        while let Some(Task::Commit(group)) = queue.next(earliest) {
            sizes.push(group.len());
        }
        sizes
    }

    #[test]
    fn the_first_goes_at_once_and_later_ones_in_groups() {
        let queue = Queue::new(100);
        queue.submit(request(0));
        assert_eq!(queue.next(Instant::now()), Some(Task::Commit(vec![request(0)])));
        let earliest = Instant::now() + Duration::from_millis(50);
        queue.submit(request(1));
        queue.submit(request(2));
        assert_eq!(queue.next(earliest), Some(Task::Commit(vec![request(1), request(2)])));
        assert!(Instant::now() >= earliest);
    }

    #[test]
    fn full_groups_flush_finish_and_close_do_not_wait() {
        let far = Instant::now() + Duration::from_secs(600);
        let queue = Queue::new(100);
        (0..GROUP as u32 + 1).for_each(|number| queue.submit(request(number)));
        queue.flush();
        assert!(matches!(queue.next(far), Some(Task::Commit(group)) if group.len() == GROUP));
        assert!(matches!(queue.next(far), Some(Task::Commit(group)) if group.len() == 1));
        queue.submit(request(1));
        queue.finish(JobStatus::Failed);
        assert!(matches!(queue.next(far), Some(Task::Commit(_))));
        assert_eq!(queue.next(far), Some(Task::Finish(JobStatus::Failed)));
        queue.submit(request(1));
        queue.close();
        assert_eq!(sizes(&queue, far), [1]);
    }

    #[test]
    fn groups_of_many_bytes_wait_less() {
        let queue = Queue::new(100);
        let success = |length| {
            CommitRequest::Success(Success {
                worker: WorkerId(0),
                id: MiniBatchId(length),
                attempt: 1,
                items: ItemCounts::default(),
                is_short: false,
                segment: Segment { offset: 0, length, checksum: 0, rows: 1 },
                header: None,
                has_files: false,
                stamp: 0,
            })
        };
        for length in [60, 0, 40] {
            queue.submit(success(length));
        }
        let later = Instant::now() + 2 * EARLIER;
        assert!(matches!(queue.next(later), Some(Task::Commit(group)) if group.len() == 3));
        assert!(Instant::now() >= later - EARLIER);
        // What was given out counts no more.
        queue.submit(success(99));
        let soon = Instant::now() + Duration::from_millis(50);
        assert!(matches!(queue.next(soon), Some(Task::Commit(group)) if group.len() == 1));
        assert!(Instant::now() >= soon);
    }

    #[test]
    fn a_leader_never_waits_and_nothing_is_kept_once_nobody_takes_it() {
        let queue = Queue::new(100);
        (0..10_000).for_each(|number| queue.submit(request(number)));
        assert_eq!(queue.lock().requests.len(), 10_000);
        queue.stop();
        queue.submit(request(0));
        assert!(queue.lock().requests.is_empty());
    }
}
