//! What this process asks of the operating system for itself.

/// Makes the allocator keep memory instead of giving it back: mini-batches are alike, so what one
/// needed the next will need, and fresh pages cost more than copying into warm ones.
pub(super) fn keep_memory() {
    #[cfg(target_env = "gnu")]
    {
        // The largest threshold that glibc takes.
        const MMAP_THRESHOLD: libc::c_int = 32 << 20;
        const TRIM_THRESHOLD: libc::c_int = 1 << 30;
        // SAFETY: mallopt only sets the allocator's parameters, and no second thread exists yet.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
            libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD);
        }
    }
}

/// CPU seconds of this process so far, user and system.
pub(super) fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives for the call.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    if answer == 0 { time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_rises_with_work() {
        let before = cpu_seconds();
        let mut sum = 0u64;
        while cpu_seconds() < before + 0.002 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(cpu_seconds() - before < 60.0);
    }
}
