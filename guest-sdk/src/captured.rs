//! The log of a native test.

use log::Level;
use std::cell::RefCell;

/// A line that the entry script wrote to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How important it is.
    pub level: Level,
    /// The line.
    pub message: String,
}

thread_local! {
    static LOGS: RefCell<Vec<LogLine>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a line of the log for the test on this thread.
pub(crate) fn capture(level: Level, message: &str) {
    LOGS.with_borrow_mut(|logs| logs.push(LogLine { level, message: message.to_owned() }));
}

/// What was kept since the last [`clear`].
pub(crate) fn lines() -> Vec<LogLine> {
    LOGS.with_borrow(Clone::clone)
}

/// Forgets what was kept.
pub(crate) fn clear() {
    LOGS.take();
}
