//! Fetches one object.

use super::cache_dir::modified;
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

/// How often an object is tried. Within each try, the library retries requests that the store refuses
/// temporarily.
const ATTEMPTS: u32 = 4;
/// The pause after the first try; it doubles each time.
const PAUSE: Duration = Duration::from_millis(200);
/// The most bytes of the name that stands for an object whose own name is too long.
const NAME: usize = 200;

/// The manifest's record of an object that did not exist when it was looked up.
pub(super) const MISSING: ManifestObject =
    ManifestObject { found: FileVersion { length: 0, seconds: 0, nanos: 0 }, version: 0 };

/// The length and time that an object's file gets. The seconds are one less than those of its last change, so
/// that no file seems newer than its object. The nanoseconds are derived from the version (the ETag; zero if
/// it has none), so that files of different versions differ even within one second.
pub(super) fn file_of(object: &ObjectMeta) -> FileVersion {
    let nanos = object.e_tag.as_deref().map_or(0, |tag| {
        let digest = Sha256::digest(bare(tag).as_bytes());
        let number = digest.iter().take(4).fold(0_u32, |it, &byte| it << 8 | u32::from(byte));
        number % 999_999_999 + 1
    });
    let seconds = object.last_modified.timestamp().saturating_sub(1).max(0);
    FileVersion { length: object.size, seconds, nanos }
}

/// Whether an answer is about another version.
fn differs(known: &ManifestObject, answer: &ManifestObject) -> bool {
    let both_report = known.version != 0 && answer.version != 0;
    known.found.length != answer.found.length || (both_report && known.version != answer.version)
}

/// An ETag without quotes and prefix: Azure lists it without quotes, but answers with quotes.
fn bare(e_tag: &str) -> &str {
    e_tag.trim_start_matches("W/").trim_matches('"')
}

/// The path of an object's file. An error says why there can be none.
pub(super) fn place(data: &Path, name: &str) -> Result<PathBuf, FetchError> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || name.split('/').any(str::is_empty) || name.contains('\0') {
        return Err(FetchError::NoPath(name.to_owned()));
    }
    if let Some(part) = name.split('/').find(|part| part.len() > 255) {
        return Err(FetchError::LongPart(part.len()));
    }
    Ok(data.join(path))
}

/// A valid file name that stands for an object whose name is not a valid path.
pub(super) fn file_name(name: &str) -> String {
    let plain = name.replace('/', "%2F").replace('\0', "%00");
    match plain.as_str() {
        "" | "." | ".." => format!("%2F{plain}"),
        _ if plain.len() > NAME => {
            let digest = hex(Sha256::digest(name.as_bytes()));
            let cut = plain.floor_char_boundary(NAME);
            format!("{}...{}", &plain[..cut], &digest[..12])
        }
        _ => plain,
    }
}

/// The files of a download.
pub(super) struct FetchTarget {
    /// The final path, which the file gets when it is complete.
    pub(super) file: PathBuf,
    /// The path until then.
    pub(super) part: PathBuf,
    /// The most bytes that the object may have.
    pub(super) most: u64,
}

/// Fetches an object. `known` is the manifest's record of it. Returns the length and time that its file gets.
/// Fails with [`FetchError::Gone`] if it is only the marker of a folder, and with [`FetchError::Write`] if it
/// cannot be written.
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
        let trouble = match try_fetch(store, key, known, target).await {
            Ok(found) => return Ok(found),
            Err(trouble) => trouble,
        };
        // A partial file is useless.
        let _ = fs::remove_file(&target.part);
        if matches!(trouble, FetchFailure::Refused(Error::NotFound { .. }))
            && known.is_some_and(|known| known.found.length == 0 && known != MISSING)
        {
            return Err(FetchError::Gone);
        }
        // The library has already retried temporary refusals.
        let broke_off = matches!(trouble, FetchFailure::Broken(_) | FetchFailure::Short(..));
        if !broke_off || attempt == ATTEMPTS {
            return Err(trouble.describe(config, target));
        }
        attempt += 1;
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

enum FetchFailure {
    /// There was no answer.
    Refused(Error),
    /// The answer broke off.
    Broken(Error),
    Short(u64, u64),
    /// The object has more bytes than may be written.
    Large(u64),
    Disk(std::io::Error),
}

impl FetchFailure {
    fn describe(self, config: &StoreConfig, target: &FetchTarget) -> FetchError {
        match self {
            Self::Refused(error) | Self::Broken(error) => {
                FetchError::store(error, StoreAction::ReadIt, config)
            }
            Self::Short(found, wanted) => FetchError::Short(found, wanted),
            Self::Large(bytes) => FetchError::Large(ByteSize(bytes), ByteSize(target.most)),
            Self::Disk(source) => FetchError::Write { path: target.file.clone(), source },
        }
    }
}

impl From<std::io::Error> for FetchFailure {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Makes one attempt. The file gets its final path only if it is complete and has the known version.
async fn try_fetch(
    store: &OpenStore,
    key: &Key,
    known: Option<ManifestObject>,
    target: &FetchTarget,
) -> Result<FileVersion, FetchFailure> {
    let options = GetOptions::default();
    let answer = store.objects().get_opts(key, options).await.map_err(FetchFailure::Refused)?;
    let found = file_of(&answer.meta);
    if known.is_some_and(|known| differs(&known, &found.into())) {
        let source = "another version".into();
        return Err(FetchFailure::Refused(Error::Precondition { path: key.to_string(), source }));
    }
    let found = known.map_or(found, |known| known.found);
    if found.length > target.most {
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
        return Err(FetchFailure::Short(written, found.length));
    }
    file.set_modified(modified(&found))?;
    drop(file);
    put(&target.part, &target.file)?;
    Ok(found)
}

/// Moves a file to its final path. Replaces anything there.
fn put(part: &Path, file: &Path) -> std::io::Result<()> {
    make_folder(file)?;
    match fs::rename(part, file) {
        // An earlier job had a folder here, and now it is an object: no wanted object is below it.
        Err(_) if file.symlink_metadata().is_ok_and(|there| there.is_dir()) => {
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
            // An earlier job had an object here, and now it is a folder.
            let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok());
            there.map_or(Ok(()), fs::remove_file)?;
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
        let was = file_of(&object(Some("one"), 3, 5_000_000_007));
        assert_eq!(was, file_of(&object(Some("\"one\""), 3, 5_000_000_007)), "as Azure has it");
        for other in [
            object(Some("two"), 3, 5_000_000_007),
            object(None, 3, 5_000_000_007),
            object(Some("one"), 4, 5_000_000_007),
            object(Some("one"), 3, 6_000_000_007),
        ] {
            assert_ne!(was, file_of(&other), "{other:?}");
        }
        // The answer against the list's record: the times may differ, and versions may be missing. A file
        // system may not keep the time that stands for the version.
        for known in [
            was.into(),
            ManifestObject { found: FileVersion { nanos: 0, ..was }, version: was.nanos },
        ] {
            let is_other = |other: ObjectMeta| differs(&known, &file_of(&other).into());
            assert!(!is_other(object(Some("one"), 3, 6_000_000_007)));
            assert!(!is_other(object(None, 3, 5_000_000_007)));
            assert!(is_other(object(Some("two"), 3, 5_000_000_007)));
            assert!(is_other(object(Some("one"), 4, 5_000_000_007)));
        }
    }

    /// An earlier job may have left anything there.
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
            put(&path("part"), &path(name)).unwrap();
            let there = path(name).symlink_metadata().unwrap();
            assert!(there.is_file() && there.len() == 2, "{name}");
        }
        assert!(!path("part").exists());
    }

    #[test]
    fn keys_that_cannot_be_paths_are_refused() {
        let data = Path::new("/data");
        assert_eq!(place(data, "a/b c.csv").unwrap(), Path::new("/data/a/b c.csv"));
        for wrong in ["", "../a", "a/../../b", "/etc/passwd", "a/", "a//b", "a\0b"] {
            assert!(place(data, wrong).is_err(), "{wrong:?}");
        }
        assert!(place(data, &"x".repeat(256)).is_err());
    }

    #[test]
    fn any_object_name_becomes_a_valid_file_name() {
        let data = PathBuf::from("/data");
        assert_eq!(file_name("a//b"), "a%2F%2Fb");
        for odd in ["a//b", "", "..", "a/../b", "a\0b", &"ä".repeat(300), &"x/".repeat(300)] {
            assert!(place(&data, odd).is_err());
            place(&data, &file_name(odd)).unwrap();
        }
        assert_ne!(file_name(&"x".repeat(300)), file_name(&"x".repeat(301)));
    }
}
