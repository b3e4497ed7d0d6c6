//! What a guest may see and use, and the WASI context that grants it.

use super::files::OpenFolders;
use super::log_folder::LogFolder;
use super::quota::WriteQuota;
use super::seed::Seed;
use super::sink::{GuestSink, SinkFile};
use super::virtual_time::VirtualTime;
use crate::inference::LoadedModels;
use crate::model::{Failure, FailureKind, Limits, LoggingLevel, Mount};
use std::fmt::Display;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

/// Everything that a guest may see and use.
#[derive(Clone)]
pub struct Grants {
    /// The folders.
    pub mounts: Vec<Mount>,
    /// The program's arguments, beginning with its name.
    pub arguments: Vec<String>,
    /// The program's environment variables.
    pub environment: Vec<(String, String)>,
    /// The value of `host.agent-name`.
    pub agent_name: String,
    /// The value of `host.node-id`.
    pub node_id: String,
    /// The value of `host.log-dir`, a guest path.
    pub log_dir: String,
    /// Counts the content of the folder `log_dir`.
    pub log_folder: LogFolder,
    /// The value of `host.output-dir`, a guest path.
    pub output_dir: String,
    /// The value of `host.source-dir`, a guest path.
    pub source_dir: Option<String>,
    /// The value of `host.gpu-index`.
    pub gpu_index: Option<u32>,
    /// The models. They outlive the instances that load them.
    pub models: Arc<LoadedModels>,
    /// The level that `host.log` is filtered by.
    pub logging_level: LoggingLevel,
    /// The limits.
    pub limits: Limits,
    /// The seed of the random numbers in a deterministic job.
    pub seed: Seed,
    /// The files that receive stdout.
    pub stdout: SinkFile,
    /// The files that receive stderr.
    pub stderr: SinkFile,
    /// The files that receive the messages of `host.log`.
    pub log: SinkFile,
}

/// Makes the WASI context: only what was granted, nothing of the host's own environment, and no network.
/// `time` replaces the machine's time; `files` has the open folders.
pub(super) fn wasi(
    grants: &Grants,
    stderr: &GuestSink,
    quota: &WriteQuota,
    files: &OpenFolders,
    time: Option<&VirtualTime>,
) -> Result<WasiCtx, Failure> {
    let mut builder = WasiCtxBuilder::new();
    builder
        .args(&grants.arguments)
        .envs(&grants.environment)
        .stdout(GuestSink::new(&grants.stdout, quota))
        .stderr(stderr.clone())
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        // File calls may block the thread: a worker has nothing else to do while its guest reads a
        // file. Set this before the folders, because they copy the setting.
        .allow_blocking_current_thread(true);
    if let Some(time) = time {
        builder.wall_clock(time.clone()).monotonic_clock(time.clone());
    }
    for mount in &grants.mounts {
        let permissions = if mount.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        let folder = files.opened(mount).ok_or_else(|| cannot_open(mount, &"it is not open"))?;
        // This path leads to the folder that we have open, even if the folder's own path now leads
        // elsewhere.
        builder
            .preopened_dir(
                format!("/proc/self/fd/{}", folder.as_raw_fd()),
                &mount.guest,
                permissions,
            )
            .map_err(|error| cannot_open(mount, &error))?;
    }
    Ok(builder.build())
}

/// The failure for a folder that cannot be opened.
pub(super) fn cannot_open(mount: &Mount, error: &dyn Display) -> Failure {
    Failure::new(
        FailureKind::HostFault,
        format!(
            "the folder {}, which the entry script is to see as {}, cannot be opened: {error}",
            mount.host.display(),
            mount.guest
        ),
    )
}
