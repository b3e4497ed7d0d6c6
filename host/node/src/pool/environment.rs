//! What a process with a GPU finds in its environment.

use crate::model::GpuLease;
use std::env::{join_paths, var_os};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// What the libraries that use a GPU look for. `libraries` are the folders of CUDA's libraries. Fails if
/// the name of one has a colon.
pub fn gpu_environment(
    gpu: &GpuLease,
    libraries: &[PathBuf],
) -> io::Result<Vec<(&'static str, OsString)>> {
    // Always set: whoever finds none starts a program to look for it, which ends a worker.
    let home = ["CUDA_HOME", "CUDA_PATH"].iter().find_map(var_os);
    let mut variables = vec![
        // Counted as nvidia-smi does, whatever the driver thinks is the fastest.
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into()),
        ("CUDA_VISIBLE_DEVICES", gpu.visible.clone().into()),
        // There is no folder that the driver could keep anything in.
        ("CUDA_CACHE_DISABLE", "1".into()),
        ("CUDA_HOME", home.unwrap_or_else(|| "/usr/local/cuda".into())),
    ];
    if !libraries.is_empty() {
        let path = join_paths(libraries).map_err(io::Error::other)?;
        variables.push(("LD_LIBRARY_PATH", path));
    }
    if let Some(kernels) = &gpu.kernels {
        variables.push(("XDG_CACHE_HOME", kernels.clone().into()));
    }
    Ok(variables)
}
