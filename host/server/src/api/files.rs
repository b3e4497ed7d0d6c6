//! Sends files, or ranges of them.

use crate::problem::Problem;
use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, statat};
use rustix::io::Errno;
use sandmill_files::opening::{at_its_path, regular_at_its_path};
use sandmill_model::is_inside;
use serde::Serialize;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::ToSchema;

/// The bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// The chunks that may wait for the network.
const CHUNKS: usize = 4;
/// The most files that are listed.
pub(crate) const MOST_FILES: usize = 10_000;
/// The levels of folders that are listed.
const MOST_LEVELS: usize = 16;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub(crate) struct FileBody {
    /// The path in its folder.
    pub(crate) path: String,
    /// Its length in bytes.
    pub(crate) bytes: u64,
}

/// Opens a file that a caller names, below a folder. Follows no link.
///
/// # Errors
/// If there is no such file.
pub(crate) fn open_below(folder: &Path, name: &str) -> Result<(File, u64), Problem> {
    let missing = || Problem::not_found("file");
    let is_name = !name.is_empty() && !name.contains('\0') && is_inside(Path::new(name));
    if !is_name || Path::new(name).is_absolute() {
        return Err(missing());
    }
    let folder = folder.canonicalize().map_err(|_| missing())?;
    let (file, metadata) = regular_at_its_path(&folder.join(name)).map_err(|_| missing())?;
    Ok((file, metadata.len()))
}

/// The files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FilesBody {
    /// The files, in the order of their paths.
    pub(crate) items: Vec<FileBody>,
    /// Whether there are more files, or deeper folders, than are listed.
    pub(crate) is_truncated: bool,
}

/// Lists the files below a folder, in the order of their paths. Follows no link. Without the folder, there are none.
///
/// # Errors
/// If a folder cannot be read.
pub(crate) fn list_below(root: &Path) -> io::Result<FilesBody> {
    let root = match root.canonicalize() {
        Ok(root) => root,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(FilesBody::default()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    let mut is_truncated = false;
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((folder, level)) = folders.pop() {
        // The folder is opened before it is read, so that it is not replaced with a link meanwhile.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = match at_its_path(&root.join(&folder), flags, Mode::empty()) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => opened?,
        };
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if name == "." || name == ".." {
                continue;
            }
            let found = match statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                // The job has renamed or removed it meanwhile.
                Err(Errno::NOENT) => continue,
                found => found?,
            };
            let path = folder.join(&*name);
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory if level < MOST_LEVELS => {
                    folders.push((path, level + 1));
                }
                FileType::RegularFile if files.len() < MOST_FILES => {
                    let bytes = u64::try_from(found.st_size).unwrap_or_default();
                    files.push(FileBody { path: path.display().to_string(), bytes });
                }
                FileType::Directory | FileType::RegularFile => is_truncated = true,
                _ => {}
            }
        }
        if files.len() >= MOST_FILES {
            is_truncated |= !folders.is_empty();
            break;
        }
    }
    files.sort();
    Ok(FilesBody { items: files, is_truncated })
}

/// The range that a caller asks for: its first byte and its length. `None` for the whole file.
fn range(headers: &HeaderMap, length: u64) -> Result<Option<(u64, u64)>, Problem> {
    // Several ranges, and other units, may be answered with the whole file.
    let Some(text) = headers.get(RANGE).and_then(|range| range.to_str().ok()) else {
        return Ok(None);
    };
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|pair| pair.split_once('-'))
    else {
        return Ok(None);
    };
    let (first, last) = (first.trim(), last.trim());
    let (from, to) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.min(length.saturating_sub(1))),
        (Ok(first), Err(_)) if last.is_empty() => (first, length.saturating_sub(1)),
        (Err(_), Ok(0)) if first.is_empty() => return Err(Problem::range(length)),
        (Err(_), Ok(count)) if first.is_empty() => {
            (length.saturating_sub(count), length.saturating_sub(1))
        }
        _ => return Ok(None),
    };
    if from >= length {
        return Err(Problem::range(length));
    }
    Ok(Some((from, to - from + 1)))
}

/// Sends a file, or the range that the caller asks for. `name`: the name under which a browser keeps the file.
///
/// # Errors
/// If the range is outside of the file.
pub(crate) fn send(
    (file, length): (File, u64),
    headers: &HeaderMap,
    name: &str,
) -> Result<Response, Problem> {
    let asked = range(headers, length)?;
    let (from, count) = asked.unwrap_or((0, length));
    let mut response = (StatusCode::OK, stream(file, from, count)).into_response();
    let answer = response.headers_mut();
    if asked.is_some() {
        let text = format!("bytes {from}-{}/{length}", from + count - 1);
        if let Ok(text) = HeaderValue::try_from(text) {
            answer.insert(CONTENT_RANGE, text);
        }
    }
    answer.insert(CONTENT_LENGTH, HeaderValue::from(count));
    answer.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // The content is a stranger's: a browser must not run it as a page of this server.
    answer.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    answer.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if let Ok(text) = HeaderValue::try_from(format!("attachment; filename=\"{plain}\"")) {
        answer.insert(CONTENT_DISPOSITION, text);
    }
    if asked.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// A body with so many bytes of a file. No thread waits for a slow receiver.
fn stream(file: File, from: u64, count: u64) -> Body {
    let (sender, chunks) = mpsc::channel::<io::Result<Bytes>>(CHUNKS);
    tokio::spawn(async move {
        let (mut file, mut at, mut left) = (file, from, count);
        while left > 0 {
            let wanted = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            let read = tokio::task::spawn_blocking(move || {
                let mut chunk = vec![0; wanted];
                let read = file.read_at(&mut chunk, at);
                (file, read.map(|read| (chunk, read)))
            });
            let Ok((same, read)) = read.await else { return };
            file = same;
            let next = match read {
                // The file has become shorter: the receiver notices that bytes are missing.
                Ok((_, 0)) => return,
                Ok((mut chunk, read)) => {
                    chunk.truncate(read);
                    at += read as u64;
                    left -= read as u64;
                    Ok(Bytes::from(chunk))
                }
                Err(error) => Err(error),
            };
            let has_failed = next.is_err();
            if sender.send(next).await.is_err() || has_failed {
                return;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(chunks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Option<(u64, u64)>, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, text.parse().unwrap());
        range(&headers, 10)
    }

    #[test]
    fn ranges_are_read_as_http_says() {
        assert_eq!(asked("bytes=0-3").unwrap(), Some((0, 4)));
        assert_eq!(asked("bytes=8-").unwrap(), Some((8, 2)));
        assert_eq!(asked("bytes=8-99").unwrap(), Some((8, 2)));
        assert_eq!(asked("bytes=-3").unwrap(), Some((7, 3)));
        assert_eq!(asked("bytes=-99").unwrap(), Some((0, 10)));
        for text in ["bytes=10-", "bytes=-0", "bytes=10-11"] {
            assert!(asked(text).is_err(), "{text}");
        }
        for text in ["bytes=3-1", "lines=1-2", "bytes=0-1,3-4", "bytes=x-"] {
            assert_eq!(asked(text).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn only_files_below_the_folder_are_opened_and_listed() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("in");
        std::fs::create_dir_all(folder.join("a")).unwrap();
        std::fs::write(folder.join("a/b.txt"), "text").unwrap();
        std::fs::write(outer.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(outer.path(), folder.join("link")).unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("secret")).unwrap();
        let listed = list_below(&folder).unwrap();
        assert_eq!(listed.items, [FileBody { path: "a/b.txt".to_owned(), bytes: 4 }]);
        assert_eq!(open_below(&folder, "a/b.txt").unwrap().1, 4);
        let secret = outer.path().join("secret").display().to_string();
        for name in ["../secret", "link/secret", "secret", "a", "", &secret, "a/../../secret"] {
            assert!(open_below(&folder, name).is_err(), "{name}");
        }
        assert_eq!(list_below(&outer.path().join("missing")).unwrap(), FilesBody::default());
    }
}
