//! Fail points: places between two steps of the program at which a test can crash the process, to check that
//! the job survives.
//!
//! In builds with debug assertions, `SANDMILL_FAIL_POINT=NAME` kills the process when it passes the point
//! NAME for the first time, and `NAME:3` when it passes NAME for the third time. `NAME:3:cut` simulates a
//! power loss: before the crash, the data that was not yet synced is cut in half. `NAME:3:stop` stops the process
//! instead, until it gets SIGCONT. The name `*` stands for every point. Builds for users contain no fail points.

use std::path::PathBuf;

/// A file, and how many of its bytes are certainly on the disk.
pub type Unsynced = (PathBuf, u64);

/// Ends the process if a test has chosen this point.
#[inline]
pub fn pass(name: &str) {
    pass_with(name, Vec::new);
}

/// Like [`pass`]. The closure returns the files that a power loss would truncate.
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

    /// The point at which to crash.
    #[derive(Debug)]
    struct ArmedPoint {
        name: String,
        /// How many passes are left, including the one that crashes.
        left: AtomicU64,
        /// Whether to simulate a power loss.
        cut: bool,
        /// Whether to stop the process instead of killing it.
        #[cfg_attr(
            not(debug_assertions),
            expect(dead_code, reason = "a unit test cannot stop its process")
        )]
        stop: bool,
    }

    impl ArmedPoint {
        /// Reads `name`, `name:3`, `name:3:cut` or `name:3:stop`.
        fn parse(text: &str) -> Self {
            let mut words = text.split(':');
            let name = words.next().unwrap_or_default().to_owned();
            let left = words.next().and_then(|count| count.parse().ok()).unwrap_or(1);
            let how = words.next();
            let cut = how == Some("cut");
            let stop = how == Some("stop");
            Self { name, left: AtomicU64::new(left), cut, stop }
        }

        fn is_due(&self, name: &str) -> bool {
            (self.name == "*" || self.name == name)
                && self.left.fetch_sub(1, Ordering::Relaxed) == 1
        }
    }

    /// Like [`pass`](super::pass). The closure returns the files that a power loss would truncate.
    pub fn pass_with(name: &str, unsynced: impl FnOnce() -> Vec<Unsynced>) {
        #[cfg(any(test, feature = "testing"))]
        if let Some(with_cut) = tests::crash_due(name) {
            if with_cut {
                cut(unsynced());
            }
            tests::crash();
        }
        #[cfg(debug_assertions)]
        environment::pass_with(name, unsynced);
    }

    /// Truncates each file: removes half of the bytes that may not be on the disk.
    fn cut(files: Vec<Unsynced>) {
        for (path, synced) in files {
            let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            if length > synced {
                let _ = file.set_len(synced + (length - synced) / 2);
            }
        }
    }

    /// Crashes the process, as `SANDMILL_FAIL_POINT` requests.
    #[cfg(debug_assertions)]
    mod environment {
        use super::{ArmedPoint, Unsynced, cut};
        use std::sync::{Mutex, OnceLock};

        pub(super) fn pass_with(name: &str, unsynced: impl FnOnce() -> Vec<Unsynced>) {
            static ARM: OnceLock<Option<ArmedPoint>> = OnceLock::new();
            // Two threads never crash at the same time: the second one waits here until the process ends.
            static CRASHING: Mutex<()> = Mutex::new(());
            let Some(arm) = ARM.get_or_init(|| {
                std::env::var("SANDMILL_FAIL_POINT").ok().map(|text| ArmedPoint::parse(&text))
            }) else {
                return;
            };
            if arm.is_due(name) {
                let _crashing = CRASHING.lock();
                if arm.cut {
                    cut(unsynced());
                }
                let this_process = rustix::process::getpid();
                if arm.stop {
                    // A test sees that the process has stopped, and continues it.
                    let _ =
                        rustix::process::kill_process(this_process, rustix::process::Signal::STOP);
                    return;
                }
                let _ = rustix::process::kill_process(this_process, rustix::process::Signal::KILL);
                // A process usually receives its own signal before the call returns. If not, it ends here.
                std::process::abort();
            }
        }
    }

    #[cfg(any(test, feature = "testing"))]
    pub use tests::crash_at;
    #[cfg(any(test, feature = "testing"))]
    pub use tests::passed_by;

    /// Crashes within a unit test. The crash unwinds the stack, so it also runs destructors, which a real
    /// crash would not.
    #[cfg(any(test, feature = "testing"))]
    mod tests {
        use super::*;
        use std::cell::RefCell;
        use std::collections::BTreeSet;
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

        thread_local! {
            static ARM: RefCell<Option<ArmedPoint>> = const { RefCell::new(None) };
            /// The points that were passed, if a test records them.
            static PASSED: RefCell<Option<BTreeSet<String>>> = const { RefCell::new(None) };
        }

        struct Crash;

        /// `Some` if the process must crash here. The value says whether to simulate a power loss.
        pub(super) fn crash_due(name: &str) -> Option<bool> {
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

        /// Calls `run`, and crashes it at the point that `text` names. Returns `None` if `run`
        /// crashed.
        pub fn crash_at<T>(text: &str, run: impl FnOnce() -> T) -> Option<T> {
            ARM.set(Some(ArmedPoint::parse(text)));
            let result = catch_unwind(AssertUnwindSafe(run));
            ARM.set(None);
            match result {
                Ok(value) => Some(value),
                Err(payload) if payload.is::<Crash>() => None,
                Err(payload) => resume_unwind(payload),
            }
        }

        /// Calls `run`, and returns the points that this thread passed during the call.
        #[cfg(any(test, feature = "testing"))]
        pub fn passed_by(run: impl FnOnce()) -> BTreeSet<String> {
            PASSED.set(Some(BTreeSet::new()));
            run();
            PASSED.take().unwrap_or_default()
        }
    }
}
