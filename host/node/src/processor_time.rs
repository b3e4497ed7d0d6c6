//! How much processor time the attempts of killed workers took: they cannot say it themselves any
//! more. Next to the elapsed time it tells whether an attempt computed or waited (prs-semantics
//! 1.10, 1.11).

use crate::model::WorkerId;
use crate::pool::{Pool, PoolEvent};
use crate::protocol::FromWorker;
use std::collections::HashMap;

/// What each worker has used, in seconds.
#[derive(Debug, Default)]
pub(super) struct ProcessorTime {
    /// Up to the end of its last attempt, or of `init`. Looking at a process costs too much to do
    /// it for each mini-batch, so what attempts report is added up.
    before: HashMap<WorkerId, f64>,
    /// In the attempt that a kill has ended.
    killed: HashMap<WorkerId, f64>,
}

impl ProcessorTime {
    /// To be called with every event before it is acted on.
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

    /// To be called before a worker is killed.
    pub(super) fn note_kill(&mut self, worker: WorkerId, pool: &Pool) {
        if let (Some(before), Some(used)) =
            (self.before.get(&worker), pool.processor_seconds(worker))
        {
            self.killed.insert(worker, (used - before).max(0.0));
        }
    }

    /// What the attempt took that a kill of this worker has ended; 0 if none has.
    pub(super) fn of_killed(&mut self, worker: WorkerId) -> f64 {
        self.killed.remove(&worker).unwrap_or_default()
    }
}
