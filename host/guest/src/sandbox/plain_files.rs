//! What guests of deterministic jobs see of files, besides names and bytes: sorted listings, and nothing that
//! depends on when or where a file was created.

use super::linked::{CallContext, DescriptorHandle, FileReply};
use super::object_numbers::SeenObjects;
use super::path_length::length_error;
use super::state::InstanceState;
use super::virtual_time::INITIAL_SECONDS;
use std::collections::VecDeque;
use wasmtime::Result;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, Host, HostDescriptor,
    HostDirectoryEntryStream, MetadataHashValue, PathFlags,
};

/// The interface whose functions are replaced, in the version that wasmtime-wasi links.
const FILES_INTERFACE: &str = "wasi:filesystem/types@0.2.12";

/// Replaces WASI's functions that return information about files.
///
/// # Errors
/// If the linker does not allow shadowing.
pub(super) fn link(linker: &mut Linker<InstanceState>) -> Result<()> {
    let mut types = linker.instance(FILES_INTERFACE)?;
    types.func_wrap(
        "[method]descriptor.stat",
        |mut cx: CallContext<'_>, (fd,): (DescriptorHandle,)| {
            answer(cx.data_mut(), |files| files.stat(fd), |stat, _| plain(stat))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.stat-at",
        |mut cx: CallContext<'_>, (fd, flags, path): (DescriptorHandle, PathFlags, String)| {
            if let Some(code) = length_error(&path) {
                return Ok((Err(code),));
            }
            answer(cx.data_mut(), |files| files.stat_at(fd, flags, path), |stat, _| plain(stat))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.metadata-hash",
        |mut cx: CallContext<'_>, (fd,): (DescriptorHandle,)| {
            answer(cx.data_mut(), |files| files.metadata_hash(fd), numbered)
        },
    )?;
    types.func_wrap(
        "[method]descriptor.metadata-hash-at",
        |mut cx: CallContext<'_>, (fd, flags, path): (DescriptorHandle, PathFlags, String)| {
            if let Some(code) = length_error(&path) {
                return Ok((Err(code),));
            }
            answer(cx.data_mut(), |files| files.metadata_hash_at(fd, flags, path), numbered)
        },
    )?;
    types.func_wrap(
        "[method]descriptor.read-directory",
        |mut cx: CallContext<'_>, (fd,): (DescriptorHandle,)| {
            answer(
                cx.data_mut(),
                |files| list(files, fd),
                |(stream, entries), seen| {
                    seen.listings.insert(stream.rep(), entries);
                    stream
                },
            )
        },
    )?;
    types.func_wrap(
        "[method]directory-entry-stream.read-directory-entry",
        |mut cx: CallContext<'_>, (stream,): (Resource<DirectoryEntryStream>,)| -> FileReply<_> {
            let listing = cx.data_mut().seen.listings.get_mut(&stream.rep());
            Ok((Ok(listing.and_then(VecDeque::pop_front)),))
        },
    )
}

/// Calls WASI's own function, and converts its result for the guest.
fn answer<T, U>(
    state: &mut InstanceState,
    ask: impl FnOnce(&mut WasiFilesystemCtxView<'_>) -> FsResult<T>,
    convert: impl FnOnce(T, &mut SeenObjects) -> U,
) -> FileReply<U> {
    let mut files = state.filesystem();
    match ask(&mut files) {
        Ok(found) => Ok((Ok(convert(found, &mut state.seen)),)),
        Err(error) => Ok((Err(files.convert_error_code(error)?),)),
    }
}

/// The kind and size of a file. For a folder, only the kind.
fn plain(found: DescriptorStat) -> DescriptorStat {
    let time = Some(Datetime { seconds: INITIAL_SECONDS, nanoseconds: 0 });
    let is_folder = matches!(found.type_, DescriptorType::Directory);
    DescriptorStat {
        type_: found.type_,
        link_count: 1,
        size: if is_folder { 0 } else { found.size },
        data_access_timestamp: time,
        data_modification_timestamp: time,
        status_change_timestamp: time,
    }
}

/// Replaces the machine's identifier of a file with a number.
fn numbered(found: MetadataHashValue, seen: &mut SeenObjects) -> MetadataHashValue {
    MetadataHashValue { lower: seen.objects.number((found.lower, found.upper)), upper: 0 }
}

/// A folder's entries, sorted by name, and the stream that represents them for the guest.
fn list(
    files: &mut WasiFilesystemCtxView<'_>,
    fd: DescriptorHandle,
) -> FsResult<(Resource<DirectoryEntryStream>, VecDeque<DirectoryEntry>)> {
    let stream = files.read_directory(fd)?;
    let mut entries = Vec::new();
    loop {
        let handle = Resource::new_borrow(stream.rep());
        match files.read_directory_entry(handle) {
            Ok(Some(entry)) => entries.push(entry),
            Ok(None) => break,
            Err(error) => {
                files.table.delete(stream)?;
                return Err(error);
            }
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((stream, entries.into()))
}
