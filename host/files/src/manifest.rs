//! A manifest lists the objects of a store that a job wants to have in one local folder.
//!
//! The folder of a manifest is next to the folder `data`, which has the objects that were fetched. Records
//! are sorted by the bytes of the objects' paths below `data`. There are two forms of a record:
//!
//! - `a/b.csv NUL 1200 1763720000 500 NUL LF`: the path, the length, and the time in seconds and nanoseconds.
//!   The nanoseconds normally encode the object's version. If they do not, the version follows as a fourth
//!   number.
//! - `a/b.csv NUL !REASON NUL LF`: why the object cannot be fetched.
//!
//! Paths have no NUL, so a reader finds the end of a record from any position.
//!
//! An object is fetched if a regular file at its path in `data` [has the length and time](FileVersion::is_at)
//! in the record. The manifest does not change when an object is fetched or removed.

use super::FileVersion;
use memchr::memmem;
use rustix::fs::{Mode, OFlags};
use sandmill_model::{Source, to_usize};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str;
use std::sync::Arc;

/// How many bytes are read at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// How many bytes are read at a time during a binary search.
const PROBE_BYTES: usize = 4 << 10;
/// The longest record. A store's keys have at most 1,024 bytes, and reasons hardly have more.
const MAX_RECORD_BYTES: usize = 32 << 10;
/// To find a path, this many bytes of records are scanned first. Then a binary search begins.
const SCANNED_BYTES: u64 = 64 << 10;
const RECORD_END: &[u8] = b"\0\n";
/// The folder of the objects, next to the manifest's folder.
const DATA_FOLDER: &str = "data";

/// What is known about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestObject {
    /// The length and time of the object's file.
    pub found: FileVersion,
    /// A number for the object's version; zero if it has no version. The nanoseconds in the time of the
    /// object's file are the same number, if the file system stores nanoseconds.
    pub version: u32,
}

impl From<FileVersion> for ManifestObject {
    fn from(found: FileVersion) -> Self {
        Self { found, version: found.nanos }
    }
}

/// A record of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestRecord {
    /// The object's path.
    pub name: String,
    /// What is known about the object, or why it cannot be fetched.
    pub object: Result<ManifestObject, String>,
}

/// Writes a manifest. Records may be added in any order. Records that are added in the order of their paths
/// need no memory.
#[derive(Debug)]
pub struct ManifestWriter {
    path: PathBuf,
    file: BufWriter<File>,
    /// The path of the last record in `file`.
    last: String,
    /// Records that came out of order or replace other records; `None` removes a record.
    late: BTreeMap<String, Option<Result<ManifestObject, String>>>,
}

impl ManifestWriter {
    /// Begins a manifest at a temporary path, which is used until [`finish`](Self::finish).
    pub fn new(path: PathBuf) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BLOCK_BYTES, File::create(&path)?);
        Ok(Self { path, file, last: String::new(), late: BTreeMap::new() })
    }

    /// Adds an object, or replaces what is known about the object.
    pub fn add(&mut self, name: &str, object: Result<ManifestObject, String>) -> io::Result<()> {
        if name <= self.last.as_str() {
            self.late.insert(name.to_owned(), Some(object));
            return Ok(());
        }
        name.clone_into(&mut self.last);
        write_record(&mut self.file, name, &object)
    }

    /// Removes an object.
    pub fn remove(&mut self, name: &str) {
        self.late.insert(name.to_owned(), None);
    }

    /// Completes the manifest and moves it to its final path.
    pub fn finish(self, to: &Path) -> io::Result<()> {
        let Self { path, mut file, late, .. } = self;
        file.flush()?;
        if !late.is_empty() {
            let mut merged = BufWriter::with_capacity(BLOCK_BYTES, File::create(to)?);
            let written = File::open(&path)?;
            let length = written.metadata()?.len();
            merge(ManifestRecords::new(written, length), late, &mut merged)?;
            merged.flush()?;
            return fs::remove_file(&path);
        }
        fs::rename(path, to)
    }
}

/// Writes the records, with the late records in their places.
fn merge(
    mut records: ManifestRecords,
    late: BTreeMap<String, Option<Result<ManifestObject, String>>>,
    to: &mut impl Write,
) -> io::Result<()> {
    let mut late = late.into_iter().peekable();
    let mut next = records.next()?;
    loop {
        let listed = next.as_ref().map(|listed| listed.name.as_str());
        match late.peek() {
            Some((name, _)) if listed.is_none_or(|listed| name.as_str() <= listed) => {
                if listed == Some(name) {
                    next = records.next()?;
                }
                if let Some((name, Some(object))) = late.next() {
                    write_record(to, &name, &object)?;
                }
            }
            _ => match next {
                Some(ManifestRecord { name, object }) => {
                    write_record(to, &name, &object)?;
                    next = records.next()?;
                }
                None => return Ok(()),
            },
        }
    }
}

fn write_record(
    to: &mut impl Write,
    name: &str,
    object: &Result<ManifestObject, String>,
) -> io::Result<()> {
    to.write_all(name.as_bytes())?;
    match object {
        Ok(ManifestObject { found: FileVersion { length, seconds, nanos }, version }) => {
            write!(to, "\0{length} {seconds} {nanos}")?;
            if version != nanos {
                write!(to, " {version}")?;
            }
        }
        Err(reason) => write!(to, "\0!{}", reason.replace('\0', " "))?,
    }
    to.write_all(RECORD_END)
}

/// An open manifest. The process that wrote it may have been compromised, so its content is not trusted.
#[derive(Debug)]
pub struct Manifest {
    /// Objects without this prefix are ignored. The methods take and return paths without the prefix.
    prefix: String,
    records: ManifestRecords,
    /// The record that was read last, if it was not returned yet.
    next: Option<ManifestRecord>,
}

impl Manifest {
    /// Opens a manifest. Does not block if the path is something else, such as a fifo.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(invalid("it is not a file"));
        }
        let records = ManifestRecords::new(file, metadata.len());
        Ok(Self { prefix: String::new(), records, next: None })
    }

    /// Opens the manifest of a source, at the source's first object. The objects' paths are relative to the
    /// source's root. `None` if the source has no manifest.
    pub fn open_source(source: &Source) -> io::Result<Option<Self>> {
        let Some(path) = &source.manifest else { return Ok(None) };
        let folder = path.parent().and_then(Path::parent).map(|slot| slot.join(DATA_FOLDER));
        let prefix = folder.and_then(|folder| source.root.strip_prefix(folder).ok()?.to_str());
        let prefix = prefix.ok_or_else(|| invalid("it belongs to another folder"))?;
        let mut manifest = Self::open(path)?;
        if !prefix.is_empty() {
            manifest.prefix = format!("{prefix}/");
            manifest.seek(&manifest.prefix.clone())?;
        }
        Ok(Some(manifest))
    }

    /// The next object; `None` after the last object.
    pub fn next_object(&mut self) -> io::Result<Option<ManifestRecord>> {
        let next = match self.next.take() {
            Some(next) => Some(next),
            None => self.records.next()?,
        };
        Ok(next.and_then(|ManifestRecord { name, object }| {
            let name = name.strip_prefix(&self.prefix)?.to_owned();
            Some(ManifestRecord { name, object })
        }))
    }

    /// What is known about an object. Fast if objects are looked up in the order of their paths.
    pub fn find(&mut self, name: &str) -> io::Result<Option<Result<ManifestObject, String>>> {
        let full_name = format!("{}{name}", self.prefix);
        if !self.pass_to(&full_name, self.records.offset() + SCANNED_BYTES)? {
            self.seek(&full_name)?;
        }
        Ok(self.next.as_ref().filter(|next| next.name == full_name).map(|next| next.object.clone()))
    }

    /// Skips records until the object is the next one. Stops at the first record that begins after the file
    /// offset `limit`. Returns whether it found the object.
    fn pass_to(&mut self, full_name: &str, limit: u64) -> io::Result<bool> {
        while self.records.offset() <= limit {
            if self.next.is_none() {
                self.next = self.records.next()?;
            }
            match &self.next {
                Some(next) if next.name.as_str() < full_name => self.next = None,
                next => return Ok(next.as_ref().is_some_and(|next| next.name == full_name)),
            }
        }
        Ok(false)
    }

    /// Moves to an object, or to the next object if the manifest does not have it.
    fn seek(&mut self, full_name: &str) -> io::Result<()> {
        let mut low = 0;
        let mut high = self.records.length;
        while high - low > PROBE_BYTES as u64 {
            let middle = low.midpoint(high);
            let mut records = self.records.at(middle, PROBE_BYTES);
            records.skip()?;
            let begin = records.offset();
            match records.next()? {
                Some(listed) if begin < high && listed.name.as_str() < full_name => low = begin,
                _ => high = middle,
            }
        }
        self.records = self.records.at(low, BLOCK_BYTES);
        self.next = None;
        // The record begins at most `MAX_RECORD_BYTES` bytes after `high`. In a file that is not sorted, the
        // record may not be found.
        self.pass_to(full_name, high + MAX_RECORD_BYTES as u64).map(drop)
    }
}

/// The records of a manifest from a position on.
#[derive(Debug)]
struct ManifestRecords {
    file: Arc<File>,
    /// The size of the file when it was opened. Later additions are ignored.
    length: u64,
    /// How many bytes are read at a time.
    step: usize,
    /// The file offset of the buffer's end.
    end: u64,
    buffer: Vec<u8>,
    /// How many bytes of the buffer were consumed.
    consumed: usize,
}

impl ManifestRecords {
    fn new(file: File, length: u64) -> Self {
        let file = Arc::new(file);
        Self { file, length, step: BLOCK_BYTES, end: 0, buffer: Vec::new(), consumed: 0 }
    }

    /// The records of the same file from an offset on.
    fn at(&self, offset: u64, step: usize) -> Self {
        let file = Arc::clone(&self.file);
        Self { file, length: self.length, step, end: offset, buffer: Vec::new(), consumed: 0 }
    }

    /// The offset of the next record.
    fn offset(&self) -> u64 {
        self.end - (self.buffer.len() - self.consumed) as u64
    }

    fn next(&mut self) -> io::Result<Option<ManifestRecord>> {
        let Some(length) = self.peek_length()? else { return Ok(None) };
        let record = self.buffer.get(self.consumed..self.consumed + length).unwrap_or_default();
        let listed = parse(record).ok_or_else(|| invalid("a record is invalid"))?;
        self.consumed += length + RECORD_END.len();
        Ok(Some(listed))
    }

    /// Skips the rest of the current record.
    fn skip(&mut self) -> io::Result<()> {
        if let Some(length) = self.peek_length()? {
            self.consumed += length + RECORD_END.len();
        }
        Ok(())
    }

    /// The length of the next record without its end; `None` at the end of the file.
    fn peek_length(&mut self) -> io::Result<Option<usize>> {
        loop {
            let rest = self.buffer.get(self.consumed..).unwrap_or_default();
            if let Some(length) = memmem::find(rest, RECORD_END) {
                return Ok(Some(length));
            }
            if rest.len() > MAX_RECORD_BYTES {
                return Err(invalid("a record has no end"));
            }
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
            let kept = self.buffer.len();
            let step = to_usize(self.length.saturating_sub(self.end).min(self.step as u64));
            self.buffer.resize(kept + step, 0);
            let added =
                self.file.read_at(self.buffer.get_mut(kept..).unwrap_or_default(), self.end);
            let added = added.inspect_err(|_| self.buffer.truncate(kept))?;
            self.buffer.truncate(kept + added);
            self.end += added as u64;
            match added {
                0 if kept == 0 => return Ok(None),
                0 => return Err(invalid("it is cut short")),
                _ => {}
            }
        }
    }
}

fn parse(record: &[u8]) -> Option<ManifestRecord> {
    let (name, rest) = str::from_utf8(record).ok()?.split_once('\0')?;
    let name = name.to_owned();
    if let Some(reason) = rest.strip_prefix('!') {
        return Some(ManifestRecord { name, object: Err(reason.to_owned()) });
    }
    let mut numbers = rest.split(' ');
    let length = numbers.next()?.parse().ok()?;
    let seconds = numbers.next()?.parse().ok()?;
    let nanos = numbers.next()?.parse().ok()?;
    let version = numbers.next().map_or(Ok(nanos), str::parse).ok()?;
    let object = ManifestObject { found: FileVersion { length, seconds, nanos }, version };
    numbers.next().is_none().then_some(ManifestRecord { name, object: Ok(object) })
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("the list of a store's objects cannot be used: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(length: u64) -> ManifestObject {
        FileVersion { length, ..FileVersion::sample() }.into()
    }

    fn slot() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("list")).unwrap();
        dir
    }

    fn written(dir: &Path, records: &[(String, Result<ManifestObject, String>)]) -> PathBuf {
        let to = dir.join("list/manifest");
        let mut writer = ManifestWriter::new(dir.join("part")).unwrap();
        for (name, object) in records {
            writer.add(name, object.clone()).unwrap();
        }
        writer.finish(&to).unwrap();
        assert!(!dir.join("part").exists());
        to
    }

    fn all(manifest: &mut Manifest) -> Vec<(String, Result<ManifestObject, String>)> {
        std::iter::from_fn(|| manifest.next_object().unwrap())
            .map(|record| (record.name, record.object))
            .collect()
    }

    fn source(dir: &Path, below: &str) -> Source {
        let manifest = Some(dir.join("list/manifest"));
        Source { manifest, ..Source::new("data", dir.join("data").join(below)) }
    }

    #[test]
    fn late_records_are_merged_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = ManifestWriter::new(dir.path().join("part")).unwrap();
        for name in ["b", "d", "a", "f\n", "e", "z"] {
            writer.add(name, Ok(object(1))).unwrap();
        }
        writer.remove("d");
        writer.remove("never");
        writer.add("z", Err("it\0broke".to_owned())).unwrap();
        let rounded = ManifestObject { version: 9, ..object(1) };
        writer.add("b", Ok(rounded)).unwrap();
        let path = dir.path().join("manifest");
        writer.finish(&path).unwrap();
        let one = |name: &str| (name.to_owned(), Ok(object(1)));
        let broke = ("z".to_owned(), Err("it broke".to_owned()));
        let expected = [one("a"), ("b".to_owned(), Ok(rounded)), one("e"), one("f\n"), broke];
        assert_eq!(all(&mut Manifest::open(&path).unwrap()), expected);
    }

    #[test]
    fn a_source_has_the_objects_below_its_root() {
        let dir = slot();
        let names = ["a", "b/", "b/1", "b/c/2", "b0", "c"];
        let records: Vec<_> = names.iter().map(|&name| (name.to_owned(), Ok(object(1)))).collect();
        written(dir.path(), &records);
        let names = |below: &str| {
            let mut manifest = Manifest::open_source(&source(dir.path(), below)).unwrap().unwrap();
            all(&mut manifest).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names("b"), ["", "1", "c/2"]);
        assert_eq!(names("b/c"), ["2"]);
        assert!(names("none").is_empty());
        assert_eq!(names("").len(), 6);
        let mut below = Manifest::open_source(&source(dir.path(), "b")).unwrap().unwrap();
        assert_eq!(below.find("c/2").unwrap(), Some(Ok(object(1))));
        assert_eq!(below.find("1").unwrap(), Some(Ok(object(1))));
        assert_eq!(below.find("a").unwrap(), None);
        let other = Source { root: "/elsewhere".into(), ..source(dir.path(), "") };
        assert!(Manifest::open_source(&other).is_err());
        assert!(Manifest::open_source(&Source { manifest: None, ..other }).unwrap().is_none());
    }

    #[test]
    fn invalid_manifests_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        let long = "x".repeat(3 * BLOCK_BYTES);
        for wrong in
            ["a", "a\0\n", "a\x001 2\0\n", "a\x001 2 3 4 5\0\n", "a\x001 2 3\0\nb\x001 2", &long]
        {
            fs::write(&path, wrong).unwrap();
            let mut manifest = Manifest::open(&path).unwrap();
            let error =
                std::iter::from_fn(|| manifest.next_object().transpose()).find_map(Result::err);
            assert_eq!(error.unwrap().kind(), ErrorKind::InvalidData, "{wrong:?}");
            assert!(Manifest::open(&path).unwrap().find("c").is_err());
        }
        fs::write(&path, "").unwrap();
        assert_eq!(Manifest::open(&path).unwrap().find("c").unwrap(), None);
    }

    /// The fetching process may be compromised. No manifest that it writes may cost the reader much
    /// time.
    #[test]
    fn little_is_read_of_an_unsorted_manifest() {
        let dir = slot();
        let path = dir.path().join("manifest");
        fs::write(&path, "b\x000 0 0\0\n".repeat(1 << 20)).unwrap();
        let mut manifest = Manifest::open(&path).unwrap();
        for name in ["a", "c", "b", "c"] {
            manifest.find(name).unwrap();
            assert!(manifest.records.buffer.len() <= 2 * BLOCK_BYTES);
        }
        let begun = manifest.records.length - manifest.records.offset();
        assert!(begun < 4 * BLOCK_BYTES as u64, "{begun}");
        // Records that are written after opening are not read.
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all("z\x000 0 0\0\n".repeat(1 << 20).as_bytes()).unwrap();
        assert_eq!(manifest.find("z").unwrap(), None);
        assert_eq!(std::iter::from_fn(|| manifest.next_object().unwrap()).count(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Objects are found in any order of lookups; the paths take many blocks.
        #[test]
        fn each_object_is_found(
            numbers in prop::collection::vec(0_u32..20_000, 1..400),
            asked in prop::collection::vec(0_u32..20_000, 1..50),
        ) {
            let dir = slot();
            let name = |number: &u32| format!("{}/{number:05}", "long".repeat(250));
            let known: BTreeMap<_, _> =
                numbers.iter().map(|number| (name(number), Ok(object(u64::from(*number))))).collect();
            let records: Vec<_> = known.clone().into_iter().collect();
            let path = written(dir.path(), &records);
            let mut manifest = Manifest::open(&path).unwrap();
            for number in asked.iter().chain(&numbers) {
                let name = name(number);
                prop_assert_eq!(manifest.find(&name).unwrap(), known.get(&name).cloned());
            }
            prop_assert_eq!(all(&mut Manifest::open(&path).unwrap()), records);
        }
    }
}
