//! The control socket of a running job. It has its own thread. So a client that is slow or sends garbage can
//! delay other clients, but never the job.
//!
//! Only the job's user and root may use it: the socket's mode keeps other users out, and the kernel reports
//! the user of each peer. Workers cannot reach the socket, because their sandbox lets them create no sockets.

use crate::cancel::Cancel;
use crate::event::EventKind;
use crate::model::{CONTROL_SOCKET, JobDir};
use crate::protocol::control::{
    CONTROL_VERSION, ControlAnswer, ControlQuestion, LiveState, VersionedQuestion, control_path,
    read_line, write_line,
};
use rustix::fs::{Mode, chmodat, unlinkat};
use rustix::net::Shutdown;
use rustix::net::sockopt::socket_peercred;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The reason that is recorded when a client cancels the job.
const CANCEL_REASON: &str = "sandmill cancel";

/// Pause after a failed `accept`, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that answers until this value is dropped.
#[derive(Debug)]
pub(super) struct Control {
    /// The job directory.
    folder: OwnedFd,
    shared: Arc<SharedControl>,
}

#[derive(Debug)]
struct SharedControl {
    listener: UnixListener,
    job: String,
    run: String,
    cancel: Cancel,
    /// Whether the job waits for its turn.
    is_waiting: AtomicBool,
    has_ended: AtomicBool,
}

impl Control {
    /// Listens in a job directory that this process holds. Replaces a socket that a killed process left.
    ///
    /// # Errors
    /// If the directory cannot have a socket.
    pub(super) fn open(
        job_dir: &JobDir,
        job: &str,
        run: &str,
        cancel: &Cancel,
    ) -> io::Result<Self> {
        let (folder, path) = control_path(job_dir.root(), CONTROL_SOCKET)?;
        remove_socket(&folder);
        let listener = UnixListener::bind(path)?;
        let owner_only = Mode::RUSR | Mode::WUSR;
        chmodat(&folder, CONTROL_SOCKET, owner_only, rustix::fs::AtFlags::empty())?;
        let shared = Arc::new(SharedControl {
            listener,
            job: job.to_owned(),
            run: run.to_owned(),
            cancel: cancel.clone(),
            is_waiting: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        let thread = thread::Builder::new().name("control".to_owned()).spawn({
            let shared = shared.clone();
            move || shared.serve()
        });
        match thread {
            Ok(_) => Ok(Self { folder, shared }),
            Err(error) => {
                remove_socket(&folder);
                Err(error)
            }
        }
    }

    /// Records the events that later answers mention.
    pub(super) fn observe(&self, kind: &EventKind) {
        match kind {
            EventKind::WaitsForTurn => self.shared.is_waiting.store(true, Ordering::Relaxed),
            EventKind::WorkerStarted { .. } => {
                self.shared.is_waiting.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        // Remove the name first, so that new clients find no socket.
        remove_socket(&self.folder);
        // Wakes the thread. We do not join it, because a silent client may block it for some seconds.
        let _ = rustix::net::shutdown(&self.shared.listener, Shutdown::Both);
    }
}

/// Removes the socket, if it exists.
fn remove_socket(folder: &OwnedFd) {
    // If this fails, `bind` fails too, and its error is reported.
    let _ = unlinkat(folder, CONTROL_SOCKET, rustix::fs::AtFlags::empty());
}

impl SharedControl {
    fn serve(&self) {
        while !self.has_ended.load(Ordering::Acquire) {
            match self.listener.accept() {
                // A client that fails to read its answer does not concern the job.
                Ok((stream, _)) => drop(self.answer(stream)),
                Err(_) if self.has_ended.load(Ordering::Acquire) => return,
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
        }
    }

    fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        let peer = socket_peercred(&stream)?.uid;
        if !peer.is_root() && peer != rustix::process::geteuid() {
            return Ok(());
        }
        let refused = match read_line::<VersionedQuestion>(&mut stream) {
            Ok(asked) if asked.version != CONTROL_VERSION => {
                let found = asked.version;
                Some(format!(
                    "the question has version {found}, and this job's process knows version \
                     {CONTROL_VERSION}"
                ))
            }
            Ok(asked) => {
                self.carry_out(asked.ask);
                None
            }
            Err(error) => Some(format!("the job's process does not know this question: {error}")),
        };
        write_line(&mut stream, &self.current_answer(refused))
    }

    fn carry_out(&self, question: ControlQuestion) {
        match question {
            ControlQuestion::State => {}
            ControlQuestion::Cancel { at_once: false } => self.cancel.cancel(CANCEL_REASON),
            ControlQuestion::Cancel { at_once: true } => self.cancel.cancel_at_once(CANCEL_REASON),
        }
    }

    fn current_answer(&self, refused: Option<String>) -> ControlAnswer {
        let reason = self.cancel.reason();
        let state = match (&reason, self.is_waiting.load(Ordering::Relaxed)) {
            (Some(_), _) => LiveState::WindingDown,
            (None, true) => LiveState::Waiting,
            (None, false) => LiveState::Running,
        };
        ControlAnswer {
            version: CONTROL_VERSION,
            job: self.job.clone(),
            run: self.run.clone(),
            pid: std::process::id(),
            state,
            reason,
            refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::control::ask;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn open(path: &Path, cancel: &Cancel) -> Control {
        Control::open(&JobDir::new(path), "iris", "run-1", cancel).unwrap()
    }

    #[test]
    fn the_socket_answers_and_obeys_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join(CONTROL_SOCKET);
        let cancel = Cancel::new();
        let control = open(dir.path(), &cancel);
        assert_eq!(socket.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let state = || ask(dir.path(), CONTROL_SOCKET, ControlQuestion::State).unwrap();
        assert_eq!((state().state, state().job.as_str()), (LiveState::Running, "iris"));
        control.observe(&EventKind::WaitsForTurn);
        assert_eq!(state().state, LiveState::Waiting);
        let asked = ControlQuestion::Cancel { at_once: true };
        let answer = ask(dir.path(), CONTROL_SOCKET, asked).unwrap();
        assert_eq!((answer.state, answer.refused), (LiveState::WindingDown, None));
        assert_eq!(cancel.reason().as_deref(), Some(CANCEL_REASON));
        drop(control);
        assert!(socket.symlink_metadata().is_err());
        assert!(ask(dir.path(), CONTROL_SOCKET, ControlQuestion::State).is_err());
    }

    /// A socket's path may have only 108 bytes (`sun_path`), but the job directory's path may be longer. A
    /// killed process leaves a socket without a listener.
    #[test]
    fn long_paths_and_leftovers_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(200)).join("y".repeat(200));
        std::fs::create_dir_all(&long).unwrap();
        let (_folder, path) = control_path(&long, CONTROL_SOCKET).unwrap();
        drop(UnixListener::bind(path).unwrap());
        let error = ask(&long, CONTROL_SOCKET, ControlQuestion::State).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let control = open(&long, &Cancel::new());
        assert_eq!(
            ask(&long, CONTROL_SOCKET, ControlQuestion::State).unwrap().state,
            LiveState::Running
        );
        drop(control);
    }

    #[test]
    fn nonsense_is_refused_and_later_questions_are_answered() {
        let dir = tempfile::tempdir().unwrap();
        let cancel = Cancel::new();
        let _control = open(dir.path(), &cancel);
        for nonsense in ["\n", "{}\n", "{\"version\":2,\"ask\":\"cancel\"}\n"] {
            let (_folder, path) = control_path(dir.path(), CONTROL_SOCKET).unwrap();
            let mut stream = UnixStream::connect(path).unwrap();
            stream.write_all(nonsense.as_bytes()).unwrap();
            let answer: ControlAnswer = read_line(&mut stream).unwrap();
            assert!(answer.refused.is_some(), "{nonsense}");
        }
        assert_eq!(cancel.reason(), None);
        assert!(ask(dir.path(), CONTROL_SOCKET, ControlQuestion::State).is_ok());
    }

    /// A client that connects and sends nothing does not delay the job's end.
    #[test]
    fn a_silent_client_does_not_delay_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let control = open(dir.path(), &Cancel::new());
        let (_folder, path) = control_path(dir.path(), CONTROL_SOCKET).unwrap();
        let _silent = UnixStream::connect(path).unwrap();
        let begin = std::time::Instant::now();
        drop(control);
        assert!(begin.elapsed() < Duration::from_secs(1));
    }
}
