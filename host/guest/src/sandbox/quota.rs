//! Limits what a call may write, and what may stay in the log folder. Counts bytes while the guest runs, so
//! that a flood is stopped in the middle.

use super::counted::{LimitKind, OverLimit};
use super::log_folder::LogFolder;
use crate::model::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts what the current call has written, and how much of it is in the log folder. Clones share the
/// counts.
#[derive(Clone, Debug)]
pub(super) struct WriteQuota(Arc<Meters>);

#[derive(Debug)]
struct Meters {
    limits: Limits,
    log_folder: LogFolder,
    logs: WriteMeter,
    output: WriteMeter,
    files: WriteMeter,
}

/// One count with its limit. Atomic because streams must be able to move to another thread; there is never
/// contention.
#[derive(Debug)]
struct WriteMeter {
    allowed: u64,
    used: AtomicU64,
}

impl WriteQuota {
    pub(super) fn new(limits: &Limits, log_folder: &LogFolder) -> Self {
        let meter = |allowed| WriteMeter { allowed, used: AtomicU64::new(0) };
        Self(Arc::new(Meters {
            limits: limits.clone(),
            log_folder: log_folder.clone(),
            logs: meter(limits.logs.0),
            output: meter(limits.output.0),
            files: meter(limits.files),
        }))
    }

    /// Starts a new call. The count of the log folder continues.
    pub(super) fn restart(&self) {
        for counted in [LimitKind::Logs, LimitKind::Output, LimitKind::Files] {
            self.meter(counted).used.store(0, Relaxed);
        }
    }

    fn meter(&self, counted: LimitKind) -> &WriteMeter {
        match counted {
            LimitKind::Logs => &self.0.logs,
            LimitKind::Output => &self.0.output,
            LimitKind::Files => &self.0.files,
        }
    }

    /// Adds `amount` to the count.
    ///
    /// # Errors
    /// If that exceeds the limit.
    pub(super) fn charge(&self, counted: LimitKind, amount: u64) -> Result<(), OverLimit> {
        let meter = self.meter(counted);
        let asked = meter.used.load(Relaxed).saturating_add(amount);
        meter.used.store(asked, Relaxed);
        if asked > meter.allowed {
            return Err(OverLimit { counted, allowed: meter.allowed, asked, in_log_folder: false });
        }
        Ok(())
    }

    /// Adds `amount` to the count. `in_log_folder`: whether the guest writes it to the log folder.
    ///
    /// # Errors
    /// If that exceeds a limit.
    pub(super) fn write(
        &self,
        counted: LimitKind,
        amount: u64,
        in_log_folder: bool,
    ) -> Result<(), OverLimit> {
        self.charge(counted, amount)?;
        if !in_log_folder || amount == 0 {
            return Ok(());
        }
        self.0.log_folder.charge(counted, amount, &self.0.limits)
    }

    /// Subtracts the amount of an operation that failed.
    pub(super) fn give_back(&self, counted: LimitKind, amount: u64, in_log_folder: bool) {
        let used = &self.meter(counted).used;
        used.store(used.load(Relaxed).saturating_sub(amount), Relaxed);
        if in_log_folder {
            self.0.log_folder.give_back(counted, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ByteSize;

    #[test]
    fn clones_share_a_count_that_each_call_resets() {
        let limits = Limits { logs: ByteSize(10), files: 1, ..Limits::default() };
        let root = tempfile::tempdir().unwrap();
        let folder = LogFolder::new(root.path().to_owned(), 1);
        let quota = WriteQuota::new(&limits, &folder);
        let clone = quota.clone();
        assert_eq!(quota.charge(LimitKind::Logs, 6), Ok(()));
        assert_eq!(clone.charge(LimitKind::Logs, 4), Ok(()));
        let over =
            OverLimit { counted: LimitKind::Logs, allowed: 10, asked: 11, in_log_folder: false };
        assert_eq!(quota.charge(LimitKind::Logs, 1), Err(over));
        assert_eq!(quota.charge(LimitKind::Files, 1), Ok(()), "counted apart");
        quota.give_back(LimitKind::Files, 1, false);
        assert_eq!(quota.charge(LimitKind::Files, 1), Ok(()));
        assert!(quota.charge(LimitKind::Files, u64::MAX).is_err(), "no overflow");
        clone.restart();
        assert_eq!(quota.charge(LimitKind::Logs, 10), Ok(()));
        assert_eq!(quota.write(LimitKind::Files, 1, true), Ok(()));
        std::fs::write(root.path().join("a"), "").unwrap();
        clone.restart();
        assert!(quota.write(LimitKind::Files, 1, true).is_err(), "it stayed");
        clone.restart();
        assert_eq!(quota.write(LimitKind::Files, 1, false), Ok(()));
    }
}
