//! Where a guest's stdout, stderr and log lines go: files that are cut at a size. A sink always
//! accepts, whatever happens to its file, because a guest whose `eprintln!` fails panics.

use bytes::Bytes;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Bytes of each file.
const FILE_LIMIT: u64 = 16 << 20;
/// Bytes of the end that are remembered.
const TAIL: usize = 4 << 10;
/// Bytes that a guest may write at once.
const PERMIT: usize = 64 << 10;

/// A file that takes what a guest writes. Clones are the same sink.
#[derive(Clone)]
pub(super) struct Sink(Arc<Mutex<Inner>>);

struct Inner {
    path: PathBuf,
    limit: u64,
    file: Target,
    tail: Vec<u8>,
    total: u64,
}

enum Target {
    /// Nothing was written yet.
    Unopened,
    Open(File, u64),
    /// The limit is reached, or the file cannot be written.
    Closed,
}

impl Sink {
    /// A sink for a file, which is made at the first byte; what is there already stays.
    pub(super) fn new(path: PathBuf) -> Self {
        Self::with_limit(path, FILE_LIMIT)
    }

    fn with_limit(path: PathBuf, limit: u64) -> Self {
        let inner = Inner { path, limit, file: Target::Unopened, tail: Vec::new(), total: 0 };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes.
    pub(super) fn accept(&self, bytes: &[u8]) {
        self.lock().accept(bytes);
    }

    /// How many bytes were taken so far, kept or not.
    pub(super) fn position(&self) -> u64 {
        self.lock().total
    }

    /// What was taken since `position`, or the end of it.
    pub(super) fn tail_since(&self, position: u64) -> String {
        let inner = self.lock();
        let new = usize::try_from(inner.total - position).unwrap_or(usize::MAX);
        let start = inner.tail.len().saturating_sub(new);
        String::from_utf8_lossy(&inner.tail[start..]).into_owned()
    }
}

impl Inner {
    fn accept(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if bytes.len() >= TAIL {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - TAIL..]);
        } else {
            let surplus = (self.tail.len() + bytes.len()).saturating_sub(TAIL);
            self.tail.drain(..surplus);
            self.tail.extend_from_slice(bytes);
        }
        // A full disk, say, must not end the job for the sake of a log.
        if self.write(bytes).is_err() {
            self.file = Target::Closed;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if matches!(self.file, Target::Unopened) {
            let mut options = OpenOptions::new();
            // These files lie where no guest can make a link; should one be there, it is none of ours.
            options.create(true).append(true).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(&self.path)?;
            let length = file.metadata()?.len();
            self.file = Target::Open(file, length);
        }
        let Target::Open(file, written) = &mut self.file else { return Ok(()) };
        let room = usize::try_from(self.limit.saturating_sub(*written)).unwrap_or(usize::MAX);
        if bytes.len() <= room {
            *written += bytes.len() as u64;
            return file.write_all(bytes);
        }
        file.write_all(&bytes[..room])?;
        let cut = format!("\n[sandmill: cut here, after {} bytes]\n", self.limit);
        // An earlier instance may have reached the limit and said so.
        if *written <= self.limit {
            file.write_all(cut.as_bytes())?;
        }
        self.file = Target::Closed;
        Ok(())
    }
}

impl IsTerminal for Sink {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Sink {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Sink {
    async fn ready(&mut self) {}
}

impl OutputStream for Sink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.accept(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.accept(bytes);
        Poll::Ready(Ok(bytes.len()))
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

    #[test]
    fn a_sink_is_cut_and_remembers_its_end() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("stderr.txt");
        let sink = Sink::with_limit(path.clone(), 10);
        assert!(!path.exists(), "made at the first byte");
        sink.accept(b"123456");
        let position = sink.position();
        sink.accept(b"7890abc");
        sink.accept(b"def");
        let text = std::fs::read_to_string(&path).expect("reads");
        assert_eq!(text, "1234567890\n[sandmill: cut here, after 10 bytes]\n");
        assert_eq!(sink.tail_since(position), "7890abcdef");
        // The next instance does not say it again.
        Sink::with_limit(path.clone(), 10).accept(b"more");
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), text);
        sink.accept(&[b'x'; 3 * TAIL]);
        assert_eq!(sink.tail_since(0), "x".repeat(TAIL));
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (link, elsewhere) = (folder.path().join("log.txt"), folder.path().join("elsewhere"));
        std::fs::write(&elsewhere, "mine").expect("writes");
        std::os::unix::fs::symlink("elsewhere", &link).expect("links");
        Sink::new(link).accept(b"forged");
        assert_eq!(std::fs::read_to_string(&elsewhere).expect("reads"), "mine");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_no_error() {
        let sink = Sink::new(PathBuf::from("/nonexistent/stderr.txt"));
        sink.accept(b"still here");
        assert_eq!(sink.tail_since(0), "still here");
    }
}
