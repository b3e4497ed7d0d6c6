//! Committing one group: check, sync the part files, journal, append, publish.

use super::commit::{CommitRequest, CommitTarget, FinalFailure, Success};
use crate::journal::{End, Entry, Journal};
use crate::model::{Failure, FailureKind, JobDir, JobStatus, MiniBatchId, Segment, WorkerId};
use crate::output::{Appender, check_files, discard_files, publish_files};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a failure's message that are journaled.
const MESSAGE: usize = 4096;

/// Everything that the committer writes to.
#[derive(Debug)]
pub(super) struct Store {
    job_dir: JobDir,
    output: PathBuf,
    appender: Option<Appender>,
    journal: Journal,
    parts: HashMap<WorkerId, Part>,
    /// Whether any file was published.
    published: bool,
}

/// A worker's part file, open.
#[derive(Debug)]
struct Part {
    file: File,
    /// Where the next segment may begin.
    end: u64,
}

/// What became of a group.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) committed: Vec<MiniBatchId>,
    pub(super) rejected: Vec<(Success, Failure)>,
    /// To be committed next: the first one's files have names that others of the group have too.
    pub(super) postponed: Vec<CommitRequest>,
}

/// Why an attempt is not committed.
enum Refusal {
    /// It is the attempt's fault.
    Reject(Failure),
    /// Its files clash with those of the same group.
    Postpone,
    /// It is the machine's fault.
    Fatal(String),
}

impl Store {
    /// Makes the output file. Errors are for people.
    pub(super) fn create(target: CommitTarget, journal: Journal) -> Result<Self, String> {
        let CommitTarget { job_dir, output, output_file } = target;
        let appender = match output_file {
            Some(name) => Some(Appender::create(&output.join(name)).map_err(|e| e.to_string())?),
            None => None,
        };
        let (parts, published) = (HashMap::new(), false);
        Ok(Self { job_dir, output, appender, journal, parts, published })
    }

    /// Commits what can be committed. An error is fatal, and for people.
    pub(super) fn commit(&mut self, requests: Vec<CommitRequest>) -> Result<Done, String> {
        let mut done = Done::default();
        let (mut entries, mut gone) = (Vec::with_capacity(requests.len()), Vec::new());
        let mut names = Names::default();
        for request in requests {
            if !done.postponed.is_empty() {
                // The segments of a worker must stay in their order.
                done.postponed.push(request);
                continue;
            }
            match request {
                CommitRequest::WorkerGone(worker) => gone.push(worker),
                CommitRequest::Failure(failure) => entries.push(failed(failure)),
                CommitRequest::Success(success) => match self.check(&success, &mut names) {
                    Ok(()) => entries.push(succeeded(&success)),
                    Err(Refusal::Fatal(text)) => return Err(text),
                    Err(Refusal::Postpone) => {
                        done.postponed.push(CommitRequest::Success(success));
                    }
                    Err(Refusal::Reject(failure)) => {
                        self.discard(&success);
                        done.rejected.push((success, failure));
                    }
                },
            }
        }
        // Segments of one part file that touch are copied as one.
        entries.sort_by_key(|entry| entry.worker);
        if !entries.is_empty() {
            self.write(&entries)?;
        }
        for worker in gone {
            self.parts.remove(&worker);
        }
        done.committed = entries.iter().map(|entry| entry.id).collect();
        Ok(done)
    }

    /// The order of these steps is the promise that no row is lost or doubled.
    fn write(&mut self, entries: &[Entry]) -> Result<(), String> {
        self.sync_files(entries)?;
        self.sync_parts(entries)?;
        self.journal.commit(entries).map_err(|e| e.to_string())?;
        self.append(entries)?;
        for entry in entries {
            if let (End::Succeeded { has_files: true, .. }, Some(worker)) =
                (&entry.end, entry.worker)
            {
                let staged = self.job_dir.staged(worker, entry.id, entry.attempts);
                self.published = true;
                publish_files(&staged, &self.output).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }

    /// Syncs the output and notes the job's end.
    pub(super) fn finish(&mut self, status: JobStatus) -> Result<(), String> {
        if let Some(appender) = &self.appender {
            appender.sync().map_err(|e| e.to_string())?;
        }
        if self.published {
            // One call for all folders that files were moved into.
            sync_around(&self.output)?;
        } else if self.appender.is_some() {
            sync_folder(&self.output)?;
        }
        self.journal.finish(status).map_err(|e| e.to_string())
    }

    /// Whether all that an attempt left is as it must be. After this nothing but the machine can
    /// prevent its commit.
    fn check(&mut self, success: &Success, names: &mut Names) -> Result<(), Refusal> {
        if success.segment.length > 0 {
            self.check_segment(success)?;
        }
        if success.has_files {
            let staged = self.job_dir.staged(success.worker, success.id, success.attempt);
            check_files(&staged, &self.output).map_err(|error| {
                if error.is_guest_fault() {
                    let failure = Failure::new(FailureKind::BadOutput, error.to_string());
                    Refusal::Reject(failure)
                } else {
                    Refusal::Fatal(error.to_string())
                }
            })?;
            if !names.take(&staged) {
                return Err(Refusal::Postpone);
            }
        }
        if let Some(part) = self.parts.get_mut(&success.worker) {
            let Segment { offset, length, .. } = success.segment;
            part.end = part.end.max(offset.saturating_add(length));
        }
        Ok(())
    }

    /// Looks at the segment's place and its last byte, never at what it holds.
    fn check_segment(&mut self, success: &Success) -> Result<(), Refusal> {
        let Success { worker, segment, .. } = *success;
        let reject = |what: String| {
            let text = format!("{worker} reported rows that its part file does not hold: {what}");
            Refusal::Reject(Failure::new(FailureKind::HostFault, text))
        };
        if self.appender.is_none() {
            return Err(reject("this job keeps no rows".into()));
        }
        if !self.parts.contains_key(&worker) {
            let path = self.job_dir.part_file(worker);
            let file = open_part(&path).map_err(|errno| match errno {
                Errno::NOENT | Errno::LOOP => reject(format!("the file is missing ({errno})")),
                errno => fatal("open", &path, &errno.into()),
            })?;
            self.parts.insert(worker, Part { file, end: 0 });
        }
        // It was put there just now, if it was not there before.
        let Some(part) = self.parts.get(&worker) else { return Ok(()) };
        let path = || self.job_dir.part_file(worker);
        let metadata = part.file.metadata().map_err(|e| fatal("look at", &path(), &e))?;
        if !metadata.is_file() {
            return Err(reject("it is no ordinary file".into()));
        }
        let end = segment.offset.checked_add(segment.length);
        let Some(end) = end.filter(|end| *end <= metadata.len()) else {
            let (Segment { offset, length, .. }, size) = (segment, metadata.len());
            return Err(reject(format!("{length} bytes at {offset}, but it has {size}")));
        };
        if segment.offset < part.end {
            let (Segment { offset, .. }, taken) = (segment, part.end);
            return Err(reject(format!("those at {offset} are rows of another attempt ({taken})")));
        }
        let mut last = [0];
        part.file.read_exact_at(&mut last, end - 1).map_err(|e| fatal("read", &path(), &e))?;
        if last != *b"\n" {
            return Err(reject("they do not end with a line end".into()));
        }
        Ok(())
    }

    /// Removes the files of an attempt that counts for nothing. Should some stay, they lie among the
    /// job's working files, and nothing refers to them.
    fn discard(&self, success: &Success) {
        if success.has_files {
            let staged = self.job_dir.staged(success.worker, success.id, success.attempt);
            let _ = discard_files(&staged);
        }
    }

    /// Puts the staged files of the entries on the disk, with the folders that they lie in. One
    /// call for all, because one call each would cost a hundred times as much.
    fn sync_files(&self, entries: &[Entry]) -> Result<(), String> {
        let has_files = |entry: &Entry| matches!(entry.end, End::Succeeded { has_files: true, .. });
        if entries.iter().any(has_files) { sync_around(&self.job_dir.work()) } else { Ok(()) }
    }

    fn sync_parts(&self, entries: &[Entry]) -> Result<(), String> {
        for same in entries.chunk_by(|a, b| a.worker == b.worker) {
            if let Some((worker, part, _)) = self.rows_of(same) {
                let path = self.job_dir.part_file(worker);
                part.file.sync_data().map_err(|e| machine("write to disk", &path, &e))?;
            }
        }
        Ok(())
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), String> {
        // Taken out, so that the part files can be looked up meanwhile.
        let Some(mut appender) = self.appender.take() else { return Ok(()) };
        for same in entries.chunk_by(|a, b| a.worker == b.worker) {
            if let Some((_, part, segments)) = self.rows_of(same) {
                appender.append_all(&part.file, &segments).map_err(|e| e.to_string())?;
            }
        }
        self.appender = Some(appender);
        Ok(())
    }

    /// The segments of entries of one worker, with its part file; `None` if there are no rows.
    fn rows_of(&self, entries: &[Entry]) -> Option<(WorkerId, &Part, Vec<Segment>)> {
        let worker = entries.first()?.worker?;
        let segments: Vec<Segment> = entries
            .iter()
            .filter_map(|entry| match entry.end {
                End::Succeeded { segment, .. } if segment.length > 0 => Some(segment),
                _ => None,
            })
            .collect();
        if segments.is_empty() { None } else { Some((worker, self.parts.get(&worker)?, segments)) }
    }
}

/// Opens what a worker made, without following a link or waiting for a pipe's other end.
fn open_part(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Waits until all that was written to the file system of a folder is on the disk.
fn sync_around(folder: &Path) -> Result<(), String> {
    File::open(folder)
        .and_then(|opened| Ok(rustix::fs::syncfs(opened)?))
        .map_err(|e| machine("write to disk", folder, &e))
}

/// Waits until the names in a folder are on the disk.
fn sync_folder(folder: &Path) -> Result<(), String> {
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|e| machine("write to disk", folder, &e))
}

fn fatal(action: &str, path: &Path, error: &io::Error) -> Refusal {
    Refusal::Fatal(machine(action, path, error))
}

fn machine(action: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {action} {}: {error}; check the disk, then run the job again", path.display())
}

fn succeeded(success: &Success) -> Entry {
    Entry {
        id: success.id,
        attempts: success.attempt,
        worker: Some(success.worker),
        items: success.items,
        end: End::Succeeded { segment: success.segment, has_files: success.has_files },
    }
}

fn failed(failure: FinalFailure) -> Entry {
    let FinalFailure { id, attempts, worker, items, failure, .. } = failure;
    let Failure { kind, mut message, .. } = failure;
    // An entry script may say as much as a frame holds, and do so for every mini-batch.
    message.truncate(message.floor_char_boundary(MESSAGE));
    let end = End::Failed { kind, message };
    Entry { id, attempts, worker, items, end }
}

/// Names that a group's files may take together: with more, the rest comes in a group of its own.
const NAMES: usize = 500_000;

/// The names that the files of a group will take, as hashes, which bounds what they cost. Two names
/// with one hash postpone an attempt that could have come along, and no more.
#[derive(Debug, Default)]
struct Names {
    seed: RandomState,
    files: HashSet<u64>,
    folders: HashSet<u64>,
}

impl Names {
    /// Takes the names of all that lies in `staged`; false, with nothing taken, if one of them is
    /// taken already or there is no room for them. A folder may be shared.
    fn take(&mut self, staged: &Path) -> bool {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        // What cannot be listed was found by the check before, or will be by publishing.
        for entry in walkdir::WalkDir::new(staged).min_depth(1).into_iter().flatten() {
            let Ok(name) = entry.path().strip_prefix(staged) else { continue };
            if entry.file_type().is_dir() { &mut folders } else { &mut files }
                .push(self.seed.hash_one(name));
        }
        let before = self.files.len() + self.folders.len();
        let clash = files.iter().any(|f| self.files.contains(f) || self.folders.contains(f))
            || folders.iter().any(|folder| self.files.contains(folder))
            || before > 0 && before + files.len() + folders.len() > NAMES;
        if !clash {
            self.files.extend(files);
            self.folders.extend(folders);
        }
        !clash
    }
}

#[cfg(test)]
impl Store {
    /// Points the output file elsewhere, to see what a full disk does.
    pub(super) fn write_rows_to(&mut self, path: &Path) {
        self.appender = Appender::open(path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_no_more_names_than_it_has_room_for() {
        let staged = tempfile::tempdir().unwrap();
        std::fs::write(staged.path().join("a"), "").unwrap();
        let mut names = Names::default();
        names.files.extend(0..NAMES as u64);
        assert!(!names.take(staged.path()), "full");
        let mut names = Names::default();
        assert!(names.take(staged.path()));
        assert!(!names.take(staged.path()), "taken");
    }
}
