//! The process wall without the WebAssembly sandbox: tests what native code can still do after it has escaped
//! from that sandbox. `tests/examples/attack.rs` is such code.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output};
use tempfile::TempDir;

/// The outcome of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The attack succeeded.
    Done,
    /// A system call was refused with this error number.
    Refused(i32),
    /// The process was killed by this signal.
    Killed(i32),
}

/// The required outcome of an attack behind the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// The seccomp filter kills the process.
    Killed,
    /// The call fails with one of [`REFUSALS`], and the process continues.
    Refused,
    /// The call fails with this error number.
    With(i32),
}

/// The required outcome of the same attack without a wall. If an attack works here, the wall is what stops
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bare {
    /// The attack succeeds.
    Works,
    /// The attack may succeed or fail, but must not be killed. Either its outcome depends on the kernel and
    /// the user, or the test passes it invalid arguments, because with valid ones it would harm a process.
    Otherwise,
    /// The attack is not tried without a wall, because it might harm the machine.
    Untried,
}

const ENOSYS: i32 = 38;
const EBADF: i32 = 9;
const ENOMEM: i32 = 12;
const EFBIG: i32 = 27;
const EMFILE: i32 = 24;
/// EPERM, EACCES and EXDEV. Landlock fails with EXDEV if a file is linked or renamed into a folder that would
/// give it more rights.
const REFUSALS: [i32; 3] = [1, 13, 18];
const SIGABRT: i32 = 6;
const SIGSYS: i32 = 31;

/// The attacks of `tests/examples/attack.rs`, with the outcomes behind a wall and without a wall.
const ATTACKS: &[(&str, Stopped, Bare)] = &[
    ("open outside", Stopped::Refused, Bare::Works),
    ("list outside", Stopped::Refused, Bare::Works),
    ("write outside", Stopped::Refused, Bare::Works),
    ("read a path with dots", Stopped::Refused, Bare::Works),
    ("read a sibling's folder", Stopped::Refused, Bare::Works),
    ("open /etc/passwd", Stopped::Refused, Bare::Works),
    ("open its environment", Stopped::Refused, Bare::Works),
    ("open its memory", Stopped::Refused, Bare::Works),
    ("open the host's environment", Stopped::Refused, Bare::Works),
    ("write an input", Stopped::Refused, Bare::Works),
    ("write a staged input", Stopped::Refused, Bare::Works),
    ("create a file in the input", Stopped::Refused, Bare::Works),
    ("remove an input", Stopped::Refused, Bare::Works),
    ("cut an input", Stopped::Refused, Bare::Works),
    ("empty an input by opening it", Stopped::Refused, Bare::Works),
    ("empty an input by opening it to write", Stopped::Refused, Bare::Works),
    #[cfg(target_arch = "x86_64")]
    ("empty an input by the older call", Stopped::Refused, Bare::Works),
    ("empty an input with a driver's access mode", Stopped::Refused, Bare::Works),
    ("empty a staged input by opening it", Stopped::Refused, Bare::Works),
    ("empty an input by openat2", Stopped::With(ENOSYS), Bare::Works),
    ("move an input to the output", Stopped::Refused, Bare::Works),
    ("link an input into the output", Stopped::Refused, Bare::Works),
    ("link from outside", Stopped::Refused, Bare::Works),
    ("link among the logs", Stopped::Refused, Bare::Works),
    ("link among the results", Stopped::Refused, Bare::Works),
    ("read another's log", Stopped::Refused, Bare::Works),
    ("write another's log", Stopped::Refused, Bare::Works),
    ("cut its log", Stopped::Refused, Bare::Works),
    ("copy the descriptor of its log", Stopped::Refused, Bare::Works),
    ("clear O_APPEND of its log", Stopped::Refused, Bare::Works),
    ("overwrite its log", Stopped::Refused, Bare::Otherwise),
    ("make a device by renaming", Stopped::Refused, Bare::Otherwise),
    ("exchange two names", Stopped::Refused, Bare::Works),
    ("remove another's log", Stopped::Refused, Bare::Works),
    ("create a log", Stopped::Refused, Bare::Works),
    ("link among the profiles", Stopped::Refused, Bare::Works),
    ("make a fifo", Stopped::Refused, Bare::Works),
    ("chmod outside", Stopped::Refused, Bare::Works),
    ("chown outside", Stopped::Refused, Bare::Works),
    ("utime outside", Stopped::Refused, Bare::Works),
    ("xattr outside", Stopped::Refused, Bare::Otherwise),
    ("name_to_handle_at", Stopped::Killed, Bare::Otherwise),
    ("open_by_handle_at", Stopped::Killed, Bare::Otherwise),
    ("inherited descriptor", Stopped::With(EBADF), Bare::Works),
    ("exec", Stopped::Killed, Bare::Works),
    ("execveat", Stopped::Killed, Bare::Otherwise),
    ("memfd_create", Stopped::Killed, Bare::Works),
    ("clone a process", Stopped::Killed, Bare::Works),
    ("clone into a user namespace", Stopped::Killed, Bare::Otherwise),
    ("clone3", Stopped::With(ENOSYS), Bare::Works),
    ("unshare", Stopped::Killed, Bare::Otherwise),
    ("setns", Stopped::Killed, Bare::Otherwise),
    ("ptrace", Stopped::Killed, Bare::Works),
    ("ptrace a sibling", Stopped::Killed, Bare::Otherwise),
    ("read a sibling's memory", Stopped::Killed, Bare::Otherwise),
    ("signal the host", Stopped::Killed, Bare::Works),
    ("signal a sibling", Stopped::Killed, Bare::Works),
    ("signal all", Stopped::Killed, Bare::Works),
    ("tgkill the host", Stopped::Refused, Bare::Works),
    ("tkill the host", Stopped::Killed, Bare::Works),
    ("pidfd_open the host", Stopped::Refused, Bare::Works),
    ("pidfd_getfd", Stopped::Killed, Bare::Otherwise),
    ("limit the host", Stopped::Refused, Bare::Works),
    ("schedule the host", Stopped::Refused, Bare::Otherwise),
    ("tcp socket", Stopped::Killed, Bare::Works),
    ("unix socket", Stopped::Killed, Bare::Works),
    ("socketpair", Stopped::Killed, Bare::Works),
    ("datagram socket", Stopped::Killed, Bare::Works),
    ("listen without a name", Stopped::Killed, Bare::Works),
    ("listen at a file", Stopped::Killed, Bare::Works),
    ("accept", Stopped::Killed, Bare::Otherwise),
    ("connect", Stopped::Killed, Bare::Otherwise),
    ("send to an address", Stopped::Refused, Bare::Otherwise),
    ("pass a descriptor", Stopped::Killed, Bare::Otherwise),
    ("mount", Stopped::Killed, Bare::Otherwise),
    ("umount", Stopped::Killed, Bare::Otherwise),
    ("chroot", Stopped::Killed, Bare::Otherwise),
    ("fsopen", Stopped::Killed, Bare::Otherwise),
    ("init_module", Stopped::Killed, Bare::Otherwise),
    ("finit_module", Stopped::Killed, Bare::Otherwise),
    ("delete_module", Stopped::Killed, Bare::Otherwise),
    ("kexec_load", Stopped::Killed, Bare::Untried),
    ("reboot", Stopped::Killed, Bare::Untried),
    ("bpf", Stopped::Killed, Bare::Otherwise),
    ("io_uring", Stopped::Killed, Bare::Otherwise),
    ("io_uring_enter", Stopped::Killed, Bare::Otherwise),
    ("keyctl", Stopped::Killed, Bare::Otherwise),
    ("add_key", Stopped::Killed, Bare::Otherwise),
    ("userfaultfd", Stopped::Killed, Bare::Otherwise),
    ("perf_event_open", Stopped::Killed, Bare::Otherwise),
    ("set the clock", Stopped::Killed, Bare::Otherwise),
    ("read the kernel's log", Stopped::Killed, Bare::Otherwise),
    ("personality", Stopped::Killed, Bare::Works),
    ("setuid", Stopped::Killed, Bare::Works),
    ("capset", Stopped::Killed, Bare::Otherwise),
    ("raise a limit", Stopped::Refused, Bare::Works),
    ("outlive the host", Stopped::Refused, Bare::Works),
    ("install another filter", Stopped::Refused, Bare::Otherwise),
    ("leave its process group", Stopped::Refused, Bare::Works),
    ("change the working folder", Stopped::Refused, Bare::Works),
    ("executable memory", Stopped::Refused, Bare::Works),
    ("map code", Stopped::Refused, Bare::Works),
    ("type into the terminal", Stopped::Refused, Bare::Untried),
    ("own the signals of a file", Stopped::Refused, Bare::Works),
    ("too much memory", Stopped::With(ENOMEM), Bare::Works),
    ("too large a file", Stopped::With(EFBIG), Bare::Works),
    ("too many files", Stopped::With(EMFILE), Bare::Works),
];

/// The calls of `tests/examples/attack.rs` that must succeed behind the wall, because a worker needs them.
const ALLOWED: &[&str] = &[
    "read an input",
    "list an input",
    "stage an input",
    "move a copy to the stage",
    "write a result",
    "write a log",
    "write a profile",
    "start a thread",
    "sleep and ask the time",
    "abort",
];

/// The folder, the process and the open file that an attack uses.
struct Scene {
    folder: TempDir,
    sibling: Child,
    inherited: File,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["input", "stage", "output", "logs", "profile", "outside"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["input/file", "outside/file", "logs/other"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        fs::hard_link(folder.path().join("input/file"), folder.path().join("stage/linked"))
            .unwrap();
        let outside = folder.path().join("outside/file");
        let link = "input/link-out";
        std::os::unix::fs::symlink(outside, folder.path().join(link)).unwrap();
        let sibling = Command::new("sleep").arg("1000").spawn().unwrap();
        let inherited = File::open("/etc/passwd").unwrap();
        let without_cloexec = rustix::io::FdFlags::empty();
        rustix::io::fcntl_setfd(&inherited, without_cloexec).unwrap();
        Self { folder, sibling, inherited }
    }

    /// Tries an attack in a new scene. `None` if this machine cannot build the wall.
    fn attack(name: &str, mode: &str) -> Option<Outcome> {
        let scene = Self::new();
        let output = Command::new(program())
            .args([name, mode])
            .arg(scene.folder.path())
            .arg(std::process::id().to_string())
            .arg(scene.sibling.id().to_string())
            .arg(scene.inherited.as_raw_fd().to_string())
            .env("A_SECRET", "of the host")
            .envs((mode == "weak").then_some(("SANDMILL_MISSING_LAYER", "seccomp")))
            .output()
            .unwrap();
        outcome_of(name, &output)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.sibling.kill();
        let _ = self.sibling.wait();
    }
}

/// The compiled `tests/examples/attack.rs`. Cargo puts it into `examples`, next to the folder of this test.
fn program() -> std::path::PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples/attack");
    assert!(program.exists(), "{} is not there; `make test` builds it", program.display());
    program
}

fn outcome_of(name: &str, output: &Output) -> Option<Outcome> {
    if let Some(signal) = output.status.signal() {
        return Some(Outcome::Killed(signal));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    if let Some(reason) = printed.strip_prefix("nowall ") {
        eprintln!("skipped, because this machine cannot build the wall: {reason}");
        return None;
    }
    if let Some(number) = printed.strip_prefix("refused ") {
        return Some(Outcome::Refused(number.trim().parse().unwrap()));
    }
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(Outcome::Done)
}

#[test]
fn the_wall_stops_every_attack() {
    let mut wrong = Vec::new();
    for (name, stopped, _) in ATTACKS {
        let Some(outcome) = Scene::attack(name, "wall") else { return };
        let is_right = match (stopped, outcome) {
            (Stopped::Killed, Outcome::Killed(signal)) => signal == SIGSYS,
            (Stopped::Refused, Outcome::Refused(error)) => REFUSALS.contains(&error),
            (Stopped::With(expected), Outcome::Refused(error)) => error == *expected,
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{name}: {stopped:?} was expected, found {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Without this test, `the_wall_stops_every_attack` would prove nothing.
#[test]
fn without_the_wall_the_attacks_work() {
    let mut wrong = Vec::new();
    for (name, _, bare) in ATTACKS {
        if *bare == Bare::Untried {
            continue;
        }
        let outcome = Scene::attack(name, "bare").unwrap();
        let is_right = match bare {
            Bare::Works => outcome == Outcome::Done,
            _ => !matches!(outcome, Outcome::Killed(_)),
        };
        if !is_right {
            wrong.push(format!("{name}: {bare:?} was expected, found {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// If the seccomp filter is missing, Landlock must still prevent an attacker from emptying inputs.
#[test]
fn without_the_filter_no_input_is_emptied() {
    for (name, ..) in ATTACKS.iter().filter(|(name, ..)| name.starts_with("empty")) {
        let Some(outcome) = Scene::attack(name, "weak") else { return };
        assert!(
            matches!(outcome, Outcome::Refused(error) if REFUSALS.contains(&error)),
            "{name}: {outcome:?}"
        );
    }
}

#[test]
fn calls_that_a_worker_needs_are_allowed() {
    for name in ALLOWED {
        let Some(outcome) = Scene::attack(name, "wall") else { return };
        let expected = if *name == "abort" { Outcome::Killed(SIGABRT) } else { Outcome::Done };
        assert_eq!(outcome, expected, "{name}");
    }
}

/// The attacks that must succeed in a worker with a GPU, because the GPU's driver makes the same calls.
const ALLOWED_WITH_A_GPU: &[&str] = &[
    "open its environment",
    "open its memory",
    "memfd_create",
    "listen without a name",
    "executable memory",
    "map code",
    "too much memory",
];

/// The attacks that must fail without killing a worker with a GPU: the driver makes these calls, but does not
/// need them.
const REFUSED_WITH_A_GPU: &[&str] = &[
    "clone a process",
    "clone into a user namespace",
    "unix socket",
    "tcp socket",
    "socketpair",
    "datagram socket",
    "listen at a file",
    "accept",
    "connect",
];

#[test]
fn a_gpu_opens_the_wall_only_for_its_driver() {
    let mut wrong = Vec::new();
    for (name, stopped, _) in ATTACKS {
        let Some(outcome) = Scene::attack(name, "gpu") else { return };
        let is_right = match (stopped, outcome) {
            _ if ALLOWED_WITH_A_GPU.contains(name) => outcome == Outcome::Done,
            _ if REFUSED_WITH_A_GPU.contains(name) => matches!(outcome, Outcome::Refused(_)),
            (Stopped::Killed, Outcome::Killed(signal)) => signal == SIGSYS,
            (Stopped::Refused | Stopped::With(_), Outcome::Refused(_)) => true,
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{name}: {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_attack_is_in_a_table() {
    let output = Command::new(program()).arg("--list").output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let mut listed: BTreeSet<&str> = listed.lines().collect();
    for name in ATTACKS.iter().map(|(name, ..)| name).chain(ALLOWED) {
        assert!(listed.remove(name), "the program does not know {name:?}");
    }
    // These two attacks are not on every machine: only some processor architectures have the calls.
    listed.retain(|name| !["fork", "vfork"].contains(name));
    assert!(listed.is_empty(), "{listed:?}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_older_calls_for_new_processes_are_stopped_too() {
    for name in ["fork", "vfork"] {
        let Some(outcome) = Scene::attack(name, "wall") else { return };
        assert_eq!(outcome, Outcome::Killed(SIGSYS), "{name}");
    }
    assert_eq!(Scene::attack("fork", "bare"), Some(Outcome::Done));
}
