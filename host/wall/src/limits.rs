//! Resource limits, which the process cannot raise again.

use super::error::{Built, LayerError};
use super::role::{ResourceLimits, WallRole};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With 0, the kernel still pipes a core to a program (`|` in `core_pattern`). With 1 it makes none, as no
/// core is that small.
const NO_CORE: u64 = 1;

/// Seconds between SIGXCPU, which names the cause, and the kill.
const GRACE: u64 = 5;

/// Sets the limits of this process. It makes no core files: they would hold a tenant's data.
pub(super) fn apply(bounds: &ResourceLimits, occupant: WallRole) -> Built {
    set(bounds, occupant).map(|()| None)
}

fn set(bounds: &ResourceLimits, occupant: WallRole) -> Result<(), LayerError> {
    lower(Resource::Core, NO_CORE)?;
    lower(Resource::Fsize, bounds.largest_file)?;
    open_files(bounds.open_files)?;
    // CUDA reserves far more than it touches. The leader watches what a GPU worker really uses.
    if let Some(bytes) = bounds.memory.filter(|_| occupant != WallRole::GpuWorker) {
        lower(Resource::Data, bytes)?;
    }
    if let Some(seconds) = bounds.cpu_seconds {
        lower_to(Resource::Cpu, seconds, seconds.saturating_add(GRACE))?;
    }
    // No occupant needs any of these. Only a GPU's driver pins memory.
    for resource in [Resource::Msgqueue, Resource::Rtprio, Resource::Nice] {
        lower(resource, 0)?;
    }
    if occupant != WallRole::GpuWorker {
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

/// Sets the limit to the value, which may raise it: the usual limit is lower than what a guest may open.
fn open_files(value: u64) -> Result<(), LayerError> {
    let value = getrlimit(Resource::Nofile).maximum.map_or(value, |maximum| maximum.min(value));
    put(Resource::Nofile, value, value)
}

fn put(resource: Resource, current: u64, maximum: u64) -> Result<(), LayerError> {
    let limit = Rlimit { current: Some(current), maximum: Some(maximum) };
    setrlimit(resource, limit).map_err(|errno| LayerError::call("setrlimit", errno))
}
