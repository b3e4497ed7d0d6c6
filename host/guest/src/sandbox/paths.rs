//! Refuses paths that are too long for the kernel, in all of WASI's file functions that take a path. If the
//! wall hides `openat2`, cap-std opens one part of a path after the other. That takes memory in proportion to
//! the path's length, which nothing else limits.

use super::linked::{CallContext, DescriptorHandle, FileReply};
use super::path_length::length_error;
use super::state::InstanceState;
use wasmtime::Result;
use wasmtime::component::LinkerInstance;
use wasmtime_wasi::filesystem::{WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    ErrorCode, Host, HostDescriptor, NewTimestamp, PathFlags,
};

/// Overrides the WASI path functions that no other module overrides. Must be called before those modules'
/// `link`.
///
/// # Errors
/// If a name is already defined, which would be a bug.
pub(super) fn link(types: &mut LinkerInstance<'_, InstanceState>) -> Result<()> {
    types.func_wrap(
        "[method]descriptor.stat-at",
        |mut cx: CallContext<'_>, (fd, flags, path): (DescriptorHandle, PathFlags, String)| {
            answer(&mut cx, length_error(&path), |files| files.stat_at(fd, flags, path))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.set-times-at",
        |mut cx: CallContext<'_>,
         (fd, flags, path, read, written): (
            DescriptorHandle,
            PathFlags,
            String,
            NewTimestamp,
            NewTimestamp,
        )| {
            answer(&mut cx, length_error(&path), |files| {
                files.set_times_at(fd, flags, path, read, written)
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.metadata-hash-at",
        |mut cx: CallContext<'_>, (fd, flags, path): (DescriptorHandle, PathFlags, String)| {
            answer(&mut cx, length_error(&path), |files| files.metadata_hash_at(fd, flags, path))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.readlink-at",
        |mut cx: CallContext<'_>, (fd, path): (DescriptorHandle, String)| {
            answer(&mut cx, length_error(&path), |files| files.readlink_at(fd, path))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.remove-directory-at",
        |mut cx: CallContext<'_>, (fd, path): (DescriptorHandle, String)| {
            answer(&mut cx, length_error(&path), |files| files.remove_directory_at(fd, path))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.unlink-file-at",
        |mut cx: CallContext<'_>, (fd, path): (DescriptorHandle, String)| {
            answer(&mut cx, length_error(&path), |files| files.unlink_file_at(fd, path))
        },
    )
}

/// Calls WASI's own function, unless the path is too long.
fn answer<T>(
    cx: &mut CallContext<'_>,
    length_error: Option<ErrorCode>,
    ask: impl FnOnce(&mut WasiFilesystemCtxView<'_>) -> FsResult<T>,
) -> FileReply<T> {
    if let Some(code) = length_error {
        return Ok((Err(code),));
    }
    let mut files = cx.data_mut().filesystem();
    match ask(&mut files) {
        Ok(value) => Ok((Ok(value),)),
        Err(error) => Ok((Err(files.convert_error_code(error)?),)),
    }
}
