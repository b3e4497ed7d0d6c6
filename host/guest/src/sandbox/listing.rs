//! Lists a folder entry by entry, when the guest requests an entry. WASI's own listing reads the whole folder
//! first. For a folder with millions of files, that takes more of the host's memory than a guest may use.

use super::linked::CallContext;
use super::state::InstanceState;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::io;
use wasmtime::Result;
use wasmtime::component::{LinkerInstance, Resource, ResourceType};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    DescriptorType, DirectoryEntry, ErrorCode,
};

type Entry = std::result::Result<Option<DirectoryEntry>, ErrorCode>;

/// A folder that is being listed. It takes some kilobytes, regardless of the number of entries.
struct GuestListing(Dir);

/// Replaces WASI's functions that list folders, and their resource.
///
/// # Errors
/// If a name is already defined, which would be a bug.
pub(super) fn link(types: &mut LinkerInstance<'_, InstanceState>) -> Result<()> {
    let listing = ResourceType::host::<GuestListing>();
    types.resource("directory-entry-stream", listing, |mut cx: CallContext<'_>, rep| {
        cx.data_mut().table.delete(Resource::<GuestListing>::new_own(rep))?;
        Ok(())
    })?;
    types.func_wrap(
        "[method]descriptor.read-directory",
        |mut cx: CallContext<'_>, (folder,): (Resource<Descriptor>,)| {
            let table = &mut cx.data_mut().table;
            let opened = match table.get(&folder)? {
                Descriptor::Dir(folder) => Dir::read_from(&folder.dir).map_err(error_code),
                Descriptor::File(_) => Err(ErrorCode::NotDirectory),
            };
            Ok((match opened {
                Ok(dir) => Ok(table.push(GuestListing(dir))?),
                Err(code) => Err(code),
            },))
        },
    )?;
    types.func_wrap(
        "[method]directory-entry-stream.read-directory-entry",
        |mut cx: CallContext<'_>, (listing,): (Resource<GuestListing>,)| {
            Ok((cx.data_mut().table.get_mut(&listing)?.next(),))
        },
    )
}

impl GuestListing {
    fn next(&mut self) -> Entry {
        loop {
            let Some(entry) = self.0.read() else { return Ok(None) };
            let entry = entry.map_err(error_code)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let mut kind = entry.file_type();
            // Some file systems do not report the type.
            if kind == FileType::Unknown {
                let folder = self.0.fd().map_err(error_code)?;
                kind = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    // The file has been removed meanwhile.
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(error_code(errno)),
                };
            }
            let name = name.to_str().map_err(|_| ErrorCode::IllegalByteSequence)?.to_owned();
            return Ok(Some(DirectoryEntry { type_: descriptor_type(kind), name }));
        }
    }
}

fn descriptor_type(kind: FileType) -> DescriptorType {
    match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        _ => DescriptorType::Unknown,
    }
}

fn error_code(errno: Errno) -> ErrorCode {
    let error = io::Error::from(errno);
    wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn each_entry_is_listed_once_with_its_kind() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let at = |name: &str| folder.path().join(name);
        for number in 0..1500 {
            fs::write(at(&format!("f{number:04}")), "").expect("writes");
        }
        fs::create_dir(at("sub")).expect("makes");
        std::os::unix::fs::symlink("nowhere", at("link")).expect("links");
        fs::write(folder.path().join(OsStr::from_bytes(b"\xff")), "").expect("writes");
        let open = File::open(folder.path()).expect("opens");
        let mut listing = GuestListing(Dir::read_from(&open).expect("lists"));
        let mut files = Vec::new();
        let mut others = Vec::new();
        let mut invalid = 0;
        loop {
            match listing.next() {
                Ok(Some(entry)) if matches!(entry.type_, DescriptorType::RegularFile) => {
                    files.push(entry.name);
                }
                Ok(Some(entry)) => others.push(format!("{} {:?}", entry.name, entry.type_)),
                Ok(None) => break,
                Err(code) => {
                    assert!(matches!(code, ErrorCode::IllegalByteSequence), "{code:?}");
                    invalid += 1;
                }
            }
        }
        files.sort();
        files.dedup();
        others.sort();
        assert_eq!((files.len(), invalid), (1500, 1));
        assert_eq!(others, ["link DescriptorType::SymbolicLink", "sub DescriptorType::Directory"]);
        assert!(matches!(listing.next(), Ok(None)), "it stays at its end");
    }
}
