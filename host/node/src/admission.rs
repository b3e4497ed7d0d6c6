//! Starts workers if the machine has slots for them (see `machine_slots`).

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
    /// The worker runs, with this process id.
    Runs(u32),
    /// The machine has no slot for the worker now.
    NoRoom,
    /// The process cannot be started, for this reason.
    Failed(String),
}

/// The slots on the machine that this job's workers have.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// `None` if there are no caps.
    slots: Option<MachineSlots>,
    taken: HashMap<WorkerId, SlotLease>,
    /// Whether a worker of this round found no slot.
    is_full: bool,
}

impl Admission {
    pub(super) fn new(slots: Option<MachineSlots>) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Whether the machine has caps, so that a worker may find no slot.
    pub(super) fn is_capped(&self) -> bool {
        self.slots.is_some()
    }

    /// Begins a new round of starts. Once a worker finds no slot, no later worker of the same round
    /// gets one. The numbers of these workers are used again, so no worker with a higher number may
    /// run.
    pub(super) fn begin_round(&mut self) {
        self.is_full = false;
    }

    /// Starts a worker process, if there is a slot for it.
    pub(super) fn start(
        &mut self,
        pool: &mut Pool,
        monitor: Option<&Monitor>,
        setup: WorkerSetup,
    ) -> Spawned {
        let worker = setup.worker;
        match self.lease_slot(worker) {
            Ok(true) => {}
            Ok(false) => return Spawned::NoRoom,
            Err(e) => {
                return Spawned::Failed(format!(
                    "its slot on the machine cannot be leased: {}",
                    os_error(&e)
                ));
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

    /// Leases a slot for a worker. Returns whether the worker may start.
    fn lease_slot(&mut self, worker: WorkerId) -> io::Result<bool> {
        let Some(slots) = &self.slots else { return Ok(true) };
        let slot = if self.is_full { None } else { slots.lease()? };
        self.is_full = slot.is_none();
        if let Some(slot) = slot {
            self.taken.insert(worker, slot);
        }
        Ok(!self.is_full)
    }

    /// Frees the slot of a worker that is gone.
    pub(super) fn release(&mut self, worker: WorkerId) {
        self.taken.remove(&worker);
    }
}
