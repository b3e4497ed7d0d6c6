//! Reads a file directly into the memory that the guest allocates for it.

use super::error::GuestReadError;
use crate::model::ByteSize;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Seek};
use std::mem::MaybeUninit;
use wasmtime::component::__internal::{
    CanonicalAbiInfo, InstanceType, InterfaceType, LowerContext,
};
use wasmtime::component::{ComponentType, Lower};
use wasmtime::{Result, bail};

/// A regular file that has not been read yet.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    /// The length of the file when it was opened, in bytes.
    pub(super) length: u64,
    /// Whether the file system reports exact lengths.
    pub(super) is_exact: bool,
    /// `limits.read`.
    pub(super) limit: ByteSize,
}

/// `result<list<u8>, string>`: a file's bytes, or why it cannot be read.
pub(super) struct WholeFile {
    pub(super) path: String,
    pub(super) opened: std::result::Result<OpenFile, GuestReadError>,
}

/// The corresponding type of wasmtime.
type Like = std::result::Result<Vec<u8>, String>;

impl WholeFile {
    fn io_error(&self, source: io::Error) -> String {
        GuestReadError::Io { path: self.path.clone(), source }.to_string()
    }

    /// Reads the file into the guest's memory, and returns the address and the length. If that is not
    /// possible, returns a result for wasmtime to lower.
    fn read_into_guest<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
    ) -> Result<std::result::Result<(usize, usize), Like>> {
        let opened = match &self.opened {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(Err(why.to_string()))),
        };
        let read_without_length = || read_to_limit(opened).map_err(|error| self.io_error(error));
        let Some(length) = usize::try_from(opened.length).ok().filter(|length| *length > 0) else {
            return Ok(Err(read_without_length()));
        };
        let start = cx.realloc(0, 0, 1, length)?;
        let buffer = cx.as_slice_mut().get_mut(start..).and_then(|rest| rest.get_mut(..length));
        let Some(buffer) = buffer else {
            bail!("the guest's allocator returned a range outside of its memory")
        };
        // If the length was wrong, the guest loses this memory, because many guests can only allocate and not
        // free.
        Ok(match fill(opened, buffer) {
            Ok(Some(read)) if read == length => Ok((start, length)),
            Ok(Some(read)) => Err(Ok(buffer[..read].to_vec())),
            Ok(None) => Err(read_without_length()),
            Err(error) => Err(Err(self.io_error(error))),
        })
    }
}

/// Reads until the end of the file. Returns the number of bytes, or `None` if the file is longer
/// than `buffer`. To see whether the file is longer, each syscall also reads into one spare byte,
/// which takes 0.1 us more. If the file system reports exact lengths, no spare byte is needed:
/// bytes beyond the length were added after the file was inspected.
fn fill(opened: &OpenFile, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut read = 0;
    let length = buffer.len();
    let file = &opened.file;
    while read < length {
        let mut spare = [0];
        let rest = &mut buffer[read..];
        let taken = if opened.is_exact {
            rustix::io::read(file, rest)
        } else {
            rustix::io::readv(file, &mut [IoSliceMut::new(rest), IoSliceMut::new(&mut spare)])
        };
        match taken {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(read).filter(|read| *read <= length))
}

/// Reads a whole file from its beginning, if the file system reports its length as 0 or too small.
fn read_to_limit(opened: &OpenFile) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    (&opened.file).rewind()?;
    (&opened.file).take(opened.limit.0.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > opened.limit.0 {
        return Err(io::Error::other("it grew beyond limits.read while it was read"));
    }
    Ok(bytes)
}

// SAFETY: everything is delegated to `Like`.
unsafe impl ComponentType for WholeFile {
    type Lower = <Like as ComponentType>::Lower;
    const ABI: CanonicalAbiInfo = <Like as ComponentType>::ABI;
    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
        <Like as ComponentType>::typecheck(ty, types)
    }
}

// SAFETY: the value in memory is a variant with two cases, as `typecheck` verifies: one byte for the case
// (0 for success) and, from offset 4 on, the address and the length. `Like` writes everything else.
unsafe impl Lower for WholeFile {
    fn linear_lower_to_flat<T>(
        &self,
        _: &mut LowerContext<'_, T>,
        _: InterfaceType,
        _: &mut MaybeUninit<Self::Lower>,
    ) -> Result<()> {
        bail!("a result of three values is always returned in memory")
    }

    fn linear_lower_to_memory<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        ty: InterfaceType,
        offset: usize,
    ) -> Result<()> {
        match self.read_into_guest(cx)? {
            Ok((start, length)) => {
                *cx.get(offset) = [0];
                *cx.get(offset + 4) = u32::try_from(start)?.to_le_bytes();
                *cx.get(offset + 8) = u32::try_from(length)?.to_le_bytes();
                Ok(())
            }
            Err(other) => other.linear_lower_to_memory(cx, ty, offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn opened(file: File, is_exact: bool) -> OpenFile {
        OpenFile { file, length: 0, is_exact, limit: ByteSize(4) }
    }

    fn open_file(bytes: &[u8], is_exact: bool) -> OpenFile {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        opened(file, is_exact)
    }

    #[test]
    fn reading_stops_when_the_buffer_is_full() {
        for is_exact in [false, true] {
            let mut buffer = [0; 4];
            let mut fill = |bytes: &[u8]| {
                let read = fill(&open_file(bytes, is_exact), &mut buffer).unwrap();
                read.map(|read| buffer[..read].to_vec())
            };
            assert_eq!(fill(b"abcd").unwrap(), b"abcd");
            // The file has grown since it was inspected, or is longer than reported.
            let grown = is_exact.then(|| b"abcd".to_vec());
            assert_eq!([fill(b"abcde"), fill(b"abcdefghij")], [grown.clone(), grown]);
            assert_eq!(fill(b"xy").unwrap(), b"xy", "it was cut");
            assert_eq!(fill(b"").unwrap(), b"");
            let folder = opened(File::open("/").unwrap(), is_exact);
            assert!(super::fill(&folder, &mut buffer).is_err());
        }
    }

    #[test]
    fn a_file_of_unknown_length_is_read_to_the_limit() {
        let read = |bytes: &[u8]| {
            read_to_limit(&open_file(bytes, false)).map_err(|error| error.to_string())
        };
        assert_eq!(read(b""), Ok(Vec::new()));
        assert_eq!(read(b"abcd"), Ok(b"abcd".to_vec()));
        let grew = "it grew beyond limits.read while it was read";
        assert_eq!(read(b"abcde"), Err(grew.to_owned()));
    }

    /// A component whose `go` calls `read` and returns its memory: the result, and the bytes that it points
    /// to.
    const CALLER: &str = r#"(component
        (import "read" (func $read (result (result (list u8) (error string)))))
        (core module $memory
            (memory (export "memory") 1)
            (global $next (mut i32) (i32.const 128))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (global.get $next))
                (global.set $next (i32.add (local.get $at) (i32.add (local.get 3) (i32.const 8))))
                (local.get $at)))
        (core instance $memory (instantiate $memory))
        (core func $lowered (canon lower (func $read)
            (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
        (core module $caller
            (import "memory" "memory" (memory 1))
            (import "host" "read" (func $read (param i32)))
            (func (export "go") (result i32)
                (call $read (i32.const 64))
                (i32.store (i32.const 0) (i32.const 64))
                (i32.store (i32.const 4) (i32.const 512))
                (i32.const 0)))
        (core instance $caller (instantiate $caller
            (with "memory" (instance $memory))
            (with "host" (instance (export "read" (func $lowered))))))
        (func (export "go") (result (list u8)) (canon lift (core func $caller "go")
            (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))"#;

    /// The content of a guest's memory after it called a host function that returns this value.
    fn lowered<R>(make: impl Fn() -> R + Send + Sync + 'static) -> Vec<u8>
    where
        R: ComponentType + Lower + 'static,
    {
        let engine = wasmtime::Engine::default();
        let code = wat::parse_str(CALLER).unwrap();
        let component = wasmtime::component::Component::new(&engine, code).unwrap();
        let mut linker = wasmtime::component::Linker::<()>::new(&engine);
        linker.root().func_wrap("read", move |_, (): ()| Ok((make(),))).unwrap();
        let mut store = wasmtime::Store::new(&engine, ());
        let instance = linker.instantiate(&mut store, &component).unwrap();
        let go = instance.get_typed_func::<(), (Vec<u8>,)>(&mut store, "go").unwrap();
        go.call(&mut store, ()).unwrap().0
    }

    /// This file relies on internals of wasmtime. The test fails if a new version changes these internals.
    #[test]
    fn a_file_is_lowered_as_wasmtime_lowers_its_bytes() {
        assert_eq!(<WholeFile as ComponentType>::SIZE32, <Like as ComponentType>::SIZE32);
        assert_eq!(<WholeFile as ComponentType>::ALIGN32, <Like as ComponentType>::ALIGN32);
        for (bytes, length) in [(&b"some bytes"[..], 10), (b"", 0), (b"shrunk", 9), (b"grown", 3)] {
            let file = move || WholeFile {
                path: "file".to_owned(),
                opened: Ok(OpenFile { length, limit: ByteSize(100), ..open_file(bytes, false) }),
            };
            let actual = lowered(file);
            let expected = lowered(move || Like::Ok(bytes.to_vec()));
            // Memory that was allocated before the length turned out to be wrong is lost.
            let is_lost = length != 0 && length != bytes.len() as u64;
            if is_lost {
                let start = u32::from_le_bytes(actual[4..8].try_into().unwrap()) as usize - 64;
                assert_eq!((actual[0], &actual[8..12]), (0, &expected[8..12]));
                assert_eq!(&actual[start..start + bytes.len()], bytes);
            } else {
                assert_eq!(actual, expected, "{bytes:?}, {length}");
            }
        }
        let why = || GuestReadError::Long { limit: 4 };
        let refused = move || WholeFile { path: "file".to_owned(), opened: Err(why()) };
        assert_eq!(lowered(refused), lowered(move || Like::Err(why().to_string())));
    }
}
