//! Resource limits, which the process cannot raise again.

use super::error::{LayerError, LayerResult};
use super::role::{ResourceLimits, WallRole};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit on core files. With 0, the kernel still pipes a core to a program (`|` in `core_pattern`). With
/// 1, it makes no core, because every core is larger.
const MAX_CORE_BYTES: u64 = 1;

/// The time between SIGXCPU, whose exit status names the cause, and SIGKILL.
const CPU_GRACE_SECONDS: u64 = 5;

/// Sets the limits of this process. The process makes no core files: they would hold a tenant's data.
pub(super) fn apply(bounds: &ResourceLimits, role: WallRole) -> LayerResult {
    set_limits(bounds, role).map(|()| None)
}

fn set_limits(bounds: &ResourceLimits, role: WallRole) -> Result<(), LayerError> {
    lower(Resource::Core, MAX_CORE_BYTES)?;
    lower(Resource::Fsize, bounds.largest_file)?;
    set_open_files(bounds.open_files)?;
    // CUDA reserves far more than it touches. The leader watches what a GPU worker really uses.
    if let Some(bytes) = bounds.memory.filter(|_| role != WallRole::GpuWorker) {
        lower(Resource::Data, bytes)?;
    }
    if let Some(seconds) = bounds.cpu_seconds {
        lower_to(Resource::Cpu, seconds, seconds.saturating_add(CPU_GRACE_SECONDS))?;
    }
    // No role needs these resources. Only a GPU's driver pins memory.
    for resource in [Resource::Msgqueue, Resource::Rtprio, Resource::Nice] {
        lower(resource, 0)?;
    }
    if role != WallRole::GpuWorker {
        lower(Resource::Memlock, 0)?;
    }
    Ok(())
}

/// Lowers a limit. A limit that is lower already stays.
fn lower(resource: Resource, value: u64) -> Result<(), LayerError> {
    lower_to(resource, value, value)
}

fn lower_to(resource: Resource, current: u64, maximum: u64) -> Result<(), LayerError> {
    let old = getrlimit(resource);
    let least =
        |value, bounds: [Option<u64>; 2]| bounds.into_iter().flatten().fold(value, u64::min);
    let maximum = least(maximum, [old.maximum, None]);
    let current = least(current, [old.current, Some(maximum)]);
    set_limit(resource, current, maximum)
}

/// Sets the limit on open files. This may raise the limit: the usual one is lower than the number of files
/// that a guest may open.
fn set_open_files(value: u64) -> Result<(), LayerError> {
    let value = getrlimit(Resource::Nofile).maximum.map_or(value, |maximum| maximum.min(value));
    set_limit(Resource::Nofile, value, value)
}

fn set_limit(resource: Resource, current: u64, maximum: u64) -> Result<(), LayerError> {
    let limit = Rlimit { current: Some(current), maximum: Some(maximum) };
    setrlimit(resource, limit).map_err(|errno| LayerError::call("setrlimit", errno))
}
