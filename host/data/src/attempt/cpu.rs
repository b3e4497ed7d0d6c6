//! How long this process has computed.

/// CPU seconds of this process so far, user and system.
#[expect(clippy::cast_precision_loss, reason = "seconds of some years are exact")]
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
