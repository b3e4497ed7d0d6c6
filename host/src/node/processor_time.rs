//! How much processor time the attempts of killed workers took: they cannot say it themselves any
//! more. Next to the elapsed time it tells whether an attempt computed or waited (prs-semantics
//! 1.10, 1.11).

use crate::event::EventKind;
use crate::model::WorkerId;
use crate::pool::{Pool, PoolEvent};
use crate::protocol::FromWorker;
use std::collections::HashMap;

/// What each worker has used, in seconds.
#[derive(Debug, Default)]
pub struct ProcessorTime {
    /// Up to the end of its last attempt, or of `init`. Looking at a process costs too much to do
    /// it for each mini-batch, so what attempts report is added up.
    before: HashMap<WorkerId, f64>,
    /// In the attempt that a kill has ended.
    killed: HashMap<String, f64>,
}

impl ProcessorTime {
    /// To be called with every event before it is acted on.
    pub fn note(&mut self, event: &PoolEvent, pool: &Pool) {
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
                self.killed.remove(&worker.to_string());
            }
        }
    }

    /// To be called before a worker is killed.
    pub fn note_kill(&mut self, worker: WorkerId, pool: &Pool) {
        if let (Some(before), Some(used)) =
            (self.before.get(&worker), pool.processor_seconds(worker))
        {
            self.killed.insert(worker.to_string(), (used - before).max(0.0));
        }
    }

    /// What is told of an attempt that ended with its worker, completed.
    pub fn completed(&mut self, mut kind: EventKind) -> EventKind {
        if let EventKind::AttemptFinished { worker, report, .. } = &mut kind
            && report.outcome.is_err()
            && let Some(seconds) = self.killed.remove(worker)
        {
            report.process_seconds = seconds;
        }
        kind
    }
}
