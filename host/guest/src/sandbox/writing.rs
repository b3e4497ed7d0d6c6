//! Replaces the functions of `wasi:filesystem` that create files or write to them, to count what a guest
//! writes. The other functions, and all reading, are WASI's own, except that input files are opened in fewer
//! steps where possible.
//!
//! Only output folders are writable, so only these folders are counted. A write beyond the end of a file
//! leaves a hole, which counts as written, because a later copy of the file writes it.
//!
//! Files in the log folder stay after the call, so their bytes also count after the call. Renaming into or
//! out of the log folder fails, like a rename between two disks: otherwise a call could fill the log folder
//! with bytes that were counted for another folder. Guests cannot create links.

use super::counted::LimitKind;
use super::linked::{CallContext, DescriptorHandle, FileReply};
use super::path_length::length_error;
use super::quota::WriteQuota;
use super::state::InstanceState;
use bytes::Bytes;
use wasmtime::Result;
use wasmtime::component::{LinkerInstance, Resource};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, File, OpenMode, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::sync::filesystem::preopens::Host as _;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    DescriptorFlags, ErrorCode, Host, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{
    DynOutputStream, FsResult, OutputStream, Pollable, StreamError, StreamResult,
};

type Folders = Vec<(DescriptorHandle, String)>;

/// Replaces the functions of WASI.
///
/// # Errors
/// If a name is already defined, which would be a bug.
pub(super) fn link(types: &mut LinkerInstance<'_, InstanceState>) -> Result<()> {
    types.func_wrap("[method]descriptor.write", write)?;
    types.func_wrap("[method]descriptor.write-via-stream", write_via_stream)?;
    types.func_wrap("[method]descriptor.append-via-stream", append_via_stream)?;
    types.func_wrap("[method]descriptor.set-size", set_size)?;
    types.func_wrap("[method]descriptor.open-at", open_at)?;
    types.func_wrap(
        "[method]descriptor.create-directory-at",
        |mut cx: CallContext<'_>, (folder, path): (DescriptorHandle, String)| {
            if let Some(code) = length_error(&path) {
                return Ok((Err(code),));
            }
            let state = cx.data_mut();
            let in_log_folder = state.log_descriptors.contains(&folder);
            state.create_one(in_log_folder, |wasi| {
                wasi.filesystem().create_directory_at(folder, path)
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.symlink-at",
        |_: CallContext<'_>, (_, _, path): (DescriptorHandle, String, String)| {
            refuse_link(&[&path])
        },
    )?;
    types.func_wrap(
        "[method]descriptor.link-at",
        |_: CallContext<'_>, (_, _, path, _, name): (DescriptorHandle, PathFlags, String, DescriptorHandle, String)| {
            refuse_link(&[&path, &name])
        },
    )?;
    types.func_wrap(
        "[method]descriptor.rename-at",
        |mut cx: CallContext<'_>,
         (folder, path, to, name): (DescriptorHandle, String, DescriptorHandle, String)| {
            if let Some(code) = length_error(&path).or(length_error(&name)) {
                return Ok((Err(code),));
            }
            let state = cx.data_mut();
            if state.log_descriptors.contains(&folder) != state.log_descriptors.contains(&to) {
                return Ok((Err(ErrorCode::CrossDevice),));
            }
            let rename =
                |wasi: &mut InstanceState| wasi.filesystem().rename_at(folder, path, to, name);
            state.count(LimitKind::Output, 0, false, rename)
        },
    )
}

/// Replaces the function that returns the preopened folders.
///
/// # Errors
/// As [`link`].
pub(super) fn link_folders(preopens: &mut LinkerInstance<'_, InstanceState>) -> Result<()> {
    preopens.func_wrap("get-directories", |mut cx: CallContext<'_>, (): ()| -> Result<(Folders,)> {
        let state = cx.data_mut();
        let folders = state.filesystem().get_directories()?;
        for (folder, name) in &folders {
            state.log_descriptors.update(folder, *name == state.log_descriptors.folder);
            state.noticed.record_folder(folder.rep(), name);
        }
        Ok((folders,))
    })
}

/// Refuses symbolic and hard links, like a file system that does not support them. A link would
/// stay in the log folder after the job, and Sandmill never publishes a link from the output
/// folder. So the only use of a link would be to make another process follow it.
fn refuse_link(paths: &[&str]) -> FileReply<()> {
    let code = paths.iter().find_map(|path| length_error(path));
    Ok((Err(code.unwrap_or(ErrorCode::NotPermitted)),))
}

fn write(
    mut cx: CallContext<'_>,
    (file, bytes, offset): (Resource<Descriptor>, Vec<u8>, u64),
) -> FileReply<u64> {
    let state = cx.data_mut();
    let amount = state.hole(&file, offset).saturating_add(bytes.len() as u64);
    let in_log_folder = state.log_descriptors.contains(&file);
    state.count(LimitKind::Output, amount, in_log_folder, |wasi| {
        wasi.filesystem().write(file, bytes, offset)
    })
}

fn write_via_stream(
    mut cx: CallContext<'_>,
    (file, offset): (Resource<Descriptor>, u64),
) -> FileReply<Resource<DynOutputStream>> {
    let state = cx.data_mut();
    let amount = state.hole(&file, offset);
    let in_log_folder = state.log_descriptors.contains(&file);
    state.count(LimitKind::Output, amount, in_log_folder, |state| {
        let stream = state.filesystem().write_via_stream(file, offset)?;
        state.metered(stream, in_log_folder)
    })
}

fn append_via_stream(
    mut cx: CallContext<'_>,
    (file,): (Resource<Descriptor>,),
) -> FileReply<Resource<DynOutputStream>> {
    let state = cx.data_mut();
    let in_log_folder = state.log_descriptors.contains(&file);
    state.count(LimitKind::Output, 0, in_log_folder, |state| {
        let stream = state.filesystem().append_via_stream(file)?;
        state.metered(stream, in_log_folder)
    })
}

fn set_size(mut cx: CallContext<'_>, (file, size): (Resource<Descriptor>, u64)) -> FileReply<()> {
    let state = cx.data_mut();
    let amount = state.hole(&file, size);
    let in_log_folder = state.log_descriptors.contains(&file);
    state.count(LimitKind::Output, amount, in_log_folder, |wasi| {
        wasi.filesystem().set_size(file, size)
    })
}

fn open_at(
    mut cx: CallContext<'_>,
    (folder, path_flags, path, open_flags, flags): (
        DescriptorHandle,
        PathFlags,
        String,
        OpenFlags,
        DescriptorFlags,
    ),
) -> FileReply<Resource<Descriptor>> {
    if let Some(code) = length_error(&path) {
        return Ok((Err(code),));
    }
    let state = cx.data_mut();
    let in_log_folder = state.log_descriptors.contains(&folder);
    let creates = open_flags.contains(OpenFlags::CREATE) && {
        let folder = Resource::new_borrow(folder.rep());
        state.filesystem().stat_at(folder, path_flags, path.clone()).is_err()
    };
    let handle = folder.rep();
    let open = |wasi: &mut InstanceState| {
        let is_read = open_flags == OpenFlags::empty() && flags == DescriptorFlags::READ;
        let plain = if is_read { wasi.open_plain(handle, &path) } else { None };
        let opened = match plain {
            Some(file) => wasi.table.push(file)?,
            None => {
                wasi.filesystem().open_at(folder, path_flags, path.clone(), open_flags, flags)?
            }
        };
        wasi.noticed.record_open(handle, &path, opened.rep());
        Ok(opened)
    };
    let answer = if creates {
        state.create_one(in_log_folder, open)
    } else {
        state.count(LimitKind::Output, 0, in_log_folder, open)
    };
    if let Ok((Ok(opened),)) = &answer {
        state.log_descriptors.update(opened, in_log_folder);
    }
    answer
}

impl InstanceState {
    /// Opens a file in a read-only folder, in fewer steps than WASI. `None` if WASI's own function
    /// must open the file.
    fn open_plain(&mut self, folder: u32, path: &str) -> Option<Descriptor> {
        let guest = self.noticed.folder_name(folder)?;
        let file = self.host.files.open_plain(guest, path)?;
        Some(Descriptor::File(File::new(file, FsPerms::ReadOnly, OpenMode::READ, true)))
    }

    /// Runs `work`, which creates one file or folder.
    fn create_one<T>(
        &mut self,
        in_log_folder: bool,
        work: impl FnOnce(&mut Self) -> FsResult<T>,
    ) -> FileReply<T> {
        self.log_descriptors.made_elsewhere |= !in_log_folder;
        self.count(LimitKind::Files, 1, in_log_folder, work)
    }

    /// Counts `amount` and runs `work`, unless the amount exceeds the limit. If `work` fails,
    /// subtracts the amount again.
    fn count<T>(
        &mut self,
        counted: LimitKind,
        amount: u64,
        in_log_folder: bool,
        work: impl FnOnce(&mut Self) -> FsResult<T>,
    ) -> FileReply<T> {
        if amount > 0 {
            self.quota.write(counted, amount, in_log_folder)?;
        }
        match work(self) {
            Ok(value) => Ok((Ok(value),)),
            Err(error) => {
                self.quota.give_back(counted, amount, in_log_folder);
                Ok((Err(self.filesystem().convert_error_code(error)?),))
            }
        }
    }

    /// The number of bytes between the end of a file and `offset`. 0 if the length is unknown: then the
    /// operation fails as well.
    fn hole(&mut self, file: &Resource<Descriptor>, offset: u64) -> u64 {
        if offset == 0 {
            return 0;
        }
        let stat = self.filesystem().stat(Resource::new_borrow(file.rep()));
        stat.map_or(0, |stat| offset.saturating_sub(stat.size))
    }

    /// Replaces a stream with one that counts.
    fn metered(
        &mut self,
        stream: Resource<DynOutputStream>,
        in_log_folder: bool,
    ) -> FsResult<Resource<DynOutputStream>> {
        let inner = self.table.delete(stream)?;
        let metered: DynOutputStream =
            Box::new(Metered { inner, quota: self.quota.clone(), in_log_folder });
        Ok(self.table.push(metered)?)
    }
}

/// A file's stream that counts the bytes written to it.
struct Metered {
    inner: DynOutputStream,
    quota: WriteQuota,
    /// Whether the stream writes to the log folder.
    in_log_folder: bool,
}

impl Metered {
    fn charge(&self, bytes: usize) -> StreamResult<()> {
        let taken = self.quota.write(LimitKind::Output, bytes as u64, self.in_log_folder);
        taken.map_err(|over| StreamError::Trap(over.into()))
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Metered {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Metered {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.charge(bytes.len())?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.charge(bytes.len())?;
        self.inner.blocking_write_and_flush(bytes).await
    }

    fn write_zeroes(&mut self, count: usize) -> StreamResult<()> {
        self.charge(count)?;
        self.inner.write_zeroes(count)
    }

    async fn write_ready(&mut self) -> StreamResult<usize> {
        self.inner.write_ready().await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}
