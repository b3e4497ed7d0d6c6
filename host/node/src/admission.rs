//! Starts workers if the machine has places for them (see `machine_slots`).

use crate::machine_slots::{MachineSlots, SlotLease};
use crate::model::{WorkerId, os_error};
use crate::perf::Monitor;
use crate::pool::Pool;
use crate::protocol::WorkerSetup;
use std::collections::HashMap;
use std::io;

/// The result of starting a worker process.
#[derive(Debug)]
pub(super) enum Spawned {
    /// It runs, with this process id.
    Runs(u32),
    /// The machine has no place for it now.
    NoRoom,
    /// It cannot be started, for this reason.
    Failed(String),
}

/// The places that this job's workers have.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// `None` if there are no caps.
    turns: Option<MachineSlots>,
    taken: HashMap<WorkerId, SlotLease>,
    /// Whether the machine was full in this round.
    full: bool,
}

impl Admission {
    pub(super) fn new(turns: Option<MachineSlots>) -> Self {
        Self { turns, ..Self::default() }
    }

    /// Whether there may be no place for a worker.
    pub(super) fn is_capped(&self) -> bool {
        self.turns.is_some()
    }

    /// Begins a new round. After one worker found no place, no other gets one in the same round, because the
    /// numbers of workers without a place are used again.
    pub(super) fn begin_round(&mut self) {
        self.full = false;
    }

    /// Starts a worker process, if there is a place for it.
    pub(super) fn start(
        &mut self,
        pool: &mut Pool,
        monitor: Option<&Monitor>,
        setup: WorkerSetup,
    ) -> Spawned {
        let worker = setup.worker;
        match self.take(worker) {
            Ok(true) => {}
            Ok(false) => return Spawned::NoRoom,
            Err(e) => {
                return Spawned::Failed(format!("no place for it: {}", os_error(&e)));
            }
        }
        match pool.spawn(setup) {
            Ok(pid) => {
                if let Some(monitor) = monitor {
                    monitor.started(worker, pid);
                }
                Spawned::Runs(pid)
            }
            Err(e) => {
                self.release(worker);
                Spawned::Failed(os_error(&e))
            }
        }
    }

    fn take(&mut self, worker: WorkerId) -> io::Result<bool> {
        let Some(turns) = &self.turns else { return Ok(true) };
        let place = if self.full { None } else { turns.take()? };
        self.full = place.is_none();
        if let Some(place) = place {
            self.taken.insert(worker, place);
        }
        Ok(!self.full)
    }

    /// Frees the place of a worker that is gone.
    pub(super) fn release(&mut self, worker: WorkerId) {
        self.taken.remove(&worker);
    }
}
