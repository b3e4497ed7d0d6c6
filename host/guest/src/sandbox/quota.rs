//! What one call may write, and what may stay: counted here while the guest runs, so that it is stopped
//! in the middle of a flood and not after it.

use super::log_folder::LogFolder;
use crate::model::{ByteSize, Limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Bytes of stdout, stderr and the log: `limits.logs`.
    Logs,
    /// Bytes of files: `limits.output`.
    Output,
    /// Files and folders that are made: `limits.files`.
    Files,
}

/// The guest went beyond a limit. It is told nothing: the call ends with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("beyond the limit on {counted:?}: {asked} of {allowed}")]
pub(super) struct OverLimit {
    pub(super) counted: Counted,
    /// The limit.
    pub(super) allowed: u64,
    /// What it came to, with what was asked for last.
    pub(super) asked: u64,
    /// Whether it is about what stays in the log folder, and not about one call.
    pub(super) stays: bool,
}

impl OverLimit {
    /// For people. `during`: "in run", say.
    pub(super) fn message(&self, during: &str) -> String {
        let (allowed, asked) = (ByteSize(self.allowed), ByteSize(self.asked).rounded());
        match self.counted {
            Counted::Output if self.stays => format!(
                "limits.output allows {allowed} for each worker in the log folder, where files stay; \
                 {during} this worker's share of what lies there came to {}. Have it write less \
                 there, remove what nobody needs, or raise the limit",
                if self.asked == u64::MAX { "more".to_owned() } else { asked }
            ),
            Counted::Files if self.stays => format!(
                "limits.files allows {} for each worker in the log folder, where they stay; {during} \
                 this worker's share of what lies there came to {}. Have it append to fewer files, \
                 remove what nobody needs, or raise the limit",
                count(self.allowed),
                if self.asked == u64::MAX { "more".to_owned() } else { self.asked.to_string() }
            ),
            Counted::Logs => format!(
                "limits.logs allows {allowed} for stdout, stderr and the log of one call; {during} \
                 the entry script wrote {asked}. Have it say less, or raise the limit"
            ),
            Counted::Output => format!(
                "limits.output allows {allowed} for the files of one call; {during} the entry \
                 script wrote {asked}. Have it write less, make mini_batch_size smaller, or raise \
                 the limit"
            ),
            Counted::Files => format!(
                "limits.files allows one call to make {}; {during} the entry script asked for {}. \
                 Have it put more into each, make mini_batch_size smaller, or raise the limit",
                count(self.allowed),
                self.asked
            ),
        }
    }
}

fn count(files: u64) -> String {
    match files {
        0 => "no files or folders".to_owned(),
        1 => "1 file or folder".to_owned(),
        more => format!("{more} files and folders"),
    }
}

/// Counts what the running call has written, and what stays of it. Clones count together.
#[derive(Clone, Debug)]
pub(super) struct Quota(Arc<Meters>);

#[derive(Debug)]
struct Meters {
    limits: Limits,
    log_folder: LogFolder,
    logs: Meter,
    output: Meter,
    files: Meter,
}

/// Streams must be able to move to another thread, hence the atomics; none is ever contended.
#[derive(Debug)]
struct Meter {
    allowed: u64,
    used: AtomicU64,
}

impl Quota {
    pub(super) fn new(limits: &Limits, log_folder: &LogFolder) -> Self {
        let meter = |allowed| Meter { allowed, used: AtomicU64::new(0) };
        Self(Arc::new(Meters {
            limits: limits.clone(),
            log_folder: log_folder.clone(),
            logs: meter(limits.logs.0),
            output: meter(limits.output.0),
            files: meter(limits.files),
        }))
    }

    /// Begins a call. What stays counts on.
    pub(super) fn restart(&self) {
        for counted in [Counted::Logs, Counted::Output, Counted::Files] {
            self.meter(counted).used.store(0, Relaxed);
        }
    }

    fn meter(&self, counted: Counted) -> &Meter {
        match counted {
            Counted::Logs => &self.0.logs,
            Counted::Output => &self.0.output,
            Counted::Files => &self.0.files,
        }
    }

    /// Counts so much more.
    ///
    /// # Errors
    /// If that is beyond the limit.
    pub(super) fn take(&self, counted: Counted, amount: u64) -> Result<(), OverLimit> {
        let meter = self.meter(counted);
        let asked = meter.used.load(Relaxed).saturating_add(amount);
        meter.used.store(asked, Relaxed);
        if asked > meter.allowed {
            return Err(OverLimit { counted, allowed: meter.allowed, asked, stays: false });
        }
        Ok(())
    }

    /// Counts so much more; `stays`: in the log folder.
    ///
    /// # Errors
    /// If that is beyond a limit.
    pub(super) fn write(
        &self,
        counted: Counted,
        amount: u64,
        stays: bool,
    ) -> Result<(), OverLimit> {
        self.take(counted, amount)?;
        if !stays || amount == 0 {
            return Ok(());
        }
        self.0.log_folder.take(counted, amount, &self.0.limits)
    }

    /// Counts back what came to nothing after all.
    pub(super) fn give_back(&self, counted: Counted, amount: u64, stays: bool) {
        let used = &self.meter(counted).used;
        used.store(used.load(Relaxed).saturating_sub(amount), Relaxed);
        if stays {
            self.0.log_folder.give_back(counted, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_together_and_each_call_anew() {
        let limits = Limits { logs: ByteSize(10), files: 1, ..Limits::default() };
        let root = tempfile::tempdir().unwrap();
        let folder = LogFolder::new(root.path().to_owned(), 1);
        let quota = Quota::new(&limits, &folder);
        let clone = quota.clone();
        assert_eq!(quota.take(Counted::Logs, 6), Ok(()));
        assert_eq!(clone.take(Counted::Logs, 4), Ok(()));
        let over = OverLimit { counted: Counted::Logs, allowed: 10, asked: 11, stays: false };
        assert_eq!(quota.take(Counted::Logs, 1), Err(over));
        assert_eq!(quota.take(Counted::Files, 1), Ok(()), "counted apart");
        quota.give_back(Counted::Files, 1, false);
        assert_eq!(quota.take(Counted::Files, 1), Ok(()));
        assert!(quota.take(Counted::Files, u64::MAX).is_err(), "no overflow");
        clone.restart();
        assert_eq!(quota.take(Counted::Logs, 10), Ok(()));
        assert_eq!(quota.write(Counted::Files, 1, true), Ok(()));
        std::fs::write(root.path().join("a"), "").unwrap();
        clone.restart();
        assert!(quota.write(Counted::Files, 1, true).is_err(), "it stayed");
        clone.restart();
        assert_eq!(quota.write(Counted::Files, 1, false), Ok(()));
    }
}
