//! What defaults of a job file depend on, of the machine that the job runs on.

use std::ffi::OsString;

/// A machine, as far as a job file's defaults depend on it. By default it has one core and no GPU.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Processor cores that this process may use.
    pub cores: u32,
    /// What the environment says of the number of GPUs (`AZ_BATCHAI_GPU_COUNT_FOUND`), if it says anything.
    pub gpus_found: Option<OsString>,
    /// Asks the driver for the number of GPUs. It is called only if nothing else says it, since it takes time.
    pub count_gpus: fn() -> u32,
}

impl Default for Machine {
    fn default() -> Self {
        Self { cores: 1, gpus_found: None, count_gpus: || 0 }
    }
}
