//! How much memory the processes of a job used.

use std::mem::MaybeUninit;

/// The peak memory of this process's ended children, in bytes: the largest of any one child. `None` if the
/// kernel does not report it.
pub(super) fn peak_of_children() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to a whole `rusage`, which the call fills if it returns 0.
    let filled = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) } == 0;
    // SAFETY: the call has filled it.
    let usage = filled.then(|| unsafe { usage.assume_init() })?;
    // Linux counts in KiB.
    u64::try_from(usage.ru_maxrss).ok().filter(|kib| *kib > 0).map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_ended_is_counted() {
        assert!(std::process::Command::new("true").status().unwrap().success());
        let peak = peak_of_children().expect("the kernel reports it");
        assert!((64 << 10..1 << 40).contains(&peak), "{peak}");
    }
}
