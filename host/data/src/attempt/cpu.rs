//! Resources that this process has used.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The resources that a process has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// CPU seconds, user and system.
    pub cpu: f64,
    /// Bytes that it read with system calls, from files, pipes and the like; `None` if the kernel does not
    /// count them.
    pub bytes_read: Option<u64>,
}

impl ProcessUsage {
    /// The resources used between `before` and `self`.
    pub(super) fn since(self, before: Self) -> Self {
        let bytes = self.bytes_read.zip(before.bytes_read);
        Self {
            cpu: (self.cpu - before.cpu).max(0.0),
            bytes_read: bytes.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// Measures what this process has used. Open it before the process gives up its access to `/proc`.
#[derive(Debug)]
pub struct CpuMeter {
    counters: Option<File>,
}

impl CpuMeter {
    /// A meter for the calling process; it works as long as the process lives.
    pub fn open() -> Self {
        Self { counters: File::open("/proc/self/io").ok() }
    }

    /// What the process has used so far. This call takes some microseconds.
    pub fn used(&self) -> ProcessUsage {
        let mut text = [0; 512];
        let read = self.counters.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let bytes_read = read.and_then(|length| bytes_read(text.get(..length)?));
        ProcessUsage { cpu: cpu_seconds(), bytes_read }
    }
}

/// Parses `/proc/self/io`, which has a line `rchar: NUMBER`.
fn bytes_read(text: &[u8]) -> Option<u64> {
    let line = str::from_utf8(text).ok()?.lines().find_map(|line| line.strip_prefix("rchar:"));
    line?.trim().parse().ok()
}

/// CPU seconds of this process so far, user and system.
#[expect(clippy::cast_precision_loss, reason = "seconds of some years are exact")]
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives for the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    if result == 0 { time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9 } else { 0.0 }
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

    #[test]
    fn bytes_read_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let meter = CpuMeter::open();
        let before = meter.used();
        std::fs::read(&path).unwrap();
        // Other tests in this process may read files at the same time.
        assert!(meter.used().since(before).bytes_read.unwrap() >= 1 << 20);
        assert_eq!(CpuMeter { counters: None }.used().bytes_read, None);
        assert_eq!(bytes_read(b"wchar: 1\nrchar: x\n"), None);
    }
}
