//! Tests `scripts/setup.sh` on machines that lack programs. A copy of the script runs with fake commands on
//! the `PATH`.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Commands that exist on each machine. Other commands exist only if a test fakes them.
const REAL_COMMANDS: [&str; 16] = [
    "bash", "cut", "dirname", "env", "find", "grep", "head", "mkdir", "mv", "printf", "rm", "sed",
    "sort", "tail", "timeout", "touch",
];

/// A simulated machine. It has the commands that all tests need, but its Rust lacks the WebAssembly
/// target.
struct NewMachine(TempDir);

impl NewMachine {
    fn new() -> Self {
        let machine = Self(TempDir::new().unwrap());
        let root = machine.0.path();
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("scripts")).unwrap();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for file in ["scripts/setup.sh", "scripts/lib.sh", "Cargo.toml"] {
            fs::copy(repository.join(file), root.join(file)).unwrap();
        }
        for command in REAL_COMMANDS {
            let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .map(|folder| folder.join(command))
                .find(|path| path.exists());
            symlink(
                found.unwrap_or_else(|| panic!("no {command} in PATH")),
                root.join("bin").join(command),
            )
            .unwrap();
        }
        machine
            .fake("rustc", "[ $1 = --version ] && echo 'rustc 1.99.0 (x)' || echo /nowhere")
            .fake("cargo", "")
            .fake("cc", "")
            .fake("id", "echo 0")
    }

    /// Adds a command that logs its calls and executes `body`.
    fn fake(self, command: &str, body: &str) -> Self {
        let path = self.0.path().join("bin").join(command);
        let log = self.0.path().join("calls");
        fs::write(&path, format!("#!/bin/sh\necho \"{command} $*\" >>{}\n{body}\n", log.display()))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Runs the script. Returns its messages and its exit status.
    fn setup(&self) -> String {
        let output = Command::new("bash")
            .arg(self.0.path().join("scripts/setup.sh"))
            .env("PATH", self.0.path().join("bin"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        format!("{messages}{}", output.status)
    }

    /// The number of calls of fake commands with exactly this command line.
    fn calls(&self, call: &str) -> usize {
        let calls = fs::read_to_string(self.0.path().join("calls")).unwrap();
        calls.lines().filter(|line| *line == call).count()
    }
}

/// Adds a rustup that can add the target.
fn with_working_rustup(machine: NewMachine) -> NewMachine {
    let libraries = machine.0.path().join("libraries");
    let rustc =
        format!("[ $1 = --version ] && echo 'rustc 1.99.0 (x)' || echo {}", libraries.display());
    let add = format!("mkdir -p {0}; touch {0}/libstd-1.rlib", libraries.display());
    machine.fake("rustc", &rustc).fake("rustup", &add)
}

/// The body of a fake rustup that cannot download.
const RUSTUP_WITHOUT_NETWORK: &str =
    "echo 'info: downloading'; echo 'error: could not download'; exit 1";

#[test]
fn rustup_adds_the_target_once() {
    let machine = with_working_rustup(NewMachine::new());
    assert_snapshot!(machine.setup(), @r"
    setup: adding Rust's wasm32-wasip2 target (rustup target add wasm32-wasip2)
    exit status: 0
    ");
    assert_snapshot!(machine.setup(), @"exit status: 0");
    assert_eq!(machine.calls("rustup target add wasm32-wasip2"), 1);
}

#[test]
fn distribution_packages_replace_a_failing_rustup() {
    let installed = "[ -e $0.done ] && echo installed || exit 1";
    let machine = NewMachine::new()
        .fake("rustup", RUSTUP_WITHOUT_NETWORK)
        .fake("dpkg-query", installed)
        .fake("apt-cache", "echo '  Candidate: (none)'")
        .fake("apt-get", "case $* in *install*) : >${0%/*}/dpkg-query.done;; esac");
    assert_snapshot!(machine.setup(), @r"
    setup: adding Rust's wasm32-wasip2 target (rustup target add wasm32-wasip2)
    setup: rustup could not add wasm32-wasip2 (error: could not download); trying the packages of the distribution
    setup: installing the packages rustc-web rust-web-src wasi-libc lld (apt-get)
    setup: fetching the lists of packages (apt-get update)
    exit status: 0
    ");
    assert_snapshot!(machine.setup(), @"exit status: 0");
    assert_eq!(machine.calls("rustup target add wasm32-wasip2"), 1);
}

#[test]
fn a_failed_rustup_is_not_retried() {
    let machine = NewMachine::new()
        .fake("rustup", RUSTUP_WITHOUT_NETWORK)
        .fake("dpkg-query", "exit 1")
        .fake("apt-cache", "echo '  Candidate: 1.0'")
        .fake("apt-get", "echo 'E: Unable to locate package rustc-web' >&2; exit 100");
    assert_snapshot!(machine.setup(), @r"
    setup: adding Rust's wasm32-wasip2 target (rustup target add wasm32-wasip2)
    setup: rustup could not add wasm32-wasip2 (error: could not download); trying the packages of the distribution
    setup: installing the packages rustc-web rust-web-src wasi-libc lld (apt-get)
    setup: error: no compiler for WebAssembly: rustup could not add wasm32-wasip2 (error: could not download), and apt-get could not install them (E: Unable to locate package rustc-web; target/setup/apt.log). Install one by hand: rustup target add wasm32-wasip2, or the packages rustc-web rust-web-src wasi-libc lld
    exit status: 1
    ");
    assert!(machine.setup().contains("could not add wasm32-wasip2 earlier today"));
    assert_eq!(machine.calls("rustup target add wasm32-wasip2"), 1);
}

#[test]
fn without_an_installer_there_is_one_clear_line() {
    assert_snapshot!(NewMachine::new().setup(), @r"
    setup: rustup is not installed; trying the packages of the distribution
    setup: error: no compiler for WebAssembly: rustup is not installed, and this system has no apt-get. Install one by hand: rustup target add wasm32-wasip2, or the packages rustc-web rust-web-src wasi-libc lld
    exit status: 1
    ");
}

#[test]
fn an_old_rust_is_refused() {
    let machine = NewMachine::new().fake("rustc", "echo 'rustc 1.70.0 (x)'");
    let messages = machine.setup();
    assert!(
        messages.contains(
            "or newer is needed, and 1.70.0 is installed; update it with: rustup update stable"
        ),
        "{messages}"
    );
}
