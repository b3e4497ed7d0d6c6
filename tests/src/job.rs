//! A job in its own folder, and its run.

use crate::{Ran, guest, sandmill};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// If a command runs longer, the test assumes that it hangs. The time is long, because many tests run
/// concurrently, with a debug build.
const LONGEST_RUN: Duration = Duration::from_secs(180);

/// A folder with a job file and the files that the job needs.
///
/// The job file begins with a name and the entry script; [`TestJob::yaml`] adds the rest. Paths in the job
/// file may be relative, because the command runs in the folder.
#[derive(Debug)]
pub struct TestJob {
    dir: TempDir,
    environment: Vec<(String, String)>,
    ignores_hangups: bool,
}

/// A job for one worker with three mini-batches: files of 1, 2 and 3 bytes. `entry_script` is a test guest's
/// name.
pub fn texts(entry_script: &str) -> TestJob {
    TestJob::new(&guest(entry_script))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 1")
        .file("in/a.txt", "1")
        .file("in/b.txt", "22")
        .file("in/c.txt", "333")
}

impl TestJob {
    /// A job named `test` with this entry script.
    pub fn new(entry_script: &Path) -> Self {
        let job = Self::empty();
        let first_lines = format!("name: test\nentry_script: {}\n", entry_script.display());
        job.file("job.yaml", first_lines)
    }

    /// A folder without a job file.
    pub fn empty() -> Self {
        let dir = TempDir::new().unwrap();
        Self { dir, environment: Vec::new(), ignores_hangups: false }
    }

    /// A folder without a job file. If the machine has no C compiler, the Python of `make python-env`
    /// provides one.
    pub fn with_compilers() -> Self {
        Self::empty().env("VIRTUAL_ENV", &crate::root().join("target/venv").display().to_string())
    }

    /// Adds lines to the job file.
    #[must_use]
    pub fn yaml(self, lines: &str) -> Self {
        let path = self.path("job.yaml");
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, format!("{before}{}\n", lines.trim_end())).unwrap();
        self
    }

    /// Writes a file, and creates its parent folders.
    #[must_use]
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Sets an environment variable of the command.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a datastores file for the command. Objects of stores are cached in the folder
    /// `objects`, up to `size` (`1 MB`). `stores`: the lines of the file that describe the stores.
    #[must_use]
    pub fn datastores(self, size: &str, stores: &str) -> Self {
        let folder = self.path("objects").display().to_string();
        let stores = if stores.is_empty() { " {}\n".to_owned() } else { format!("\n{stores}") };
        let text = format!("cache: {{folder: {folder}, size: {size}}}\ndatastores:{stores}");
        let job = self.file("stores.yaml", text).env("SANDMILL_DATASTORES", "stores.yaml");
        // Sandmill refuses a datastores file that other users may read, so only the owner may.
        let owner_only = fs::Permissions::from_mode(0o600);
        fs::set_permissions(job.path("stores.yaml"), owner_only).unwrap();
        job
    }

    /// The job's folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the job's folder.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir().join(inside)
    }

    /// Runs `sandmill run job.yaml --job-dir job` with more arguments, until it ends.
    pub fn run(self, arguments: &[&str]) -> Ran {
        self.start(arguments).wait()
    }

    /// Runs `sandmill resume job` with more arguments, until it ends: continues what [`TestJob::run`] began.
    pub fn resume(self, arguments: &[&str]) -> Ran {
        self.start_resume(arguments).wait()
    }

    /// As [`TestJob::resume`], but does not wait.
    pub fn start_resume(self, arguments: &[&str]) -> Running {
        let mut command = vec!["resume", "job"];
        command.extend(arguments);
        self.spawn(&command)
    }

    /// As [`TestJob::start`], but the command ignores SIGHUP, as under `nohup`.
    pub fn start_ignoring_hangups(mut self) -> Running {
        self.ignores_hangups = true;
        self.start(&[])
    }

    /// Runs any command, e.g. `["plan", "job.yaml"]`, until it ends.
    pub fn command(self, arguments: &[&str]) -> Ran {
        self.spawn(arguments).wait()
    }

    /// As [`TestJob::run`], but does not wait.
    pub fn start(self, arguments: &[&str]) -> Running {
        let mut command = vec!["run", "job.yaml", "--job-dir", "job"];
        command.extend(arguments);
        self.spawn(&command)
    }

    /// As [`TestJob::command`], but does not wait.
    pub fn spawn(self, arguments: &[&str]) -> Running {
        self.spawn_program(sandmill(), arguments)
    }

    /// As [`TestJob::spawn`], with another program instead of `sandmill`.
    pub fn spawn_program(self, program: &Path, arguments: &[&str]) -> Running {
        let cache = crate::root().join("target/test-cache");
        fs::create_dir_all(cache.parent().unwrap()).unwrap();
        let mut command = Command::new(program);
        if self.ignores_hangups {
            command = Command::new("/bin/sh");
            command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(program);
        }
        // The tests may run in a cloud or with a proxy. The jobs must use neither.
        let cloud_prefixes = ["AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_"];
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| cloud_prefixes.iter().any(|prefix| name.starts_with(prefix)))
            {
                command.env_remove(name);
            }
        }
        for name in ["NO_PROXY", "no_proxy"] {
            let existing = std::env::var(name).unwrap_or_default();
            command.env(name, format!("127.0.0.1,localhost,{existing}"));
        }
        let mut child = command
            .args(arguments)
            .current_dir(self.dir())
            .env("SANDMILL_CACHE_DIR", cache)
            .env("CARGO_TARGET_DIR", crate::root().join("target/guests"))
            // The registry and the configuration of the user who runs the tests must not matter.
            .env("SANDMILL_REGISTRY", self.path("registry/registry.db"))
            .env("XDG_CONFIG_HOME", self.path("config-home"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A separate process group, so that the test can kill all of it.
            .process_group(0)
            .spawn()
            .unwrap();
        let stdout = Reader::new(child.stdout.take().unwrap());
        let stderr = Reader::new(child.stderr.take().unwrap());
        let name = program.file_name().unwrap_or_default().display();
        let command = format!("{name} {}", arguments.join(" "));
        Running { job: Some(self), command, child, stdout, stderr, begun: Instant::now() }
    }
}

/// A command that has not ended yet. Dropping it kills the command and its workers.
#[derive(Debug)]
pub struct Running {
    job: Option<TestJob>,
    command: String,
    child: Child,
    stdout: Reader,
    stderr: Reader,
    begun: Instant,
}

impl Running {
    /// The process id, which is also the id of its process group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The job's folder.
    pub fn dir(&self) -> &Path {
        self.job.as_ref().expect("the job is there until the end of the run").dir()
    }

    /// The text on stdout so far.
    pub fn stdout_so_far(&self) -> String {
        self.stdout.so_far()
    }

    /// The text on stderr so far.
    pub fn stderr_so_far(&self) -> String {
        self.stderr.so_far()
    }

    /// Waits until a condition holds, e.g. until a file exists. `what` describes the condition for the error
    /// message.
    pub fn until(&mut self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        while !condition(self) {
            let ended = self.child.try_wait().unwrap();
            let too_late = self.begun.elapsed() > LONGEST_RUN;
            assert!(
                ended.is_none() && !too_late,
                "`{}` {} before this held: {what}\nstderr:\n{}",
                self.command,
                if too_late { "took too long" } else { "ended" },
                self.stderr.so_far()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the command has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends SIGINT to the whole group, as a terminal does on Ctrl-C.
    pub fn interrupt(&self) {
        self.signal_group(rustix::process::Signal::INT);
    }

    /// Sends SIGHUP to the whole group, as when the terminal is closed.
    pub fn hang_up(&self) {
        self.signal_group(rustix::process::Signal::HUP);
    }

    /// Kills only the leader, without warning.
    pub fn kill_leader(&mut self) {
        self.child.kill().unwrap();
    }

    /// The processes of the run other than the leader: id and command line.
    pub fn children(&self) -> Vec<(u32, String)> {
        processes_of(self.dir(), self.pid())
    }

    /// Waits until the command ends. If it hangs, kills the whole group and panics.
    pub fn wait(mut self) -> Ran {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.begun.elapsed() > LONGEST_RUN {
                self.signal_group(rustix::process::Signal::KILL);
                let stdout = self.stdout.so_far();
                let stderr = self.stderr.so_far();
                panic!("`{}` hangs\nstdout:\n{stdout}\nstderr:\n{stderr}", self.command);
            }
            thread::sleep(Duration::from_millis(2));
        };
        let took = self.begun.elapsed();
        let mut left = self.children();
        let ended = Instant::now();
        while !left.is_empty() && ended.elapsed() < Duration::from_millis(500) {
            thread::sleep(Duration::from_millis(5));
            left = self.children();
        }
        for (pid, _) in &left {
            if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        Ran {
            job: self.job.take().expect("the job is there until the end of the run"),
            command: self.command.clone(),
            leader: self.pid(),
            // After a signal, the code is the signal's negative number, as in the job's reports. A shell
            // would use 128 plus the number.
            code: status.code().unwrap_or_else(|| -status.signal().unwrap_or(0)),
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            left_over: left,
            took,
        }
    }

    fn signal_group(&self, signal: rustix::process::Signal) {
        if let Some(group) = rustix::process::Pid::from_raw(self.pid().cast_signed()) {
            // The group may already have ended.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal_group(rustix::process::Signal::KILL);
        // A child that cannot be waited for needs no cleanup.
        let _ = self.child.wait();
    }
}

/// The running processes of a run other than its leader: id and command line. They are not in the leader's
/// process group, because each has its own. We recognize them as children of the leader. After the leader has
/// ended, we recognize a process by its stderr, which is a log file in the job's folder. Empty on a system
/// without /proc.
fn processes_of(folder: &Path, leader: u32) -> Vec<(u32, String)> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The format is "pid (name) state parent group ...", and the name may contain any character.
        let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let is_dead = matches!(fields.next(), Some("Z" | "X"));
        let is_child = fields.next() == Some(&leader.to_string());
        let logs_to_folder =
            || fs::read_link(entry.path().join("fd/2")).is_ok_and(|log| log.starts_with(&folder));
        if pid != leader && !is_dead && (is_child || logs_to_folder()) {
            let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            let command = command.replace('\0', " ").trim_end().to_owned();
            // The zygote forks the workers and the planner, and all of them have the same command line. Until
            // the zygote has set its process name, we recognize it by its stderr, which is /dev/null. A
            // worker's stderr is a log file.
            let has_no_log = || {
                command.ends_with(" worker")
                    && fs::read_link(entry.path().join("fd/2"))
                        .is_ok_and(|stderr| stderr == Path::new("/dev/null"))
            };
            found.push(match head.rsplit_once('(') {
                Some((_, "zygote")) => (pid, command + " zygote"),
                _ if has_no_log() => (pid, command + " zygote"),
                Some((_, "planner")) => (pid, command.replace(" worker", " plan-worker")),
                _ => (pid, command),
            });
        }
    }
    found
}

/// Reads everything that a process writes into a pipe, so that the pipe never fills up.
#[derive(Debug)]
struct Reader {
    text: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&text);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { text, thread: Some(thread) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    fn finish(&mut self) -> String {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        self.so_far()
    }
}
