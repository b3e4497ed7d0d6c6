//! Builds the second wall around a worker, which limits what the process may use while it runs a guest.
//!
//! The wall is built on the main thread before any other thread exists, because Landlock and seccomp hold for
//! a thread and the threads that it starts later. By then the component is mapped, the connection to the
//! leader and the part file are open, and the worker's folders exist.

use crate::inference::{PROCESSORS, has_inference, inference_memory};
use crate::model::MemoryBudget;
use crate::model::{JobDir, OsSandbox, OutputLayout, WallState};
use crate::protocol::{WorkerSetup, ZygoteLimits};
use crate::wall::{FolderRights, GrantedPath, ResourceLimits, Wall, WallRole, gpu_folders};
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// The largest file that the process may write: 64 GiB. A guest that writes more gets an error. Result files
/// are far smaller, but the limit also holds for the part file, which has the rows of a whole job. The number
/// of files of a mini-batch is limited elsewhere.
const LARGEST_FILE: u64 = 64 << 30;
/// The same limit for a job whose output is parts, which may be very large: 1 TiB.
const LARGEST_PART: u64 = 1 << 40;

/// The folder with the kernel's information about processes.
const PROC_FOLDER: &str = "/proc";

/// The number of descriptors for the worker itself, in addition to the guest's.
const OWN_DESCRIPTORS: u64 = 128;

/// Bytes that the process may use beyond the budget that the leader watches. `RLIMIT_DATA` also counts stacks
/// and memory that is reserved but never touched. With this slack, a guest that asks for too much fails at
/// its own limit, with that limit's message.
const SLACK_BYTES: u64 = 1 << 30;

pub(super) fn wall(setup: &WorkerSetup) -> Wall {
    let role = if setup.gpu.is_some() { WallRole::GpuWorker } else { WallRole::Worker };
    let mut folders = read_folders(setup);
    folders.extend(written_folders(setup));
    folders.extend(setup.gpu.iter().flat_map(|gpu| gpu_folders(gpu, &setup.inference.cuda)));
    Wall { role, mode: setup.settings.os_sandbox, folders, bounds: bounds(setup) }
}

/// The wall of the zygote, from which workers are forked. The wall allows what any worker may use; each
/// worker builds a narrower wall inside it. In the job directory, the folders for work, parts and logs can be
/// written. The folder of links cannot be written: in a writable folder, a link to an input file would make
/// that file writable.
pub(super) fn zygote_wall(surroundings: &ZygoteLimits) -> Wall {
    let dir = JobDir::new(&surroundings.job_dir);
    let mut folders = vec![
        GrantedPath::real(dir.root(), FolderRights::Read),
        GrantedPath::real(dir.work(), FolderRights::Write),
        GrantedPath::real(dir.parts(), FolderRights::Write),
        GrantedPath::real(dir.user_logs(), FolderRights::Write),
        GrantedPath::real(dir.links(), FolderRights::Stage),
        // A worker reads there how many threads it has, and which cgroup it is in.
        GrantedPath::new(PROC_FOLDER, FolderRights::Read),
        GrantedPath::new(PROCESSORS, FolderRights::Read),
    ];
    folders.extend(surroundings.sources.iter().map(|source| {
        let is_linked = source.pattern.is_some();
        let rights = if is_linked { FolderRights::ReadAndLink } else { FolderRights::Read };
        GrantedPath::real(source.root.as_path(), rights)
    }));
    if !surroundings.spill.starts_with(dir.root()) {
        folders.push(GrantedPath::real(surroundings.spill.as_path(), FolderRights::Read));
    }
    let mounts = surroundings.mounts.iter();
    folders.extend(mounts.map(|mount| GrantedPath::real(mount.host.as_path(), FolderRights::Read)));
    let cgroups = surroundings.cgroups.iter();
    folders.extend(cgroups.map(|cgroups| GrantedPath::new(cgroups.as_path(), FolderRights::Files)));
    let bounds = ResourceLimits {
        memory: None,
        cpu_seconds: None,
        largest_file: LARGEST_PART,
        open_files: surroundings.handles.saturating_add(OWN_DESCRIPTORS),
    };
    Wall { role: WallRole::Zygote, mode: surroundings.os_sandbox, folders, bounds }
}

/// Builds the wall around this process. Fails if a layer that the mode requires cannot be built. `logs`:
/// descriptors of files that may only grow from now on.
pub(super) fn lock_down(wall: &Wall, logs: &[RawFd]) -> io::Result<WallState> {
    ignore_file_size_signal()?;
    if wall.mode != OsSandbox::Off {
        crate::wall::alone()?;
    }
    wall.build_around_logs(logs).map_err(io::Error::other)
}

/// Whether the guest sees input files as links in a folder of the worker.
fn is_staged(setup: &WorkerSetup) -> bool {
    setup.tables.is_empty() && setup.sources.iter().any(|source| source.pattern.is_some())
}

/// The folders that the worker only reads.
fn read_folders(setup: &WorkerSetup) -> Vec<GrantedPath> {
    let folder = |path: &Path, rights| GrantedPath::real(path, rights);
    let rights = |is_linked| if is_linked { FolderRights::ReadAndLink } else { FolderRights::Read };
    let mut folders = Vec::new();
    for source in &setup.sources {
        let is_linked = setup.tables.is_empty() && source.pattern.is_some();
        folders.push(folder(&source.root, rights(is_linked)));
    }
    folders.extend(setup.mounts.iter().map(|mount| folder(&mount.host, FolderRights::Read)));
    if has_inference(&setup.models, &setup.inference) {
        folders.extend(setup.models.iter().map(|model| folder(&model.host, FolderRights::Read)));
        folders.push(GrantedPath::new(PROCESSORS, FolderRights::Read));
    }
    if !setup.tables.is_empty() {
        folders.push(folder(&setup.spill, FolderRights::Read));
    }
    // ONNX Runtime's files for GPUs are beside the library, and are opened with the first model on a GPU.
    let library = setup.inference.onnxruntime.as_deref().filter(|_| setup.gpu.is_some());
    folders.extend(
        library.and_then(Path::parent).map(|folder| GrantedPath::new(folder, FolderRights::Read)),
    );
    folders
}

/// The folders to which the guest and the worker write. The part file and the guest's log files are open
/// already.
fn written_folders(setup: &WorkerSetup) -> Vec<GrantedPath> {
    let dir = JobDir::new(&setup.job_dir);
    let worker = setup.worker;
    let folder = |path: PathBuf, rights| GrantedPath::real(path, rights);
    let mut folders = vec![
        folder(dir.worker_output(worker), FolderRights::Write),
        folder(dir.worker_staged(worker), FolderRights::Write),
        folder(dir.script_log_dir(worker.node()), FolderRights::Write),
    ];
    if setup.temporary {
        folders.push(folder(dir.worker_temporary(worker), FolderRights::Write));
    }
    if is_staged(setup) {
        folders.push(folder(dir.worker_inputs(worker), FolderRights::Stage));
        folders.push(folder(dir.worker_copies(worker), FolderRights::Write));
    }
    let profile = dir.worker_new_profile(worker);
    if let Some(profiles) = profile.parent().filter(|_| setup.settings.profiling_module.is_some()) {
        folders.push(folder(profiles.to_owned(), FolderRights::Files));
    }
    folders
}

fn bounds(setup: &WorkerSetup) -> ResourceLimits {
    // A mini-batch may be as large as the planner allows.
    let table = if setup.tables.is_empty() { 0 } else { crate::dataset::csv::MAX_SLICE };
    let models: Vec<&Path> = setup.models.iter().map(|model| model.host.as_path()).collect();
    let inference = inference_memory(&models, &setup.inference, &setup.limits);
    let budget = MemoryBudget::new(&setup.limits, table, inference).total();
    let is_off = setup.settings.os_sandbox == OsSandbox::Off;
    ResourceLimits {
        memory: (!is_off).then(|| budget.0.saturating_add(SLACK_BYTES)),
        cpu_seconds: None,
        largest_file: match setup.output_format.layout {
            OutputLayout::File => LARGEST_FILE,
            OutputLayout::Parts => LARGEST_PART,
        },
        open_files: setup.limits.handles.saturating_add(OWN_DESCRIPTORS),
    }
}

/// Makes a write beyond the largest file size fail instead of killing the process.
fn ignore_file_size_signal() -> io::Result<()> {
    // SAFETY: ignoring a signal runs no code of ours, and no other code handles this one.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compromised worker must not be able to write where other workers do.
    #[test]
    fn a_worker_writes_only_its_own_folders() {
        use crate::model::{NodeId, Profiler, Source, WorkerId, WorkerSettings};
        let source =
            Source { pattern: Some("*.png".to_owned()), ..Source::new("d", "/data".into()) };
        let setup = WorkerSetup {
            worker: WorkerId(7),
            sources: vec![source],
            settings: WorkerSettings {
                profiling_module: Some(Profiler::Guest),
                ..WorkerSettings::default()
            },
            ..WorkerSetup::sample("/job")
        };
        let dir = JobDir::new("/job");
        let writes = |folder: &&GrantedPath| {
            !matches!(folder.rights, FolderRights::Read | FolderRights::ReadAndLink)
        };
        let folders = wall(&setup).folders;
        let written: Vec<_> = folders.iter().filter(writes).collect();
        assert!(written.len() > 4, "{written:?}");
        for folder in written {
            let own = [dir.worker_dir(WorkerId(7)), dir.worker_inputs(WorkerId(7))];
            let own = own.iter().any(|own| folder.path.starts_with(own));
            // All workers of a job share this folder, as in ParallelRunStep.
            assert!(own || folder.path == dir.script_log_dir(NodeId::ONLY), "{folder:?}");
        }
    }

    /// Rights add up along a path: everything below a writable folder is writable.
    #[test]
    fn read_only_files_are_outside_writable_folders() {
        let dir = JobDir::new("/job");
        let surroundings = ZygoteLimits {
            os_sandbox: OsSandbox::Required,
            job_dir: "/job".into(),
            spill: "/job/spill".into(),
            sources: Vec::new(),
            mounts: Vec::new(),
            handles: 1,
            cgroups: None,
        };
        let wall = zygote_wall(&surroundings);
        let written = wall.folders.iter();
        let written = written
            .filter(|folder| matches!(folder.rights, FolderRights::Write | FolderRights::Files));
        let written: Vec<_> = written.map(|folder| folder.path.as_path()).collect();
        assert!(written.contains(&dir.work().as_path()), "{written:?}");
        for read in [dir.model("m"), dir.links(), dir.spill(), dir.journal(), dir.state_file()] {
            assert!(!written.iter().any(|folder| read.starts_with(folder)), "{}", read.display());
        }
    }

    #[test]
    fn a_too_large_file_is_an_error_not_a_signal() {
        let bounds = ResourceLimits {
            memory: None,
            cpu_seconds: None,
            largest_file: LARGEST_FILE,
            open_files: u64::MAX,
        };
        let role = WallRole::Worker;
        let mode = OsSandbox::Off;
        let state = lock_down(&Wall { role, mode, folders: Vec::new(), bounds }, &[]).unwrap();
        assert!(state.active.iter().any(|layer| layer == "resource limits"), "{state:?}");
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let error = file.set_len(LARGEST_FILE + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
