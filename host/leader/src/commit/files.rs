//! The files that mini-batches write: checking and publishing them, and their entries in the journal.

use super::disk::sync_file_system_of;
use super::error::CommitError;
use super::target::CommitTarget;
use crate::fail_point::{self, Unsynced};
use crate::files::OutputError;
use crate::files::publish::{GuestEntry, PublishRule, check_files, discard_files, publish_files};
use crate::journal::FileEntry;
use crate::model::{MiniBatchId, OnConflict, WorkerId};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// What the store knows about files.
#[derive(Debug, Default)]
pub(super) struct FilesState {
    /// The length of each published file. Only filled under [`OnConflict::Append`].
    pub(super) lengths: HashMap<String, u64>,
    /// Workers that ended normally and left files.
    pub(super) done: BTreeSet<WorkerId>,
    /// Whether any file was published.
    pub(super) published: bool,
    /// Published files that may not have been synced.
    unsynced: Vec<Unsynced>,
}

/// Where the files of one folder belong in the published files: offset and length by path.
pub(super) type Offsets = HashMap<String, (u64, u64)>;

impl FilesState {
    /// `done`: workers of earlier runs that ended normally.
    pub(super) fn new(done: BTreeSet<WorkerId>) -> Self {
        Self { done, ..Self::default() }
    }

    /// Checks that the content of `staged` can be published.
    pub(super) fn check(
        &self,
        target: &CommitTarget,
        staged: &Path,
    ) -> Result<Vec<GuestEntry>, OutputError> {
        let place = |path: &str| self.lengths.get(path).map(|length| (*length, 0));
        check_files(staged, &target.output, &rule(target, false, &place))
    }

    /// The journal's entries for the files in a folder, which are about to be published. Under
    /// [`OnConflict::Append`], counts their lengths for the offsets of later files.
    pub(super) fn new_entries(
        &mut self,
        target: &CommitTarget,
        mini_batch: Option<MiniBatchId>,
        folder: &Path,
        found: &[GuestEntry],
    ) -> Vec<FileEntry> {
        let source = target.worker_folders.journal_name(folder);
        let mut entries = Vec::new();
        for found in found {
            let (GuestEntry { path, .. }, Some(length)) = (found, found.length) else { continue };
            let mut offset = 0;
            if target.on_conflict == OnConflict::Append {
                let end = self.lengths.entry(path.clone()).or_default();
                offset = *end;
                *end += length;
            }
            let source = source.clone();
            let path = path.clone();
            entries.push(FileEntry { mini_batch, source, path, offset, length });
        }
        entries
    }

    /// Publishes the content of the folders, and removes them. With `is_repeated`, an interrupted run may
    /// have published some of the files already.
    pub(super) fn publish(
        &mut self,
        target: &CommitTarget,
        folders: &[PathBuf],
        entries: &[FileEntry],
        is_repeated: bool,
    ) -> Result<(), CommitError> {
        if folders.is_empty() {
            return Ok(());
        }
        self.published = true;
        let appends = target.on_conflict == OnConflict::Append;
        let places = if appends { by_source(entries) } else { HashMap::new() };
        if appends {
            let sources: HashSet<_> =
                folders.iter().map(|folder| target.worker_folders.journal_name(folder)).collect();
            let appended = entries.iter().filter(|entry| sources.contains(&entry.source));
            let unsynced = |entry: &FileEntry| (target.output.join(&entry.path), entry.offset);
            self.unsynced = appended.map(unsynced).collect();
        }
        for folder in folders {
            let places = places.get(&target.worker_folders.journal_name(folder));
            let place = |path: &str| places?.get(path).copied();
            publish_files(folder, &target.output, &rule(target, is_repeated, &place))?;
            fail_point::pass_with("folder-published", || self.unsynced.clone());
        }
        if appends {
            sync_file_system_of(&target.output)?;
            self.unsynced.clear();
            fail_point::pass("appended-files-synced");
            for folder in folders {
                discard_files(folder)?;
                fail_point::pass("folder-removed");
            }
        }
        Ok(())
    }
}

/// The job's rule for publishing files.
pub(super) fn rule<'a>(
    target: &'a CommitTarget,
    same_passes: bool,
    place: &'a dyn Fn(&str) -> Option<(u64, u64)>,
) -> PublishRule<'a> {
    let finished = target.conversion.as_ref().map(|conversion| conversion.name.as_str());
    let reserved = [target.output_file.as_deref(), finished];
    PublishRule { on_conflict: target.on_conflict, reserved, same_passes, place }
}

/// Where the files belong in the published files, by the folder that they come from.
pub(super) fn by_source(entries: &[FileEntry]) -> HashMap<String, Offsets> {
    let mut by_source: HashMap<String, Offsets> = HashMap::new();
    for FileEntry { source, path, offset, length, .. } in entries {
        by_source.entry(source.clone()).or_default().insert(path.clone(), (*offset, *length));
    }
    by_source
}

/// Whether the folder contains anything. False if the folder does not exist.
pub(super) fn holds_anything(folder: &Path) -> Result<bool, CommitError> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CommitError::disk("read", folder, error)),
    }
}

/// The maximum number of names that the files of one group may take. An attempt that would exceed
/// it goes into another group, or is alone in its group.
const MAX_GROUP_NAMES: usize = 500_000;

/// The names that the files of a group will take. Only hashes of them are kept, which bounds the
/// memory. If two names have the same hash, an attempt moves to another group without need, but
/// nothing fails.
#[derive(Debug, Default)]
pub(super) struct GroupNames {
    seed: RandomState,
    files: HashSet<u64>,
    folders: HashSet<u64>,
}

impl GroupNames {
    /// Reserves the names of everything in `found`. Returns false, and reserves nothing, if one of them is
    /// already taken or there is no room. A folder may be shared, and a file only if `may_share_files`.
    pub(super) fn reserve(&mut self, found: &[GuestEntry], may_share_files: bool) -> bool {
        let mut files = Vec::new();
        let mut folders = Vec::new();
        for found in found {
            let of_kind = if found.length.is_none() { &mut folders } else { &mut files };
            of_kind.push(self.seed.hash_one(&found.path));
        }
        let before = self.files.len() + self.folders.len();
        let is_taken = |file: &u64| {
            !may_share_files && self.files.contains(file) || self.folders.contains(file)
        };
        let clashes = files.iter().any(is_taken)
            || folders.iter().any(|folder| self.files.contains(folder))
            || before > 0 && before + files.len() + folders.len() > MAX_GROUP_NAMES;
        if !clashes {
            self.files.extend(files);
            self.folders.extend(folders);
        }
        !clashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_refuses_clashing_names_and_too_many() {
        let found = |length| [GuestEntry { path: "a".into(), length }];
        let mut names = GroupNames::default();
        names.files.extend(0..MAX_GROUP_NAMES as u64);
        assert!(!names.reserve(&found(Some(1)), false), "full");
        let mut names = GroupNames::default();
        assert!(names.reserve(&found(Some(1)), false));
        assert!(!names.reserve(&found(Some(1)), false), "taken");
        assert!(names.reserve(&found(Some(1)), true), "they meet");
        assert!(!names.reserve(&found(None), true), "a folder with the name of a file");
    }
}
