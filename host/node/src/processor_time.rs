//! Measures the processor time of attempts of killed workers, which cannot report it themselves. Together
//! with the elapsed time, it shows whether an attempt computed or waited (sections 1.10 and 1.11 in
//! `docs/parallel-run-step.md`).

use crate::model::WorkerId;
use crate::pool::{Pool, PoolEvent};
use crate::protocol::FromWorker;
use std::collections::HashMap;

/// The processor time of each worker, in seconds.
#[derive(Debug, Default)]
pub(super) struct ProcessorTime {
    /// The time up to the end of the worker's last attempt, or of its `init`. Reading the time of a
    /// process after each mini-batch would cost too much, so we add up what attempts report.
    before: HashMap<WorkerId, f64>,
    /// The time of the attempt that a kill has ended.
    killed: HashMap<WorkerId, f64>,
}

impl ProcessorTime {
    /// Must be called with every event before the event is handled.
    pub(super) fn note(&mut self, event: &PoolEvent, pool: &Pool) {
        match event {
            PoolEvent::Worker(worker, FromWorker::Ready { .. }) => {
                self.before.insert(*worker, pool.processor_seconds(*worker).unwrap_or_default());
            }
            PoolEvent::Worker(worker, FromWorker::Finished(report)) => {
                *self.before.entry(*worker).or_default() += report.process_seconds;
            }
            PoolEvent::Worker(..) | PoolEvent::GpuFree(_) | PoolEvent::Notice(_) => {}
            PoolEvent::Exited(worker, _) => {
                self.before.remove(worker);
                self.killed.remove(worker);
            }
        }
    }

    /// Must be called before a worker is killed.
    pub(super) fn note_kill(&mut self, worker: WorkerId, pool: &Pool) {
        if let (Some(before), Some(used)) =
            (self.before.get(&worker), pool.processor_seconds(worker))
        {
            self.killed.insert(worker, (used - before).max(0.0));
        }
    }

    /// The time of the attempt that a kill of this worker has ended; 0 if there is none.
    pub(super) fn of_killed(&mut self, worker: WorkerId) -> f64 {
        self.killed.remove(&worker).unwrap_or_default()
    }
}
