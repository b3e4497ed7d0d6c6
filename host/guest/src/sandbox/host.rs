//! The interface `sandmill:entry/host`.

use super::files::Files;
use super::grants::Grants;
use super::quota::{OverLimit, Quota};
use super::sink::Sink;
use super::state::State;
use super::whole_file::WholeFile;
use crate::model::LoggingLevel;
use jiff::Timestamp;
use wasmtime::component::{ComponentType, Lift, Linker, WasmStr};
use wasmtime::{Result, StoreContextMut};

/// Bytes of one log message.
const MESSAGE_LIMIT: usize = 64 << 10;

/// What the interface answers with.
pub(super) struct Host {
    pub(super) agent_name: String,
    pub(super) node_id: String,
    pub(super) log_dir: String,
    pub(super) output_dir: String,
    pub(super) source_dir: Option<String>,
    pub(super) gpu_index: Option<u32>,
    pub(super) level: LoggingLevel,
    pub(super) log: Sink,
    pub(super) files: Files,
}

impl Host {
    pub(super) fn new(grants: &Grants, files: Files, quota: &Quota) -> Self {
        Self {
            agent_name: grants.agent_name.clone(),
            node_id: grants.node_id.clone(),
            log_dir: grants.log_dir.clone(),
            output_dir: grants.output_dir.clone(),
            source_dir: grants.source_dir.clone(),
            gpu_index: grants.gpu_index,
            level: grants.logging_level,
            log: Sink::new(&grants.log, quota),
            files,
        }
    }

    fn write_log(&self, level: LogLevel, message: &str) -> Result<(), OverLimit> {
        if !level.passes(self.level) {
            return Ok(());
        }
        let mut end = message.len().min(MESSAGE_LIMIT);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let cut = if end < message.len() { "... (cut)" } else { "" };
        // The further lines of a message are indented, so that none can pass for a new one.
        let text = message[..end].trim_end().replace('\r', "").replace('\n', "\n    ");
        let (now, level, agent) = (Timestamp::now(), level.word(), &self.agent_name);
        let line = format!("{now:.3} {level:<7} {agent} {text}{cut}\n");
        self.log.accept(line.as_bytes())
    }
}

/// `log-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "made from the guest's number by the derived `Lift`")]
enum LogLevel {
    #[component(name = "error")]
    Error,
    #[component(name = "warning")]
    Warning,
    #[component(name = "info")]
    Info,
    #[component(name = "debug")]
    Debug,
}

impl LogLevel {
    fn passes(self, level: LoggingLevel) -> bool {
        match self {
            Self::Error | Self::Warning => true,
            Self::Info => level >= LoggingLevel::Info,
            Self::Debug => level >= LoggingLevel::Debug,
        }
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

type Context<'a> = StoreContextMut<'a, State>;

/// Links the interface. The engine takes it for every 0.1 version that a guest names.
///
/// # Errors
/// If a name is taken, which would be a bug.
pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    // Holds types only, but guests import it.
    linker.instance("sandmill:entry/types@0.1.0")?;
    let mut host = linker.instance("sandmill:entry/host@0.1.0")?;
    host.func_wrap("agent-name", |cx: Context<'_>, (): ()| {
        Ok((cx.data().host.agent_name.clone(),))
    })?;
    host.func_wrap("node-id", |cx: Context<'_>, (): ()| Ok((cx.data().host.node_id.clone(),)))?;
    host.func_wrap("log-dir", |cx: Context<'_>, (): ()| Ok((cx.data().host.log_dir.clone(),)))?;
    host.func_wrap("output-dir", |cx: Context<'_>, (): ()| {
        Ok((cx.data().host.output_dir.clone(),))
    })?;
    host.func_wrap("source-dir", |cx: Context<'_>, (): ()| {
        Ok((cx.data().host.source_dir.clone(),))
    })?;
    host.func_wrap("gpu-index", |cx: Context<'_>, (): ()| Ok((cx.data().host.gpu_index,)))?;
    host.func_wrap("log", |cx: Context<'_>, (level, message): (LogLevel, WasmStr)| {
        Ok(cx.data().host.write_log(level, &message.to_str(&cx)?)?)
    })?;
    host.func_wrap("read", |mut cx: Context<'_>, (path,): (WasmStr,)| {
        let path = path.to_str(&cx)?.into_owned();
        let state = cx.data_mut();
        let opened = state.host.files.read(&path).map(|(file, found)| {
            state.noticed.read(&path, found);
            file
        });
        Ok((WholeFile { path, opened },))
    })
}
