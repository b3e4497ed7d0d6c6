//! Native code of an attacker who has escaped from the WebAssembly sandbox: builds the wall that a worker
//! builds, then tries one thing. `tests/tests/walls/wall.rs` uses it.
//!
//! `attack --list` prints the names of all attacks. `attack NAME MODE FOLDER HOST SIBLING DESCRIPTOR` tries
//! one: MODE is `wall`, `gpu` (the wall of a worker with a GPU), `weak` (a best-effort wall) or `bare` (no
//! wall). It prints `done`, or `refused N` with the error number; the process may also be killed. HOST and
//! SIBLING are ids of processes of the same user, and DESCRIPTOR is inherited. `nowall REASON` means that
//! this machine cannot build the wall.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel takes words, whatever their bits stand for"
)]
#![expect(clippy::unwrap_used, reason = "an attack that cannot be made fails its test")]

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

/// What an attack may use.
struct Scene {
    folder: PathBuf,
    host: c_int,
    sibling: c_int,
    descriptor: c_int,
    /// Opened before the wall was built, as a worker's logs are.
    log: File,
}

/// `None` if the attack succeeded, or the error number.
type Refused = Option<c_int>;
type Attack = (&'static str, fn(&Scene) -> Refused);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments[0] == "--list" {
        attacks().iter().for_each(|(name, _)| println!("{name}"));
        return;
    }
    let number = |index: usize| arguments[index].parse().unwrap();
    let folder = PathBuf::from(&arguments[2]);
    let wanted = match &*arguments[1] {
        "wall" => Some((WallRole::Worker, OsSandbox::Required)),
        "weak" => Some((WallRole::Worker, OsSandbox::BestEffort)),
        "gpu" => Some((WallRole::GpuWorker, OsSandbox::Required)),
        _ => None,
    };
    if let Some((_, mode)) = wanted
        && let Err(reason) = enter(mode)
    {
        println!("nowall {reason}");
        return;
    }
    let log = File::options().create(true).append(true).open(folder.join("logs/mine"));
    // The number must differ from that of the inherited descriptor.
    let log = rustix::io::fcntl_dupfd_cloexec(log.unwrap(), 100).unwrap().into();
    let descriptor = number(5);
    let scene = Scene { folder, host: number(3), sibling: number(4), descriptor, log };
    let all = attacks();
    let (_, attack) = all.iter().find(|(name, _)| *name == arguments[0]).unwrap();
    if let Some((occupant, mode)) = wanted
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
fn build(scene: &Scene, occupant: WallRole, mode: OsSandbox) -> Result<(), String> {
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
        occupant,
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

/// Makes a system call directly, bypassing all libraries.
fn call(number: c_long, arguments: &[usize]) -> Result<usize, c_int> {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: pointers among the arguments are null, or point to memory that is never freed. The call may do
    // anything to this process, which ends soon after.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    usize::try_from(answer).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn tried(number: c_long, arguments: &[usize]) -> Refused {
    call(number, arguments).err()
}

/// Makes a system call that may create a second process, which exits at once.
fn split(number: c_long, arguments: &[usize]) -> Refused {
    match call(number, arguments) {
        Ok(0) => std::process::exit(0),
        result => result.err(),
    }
}

/// A C string for the kernel, never freed.
fn text(path: impl AsRef<Path>) -> usize {
    CString::new(path.as_ref().to_str().unwrap()).unwrap().into_raw() as usize
}

/// Memory for the kernel to write to, never freed.
fn buffer() -> usize {
    Box::leak(Box::new([0_u64; 128])).as_mut_ptr() as usize
}

const fn signed(value: c_int) -> usize {
    value as isize as usize
}

const HERE: usize = signed(libc::AT_FDCWD);
const PATH_ONLY: usize = 0;
const READ: usize = libc::O_RDONLY as usize;
const MAKE: usize = (libc::O_CREAT | libc::O_WRONLY) as usize;

fn open(path: impl AsRef<Path>, how: usize) -> Refused {
    tried(libc::SYS_openat, &[HERE, text(path), how, 0o600])
}

impl Scene {
    fn empty(&self, path: &str, how: c_int) -> Refused {
        open(self.folder.join(path), (how | libc::O_TRUNC) as usize)
    }

    fn at(&self, path: &str) -> usize {
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
        ("write outside", |s| open(s.folder.join("outside/new"), MAKE)),
        ("read past dots", |s| open(s.folder.join("input/../outside/file"), READ)),
        ("read a sibling's folder", |s| open(s.folder.join("input/link-out"), READ)),
        ("open /etc/passwd", |_| open("/etc/passwd", READ)),
        ("open its environment", |_| open("/proc/self/environ", READ)),
        ("open its memory", |_| open("/proc/self/mem", READ)),
        ("open the host's environment", |s| open(format!("/proc/{}/environ", s.host), READ)),
        ("write an input", |s| open(s.folder.join("input/file"), libc::O_WRONLY as usize)),
        ("write a staged input", |s| open(s.folder.join("stage/linked"), libc::O_WRONLY as usize)),
        ("make in the input", |s| open(s.folder.join("input/new"), MAKE)),
        ("remove an input", |s| tried(libc::SYS_unlinkat, &[HERE, s.at("input/file"), 0])),
        ("cut an input", |s| tried(libc::SYS_truncate, &[s.at("input/file"), 0])),
        ("empty an input by opening it", |s| s.empty("input/file", libc::O_RDONLY)),
        ("empty an input by opening it to write", |s| s.empty("input/file", libc::O_WRONLY)),
        ("empty it by a driver's way of opening", |s| s.empty("input/file", libc::O_ACCMODE)),
        ("empty a staged input by opening it", |s| s.empty("stage/linked", libc::O_RDONLY)),
        #[cfg(target_arch = "x86_64")]
        ("empty an input by the older call", |s| {
            tried(libc::SYS_open, &[s.at("input/file"), READ | libc::O_TRUNC as usize, 0])
        }),
        ("empty an input by openat2", |s| {
            let how: &'static mut [u64; 3] = Box::leak(Box::new([0; 3]));
            how[0] = libc::O_TRUNC as u64;
            let how = how.as_ptr() as usize;
            tried(libc::SYS_openat2, &[HERE, s.at("input/file"), how, size_of::<[u64; 3]>()])
        }),
        ("take an input along", |s| {
            tried(
                libc::SYS_renameat2,
                &[HERE, s.at("input/file"), HERE, s.at("output/taken"), PATH_ONLY],
            )
        }),
        ("link an input to write it", |s| {
            tried(
                libc::SYS_linkat,
                &[HERE, s.at("input/file"), HERE, s.at("output/linked"), PATH_ONLY],
            )
        }),
        ("link from outside", |s| {
            tried(
                libc::SYS_linkat,
                &[HERE, s.at("outside/file"), HERE, s.at("stage/taken"), PATH_ONLY],
            )
        }),
        ("link among the logs", |s| {
            tried(libc::SYS_symlinkat, &[text("/etc/passwd"), HERE, s.at("logs/link")])
        }),
        ("link among the results", |s| {
            tried(libc::SYS_symlinkat, &[text("/etc/passwd"), HERE, s.at("output/link")])
        }),
        ("read another's log", |s| open(s.folder.join("logs/other"), READ)),
        ("write another's log", |s| open(s.folder.join("logs/other"), libc::O_WRONLY as usize)),
        ("cut its log", |s| tried(libc::SYS_ftruncate, &[signed(s.log()), 0])),
        ("copy the descriptor of its log", |s| {
            tried(libc::SYS_fcntl, &[signed(s.log()), signed(libc::F_DUPFD_CLOEXEC), 0])
        }),
        ("write its log from the start", |s| {
            tried(libc::SYS_fcntl, &[signed(s.log()), signed(libc::F_SETFL), 0])
        }),
        ("write over its log", |s| {
            const NO_APPEND: usize = 0x20;
            let part = Box::leak(Box::new([text("a"), 1])).as_ptr() as usize;
            tried(libc::SYS_pwritev2, &[signed(s.log()), part, 1, 0, 0, NO_APPEND])
        }),
        ("make a device by renaming", |s| {
            let from = s.folder.join("output/device");
            let to = s.folder.join("output/other");
            std::fs::write(&from, "a").unwrap();
            let whiteout = libc::RENAME_WHITEOUT as usize;
            tried(libc::SYS_renameat2, &[HERE, text(from), HERE, text(to), whiteout])
        }),
        ("exchange two names", |s| {
            let names = ["output/one", "output/two"].map(|name| s.folder.join(name));
            names.iter().for_each(|name| std::fs::write(name, "a").unwrap());
            let [one, two] = names.map(text);
            tried(libc::SYS_renameat2, &[HERE, one, HERE, two, libc::RENAME_EXCHANGE as usize])
        }),
        ("remove another's log", |s| tried(libc::SYS_unlinkat, &[HERE, s.at("logs/other"), 0])),
        ("make a log", |s| open(s.folder.join("logs/new"), MAKE)),
        ("link among the profiles", |s| {
            tried(libc::SYS_symlinkat, &[text("/etc/passwd"), HERE, s.at("profile/link")])
        }),
        ("make a fifo", |s| {
            let mode = (libc::S_IFIFO | 0o600) as usize;
            tried(libc::SYS_mknodat, &[HERE, s.at("output/fifo"), mode, 0])
        }),
        ("chmod outside", |s| tried(libc::SYS_fchmodat, &[HERE, s.at("outside/file"), 0o644])),
        ("chown outside", |s| {
            let same = signed(-1);
            tried(libc::SYS_fchownat, &[HERE, s.at("outside/file"), same, same, 0])
        }),
        ("utime outside", |s| tried(libc::SYS_utimensat, &[HERE, s.at("outside/file"), 0, 0])),
        ("xattr outside", |s| {
            let name = text("user.a");
            let value = text("b");
            tried(libc::SYS_setxattr, &[s.at("outside/file"), name, value, 1, 0])
        }),
        ("name_to_handle_at", |s| {
            let handle = buffer();
            tried(libc::SYS_name_to_handle_at, &[HERE, s.at("input/file"), handle, buffer(), 0])
        }),
        ("open_by_handle_at", |_| tried(libc::SYS_open_by_handle_at, &[HERE, buffer(), READ])),
        ("inherited descriptor", |s| tried(libc::SYS_fstat, &[signed(s.descriptor), buffer()])),
    ]
}

fn processes() -> Vec<Attack> {
    let mut attacks: Vec<Attack> = vec![
        ("exec", |_| {
            let path = text("/bin/true");
            let list: &'static [usize; 2] = Box::leak(Box::new([path, 0]));
            tried(libc::SYS_execve, &[path, list.as_ptr() as usize, 0])
        }),
        ("execveat", |_| tried(libc::SYS_execveat, &[signed(-1), text(""), 0, 0, 0x1000])),
        ("memfd_create", |_| tried(libc::SYS_memfd_create, &[text("code"), 0])),
        ("clone a process", |_| split(libc::SYS_clone, &[libc::SIGCHLD as usize])),
        ("clone into a user namespace", |_| {
            let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
            split(libc::SYS_clone, &[flags as usize])
        }),
        ("clone3", |_| {
            let size = 64;
            let arguments: &'static mut [u64; 16] = Box::leak(Box::new([0; 16]));
            arguments[4] = libc::SIGCHLD as u64;
            split(libc::SYS_clone3, &[arguments.as_ptr() as usize, size])
        }),
        ("unshare", |_| tried(libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize])),
        ("setns", |_| tried(libc::SYS_setns, &[signed(-1), 0])),
        ("ptrace", |_| tried(libc::SYS_ptrace, &[libc::PTRACE_TRACEME as usize])),
        ("ptrace a sibling", |s| {
            let request = libc::PTRACE_SEIZE as usize;
            tried(libc::SYS_ptrace, &[request, s.sibling as usize, 0, 0])
        }),
        ("read a sibling's memory", |s| {
            tried(libc::SYS_process_vm_readv, &[s.sibling as usize, 0, 0, 0, 0, 0])
        }),
        ("signal the host", |s| tried(libc::SYS_kill, &[s.host as usize, 0])),
        ("signal a sibling", |s| tried(libc::SYS_kill, &[s.sibling as usize, 0])),
        ("signal all", |_| tried(libc::SYS_kill, &[signed(-1), 0])),
        ("tgkill the host", |s| tried(libc::SYS_tgkill, &[s.host as usize, s.host as usize, 0])),
        ("tkill the host", |s| tried(libc::SYS_tkill, &[s.host as usize, 0])),
        ("pidfd_open the host", |s| tried(libc::SYS_pidfd_open, &[s.host as usize, 0])),
        ("pidfd_getfd", |_| tried(libc::SYS_pidfd_getfd, &[signed(-1), 0, 0])),
        ("limit the host", |s| {
            let old = buffer();
            let resource = libc::RLIMIT_NOFILE as usize;
            tried(libc::SYS_prlimit64, &[s.host as usize, resource, 0, old])
                .or_else(|| tried(libc::SYS_prlimit64, &[s.host as usize, resource, old, 0]))
        }),
        ("schedule the host", |s| tried(libc::SYS_setpriority, &[0, s.host as usize, 0])),
    ];
    #[cfg(target_arch = "x86_64")]
    attacks.push(("fork", |_| split(libc::SYS_fork, &[])));
    #[cfg(target_arch = "x86_64")]
    attacks.push(("vfork", |_| split(libc::SYS_vfork, &[])));
    attacks.shrink_to_fit();
    attacks
}

fn network() -> Vec<Attack> {
    vec![
        ("tcp socket", |_| {
            tried(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0])
        }),
        ("unix socket", |_| {
            tried(libc::SYS_socket, &[libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0])
        }),
        ("socketpair", |_| {
            let kind = libc::SOCK_STREAM as usize;
            tried(libc::SYS_socketpair, &[libc::AF_UNIX as usize, kind, 0, buffer()])
        }),
        ("datagram socket", |_| {
            tried(libc::SYS_socket, &[libc::AF_UNIX as usize, libc::SOCK_DGRAM as usize, 0])
        }),
        ("listen without a name", |_| listen(b"\0sandmill-attack-").err()),
        ("listen at a file", |s| {
            listen(s.folder.join("output/socket").as_os_str().as_encoded_bytes()).err()
        }),
        ("accept", |_| {
            let listening = listen(b"\0sandmill-accepts-");
            // No client connects: without a wall, the call would block.
            listening.map_or_else(Some, |socket| {
                let nothing = libc::SOCK_NONBLOCK as usize;
                let _ = call(libc::SYS_fcntl, &[socket, libc::F_SETFL as usize, nothing]);
                tried(libc::SYS_accept4, &[socket, 0, 0, 0])
            })
        }),
        ("connect", |_| tried(libc::SYS_connect, &[signed(-1), buffer(), 16])),
        ("send to an address", |_| {
            tried(libc::SYS_sendto, &[signed(-1), buffer(), 1, 0, buffer(), 16])
        }),
        ("pass a descriptor", |_| tried(libc::SYS_sendmsg, &[signed(-1), buffer(), 0])),
    ]
}

/// Listens as CUDA's driver does. An abstract name (not a file's) gets the id of this process as suffix.
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

fn machine() -> Vec<Attack> {
    vec![
        ("mount", |_| {
            let nowhere = text("/nowhere/at/all");
            tried(libc::SYS_mount, &[text("none"), nowhere, text("tmpfs"), 0, 0])
        }),
        ("umount", |_| tried(libc::SYS_umount2, &[text("/nowhere/at/all"), 0])),
        ("chroot", |_| tried(libc::SYS_chroot, &[text("/nowhere/at/all")])),
        ("fsopen", |_| tried(libc::SYS_fsopen, &[text("no such file system"), 0])),
        ("init_module", |_| tried(libc::SYS_init_module, &[0, 0, text("")])),
        ("finit_module", |_| tried(libc::SYS_finit_module, &[signed(-1), text(""), 0])),
        ("delete_module", |_| tried(libc::SYS_delete_module, &[text("no such module"), 0])),
        ("kexec_load", |_| tried(libc::SYS_kexec_load, &[0, 1 << 20, 0, 0])),
        ("reboot", |_| tried(libc::SYS_reboot, &[0, 0, 0, 0])),
        ("bpf", |_| tried(libc::SYS_bpf, &[0, buffer(), 48])),
        ("io_uring", |_| tried(libc::SYS_io_uring_setup, &[1, buffer()])),
        ("io_uring_enter", |_| tried(libc::SYS_io_uring_enter, &[signed(-1), 0, 0, 0, 0, 0])),
        ("keyctl", |_| tried(libc::SYS_keyctl, &[0, signed(-2), 1])),
        ("add_key", |_| {
            tried(libc::SYS_add_key, &[text("user"), text("a"), text("b"), 1, signed(-2)])
        }),
        ("userfaultfd", |_| tried(libc::SYS_userfaultfd, &[0])),
        ("perf_event_open", |_| tried(libc::SYS_perf_event_open, &[buffer(), 0, signed(-1), 0, 0])),
        ("set the clock", |_| tried(libc::SYS_clock_settime, &[99, buffer()])),
        ("read the kernel's log", |_| tried(libc::SYS_syslog, &[10, 0, 0])),
    ]
}

fn own_process() -> Vec<Attack> {
    vec![
        ("personality", |_| tried(libc::SYS_personality, &[0xffff_ffff])),
        ("setuid", |_| {
            let same = signed(-1);
            tried(libc::SYS_setresuid, &[same, same, same])
        }),
        ("capset", |_| tried(libc::SYS_capset, &[0, 0])),
        ("raise a limit", |_| {
            let old = buffer();
            let resource = libc::RLIMIT_FSIZE as usize;
            tried(libc::SYS_prlimit64, &[0, resource, 0, old])
                .or_else(|| tried(libc::SYS_prlimit64, &[0, resource, old, 0]))
        }),
        ("outlive the host", |_| tried(libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as usize, 0])),
        ("another filter", |_| tried(libc::SYS_seccomp, &[1, 0, 0])),
        ("another session", |_| tried(libc::SYS_setpgid, &[0, 0])),
        ("another folder", |_| tried(libc::SYS_chdir, &[text("/")])),
        ("executable memory", |_| {
            let write = libc::PROT_WRITE;
            let code = libc::PROT_EXEC | libc::PROT_READ;
            let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let page =
                call(libc::SYS_mmap, &[0, 4096, write as usize, how, signed(-1), 0]).unwrap();
            tried(libc::SYS_mprotect, &[page, 4096, code as usize])
        }),
        ("map code", |_| {
            let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let code = (libc::PROT_EXEC | libc::PROT_READ | libc::PROT_WRITE) as usize;
            tried(libc::SYS_mmap, &[0, 4096, code, how, signed(-1), 0])
        }),
        ("type into the terminal", |_| {
            tried(libc::SYS_ioctl, &[0, libc::TIOCSTI as usize, text("a")])
        }),
        ("own the signals of a file", |s| {
            tried(libc::SYS_fcntl, &[1, libc::F_SETOWN as usize, s.host as usize])
        }),
        ("too much memory", |_| {
            let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
            let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
            tried(libc::SYS_mmap, &[0, 2 * MEMORY as usize, rights, how, signed(-1), 0])
        }),
        ("too large a file", |s| {
            let path = s.at("output/large");
            let file = call(libc::SYS_openat, &[HERE, path, MAKE, 0o600]).unwrap();
            tried(libc::SYS_ftruncate, &[file, LARGEST_FILE as usize + 1])
        }),
        ("too many files", |s| {
            let path = s.at("input/file");
            (0..=OPEN_FILES).find_map(|_| tried(libc::SYS_openat, &[HERE, path, READ]))
        }),
    ]
}

/// What a worker must be able to do.
fn allowed() -> Vec<Attack> {
    fn errno(result: std::io::Result<()>) -> Refused {
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
