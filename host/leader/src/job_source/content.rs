//! Contents in a job's store, which are named by their digests.

use super::SourceError;
use crate::model::{ContentRef, to_usize};
use sandmill_commit_log::{LogStore, OBJECT_BYTES, ObjectCutter, create_own};
use sha2::{Digest, Sha256};
use std::io::ErrorKind;

/// The folder of the contents, in the job's store.
const FOLDER: &str = "sources";

/// Takes bytes.
pub(super) type Take<'a> = dyn FnMut(&[u8]) -> Result<(), SourceError> + 'a;
/// Passes all bytes of a content on. The same bytes each time.
pub(super) type Produce<'a> = dyn FnMut(&mut Take<'_>) -> Result<(), SourceError> + 'a;

/// The name of an object of a content.
fn object(folder: &str, number: u64) -> String {
    format!("{folder}/{number}")
}

fn folder_of(content: &ContentRef) -> String {
    format!("{FOLDER}/{}", content.hex())
}

/// The length of an object. `number`: from 0.
fn length_of(content: &ContentRef, number: u64) -> u64 {
    let most = OBJECT_BYTES as u64;
    content.bytes.saturating_sub(number * most).min(most)
}

/// Puts a content into the store, unless the store has it. `what` and `most`: its kind, for messages, and its highest length.
pub(super) fn put(
    store: &dyn LogStore,
    (what, most): (&'static str, u64),
    produce: &mut Produce<'_>,
) -> Result<ContentRef, SourceError> {
    let mut bytes = 0;
    let mut digest = Sha256::new();
    // An object never gets other bytes than those that the content's name stands for: nothing could correct it.
    let mut objects: Vec<[u8; 32]> = Vec::new();
    let mut note = |_: u32, object: &[u8]| {
        objects.push(Sha256::digest(object).into());
        Ok::<(), SourceError>(())
    };
    let mut cutter = ObjectCutter::default();
    produce(&mut |some| {
        bytes += some.len() as u64;
        digest.update(some);
        cutter.write(some, &mut note)?;
        if bytes > most { Err(SourceError::TooLarge { what, bytes, most }) } else { Ok(()) }
    })?;
    cutter.end(&mut note)?;
    let content = ContentRef { sha256: digest.finalize().into(), bytes };
    let folder = folder_of(&content);
    if is_there(store, &content) {
        return Ok(content);
    }
    store.make_folder(&folder).map_err(|error| unavailable(&folder, error))?;
    let mut created = 0;
    let mut create = |number: u32, bytes: &[u8]| {
        if objects.get(created) != Some(&Sha256::digest(bytes).into()) {
            return Err(SourceError::Changed);
        }
        created += 1;
        create_own(store, &object(&folder, number.into()), bytes).map_err(SourceError::from)
    };
    let mut cutter = ObjectCutter::default();
    produce(&mut |some| cutter.write(some, &mut create))?;
    cutter.end(&mut create)?;
    if created == objects.len() { Ok(content) } else { Err(SourceError::Changed) }
}

fn unavailable(name: &str, source: std::io::Error) -> SourceError {
    sandmill_commit_log::LogError::Unavailable { name: name.to_owned(), source }.into()
}

/// Whether the store has all objects of the content. If the store fails, the caller writes the content, and reports what fails
/// then.
fn is_there(store: &dyn LogStore, content: &ContentRef) -> bool {
    let objects = content.bytes.div_ceil(OBJECT_BYTES as u64);
    if !store.list(&folder_of(content)).is_ok_and(|found| found.len() as u64 >= objects) {
        return false;
    }
    let last = objects.saturating_sub(1);
    let length = length_of(content, last);
    let found = store.read_at_most(&object(&folder_of(content), last), length);
    found.is_ok_and(|found| found.is_some_and(|bytes| bytes.len() as u64 == length))
}

/// Reads a content in the store, and passes it on in pieces.
pub(super) fn read(
    store: &dyn LogStore,
    (what, most): (&'static str, u64),
    content: &ContentRef,
    take: &mut Take<'_>,
) -> Result<(), SourceError> {
    let bytes = content.bytes;
    if bytes > most {
        return Err(SourceError::TooLarge { what, bytes, most });
    }
    let folder = folder_of(content);
    let mut digest = Sha256::new();
    for number in 0..bytes.div_ceil(OBJECT_BYTES as u64) {
        let name = object(&folder, number);
        let length = length_of(content, number);
        let wrong = |what| SourceError::Wrong { name: name.clone(), what };
        let found = match store.read_at_most(&name, length) {
            Ok(found) => found.ok_or_else(|| wrong("is missing"))?,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(wrong("is longer than the content that its name says"));
            }
            Err(error) => return Err(SourceError::Unreadable(error)),
        };
        if found.len() != to_usize(length) {
            return Err(wrong("is not what its name says"));
        }
        digest.update(&found);
        take(&found)?;
    }
    if <[u8; 32]>::from(digest.finalize()) != content.sha256 {
        return Err(SourceError::Wrong { name: folder, what: "is not what its name says" });
    }
    Ok(())
}
