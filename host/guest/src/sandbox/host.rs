//! The data and functions of the interface `sandmill:entry/host`.

use super::counted::OverLimit;
use super::files::OpenFolders;
use super::grants::Grants;
use super::quota::WriteQuota;
use super::sink::GuestSink;
use crate::model::LoggingLevel;
use jiff::Timestamp;
use wasmtime::component::{ComponentType, Lift, Lower};

/// The maximum length of a log message, in bytes.
const MESSAGE_LIMIT: usize = 64 << 10;

/// The data of the interface.
pub(super) struct Host {
    pub(super) agent_name: String,
    pub(super) node_id: String,
    pub(super) log_dir: String,
    pub(super) output_dir: String,
    pub(super) source_dir: Option<String>,
    pub(super) gpu_index: Option<u32>,
    pub(super) level: LoggingLevel,
    pub(super) log: GuestSink,
    pub(super) files: OpenFolders,
}

impl Host {
    pub(super) fn new(grants: &Grants, files: OpenFolders, quota: &WriteQuota) -> Self {
        Self {
            agent_name: grants.agent_name.clone(),
            node_id: grants.node_id.clone(),
            log_dir: grants.log_dir.clone(),
            output_dir: grants.output_dir.clone(),
            source_dir: grants.source_dir.clone(),
            gpu_index: grants.gpu_index,
            level: grants.logging_level,
            log: GuestSink::new(&grants.log, quota),
            files,
        }
    }

    pub(super) fn write_log(&self, level: LogLevel, message: &str) -> Result<(), OverLimit> {
        if !level.passes(self.level) {
            return Ok(());
        }
        let mut end = message.len().min(MESSAGE_LIMIT);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let cut = if end < message.len() { "... (cut)" } else { "" };
        // Further lines of a message are indented, so that they cannot be mistaken for new messages.
        let text = message[..end].trim_end().replace('\r', "").replace('\n', "\n    ");
        let now = Timestamp::now();
        let level = level.word();
        let agent = &self.agent_name;
        let line = format!("{now:.3} {level:<7} {agent} {text}{cut}\n");
        self.log.accept(line.as_bytes())
    }
}

/// `log-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
pub(super) enum LogLevel {
    #[component(name = "error")]
    #[expect(dead_code, reason = "made from the guest's number by the derived `Lift`")]
    Error,
    #[component(name = "warning")]
    Warning,
    #[component(name = "info")]
    Info,
    #[component(name = "debug")]
    Debug,
}

impl From<LoggingLevel> for LogLevel {
    fn from(level: LoggingLevel) -> Self {
        match level {
            LoggingLevel::Warning => Self::Warning,
            LoggingLevel::Info => Self::Info,
            LoggingLevel::Debug => Self::Debug,
        }
    }
}

impl LogLevel {
    fn passes(self, level: LoggingLevel) -> bool {
        self <= Self::from(level)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
        }
    }
}
