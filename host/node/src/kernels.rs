//! Starts a process that compiles tract's kernels for a job's GPUs, before the job's workers need them.

use crate::cancel::Cancel;
use crate::inference::KERNELS_COMMAND;
use crate::model::{Backend, DeviceChoice, GpuLease};
use crate::pool::gpu_environment;
use crate::spec::{JobSpec, ModelSpec};
use crate::wall::{self, TaskEnd, WaitError};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long compiling may take for one GPU.
const PATIENCE: Duration = Duration::from_secs(900);
/// At most this many bytes of the process's output are reported.
const MAX_OUTPUT: u64 = 2000;

/// Why tract cannot use the GPUs. The text completes a sentence for the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum KernelsError {
    /// The cache folder has no absolute path.
    #[error(transparent)]
    NoPath(io::Error),
    /// The folder cannot be made.
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// The process cannot be started.
    #[error(transparent)]
    Start(io::Error),
    /// The process was killed before it ended by itself, for this reason.
    #[error(transparent)]
    Stopped(WaitError),
    /// The process failed.
    #[error("{}", explain(.0))]
    Failed(TaskEnd),
}

/// The process's error output, or how it ended.
fn explain(ended: &TaskEnd) -> String {
    if ended.faults.is_empty() { ended.describe("its process") } else { ended.faults.clone() }
}

/// Whether tract may run a model on a GPU. `onnxruntime_has_gpu` returns whether ONNX Runtime can
/// use the GPU: if it can, models with the backend `auto` do not run on tract. We call the function
/// only if the result depends on it.
pub(super) fn are_needed(spec: &JobSpec, onnxruntime_has_gpu: impl FnOnce() -> bool) -> bool {
    may_run(&spec.models, spec.inference.allow_guest_models, onnxruntime_has_gpu)
}

fn may_run(
    models: &[ModelSpec],
    allow_guest_models: bool,
    onnxruntime_has_gpu: impl FnOnce() -> bool,
) -> bool {
    let on_gpu = |backend| {
        let mut models = models.iter();
        models.any(|model| model.device != DeviceChoice::Cpu && model.backend == backend)
    };
    on_gpu(Backend::Tract)
        || (allow_guest_models || on_gpu(Backend::Auto)) && !onnxruntime_has_gpu()
}

/// Compiles the kernels for these GPUs into a folder inside the cache folder, unless they are there already.
/// Returns the folder.
pub(super) fn compile(
    program: &Path,
    cache: &Path,
    leases: &[GpuLease],
    libraries: &[PathBuf],
    cancel: &Cancel,
) -> Result<PathBuf, KernelsError> {
    let folder = std::path::absolute(cache.join("cuda")).map_err(KernelsError::NoPath)?;
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(source) if source.kind() != ErrorKind::AlreadyExists => {
            return Err(KernelsError::Folder { path: folder, source });
        }
        _ => {}
    }
    for lease in leases {
        let lease = GpuLease { kernels: Some(folder.clone()), ..lease.clone() };
        let child = start(program, &lease, libraries).map_err(KernelsError::Start)?;
        let ended = wall::end_of(child, PATIENCE, MAX_OUTPUT, || cancel.reason());
        let ended = ended.map_err(KernelsError::Stopped)?;
        if !ended.status.success() {
            return Err(KernelsError::Failed(ended));
        }
    }
    Ok(folder)
}

fn start(program: &Path, lease: &GpuLease, libraries: &[PathBuf]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg(KERNELS_COMMAND).env_clear().current_dir("/");
    wall::keep_apart(&mut command);
    command.envs(gpu_environment(lease, libraries)?);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    fn model(backend: Backend, device: DeviceChoice) -> ModelSpec {
        ModelSpec { backend, device, ..ModelSpec::sample() }
    }

    #[test]
    fn kernels_are_compiled_only_if_a_model_needs_them() {
        use {Backend::*, DeviceChoice as Device};
        let may = |models: &[ModelSpec], guests, onnxruntime_has_gpu| {
            may_run(models, guests, || onnxruntime_has_gpu)
        };
        assert!(!may(&[], false, false));
        assert!(!may(&[model(Tract, Device::Cpu), model(OnnxRuntime, Device::Gpu)], false, false));
        let auto = [model(Auto, Device::Cpu), model(Auto, Device::Auto)];
        assert!(may(&auto, false, false) && !may(&auto, false, true));
        assert!(may(&[], true, false) && !may(&[], true, true));
        assert!(may(&[model(Tract, Device::Gpu)], false, true));
    }

    /// The program is a shell script here.
    fn compiled(
        script: &str,
        cancel: &Cancel,
    ) -> (Result<PathBuf, KernelsError>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let leases = [GpuLease::plain(3), GpuLease::plain(5)];
        let libraries = ["/cuda/lib".into()];
        (compile(&program, dir.path(), &leases, &libraries, cancel), dir)
    }

    #[test]
    fn each_gpu_has_a_process_that_sees_only_it() {
        let script = "echo $1 $CUDA_VISIBLE_DEVICES $LD_LIBRARY_PATH $HOME >>$XDG_CACHE_HOME/seen";
        let (folder, dir) = compiled(script, &Cancel::new());
        assert_eq!(folder.unwrap(), dir.path().join("cuda"));
        let mode = fs::metadata(dir.path().join("cuda")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let seen = fs::read_to_string(dir.path().join("cuda/seen")).unwrap();
        assert_eq!(seen, "gpu-prepare 3 /cuda/lib\ngpu-prepare 5 /cuda/lib\n");
    }

    #[test]
    fn a_failure_is_reported_with_its_output() {
        let describe = |script: &str| compiled(script, &Cancel::new()).0.unwrap_err().to_string();
        assert_eq!(describe("echo no libcuda >&2; exit 1"), "no libcuda");
        assert_eq!(describe("exit 3"), "its process ended with exit code 3");
        assert_eq!(describe("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1").len(), 2000);
    }

    #[test]
    fn a_cancelled_job_does_not_wait_for_compilation() {
        let cancel = Cancel::new();
        cancel.cancel("Ctrl-C");
        let began = Instant::now();
        let error = compiled("exec sleep 60", &cancel).0.unwrap_err();
        assert!(
            matches!(error, KernelsError::Stopped(WaitError::Stopped(reason)) if reason == "Ctrl-C")
        );
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
