//! Puts the rows and files of finished attempts into the job's store, for jobs whose store is at an address. The node
//! reports an attempt only afterwards.

use super::agent_error::AgentError;
use super::pack::{
    EntryKind, PackEntry, PackPlace, PackWriter, have_results, places_of, with_rows,
};
use super::patient::Patience;
use crate::bus::{FromNode, StoredPack};
use crate::engine::{LogStore, STORED_ROWS};
use crate::files::publish::discard_files;
use crate::files::read_range;
use crate::model::{JobDir, MiniBatchId, WorkerId};
use crate::opening::regular_at_its_path;
use crate::protocol::NodeReport;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest name of an incarnation, in bytes: that of a key.
const MAX_INCARNATION: usize = 64;
/// The deepest nesting of folders in a pack. It is deeper than what can be published, so that the leader notices.
const MAX_DEPTH: usize = 80;
/// The most entries of a pack. They are more than what can be published.
const MAX_ENTRIES: usize = 300_000;

/// The part of a job's store for the rows and files of one node.
#[derive(Clone, Debug)]
pub(super) struct ResultUpload {
    objects: Arc<dyn LogStore>,
    /// The folder of the node's objects.
    folder: String,
    /// The workers' files on this machine.
    dir: JobDir,
    /// How long a store may fail.
    patience: Duration,
    /// Whether the upload is useless.
    stop: Arc<AtomicBool>,
}

/// The name of the folder for the rows and files of a node's part in a job: that of the first leader and the first
/// incarnation of this part. A later leader has a higher epoch.
pub(super) fn rows_name(epoch: u64, incarnation: &str) -> String {
    format!("{epoch:020}-{incarnation}")
}

/// Whether this can be the name of an incarnation. The names of objects in the store contain it.
pub(super) fn is_incarnation(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    !name.is_empty() && name.len() <= MAX_INCARNATION && is_plain
}

/// The epoch in the name of such a folder. `None` if it is not such a name.
pub(super) fn epoch_of(rows: &str) -> Option<u64> {
    let (epoch, incarnation) = rows.split_once('-')?;
    let is_digits = epoch.len() == 20 && epoch.bytes().all(|byte| byte.is_ascii_digit());
    (is_digits && is_incarnation(incarnation)).then(|| epoch.parse().ok()).flatten()
}

/// The folder with this name.
pub(super) fn rows_folder(run: &str, rows: &str) -> String {
    format!("{run}/{STORED_ROWS}/{rows}")
}

/// The name of an object of a pack.
pub(super) fn object_name(folder: &str, pack: u64, object: u32) -> String {
    format!("{folder}/{}", object_below(pack, object))
}

/// The name of an object of a pack in the folder of its node.
pub(super) fn object_below(pack: u64, object: u32) -> String {
    format!("{pack:020}-{object}")
}

/// Reports, and the pack with their rows and files. `None` if they have none.
pub(super) type StoredReports = (Vec<NodeReport>, Option<StoredPack>);

impl ResultUpload {
    pub(super) fn new(
        objects: Arc<dyn LogStore>,
        folder: String,
        dir: JobDir,
        patience: Duration,
    ) -> Self {
        Self { objects, folder, dir, patience, stop: Arc::new(AtomicBool::new(false)) }
    }

    /// Ends an upload that is under way. It fails.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Puts the rows and files of these reports into the store, as the pack with this number, and with the log tree if
    /// `with_logs`. Repeats requests that fail, for a while. Then removes the files here.
    ///
    /// # Errors
    /// If the store fails for too long, or the files here cannot be read.
    pub(super) fn store(
        &self,
        mut reports: Vec<NodeReport>,
        number: u64,
        with_logs: bool,
    ) -> Result<StoredReports, AgentError> {
        if !with_logs && !have_results(&reports) {
            return Ok((reports, None));
        }
        let places = places_of(&reports);
        let mut entries = Vec::new();
        for place in &places {
            self.list(*place, Path::new(""), 0, &mut entries)?;
        }
        if with_logs {
            // Logs that cannot be read must not cost any rows.
            let _ = self.list(PackPlace::Logs, Path::new(""), 0, &mut entries);
        }
        let mut create = |object: u32, bytes: &[u8]| self.create(number, object, bytes);
        let mut writer = PackWriter::begin(&entries, &mut create)?;
        for (worker, report) in with_rows(&mut reports) {
            let Ok(segment) = &report.outcome else { continue };
            let path = self.dir.part_file(worker);
            let failed = |source| AgentError::local("read", &path, source);
            let (file, _) = regular_at_its_path(&path).map_err(failed)?;
            copy(&file, &path, segment.offset, segment.length, &mut writer)?;
        }
        for entry in &entries {
            if let EntryKind::File(length) = entry.kind {
                let path = self.folder_of(entry.place).join(&entry.path);
                let failed = |source| AgentError::local("read", &path, source);
                let (file, _) = regular_at_its_path(&path).map_err(failed)?;
                copy(&file, &path, 0, length, &mut writer)?;
            }
        }
        let pack = writer.end(number)?;
        for place in places {
            // What stays is removed with the whole folder.
            let _ = discard_files(&self.folder_of(place));
        }
        Ok((reports, Some(pack)))
    }

    /// As [`store`](Self::store), for each of these messages. The packs are numbered from `first` on. With `with_logs`, the
    /// first one has the log tree.
    ///
    /// # Errors
    /// As for [`store`](Self::store).
    pub(super) fn store_all(
        &self,
        messages: Vec<FromNode>,
        first: u64,
        with_logs: bool,
    ) -> Result<Vec<FromNode>, AgentError> {
        let mut stored = Vec::new();
        for (number, message) in (first..).zip(messages) {
            let FromNode::Reports(reports) = message else {
                stored.push(message);
                continue;
            };
            let (reports, pack) = self.store(reports, number, with_logs && number == first)?;
            stored.push(match pack {
                Some(pack) => FromNode::Stored(reports, pack),
                None => FromNode::Reports(reports),
            });
        }
        Ok(stored)
    }

    fn folder_of(&self, place: PackPlace) -> PathBuf {
        match place {
            PackPlace::Attempt(worker, id, attempt) => self.dir.staged(worker, id, attempt),
            PackPlace::Worker(worker) => self.dir.worker_output(worker),
            PackPlace::Logs => self.dir.logs(),
        }
    }

    /// Adds everything that is below a path in the folder of this place. A folder comes before its content.
    fn list(
        &self,
        place: PackPlace,
        below: &Path,
        depth: usize,
        entries: &mut Vec<PackEntry>,
    ) -> Result<(), AgentError> {
        let folder = self.folder_of(place).join(below);
        let failed = |source| AgentError::local("read", &folder, source);
        let found = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound && depth == 0 => return Ok(()),
            found => found.map_err(failed)?,
        };
        for entry in found {
            let entry = entry.map_err(failed)?;
            let metadata = entry.path().symlink_metadata().map_err(failed)?;
            let path = below.join(entry.file_name());
            let kind = match () {
                () if metadata.is_dir() => EntryKind::Folder,
                () if metadata.is_file() => EntryKind::File(metadata.len()),
                () => EntryKind::Other,
            };
            if entries.len() >= MAX_ENTRIES {
                return Ok(());
            }
            entries.push(PackEntry { place, path: path.clone(), kind });
            if kind == EntryKind::Folder && depth < MAX_DEPTH {
                self.list(place, &path, depth + 1, entries)?;
            }
        }
        Ok(())
    }

    fn create(&self, pack: u64, object: u32, bytes: &[u8]) -> Result<(), AgentError> {
        let patience = Patience { most: self.patience, stop: &self.stop };
        let name = object_name(&self.folder, pack, object);
        patience.create(&*self.objects, &name, bytes).map_err(AgentError::Upload)
    }
}

/// The last attempt with rows of each worker: its rows, and those of the attempts before, are in the store.
pub(super) fn last_attempts(reports: &mut [NodeReport]) -> BTreeMap<WorkerId, (MiniBatchId, u32)> {
    with_rows(reports).map(|(worker, report)| (worker, (report.id, report.attempt))).collect()
}

/// Copies a range of a file into a pack.
fn copy(
    file: &File,
    path: &Path,
    offset: u64,
    length: u64,
    writer: &mut PackWriter<'_, AgentError>,
) -> Result<(), AgentError> {
    let failed = |source| AgentError::local("read", path, source);
    read_range(file, offset, length, failed, &mut |bytes| writer.write(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_rows_cannot_lead_to_other_objects() {
        assert_eq!(epoch_of(&rows_name(17, "a1B2")), Some(17));
        let epoch = "00000000000000000017";
        for name in ["17-a", epoch, &format!("{epoch}-"), &format!("{epoch}-a/b")] {
            assert_eq!(epoch_of(name), None, "{name}");
        }
        for incarnation in ["..", "a b", "a\0", &"x".repeat(MAX_INCARNATION + 1)] {
            assert_eq!(epoch_of(&rows_name(17, incarnation)), None, "{incarnation}");
        }
    }
}
