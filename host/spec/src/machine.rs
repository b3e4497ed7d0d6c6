//! Properties of the machine. Some defaults and checks of a job file depend on them.

use std::ffi::OsString;

/// The processor cores and GPUs of the machine that a job runs on, and whether it may use other machines. By
/// default one core, no GPU and no other machines.
#[derive(Clone, Debug)]
pub struct MachineSize {
    /// Processor cores that this process may use.
    pub cores: u32,
    /// The value of the environment variable `AZ_BATCHAI_GPU_COUNT_FOUND`, if the variable is set:
    /// the number of GPUs.
    pub gpus_found: Option<OsString>,
    /// Asks the driver for the number of GPUs. This function is called only if the number is not known
    /// otherwise, because asking takes time.
    pub count_gpus: fn() -> u32,
    /// Whether the job may run on several machines, because a broker is given.
    pub has_broker: bool,
}

impl Default for MachineSize {
    fn default() -> Self {
        Self { cores: 1, gpus_found: None, count_gpus: || 0, has_broker: false }
    }
}
