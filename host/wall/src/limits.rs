//! Resource limits, none of which can be raised again.

use super::error::{Built, LayerError};
use super::occupant::{Bounds, Occupant};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With 0 the kernel still hands a core to a program that waits for it (`|` in `core_pattern`); with
/// 1 it makes none at all, as no core is that small.
const NO_CORE: u64 = 1;

/// Seconds between the signal for too much processor time, which says what happened, and the kill.
const GRACE: u64 = 5;

/// Sets the limits of this process. There are no core files, which would hold a tenant's data.
pub(super) fn apply(bounds: &Bounds, occupant: Occupant) -> Built {
    set(bounds, occupant).map(|()| None)
}

fn set(bounds: &Bounds, occupant: Occupant) -> Result<(), LayerError> {
    lower(Resource::Core, NO_CORE)?;
    lower(Resource::Fsize, bounds.largest_file)?;
    open_files(bounds.open_files)?;
    // CUDA reserves far more than it ever touches. What a worker really holds, the leader watches.
    if let Some(bytes) = bounds.memory.filter(|_| occupant != Occupant::GpuWorker) {
        lower(Resource::Data, bytes)?;
    }
    if let Some(seconds) = bounds.cpu_seconds {
        lower_to(Resource::Cpu, seconds, seconds.saturating_add(GRACE))?;
    }
    // Nobody behind the wall needs any of these. A GPU's driver pins memory.
    for resource in [Resource::Msgqueue, Resource::Rtprio, Resource::Nice] {
        lower(resource, 0)?;
    }
    if occupant != Occupant::GpuWorker {
        lower(Resource::Memlock, 0)?;
    }
    Ok(())
}

/// Lowers a limit, never raises it.
fn lower(resource: Resource, value: u64) -> Result<(), LayerError> {
    lower_to(resource, value, value)
}

fn lower_to(resource: Resource, current: u64, maximum: u64) -> Result<(), LayerError> {
    let old = getrlimit(resource);
    let least =
        |value, bounds: [Option<u64>; 2]| bounds.into_iter().flatten().fold(value, u64::min);
    let maximum = least(maximum, [old.maximum, None]);
    let current = least(current, [old.current, Some(maximum)]);
    put(resource, current, maximum)
}

/// What is usual is less than a guest may open, and may be raised up to the maximum.
fn open_files(value: u64) -> Result<(), LayerError> {
    let value = getrlimit(Resource::Nofile).maximum.map_or(value, |maximum| maximum.min(value));
    put(Resource::Nofile, value, value)
}

fn put(resource: Resource, current: u64, maximum: u64) -> Result<(), LayerError> {
    let limit = Rlimit { current: Some(current), maximum: Some(maximum) };
    setrlimit(resource, limit).map_err(|errno| LayerError::call("setrlimit", errno))
}
