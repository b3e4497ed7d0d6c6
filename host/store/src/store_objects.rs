//! Small objects of a store, such as the records of a job's commit log. A process that may use the network
//! creates, reads and removes them.

use super::error::StoreError;
use super::process::{Fetcher, FetcherReport};
use crate::protocol::store::{
    FetchRequest, FromFetcher, ObjectAction, ObjectAnswer, ObjectCall, StoreErrorKind,
};
use sandmill_commit_log::{LogStore, too_long};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A call that gets no answer for this long has failed. The process itself repeats requests for up to a minute.
const PATIENCE: Duration = Duration::from_secs(90);
/// Longer contents are divided into messages of this length, in bytes.
const PART_BYTES: usize = 4 << 20;

/// The objects below an address of a store.
#[derive(Debug)]
pub struct StoreObjects {
    program: PathBuf,
    request: FetchRequest,
    /// The process. `None` before the first call, and after a process has ended.
    process: Mutex<Option<Arc<ObjectProcess>>>,
}

/// A process that serves calls.
#[derive(Debug)]
struct ObjectProcess {
    waiting: Arc<Mutex<WaitingCalls>>,
    calls: Mutex<Calls>,
}

#[derive(Debug)]
struct Calls {
    next_id: u64,
    /// To the thread that owns the process. The process ends when this is dropped.
    sender: Sender<ObjectCall>,
}

/// The calls that wait for answers, by their ids.
#[derive(Debug, Default)]
struct WaitingCalls {
    senders: HashMap<u64, Sender<ObjectAnswer>>,
    has_ended: bool,
}

/// Everything that the answers of one call say.
#[derive(Debug, Default)]
struct Answered {
    bytes: Vec<u8>,
    objects: Vec<String>,
    folders: Vec<String>,
    /// Whether an object was created, or exists.
    is_positive: bool,
    /// Whether an object is longer than the caller allows.
    is_too_long: bool,
}

impl StoreObjects {
    /// The objects that a request names. Starts no process yet.
    pub(super) fn new(program: &Path, request: FetchRequest) -> Self {
        Self { program: program.to_owned(), request, process: Mutex::new(None) }
    }

    fn call(&self, parts: &[u8], action: ObjectAction) -> io::Result<Answered> {
        let process = self.process()?;
        let answered = process.call(parts, action);
        if process.has_ended() {
            // The next call starts another process.
            let mut current = lock(&self.process);
            current.take_if(|current| Arc::ptr_eq(current, &process));
        }
        answered
    }

    fn process(&self) -> io::Result<Arc<ObjectProcess>> {
        let mut current = lock(&self.process);
        if let Some(process) = &*current {
            return Ok(Arc::clone(process));
        }
        let process = Arc::new(ObjectProcess::start(&self.program, &self.request)?);
        Ok(Arc::clone(current.insert(process)))
    }
}

impl ObjectProcess {
    fn start(program: &Path, request: &FetchRequest) -> io::Result<Self> {
        let waiting = Arc::new(Mutex::new(WaitingCalls::default()));
        let (sender, calls) = mpsc::channel::<ObjectCall>();
        let (started, is_started) = mpsc::channel();
        let (program, request) = (program.to_owned(), request.clone());
        let answered = Arc::clone(&waiting);
        // The process dies with the thread that starts it. So a thread of its own does.
        let keep = move || {
            let on_report = {
                let answered = Arc::clone(&answered);
                move |report| pass_on(&answered, report)
            };
            let fetcher = match Fetcher::start(&program, &request, on_report) {
                Ok(fetcher) => fetcher,
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(()));
            while let Ok(call) = calls.recv() {
                fetcher.call(&call);
            }
        };
        thread::Builder::new().name("store-objects".to_owned()).spawn(keep)?;
        match is_started.recv() {
            Ok(Ok(())) => Ok(Self { waiting, calls: Mutex::new(Calls { next_id: 0, sender }) }),
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn has_ended(&self) -> bool {
        lock(&self.waiting).has_ended
    }

    /// Sends a call, and waits for its answers. `parts`: the content of an object to create.
    fn call(&self, parts: &[u8], action: ObjectAction) -> io::Result<Answered> {
        let (sender, answers) = mpsc::channel();
        let id = self.send(parts, action, sender);
        let mut answered = Answered::default();
        loop {
            match answers.recv_timeout(PATIENCE) {
                Ok(ObjectAnswer::Part(bytes)) => answered.bytes.extend(bytes),
                Ok(ObjectAnswer::Objects(names)) => answered.objects.extend(names),
                Ok(ObjectAnswer::Folders(names)) => answered.folders.extend(names),
                Ok(ObjectAnswer::Created(is_positive) | ObjectAnswer::Read(is_positive)) => {
                    return Ok(Answered { is_positive, ..answered });
                }
                Ok(ObjectAnswer::TooLong) => {
                    return Ok(Answered { is_too_long: true, ..answered });
                }
                Ok(ObjectAnswer::Listed | ObjectAnswer::Removed) => return Ok(answered),
                Ok(ObjectAnswer::Failed(failed)) => {
                    let kind = io_kind(failed.kind);
                    return Err(io::Error::new(kind, StoreError::from(failed)));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let mut waiting = lock(&self.waiting);
                    waiting.senders.remove(&id);
                    // A process that does not answer is replaced.
                    waiting.has_ended = true;
                    return Err(io::Error::new(ErrorKind::TimedOut, StoreError::Silent(PATIENCE)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let what = "the process that uses the store has ended";
                    return Err(io::Error::new(ErrorKind::BrokenPipe, what));
                }
            }
        }
    }

    /// Sends a call, whose answers go to `sender`. Returns the call's id.
    fn send(&self, parts: &[u8], action: ObjectAction, sender: Sender<ObjectAnswer>) -> u64 {
        let mut calls = lock(&self.calls);
        let id = calls.next_id;
        calls.next_id += 1;
        let mut waiting = lock(&self.waiting);
        // Otherwise the sender is dropped, which shows that no answer will come.
        if !waiting.has_ended {
            waiting.senders.insert(id, sender);
        }
        drop(waiting);
        let parts = parts.chunks(PART_BYTES).map(|part| ObjectAction::Part(part.to_vec()));
        for action in parts.chain([action]) {
            // If the thread has ended, so has the process.
            let _ = calls.sender.send(ObjectCall { id, action });
        }
        id
    }
}

/// Passes an answer on to the call that waits for it. Returns whether the process goes on.
fn pass_on(waiting: &Mutex<WaitingCalls>, report: FetcherReport) -> bool {
    let mut waiting = lock(waiting);
    let Some(Ok(report)) = report else {
        waiting.has_ended = true;
        waiting.senders.clear();
        return false;
    };
    match report {
        FromFetcher::Answer(id, answer) => {
            let is_last = answer.is_last();
            if let Some(sender) = waiting.senders.get(&id) {
                // If this fails, the caller no longer waits.
                let _ = sender.send(answer);
            }
            if is_last {
                waiting.senders.remove(&id);
            }
        }
        // The process ends.
        FromFetcher::Failed(failed) => {
            waiting.has_ended = true;
            for (_, sender) in waiting.senders.drain() {
                let _ = sender.send(ObjectAnswer::Failed(failed.clone()));
            }
        }
        FromFetcher::Progress(_)
        | FromFetcher::Noted
        | FromFetcher::Downloaded(..)
        | FromFetcher::Done(_) => {}
    }
    true
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kind of an error, from which the commit log sees whether another try could succeed.
fn io_kind(kind: StoreErrorKind) -> ErrorKind {
    match kind {
        StoreErrorKind::Denied | StoreErrorKind::Untrusted => ErrorKind::PermissionDenied,
        StoreErrorKind::Invalid => ErrorKind::Unsupported,
        StoreErrorKind::NotFound => ErrorKind::NotFound,
        StoreErrorKind::DiskFull => ErrorKind::StorageFull,
        StoreErrorKind::Throttled => ErrorKind::TimedOut,
        StoreErrorKind::Unreachable => ErrorKind::NetworkUnreachable,
        _ => ErrorKind::Other,
    }
}

impl LogStore for StoreObjects {
    fn make_folder(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.call(bytes, ObjectAction::Create(name.to_owned())).map(|found| found.is_positive)
    }

    /// An object in a store is durable as soon as it can be read.
    fn make_durable(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(&[], ObjectAction::Remove(name.to_owned())).map(drop)
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.read_at_most(name, u64::MAX)
    }

    fn read_at_most(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let found = self.call(&[], ObjectAction::Read(name.to_owned(), most))?;
        if found.is_too_long {
            return Err(too_long(name, most));
        }
        Ok(found.is_positive.then_some(found.bytes))
    }

    fn read_range(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let action = ObjectAction::ReadRange(name.to_owned(), offset, length);
        let found = self.call(&[], action)?;
        Ok(found.is_positive.then_some(found.bytes))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.call(&[], ObjectAction::List(folder.to_owned())).map(|found| found.objects)
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.call(&[], ObjectAction::List(folder.to_owned())).map(|found| found.folders)
    }
}
