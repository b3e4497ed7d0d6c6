//! Puts what mini-batches read of the planner's files (unpacked texts, grouped rows) into the job's store, before the leader
//! learns of these mini-batches. A thread reads the files and writes objects: consecutive mini-batches are next to each
//! other in them.

use super::patient::Patience;
use crate::engine::{LogError, LogStore, OBJECT_BYTES, ObjectCutter, spill_folder, spill_object};
use crate::files::read_range;
use crate::model::{
    MiniBatch, MiniBatchSet, MiniBatchWork, SpillPart, StoredBytes, StoredSpill, is_inside,
};
use crate::opening::regular_at_its_path;
use crate::protocol::{FromPlanner, NodeReport};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A store that fails for this long ends the job.
const PATIENCE: Duration = Duration::from_secs(300);
/// How many objects are written at the same time. They are also the most that are in memory.
const WRITTEN_AT_ONCE: usize = 4;
/// The longest time for which a mini-batch waits for others that come into the same object.
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// For each time that objects were written, the pause grows by this much. So a short job does not wait, and a long one
/// makes few objects.
const PAUSE_STEP: Duration = Duration::from_millis(10);
/// No mini-batch waits for more bytes than these.
const ENOUGH: u64 = (WRITTEN_AT_ONCE * OBJECT_BYTES) as u64;
/// The most files of the planner that are open.
const MAX_OPEN: usize = 200;
/// The planner waits while this many of its messages wait for the store.
const MAX_WAITING: usize = 64;

/// Why mini-batches cannot be put into the store. The text is for users.
#[derive(Debug, thiserror::Error)]
enum SpillError {
    #[error("the rows of mini-batches cannot be put into the job store: {0}")]
    Store(#[from] LogError),
    #[error("the rows of mini-batches cannot be put into the job store: {folder}: {source}")]
    Folder { folder: String, source: io::Error },
    #[error("the planner's file {} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the planner named a file outside of its folder: {0}")]
    Outside(String),
}

/// The planner's messages on their way to the leader.
#[derive(Debug)]
pub(super) struct SpillStore {
    objects: Arc<dyn LogStore>,
    run: String,
    /// The planner's folder.
    folder: PathBuf,
    epoch: u64,
    /// The mini-batches that ended in earlier runs. They are not granted.
    done: MiniBatchSet,
    /// To the thread. `None` until a mini-batch needs it.
    thread: Option<mpsc::Sender<FromPlanner>>,
    sender: UnboundedSender<Vec<FromPlanner>>,
    stored: UnboundedReceiver<Vec<FromPlanner>>,
    /// How many messages the thread has.
    waiting: usize,
    /// Whether nothing more is needed in the store.
    stop: Arc<AtomicBool>,
}

impl SpillStore {
    /// For the planner of this run, whose files are in this folder.
    pub(super) fn new(objects: Arc<dyn LogStore>, run: String, folder: PathBuf) -> Self {
        let (sender, stored) = unbounded_channel();
        Self {
            objects,
            run,
            folder,
            epoch: 0,
            done: MiniBatchSet::default(),
            thread: None,
            sender,
            stored,
            waiting: 0,
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Begins to lead with this epoch. `done`: the mini-batches that ended in earlier runs.
    pub(super) fn begin(&mut self, epoch: u64, done: MiniBatchSet) {
        self.epoch = epoch;
        self.done = done;
    }

    /// Whether the planner's next message should be read.
    pub(super) fn has_room(&self) -> bool {
        self.waiting < MAX_WAITING
    }

    /// Takes a message of the planner. Returns it if it need not wait.
    pub(super) fn pass(&mut self, message: FromPlanner) -> Option<FromPlanner> {
        let reads_spill = match &message {
            FromPlanner::MiniBatches(batches) => batches.iter().any(MiniBatch::reads_spill),
            _ => false,
        };
        if self.waiting == 0 && !reads_spill {
            return Some(message);
        }
        if self.thread.is_none() {
            match self.start() {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => {
                    let text = format!("a thread cannot be started: {error}");
                    return Some(FromPlanner::Failed(text));
                }
            }
        }
        self.waiting += 1;
        // If this fails, the thread has sent `Failed`.
        let _ = self.thread.as_ref().map(|thread| thread.send(message));
        None
    }

    fn start(&self) -> io::Result<mpsc::Sender<FromPlanner>> {
        let mut writer = SpillWriter {
            objects: self.objects.clone(),
            run: self.run.clone(),
            folder: self.folder.clone(),
            epoch: self.epoch,
            done: self.done.clone(),
            stop: self.stop.clone(),
            open: HashMap::new(),
            names: None,
            first: 0,
            written: 0,
            cutter: ObjectCutter::default(),
            full: Vec::new(),
        };
        let (sender, messages) = mpsc::channel();
        let stored = self.sender.clone();
        let store = move || {
            if let Err(error) = writer.store_all(&messages, &stored) {
                // If this fails, the job has ended.
                let _ = stored.send(vec![FromPlanner::Failed(error.to_string())]);
            }
        };
        thread::Builder::new().name("spill".to_owned()).spawn(store)?;
        Ok(sender)
    }

    /// The next messages whose mini-batches are in the store. The future can be dropped while it waits.
    pub(super) async fn next(&mut self) -> Vec<NodeReport> {
        match self.stored.recv().await {
            Some(messages) => self.reports(messages),
            // This value has a sender, too.
            None => std::future::pending().await,
        }
    }

    fn reports(&mut self, messages: Vec<FromPlanner>) -> Vec<NodeReport> {
        self.waiting = self.waiting.saturating_sub(messages.len());
        let messages = messages.into_iter().map(NodeReport::Planned);
        // A job whose rows are still being written makes progress.
        std::iter::once(NodeReport::Arrived).chain(messages).collect()
    }

    /// Ends the writing of objects. The rest is useless.
    pub(super) fn close(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread = None;
    }
}

/// What the thread has.
struct SpillWriter {
    objects: Arc<dyn LogStore>,
    run: String,
    folder: PathBuf,
    epoch: u64,
    done: MiniBatchSet,
    stop: Arc<AtomicBool>,
    /// Files of the planner that are open.
    open: HashMap<PathBuf, Arc<File>>,
    /// The last file of names, and where the store has it.
    names: Option<(String, [StoredBytes; 2])>,
    /// The number of the first object that `cutter` makes.
    first: u64,
    /// The bytes that `cutter` has got.
    written: u64,
    cutter: ObjectCutter,
    /// Objects that are complete and not in the store.
    full: Vec<(u64, Vec<u8>)>,
}

impl SpillWriter {
    /// Passes on all messages, each when its mini-batches are in the store.
    fn store_all(
        &mut self,
        messages: &Receiver<FromPlanner>,
        stored: &UnboundedSender<Vec<FromPlanner>>,
    ) -> Result<(), SpillError> {
        let folder = spill_folder(&self.run, self.epoch);
        let made = self.patience().read(|| self.objects.make_folder(&folder));
        made.map_err(|source| SpillError::Folder { folder, source })?;
        let mut pause = Duration::ZERO;
        while let Ok(first) = messages.recv() {
            let due = Instant::now() + pause;
            let mut ready = Vec::new();
            let mut next = Some(first);
            while let Some(message) = next {
                let is_last = matches!(message, FromPlanner::Finished | FromPlanner::Failed(_));
                ready.push(self.with_stored(message)?);
                let is_enough = is_last || self.written >= ENOUGH;
                let left = due.saturating_duration_since(Instant::now());
                next = if is_enough { None } else { messages.recv_timeout(left).ok() };
            }
            self.end_objects()?;
            pause = (pause + PAUSE_STEP).min(MAX_PAUSE);
            if stored.send(ready).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn patience(&self) -> Patience<'_> {
        Patience { most: PATIENCE, stop: &self.stop }
    }

    /// Puts the mini-batches of a message into objects.
    fn with_stored(&mut self, mut message: FromPlanner) -> Result<FromPlanner, SpillError> {
        if let FromPlanner::MiniBatches(batches) = &mut message {
            for batch in batches.iter_mut().filter(|batch| batch.reads_spill()) {
                if self.done.contains(batch.id) {
                    continue;
                }
                let names = match &batch.work {
                    MiniBatchWork::Rows(rows) => Some(self.store_names(rows.name_files())?),
                    _ => None,
                };
                let parts = self.store_parts(&batch.spill_parts())?;
                batch.spill = Some(Box::new(StoredSpill { parts, names }));
            }
        }
        Ok(message)
    }

    fn store_names(&mut self, files: [String; 2]) -> Result<[StoredBytes; 2], SpillError> {
        let [names, index] = files;
        if let Some((_, stored)) = self.names.as_ref().filter(|(stored, _)| *stored == names) {
            return Ok(*stored);
        }
        let mut store_file = |file: &str| {
            let opened = self.file(file)?;
            let failed = |source| SpillError::Read { path: self.folder.join(file), source };
            let length = opened.metadata().map_err(failed)?.len();
            self.store_parts(&[SpillPart { file, offset: 0, length }])
        };
        let stored = [store_file(&names)?, store_file(&index)?];
        self.names = Some((names, stored));
        Ok(stored)
    }

    /// Copies ranges of the planner's files into objects, one after the other.
    fn store_parts(&mut self, parts: &[SpillPart<'_>]) -> Result<StoredBytes, SpillError> {
        let begin = self.written;
        let mut digest = Sha256::new();
        for part in parts {
            let file = self.file(part.file)?;
            let path = self.folder.join(part.file);
            let failed = |source| SpillError::Read { path, source };
            read_range(&file, part.offset, part.length, failed, &mut |bytes| {
                digest.update(bytes);
                self.write(bytes)
            })?;
        }
        let object_bytes = OBJECT_BYTES as u64;
        Ok(StoredBytes {
            epoch: self.epoch,
            object: self.first + begin / object_bytes,
            offset: begin % object_bytes,
            length: self.written - begin,
            sha256: digest.finalize().into(),
        })
    }

    /// Opens a file of the planner. The planner parses untrusted files, so this follows no link out of its folder.
    fn file(&mut self, name: &str) -> Result<Arc<File>, SpillError> {
        if !is_inside(Path::new(name)) {
            return Err(SpillError::Outside(name.to_owned()));
        }
        let path = self.folder.join(name);
        if let Some(file) = self.open.get(&path) {
            return Ok(file.clone());
        }
        if self.open.len() >= MAX_OPEN {
            self.open.clear();
        }
        let opened = regular_at_its_path(&path);
        let (file, _) = opened.map_err(|source| SpillError::Read { path: path.clone(), source })?;
        let file = Arc::new(file);
        self.open.insert(path, file.clone());
        Ok(file)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SpillError> {
        self.written += bytes.len() as u64;
        self.cutter.write(bytes, &mut keep_in(&mut self.full, self.first))?;
        if self.full.len() >= WRITTEN_AT_ONCE { self.create_full() } else { Ok(()) }
    }

    /// Writes all that is not in the store. The next bytes begin another object.
    fn end_objects(&mut self) -> Result<(), SpillError> {
        let cutter = std::mem::take(&mut self.cutter);
        let made = cutter.end(&mut keep_in(&mut self.full, self.first))?;
        self.first += u64::from(made);
        self.written = 0;
        self.create_full()
    }

    fn create_full(&mut self) -> Result<(), SpillError> {
        let full = std::mem::take(&mut self.full);
        let this = &*self;
        let create = |(number, bytes): &(u64, Vec<u8>)| {
            let name = spill_object(&this.run, this.epoch, *number);
            this.patience().create(&*this.objects, &name, bytes)
        };
        let create = &create;
        thread::scope(|scope| {
            let threads: Vec<_> =
                full.iter().map(|object| scope.spawn(move || create(object))).collect();
            let mut ended = threads.into_iter().map(|thread| thread.join());
            ended.try_for_each(|ended| {
                ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        Ok(())
    }
}

/// Keeps objects until they are written. `first`: the number of the first one.
fn keep_in(
    full: &mut Vec<(u64, Vec<u8>)>,
    first: u64,
) -> impl FnMut(u32, &[u8]) -> Result<(), SpillError> {
    move |number, bytes| {
        full.push((first + u64::from(number), bytes.to_vec()));
        Ok(())
    }
}

#[cfg(test)]
#[path = "spill_tests.rs"]
mod tests;
