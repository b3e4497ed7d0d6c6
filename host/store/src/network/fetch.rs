//! Brings one object.

use super::open::Store;
use super::target::{Target, make, make_folder, modified, put, stand_in};
use super::words::{Asked, FetchError};
use crate::dataset::Found;
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

/// Attempts at one object, each of which tries again by itself what a store refuses for now.
const ATTEMPTS: u32 = 4;
/// The pause after the first.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of the name of what stands for an object whose own name is too long.
const NAME: usize = 200;
/// What stands for an object that was not there when it was looked for.
pub(super) const MISSING: Found = Found { length: 0, seconds: 0, nanos: 0 };

/// What the file of an object is like: the second before its last change, and nanoseconds that stand for its version
/// (the ETag; zero if it has none), so that another version of the same second is another file for whoever compares
/// files, and none seems to have changed later than it did.
pub(super) fn file_of(object: &ObjectMeta) -> Found {
    let nanos = object.e_tag.as_deref().map_or(0, |tag| {
        let digest = Sha256::digest(bare(tag).as_bytes());
        let number = digest.iter().take(4).fold(0_u32, |it, &byte| it << 8 | u32::from(byte));
        number % 999_999_999 + 1
    });
    let seconds = object.last_modified.timestamp().saturating_sub(1).max(0);
    Found { length: object.size, seconds, nanos }
}

/// Whether an answer is about another version.
fn differs(known: &Found, answer: &Found) -> bool {
    let both_tell = known.nanos != 0 && answer.nanos != 0;
    known.length != answer.length || (both_tell && known.nanos != answer.nanos)
}

/// A version without what stands around it: Azure lists it without quotes, and answers with some.
fn bare(e_tag: &str) -> &str {
    e_tag.trim_start_matches("W/").trim_matches('"')
}

/// The same where mostly there is nothing, and nobody looks yet: half the calls of the kernel, and files of a folder
/// lie together on the disk. One that is cut short is known by its length or time, as another version is.
pub(super) fn first_stand_in(known: Found, part: &Path, file: &Path) -> std::io::Result<()> {
    let made = match make(known, file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            make_folder(file)?;
            make(known, file)
        }
        made => made,
    };
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => stand_in(known, part, file),
        made => made,
    }
}

/// A path below the folder for objects. An error says why there can be none.
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

/// The name of a file that stands for an object whose own name no file can have.
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

/// Fetches an object. `known`: what is known of it. Returns its bytes. Fails with [`FetchError::Gone`] if it is no
/// object, but stands for a folder, and with [`FetchError::Write`] if it cannot be written.
pub(super) async fn fetch(
    store: &Store,
    config: &StoreConfig,
    key: &Key,
    known: Option<Found>,
    target: &Target,
) -> Result<u64, FetchError> {
    let mut pause = PAUSE;
    let mut attempt = 1;
    loop {
        let trouble = match bring(store, key, known, target).await {
            Ok(bytes) => return Ok(bytes),
            Err(trouble) => trouble,
        };
        // Nobody needs half of it.
        let _ = fs::remove_file(&target.part);
        if matches!(trouble, Trouble::Refused(Error::NotFound { .. }))
            && known.is_some_and(|known| known.length == 0 && known != MISSING)
        {
            return Err(FetchError::Gone);
        }
        // What is refused for now was asked for again already.
        let broke_off = matches!(trouble, Trouble::Broken(_) | Trouble::Short(..));
        if !broke_off || attempt == ATTEMPTS {
            return Err(trouble.told(config, target));
        }
        attempt += 1;
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

enum Trouble {
    /// No answer.
    Refused(Error),
    /// An answer that broke off.
    Broken(Error),
    Short(u64, u64),
    /// More bytes than may be written.
    Large(u64),
    Disk(std::io::Error),
}

impl Trouble {
    fn told(self, config: &StoreConfig, target: &Target) -> FetchError {
        match self {
            Self::Refused(error) | Self::Broken(error) => {
                FetchError::store(error, Asked::ReadIt, config)
            }
            Self::Short(found, wanted) => FetchError::Short(found, wanted),
            Self::Large(bytes) => FetchError::Large(ByteSize(bytes), ByteSize(target.most)),
            Self::Disk(source) => FetchError::Write { path: target.file.clone(), source },
        }
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error)
    }
}

/// One attempt. The file gets its name only if it is whole, and the version that is known.
async fn bring(
    store: &Store,
    key: &Key,
    known: Option<Found>,
    target: &Target,
) -> Result<u64, Trouble> {
    let options = GetOptions::default();
    let answer = store.objects().get_opts(key, options).await.map_err(Trouble::Refused)?;
    let found = file_of(&answer.meta);
    let meta = known.unwrap_or(found);
    if differs(&meta, &found) {
        let source = "another version".into();
        return Err(Trouble::Refused(Error::Precondition { path: key.to_string(), source }));
    }
    if meta.length > target.most {
        return Err(Trouble::Large(meta.length));
    }
    let GetResultPayload::Stream(mut stream) = answer.payload;
    let mut file = File::create(&target.part)?;
    let mut written = 0;
    while let Some(bytes) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
        let bytes = bytes.map_err(Trouble::Broken)?;
        written += bytes.len() as u64;
        if written > meta.length {
            break;
        }
        file.write_all(&bytes)?;
    }
    if written != meta.length {
        return Err(Trouble::Short(written, meta.length));
    }
    file.set_modified(modified(&meta))?;
    drop(file);
    put(&target.part, &target.file)?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{UNFETCHED, is_stand_in};
    use std::time::UNIX_EPOCH;

    fn object(e_tag: Option<&str>, size: u64, nanos: i64) -> ObjectMeta {
        let location = Key::from("a");
        let last_modified = (UNIX_EPOCH + Duration::from_nanos(nanos.cast_unsigned())).into();
        ObjectMeta { location, last_modified, size, e_tag: e_tag.map(str::to_owned), version: None }
    }

    #[test]
    fn another_version_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let (part, path) = (dir.path().join("part"), dir.path().join("below/a"));
        let was = object(Some("one"), 3, 5_000_000_007);
        stand_in(file_of(&was), &part, &path).unwrap();
        let metadata = path.metadata().unwrap();
        assert!(is_stand_in(&metadata));
        let found = Found::from(&metadata);
        assert_eq!(found, file_of(&was));
        let as_azure_has_it = object(Some("\"one\""), 3, 5_000_000_007);
        assert_eq!(found, file_of(&as_azure_has_it));
        for other in [
            object(Some("two"), 3, 5_000_000_007),
            object(None, 3, 5_000_000_007),
            object(Some("one"), 4, 5_000_000_007),
            object(Some("one"), 3, 6_000_000_007),
        ] {
            assert_ne!(found, file_of(&other), "{other:?}");
        }
        // What came, by what its list said: times may be told otherwise, and versions not at all.
        let is_other = |other: ObjectMeta| differs(&found, &file_of(&other));
        assert!(!is_other(object(Some("one"), 3, 6_000_000_007)));
        assert!(!is_other(object(None, 3, 5_000_000_007)));
        assert!(is_other(object(Some("two"), 3, 5_000_000_007)));
        assert!(is_other(object(Some("one"), 4, 5_000_000_007)));
    }

    #[test]
    fn a_first_stand_in_comes_to_its_place_whatever_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("was"), "an object").unwrap();
        std::os::unix::fs::symlink(UNFETCHED, path("unfetched")).unwrap();
        fs::create_dir_all(path("folder/inner")).unwrap();
        std::os::unix::fs::symlink(UNFETCHED, path("mark")).unwrap();
        fs::write(path("file"), "of an earlier job").unwrap();
        let known = file_of(&object(Some("one"), 3, 5_000_000_007));
        for name in ["new/below/a", "folder", "mark", "file", "was/folder/a", "unfetched/a"] {
            first_stand_in(known, &path("part"), &path(name)).unwrap();
            let metadata = path(name).symlink_metadata().unwrap();
            assert!(is_stand_in(&metadata) && Found::from(&metadata) == known, "{name}");
        }
        assert!(!path("part").exists());
    }

    #[test]
    fn keys_that_are_no_paths_have_no_place() {
        let data = Path::new("/data");
        assert_eq!(place(data, "a/b c.csv").unwrap(), Path::new("/data/a/b c.csv"));
        for wrong in ["", "../a", "a/../../b", "/etc/passwd", "a/", "a//b", "a\0b"] {
            assert!(place(data, wrong).is_err(), "{wrong:?}");
        }
        assert!(place(data, &"x".repeat(256)).is_err());
    }

    #[test]
    fn whatever_its_name_an_object_has_a_file() {
        let data = PathBuf::from("/data");
        assert_eq!(file_name("a//b"), "a%2F%2Fb");
        for odd in ["a//b", "", "..", "a/../b", "a\0b", &"ä".repeat(300), &"x/".repeat(300)] {
            assert!(place(&data, odd).is_err());
            place(&data, &file_name(odd)).unwrap();
        }
        assert_ne!(file_name(&"x".repeat(300)), file_name(&"x".repeat(301)));
    }
}
