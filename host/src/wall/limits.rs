//! Resource limits, none of which can be raised again.

use super::build::Bounds;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Lowers the limits of this process, never raises one, and forbids core files, which would hold a
/// tenant's data.
pub(super) fn apply(bounds: &Bounds) -> io::Result<()> {
    lower(Resource::Core, 0)?;
    lower(Resource::Fsize, bounds.largest_file)?;
    if let Some(bytes) = bounds.memory {
        lower(Resource::Data, bytes)?;
    }
    if let Some(seconds) = bounds.cpu_seconds {
        lower(Resource::Cpu, seconds)?;
    }
    Ok(())
}

fn lower(resource: Resource, value: u64) -> io::Result<()> {
    let old = getrlimit(resource);
    let value = [old.current, old.maximum].into_iter().flatten().fold(value, u64::min);
    let both = Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(resource, both).map_err(io::Error::from)
}
