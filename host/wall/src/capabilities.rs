//! Privileges of the process: those that it could gain, and those that it has from its user.

use super::error::{LayerError, LayerResult};
use super::role::WallRole;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Keeps this process, and the processes that it starts, from gaining privileges.
pub(super) fn no_new_privileges() -> LayerResult {
    let set = rustix::thread::set_no_new_privs(true);
    set.map(|()| None).map_err(|errno| LayerError::call("prctl", errno))
}

/// Drops the capabilities of root. If the leader runs as root, a worker keeps the capabilities to read and
/// link files of other users, and the planner and its helpers keep the one to read such files. The other
/// layers decide which files these are. Processes with other roles keep no capabilities.
pub(super) fn drop_capabilities(role: WallRole) -> LayerResult {
    let wanted = match role {
        // The kernel lets a process link another user's file only if the process may also write the
        // file (`fs.protected_hardlinks`).
        WallRole::Worker | WallRole::GpuWorker | WallRole::Zygote => {
            CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE
        }
        WallRole::Planner | WallRole::Shuffler => CapabilitySet::DAC_READ_SEARCH,
        WallRole::Compiler | WallRole::Finisher | WallRole::Fetcher => CapabilitySet::empty(),
    };
    let had = capabilities(None).map_err(|errno| LayerError::call("capget", errno))?;
    let kept = had.effective & had.permitted & wanted;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(|errno| LayerError::call("capset", errno))?;
    Ok((!kept.is_empty())
        .then(|| "dropped capabilities, except for files of other users".to_owned()))
}
