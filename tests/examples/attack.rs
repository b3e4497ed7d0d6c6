//! Acts as native code that has escaped from the WebAssembly sandbox. The program builds the
//! process wall of a worker, then tries one attack. `tests/tests/walls/wall.rs` runs this program.
//!
//! `attack --list` prints the names of all attacks. `attack NAME MODE FOLDER HOST SIBLING DESCRIPTOR` tries
//! one attack. MODE is `wall`, `gpu` (the wall of a worker with a GPU), `weak` (a best-effort wall) or `bare`
//! (no wall). HOST and SIBLING are ids of processes of the same user. DESCRIPTOR is an inherited file
//! descriptor.
//!
//! The program prints `done` if the attack succeeded, `refused N` with the error number if a system call
//! failed, or `nowall REASON` if this machine cannot build the wall. The wall may also kill the process.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "system calls take machine words, so signed and wide numbers are cast"
)]
#![expect(clippy::unwrap_used, reason = "an attack that cannot be prepared fails its test")]

use libc::{c_int, c_long};
use sandmill::model::{GpuLease, OsSandbox};
use sandmill::wall::{
    self, FolderRights, GrantedPath, ResourceLimits, Wall, WallRole, gpu_folders,
};
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

/// The attacker's limits, in bytes and in files.
const MEMORY: u64 = 1 << 30;
const LARGEST_FILE: u64 = 1 << 20;
const OPEN_FILES: u64 = 128;

/// What an attack may use: a folder, two processes, an inherited descriptor and a log.
struct AttackScene {
    folder: PathBuf,
    host: c_int,
    sibling: c_int,
    descriptor: c_int,
    /// Opened before the wall was built, as a worker's logs are.
    log: File,
}

/// The error number with which the kernel refused the attack; `None` if the attack succeeded.
type Refusal = Option<c_int>;
/// The attack's name, and the function that tries it.
type Attack = (&'static str, fn(&AttackScene) -> Refusal);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments[0] == "--list" {
        attacks().iter().for_each(|(name, _)| println!("{name}"));
        return;
    }
    let number = |index: usize| arguments[index].parse().unwrap();
    let folder = PathBuf::from(&arguments[2]);
    let wall_kind = match &*arguments[1] {
        "wall" => Some((WallRole::Worker, OsSandbox::Required)),
        "weak" => Some((WallRole::Worker, OsSandbox::BestEffort)),
        "gpu" => Some((WallRole::GpuWorker, OsSandbox::Required)),
        _ => None,
    };
    if let Some((_, mode)) = wall_kind
        && let Err(reason) = enter(mode)
    {
        println!("nowall {reason}");
        return;
    }
    let log = File::options().create(true).append(true).open(folder.join("logs/mine"));
    // The number must differ from that of the inherited descriptor.
    let log = rustix::io::fcntl_dupfd_cloexec(log.unwrap(), 100).unwrap().into();
    let descriptor = number(5);
    let scene = AttackScene { folder, host: number(3), sibling: number(4), descriptor, log };
    let attacks = attacks();
    let (_, attack) = attacks.iter().find(|(name, _)| *name == arguments[0]).unwrap();
    if let Some((occupant, mode)) = wall_kind
        && let Err(reason) = build(&scene, occupant, mode)
    {
        println!("nowall {reason}");
        return;
    }
    match attack(&scene) {
        None => println!("done"),
        Some(errno) => println!("refused {errno}"),
    }
}

/// Enters the sandbox as a worker does, before it opens any file.
fn enter(mode: OsSandbox) -> Result<(), String> {
    wall::check(mode).map_err(|error| error.to_string())?;
    wall::enter().map_err(|error| error.to_string())
}

/// Builds the wall as a worker does.
fn build(scene: &AttackScene, occupant: WallRole, mode: OsSandbox) -> Result<(), String> {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let folder = |name: &str, rights| GrantedPath::new(scene.folder.join(name), rights);
    let mut folders = vec![
        folder("input", FolderRights::ReadAndLink),
        folder("stage", FolderRights::Stage),
        folder("output", FolderRights::Write),
        folder("profile", FolderRights::Files),
    ];
    if occupant == WallRole::GpuWorker {
        folders.extend(gpu_folders(&GpuLease::plain(0), &[]));
    }
    let wall = Wall {
        role: occupant,
        mode,
        folders,
        bounds: ResourceLimits {
            memory: Some(MEMORY),
            cpu_seconds: None,
            largest_file: LARGEST_FILE,
            open_files: OPEN_FILES,
        },
    };
    let state = wall.build_around_logs(&[scene.log()]).map_err(|error| error.to_string())?;
    assert!(mode != OsSandbox::Required || state.missing.is_empty(), "{:?}", state.missing);
    Ok(())
}

/// Makes a system call directly, without the checks of a library. Returns its result, or the error number.
fn call(number: c_long, arguments: &[usize]) -> Result<usize, c_int> {
    let mut padded = [0; 6];
    padded[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = padded;
    // SAFETY: pointers among the arguments are null, or point to memory that is never freed. The call may do
    // anything to this process, which ends soon after.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    usize::try_from(answer).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Makes a system call as an attack.
fn attempt(number: c_long, arguments: &[usize]) -> Refusal {
    call(number, arguments).err()
}

/// Makes a system call that may create a second process. The second process exits immediately.
fn fork_by(number: c_long, arguments: &[usize]) -> Refusal {
    match call(number, arguments) {
        Ok(0) => std::process::exit(0),
        result => result.err(),
    }
}

/// The address of a C string for the kernel, never freed.
fn text(path: impl AsRef<Path>) -> usize {
    CString::new(path.as_ref().to_str().unwrap()).unwrap().into_raw() as usize
}

/// The address of zeroed memory that the kernel may read and write, never freed.
fn buffer() -> usize {
    Box::leak(Box::new([0_u64; 128])).as_mut_ptr() as usize
}

/// A signed number as an argument of a system call.
const fn signed(value: c_int) -> usize {
    value as isize as usize
}

/// Stands for the working folder, from which the kernel resolves relative paths.
const CWD: usize = signed(libc::AT_FDCWD);
const NO_FLAGS: usize = 0;
const READ: usize = libc::O_RDONLY as usize;
const CREATE: usize = (libc::O_CREAT | libc::O_WRONLY) as usize;

fn open(path: impl AsRef<Path>, flags: usize) -> Refusal {
    attempt(libc::SYS_openat, &[CWD, text(path), flags, 0o600])
}

impl AttackScene {
    /// Opens a file of the folder with this access mode, and tries to truncate it.
    fn open_truncating(&self, path: &str, access: c_int) -> Refusal {
        open(self.folder.join(path), (access | libc::O_TRUNC) as usize)
    }

    /// The address of a path in the folder, as a C string.
    fn path(&self, path: &str) -> usize {
        text(self.folder.join(path))
    }

    /// The file descriptor of the log.
    fn log(&self) -> RawFd {
        self.log.as_raw_fd()
    }
}

fn attacks() -> Vec<Attack> {
    [files(), processes(), network(), machine(), own_process(), allowed()].concat()
}

fn files() -> Vec<Attack> {
    vec![
        ("open outside", |s| open(s.folder.join("outside/file"), READ)),
        ("list outside", |s| open(s.folder.join("outside"), READ | libc::O_DIRECTORY as usize)),
        ("write outside", |s| open(s.folder.join("outside/new"), CREATE)),
        ("read a path with dots", |s| open(s.folder.join("input/../outside/file"), READ)),
        ("read a sibling's folder", |s| open(s.folder.join("input/link-out"), READ)),
        ("open /etc/passwd", |_| open("/etc/passwd", READ)),
        ("open its environment", |_| open("/proc/self/environ", READ)),
        ("open its memory", |_| open("/proc/self/mem", READ)),
        ("open the host's environment", |s| open(format!("/proc/{}/environ", s.host), READ)),
        ("write an input", |s| open(s.folder.join("input/file"), libc::O_WRONLY as usize)),
        ("write a staged input", |s| open(s.folder.join("stage/linked"), libc::O_WRONLY as usize)),
        ("create a file in the input", |s| open(s.folder.join("input/new"), CREATE)),
        ("remove an input", |s| attempt(libc::SYS_unlinkat, &[CWD, s.path("input/file"), 0])),
        ("cut an input", |s| attempt(libc::SYS_truncate, &[s.path("input/file"), 0])),
        ("empty an input by opening it", |s| s.open_truncating("input/file", libc::O_RDONLY)),
        ("empty an input by opening it to write", |s| {
            s.open_truncating("input/file", libc::O_WRONLY)
        }),
        ("empty an input with a driver's access mode", |s| {
            s.open_truncating("input/file", libc::O_ACCMODE)
        }),
        ("empty a staged input by opening it", |s| {
            s.open_truncating("stage/linked", libc::O_RDONLY)
        }),
        #[cfg(target_arch = "x86_64")]
        ("empty an input by the older call", |s| {
            attempt(libc::SYS_open, &[s.path("input/file"), READ | libc::O_TRUNC as usize, 0])
        }),
        ("empty an input by openat2", |s| {
            // The kernel's struct open_how: flags, mode, resolve.
            let open_how: &'static mut [u64; 3] = Box::leak(Box::new([0; 3]));
            open_how[0] = libc::O_TRUNC as u64;
            let open_how = open_how.as_ptr() as usize;
            attempt(
                libc::SYS_openat2,
                &[CWD, s.path("input/file"), open_how, size_of::<[u64; 3]>()],
            )
        }),
        ("move an input to the output", |s| {
            attempt(
                libc::SYS_renameat2,
                &[CWD, s.path("input/file"), CWD, s.path("output/taken"), NO_FLAGS],
            )
        }),
        ("link an input into the output", |s| {
            attempt(
                libc::SYS_linkat,
                &[CWD, s.path("input/file"), CWD, s.path("output/linked"), NO_FLAGS],
            )
        }),
        ("link from outside", |s| {
            attempt(
                libc::SYS_linkat,
                &[CWD, s.path("outside/file"), CWD, s.path("stage/taken"), NO_FLAGS],
            )
        }),
        ("link among the logs", |s| {
            attempt(libc::SYS_symlinkat, &[text("/etc/passwd"), CWD, s.path("logs/link")])
        }),
        ("link among the results", |s| {
            attempt(libc::SYS_symlinkat, &[text("/etc/passwd"), CWD, s.path("output/link")])
        }),
        ("read another's log", |s| open(s.folder.join("logs/other"), READ)),
        ("write another's log", |s| open(s.folder.join("logs/other"), libc::O_WRONLY as usize)),
        ("cut its log", |s| attempt(libc::SYS_ftruncate, &[signed(s.log()), 0])),
        ("copy the descriptor of its log", |s| {
            attempt(libc::SYS_fcntl, &[signed(s.log()), signed(libc::F_DUPFD_CLOEXEC), 0])
        }),
        ("clear O_APPEND of its log", |s| {
            attempt(libc::SYS_fcntl, &[signed(s.log()), signed(libc::F_SETFL), 0])
        }),
        ("overwrite its log", |s| {
            const RWF_NOAPPEND: usize = 0x20;
            let iovec = Box::leak(Box::new([text("a"), 1])).as_ptr() as usize;
            attempt(libc::SYS_pwritev2, &[signed(s.log()), iovec, 1, 0, 0, RWF_NOAPPEND])
        }),
        ("make a device by renaming", |s| {
            let from = s.folder.join("output/device");
            let to = s.folder.join("output/other");
            std::fs::write(&from, "a").unwrap();
            let whiteout = libc::RENAME_WHITEOUT as usize;
            attempt(libc::SYS_renameat2, &[CWD, text(from), CWD, text(to), whiteout])
        }),
        ("exchange two names", |s| {
            let names = ["output/one", "output/two"].map(|name| s.folder.join(name));
            names.iter().for_each(|name| std::fs::write(name, "a").unwrap());
            let [one, two] = names.map(text);
            attempt(libc::SYS_renameat2, &[CWD, one, CWD, two, libc::RENAME_EXCHANGE as usize])
        }),
        ("remove another's log", |s| attempt(libc::SYS_unlinkat, &[CWD, s.path("logs/other"), 0])),
        ("create a log", |s| open(s.folder.join("logs/new"), CREATE)),
        ("link among the profiles", |s| {
            attempt(libc::SYS_symlinkat, &[text("/etc/passwd"), CWD, s.path("profile/link")])
        }),
        ("make a fifo", |s| {
            let mode = (libc::S_IFIFO | 0o600) as usize;
            attempt(libc::SYS_mknodat, &[CWD, s.path("output/fifo"), mode, 0])
        }),
        ("chmod outside", |s| attempt(libc::SYS_fchmodat, &[CWD, s.path("outside/file"), 0o644])),
        ("chown outside", |s| {
            let unchanged = signed(-1);
            attempt(libc::SYS_fchownat, &[CWD, s.path("outside/file"), unchanged, unchanged, 0])
        }),
        ("utime outside", |s| attempt(libc::SYS_utimensat, &[CWD, s.path("outside/file"), 0, 0])),
        ("xattr outside", |s| {
            let name = text("user.a");
            let value = text("b");
            attempt(libc::SYS_setxattr, &[s.path("outside/file"), name, value, 1, 0])
        }),
        ("name_to_handle_at", |s| {
            let handle = buffer();
            attempt(libc::SYS_name_to_handle_at, &[CWD, s.path("input/file"), handle, buffer(), 0])
        }),
        ("open_by_handle_at", |_| attempt(libc::SYS_open_by_handle_at, &[CWD, buffer(), READ])),
        ("inherited descriptor", |s| attempt(libc::SYS_fstat, &[signed(s.descriptor), buffer()])),
    ]
}

fn processes() -> Vec<Attack> {
    let mut attacks: Vec<Attack> = vec![
        ("exec", |_| {
            let path = text("/bin/true");
            let argv: &'static [usize; 2] = Box::leak(Box::new([path, 0]));
            attempt(libc::SYS_execve, &[path, argv.as_ptr() as usize, 0])
        }),
        ("execveat", |_| {
            let flags = libc::AT_EMPTY_PATH as usize;
            attempt(libc::SYS_execveat, &[signed(-1), text(""), 0, 0, flags])
        }),
        ("memfd_create", |_| attempt(libc::SYS_memfd_create, &[text("code"), 0])),
        ("clone a process", |_| fork_by(libc::SYS_clone, &[libc::SIGCHLD as usize])),
        ("clone into a user namespace", |_| {
            let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
            fork_by(libc::SYS_clone, &[flags as usize])
        }),
        ("clone3", |_| {
            // The kernel's struct clone_args in its first version, whose field 4 is the exit signal.
            const CLONE_ARGS_BYTES: usize = 64;
            let clone_args: &'static mut [u64; 16] = Box::leak(Box::new([0; 16]));
            clone_args[4] = libc::SIGCHLD as u64;
            fork_by(libc::SYS_clone3, &[clone_args.as_ptr() as usize, CLONE_ARGS_BYTES])
        }),
        ("unshare", |_| attempt(libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize])),
        ("setns", |_| attempt(libc::SYS_setns, &[signed(-1), 0])),
        ("ptrace", |_| attempt(libc::SYS_ptrace, &[libc::PTRACE_TRACEME as usize])),
        ("ptrace a sibling", |s| {
            let request = libc::PTRACE_SEIZE as usize;
            attempt(libc::SYS_ptrace, &[request, s.sibling as usize, 0, 0])
        }),
        ("read a sibling's memory", |s| {
            attempt(libc::SYS_process_vm_readv, &[s.sibling as usize, 0, 0, 0, 0, 0])
        }),
        ("signal the host", |s| attempt(libc::SYS_kill, &[s.host as usize, 0])),
        ("signal a sibling", |s| attempt(libc::SYS_kill, &[s.sibling as usize, 0])),
        ("signal all", |_| attempt(libc::SYS_kill, &[signed(-1), 0])),
        ("tgkill the host", |s| attempt(libc::SYS_tgkill, &[s.host as usize, s.host as usize, 0])),
        ("tkill the host", |s| attempt(libc::SYS_tkill, &[s.host as usize, 0])),
        ("pidfd_open the host", |s| attempt(libc::SYS_pidfd_open, &[s.host as usize, 0])),
        ("pidfd_getfd", |_| attempt(libc::SYS_pidfd_getfd, &[signed(-1), 0, 0])),
        ("limit the host", |s| {
            let old = buffer();
            let resource = libc::RLIMIT_NOFILE as usize;
            attempt(libc::SYS_prlimit64, &[s.host as usize, resource, 0, old])
                .or_else(|| attempt(libc::SYS_prlimit64, &[s.host as usize, resource, old, 0]))
        }),
        ("schedule the host", |s| attempt(libc::SYS_setpriority, &[0, s.host as usize, 0])),
    ];
    #[cfg(target_arch = "x86_64")]
    attacks.push(("fork", |_| fork_by(libc::SYS_fork, &[])));
    #[cfg(target_arch = "x86_64")]
    attacks.push(("vfork", |_| fork_by(libc::SYS_vfork, &[])));
    attacks.shrink_to_fit();
    attacks
}

fn network() -> Vec<Attack> {
    vec![
        ("tcp socket", |_| {
            attempt(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0])
        }),
        ("unix socket", |_| {
            attempt(libc::SYS_socket, &[libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0])
        }),
        ("socketpair", |_| {
            let kind = libc::SOCK_STREAM as usize;
            attempt(libc::SYS_socketpair, &[libc::AF_UNIX as usize, kind, 0, buffer()])
        }),
        ("datagram socket", |_| {
            attempt(libc::SYS_socket, &[libc::AF_UNIX as usize, libc::SOCK_DGRAM as usize, 0])
        }),
        ("listen without a name", |_| listen(b"\0sandmill-attack-").err()),
        ("listen at a file", |s| {
            listen(s.folder.join("output/socket").as_os_str().as_encoded_bytes()).err()
        }),
        ("accept", |_| {
            let listening = listen(b"\0sandmill-accepts-");
            // Without a wall, a blocking call would wait forever, because no client connects.
            listening.map_or_else(Some, |socket| {
                let nonblocking = libc::SOCK_NONBLOCK as usize;
                let _ = call(libc::SYS_fcntl, &[socket, libc::F_SETFL as usize, nonblocking]);
                attempt(libc::SYS_accept4, &[socket, 0, 0, 0])
            })
        }),
        ("connect", |_| attempt(libc::SYS_connect, &[signed(-1), buffer(), 16])),
        ("send to an address", |_| {
            attempt(libc::SYS_sendto, &[signed(-1), buffer(), 1, 0, buffer(), 16])
        }),
        ("pass a descriptor", |_| attempt(libc::SYS_sendmsg, &[signed(-1), buffer(), 0])),
    ]
}

/// Listens on a Unix socket, as CUDA's driver does. `name` is a file's path, or an abstract name, which
/// begins with a zero byte. An abstract name gets the id of this process as suffix.
fn listen(name: &[u8]) -> Result<usize, c_int> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let socket = call(libc::SYS_socket, &[libc::AF_UNIX as usize, kind as usize, 0])?;
    let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend(name);
    if name[0] == 0 {
        address.extend(std::process::id().to_string().into_bytes());
    }
    let address = address.leak();
    call(libc::SYS_bind, &[socket, address.as_ptr() as usize, address.len()])?;
    call(libc::SYS_listen, &[socket, 1])?;
    Ok(socket)
}

/// Attacks on the machine. Their arguments make each call harmless, even if the kernel allows it.
fn machine() -> Vec<Attack> {
    const KEYCTL_GET_KEYRING_ID: usize = 0;
    const KEY_SPEC_PROCESS_KEYRING: usize = signed(-2);
    const UNKNOWN_CLOCK: usize = 99;
    const SYSLOG_ACTION_SIZE_BUFFER: usize = 10;
    vec![
        ("mount", |_| {
            let nowhere = text("/nowhere/at/all");
            attempt(libc::SYS_mount, &[text("none"), nowhere, text("tmpfs"), 0, 0])
        }),
        ("umount", |_| attempt(libc::SYS_umount2, &[text("/nowhere/at/all"), 0])),
        ("chroot", |_| attempt(libc::SYS_chroot, &[text("/nowhere/at/all")])),
        ("fsopen", |_| attempt(libc::SYS_fsopen, &[text("no such file system"), 0])),
        ("init_module", |_| attempt(libc::SYS_init_module, &[0, 0, text("")])),
        ("finit_module", |_| attempt(libc::SYS_finit_module, &[signed(-1), text(""), 0])),
        ("delete_module", |_| attempt(libc::SYS_delete_module, &[text("no such module"), 0])),
        ("kexec_load", |_| attempt(libc::SYS_kexec_load, &[0, 1 << 20, 0, 0])),
        ("reboot", |_| attempt(libc::SYS_reboot, &[0, 0, 0, 0])),
        ("bpf", |_| attempt(libc::SYS_bpf, &[0, buffer(), 48])),
        ("io_uring", |_| attempt(libc::SYS_io_uring_setup, &[1, buffer()])),
        ("io_uring_enter", |_| attempt(libc::SYS_io_uring_enter, &[signed(-1), 0, 0, 0, 0, 0])),
        ("keyctl", |_| {
            attempt(libc::SYS_keyctl, &[KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1])
        }),
        ("add_key", |_| {
            attempt(
                libc::SYS_add_key,
                &[text("user"), text("a"), text("b"), 1, KEY_SPEC_PROCESS_KEYRING],
            )
        }),
        ("userfaultfd", |_| attempt(libc::SYS_userfaultfd, &[0])),
        ("perf_event_open", |_| {
            attempt(libc::SYS_perf_event_open, &[buffer(), 0, signed(-1), 0, 0])
        }),
        ("set the clock", |_| attempt(libc::SYS_clock_settime, &[UNKNOWN_CLOCK, buffer()])),
        ("read the kernel's log", |_| {
            attempt(libc::SYS_syslog, &[SYSLOG_ACTION_SIZE_BUFFER, 0, 0])
        }),
    ]
}

/// Attacks that change what the attacker's own process may do.
fn own_process() -> Vec<Attack> {
    const READ_PERSONALITY: usize = 0xffff_ffff;
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    vec![
        ("personality", |_| attempt(libc::SYS_personality, &[READ_PERSONALITY])),
        ("setuid", |_| {
            let unchanged = signed(-1);
            attempt(libc::SYS_setresuid, &[unchanged, unchanged, unchanged])
        }),
        ("capset", |_| attempt(libc::SYS_capset, &[0, 0])),
        ("raise a limit", |_| {
            let old = buffer();
            let resource = libc::RLIMIT_FSIZE as usize;
            attempt(libc::SYS_prlimit64, &[0, resource, 0, old])
                .or_else(|| attempt(libc::SYS_prlimit64, &[0, resource, old, 0]))
        }),
        ("outlive the host", |_| attempt(libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as usize, 0])),
        ("install another filter", |_| {
            attempt(libc::SYS_seccomp, &[SECCOMP_SET_MODE_FILTER, 0, 0])
        }),
        ("leave its process group", |_| attempt(libc::SYS_setpgid, &[0, 0])),
        ("change the working folder", |_| attempt(libc::SYS_chdir, &[text("/")])),
        ("executable memory", |_| {
            let write = libc::PROT_WRITE;
            let executable = libc::PROT_EXEC | libc::PROT_READ;
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let page =
                call(libc::SYS_mmap, &[0, 4096, write as usize, flags, signed(-1), 0]).unwrap();
            attempt(libc::SYS_mprotect, &[page, 4096, executable as usize])
        }),
        ("map code", |_| {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let executable = (libc::PROT_EXEC | libc::PROT_READ | libc::PROT_WRITE) as usize;
            attempt(libc::SYS_mmap, &[0, 4096, executable, flags, signed(-1), 0])
        }),
        ("type into the terminal", |_| {
            attempt(libc::SYS_ioctl, &[0, libc::TIOCSTI as usize, text("a")])
        }),
        ("own the signals of a file", |s| {
            attempt(libc::SYS_fcntl, &[1, libc::F_SETOWN as usize, s.host as usize])
        }),
        ("too much memory", |_| {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
            let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
            attempt(libc::SYS_mmap, &[0, 2 * MEMORY as usize, rights, flags, signed(-1), 0])
        }),
        ("too large a file", |s| {
            let path = s.path("output/large");
            let file = call(libc::SYS_openat, &[CWD, path, CREATE, 0o600]).unwrap();
            attempt(libc::SYS_ftruncate, &[file, LARGEST_FILE as usize + 1])
        }),
        ("too many files", |s| {
            let path = s.path("input/file");
            (0..=OPEN_FILES).find_map(|_| attempt(libc::SYS_openat, &[CWD, path, READ]))
        }),
    ]
}

/// Calls that a worker needs. They are in the same table as the attacks, but must succeed.
fn allowed() -> Vec<Attack> {
    fn errno(result: std::io::Result<()>) -> Refusal {
        result.err().map(|error| error.raw_os_error().unwrap_or(0))
    }
    vec![
        ("read an input", |s| errno(std::fs::read(s.folder.join("input/file")).map(drop))),
        ("list an input", |s| errno(std::fs::read_dir(s.folder.join("input")).map(drop))),
        ("stage an input", |s| {
            let from = s.folder.join("input/file");
            let to = s.folder.join("stage/mine");
            let _ = std::fs::remove_file(&to);
            errno(std::fs::hard_link(from, to))
        }),
        ("move a copy to the stage", |s| {
            let from = s.folder.join("output/copy");
            let to = s.folder.join("stage/copy");
            errno(std::fs::write(&from, "a").and_then(|()| std::fs::rename(from, to)))
        }),
        ("write a result", |s| {
            let folder = s.folder.join("output/a");
            let file = folder.join("b");
            let write = || {
                std::fs::create_dir_all(&folder)?;
                std::fs::write(&file, "c")?;
                std::fs::File::options()
                    .append(true)
                    .open(&file)?
                    .set_modified(std::time::UNIX_EPOCH)?;
                File::options().write(true).open(&file)?.set_len(0)?;
                std::fs::rename(&file, s.folder.join("output/moved"))
            };
            errno(write())
        }),
        ("write a log", |s| errno((&s.log).write_all(b"a"))),
        ("write a profile", |s| {
            let new = s.folder.join("profile/a.new");
            let old = s.folder.join("profile/a");
            errno(std::fs::write(&new, "a").and_then(|()| std::fs::rename(new, old)))
        }),
        ("start a thread", |_| {
            errno(std::thread::Builder::new().spawn(|| ()).map(|thread| thread.join().unwrap()))
        }),
        ("sleep and ask the time", |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            let _ = std::time::SystemTime::now();
            None
        }),
        ("abort", |_| std::process::abort()),
    ]
}
