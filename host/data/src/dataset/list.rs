//! Lists the files of a source one by one, sorted by path.

use super::error::EntryError;
use super::pattern::Pattern;
use super::table_log::TableLog;
use super::{DatasetError, err};
use crate::model::{BadFile, LOCK_FILE, Source};
use crate::opening::at_its_path;
use rustix::fs::{Mode, OFlags};
use sandmill_files::{Manifest, ManifestRecord};
use std::collections::{HashMap, VecDeque};
use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Lists the files of a source in the byte order of their paths below its root. Keeps the names in
/// the current folder and in the folders above it in memory. With a manifest, the listing keeps no
/// names.
#[derive(Debug)]
pub struct SourceListing {
    root: PathBuf,
    /// The input, for messages.
    input: String,
    /// The source, for messages that do not name a path: for example, the glob in the job file.
    source: String,
    pattern: Pattern,
    /// The current folder, as a prefix of paths: empty, or with a `/` at its end.
    prefix: Vec<u8>,
    levels: Vec<FolderLevel>,
    manifest: Option<Manifest>,
    /// The paths of objects that the source names but that cannot be fetched, and why.
    unfetched: HashMap<Vec<u8>, String>,
    /// Whether a file was found. Also true after the notice that there is no file, so that it is
    /// added only once.
    has_found: bool,
    /// The next steps, if they were determined in advance.
    ahead: VecDeque<ListStep>,
    /// Whether to leave out the files without rows that other programs write beside their data
    /// files.
    rows_only: bool,
    /// Whether such a file was left out.
    has_left_out: bool,
    /// Whether to refuse files of a [table with a log](TableLog).
    refuses_tables: bool,
    notices: Vec<String>,
    bad: Vec<BadFile>,
}

/// The next file, and what was found on the way to it.
#[derive(Debug)]
struct ListStep {
    file: Result<Option<String>, DatasetError>,
    notices: Vec<String>,
    bad: Vec<BadFile>,
}

/// The root, the current folder, or a folder between them.
#[derive(Debug)]
struct FolderLevel {
    /// The remaining entries, the last one first.
    entries: Vec<FolderEntry>,
    /// The length of its prefix: the path below the root, with a `/`.
    prefix: usize,
    table: TableCheck,
}

/// Whether a folder is a table with a log.
#[derive(Clone, Copy, Debug)]
enum TableCheck {
    /// The folder is not such a table.
    Plain,
    /// The folder may be such a table. This has not been checked.
    Unchecked,
    /// The folder is such a table.
    Table(TableLog),
}

/// An entry of a folder. The name of a folder has a `/` at its end, so that the folder has the position that
/// its files have in the order of paths.
#[derive(Debug)]
struct FolderEntry {
    name: Vec<u8>,
    kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Folder,
    File,
    Link,
    /// An object of a store that cannot be fetched.
    Unfetched,
    Other,
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        if kind.is_dir() {
            Self::Folder
        } else if kind.is_file() {
            Self::File
        } else if kind.is_symlink() {
            Self::Link
        } else {
            Self::Other
        }
    }
}

impl SourceListing {
    /// Starts at the first file. Fails if the pattern is not a glob, or if the root cannot be read.
    pub fn new(source: &Source) -> Result<Self, DatasetError> {
        let pattern = Pattern::new(source.pattern.as_deref())?;
        let description = match (&pattern, &source.pattern) {
            (Pattern::List(files), _) => match files.as_slice() {
                [file] => source.root.join(file).display().to_string(),
                files => format!("the list of {} names in {}", files.len(), source.root.display()),
            },
            (_, Some(glob)) => format!("the glob {}", source.root.join(glob).display()),
            (_, None) => format!("the folder {}", source.root.display()),
        };
        let mut listing = Self {
            root: source.root.clone(),
            input: format!("input '{}'", source.dataset),
            source: description,
            pattern,
            prefix: Vec::new(),
            levels: Vec::new(),
            manifest: None,
            unfetched: HashMap::new(),
            has_found: false,
            ahead: VecDeque::new(),
            rows_only: false,
            has_left_out: false,
            refuses_tables: false,
            notices: Vec::new(),
            bad: Vec::new(),
        };
        listing.check_root()?;
        let manifest = Manifest::open_source(source).map_err(|error| listing.unreadable(&error))?;
        listing.start(manifest)?;
        Ok(listing)
    }

    /// Lists the files of an input of rows. As in Spark and Hive, files and folders whose names
    /// begin with `_` or `.` have no rows (`_SUCCESS`, `_metadata`, `.part-0.crc`). The listing
    /// leaves them out, unless the source names files or has a glob. It also keeps names that are a
    /// key with its value (`_year=2026`).
    pub fn of_rows(source: &Source) -> Result<Self, DatasetError> {
        let mut listing = Self::new(source)?;
        listing.rows_only = source.pattern.is_none();
        Ok(listing)
    }

    /// Fails if the root has become a link or is now below one: the paths of sources have no links.
    /// Ignores a missing root, because reading the root reports that.
    fn check_root(&self) -> Result<(), DatasetError> {
        match at_its_path(&self.root, OFlags::PATH, Mode::empty()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.unreadable(&error)),
            _ => Ok(()),
        }
    }

    /// Makes the listing refuse files that belong to a [table with a log](TableLog).
    #[must_use]
    pub fn refusing_tables(mut self) -> Self {
        self.refuses_tables = true;
        self
    }

    /// Fails if the file belongs to a table with a log and must be refused. The file must be in the current
    /// folder.
    fn check_table(&mut self, file: &str) -> Result<(), DatasetError> {
        if !self.refuses_tables {
            return Ok(());
        }
        for index in 0..self.levels.len() {
            let FolderLevel { prefix, table, .. } = self.levels[index];
            if matches!(table, TableCheck::Plain) {
                continue;
            }
            let folder = self.path(&self.prefix[..prefix]);
            let found = match table {
                TableCheck::Table(log) => Some(log),
                _ => TableLog::at(&folder),
            };
            self.levels[index].table = found.map_or(TableCheck::Plain, TableCheck::Table);
            let below = file.get(prefix..).unwrap_or_default();
            let (first, is_file) = match below.split_once('/') {
                Some((first, _)) => (first, false),
                None => (below, true),
            };
            if let Some(log) = found.filter(|log| log.owns(first, is_file)) {
                return err!("{}: {}", self.input, log.refusal(&folder.display().to_string()));
            }
        }
        Ok(())
    }

    /// Whether the file is left out. Adds a notice for the first such file.
    fn leaves_out(&mut self, file: &str) -> bool {
        let has_no_rows = |part: &str| part.starts_with(['_', '.']) && !part.contains('=');
        if !self.rows_only || !file.split('/').any(has_no_rows) {
            return false;
        }
        if !std::mem::replace(&mut self.has_left_out, true) {
            self.notices.push(format!(
                "{}: files and folders whose names begin with _ or . hold no rows and are left out, such as \
                 {file}; to read such a file, name it or use a glob",
                self.input
            ));
        }
        true
    }

    /// The path of the next file, below the root. `None` at the end. Entries that cannot be passed
    /// to the entry script are [bad](Self::take_bad): a folder that cannot be read, a name that is
    /// not UTF-8, a FIFO, a link to nothing or out of the root. Fails if a manifest cannot be read,
    /// or if the file belongs to a table that is [refused](Self::refusing_tables).
    pub fn next_file(&mut self) -> Result<Option<String>, DatasetError> {
        let step = self.ahead.pop_front().unwrap_or_else(|| self.step());
        self.notices.extend(step.notices);
        self.bad.extend(step.bad);
        step.file
    }

    /// The next file, without moving past it. Fails like [`Self::next_file`].
    pub fn peek_file(&mut self) -> Result<Option<&str>, DatasetError> {
        self.look_ahead(1);
        if let Some(ListStep { file: Err(_), .. }) = self.ahead.front() {
            self.next_file()?;
        }
        Ok(self.ahead().next())
    }

    /// Determines the next `count` files in advance.
    pub fn look_ahead(&mut self, count: usize) {
        let is_last = |step: &ListStep| !matches!(step.file, Ok(Some(_)));
        while self.ahead.len() < count && !self.ahead.back().is_some_and(is_last) {
            let step = self.step();
            self.ahead.push_back(step);
        }
    }

    /// The next files that were determined in advance. Does not move past them.
    pub fn ahead(&self) -> impl Iterator<Item = &str> {
        self.ahead.iter().filter_map(|step| step.file.as_ref().ok()?.as_deref())
    }

    /// Determines the next file. Returns it with the notices and bad entries that were found on the way to
    /// it. Earlier notices and bad entries stay in `self`.
    fn step(&mut self) -> ListStep {
        let notices = self.take_notices();
        let bad = self.take_bad();
        let file = self.walk();
        let notices = std::mem::replace(&mut self.notices, notices);
        let bad = std::mem::replace(&mut self.bad, bad);
        ListStep { file, notices, bad }
    }

    fn walk(&mut self) -> Result<Option<String>, DatasetError> {
        while let Some(file) = self.next_listed()? {
            if !self.leaves_out(&file) {
                return Ok(Some(file));
            }
        }
        loop {
            let depth = self.levels.len();
            let Some(level) = self.levels.last_mut() else { break };
            let Some(entry) = level.entries.pop() else {
                self.levels.pop();
                continue;
            };
            self.prefix.truncate(level.prefix);
            if let Some(file) = self.handle_entry(&entry, depth - 1) {
                self.has_found = true;
                if !self.leaves_out(&file) {
                    self.check_table(&file)?;
                    return Ok(Some(file));
                }
            }
        }
        if !std::mem::replace(&mut self.has_found, true) {
            let notice = self.no_file_notice();
            self.notices.push(notice);
        }
        Ok(None)
    }

    /// The next file in the manifest. `None` at its end, or if there is no manifest.
    fn next_listed(&mut self) -> Result<Option<String>, DatasetError> {
        loop {
            let next = self.manifest.as_mut().map_or(Ok(None), Manifest::next_object);
            let Some(ManifestRecord { name, object }) =
                next.map_err(|error| self.unreadable(&error))?
            else {
                return Ok(None);
            };
            if !self.pattern.takes(name.as_bytes()) {
                continue;
            }
            self.has_found = true;
            match object {
                Ok(_) => return Ok(Some(name)),
                Err(reason) => self.bad.push(BadFile { file: name, reason }),
            }
        }
    }

    /// The notices for the user since the last call, one line each: for example, which files were
    /// left out.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// The entries that were found since the last call and cannot be passed to the entry script.
    /// Includes objects that could not be fetched from their store.
    pub fn take_bad(&mut self) -> Vec<BadFile> {
        std::mem::take(&mut self.bad)
    }

    /// Records an entry that cannot be passed to the entry script. `error` names the entry.
    fn record_bad(&mut self, path: &[u8], error: &EntryError) {
        let reason = error.to_string();
        self.has_found = true;
        self.notices.push(format!("a file cannot be read, so its mini-batch fails: {reason}"));
        self.bad.push(BadFile { file: String::from_utf8_lossy(path).into_owned(), reason });
    }

    fn start(&mut self, mut manifest: Option<Manifest>) -> Result<(), DatasetError> {
        let Pattern::List(files) = &self.pattern else {
            self.manifest = manifest;
            return if self.manifest.is_some() { Ok(()) } else { self.enter() };
        };
        let mut entries = Vec::with_capacity(files.len());
        for file in files.iter().rev() {
            let name = file.clone().into_bytes();
            let kind = match &mut manifest {
                None => self.kind_of(file)?,
                Some(manifest) => {
                    match manifest.find(file).map_err(|error| self.unreadable(&error))? {
                        Some(Ok(_)) => EntryKind::File,
                        Some(Err(reason)) => {
                            self.unfetched.insert(name.clone(), reason);
                            EntryKind::Unfetched
                        }
                        None => {
                            let input = &self.input;
                            return err!("{input}: the store has no {file}; check the address");
                        }
                    }
                }
            };
            entries.push(FolderEntry { name, kind });
        }
        self.levels.push(FolderLevel { entries, prefix: 0, table: TableCheck::Plain });
        Ok(())
    }

    /// The kind of a file that the source names. Fails if the file is missing.
    fn kind_of(&self, file: &str) -> Result<EntryKind, DatasetError> {
        let path = self.root.join(file);
        match fs::symlink_metadata(&path) {
            Ok(metadata) => Ok(EntryKind::from(metadata.file_type())),
            Err(error) => {
                err!("{}: {}: {error}; check the path", self.input, path.display())
            }
        }
    }

    /// Reads the folder that the prefix names. Fails if the folder is the root and cannot be read.
    /// If any other folder cannot be read, records it as bad.
    fn enter(&mut self) -> Result<(), DatasetError> {
        let path = self.path(&self.prefix);
        match entries(&path) {
            Ok(entries) => {
                let is_log = |entry: &FolderEntry| {
                    let name = entry.name.strip_suffix(b"/").unwrap_or(&entry.name);
                    TableLog::ALL.iter().any(|log| log.folder().as_bytes() == name)
                };
                let table = match entries.iter().any(is_log) {
                    true => TableCheck::Unchecked,
                    false => TableCheck::Plain,
                };
                self.levels.push(FolderLevel { entries, prefix: self.prefix.len(), table });
            }
            Err(error) if self.prefix.is_empty() => {
                return err!("{}: cannot list {}: {error}", self.input, path.display());
            }
            Err(source) => {
                let folder = self.prefix.clone();
                self.record_bad(&folder, &EntryError::Unlisted { path, source });
            }
        }
        Ok(())
    }

    /// Handles an entry: returns the path of a file, enters a folder, or records a bad entry.
    /// `None` for a folder, for a bad entry, and for an entry that does not belong to the input.
    fn handle_entry(&mut self, entry: &FolderEntry, depth: usize) -> Option<String> {
        if entry.kind == EntryKind::Folder {
            let name = entry.name.strip_suffix(b"/").unwrap_or(&entry.name);
            if self.pattern.enters(name, depth) {
                self.prefix.extend_from_slice(&entry.name);
                // Cannot fail: only reading the root fails, and this is not the root.
                let _ = self.enter();
            }
            return None;
        }
        let path = [&self.prefix[..], &entry.name].concat();
        let may_be_folder =
            entry.kind == EntryKind::Link && self.pattern.enters(&entry.name, depth);
        if !may_be_folder && !self.pattern.takes(&path) {
            return None;
        }
        let is_file = match entry.kind {
            EntryKind::Link => self.follow(&path),
            EntryKind::Unfetched => {
                self.has_found = true;
                let file = String::from_utf8_lossy(&path).into_owned();
                let reason = self.unfetched.remove(&path).unwrap_or_default();
                self.bad.push(BadFile { file, reason });
                return None;
            }
            EntryKind::Other => Err(EntryError::Special { path: self.path(&path) }),
            EntryKind::File | EntryKind::Folder => Ok(true),
        };
        match is_file {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                self.record_bad(&path, &error);
                return None;
            }
        }
        match String::from_utf8(path) {
            Ok(path) => Some(path),
            Err(error) => {
                let path = error.as_bytes();
                self.record_bad(path, &EntryError::NotUtf8 { path: self.path(path) });
                None
            }
        }
    }

    /// Whether the link leads to a file that belongs to the input. Fails if that file cannot be
    /// passed to the entry script.
    fn follow(&mut self, path: &[u8]) -> Result<bool, EntryError> {
        let link = self.path(path);
        let takes = self.pattern.takes(path);
        let target = match fs::metadata(&link) {
            Ok(target) => target,
            Err(_) if !takes => return Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(EntryError::Dangling { link });
            }
            Err(source) => return Err(EntryError::Unfollowed { link, source }),
        };
        if target.is_dir() {
            return self.follow_to_folder(&link, takes);
        }
        if takes {
            self.check_target(&link, &target)?;
        }
        Ok(takes)
    }

    /// Handles a link to a folder. If the folder is inside the input, we skip the link, because the
    /// folder is listed at its own path. If the folder is outside, its files would be missing:
    /// fails if the pattern `takes` the link. Always returns `false`.
    fn follow_to_folder(&mut self, link: &Path, takes: bool) -> Result<bool, EntryError> {
        let to = fs::canonicalize(link).ok();
        let leads_out = to.as_ref().is_none_or(|to| !to.starts_with(&self.root));
        if takes && leads_out {
            return Err(EntryError::FolderOutside { link: link.to_owned(), to });
        }
        self.notices.push(format!(
            "{}: {} is a link to a folder and is skipped; name that folder as a path of the input to \
             include it",
            self.input,
            link.display()
        ));
        Ok(false)
    }

    /// Refuses links that guests could not follow, because they see only the root.
    fn check_target(&self, link: &Path, target: &fs::Metadata) -> Result<(), EntryError> {
        let path = || link.to_owned();
        let read = fs::read_link(link).and_then(|to| Ok((to, fs::canonicalize(link)?)));
        let (to, real) = read.map_err(|source| EntryError::Unfollowed { link: path(), source })?;
        if !real.starts_with(&self.root) {
            return Err(EntryError::Outside { link: path(), to: real });
        }
        if to.is_absolute() {
            return Err(EntryError::Absolute { link: path(), to });
        }
        if !target.is_file() {
            return Err(EntryError::ToSpecial { link: path() });
        }
        Ok(())
    }

    /// The error for a source that cannot be read.
    fn unreadable(&self, error: &io::Error) -> DatasetError {
        DatasetError(format!("{}: {error}", self.input))
    }

    /// The whole path of a file or folder `below` the root.
    fn path(&self, below: &[u8]) -> PathBuf {
        let below = below.strip_suffix(b"/").unwrap_or(below);
        match below {
            [] => self.root.clone(),
            _ => self.root.join(std::ffi::OsStr::from_bytes(below)),
        }
    }

    fn no_file_notice(&self) -> String {
        match self.pattern {
            Pattern::Everything => format!("{}: {} holds no file", self.input, self.source),
            _ => format!("{}: {} matches no file; check the path", self.input, self.source),
        }
    }
}

/// The entries of a folder, the last one first.
fn entries(folder: &Path) -> io::Result<Vec<FolderEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = EntryKind::from(entry.file_type()?);
        let mut name = entry.file_name().into_vec();
        // The lock file of a job that writes to this folder is not part of the input.
        if name == LOCK_FILE.as_bytes() {
            continue;
        }
        if kind == EntryKind::Folder {
            name.push(b'/');
        }
        entries.push(FolderEntry { name, kind });
    }
    entries.sort_unstable_by(|one, other| other.name.cmp(&one.name));
    Ok(entries)
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
