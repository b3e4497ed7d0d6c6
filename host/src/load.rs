//! Reads a job file on this machine.

use crate::gpu;
use crate::model::Feature;
use crate::node;
use crate::spec::{
    self, JobSpec, LoadContext, MachineSize, NoRegistry, OperatorPolicy, SpecErrors,
};
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;

/// The environment variable with the number of GPUs of a machine (docs/parallel-run-step.md G3).
const GPU_COUNT_VARIABLE: &str = "AZ_BATCHAI_GPU_COUNT_FOUND";

/// The properties of this machine on which defaults of a job file depend.
pub(crate) fn this_machine() -> MachineSize {
    let cores = available_parallelism().map_or(1, NonZero::get);
    MachineSize {
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        // A build without CUDA cannot use GPUs, so it ignores the variable.
        gpus_found: std::env::var_os(GPU_COUNT_VARIABLE).filter(|_| node::has(Feature::Cuda)),
        count_gpus: gpu::count,
        has_broker: false,
    }
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reads and checks a job file for this machine. `overrides` are pairs of a key path and a YAML value, such
/// as `("limits.memory", "512MB")`; later ones win.
///
/// # Errors
/// As for [`spec::load`].
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<JobSpec, SpecErrors> {
    load_under(path, overrides, &OperatorPolicy::default())
}

/// Like [`load`], under an operator's policy. A setting of the job that exceeds the policy is an error. A
/// default that exceeds a limit of the policy is lowered, with a notice.
///
/// # Errors
/// As for [`spec::load`].
pub fn load_under(
    path: &Path,
    overrides: &[(String, String)],
    policy: &OperatorPolicy,
) -> Result<JobSpec, SpecErrors> {
    let machine = this_machine();
    spec::load(
        path,
        overrides,
        LoadContext { policy, registrations: &NoRegistry, machine: &machine, uploads: &[] },
    )
}
