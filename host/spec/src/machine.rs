//! Properties of the machine. Some defaults of a job file depend on them.

use std::ffi::OsString;

/// The processor cores and GPUs of the machine that a job runs on. By default one core and no GPU.
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
}

impl Default for MachineSize {
    fn default() -> Self {
        Self { cores: 1, gpus_found: None, count_gpus: || 0 }
    }
}
