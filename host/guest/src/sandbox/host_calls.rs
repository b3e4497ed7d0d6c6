//! The interface `sandmill:entry/host`.

use super::host::LogLevel;
use super::linked::CallContext;
use super::state::InstanceState;
use super::whole_file::WholeFile;
use wasmtime::Result;
use wasmtime::component::{Linker, LinkerInstance, WasmStr};

/// Links the interface in all versions that guests may import. For an import of version 0.1.x, the engine
/// uses 0.1.0; for 0.2.x, it uses 0.2.0.
///
/// # Errors
/// If a name is already defined, which would be a bug.
pub(super) fn link(linker: &mut Linker<InstanceState>) -> Result<()> {
    // This interface contains only types, but guests import it.
    linker.instance("sandmill:entry/types@0.1.0")?;
    linker.instance("sandmill:entry/types@0.2.0")?;
    link_first_version(&mut linker.instance("sandmill:entry/host@0.1.0")?)?;
    let mut host = linker.instance("sandmill:entry/host@0.2.0")?;
    link_first_version(&mut host)?;
    host.func_wrap("logging-level", |cx: CallContext<'_>, (): ()| {
        Ok((LogLevel::from(cx.data().host.level),))
    })
}

/// Links the functions of version 0.1.
fn link_first_version(host: &mut LinkerInstance<'_, InstanceState>) -> Result<()> {
    host.func_wrap("agent-name", |cx: CallContext<'_>, (): ()| {
        Ok((cx.data().host.agent_name.clone(),))
    })?;
    host.func_wrap("node-id", |cx: CallContext<'_>, (): ()| Ok((cx.data().host.node_id.clone(),)))?;
    host.func_wrap("log-dir", |cx: CallContext<'_>, (): ()| Ok((cx.data().host.log_dir.clone(),)))?;
    host.func_wrap("output-dir", |cx: CallContext<'_>, (): ()| {
        Ok((cx.data().host.output_dir.clone(),))
    })?;
    host.func_wrap("source-dir", |cx: CallContext<'_>, (): ()| {
        Ok((cx.data().host.source_dir.clone(),))
    })?;
    host.func_wrap("gpu-index", |cx: CallContext<'_>, (): ()| Ok((cx.data().host.gpu_index,)))?;
    host.func_wrap("log", |cx: CallContext<'_>, (level, message): (LogLevel, WasmStr)| {
        Ok(cx.data().host.write_log(level, &message.to_str(&cx)?)?)
    })?;
    host.func_wrap("read", |mut cx: CallContext<'_>, (path,): (WasmStr,)| {
        let path = path.to_str(&cx)?.into_owned();
        let state = cx.data_mut();
        let opened = state.host.files.read(&path).map(|(file, found)| {
            state.noticed.record_read(&path, found);
            file
        });
        Ok((WholeFile { path, opened },))
    })
}
