//! The syscalls that each role needs once the wall is built. We found them by tracing the end-to-end
//! tests, and by reading what the standard library, the C library and wasmtime fall back to.
//!
//! A syscall that is neither allowed nor in the list of killing ones fails with EPERM.

use super::role::WallRole;
use libc::*;

/// Memory, threads, the process's own signals, time, and files that are already open.
const BASE: &[c_long] = &[
    SYS_brk,
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_close,
    SYS_exit,
    SYS_exit_group,
    SYS_fadvise64,
    SYS_fdatasync,
    SYS_fstat,
    SYS_fsync,
    SYS_futex,
    SYS_getcpu,
    SYS_getpid,
    SYS_getppid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_gettid,
    SYS_gettimeofday,
    SYS_lseek,
    SYS_madvise,
    SYS_membarrier,
    SYS_mremap,
    SYS_munmap,
    SYS_nanosleep,
    SYS_ppoll,
    SYS_pread64,
    SYS_preadv,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_read,
    SYS_readv,
    SYS_restart_syscall,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_sigaltstack,
    SYS_write,
    SYS_writev,
];

/// Older forms of these syscalls.
#[cfg(target_arch = "x86_64")]
const BASE_OLD: &[c_long] = &[SYS_poll, SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const BASE_OLD: &[c_long] = &[];

/// Inspecting, listing and removing files, as far as Landlock allows it. The syscalls that open files are in
/// [`opening`].
const OPEN: &[c_long] = &[
    SYS_faccessat,
    SYS_faccessat2,
    SYS_getdents64,
    SYS_newfstatat,
    SYS_readlinkat,
    SYS_statx,
    SYS_unlinkat,
];

/// Older forms of these syscalls.
#[cfg(target_arch = "x86_64")]
const OPEN_OLD: &[c_long] = &[SYS_access, SYS_lstat, SYS_readlink, SYS_rmdir, SYS_stat, SYS_unlink];
#[cfg(not(target_arch = "x86_64"))]
const OPEN_OLD: &[c_long] = &[];

/// The syscalls that open a file, each with the position of its flags argument. Empty for a role without
/// files.
pub(super) fn opening(role: WallRole) -> &'static [(c_long, u8)] {
    match role {
        WallRole::Compiler | WallRole::Finisher => &[],
        WallRole::Worker
        | WallRole::GpuWorker
        | WallRole::Zygote
        | WallRole::Planner
        | WallRole::Shuffler
        | WallRole::Fetcher => OPENING,
    }
}

#[cfg(target_arch = "x86_64")]
const OPENING: &[(c_long, u8)] = &[(SYS_openat, 2), (SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENING: &[(c_long, u8)] = &[(SYS_openat, 2)];

/// Making folders.
const FOLDERS: &[c_long] = &[SYS_mkdirat];

/// The older form of this syscall.
#[cfg(target_arch = "x86_64")]
const FOLDERS_OLD: &[c_long] = &[SYS_mkdir];
#[cfg(not(target_arch = "x86_64"))]
const FOLDERS_OLD: &[c_long] = &[];

/// Hard links, renames, copies within the kernel, the socket to the leader, and the file system type of an
/// open folder. For `renameat2`, the flags decide (module `seccomp`).
const WORKER: &[c_long] =
    &[SYS_copy_file_range, SYS_fstatfs, SYS_linkat, SYS_recvfrom, SYS_sendfile];

/// Older forms of these syscalls.
#[cfg(target_arch = "x86_64")]
const WORKER_OLD: &[c_long] = &[SYS_link, SYS_rename, SYS_renameat];
#[cfg(target_arch = "aarch64")]
const WORKER_OLD: &[c_long] = &[SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const WORKER_OLD: &[c_long] = &[];

/// The syscalls that a GPU's driver needs in addition. The driver starts only if it can listen at a socket,
/// at which other processes of the user could ask for its memory. It never accepts a connection.
const GPU: &[c_long] = &[
    SYS_bind,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_flock,
    SYS_get_mempolicy,
    SYS_getcwd,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_getuid,
    SYS_ioctl,
    SYS_listen,
    SYS_mbind,
    SYS_memfd_create,
    SYS_mincore,
    SYS_mlock,
    SYS_mlock2,
    SYS_mmap,
    SYS_mprotect,
    SYS_munlock,
    SYS_pipe2,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_setaffinity,
    SYS_set_mempolicy,
    SYS_statfs,
    SYS_sysinfo,
    SYS_uname,
];

/// Older forms of these syscalls.
#[cfg(target_arch = "x86_64")]
const GPU_OLD: &[c_long] = &[SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_pipe];
#[cfg(not(target_arch = "x86_64"))]
const GPU_OLD: &[c_long] = &[];

/// Making a second descriptor for an open file, which a GPU's driver does. The number of the first descriptor
/// decides (module `seccomp`).
pub(super) const DUPLICATING: &[c_long] = &[SYS_dup, SYS_dup3];
/// The older form of these syscalls.
#[cfg(target_arch = "x86_64")]
pub(super) const DUPLICATING_OLD: &[c_long] = &[SYS_dup2];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const DUPLICATING_OLD: &[c_long] = &[];

/// Receiving orders with descriptors from the leader, and what a forked worker does before it builds its own
/// wall: it sets up its session, cgroup, folder and standard files. For forking, `prctl` and mapping code,
/// the arguments decide (module `seccomp`).
const ZYGOTE: &[c_long] = &[
    SYS_capget,
    SYS_capset,
    SYS_chdir,
    SYS_dup3,
    SYS_getcwd,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getpgid,
    SYS_getsid,
    SYS_getsockopt,
    SYS_getuid,
    SYS_ioctl,
    SYS_landlock_add_rule,
    SYS_landlock_create_ruleset,
    SYS_landlock_restrict_self,
    SYS_mmap,
    SYS_mprotect,
    SYS_prlimit64,
    SYS_recvmsg,
    SYS_seccomp,
    SYS_sendmsg,
    SYS_setpgid,
    SYS_setsid,
    SYS_sysinfo,
    SYS_tgkill,
    SYS_uname,
];

/// Older forms of these syscalls.
#[cfg(target_arch = "x86_64")]
const ZYGOTE_OLD: &[c_long] = &[SYS_dup2, SYS_getrlimit, SYS_setrlimit];
#[cfg(not(target_arch = "x86_64"))]
const ZYGOTE_OLD: &[c_long] = &[SYS_getrlimit, SYS_setrlimit];

/// Waiting for the helpers that the planner started before it built its wall.
const PLANNER: &[c_long] = &[SYS_wait4, SYS_waitid];

/// Using the network, and waiting for it.
const FETCHER: &[c_long] = &[
    SYS_bind,
    SYS_connect,
    SYS_dup,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getpeername,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_getuid,
    SYS_ioctl,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_renameat,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_setsockopt,
    SYS_shutdown,
    SYS_sysinfo,
    SYS_uname,
];

/// Older forms of these syscalls.
#[cfg(target_arch = "x86_64")]
const FETCHER_OLD: &[c_long] = &[SYS_epoll_wait, SYS_rename];
#[cfg(not(target_arch = "x86_64"))]
const FETCHER_OLD: &[c_long] = &[];

/// Syscalls that no role needs, but an attacker would: each of them kills the process.
const KILL: &[c_long] = &[
    // Starting programs, and reaching other processes.
    SYS_execve,
    SYS_execveat,
    SYS_kcmp,
    SYS_kill,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_tkill,
    // Using the network.
    SYS_accept,
    SYS_accept4,
    SYS_bind,
    SYS_connect,
    SYS_listen,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_socket,
    SYS_socketpair,
    // Mounts and namespaces.
    SYS_chroot,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_open_tree,
    SYS_pivot_root,
    SYS_setns,
    SYS_umount2,
    SYS_unshare,
    // Files without a path, or reached without one.
    SYS_memfd_create,
    SYS_memfd_secret,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    // Large parts of the kernel that are attacked more often than others.
    SYS_add_key,
    SYS_bpf,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_keyctl,
    SYS_perf_event_open,
    SYS_request_key,
    SYS_userfaultfd,
    // Settings of the machine.
    SYS_acct,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_finit_module,
    SYS_init_module,
    SYS_kexec_load,
    SYS_quotactl,
    SYS_reboot,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    // The user and the capabilities of this process.
    SYS_capset,
    SYS_personality,
    SYS_setfsgid,
    SYS_setfsuid,
    SYS_setgid,
    SYS_setgroups,
    SYS_setregid,
    SYS_setresgid,
    SYS_setresuid,
    SYS_setreuid,
    SYS_setuid,
];

/// More such syscalls, which only some processors have.
#[cfg(target_arch = "x86_64")]
const KILL_OLD: &[c_long] =
    &[SYS_fork, SYS_vfork, SYS_ioperm, SYS_iopl, SYS_kexec_file_load, SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const KILL_OLD: &[c_long] = &[];

/// Syscalls that kill processes with other roles, but that a GPU's driver tries or needs. Each is refused or
/// is allowed above, or its arguments decide. The driver tries to start a program that makes its device
/// files, and continues if it cannot.
const GPU_SPARED: &[c_long] = &[
    SYS_accept,
    SYS_accept4,
    SYS_bind,
    SYS_connect,
    SYS_listen,
    SYS_memfd_create,
    SYS_socket,
    SYS_socketpair,
];
#[cfg(target_arch = "x86_64")]
const GPU_SPARED_OLD: &[c_long] = &[SYS_fork, SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const GPU_SPARED_OLD: &[c_long] = &[];
/// Syscalls that kill processes with other roles, but that the zygote needs, or that a worker needs before
/// it builds its own wall.
const ZYGOTE_SPARED: &[c_long] = &[SYS_capset, SYS_recvmsg, SYS_sendmsg];

/// Syscalls that kill processes with other roles, but not the planner: the standard library may use them to
/// kill a helper.
const PLANNER_SPARED: &[c_long] = &[SYS_kill, SYS_pidfd_send_signal];

/// Syscalls that kill processes with other roles, but that using the network needs.
const FETCHER_SPARED: &[c_long] =
    &[SYS_bind, SYS_connect, SYS_recvmmsg, SYS_recvmsg, SYS_sendmmsg, SYS_sendmsg, SYS_socket];

/// The syscalls that are allowed with any arguments.
pub(super) fn allowed(role: WallRole) -> Vec<c_long> {
    /// The syscalls that every worker may make.
    const ALL_WORKERS: [&[c_long]; 8] =
        [BASE, BASE_OLD, OPEN, OPEN_OLD, FOLDERS, FOLDERS_OLD, WORKER, WORKER_OLD];
    let parts: &[&[c_long]] = match role {
        WallRole::Worker => &ALL_WORKERS,
        WallRole::GpuWorker => &[&ALL_WORKERS.concat(), GPU, GPU_OLD],
        WallRole::Zygote => &[&ALL_WORKERS.concat(), ZYGOTE, ZYGOTE_OLD],
        WallRole::Planner => &[BASE, BASE_OLD, OPEN, OPEN_OLD, FOLDERS, FOLDERS_OLD, PLANNER],
        WallRole::Shuffler => &[BASE, BASE_OLD, OPEN, OPEN_OLD],
        WallRole::Compiler | WallRole::Finisher => &[BASE, BASE_OLD],
        WallRole::Fetcher => {
            &[BASE, BASE_OLD, OPEN, OPEN_OLD, FOLDERS, FOLDERS_OLD, FETCHER, FETCHER_OLD]
        }
    };
    parts.concat()
}

/// The syscalls that kill the process.
pub(super) fn killing(role: WallRole) -> impl Iterator<Item = c_long> {
    let (spared, old): (&[c_long], &[c_long]) = match role {
        WallRole::GpuWorker => (GPU_SPARED, GPU_SPARED_OLD),
        WallRole::Zygote => (ZYGOTE_SPARED, &[]),
        WallRole::Planner => (PLANNER_SPARED, &[]),
        WallRole::Fetcher => (FETCHER_SPARED, &[]),
        WallRole::Worker | WallRole::Shuffler | WallRole::Compiler | WallRole::Finisher => {
            (&[], &[])
        }
    };
    let is_spared = |call: &c_long| spared.contains(call) || old.contains(call);
    KILL.iter().chain(KILL_OLD).copied().filter(move |call| !is_spared(call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_call_is_both_allowed_and_deadly() {
        for role in WallRole::ALL {
            let list = allowed(role);
            let allowed: BTreeSet<_> = list.iter().copied().collect();
            assert_eq!(list.len(), allowed.len(), "{role:?} has a call twice");
            let both: Vec<_> = killing(role).filter(|call| allowed.contains(call)).collect();
            assert!(both.is_empty(), "{role:?}: {both:?}");
        }
    }

    #[test]
    fn only_roles_with_files_may_open_them() {
        let opens = |role| opening(role).contains(&(SYS_openat, 2));
        assert!(opens(WallRole::Worker) && opens(WallRole::Planner) && opens(WallRole::Shuffler));
        assert!(!opens(WallRole::Compiler) && !opens(WallRole::Finisher));
        assert!(!allowed(WallRole::Worker).contains(&SYS_ioctl));
    }
}
