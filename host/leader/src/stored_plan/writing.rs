//! The thread that writes the plan of a run to the job's store.

use super::object::PlanObject;
use super::reading::StoredPlan;
use crate::fail_point;
use crate::model::{MiniBatch, TableFormat};
use crate::protocol::{PlanPlace, PlanPosition};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// An object is written as soon as its mini-batches have this many bytes.
const OBJECT_BYTES: usize = 1 << 20;
/// The longest time between two objects that are smaller.
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// For each object that was written, the pause grows by this much. So a short job does not wait, and a long one
/// makes few objects.
const PAUSE_STEP: Duration = Duration::from_millis(10);

/// What the thread has done.
#[derive(Debug)]
pub(in super::super) enum PlanWritten {
    /// The plan is in the store up to this number of mini-batches.
    Until(u64),
    /// Nothing more is written. The text is a notice for the user.
    Stopped(String),
}

/// Writes a plan. Ends when it is dropped.
#[derive(Debug)]
pub(in super::super) struct PlanWriter(mpsc::Sender<PlanObject>);

impl PlanWriter {
    /// Starts the thread. `number`: that of its first object.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(in super::super) fn start(
        plan: StoredPlan,
        number: u64,
        written: UnboundedSender<PlanWritten>,
    ) -> io::Result<Self> {
        let (sender, parts) = mpsc::channel();
        let write = move || {
            if let Err(error) = write_all(&plan, number, &parts, &written) {
                let text = format!(
                    "the rest of the plan is not saved in the job store, so a leader that continues this run \
                     plans it again: {error}"
                );
                // If this fails, the job has ended.
                let _ = written.send(PlanWritten::Stopped(text));
            }
        };
        thread::Builder::new().name("plan".to_owned()).spawn(write)?;
        Ok(Self(sender))
    }

    /// Passes the next mini-batches to the thread, with the position after them.
    pub(in super::super) fn add(
        &self,
        tables: Vec<TableFormat>,
        batches: Vec<MiniBatch>,
        position: PlanPosition,
    ) {
        // If this fails, the thread has sent `Stopped`.
        let _ = self.0.send(PlanObject { tables, batches, position });
    }
}

fn write_all(
    plan: &StoredPlan,
    first: u64,
    parts: &Receiver<PlanObject>,
    written: &UnboundedSender<PlanWritten>,
) -> Result<(), sandmill_commit_log::LogError> {
    plan.series.make()?;
    let mut last = None;
    for number in first.. {
        let made = u32::try_from(number - first).unwrap_or(u32::MAX);
        let pause = PAUSE_STEP.saturating_mul(made).min(MAX_PAUSE);
        let due = last.map_or_else(Instant::now, |last: Instant| last + pause);
        let Some(object) = next_object(parts, due) else { return Ok(()) };
        plan.series.create(number, &object.encode())?;
        fail_point::pass("plan-written");
        last = Some(Instant::now());
        if written.send(PlanWritten::Until(object.position.mini_batches)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Collects the parts of the next object: all that come until `due`, or until they are enough. `None` after the last
/// part.
fn next_object(parts: &Receiver<PlanObject>, due: Instant) -> Option<PlanObject> {
    let mut object = parts.recv().ok()?;
    let size = |batches: &[MiniBatch]| batches.iter().map(MiniBatch::size).sum::<usize>();
    let mut bytes = size(&object.batches);
    while bytes < OBJECT_BYTES && object.position.place != PlanPlace::PlanEnd {
        match parts.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(PlanObject { batches, position, .. }) => {
                bytes += size(&batches);
                object.batches.extend(batches);
                object.position = position;
            }
            // Mini-batches may wait until the last parts are written.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some(object)
}
