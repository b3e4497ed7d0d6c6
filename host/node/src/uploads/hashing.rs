//! The digests of files that are uploaded.

use super::LocalFile;
use crate::model::ContentRef;
use crate::opening::regular;
use crate::upload_error::UploadError;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

/// How many files are read at the same time, at most.
const MAX_THREADS: usize = 8;
/// How much is read at a time, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is uploaded, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HashedFile {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) length: u64,
    pub(super) sha256: [u8; 32],
}

/// Reads all files. The result has their order. It is useless if `stop` is true.
pub(super) fn hash_all(
    files: &[LocalFile],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<HashedFile>, UploadError> {
    for_each(files, stop, &|LocalFile { name, path }| {
        let read = |source| UploadError::Read { path: path.clone(), source };
        let (mut file, found) = regular(path).map_err(read)?;
        let (length, sha256) = hash(&mut file, stop, &mut |_| Ok(())).map_err(read)?;
        if length != found.len() && !stop() {
            return Err(UploadError::Changed(path.clone()));
        }
        Ok(HashedFile { name: name.clone(), path: path.clone(), length, sha256 })
    })
}

/// Does something with each item, several at a time. The result has their order. Ends early, with what it has, if `stop` is
/// true.
pub(super) fn for_each<T: Sync, R: Send>(
    items: &[T],
    stop: &(dyn Fn() -> bool + Sync),
    work: &(dyn Fn(&T) -> Result<R, UploadError> + Sync),
) -> Result<Vec<R>, UploadError> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index).filter(|_| !stop()) else {
                return Ok::<_, UploadError>(done);
            };
            let result = work(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed));
            done.push((index, result?));
        }
    };
    let mut all = Vec::with_capacity(items.len());
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
        for thread in running {
            all.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok::<(), UploadError>(())
    })?;
    all.sort_unstable_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

/// Reads a file to its end. Returns its length and its SHA-256.
pub(super) fn hash(
    file: &mut File,
    stop: &dyn Fn() -> bool,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(u64, [u8; 32])> {
    let mut digest = Sha256::new();
    let mut length = 0;
    let mut buffer = vec![0; BUFFER_BYTES];
    while !stop() {
        let read = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        digest.update(bytes);
        take(bytes)?;
        length += read as u64;
    }
    Ok((length, digest.finalize().into()))
}

/// The digest of the names, lengths and contents of files, and their bytes.
pub(super) fn content_of(files: &[HashedFile]) -> ContentRef {
    let mut digest = Sha256::new();
    let mut sorted: Vec<&HashedFile> = files.iter().collect();
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    for HashedFile { name, length, sha256, .. } in sorted {
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(name);
        digest.update(length.to_be_bytes());
        digest.update(sha256);
    }
    let bytes = files.iter().map(|file| file.length).sum();
    ContentRef { sha256: digest.finalize().into(), bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, path: &str, content: &str) -> HashedFile {
        let sha256 = Sha256::digest(content).into();
        let length = content.len() as u64;
        HashedFile { name: name.to_owned(), path: path.into(), length, sha256 }
    }

    /// Where the files are on the submitter's machine does not count.
    #[test]
    fn the_digest_covers_names_and_contents() {
        let content = content_of(&[file("a", "/x/a", "1"), file("b", "/x/b", "2")]);
        assert_eq!(content.bytes, 2);
        assert_eq!(content_of(&[file("b", "/y/b", "2"), file("a", "/y/a", "1")]), content);
        for other in [
            vec![file("a", "/x/a", "1"), file("b", "/x/b", "3")],
            vec![file("a", "/x/a", "1"), file("c", "/x/b", "2")],
            vec![file("ab", "/x/a", "1"), file("", "/x/b", "2")],
            vec![file("a", "/x/a", "1")],
        ] {
            assert_ne!(content_of(&other), content, "{other:?}");
        }
    }

    #[test]
    fn thousands_of_files_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let files = (0..3000).map(|number| {
            let path = dir.path().join(number.to_string());
            std::fs::write(&path, vec![b'x'; number]).unwrap();
            LocalFile { name: number.to_string(), path }
        });
        let files: Vec<LocalFile> = files.collect();
        let hashed = hash_all(&files, &|| false).unwrap();
        assert!(hashed.iter().enumerate().all(|(index, file)| file.length == index as u64));
        assert_eq!(hashed.len(), 3000);
    }

    #[test]
    fn a_missing_file_is_named() {
        let file = LocalFile { name: "a".to_owned(), path: "/nowhere/a".into() };
        let error = hash_all(&[file], &|| false).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/a cannot be read: "), "{error}");
    }
}
