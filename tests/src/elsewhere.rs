//! Another machine, which has a job's store and nothing else of the job.

use crate::{Server, redact, sandmill};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a test waits for what another machine sees.
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine with a home, a cache and a working folder of its own.
#[derive(Debug)]
pub struct Elsewhere {
    home: TempDir,
    /// The job store, as this machine names it.
    store: PathBuf,
    /// Variables of its commands.
    variables: Vec<(String, String)>,
}

/// A command that has ended there.
#[derive(Debug)]
pub struct SeenElsewhere {
    /// The exit code.
    pub code: Option<i32>,
    /// The text on stdout.
    pub stdout: String,
    /// The text on stderr.
    pub stderr: String,
}

impl Elsewhere {
    /// A machine that has this job store.
    pub fn new(store: &Path) -> Self {
        Self { home: TempDir::new().unwrap(), store: store.to_owned(), variables: Vec::new() }
    }

    /// A machine that reaches the job store at this address of a server.
    pub fn with_address(address: &str, server: &Server) -> Self {
        let variables = Server::variables(server.port);
        Self { variables, ..Self::new(Path::new(address)) }
    }

    /// The folder in which commands run.
    pub fn dir(&self) -> &Path {
        self.home.path()
    }

    /// A command, to be started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(sandmill());
        command.args(arguments).current_dir(self.dir()).stdin(Stdio::null());
        command.env("HOME", self.dir()).env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME");
        command.env_remove("SANDMILL_CACHE_DIR").envs(self.variables.iter().cloned());
        command
    }

    /// Runs a command with the option `--store`.
    pub fn run(&self, arguments: &[&str]) -> SeenElsewhere {
        let mut command = self.command(arguments);
        let output = command.arg("--store").arg(&self.store).output().unwrap();
        SeenElsewhere {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Repeats a command until this holds of its result, which it returns.
    #[track_caller]
    pub fn until(
        &self,
        arguments: &[&str],
        holds: impl Fn(&SeenElsewhere) -> bool,
    ) -> SeenElsewhere {
        let begun = Instant::now();
        loop {
            let seen = self.run(arguments);
            if holds(&seen) {
                return seen;
            }
            assert!(begun.elapsed() < PATIENCE, "{arguments:?}: {seen:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// A text for snapshots: as [`redact`](crate::redact()), also without the machine's name, the process and the age of things. `dir`
    /// is the folder of the job.
    pub fn redacted(&self, text: &str, dir: &Path) -> String {
        let text = redact(&redact(text, dir), self.dir());
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let text = text.replace(host.trim(), "[HOST]");
        let process = Regex::new(r"process \d+").unwrap();
        let text = process.replace_all(&text, "process [PID]");
        Regex::new(r"\d+ (s|min) ago").unwrap().replace_all(&text, "[AGE] ago").into_owned()
    }
}
