//! Source files as one content: an index with its length, then the content of each file.

use super::SourceError;
use super::content::Take;
use crate::files::read_range;
use crate::model::is_inside;
use crate::opening::regular_at_its_path;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, FileTimes, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The longest index, in bytes.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// The most files. More than a source folder may have.
const MAX_FILES: usize = 100_000;

/// A file of the content.
#[derive(Debug, Serialize, Deserialize)]
struct PackedFile {
    path: PathBuf,
    bytes: u64,
    /// When it was changed: seconds since 1970, and nanoseconds. The digest of a source folder covers this time.
    modified: (i64, u32),
}

fn open(path: &Path) -> Result<(File, Metadata), SourceError> {
    regular_at_its_path(path).map_err(|error| SourceError::file("read", path, error))
}

/// Passes the content of a file on. `path` must have no links. Returns what the system says about the file.
pub(super) fn pass_on(path: &Path, take: &mut Take<'_>) -> Result<Metadata, SourceError> {
    let (file, metadata) = open(path)?;
    let failed = |error| SourceError::file("read", path, error);
    read_range(&file, 0, metadata.len(), failed, take)?;
    Ok(metadata)
}

/// Passes files on. Their paths in the folder must have no links.
pub(super) fn pack(
    folder: &Path,
    files: &[PathBuf],
    take: &mut Take<'_>,
) -> Result<(), SourceError> {
    let packed = |name: &PathBuf| {
        let (_, found) = open(&folder.join(name))?;
        let modified = (found.mtime(), u32::try_from(found.mtime_nsec()).unwrap_or_default());
        Ok(PackedFile { path: name.clone(), bytes: found.len(), modified })
    };
    let index: Vec<PackedFile> = files.iter().map(packed).collect::<Result<_, SourceError>>()?;
    let text = serde_json::to_vec(&index).map_err(|_| SourceError::Malformed)?;
    take(&(text.len() as u64).to_be_bytes())?;
    take(&text)?;
    for file in &index {
        let found = pass_on(&folder.join(&file.path), take)?;
        if found.len() != file.bytes {
            return Err(SourceError::Changed);
        }
    }
    Ok(())
}

/// Writes the files of a content into an empty folder.
pub(super) fn extract(packed: &Path, folder: &Path) -> Result<(), SourceError> {
    let failed = |error| SourceError::file("read", packed, error);
    let mut content = File::open(packed).map(io::BufReader::new).map_err(failed)?;
    for file in read_index(&mut content)? {
        if !is_inside(&file.path) {
            return Err(SourceError::Malformed);
        }
        let path = folder.join(&file.path);
        write_file(&path, &file, &mut content).map_err(|e| SourceError::file("write", &path, e))?;
    }
    match content.read(&mut [0]).map_err(failed)? {
        0 => Ok(()),
        _ => Err(SourceError::Malformed),
    }
}

fn read_index(content: &mut dyn Read) -> Result<Vec<PackedFile>, SourceError> {
    let mut length = [0; 8];
    content.read_exact(&mut length).map_err(|_| SourceError::Malformed)?;
    let length = u64::from_be_bytes(length);
    let mut text = Vec::new();
    let read = content.take(length.min(MAX_INDEX_BYTES)).read_to_end(&mut text);
    if read.map_err(|_| SourceError::Malformed)? as u64 != length {
        return Err(SourceError::Malformed);
    }
    let index: Vec<PackedFile> =
        serde_json::from_slice(&text).map_err(|_| SourceError::Malformed)?;
    if index.len() > MAX_FILES { Err(SourceError::Malformed) } else { Ok(index) }
}

fn write_file(path: &Path, packed: &PackedFile, content: &mut dyn Read) -> io::Result<()> {
    let parent = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let copied = io::copy(&mut content.take(packed.bytes), &mut file)?;
    if copied != packed.bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.flush()?;
    match time(packed.modified) {
        Some(modified) => file.set_times(FileTimes::new().set_modified(modified)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The time of so many seconds and nanoseconds since 1970. `None` if the system has no such time.
fn time((seconds, nanoseconds): (i64, u32)) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let start = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole)?,
        false => SystemTime::UNIX_EPOCH.checked_add(whole)?,
    };
    start.checked_add(Duration::from_nanos(nanoseconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// An index and contents as [`pack`] writes them.
    fn content(index: &str, rest: &str) -> Vec<u8> {
        let mut bytes = (index.len() as u64).to_be_bytes().to_vec();
        bytes.extend(index.as_bytes());
        bytes.extend(rest.as_bytes());
        bytes
    }

    #[test]
    fn hostile_contents_write_nothing_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let extracted = |bytes: &[u8]| {
            let folder = dir.path().join("inner/folder");
            fs::create_dir_all(&folder).unwrap();
            fs::write(dir.path().join("packed"), bytes).unwrap();
            let result = extract(&dir.path().join("packed"), &folder);
            fs::remove_dir_all(&folder).unwrap();
            result
        };
        let one = |path: &str| format!("[{{\"path\":{path:?},\"bytes\":1,\"modified\":[0,0]}}]");
        extracted(&content(&one("a/b"), "x")).unwrap();
        for path in ["", "..", "../x", "/tmp/x", "a/../../x", "."] {
            assert!(extracted(&content(&one(path), "x")).is_err(), "{path}");
        }
        for (index, rest) in [
            (one("a"), ""),
            (one("a"), "xy"),
            ("[]".to_owned(), "x"),
            (String::new(), ""),
            ("{".to_owned(), ""),
            (format!("{},{}", one("a").trim_end_matches(']'), &one("a")[1..]), "xx"),
            (format!("{},{}", one("a").trim_end_matches(']'), &one("a/b")[1..]), "xx"),
        ] {
            assert!(extracted(&content(&index, rest)).is_err(), "{index}");
        }
        for bytes in [&b""[..], &[0; 7], &[255; 8], &[0; 8]] {
            assert!(extracted(bytes).is_err(), "{bytes:?}");
        }
        let left: Vec<_> = fs::read_dir(dir.path().join("inner")).unwrap().collect();
        assert_eq!(left.len(), 0, "nothing beside the folder");
    }

    #[test]
    fn times_before_1970_are_kept() {
        for given in [(0, 0), (-5, 7), (1_800_000_000, 999_999_999)] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            let packed = PackedFile { path: "a".into(), bytes: 0, modified: given };
            write_file(&path, &packed, &mut io::empty()).unwrap();
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.mtime(), found.mtime_nsec()), (given.0, i64::from(given.1)));
        }
    }
}
