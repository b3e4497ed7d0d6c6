//! Captures the log lines of a native test.

use log::Level;
use std::cell::RefCell;

/// A line that the entry script wrote to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The level of the line.
    pub level: Level,
    /// The text of the line.
    pub message: String,
}

thread_local! {
    static LOGS: RefCell<Vec<LogLine>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a log line for the test on this thread.
pub(crate) fn capture(level: Level, message: &str) {
    LOGS.with_borrow_mut(|logs| logs.push(LogLine { level, message: message.to_owned() }));
}

/// The captured lines since the last [`clear`].
pub(crate) fn lines() -> Vec<LogLine> {
    LOGS.with_borrow(Clone::clone)
}

/// Deletes the captured lines.
pub(crate) fn clear() {
    LOGS.take();
}
