//! The control socket of a running job. Through it, the owner of the job queries the job's state,
//! and ends the job. Each connection carries one question and one answer. Each is a line of JSON
//! with a version.
//!
//! The socket is in the job directory. Clients reach it through a descriptor of that directory, because the
//! path of a socket must be shorter than 108 bytes and the path of a directory may be longer.

use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The version of questions and answers. Increase it with every change, except a new field or a new
/// question.
pub const CONTROL_VERSION: u32 = 1;

/// The longest question or answer, in bytes.
const MAX_LINE_BYTES: usize = 16 << 10;
/// How long sending or receiving one question or answer may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A question to a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum ControlQuestion {
    /// Asks for the job's state.
    State,
    /// Asks the job to end; what is committed is kept.
    Cancel {
        /// Whether running mini-batches are killed instead of finished.
        #[serde(default)]
        at_once: bool,
    },
}

/// A question with its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionedQuestion {
    /// [`CONTROL_VERSION`] of the client.
    pub version: u32,
    /// The question.
    #[serde(flatten)]
    pub ask: ControlQuestion,
}

impl VersionedQuestion {
    /// A question of this version.
    pub fn new(ask: ControlQuestion) -> Self {
        Self { version: CONTROL_VERSION, ask }
    }
}

/// The state of a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveState {
    /// The job runs.
    Running,
    /// The job waits until other jobs leave room for its workers on the machine.
    Waiting,
    /// The job is ending, and begins no new mini-batches.
    WindingDown,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlAnswer {
    /// [`CONTROL_VERSION`] of the job's process.
    pub version: u32,
    /// The job's name.
    pub job: String,
    /// The id of the job's current run.
    pub run: String,
    /// The id of the process that runs the job.
    pub pid: u32,
    /// The job's state, which already includes the effect of this question.
    pub state: LiveState,
    /// Why the job is ending, if it is.
    pub reason: Option<String>,
    /// Why the request was refused; `None` if it was accepted.
    #[serde(default)]
    pub refused: Option<String>,
}

/// Returns a path to the socket through the opened job directory, and that directory. The path is short even
/// if the directory's own path is long. It is valid while the directory is open.
///
/// # Errors
/// If the directory cannot be opened.
pub fn control_path(job_dir: &Path, name: &str) -> io::Result<(OwnedFd, PathBuf)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, job_dir, flags, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()));
    Ok((folder, path))
}

/// Sends a question to the job that runs in a directory, and returns the answer. The errors "not found" and
/// "connection refused" mean that no job runs there.
///
/// # Errors
/// If the job cannot be reached, its answer cannot be read, or it does not answer within two seconds.
pub fn ask(job_dir: &Path, socket: &str, ask: ControlQuestion) -> io::Result<ControlAnswer> {
    let (_folder, path) = control_path(job_dir, socket)?;
    let mut stream = UnixStream::connect(path)?;
    write_line(&mut stream, &VersionedQuestion::new(ask))?;
    read_line(&mut stream)
}

/// Writes one line of JSON.
///
/// # Errors
/// If it cannot be written within two seconds.
pub fn write_line(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&line)
}

/// Reads one line of JSON.
///
/// # Errors
/// If the line is too long, takes too long, or is not valid JSON of this type.
pub fn read_line<T: for<'de> Deserialize<'de>>(stream: &mut UnixStream) -> io::Result<T> {
    let deadline = Instant::now() + TIMEOUT;
    let mut line = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut piece)?;
        line.extend_from_slice(&piece[..read]);
        let newline = line.iter().position(|byte| *byte == b'\n');
        if let Some(length) = newline.or((read == 0).then_some(line.len())) {
            return Ok(serde_json::from_slice(&line[..length])?);
        }
        if line.len() > MAX_LINE_BYTES {
            let text = format!("a line of more than {MAX_LINE_BYTES} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_lines_with_a_version() {
        let text = |ask| serde_json::to_string(&VersionedQuestion::new(ask)).unwrap();
        assert_eq!(text(ControlQuestion::State), r#"{"version":1,"ask":"state"}"#);
        assert_eq!(
            text(ControlQuestion::Cancel { at_once: true }),
            r#"{"version":1,"ask":"cancel","at_once":true}"#
        );
        let read: VersionedQuestion =
            serde_json::from_str(r#"{"version":1,"ask":"cancel"}"#).unwrap();
        assert_eq!(read.ask, ControlQuestion::Cancel { at_once: false });
    }

    #[test]
    fn a_line_has_a_bound_and_a_deadline() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        write_line(&mut one, &VersionedQuestion::new(ControlQuestion::State)).unwrap();
        assert_eq!(read_line::<VersionedQuestion>(&mut other).unwrap().ask, ControlQuestion::State);
        one.write_all(&vec![b'x'; MAX_LINE_BYTES + 1024]).unwrap();
        let error = read_line::<VersionedQuestion>(&mut other).unwrap_err().to_string();
        assert_eq!(error, "a line of more than 16384 bytes");
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.write_all(b"{").unwrap();
        let begin = Instant::now();
        read_line::<VersionedQuestion>(&mut other).unwrap_err();
        assert!(begin.elapsed() >= TIMEOUT && begin.elapsed() < 3 * TIMEOUT);
    }
}
