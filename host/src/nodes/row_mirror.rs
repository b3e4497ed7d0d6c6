//! Takes over the rows and files that nodes of other machines have put into the job's store: writes them to the leader's
//! job directory, where the leader commits them as if workers of its own had left them. A node may be hostile: nothing
//! here trusts what a pack says.

use super::pack::{EntryKind, PackEntry, PackPlace, is_log_of, places_of, read_index, with_rows};
use crate::files::{OutputError, PartFile};
use crate::model::{AttemptReport, JobDir, MiniBatchId, NodeId, OutputHeader, WorkerId, is_inside};
use crate::opening::{at_its_path, folder_at_its_path};
use crate::protocol::NodeReport;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a link points that stands for a link or a special file of a guest. It cannot be published.
const OTHER: &str = "not a file";

/// Why a pack was not taken over.
#[derive(Debug, thiserror::Error)]
pub(super) enum MirrorError {
    /// The pack is not what the node reported.
    #[error("{0}")]
    Wrong(String),
    /// The leader's own disk failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Disk {
        /// What failed.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The leader's own disk failed.
    #[error(transparent)]
    Part(#[from] OutputError),
}

impl MirrorError {
    fn wrong(text: &str) -> Self {
        Self::Wrong(text.to_owned())
    }

    /// An error of the leader's disk, or of a name in the pack: only the node is to blame for a name that is too long, or
    /// that comes twice.
    fn disk(action: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        let errno = Errno::from_io_error(&source);
        match errno {
            Some(
                Errno::EXIST | Errno::NOTDIR | Errno::ISDIR | Errno::NAMETOOLONG | Errno::LOOP,
            ) => Self::Wrong(format!("{} cannot be written: {source}", path.display())),
            _ if source.kind() == io::ErrorKind::InvalidInput => {
                Self::Wrong("it names a file with a zero byte".to_owned())
            }
            _ => Self::Disk { action, path: path.to_owned(), source },
        }
    }
}

/// The copies of workers' files in the leader's job directory.
#[derive(Debug)]
pub(super) struct RowMirror {
    dir: JobDir,
    /// Whether rows stay in part files until the job's end.
    keeps_rows: bool,
    parts: Mutex<HashMap<WorkerId, Arc<Mutex<PartFile>>>>,
}

impl RowMirror {
    pub(super) fn new(dir: JobDir, keeps_rows: bool) -> Self {
        Self { dir, keeps_rows, parts: Mutex::default() }
    }

    /// As [`take_over`](Self::take_over), for reports that an earlier leader has got, too. If that leader had the same job
    /// directory, files of workers that have ended are here already. Then this drops the reports on these workers.
    ///
    /// # Errors
    /// As for [`take_over`](Self::take_over).
    pub(super) fn take_over_again(
        &self,
        node: NodeId,
        reports: &mut Vec<NodeReport>,
        bytes: &mut dyn Read,
    ) -> Result<(), MirrorError> {
        let known = |report: &NodeReport| match report {
            NodeReport::WorkerDone(worker) if self.dir.worker_output(*worker).exists() => {
                Some(PackPlace::Worker(*worker))
            }
            _ => None,
        };
        let here: Vec<PackPlace> = reports.iter().filter_map(known).collect();
        reports.retain(|report| known(report).is_none());
        self.take_over_except(&here, node, reports, bytes)
    }

    /// Writes what a pack has to the leader's disk. The reports of the node then say where its rows are here.
    ///
    /// # Errors
    /// If the pack does not have what the reports say, or if the disk fails.
    pub(super) fn take_over(
        &self,
        node: NodeId,
        reports: &mut [NodeReport],
        bytes: &mut dyn Read,
    ) -> Result<(), MirrorError> {
        self.take_over_except(&[], node, reports, bytes)
    }

    /// `here`: the places whose files are here already.
    fn take_over_except(
        &self,
        here: &[PackPlace],
        node: NodeId,
        reports: &mut [NodeReport],
        mut bytes: &mut dyn Read,
    ) -> Result<(), MirrorError> {
        let index = read_index(bytes);
        let index = index.map_err(|error| MirrorError::Wrong(format!("its index: {error}")))?;
        let places = places_of(reports);
        for (worker, report) in with_rows(reports) {
            self.take_rows(worker, report, bytes)?;
        }
        for entry in &index {
            let is_allowed = match entry.place {
                PackPlace::Logs => is_log_of(&entry.path, node) || entry.kind == EntryKind::Folder,
                place => places.contains(&place),
            };
            let may_be_skipped = entry.place == PackPlace::Logs || here.contains(&entry.place);
            if !is_inside(&entry.path) || !(is_allowed || may_be_skipped) {
                return Err(MirrorError::wrong("it has a file that belongs to no report"));
            }
            // A node may have other logs, such as those of its own problems. The leader does not want them.
            self.take_entry(entry, is_allowed, bytes)?;
        }
        match (&mut bytes).read(&mut [0]) {
            Ok(0) => Ok(()),
            _ => Err(MirrorError::wrong("it is longer than its index says")),
        }
    }

    fn take_rows(
        &self,
        worker: WorkerId,
        report: &mut AttemptReport,
        bytes: &mut dyn Read,
    ) -> Result<(), MirrorError> {
        let Ok(segment) = &mut report.outcome else { return Ok(()) };
        let mut rows = Vec::new();
        let read = bytes.take(segment.length).read_to_end(&mut rows);
        if read.is_err() || rows.len() as u64 != segment.length {
            return Err(MirrorError::wrong("it is too short for its rows"));
        }
        let part = self.part(worker)?;
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(header) = report.header.as_ref().and_then(OutputHeader::written)
            && self.keeps_rows
        {
            part.begin(&header)?;
        }
        let written = part.append(&rows, segment.rows, (report.id, report.attempt));
        // Many nodes have more workers together than this process may have open files.
        part.close();
        let written = written?;
        if written.checksum != segment.checksum {
            return Err(MirrorError::wrong("the checksum of its rows is wrong"));
        }
        *segment = written;
        Ok(())
    }

    fn part(&self, worker: WorkerId) -> Result<Arc<Mutex<PartFile>>, MirrorError> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts.get(&worker) {
            return Ok(part.clone());
        }
        let path = self.dir.part_file(worker);
        // The worker may have worked for an earlier leader, whose rows count.
        let part = match self.keeps_rows {
            true => PartFile::continue_all(&path)?,
            false => PartFile::create(&path, false)?,
        };
        let part = Arc::new(Mutex::new(part));
        parts.insert(worker, part.clone());
        Ok(part)
    }

    /// Notes that the rows of this attempt, and of all attempts that its worker reported before, are in the output.
    pub(super) fn reclaim(&self, worker: WorkerId, id: MiniBatchId, attempt: u32) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.get(&worker).cloned();
        drop(parts);
        if let Some(part) = part {
            part.lock().unwrap_or_else(PoisonError::into_inner).reclaim((id, attempt));
        }
    }

    /// Copies an entry to its place, or skips it.
    fn take_entry(
        &self,
        entry: &PackEntry,
        is_wanted: bool,
        bytes: &mut dyn Read,
    ) -> Result<(), MirrorError> {
        let base = match entry.place {
            PackPlace::Attempt(worker, id, attempt) => self.dir.staged(worker, id, attempt),
            PackPlace::Worker(worker) => self.dir.worker_output(worker),
            PackPlace::Logs => self.dir.logs(),
        };
        let path = base.join(&entry.path);
        let failed = |source| MirrorError::disk("write", &path, source);
        let is_log = entry.place == PackPlace::Logs;
        let mode = if is_log { Mode::RWXU } else { Mode::from_raw_mode(0o777) };
        match entry.kind {
            EntryKind::Folder if is_log => Ok(()),
            EntryKind::Folder => folder_at_its_path(&path, mode).map(drop).map_err(failed),
            EntryKind::Other if !is_wanted || is_log => Ok(()),
            EntryKind::Other => {
                let parent = path.parent().unwrap_or(&base);
                let made = folder_at_its_path(parent, mode).and_then(|_| symlink(OTHER, &path));
                made.map_err(failed)
            }
            EntryKind::File(length) => {
                let mut content = bytes.take(length);
                let copied = if is_wanted {
                    let parent = path.parent().unwrap_or(&base);
                    folder_at_its_path(parent, mode).map_err(failed)?;
                    let file = if is_log { open_log(&path) } else { create(&path) };
                    copy(&mut content, &mut file.map_err(failed)?).map_err(failed)?
                } else {
                    io::copy(&mut content, &mut io::sink()).unwrap_or_default()
                };
                let is_whole = copied == length;
                is_whole.then_some(()).ok_or_else(|| MirrorError::wrong("it is too short"))
            }
        }
    }
}

fn create(path: &std::path::Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    at_its_path(path, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

fn open_log(path: &std::path::Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK;
    at_its_path(path, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

/// Copies everything. Stops early if it cannot be read.
fn copy(from: &mut dyn Read, to: &mut File) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut copied = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Ok(copied),
        };
        io::Write::write_all(to, &buffer[..count])?;
        copied += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::upload::ResultUpload;
    use super::*;
    use crate::engine::LogStore;
    use crate::files::PartFile;
    use crate::model::{AttemptUsage, Segment};
    use crate::protocol::NodeNews;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;
    use tempfile::TempDir;

    /// A node's folder, a leader's folder, and a store.
    struct World {
        folder: TempDir,
        node: JobDir,
        leader: JobDir,
        mirror: RowMirror,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            let [node, leader] = ["node", "leader"].map(|name| JobDir::new(root.join(name)));
            for dir in [&node, &leader] {
                fs::create_dir_all(dir.parts()).unwrap();
            }
            let mirror = RowMirror::new(leader.clone(), false);
            Self { folder, node, leader, mirror }
        }

        /// The pack of these reports, as the node makes it.
        fn pack(&self, reports: &[NodeReport], with_logs: bool) -> Vec<u8> {
            let root = self.folder.path().canonicalize().unwrap().join("store");
            let store: Arc<dyn LogStore> = crate::engine::folder_objects(&root, "job").unwrap();
            store.make_folder("r").unwrap();
            let upload =
                ResultUpload::new(store.clone(), "r".to_owned(), self.node.clone(), Duration::ZERO);
            let name = fs::read_dir(root.join("job/r")).unwrap().count() as u64;
            let (_, pack) = upload.store(reports.to_vec(), name, with_logs).unwrap();
            let pack = pack.unwrap();
            assert_eq!(pack.objects, 1);
            store.read(&super::super::upload::object_name("r", name, 0)).unwrap().unwrap()
        }

        fn take(&self, reports: &[NodeReport], pack: &[u8]) -> Result<Vec<NodeReport>, String> {
            let mut reports = reports.to_vec();
            let taken = self.mirror.take_over(NodeId(0), &mut reports, &mut &*pack);
            taken.map(|()| reports).map_err(|error| error.to_string())
        }
    }

    const WORKER: WorkerId = WorkerId(3);

    fn finished(id: u64, segment: Segment, has_files: bool) -> NodeReport {
        let outcome = Ok(segment);
        let report =
            AttemptReport { id: MiniBatchId(id), outcome, has_files, ..AttemptReport::sample() };
        NodeReport::News(NodeNews::Finished {
            worker: WORKER,
            age: Duration::ZERO,
            has_run: true,
            usage: AttemptUsage::default(),
            report: Box::new(report),
        })
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn rows_and_files_get_to_the_leader() {
        let world = World::new();
        let mut part = PartFile::create(&world.node.part_file(WORKER), false).unwrap();
        part.append(b"not needed\n", 1, (MiniBatchId(0), 1)).unwrap();
        let rows = part.append(b"one\ntwo\n", 2, (MiniBatchId(7), 1)).unwrap();
        let staged = world.node.staged(WORKER, MiniBatchId(7), 1);
        write(&staged.join("a/b.txt"), "content");
        fs::create_dir(staged.join("empty")).unwrap();
        symlink("/etc/passwd", staged.join("link")).unwrap();
        write(&world.node.worker_output(WORKER).join("of-init"), "i");
        let reports = [finished(7, rows, true), NodeReport::WorkerDone(WORKER)];
        let pack = world.pack(&reports, false);
        assert!(!staged.exists(), "the node needs it no longer");
        let taken = world.take(&reports, &pack).unwrap();
        let expected = Segment { offset: 0, ..rows };
        assert_eq!(taken[0], finished(7, expected, true));
        let found = fs::read(world.leader.part_file(WORKER)).unwrap();
        assert_eq!(found, b"one\ntwo\n");
        let staged = world.leader.staged(WORKER, MiniBatchId(7), 1);
        assert_eq!(fs::read(staged.join("a/b.txt")).unwrap(), b"content");
        assert!(staged.join("empty").is_dir());
        assert_eq!(fs::read_link(staged.join("link")).unwrap(), Path::new(OTHER));
        assert_eq!(fs::read(world.leader.worker_output(WORKER).join("of-init")).unwrap(), b"i");
        // A second report with the same files.
        assert!(world.take(&reports, &pack).unwrap_err().contains("File exists"));
        // A leader that continues in the same job directory has removed the unpublished files.
        fs::remove_dir_all(world.leader.staged(WORKER, MiniBatchId(7), 1)).unwrap();
        let mirror = RowMirror::new(world.leader, false);
        let mut again = reports.to_vec();
        mirror.take_over_again(NodeId(0), &mut again, &mut &*pack).unwrap();
        assert_eq!(again, [finished(7, expected, true)]);
        assert_eq!(fs::read(staged.join("a/b.txt")).unwrap(), b"content");
    }

    #[test]
    fn a_wrong_pack_is_refused() {
        let world = World::new();
        let mut part = PartFile::create(&world.node.part_file(WORKER), false).unwrap();
        let rows = part.append(b"one\n", 1, (MiniBatchId(7), 1)).unwrap();
        let reports = [finished(7, rows, false)];
        let pack = world.pack(&reports, false);
        let refused = |reports: &[NodeReport], pack: &[u8]| world.take(reports, pack).unwrap_err();
        let other = Segment { checksum: 1, ..rows };
        assert_eq!(
            refused(&[finished(7, other, false)], &pack),
            "the checksum of its rows is wrong"
        );
        let long = Segment { length: 1 << 60, ..rows };
        assert_eq!(refused(&[finished(7, long, false)], &pack), "it is too short for its rows");
        assert_eq!(refused(&reports, &pack[..pack.len() - 1]), "it is too short for its rows");
        let longer = [&pack[..], b"x"].concat();
        assert_eq!(refused(&reports, &longer), "it is longer than its index says");
        // Files of an attempt that the reports do not name.
        write(&world.node.staged(WORKER, MiniBatchId(8), 1).join("a"), "x");
        let pack = world.pack(&[finished(8, Segment { length: 0, ..rows }, true)], false);
        let none = [NodeReport::WorkerDone(WORKER)];
        assert_eq!(refused(&none, &pack), "it has a file that belongs to no report");
    }

    #[test]
    fn logs_of_the_node_are_taken_and_others_are_not() {
        let world = World::new();
        write(&world.node.script_stdout(WORKER), "hello\n");
        write(&world.node.logs().join("sys/events.jsonl"), "forged\n");
        let pack = world.pack(&[], true);
        world.take(&[], &pack).unwrap();
        world.take(&[], &pack).unwrap();
        assert_eq!(fs::read(world.leader.script_stdout(WORKER)).unwrap(), b"hello\n");
        assert!(!world.leader.events().exists());
    }
}
