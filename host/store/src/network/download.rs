//! Downloads one object.

use super::cache_dir::modification_time;
use super::error_text::{FetchError, StoreAction};
use super::open::OpenStore;
use crate::dataset::{FileVersion, ManifestObject};
use crate::model::{ByteSize, hex};
use crate::protocol::store::StoreConfig;
use object_store::path::Path as Key;
use object_store::{Error, GetOptions, GetResultPayload, ObjectMeta};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{ErrorKind, Write};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// How often we try to download an object. Within each attempt, the library retries requests that the store
/// refuses temporarily.
const ATTEMPTS: u32 = 4;
/// The pause after the first attempt; it doubles after each further one.
const PAUSE: Duration = Duration::from_millis(200);
/// At most this many bytes of an object's name are part of its [substitute name](substitute_name).
const MAX_NAME_BYTES: usize = 200;

/// The manifest's record of an object that the job names, but that the store did not have.
pub(super) const MISSING: ManifestObject =
    ManifestObject { found: FileVersion { length: 0, seconds: 0, nanos: 0 }, version: 0 };

/// The length and modification time that an object's file gets. The time is one second before the object's
/// last change, so that no file seems newer than its object. The nanoseconds are derived from the object's
/// ETag, so that files of different versions differ even within one second. They are zero if the object has
/// no ETag.
pub(super) fn file_version_of(object: &ObjectMeta) -> FileVersion {
    let nanos = object.e_tag.as_deref().map_or(0, |tag| {
        let digest = Sha256::digest(bare_etag(tag).as_bytes());
        let number =
            digest.iter().take(4).fold(0_u32, |number, &byte| number << 8 | u32::from(byte));
        number % 999_999_999 + 1
    });
    let seconds = object.last_modified.timestamp().saturating_sub(1).max(0);
    FileVersion { length: object.size, seconds, nanos }
}

/// Whether the store's answer is about another version than the known one.
fn is_other_version(known: &ManifestObject, answer: &ManifestObject) -> bool {
    let both_report = known.version != 0 && answer.version != 0;
    known.found.length != answer.found.length || (both_report && known.version != answer.version)
}

/// An ETag without quotes and prefix: Azure's lists have ETags without quotes, but its other
/// answers have them with quotes.
fn bare_etag(e_tag: &str) -> &str {
    e_tag.trim_start_matches("W/").trim_matches('"')
}

/// The path of an object's file. An error says why the object's name cannot be a path.
pub(super) fn file_path(data: &Path, name: &str) -> Result<PathBuf, FetchError> {
    let path = Path::new(name);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || name.split('/').any(str::is_empty) || name.contains('\0') {
        return Err(FetchError::NoPath(name.to_owned()));
    }
    if let Some(part) = name.split('/').find(|part| part.len() > 255) {
        return Err(FetchError::LongPart(part.len()));
    }
    Ok(data.join(path))
}

/// A valid file name that stands for an object whose name is not a valid path.
pub(super) fn substitute_name(name: &str) -> String {
    let encoded = name.replace('/', "%2F").replace('\0', "%00");
    match encoded.as_str() {
        "" | "." | ".." => format!("%2F{encoded}"),
        _ if encoded.len() > MAX_NAME_BYTES => {
            let digest = hex(Sha256::digest(name.as_bytes()));
            let cut = encoded.floor_char_boundary(MAX_NAME_BYTES);
            format!("{}...{}", &encoded[..cut], &digest[..12])
        }
        _ => encoded,
    }
}

/// The files of a download.
pub(super) struct FetchTarget {
    /// The final path, which the file gets when it is complete.
    pub(super) file: PathBuf,
    /// The path while the download is incomplete.
    pub(super) part: PathBuf,
    /// The maximum size of the object in bytes.
    pub(super) max_bytes: u64,
}

/// Fetches an object. `known` is the manifest's record of it. Returns the length and time that its file gets.
/// Fails with [`FetchError::Gone`] if the object was listed with no bytes and the store no longer finds it:
/// then it only marked a folder. Fails with [`FetchError::Write`] if the file cannot be written.
pub(super) async fn fetch(
    store: &OpenStore,
    config: &StoreConfig,
    key: &Key,
    known: Option<ManifestObject>,
    target: &FetchTarget,
) -> Result<FileVersion, FetchError> {
    let mut pause = PAUSE;
    let mut attempt = 1;
    loop {
        let failure = match try_fetch(store, key, known, target).await {
            Ok(found) => return Ok(found),
            Err(failure) => failure,
        };
        // A partial file is useless.
        let _ = fs::remove_file(&target.part);
        if matches!(failure, FetchFailure::Refused(Error::NotFound { .. }))
            && known.is_some_and(|known| known.found.length == 0 && known != MISSING)
        {
            return Err(FetchError::Gone);
        }
        // The library has already retried temporary refusals.
        let is_incomplete = matches!(failure, FetchFailure::Broken(_) | FetchFailure::Short { .. });
        if !is_incomplete || attempt == ATTEMPTS {
            return Err(failure.describe(config, target));
        }
        attempt += 1;
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

enum FetchFailure {
    /// The store did not send the object.
    Refused(Error),
    /// The connection failed while the object was sent.
    Broken(Error),
    /// The object ended after `found` bytes, instead of `expected` bytes.
    Short {
        found: u64,
        expected: u64,
    },
    /// The object has this many bytes, more than may be written.
    Large(u64),
    Disk(std::io::Error),
}

impl FetchFailure {
    fn describe(self, config: &StoreConfig, target: &FetchTarget) -> FetchError {
        match self {
            Self::Refused(error) | Self::Broken(error) => {
                FetchError::store(error, StoreAction::ReadObject, config)
            }
            Self::Short { found, expected } => FetchError::Short { found, expected },
            Self::Large(bytes) => FetchError::Large(ByteSize(bytes), ByteSize(target.max_bytes)),
            Self::Disk(source) => FetchError::Write { path: target.file.clone(), source },
        }
    }
}

impl From<std::io::Error> for FetchFailure {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Tries to download an object once. The file gets its final path only if it is complete and has the known
/// version.
async fn try_fetch(
    store: &OpenStore,
    key: &Key,
    known: Option<ManifestObject>,
    target: &FetchTarget,
) -> Result<FileVersion, FetchFailure> {
    let options = GetOptions::default();
    let answer = store.objects().get_opts(key, options).await.map_err(FetchFailure::Refused)?;
    let found = file_version_of(&answer.meta);
    if known.is_some_and(|known| is_other_version(&known, &found.into())) {
        let source = "another version".into();
        return Err(FetchFailure::Refused(Error::Precondition { path: key.to_string(), source }));
    }
    let found = known.map_or(found, |known| known.found);
    if found.length > target.max_bytes {
        return Err(FetchFailure::Large(found.length));
    }
    let GetResultPayload::Stream(mut stream) = answer.payload;
    let mut file = File::create(&target.part)?;
    let mut written = 0;
    while let Some(bytes) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
        let bytes = bytes.map_err(FetchFailure::Broken)?;
        written += bytes.len() as u64;
        if written > found.length {
            break;
        }
        file.write_all(&bytes)?;
    }
    if written != found.length {
        return Err(FetchFailure::Short { found: written, expected: found.length });
    }
    file.set_modified(modification_time(&found))?;
    drop(file);
    move_into_place(&target.part, &target.file)?;
    Ok(found)
}

/// Moves a file to its final path. Replaces anything there.
fn move_into_place(part: &Path, file: &Path) -> std::io::Result<()> {
    make_folder(file)?;
    match fs::rename(part, file) {
        // An earlier job had a folder here, which is now an object. No wanted object is below it.
        Err(_) if file.symlink_metadata().is_ok_and(|existing| existing.is_dir()) => {
            fs::remove_dir_all(file)?;
            fs::rename(part, file)
        }
        done => done,
    }
}

/// Creates the folder of a file.
fn make_folder(file: &Path) -> std::io::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    match fs::create_dir_all(folder) {
        Err(error)
            if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::AlreadyExists) =>
        {
            // An earlier job had an object here, which is now a folder.
            let existing = folder.ancestors().find(|path| path.symlink_metadata().is_ok());
            existing.map_or(Ok(()), fs::remove_file)?;
            fs::create_dir_all(folder)
        }
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn object(e_tag: Option<&str>, size: u64, nanos: i64) -> ObjectMeta {
        let location = Key::from("a");
        let last_modified = (UNIX_EPOCH + Duration::from_nanos(nanos.cast_unsigned())).into();
        ObjectMeta { location, last_modified, size, e_tag: e_tag.map(str::to_owned), version: None }
    }

    #[test]
    fn each_version_of_an_object_is_a_different_file() {
        let was = file_version_of(&object(Some("one"), 3, 5_000_000_007));
        assert_eq!(
            was,
            file_version_of(&object(Some("\"one\""), 3, 5_000_000_007)),
            "Azure adds quotes"
        );
        for other in [
            object(Some("two"), 3, 5_000_000_007),
            object(None, 3, 5_000_000_007),
            object(Some("one"), 4, 5_000_000_007),
            object(Some("one"), 3, 6_000_000_007),
        ] {
            assert_ne!(was, file_version_of(&other), "{other:?}");
        }
        // Compares answers with the manifest's record. Times may differ, and versions may be missing. In the
        // second record, the file system has dropped the nanoseconds, which stand for the version.
        for known in [
            was.into(),
            ManifestObject { found: FileVersion { nanos: 0, ..was }, version: was.nanos },
        ] {
            let is_other =
                |other: ObjectMeta| is_other_version(&known, &file_version_of(&other).into());
            assert!(!is_other(object(Some("one"), 3, 6_000_000_007)));
            assert!(!is_other(object(None, 3, 5_000_000_007)));
            assert!(is_other(object(Some("two"), 3, 5_000_000_007)));
            assert!(is_other(object(Some("one"), 4, 5_000_000_007)));
        }
    }

    /// An earlier job may have left anything at the path.
    #[test]
    fn a_fetched_file_replaces_any_existing_entry() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("was"), "an object").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path("away")).unwrap();
        fs::create_dir_all(path("folder/inner")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path("link")).unwrap();
        fs::write(path("file"), "of an earlier job").unwrap();
        for name in ["new/below/a", "folder", "link", "file", "was/folder/a", "away/a"] {
            fs::write(path("part"), "it").unwrap();
            move_into_place(&path("part"), &path(name)).unwrap();
            let existing = path(name).symlink_metadata().unwrap();
            assert!(existing.is_file() && existing.len() == 2, "{name}");
        }
        assert!(!path("part").exists());
    }

    #[test]
    fn keys_that_cannot_be_paths_are_refused() {
        let data = Path::new("/data");
        assert_eq!(file_path(data, "a/b c.csv").unwrap(), Path::new("/data/a/b c.csv"));
        for wrong in ["", "../a", "a/../../b", "/etc/passwd", "a/", "a//b", "a\0b"] {
            assert!(file_path(data, wrong).is_err(), "{wrong:?}");
        }
        assert!(file_path(data, &"x".repeat(256)).is_err());
    }

    #[test]
    fn any_object_name_becomes_a_valid_file_name() {
        let data = PathBuf::from("/data");
        assert_eq!(substitute_name("a//b"), "a%2F%2Fb");
        for odd in ["a//b", "", "..", "a/../b", "a\0b", &"ä".repeat(300), &"x/".repeat(300)] {
            assert!(file_path(&data, odd).is_err());
            file_path(&data, &substitute_name(odd)).unwrap();
        }
        assert_ne!(substitute_name(&"x".repeat(300)), substitute_name(&"x".repeat(301)));
    }
}
