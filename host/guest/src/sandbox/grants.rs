//! What a guest may see and use, and the WASI context that is made of it.

use super::files::Files;
use super::log_folder::LogFolder;
use super::quota::Quota;
use super::seed::Seed;
use super::sink::{LogFile, Sink};
use super::virtual_time::VirtualTime;
use crate::inference::Models;
use crate::model::{Failure, FailureKind, Limits, LoggingLevel, Mount};
use std::fmt::Display;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

/// All that a guest may see and use.
#[derive(Clone)]
pub struct Grants {
    /// Folders.
    pub mounts: Vec<Mount>,
    /// The program's arguments, its name first.
    pub arguments: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// `host.agent-name`.
    pub agent_name: String,
    /// `host.node-id`.
    pub node_id: String,
    /// `host.log-dir`, a guest path.
    pub log_dir: String,
    /// What lies there.
    pub log_folder: LogFolder,
    /// `host.output-dir`, a guest path.
    pub output_dir: String,
    /// `host.source-dir`, a guest path.
    pub source_dir: Option<String>,
    /// `host.gpu-index`.
    pub gpu_index: Option<u32>,
    /// The models. They outlive the instances that load them.
    pub models: Arc<Models>,
    /// What `host.log` is cut at.
    pub logging_level: LoggingLevel,
    /// The budget.
    pub limits: Limits,
    /// What random numbers follow from, in a deterministic job.
    pub seed: Seed,
    /// Where stdout goes.
    pub stdout: LogFile,
    /// Where stderr goes.
    pub stderr: LogFile,
    /// Where `host.log` goes.
    pub log: LogFile,
}

/// The WASI context: just what was granted, nothing of the host's own environment, no network. `time`
/// is what clocks show, if not the machine's time; `files` has the folders open.
pub(super) fn wasi(
    grants: &Grants,
    stderr: &Sink,
    quota: &Quota,
    files: &Files,
    time: Option<&VirtualTime>,
) -> Result<WasiCtx, Failure> {
    let mut builder = WasiCtxBuilder::new();
    builder
        .args(&grants.arguments)
        .envs(&grants.environment)
        .stdout(Sink::new(&grants.stdout, quota))
        .stderr(stderr.clone())
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        // A worker has nothing else to do while its guest reads a file. Must come before the
        // folders, which remember it.
        .allow_blocking_current_thread(true);
    if let Some(time) = time {
        builder.wall_clock(time.clone()).monotonic_clock(time.clone());
    }
    for mount in &grants.mounts {
        let permissions = if mount.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        let folder = files.opened(mount).ok_or_else(|| cannot_open(mount, &"it is not open"))?;
        // By this name the engine opens what is open here, whatever lies at the path by now.
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

/// The failure of a folder that cannot be opened.
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
