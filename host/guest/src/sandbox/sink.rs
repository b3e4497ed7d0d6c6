//! The files of a guest's stdout, stderr and log, which have a size limit. If `eprintln!` fails in
//! a guest, the guest panics. So a sink accepts all bytes, even if its file cannot be written. But
//! Sandmill ends a call that writes more than `limits.logs`.
//!
//! The first file, `process000.stdout.txt`, keeps the beginning. When it is full, new bytes go to
//! `process000.stdout.txt.1`. When that is full, its content moves to `process000.stdout.txt.2` and replaces
//! the older content there. So three files keep the beginning and the end of the output.
//!
//! The files are opened before the wall is built: behind the wall, a worker cannot use names in a folder that
//! also has other workers' logs. So a worker moves content instead of renaming files. The process that opened
//! the files removes empty ones.

use super::counted::{LimitKind, OverLimit};
use super::quota::WriteQuota;
use crate::model::rotated;
use bytes::Bytes;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// The size limit of each file, in bytes. The lines `[sandmill: ...]` that say where text is missing are not
/// counted.
const FILE_LIMIT: u64 = 16 << 20;
/// The number of last bytes that a sink remembers.
const TAIL_BYTES: usize = 4 << 10;
/// The maximum number of bytes that a guest may write in one call.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// The size of the buffer that moves content between files.
const MOVE_BUFFER_BYTES: usize = 64 << 10;

/// A sink's open files. Successive instances share them.
#[derive(Clone, Debug)]
pub struct SinkFile(Option<Arc<SinkFiles>>);

#[derive(Debug)]
struct SinkFiles {
    /// The name of the first file.
    name: String,
    first: File,
    newest: File,
    older: File,
}

impl SinkFile {
    /// Opens or creates the file at `path` and the two files for later output; existing content
    /// stays. If a file cannot be opened, the sink keeps nothing, because a problem with a log
    /// (such as a full disk) must not end the job.
    pub fn open(path: &Path) -> Self {
        let files = || -> io::Result<SinkFiles> {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let first = append_to(path, false)?;
            // The newest file is also opened for reading, because its content is moved later.
            let newest = append_to(&rotated(path, 1), true)?;
            let older = append_to(&rotated(path, 2), false)?;
            Ok(SinkFiles { name, first, newest, older })
        };
        Self(files().ok().map(Arc::new))
    }

    /// The descriptor of the first file, to which bytes are only appended; it is never truncated.
    pub fn beginning(&self) -> Option<RawFd> {
        self.0.as_ref().map(|files| files.first.as_raw_fd())
    }
}

impl SinkFiles {
    /// Moves the content of the newest file to the older one. If that fails, for example on a full
    /// disk, drops the content to make room for new output.
    fn empty_newest(&self) -> io::Result<()> {
        if self.move_newest().is_err() {
            // Free the space of the partial copy.
            let _ = self.older.set_len(0);
        }
        self.newest.set_len(0)
    }

    fn move_newest(&self) -> io::Result<()> {
        self.older.set_len(0)?;
        let mut buffer = vec![0; MOVE_BUFFER_BYTES];
        let mut offset = 0;
        loop {
            let count = self.newest.read_at(&mut buffer, offset)?;
            if count == 0 {
                break;
            }
            (&self.older).write_all(&buffer[..count])?;
            offset += count as u64;
        }
        Ok(())
    }
}

/// A file that takes what a guest writes. Clones share the sink.
#[derive(Clone)]
pub(super) struct GuestSink {
    inner: Arc<Mutex<SinkInner>>,
    quota: WriteQuota,
}

struct SinkInner {
    files: SinkFile,
    limit: u64,
    target: SinkTarget,
    /// Whether the file ends in the middle of a line.
    in_line: bool,
    /// The last bytes that the guest wrote.
    tail: Vec<u8>,
    /// The number of bytes that the guest wrote.
    total: u64,
}

enum SinkTarget {
    /// Nothing has been written yet.
    Unopened,
    /// The first file, with its size in bytes.
    First(u64),
    /// The newest file, once the first is full.
    Newest(u64),
    /// The file cannot be written.
    Closed,
}

impl GuestSink {
    /// A sink that continues in these files. Its bytes count in `quota`.
    pub(super) fn new(files: &SinkFile, quota: &WriteQuota) -> Self {
        Self::with_limit(files, FILE_LIMIT, quota)
    }

    fn with_limit(files: &SinkFile, limit: u64, quota: &WriteQuota) -> Self {
        let files = files.clone();
        let target = SinkTarget::Unopened;
        let inner = SinkInner { files, limit, target, in_line: false, tail: Vec::new(), total: 0 };
        Self { inner: Arc::new(Mutex::new(inner)), quota: quota.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, SinkInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all bytes, even those with which the call exceeds its limit, so that the user sees them.
    ///
    /// # Errors
    /// If the call has written too much and must end.
    pub(super) fn accept(&self, bytes: &[u8]) -> Result<(), OverLimit> {
        self.lock().accept(bytes);
        self.quota.charge(LimitKind::Logs, bytes.len() as u64)
    }

    /// The number of bytes that the guest has written so far, including those that the files did
    /// not keep.
    pub(super) fn position(&self) -> u64 {
        self.lock().total
    }

    /// The text that the guest has written since `position`, or the end of that text.
    pub(super) fn tail_since(&self, position: u64) -> String {
        let inner = self.lock();
        let new = usize::try_from(inner.total - position).unwrap_or(usize::MAX);
        let start = inner.tail.len().saturating_sub(new);
        String::from_utf8_lossy(&inner.tail[start..]).into_owned()
    }
}

impl SinkInner {
    fn accept(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if bytes.len() >= TAIL_BYTES {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - TAIL_BYTES..]);
        } else {
            let surplus = (self.tail.len() + bytes.len()).saturating_sub(TAIL_BYTES);
            self.tail.drain(..surplus);
            self.tail.extend_from_slice(bytes);
        }
        // Ignore the error: a problem with a log (such as a full disk) must not end the job.
        if self.write(bytes).is_err() {
            self.target = SinkTarget::Closed;
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(files) = self.files.0.clone() else { return Ok(()) };
        while !bytes.is_empty() {
            if matches!(self.target, SinkTarget::Unopened) {
                self.target = resumed_target(&files)?;
            }
            let (mut file, written) = match &mut self.target {
                SinkTarget::First(written) => (&files.first, written),
                SinkTarget::Newest(written) => (&files.newest, written),
                SinkTarget::Unopened | SinkTarget::Closed => return Ok(()),
            };
            let room = usize::try_from(self.limit.saturating_sub(*written)).unwrap_or(usize::MAX);
            let is_new = *written == 0;
            let (now, later) = bytes.split_at(fitting_bytes(bytes, room, is_new, self.in_line));
            *written += now.len() as u64;
            file.write_all(now)?;
            self.in_line = now.last().map_or(self.in_line, |&byte| byte != b'\n');
            bytes = later;
            if !bytes.is_empty() {
                self.rotate(&files)?;
            }
        }
        Ok(())
    }

    /// Continues in a new file.
    fn rotate(&mut self, files: &SinkFiles) -> io::Result<()> {
        let name = &files.name;
        if matches!(self.target, SinkTarget::Newest(_)) {
            files.empty_newest()?;
        } else {
            let mark = format!(
                "\n[sandmill: cut here, after {} bytes; {name}.1 has the newest, {name}.2 the part \
                 before that, if it exists]\n",
                self.limit
            );
            (&files.first).write_all(mark.as_bytes())?;
        }
        let mark =
            format!("[sandmill: the newest of {name}; something may be missing before this]\n");
        (&files.newest).write_all(mark.as_bytes())?;
        self.target = SinkTarget::Newest(0);
        Ok(())
    }
}

/// The file in which an earlier instance stopped, or the first one.
fn resumed_target(files: &SinkFiles) -> io::Result<SinkTarget> {
    let newest = files.newest.metadata()?.len();
    Ok(if newest > 0 {
        SinkTarget::Newest(newest)
    } else {
        SinkTarget::First(files.first.metadata()?.len())
    })
}

/// The number of bytes that fit into the remaining room: whole lines if possible, else a part of a line. A
/// new file takes at least one byte, so that writing makes progress.
fn fitting_bytes(bytes: &[u8], room: usize, is_new: bool, in_line: bool) -> usize {
    if bytes.len() <= room {
        return bytes.len();
    }
    match memchr::memrchr(b'\n', &bytes[..room]) {
        Some(end) => end + 1,
        None if is_new => room.max(1),
        None if in_line => room,
        None => 0,
    }
}

fn append_to(path: &Path, is_read: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // No guest can create a link or FIFO in this folder. If there is one, another program made it, so refuse
    // it.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    options.create(true).append(true).read(is_read).mode(0o600).custom_flags(flags);
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

impl IsTerminal for GuestSink {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestSink {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for GuestSink {
    async fn ready(&mut self) {}
}

impl OutputStream for GuestSink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.accept(&bytes).map_err(|over| StreamError::Trap(over.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE_BYTES)
    }
}

impl AsyncWrite for GuestSink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let accepted = self.accept(bytes).map_err(io::Error::other);
        Poll::Ready(accepted.map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ByteSize, Limits};
    use crate::sandbox::LogFolder;

    fn quota_of(limits: &Limits) -> WriteQuota {
        WriteQuota::new(limits, &LogFolder::new("/nonexistent".into(), 1))
    }

    fn quota() -> WriteQuota {
        quota_of(&Limits::default())
    }

    fn accept(sink: &GuestSink, bytes: &[u8]) {
        sink.accept(bytes).expect("not too much");
    }

    #[test]
    fn a_flood_ends_the_call() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let quota = quota_of(&Limits { logs: ByteSize(10), ..Limits::default() });
        let [mut out, err] = ["out", "err"]
            .map(|name| GuestSink::new(&SinkFile::open(&folder.path().join(name)), &quota));
        assert_eq!(out.accept(b"12345"), Ok(()));
        assert_eq!(err.accept(b"67890"), Ok(()), "both together");
        let over = out.write(Bytes::from_static(b"!")).expect_err("too much");
        let StreamError::Trap(over) = over else { panic!("{over}") };
        assert_eq!(over.downcast_ref::<OverLimit>().map(|over| over.asked), Some(11));
        assert_eq!(out.tail_since(0), "12345!", "kept, although it is over the limit");
        quota.restart();
        assert_eq!(out.accept(b"12345"), Ok(()));
    }

    #[test]
    fn a_sink_keeps_the_beginning_and_the_end() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("stderr.txt");
        let files = SinkFile::open(&path);
        let sink = GuestSink::with_limit(&files, 10, &quota());
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("reads");
        assert_eq!(read("stderr.txt"), "");
        accept(&sink, b"123456");
        let position = sink.position();
        accept(&sink, b"78\n90abc");
        accept(&sink, b"def");
        let first = read("stderr.txt");
        assert_eq!(
            first,
            "12345678\n\n[sandmill: cut here, after 10 bytes; stderr.txt.1 has the newest, stderr.txt.2 the part before that, if it exists]\n"
        );
        let mark = "[sandmill: the newest of stderr.txt; something may be missing before this]\n";
        assert_eq!(read("stderr.txt.1"), format!("{mark}90abcdef"));
        assert_eq!(sink.tail_since(position), "78\n90abcdef");
        // The next instance continues where this one stopped.
        let sink = GuestSink::with_limit(&files, 10 + mark.len() as u64, &quota());
        accept(&sink, b"gh");
        assert_eq!(read("stderr.txt.1"), format!("{mark}90abcdefgh"));
        // A sink does not need the names of its files, which are inaccessible behind the wall.
        let sink = GuestSink::with_limit(&files, 10, &quota());
        for line in 0..100 {
            accept(&sink, format!("line {line}\n").as_bytes());
        }
        accept(&sink, b"the end");
        assert_eq!(read("stderr.txt"), first);
        assert_eq!(read("stderr.txt.1"), format!("{mark}the end"));
        assert_eq!(read("stderr.txt.2"), format!("{mark}line 99\n"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 3);
        // A line longer than a whole file.
        accept(&sink, &[b'x'; 3 * TAIL_BYTES]);
        assert_eq!(sink.tail_since(0), "x".repeat(TAIL_BYTES));
        assert!(read("stderr.txt.2").ends_with(&format!("\n{}", "x".repeat(10))));
    }

    /// Simulates a full disk: content cannot be moved to the older file, which is open only for reading.
    #[test]
    fn new_output_continues_if_older_output_cannot_be_moved() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("log.txt");
        let older = rotated(&path, 2);
        std::fs::write(&older, "unchanged").expect("writes");
        let files = SinkFiles {
            name: "log.txt".into(),
            first: append_to(&path, false).expect("opens"),
            newest: append_to(&rotated(&path, 1), true).expect("opens"),
            older: File::open(&older).expect("opens, for reading only"),
        };
        let sink = GuestSink::with_limit(&SinkFile(Some(Arc::new(files))), 10, &quota());
        for line in 0..9 {
            accept(&sink, format!("line {line}\n").as_bytes());
        }
        let newest = std::fs::read_to_string(rotated(&path, 1)).expect("reads");
        assert!(newest.ends_with("before this]\nline 8\n"), "{newest}");
        assert_eq!(std::fs::read_to_string(older).expect("reads"), "unchanged");
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let link = folder.path().join("log.txt");
        let elsewhere = folder.path().join("elsewhere");
        std::fs::write(&elsewhere, "mine").expect("writes");
        std::os::unix::fs::symlink("elsewhere", &link).expect("links");
        accept(&GuestSink::new(&SinkFile::open(&link), &quota()), b"forged");
        assert_eq!(std::fs::read_to_string(&elsewhere).expect("reads"), "mine");
    }

    #[test]
    fn a_file_that_cannot_be_written_causes_no_error() {
        let sink = GuestSink::new(&SinkFile::open(Path::new("/dev/null/stderr.txt")), &quota());
        accept(&sink, b"still here");
        assert_eq!(sink.tail_since(0), "still here");
    }
}
