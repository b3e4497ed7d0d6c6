//! The environment variables of a process with a GPU.

use crate::model::GpuLease;
use std::env::{join_paths, var_os};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// The variables that GPU libraries read. `libraries` are the folders of CUDA's libraries. Fails if the path
/// of a folder contains a colon.
pub fn gpu_environment(
    gpu: &GpuLease,
    libraries: &[PathBuf],
) -> io::Result<Vec<(&'static str, OsString)>> {
    // `CUDA_HOME` is always set: without it, a library starts a program to find CUDA, and the wall kills a
    // worker that starts a program.
    let home = ["CUDA_HOME", "CUDA_PATH"].iter().find_map(var_os);
    let mut variables = vec![
        // Number the GPUs as nvidia-smi does. The driver's default is to number them by speed.
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into()),
        ("CUDA_VISIBLE_DEVICES", gpu.visible.clone().into()),
        // The worker has no folder for the driver's cache.
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
