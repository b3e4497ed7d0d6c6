//! Points between two steps that must survive a crash, at which a test ends the process.
//!
//! In builds with debug assertions, `SANDMILL_FAIL_POINT=NAME` kills the process when it passes the
//! point NAME for the first time, `NAME:3` the third time, and `NAME:3:cut` does as a power loss may:
//! before, what was not yet synced is cut in half. The name `*` stands for every point. Other builds
//! have none of this.

use std::path::PathBuf;

/// A file and how many of its bytes are on the disk for certain.
pub type Unsynced = (PathBuf, u64);

/// Ends the process if a test wants it to end here.
#[inline]
pub fn pass(name: &str) {
    pass_with(name, Vec::new);
}

/// As [`pass`], with the files that a power loss would cut.
#[cfg(not(any(test, feature = "testing", debug_assertions)))]
#[inline]
pub fn pass_with(_name: &str, _unsynced: impl FnOnce() -> Vec<Unsynced>) {}

#[cfg(any(test, feature = "testing"))]
pub use armed::crash_at;
#[cfg(any(test, feature = "testing", debug_assertions))]
pub use armed::pass_with;
#[cfg(any(test, feature = "testing"))]
pub use armed::passed_by;

#[cfg(any(test, feature = "testing", debug_assertions))]
mod armed {
    use super::Unsynced;
    use std::fs::OpenOptions;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Where to crash.
    #[derive(Debug)]
    struct Arm {
        name: String,
        /// How often the point is still passed without harm, and once more.
        left: AtomicU64,
        cut: bool,
    }

    impl Arm {
        /// `name`, `name:3` or `name:3:cut`.
        fn parse(text: &str) -> Self {
            let mut words = text.split(':');
            let name = words.next().unwrap_or_default().to_owned();
            let left = words.next().and_then(|count| count.parse().ok()).unwrap_or(1);
            Self { name, left: AtomicU64::new(left), cut: words.next() == Some("cut") }
        }

        fn is_due(&self, name: &str) -> bool {
            (self.name == "*" || self.name == name)
                && self.left.fetch_sub(1, Ordering::Relaxed) == 1
        }
    }

    /// As [`pass`](super::pass), with the files that a power loss would cut.
    pub fn pass_with(name: &str, unsynced: impl FnOnce() -> Vec<Unsynced>) {
        #[cfg(any(test, feature = "testing"))]
        if let Some(with_cut) = tests::due(name) {
            if with_cut {
                cut(unsynced());
            }
            tests::crash();
        }
        #[cfg(debug_assertions)]
        environment::pass_with(name, unsynced);
    }

    /// Half of what is not on the disk stays.
    fn cut(files: Vec<Unsynced>) {
        for (path, synced) in files {
            let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            if length > synced {
                let _ = file.set_len(synced + (length - synced) / 2);
            }
        }
    }

    /// Of the process, by `SANDMILL_FAIL_POINT`.
    #[cfg(debug_assertions)]
    mod environment {
        use super::{Arm, Unsynced, cut};
        use std::sync::{Mutex, OnceLock};

        pub(super) fn pass_with(name: &str, unsynced: impl FnOnce() -> Vec<Unsynced>) {
            static ARM: OnceLock<Option<Arm>> = OnceLock::new();
            // Two threads never crash at once: the second waits here for its end.
            static LAST: Mutex<()> = Mutex::new(());
            let Some(arm) = ARM.get_or_init(|| {
                std::env::var("SANDMILL_FAIL_POINT").ok().map(|text| Arm::parse(&text))
            }) else {
                return;
            };
            if arm.is_due(name) {
                let _last = LAST.lock();
                if arm.cut {
                    cut(unsynced());
                }
                let own = rustix::process::getpid();
                let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
                // A signal to oneself is there before the call returns; should it not be, so be it.
                std::process::abort();
            }
        }
    }

    #[cfg(any(test, feature = "testing"))]
    pub use tests::crash_at;
    #[cfg(any(test, feature = "testing"))]
    pub use tests::passed_by;

    /// The same within a test: the crash unwinds, past code that never sees it in earnest.
    #[cfg(any(test, feature = "testing"))]
    mod tests {
        use super::*;
        use std::cell::RefCell;
        use std::collections::BTreeSet;
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

        thread_local! {
            static ARM: RefCell<Option<Arm>> = const { RefCell::new(None) };
            /// The points that were passed, where a test wants to know.
            static PASSED: RefCell<Option<BTreeSet<String>>> = const { RefCell::new(None) };
        }

        struct Crash;

        pub(super) fn due(name: &str) -> Option<bool> {
            PASSED.with_borrow_mut(|passed| {
                if let Some(passed) = passed {
                    passed.insert(name.to_owned());
                }
            });
            ARM.with_borrow(|arm| arm.as_ref().filter(|arm| arm.is_due(name)).map(|arm| arm.cut))
        }

        pub(super) fn crash() -> ! {
            resume_unwind(Box::new(Crash))
        }

        /// Does it, and crashes at the point that `text` names. None if it came to that.
        pub fn crash_at<T>(text: &str, run: impl FnOnce() -> T) -> Option<T> {
            ARM.set(Some(Arm::parse(text)));
            let result = catch_unwind(AssertUnwindSafe(run));
            ARM.set(None);
            match result {
                Ok(value) => Some(value),
                Err(payload) if payload.is::<Crash>() => None,
                Err(payload) => resume_unwind(payload),
            }
        }

        /// Does it, and returns the points that this thread passed meanwhile.
        #[cfg(any(test, feature = "testing"))]
        pub fn passed_by(run: impl FnOnce()) -> BTreeSet<String> {
            PASSED.set(Some(BTreeSet::new()));
            run();
            PASSED.take().unwrap_or_default()
        }
    }
}
