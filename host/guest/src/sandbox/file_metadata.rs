//! Records the results of the guest's `stat` calls on open files.

use super::state::InstanceState;
use wasmtime::component::{LinkerInstance, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    DescriptorStat, ErrorCode, Host, HostDescriptor,
};

/// Replaces WASI's `stat` of an open descriptor.
///
/// # Errors
/// If a name is already defined, which would be a bug.
pub(super) fn link(types: &mut LinkerInstance<'_, InstanceState>) -> Result<()> {
    types.func_wrap(
        "[method]descriptor.stat",
        |mut cx: StoreContextMut<'_, InstanceState>, (descriptor,): (Resource<Descriptor>,)| {
            let state = cx.data_mut();
            let handle = descriptor.rep();
            let answer: std::result::Result<DescriptorStat, ErrorCode> =
                match state.filesystem().stat(descriptor) {
                    Ok(stat) => {
                        state.noticed.record_stat(handle, &stat);
                        Ok(stat)
                    }
                    Err(error) => Err(state.filesystem().convert_error_code(error)?),
                };
            Ok((answer,))
        },
    )
}
