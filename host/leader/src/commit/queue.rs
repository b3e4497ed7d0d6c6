//! The queue of the committer. Its thread is woken once per group, not once per request.

use super::message::CommitRequest;
use crate::model::JobStatus;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const MAX_GROUP_REQUESTS: usize = 512;

/// Rows are copied before their commit once there are `full / COPY_DIVISOR` bytes of them. Then fewer rows
/// are left to copy at the job's end, and the end comes sooner.
const COPY_DIVISOR: u64 = 8;

/// A group that is full of bytes begins this much earlier than other groups.
const FULL_GROUP_LEAD: Duration = Duration::from_millis(80);

/// The queue between the leader and the committer. It never blocks the leader, because a blocked leader would
/// miss time-outs. The state machine bounds the queue's length (`RetryPolicy::UNWRITTEN`).
#[derive(Debug)]
pub(super) struct CommitQueue {
    /// How many bytes of rows make a group full.
    full: u64,
    state: Mutex<QueueState>,
    /// Wakes the committer.
    work: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    requests: VecDeque<CommitRequest>,
    /// The size of the rows of `requests`.
    bytes: u64,
    /// The requests that have been handed out for copying, but not yet for committing: their number, and the
    /// size of their rows.
    copied: (usize, u64),
    is_flush_requested: bool,
    end_status: Option<JobStatus>,
    /// Whether the leader has closed the queue.
    is_closed: bool,
    /// Whether the committer has ended.
    is_stopped: bool,
}

/// The committer's next task.
#[derive(Debug, PartialEq)]
pub(super) enum CommitTask {
    /// Copy the rows of these requests, which have no files. They are committed with the next group.
    Copy(Vec<CommitRequest>),
    /// Commit these requests, and the requests copied before.
    Commit(Vec<CommitRequest>),
    /// End the job with this status. No requests are left.
    EndJob(JobStatus),
}

impl CommitQueue {
    /// `full`: how many bytes of rows make a group full.
    pub(super) fn new(full: u64) -> Self {
        Self { full, state: Mutex::default(), work: Condvar::new() }
    }

    pub(super) fn submit(&self, request: CommitRequest) {
        let mut state = self.lock();
        if state.is_stopped {
            return;
        }
        let before = self.reached(&state);
        state.bytes += row_bytes(&request);
        state.requests.push_back(request);
        // In all other cases, the committer sleeps until the next group is due.
        if state.requests.len() == 1 || before != self.reached(&state) {
            self.work.notify_one();
        }
    }

    /// Which thresholds are reached: whether there are enough rows to copy, and whether the group is full.
    fn reached(&self, state: &QueueState) -> (bool, bool) {
        let (requests, bytes) = state.copied;
        let full = state.requests.len() + requests >= MAX_GROUP_REQUESTS
            || state.bytes + bytes >= self.full;
        (state.bytes >= self.full / COPY_DIVISOR, full)
    }

    pub(super) fn flush(&self) {
        self.lock().is_flush_requested = true;
        self.work.notify_one();
    }

    pub(super) fn request_end(&self, status: JobStatus) {
        self.lock().end_status = Some(status);
        self.work.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_one();
    }

    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        state.requests.clear();
        (state.bytes, state.copied) = (0, (0, 0));
    }

    /// Waits for the next task. `None` once the leader has closed the queue and it is empty. A group is
    /// handed out at `earliest`, or somewhat before that if it is full of bytes. It is handed out immediately
    /// if it is full of requests, or if a flush, an end or a close is pending. Before a group is handed
    /// out, its rows may be handed out for copying, if there are many.
    pub(super) fn next(&self, earliest: Instant) -> Option<CommitTask> {
        let mut state = self.lock();
        loop {
            let (requests, copied) = state.copied;
            if state.requests.is_empty() && requests == 0 {
                state.is_flush_requested = false;
                if let Some(status) = state.end_status.take() {
                    return Some(CommitTask::EndJob(status));
                }
                if state.is_closed {
                    return None;
                }
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let is_urgent =
                state.is_flush_requested || state.is_closed || state.end_status.is_some();
            let mut wait = earliest.saturating_duration_since(Instant::now());
            if state.bytes + copied >= self.full {
                wait = wait.saturating_sub(FULL_GROUP_LEAD);
            }
            if is_urgent || state.requests.len() + requests >= MAX_GROUP_REQUESTS || wait.is_zero()
            {
                state.copied = (0, 0);
                return Some(CommitTask::Commit(state.dequeue(MAX_GROUP_REQUESTS)));
            }
            if state.bytes >= self.full / COPY_DIVISOR {
                let ready = state.requests.iter().take_while(|request| may_be_copied(request));
                let count = ready.count();
                let before = state.bytes;
                if count > 0 {
                    let ready = state.dequeue(count);
                    state.copied = (requests + count, copied + before - state.bytes);
                    return Some(CommitTask::Copy(ready));
                }
            }
            let woken = self.work.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // Each change is a single step, so a panic elsewhere leaves a consistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Removes and returns at most this many requests.
    fn dequeue(&mut self, most: usize) -> Vec<CommitRequest> {
        let count = self.requests.len().min(most);
        let taken: Vec<_> = self.requests.drain(..count).collect();
        self.bytes -= taken.iter().map(row_bytes).sum::<u64>();
        taken
    }
}

/// Whether the rows of a request may be copied into the output before its commit.
pub(super) fn may_be_copied(request: &CommitRequest) -> bool {
    matches!(request, CommitRequest::Success(success) if !success.has_files)
}

/// The size of a request's rows.
fn row_bytes(request: &CommitRequest) -> u64 {
    match request {
        CommitRequest::Success(success) => success.segment.length,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::Success;
    use crate::model::{MiniBatchId, Segment, WorkerId};
    use std::time::Duration;

    fn request(number: u32) -> CommitRequest {
        CommitRequest::WorkerGone(WorkerId(number))
    }

    fn success(length: u64, has_files: bool) -> CommitRequest {
        CommitRequest::Success(Success {
            id: MiniBatchId(length),
            segment: Segment { length, ..Segment::sample() },
            has_files,
            ..Success::sample()
        })
    }

    fn sizes(queue: &CommitQueue, earliest: Instant) -> Vec<usize> {
        let mut sizes = Vec::new();
        while let Some(CommitTask::Commit(group)) = queue.next(earliest) {
            sizes.push(group.len());
        }
        sizes
    }

    #[test]
    fn the_first_request_is_immediate_and_later_ones_are_grouped() {
        let queue = CommitQueue::new(100);
        queue.submit(request(0));
        assert_eq!(queue.next(Instant::now()), Some(CommitTask::Commit(vec![request(0)])));
        let earliest = Instant::now() + Duration::from_millis(50);
        queue.submit(request(1));
        queue.submit(request(2));
        assert_eq!(queue.next(earliest), Some(CommitTask::Commit(vec![request(1), request(2)])));
        assert!(Instant::now() >= earliest);
    }

    #[test]
    fn full_groups_flush_finish_and_close_do_not_wait() {
        let far = Instant::now() + Duration::from_secs(600);
        let queue = CommitQueue::new(100);
        (0..MAX_GROUP_REQUESTS as u32 + 1).for_each(|number| queue.submit(request(number)));
        queue.flush();
        assert!(
            matches!(queue.next(far), Some(CommitTask::Commit(group)) if group.len() == MAX_GROUP_REQUESTS)
        );
        assert!(matches!(queue.next(far), Some(CommitTask::Commit(group)) if group.len() == 1));
        queue.submit(request(1));
        queue.request_end(JobStatus::Failed);
        assert!(matches!(queue.next(far), Some(CommitTask::Commit(_))));
        assert_eq!(queue.next(far), Some(CommitTask::EndJob(JobStatus::Failed)));
        queue.submit(request(1));
        queue.close();
        assert_eq!(sizes(&queue, far), [1]);
    }

    #[test]
    fn groups_of_many_bytes_wait_less() {
        let queue = CommitQueue::new(100);
        for length in [60, 0, 40] {
            queue.submit(success(length, true));
        }
        let later = Instant::now() + 2 * FULL_GROUP_LEAD;
        assert!(matches!(queue.next(later), Some(CommitTask::Commit(group)) if group.len() == 3));
        assert!(Instant::now() >= later - FULL_GROUP_LEAD);
        // Requests that were handed out no longer count.
        queue.submit(success(99, true));
        let soon = Instant::now() + Duration::from_millis(50);
        assert!(matches!(queue.next(soon), Some(CommitTask::Commit(group)) if group.len() == 1));
        assert!(Instant::now() >= soon);
    }

    #[test]
    fn many_rows_are_copied_before_their_commit() {
        let queue = CommitQueue::new(100);
        let later = Instant::now() + 2 * FULL_GROUP_LEAD;
        [20, 5, 1].into_iter().for_each(|length| queue.submit(success(length, false)));
        queue.submit(success(60, true));
        // Only the requests before the first one with files are handed out.
        assert!(matches!(queue.next(later), Some(CommitTask::Copy(group)) if group.len() == 3));
        queue.submit(success(13, false));
        assert!(matches!(queue.next(later), Some(CommitTask::Commit(group)) if group.len() == 2));
        assert!(Instant::now() >= later, "too little for a full group");
    }

    #[test]
    fn copied_rows_fill_a_group_and_are_committed() {
        let queue = CommitQueue::new(100);
        let far = Instant::now() + 2 * FULL_GROUP_LEAD;
        queue.submit(success(50, false));
        assert!(matches!(queue.next(far), Some(CommitTask::Copy(group)) if group.len() == 1));
        queue.submit(success(50, false));
        assert!(matches!(queue.next(far), Some(CommitTask::Copy(group)) if group.len() == 1));
        assert_eq!(queue.next(far), Some(CommitTask::Commit(Vec::new())));
        assert!((far - FULL_GROUP_LEAD..far).contains(&Instant::now()));
        queue.submit(success(50, false));
        assert!(matches!(queue.next(far), Some(CommitTask::Copy(group)) if group.len() == 1));
        queue.request_end(JobStatus::Completed);
        assert_eq!(queue.next(far), Some(CommitTask::Commit(Vec::new())));
        assert_eq!(queue.next(far), Some(CommitTask::EndJob(JobStatus::Completed)));
    }

    #[test]
    fn submit_never_blocks_and_a_stopped_queue_stays_empty() {
        let queue = CommitQueue::new(100);
        (0..10_000).for_each(|number| queue.submit(request(number)));
        assert_eq!(queue.lock().requests.len(), 10_000);
        queue.stop();
        queue.submit(request(0));
        assert!(queue.lock().requests.is_empty());
    }
}
