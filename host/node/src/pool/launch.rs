//! Makes the command line, environment, folders and descriptors of a child process.

use super::child::Child;
use super::environment::gpu_environment;
use super::pipes::{Pipes, PlannerPipes};
use crate::inference::NO_TELEMETRY;
use crate::model::{self, JobDir, MiniBatchId, WorkerId};
use crate::opening::make_private;
use crate::protocol::WorkerSetup;
use crate::wall::{self, MISSING_LAYER, ProcessCgroup};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::process::Command;

/// At most this many of the last bytes of stderr are shown to the user.
pub(super) const STDERR_TAIL_BYTES: usize = 2048;

/// Makes glibc's allocator request huge pages, which most machines give only on request. Without huge pages,
/// inference with tensors of several megabytes took a seventh longer.
const HUGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// The program of child processes, with the arguments that make it a worker or a planner.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) worker: Vec<OsString>,
    pub(super) planner: Vec<OsString>,
    /// Whether it can also run as the zygote, from which workers are forked.
    pub(super) has_zygote: bool,
}

impl Program {
    /// The program is the sandmill binary at this path. A relative path is made absolute, because children
    /// get another working directory.
    pub(super) fn sandmill(path: &Path) -> Self {
        Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            worker: vec!["worker".into()],
            planner: vec!["plan-worker".into()],
            has_zygote: true,
        }
    }

    /// A command whose process inherits nothing: its environment is empty, and it has its own process group.
    ///
    /// No hook runs between fork and exec, so the standard library uses `posix_spawn`. With a hook,
    /// it would have to copy the page tables of the whole leader. So each child locks itself down
    /// after exec.
    fn command(&self, arguments: &[OsString], folder: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).env_clear().current_dir(folder);
        wall::keep_apart(command.as_std_mut());
        // Kills the child if the runtime ends before the pool's tasks do, or if a task cannot be started.
        command.kill_on_drop(true);
        if let Some(value) = std::env::var_os("RUST_BACKTRACE") {
            command.env("RUST_BACKTRACE", value);
        }
        if cfg!(debug_assertions)
            && let Some(value) = std::env::var_os(MISSING_LAYER)
        {
            command.env(MISSING_LAYER, value);
        }
        command
    }

    /// Starts the zygote, from which the planner and workers are forked. Its descriptor 0 is its
    /// end of a message socket. We discard its output: if the zygote fails, we start processes
    /// without it, and these report errors themselves.
    pub(super) fn start_zygote(&self, socket: OwnedFd) -> io::Result<process::Child> {
        let mut command = self.command(&self.worker, Path::new("/"));
        command.stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(Stdio::null());
        command.into_std().spawn()
    }

    /// Starts the planner with three pipes.
    pub(super) fn start_planner(&self) -> io::Result<(Child, Pipes)> {
        let (pipes, PlannerPipes { stdin, stdout, stderr }) = Pipes::new()?;
        // The request has only absolute paths, so the working directory does not matter.
        let child = self
            .command(&self.planner, Path::new("/"))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .map_err(|e| explain(&e, "start the planner", &self.path))?;
        Ok((Child::Spawned(child), pipes))
    }

    /// Starts a worker. Its descriptor 0 is its end of a socket, 1 is the compiled component, and 2 is its
    /// log file. All workers share the file offset of the component, so they map the file instead of reading
    /// it. `cgroup`: the cgroup that the worker joins.
    pub(super) fn start_worker(
        &self,
        setup: &WorkerSetup,
        component: &File,
        cgroup: Option<&ProcessCgroup>,
        (socket, stderr): (UnixStream, &StderrLog),
    ) -> io::Result<Child> {
        let folder = JobDir::new(&setup.job_dir).worker_dir(setup.worker);
        let mut command = self.command(&self.worker, &folder);
        if let Some(gpu) = &setup.gpu {
            command.envs(gpu_environment(gpu, &setup.inference.cuda)?);
        }
        if setup.inference.onnxruntime.is_some() {
            command.envs([NO_TELEMETRY, HUGE_PAGES]);
        }
        if let Some(cgroup) = cgroup {
            cgroup.admit(command.as_std_mut());
        }
        let child = command
            .stdin(Stdio::from(OwnedFd::from(socket)))
            .stdout(Stdio::from(component.try_clone()?))
            .stderr(Stdio::from(stderr.written.try_clone()?))
            .spawn()
            .map_err(|e| explain(&e, "start a worker process", &self.path))?;
        Ok(Child::Spawned(child))
    }
}

/// Makes the folders of a worker, and opens its log file.
pub(super) fn prepare_folders(setup: &WorkerSetup) -> io::Result<StderrLog> {
    let dir = JobDir::new(&setup.job_dir);
    make_folders(&dir, setup)?;
    StderrLog::open(&dir.worker_stderr(setup.worker))
}

/// Makes all folders in which the worker writes, so that the worker itself needs no right to make them.
fn make_folders(dir: &JobDir, setup: &WorkerSetup) -> io::Result<()> {
    let worker = setup.worker;
    let logs = dir.script_log_dir(worker.node());
    let folders = [dir.worker_output(worker), dir.worker_inputs(worker), dir.parts(), logs];
    let temporary = setup.temporary.then(|| dir.worker_temporary(worker));
    // Only the parent folders of these files are made.
    let files = [
        dir.staged(worker, MiniBatchId(0), 1),
        dir.worker_stderr(worker),
        dir.script_log(worker),
        dir.script_stdout(worker),
        dir.script_stderr(worker),
    ];
    let profile = dir.worker_new_profile(worker);
    let profiles = profile.parent().filter(|_| setup.settings.profiling_module.is_some());
    for folder in folders
        .iter()
        .chain(&temporary)
        .map(PathBuf::as_path)
        .chain(files.iter().filter_map(|f| f.parent()))
        .chain(profiles)
    {
        make_private(folder).map_err(|e| explain(&e, "make the folder", folder))?;
    }
    Ok(())
}

/// Tidies up the files of a worker that has ended: removes the guest's empty log files, and moves a new
/// profile to its final name. If that fails, the job continues.
pub fn settle(dir: &JobDir, worker: WorkerId) {
    let length = |path: &Path| {
        let found = path.symlink_metadata().ok().filter(fs::Metadata::is_file);
        found.map(|found| found.len())
    };
    for file in dir.script_files(worker) {
        if length(&file) == Some(0) {
            let _ = fs::remove_file(&file);
        }
    }
    let profile = dir.worker_profile(worker);
    let written = dir.worker_new_profile(worker);
    if length(&written).is_some() {
        let _ = fs::rename(&written, &profile);
    }
}

/// Adds to an error what was tried, and with which path.
fn explain(error: &io::Error, tried: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {tried} {}: {error}", path.display()))
}

/// The log file for a worker's stderr. The worker's descriptor can only append.
#[derive(Debug)]
pub(super) struct StderrLog {
    written: File,
    read: File,
    /// Where this worker's text begins: a resumed job may append to an older file.
    start: u64,
}

impl StderrLog {
    fn open(path: &Path) -> io::Result<Self> {
        // A worker of an earlier run may have replaced the file with a link or a pipe.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let open = |options: &mut OpenOptions| {
            let opened = options.custom_flags(flags).open(path);
            opened.map_err(|e| explain(&e, "open the log file", path))
        };
        let written = open(OpenOptions::new().create(true).append(true).mode(0o600))?;
        let mut read = open(OpenOptions::new().read(true))?;
        let for_reading = read.metadata()?;
        let for_writing = written.metadata()?;
        if !for_reading.is_file()
            || (for_reading.dev(), for_reading.ino()) != (for_writing.dev(), for_writing.ino())
        {
            let error = io::Error::other("it is not a regular file, or was just replaced");
            return Err(explain(&error, "use the log file", path));
        }
        let start = read.seek(SeekFrom::End(0))?;
        Ok(Self { written, read, start })
    }

    /// The descriptor to which the worker writes.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.written.as_fd()
    }

    /// The last text that the worker wrote, safe to show. Empty if it cannot be read.
    pub(super) fn tail(&self) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = &self.read;
            let end = file.metadata()?.len();
            file.seek(SeekFrom::Start(
                self.start.max(end.saturating_sub(STDERR_TAIL_BYTES as u64)),
            ))?;
            let mut bytes = Vec::new();
            file.take(STDERR_TAIL_BYTES as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        printable(&read().unwrap_or_default())
    }
}

/// Text from an untrusted process, safe to show: control characters, which could steer a terminal, are
/// escaped.
pub(super) fn printable(bytes: &[u8]) -> String {
    model::printable(String::from_utf8_lossy(bytes).trim()).into_owned()
}

/// A child process that can be killed until it is reaped. After that, another process may have its id.
#[derive(Debug)]
pub(super) struct ChildProcess {
    /// The process id, which is also the id of the process group.
    group: Option<Pid>,
    reaped: AtomicBool,
}

impl ChildProcess {
    /// The process with this id; `None` if the process has ended already.
    pub(super) fn from_id(id: Option<u32>) -> Self {
        let group = id.and_then(|id| Pid::from_raw(id.cast_signed()));
        Self { group, reaped: AtomicBool::new(false) }
    }

    pub(super) fn id(&self) -> u32 {
        self.group.map_or(0, |pid| pid.as_raw_nonzero().get().cast_unsigned())
    }

    /// CPU time of all threads, user and system, in microseconds. `None` if the process is gone.
    pub(super) fn cpu_us(&self) -> Option<u64> {
        let Some(pid) = self.group.filter(|_| !self.is_reaped()) else {
            return None; // Another process may have the id by now.
        };
        cpu_clock(pid)
    }

    /// The highest memory so far, in bytes. `None` if the process is gone.
    pub(super) fn peak_memory(&self) -> Option<u64> {
        if self.is_reaped() {
            return None;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        kibibytes.checked_mul(1024)
    }

    /// Kills the process, and all processes that it started, immediately.
    pub(super) fn kill(&self) {
        if let (Some(group), false) = (self.group, self.is_reaped()) {
            // While the process starts its own session, its group does not exist for a moment. At
            // that time it has no children, so we kill only the process. If that fails too, the
            // process is gone.
            let _ = kill_process_group(group, Signal::KILL)
                .or_else(|_| kill_process(group, Signal::KILL));
        }
    }

    /// Must be called as soon as the process was waited for.
    pub(super) fn set_reaped(&self) {
        self.reaped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_reaped(&self) -> bool {
        self.reaped.load(Ordering::Relaxed)
    }
}

/// The CPU time of a process in microseconds. One system call is much cheaper than reading `/proc`, and exact: `/proc`
/// counts in hundredths of a second.
fn cpu_clock(pid: Pid) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is to a local variable.
    let found =
        unsafe { libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &raw mut clock) } == 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local variable.
    if !found || unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(nanos / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_process_is_measured() {
        let own = ChildProcess::from_id(Some(process::id()));
        let before = own.cpu_us().unwrap();
        let mut sum = 0_u64;
        while own.cpu_us().unwrap() < before + 2000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(own.peak_memory().unwrap() > 1 << 20);
        own.set_reaped();
        assert_eq!((own.cpu_us(), own.peak_memory()), (None, None));
        assert_eq!(ChildProcess::from_id(None).cpu_us(), None);
    }
}
