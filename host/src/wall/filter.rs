//! seccomp: which calls of the kernel may be made. Three filters, of which the strictest wins:
//! one that kills, one that hides `clone3`, and one that refuses what is not allowed.

use super::build::{Built, Occupant};
use super::calls;
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Installs the filters around this thread and those that it starts. Forbids to install more.
pub(super) fn install(occupant: Occupant) -> Built {
    for filter in filters(occupant).map_err(|error| error.to_string())? {
        seccompiler::apply_filter(&filter).map_err(|error| error.to_string())?;
    }
    Ok(None)
}

/// Whether the kernel has what is needed, and this processor has tables.
pub(super) fn probe() -> Result<String, String> {
    TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("there is no list of calls for {}", std::env::consts::ARCH))?;
    let action = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: the kernel reads one number, which lives for the call.
    let answer = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    };
    if answer == 0 {
        return Ok(super::layer::SECCOMP.to_owned());
    }
    Err(io::Error::last_os_error().to_string())
}

/// The one with the allowed calls comes last: it refuses what installs filters, too.
fn filters(occupant: Occupant) -> Result<[BpfProgram; 3], BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let make = |rules, otherwise, matching| -> Result<BpfProgram, BackendError> {
        SeccompFilter::new(rules, otherwise, matching, arch)?.try_into()
    };
    // Whoever finds clone3 missing takes clone, the flags of which can be looked at.
    let hidden = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let refused = |errno: i32| SeccompAction::Errno(errno.cast_unsigned());
    Ok([
        make(killed(occupant)?, SeccompAction::Allow, SeccompAction::KillProcess)?,
        make(hidden, SeccompAction::Allow, refused(libc::ENOSYS))?,
        make(allowed(occupant)?, refused(libc::EPERM), SeccompAction::Allow)?,
    ])
}

fn killed(occupant: Occupant) -> Result<Rules, BackendError> {
    let mut rules: Rules = calls::killing(occupant).map(|call| (call, Vec::new())).collect();
    // A process instead of a thread.
    rules.insert(libc::SYS_clone, vec![flags(0, libc::CLONE_THREAD, 0)?]);
    Ok(rules)
}

fn allowed(occupant: Occupant) -> Result<Rules, BackendError> {
    let mut rules: Rules =
        calls::allowed(occupant).into_iter().map(|call| (call, Vec::new())).collect();
    let mut check = |call: c_long, alternatives: Vec<SeccompRule>| {
        rules.insert(call, alternatives);
    };
    check(libc::SYS_clone3, Vec::new());
    check(libc::SYS_clone, vec![flags(0, THREAD | NO_THREAD, THREAD)?]);
    // The name of a thread. Everything else is a setting of the process.
    check(libc::SYS_prctl, vec![number(0, libc::PR_SET_NAME)?]);
    // A limit can be asked for, not set.
    check(libc::SYS_prlimit64, vec![pointer(2, 0)?]);
    // How abort ends this process, and no other.
    check(libc::SYS_tgkill, vec![number(0, std::process::id().cast_signed())?]);
    let fcntl = [libc::F_GETFL, libc::F_SETFL, libc::F_GETFD, libc::F_SETFD, libc::F_DUPFD_CLOEXEC];
    let fcntl = fcntl.into_iter().map(|command| number(1, command));
    check(libc::SYS_fcntl, fcntl.collect::<Result<_, _>>()?);
    match occupant {
        Occupant::GpuWorker | Occupant::Worker => {
            // Times of an open file, not of one by path: Landlock does not rule those.
            check(libc::SYS_utimensat, vec![pointer(1, 0)?]);
            // Over the socket that is connected, to nobody else.
            check(libc::SYS_sendto, vec![pointer(4, 0)?]);
        }
        // Times of an open file, as above; and no sockets but for the network and to ask for names.
        Occupant::Fetcher => {
            check(libc::SYS_utimensat, vec![pointer(1, 0)?]);
            let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
            let families = families.into_iter().map(|family| number(0, family));
            check(libc::SYS_socket, families.collect::<Result<_, _>>()?);
        }
        Occupant::Planner | Occupant::Shuffler | Occupant::Compiler | Occupant::Finisher => {}
    }
    match occupant {
        // The driver makes code and shares memory as it likes: any argument is allowed.
        Occupant::GpuWorker => {}
        // The engine makes a component's code ready to be run even if it only wants to write it down.
        Occupant::Compiler => {
            for call in [libc::SYS_mmap, libc::SYS_mprotect] {
                check(call, vec![flags(2, libc::PROT_EXEC, 0)?, flags(2, libc::PROT_WRITE, 0)?]);
            }
        }
        Occupant::Worker
        | Occupant::Planner
        | Occupant::Shuffler
        | Occupant::Finisher
        | Occupant::Fetcher => {
            for call in [libc::SYS_mmap, libc::SYS_mprotect] {
                check(call, vec![flags(2, libc::PROT_EXEC, 0)?]);
            }
        }
    }
    Ok(rules)
}

/// What makes a thread of this process.
const THREAD: i32 =
    libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;

/// What no thread is made with.
const NO_THREAD: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_VFORK
    | libc::CLONE_PTRACE;

/// Of the bits in `mask`, those in `set` are set and no others.
fn flags(argument: u8, mask: i32, set: i32) -> Result<SeccompRule, BackendError> {
    let bits = |flags: i32| u64::from(flags.cast_unsigned());
    rule(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits(mask)), bits(set))
}

/// An `int` has this value. The kernel looks at no more than its 32 bits, either.
fn number(argument: u8, value: i32) -> Result<SeccompRule, BackendError> {
    let value = u64::from(value.cast_unsigned());
    rule(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// A pointer has this value.
fn pointer(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    rule(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, value)
}

fn rule(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, length, operator, value)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_filters_for_every_occupant() {
        for occupant in Occupant::ALL {
            assert!(filters(occupant).unwrap().iter().all(|filter| filter.len() > 5));
        }
        assert_eq!(probe().as_deref(), Ok("seccomp"));
    }
}
