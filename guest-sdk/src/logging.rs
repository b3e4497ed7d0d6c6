//! The entry script's log: functions that write to it, and the logger for the [`log`] crate.
//!
//! The host drops lines that are more verbose than the job's `logging_level`. The macros of the [`log`] crate
//! do not even format such lines, and [`log::max_level`] is the job's level, unless the entry script has set
//! another logger. `log::trace!` writes nothing.

use log::{Level, LevelFilter, Metadata, Record};

/// Writes a line to the log as an error.
pub fn error(message: impl AsRef<str>) {
    write(Level::Error, message.as_ref());
}

/// Writes a line to the log as a warning.
pub fn warning(message: impl AsRef<str>) {
    write(Level::Warn, message.as_ref());
}

/// Writes a line to the log as information.
pub fn info(message: impl AsRef<str>) {
    write(Level::Info, message.as_ref());
}

/// Writes a line to the log for debugging.
pub fn debug(message: impl AsRef<str>) {
    write(Level::Debug, message.as_ref());
}

#[cfg(target_arch = "wasm32")]
pub(crate) fn write(level: Level, message: &str) {
    use crate::bindings::sandmill::entry::host::{LogLevel, log};
    let level = match level {
        Level::Error => LogLevel::Error,
        Level::Warn => LogLevel::Warning,
        Level::Info => LogLevel::Info,
        Level::Debug | Level::Trace => LogLevel::Debug,
    };
    log(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn write(level: Level, message: &str) {
    crate::captured::capture(level, message);
}

/// A logger that writes to the entry script's log.
struct LogSink;

impl log::Log for LogSink {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Debug
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            match record.args().as_str() {
                Some(message) => write(record.level(), message),
                None => write(record.level(), &record.args().to_string()),
            }
        }
    }

    fn flush(&self) {}
}

/// Installs [`LogSink`] as the logger of the `log` crate, unless the entry script has set another logger.
pub(crate) fn install() {
    if log::set_logger(&LogSink).is_ok() {
        log::set_max_level(job_level());
    }
}

/// The most verbose level that the log keeps.
#[cfg(target_arch = "wasm32")]
fn job_level() -> LevelFilter {
    use crate::bindings::sandmill::entry::host::{LogLevel, logging_level};
    match logging_level() {
        LogLevel::Error => LevelFilter::Error,
        LogLevel::Warning => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
    }
}

/// The most verbose level that the native test host keeps.
#[cfg(not(target_arch = "wasm32"))]
fn job_level() -> LevelFilter {
    LevelFilter::Debug
}
