//! What a process may do because of who runs it.

use super::error::{Built, LayerError};
use super::occupant::Occupant;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Nothing that this process starts could have more rights than it has.
pub(super) fn no_new_privileges() -> Built {
    let set = rustix::thread::set_no_new_privs(true);
    set.map(|()| None).map_err(|errno| LayerError::call("prctl", errno))
}

/// Gives up the powers of root. What is left where a root leader had it: a worker may read and link
/// files of other users, the rest may read them; which files at all, the other layers say.
pub(super) fn drop_capabilities(occupant: Occupant) -> Built {
    let wanted = match occupant {
        // Who links a file of somebody else must be able to write it (`fs.protected_hardlinks`).
        Occupant::Worker | Occupant::GpuWorker | Occupant::Nursery => {
            CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE
        }
        Occupant::Planner | Occupant::Shuffler => CapabilitySet::DAC_READ_SEARCH,
        Occupant::Compiler | Occupant::Finisher | Occupant::Fetcher => CapabilitySet::empty(),
    };
    let had = capabilities(None).map_err(|errno| LayerError::call("capget", errno))?;
    let kept = had.effective & had.permitted & wanted;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(|errno| LayerError::call("capset", errno))?;
    Ok((!kept.is_empty()).then(|| "no capabilities but for files of other users".to_owned()))
}
