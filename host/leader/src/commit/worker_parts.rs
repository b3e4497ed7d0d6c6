//! The workers' part files, as the committer reads them.

use super::disk::CommitRefusal;
use super::error::{CommitError, PartFault, Rejection};
use super::message::Success;
use super::worker_folders::WorkerFolders;
use crate::fail_point::Unsynced;
use crate::files::verify;
use crate::model::{Segment, WorkerId};
use rustix::io::Errno;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// At most so many part files are open. Usual systems allow a process 1,024 open files, and a job on many machines may
/// have more workers.
const MOST_OPEN_PARTS: usize = 256;

/// What is known of the workers' part files, and some of these files, opened.
#[derive(Debug)]
pub(super) struct Parts {
    worker_folders: WorkerFolders,
    /// Whether rows are plain lines of text.
    is_plain: bool,
    files: HashMap<WorkerId, File>,
    known: HashMap<WorkerId, KnownPart>,
    /// Workers that no longer write.
    gone: HashSet<WorkerId>,
}

#[derive(Debug, Default)]
struct KnownPart {
    /// The file's length when it was last checked.
    length: u64,
    /// The ranges of committed rows that are still needed: the first byte, and the byte after the last.
    reserved: BTreeMap<u64, u64>,
    /// How many bytes have certainly been synced.
    synced: u64,
}

impl Parts {
    pub(super) fn new(worker_folders: WorkerFolders, is_plain: bool) -> Self {
        Self {
            worker_folders,
            is_plain,
            files: HashMap::new(),
            known: HashMap::new(),
            gone: HashSet::new(),
        }
    }

    /// Checks the segment's position and, for lines, its last byte. Does not read its rows.
    pub(super) fn check(&mut self, success: &Success) -> Result<(), CommitRefusal> {
        let Success { worker, segment, .. } = *success;
        let reject = |fault| CommitRefusal::Reject(Rejection::PartDamaged { worker, fault });
        let path = self.worker_folders.part_file(worker);
        let fatal = |action, error| CommitRefusal::Fatal(CommitError::disk(action, &path, error));
        self.open(worker).map_err(|errno| match errno {
            // These errors show a lack of resources, or a disk failure. The worker may have caused any other error.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO => fatal("open", errno.into()),
            errno => reject(PartFault::Missing(errno)),
        })?;
        let part = self.known.entry(worker).or_default();
        let Some(file) = self.files.get(&worker) else {
            return Err(reject(PartFault::Missing(Errno::BADF)));
        };
        let end = segment.offset.checked_add(segment.length);
        if end.is_none_or(|end| end > part.length) {
            let metadata = file.metadata().map_err(|e| fatal("inspect", e))?;
            if !metadata.is_file() {
                return Err(reject(PartFault::NoFile));
            }
            part.length = metadata.len();
        }
        let Some(end) = end.filter(|end| *end <= part.length) else {
            let Segment { offset, length, .. } = segment;
            let size = part.length;
            return Err(reject(PartFault::Outside { offset, length, size }));
        };
        if let Some((from, to)) = part.reserved.range(..end).next_back()
            && *to > segment.offset
        {
            let Segment { offset, .. } = segment;
            return Err(reject(PartFault::Taken { offset, from: *from, to: *to }));
        }
        if !self.is_plain {
            return match segment.rows {
                0 => Err(reject(PartFault::NoRows(segment.length))),
                _ => Ok(()),
            };
        }
        let mut last = [0];
        file.read_exact_at(&mut last, end - 1).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => reject(PartFault::Cut),
            _ => fatal("read", e),
        })?;
        if last != *b"\n" {
            return Err(reject(PartFault::NoLineEnd));
        }
        if segment.rows == 0 || segment.rows > segment.length {
            let Segment { rows, length, .. } = segment;
            return Err(reject(PartFault::Rows { rows, length }));
        }
        Ok(())
    }

    /// Opens the worker's part file, unless it is open.
    fn open(&mut self, worker: WorkerId) -> Result<(), Errno> {
        if self.files.contains_key(&worker) {
            return Ok(());
        }
        let file = self.worker_folders.open_part(worker)?;
        if self.files.len() >= MOST_OPEN_PARTS {
            self.close();
        }
        if self.files.len() >= MOST_OPEN_PARTS {
            self.files.clear();
        }
        if let Some(part) = self.known.get_mut(&worker) {
            // The path may lead to another file now.
            part.length = 0;
        }
        self.files.insert(worker, file);
        Ok(())
    }

    /// Marks the segment as about to be committed: no other segment may overlap it.
    pub(super) fn reserve(&mut self, worker: WorkerId, segment: &Segment) {
        let Some(part) = self.known.get_mut(&worker).filter(|_| segment.length > 0) else { return };
        let mut from = segment.offset;
        let to = segment.offset.saturating_add(segment.length);
        // Usually, segments are adjacent. Then they become one range.
        if let Some((first, last)) = part.reserved.range(..from).next_back()
            && *last == from
        {
            from = *first;
        }
        part.reserved.insert(from, to);
    }

    /// Forgets the worker's rows: they have been copied, and the worker may overwrite them.
    pub(super) fn release_segments(&mut self, worker: WorkerId) {
        if let Some(part) = self.known.get_mut(&worker) {
            part.reserved.clear();
        }
    }

    /// Syncs the part files of workers. The entries of one worker must be adjacent.
    pub(super) fn sync(
        &mut self,
        workers: impl Iterator<Item = WorkerId>,
    ) -> Result<(), CommitError> {
        let mut last = None;
        for worker in workers.filter(|worker| last.replace(*worker) != Some(*worker)) {
            let file = self.get(worker)?;
            let synced = file
                .metadata()
                .and_then(|found| file.sync_data().map(|()| found.len()))
                .map_err(|e| {
                CommitError::disk("write to disk", &self.worker_folders.part_file(worker), e)
            })?;
            self.known.entry(worker).or_default().synced = synced;
        }
        Ok(())
    }

    /// The part file of a worker, for rows that are in the journal.
    pub(super) fn get(&mut self, worker: WorkerId) -> Result<&File, CommitError> {
        let path = self.worker_folders.part_file(worker);
        let failed = |error: io::Error| CommitError::disk("open", &path, error);
        self.open(worker).map_err(|errno| failed(errno.into()))?;
        let file = self.files.get(&worker).ok_or_else(|| failed(Errno::BADF.into()))?;
        if let Entry::Vacant(vacant) = self.known.entry(worker) {
            let synced = file.metadata().map_err(failed)?.len();
            vacant.insert(KnownPart { length: synced, reserved: [(0, synced)].into(), synced });
            // Close the file again soon: there may be many such workers.
            self.gone.insert(worker);
        }
        Ok(file)
    }

    /// Whether the part file holds the rows undamaged. Also false if the file cannot be read.
    pub(super) fn holds(&mut self, worker: Option<WorkerId>, segment: &Segment) -> bool {
        worker.is_some_and(|w| self.get(w).is_ok_and(|file| verify(file, segment).is_ok()))
    }

    /// Records that a worker no longer writes.
    pub(super) fn mark_gone(&mut self, worker: WorkerId) {
        self.gone.insert(worker);
    }

    /// Closes the files of workers that no longer write. A file is reopened when its held-back rows are
    /// needed.
    pub(super) fn close(&mut self) {
        for worker in self.gone.drain() {
            self.files.remove(&worker);
            self.known.remove(&worker);
        }
    }

    /// What a power failure could lose.
    pub(super) fn unsynced(&self) -> Vec<Unsynced> {
        let unsynced = |(worker, part): (&WorkerId, &KnownPart)| {
            (self.worker_folders.part_file(*worker), part.synced)
        };
        self.known.iter().map(unsynced).collect()
    }
}
