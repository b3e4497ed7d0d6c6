//! Starts workers if the machine has slots for them (see `machine_slots`).

use super::machine::{NodeAction, NodeOutput};
use crate::machine_slots::{MachineSlots, SlotLease};
use crate::model::{WorkerId, count_u32, os_error};
use crate::perf::Monitor;
use crate::pool::Pool;
use crate::protocol::WorkerSetup;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

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
    /// When to look next whether slots belong to other jobs, as time since the job began here.
    look_at: Duration,
    /// When the job last asked for more workers.
    asked_at: Duration,
    /// Whether the job had workers beyond its share when it last looked.
    was_beyond: bool,
}

/// How often a job looks whether its slots belong to other jobs.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a job that asked for more workers still wants them. It asks again much more often.
const WANT_TIME: Duration = Duration::from_secs(3);

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
    /// run. `outputs`: what the round does. `begun`: when the job began here.
    pub(super) fn begin_round(&mut self, outputs: &[NodeOutput], begun: Instant) {
        self.is_full = false;
        // This is called for each message, so it must cost nothing without caps.
        let Some(slots) = &mut self.slots else { return };
        let is_start =
            |output: &&NodeOutput| matches!(output, NodeOutput::Do(NodeAction::Spawn(..)));
        let starts = outputs.iter().filter(is_start).count();
        if starts > 0 {
            slots.want(count_u32(self.taken.len() + starts));
            self.asked_at = begun.elapsed();
        }
    }

    /// When [`Self::beyond_share`] is due, as time since the job began here. `None` without caps.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.slots.is_some().then_some(self.look_at)
    }

    /// How many workers the job has that belong to other jobs. `None` if it is not time to look, or if there are none and were none
    /// before. `now`: the time since the job began here.
    pub(super) fn beyond_share(&mut self, now: Duration) -> Option<u32> {
        let slots = self.slots.as_mut().filter(|_| now >= self.look_at)?;
        self.look_at = now + LOOK_INTERVAL;
        if now > self.asked_at + WANT_TIME {
            slots.want(count_u32(self.taken.len()));
        }
        // Workers that end go on to do so while it is not known.
        let beyond = slots.beyond_share()?;
        let was_beyond = std::mem::replace(&mut self.was_beyond, beyond > 0);
        (beyond > 0 || was_beyond).then_some(beyond)
    }

    /// Gives back the job's share of the machine, because it starts no more workers.
    pub(super) fn end(&mut self) {
        if let Some(slots) = &mut self.slots {
            slots.end();
        }
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
        let Some(slots) = &mut self.slots else { return Ok(true) };
        let slot = if self.is_full { None } else { slots.lease()? };
        self.is_full = slot.is_none();
        if let Some(slot) = slot {
            self.taken.insert(worker, slot);
        }
        Ok(!self.is_full)
    }

    /// Frees the slot of a worker that is gone. The job soon looks whether the slot belongs to another job.
    pub(super) fn release(&mut self, worker: WorkerId) {
        if self.taken.remove(&worker).is_some() {
            self.look_at = Duration::ZERO;
        }
    }
}
