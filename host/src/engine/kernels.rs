//! Has a process of its own compile what tract needs on a job's GPUs, before the job's workers need it.

use super::cancel::Cancel;
use crate::inference::KERNELS_COMMAND;
use crate::model::{Backend, DeviceChoice, GpuLease, printable};
use crate::pool::gpu_environment;
use crate::spec::{JobSpec, ModelSpec};
use crate::wall;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long it may take for one GPU.
const PATIENCE: Duration = Duration::from_secs(900);
/// How often it is looked whether it is done.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of what it says that are told.
const TOLD: u64 = 2000;

/// Whether a model may come to run on a GPU by tract.
pub(super) fn wanted(spec: &JobSpec) -> bool {
    spec.inference.allow_guest_models || may_run(&spec.models)
}

fn may_run(models: &[ModelSpec]) -> bool {
    models
        .iter()
        .any(|model| model.device != DeviceChoice::Cpu && model.backend != Backend::OnnxRuntime)
}

/// Compiles for these GPUs into a folder below the cache's, where that is not done yet. Returns the
/// folder; an error says why tract cannot use the GPUs, for people.
pub(super) fn compile(
    program: &Path,
    cache: &Path,
    leases: &[GpuLease],
    libraries: &[PathBuf],
    cancel: &Cancel,
) -> Result<PathBuf, String> {
    let folder = std::path::absolute(cache.join("cuda")).map_err(|e| e.to_string())?;
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(format!("{}: {error}", folder.display()));
        }
        _ => {}
    }
    for lease in leases {
        let lease = GpuLease { kernels: Some(folder.clone()), ..lease.clone() };
        let child = start(program, &lease, libraries).map_err(|e| e.to_string())?;
        finish(child, PATIENCE, cancel)?;
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

/// Waits for its end.
fn finish(mut child: Child, patience: Duration, cancel: &Cancel) -> Result<(), String> {
    let stderr = child.stderr.take();
    // Read all along, as it would wait for somebody to read much.
    let said = thread::spawn(move || {
        let (mut first, Some(mut stderr)) = (Vec::new(), stderr) else { return Vec::new() };
        let _ = stderr.by_ref().take(TOLD).read_to_end(&mut first);
        let _ = io::copy(&mut stderr, &mut io::sink());
        first
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        let reason = cancel.reason().or_else(|| {
            let late = began.elapsed() >= patience;
            late.then(|| format!("it was not ready after {} s", patience.as_secs()))
        });
        if let Some(reason) = reason {
            let _ = child.kill();
            let _ = child.wait();
            return Err(reason);
        }
        thread::sleep(PAUSE);
    };
    if status.success() {
        return Ok(());
    }
    let said = said.join().unwrap_or_default();
    let said = printable(String::from_utf8_lossy(&said).trim());
    Err(if said.is_empty() { format!("its process ended with {status}") } else { said })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn model(backend: Backend, device: DeviceChoice) -> ModelSpec {
        ModelSpec {
            name: "m".to_owned(),
            file: "/m/m.onnx".into(),
            folder: None,
            bytes: 1,
            digest: None,
            backend,
            device,
            fallback: false,
        }
    }

    #[test]
    fn nothing_is_compiled_that_no_model_needs() {
        use {Backend::*, DeviceChoice as Device};
        assert!(!may_run(&[]));
        assert!(!may_run(&[model(Tract, Device::Cpu), model(OnnxRuntime, Device::Gpu)]));
        assert!(may_run(&[model(Auto, Device::Cpu), model(Auto, Device::Auto)]));
        assert!(may_run(&[model(Tract, Device::Gpu)]));
    }

    /// A script takes the place of the program.
    fn compiled(script: &str, cancel: &Cancel) -> (Result<PathBuf, String>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let leases = [GpuLease::plain(3), GpuLease::plain(5)];
        let libraries = ["/cuda/lib".into()];
        (compile(&program, dir.path(), &leases, &libraries, cancel), dir)
    }

    #[test]
    fn each_gpu_has_a_process_that_sees_it_alone() {
        let script = "echo $1 $CUDA_VISIBLE_DEVICES $LD_LIBRARY_PATH $HOME >>$XDG_CACHE_HOME/seen";
        let (folder, dir) = compiled(script, &Cancel::new());
        assert_eq!(folder, Ok(dir.path().join("cuda")));
        let mode = fs::metadata(dir.path().join("cuda")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let seen = fs::read_to_string(dir.path().join("cuda/seen")).unwrap();
        assert_eq!(seen, "gpu-prepare 3 /cuda/lib\ngpu-prepare 5 /cuda/lib\n");
    }

    #[test]
    fn what_went_wrong_is_told() {
        let told = |script: &str| compiled(script, &Cancel::new()).0.unwrap_err();
        assert_eq!(told("echo no libcuda >&2; exit 1"), "no libcuda");
        assert!(told("exit 3").ends_with("exit status: 3"));
        assert_eq!(told("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1").len(), 2000);
    }

    #[test]
    fn a_job_that_is_cancelled_does_not_wait_for_it() {
        let cancel = Cancel::new();
        cancel.cancel("Ctrl-C");
        let began = Instant::now();
        assert_eq!(compiled("exec sleep 60", &cancel).0, Err("Ctrl-C".to_owned()));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_process_that_hangs_is_ended() {
        let child = Command::new("sleep").arg("60").stderr(Stdio::piped()).spawn().unwrap();
        let error = finish(child, Duration::from_millis(100), &Cancel::new()).unwrap_err();
        assert_eq!(error, "it was not ready after 0 s");
    }
}
