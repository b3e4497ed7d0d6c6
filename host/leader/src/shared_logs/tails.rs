//! Finds what is new in the log tree. Only the ends of files are read: a job's events may have gigabytes.

use super::chunk::ChunkBuilder;
use crate::model::JobDir;
use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A chunk that has this many bytes gets no further piece.
const CHUNK_BYTES: usize = 4 << 20;
/// A piece has at most this many bytes. The rest of the file is in later chunks.
const PIECE_BYTES: u64 = 1 << 20;
/// The last bytes before the new part of a file are compared with those that were copied.
const COMPARED_BYTES: usize = 32;

/// Files of the leader that are appended to: a folder of the log tree, and a part that the names of its files have.
const APPENDED: [(&str, &str); 3] =
    [("sys", "events.jsonl"), ("", "failed_items.csv"), ("sys", "master_role.")];
/// As [`APPENDED`], for folders that have a folder for each node.
const APPENDED_OF_NODES: [(&str, &str); 2] = [("user/error", ".txt"), ("sys/error", ".txt")];
/// As [`APPENDED_OF_NODES`]: files of workers on this machine. Workers on other machines write theirs to the store.
const APPENDED_OF_WORKERS: [(&str, &str); 4] = [
    ("user/entry_script_log", ".log.txt"),
    ("user/stdout", ".stdout.txt"),
    ("user/stderr", ".stderr.txt"),
    ("sys/node", ".stderr.txt"),
];
/// Small files that the leader replaces.
const REPLACED: [&str; 3] = ["job_result.txt", "job_error.txt", "user/error.txt"];

/// What was copied of the files of a log tree.
#[derive(Debug)]
pub(super) struct Tails {
    logs: PathBuf,
    has_workers: bool,
    appended: HashMap<String, Tail>,
    /// The versions of replaced files.
    replaced: HashMap<String, (u64, i64, i64)>,
}

/// What was copied of a file.
#[derive(Debug, Default)]
struct Tail {
    /// The length of the copied part.
    offset: u64,
    /// The last bytes of the copied part.
    last: Vec<u8>,
}

impl Tails {
    /// Nothing of the log tree was copied yet. `has_workers`: whether workers on this machine write to it.
    pub(super) fn new(job_dir: &JobDir, has_workers: bool) -> Self {
        let logs = job_dir.logs();
        Self { logs, has_workers, appended: HashMap::new(), replaced: HashMap::new() }
    }

    /// A chunk with new parts of files, which then count as copied. Empty if nothing is new. Skips files that cannot
    /// be read.
    pub(super) fn next_chunk(&mut self) -> Vec<u8> {
        let mut chunk = ChunkBuilder::default();
        for name in REPLACED {
            self.add_replaced(name, &mut chunk);
        }
        for path in self.appended_files() {
            if chunk.len() >= CHUNK_BYTES {
                break;
            }
            // The next call tries again.
            let _ = self.add_tail(path, &mut chunk);
        }
        chunk.encode()
    }

    fn add_replaced(&mut self, name: &str, chunk: &mut ChunkBuilder) {
        let path = self.logs.join(name);
        let Ok(found) = path.symlink_metadata() else { return };
        let version = (found.len(), found.mtime(), found.mtime_nsec());
        if !found.is_file() || self.replaced.get(name) == Some(&version) {
            return;
        }
        let mut bytes = Vec::new();
        let read = open(&path).and_then(|file| file.take(PIECE_BYTES).read_to_end(&mut bytes));
        if read.is_ok() {
            chunk.add(name, 0, true, &bytes);
            self.replaced.insert(name.to_owned(), version);
        }
    }

    fn add_tail(&mut self, path: String, chunk: &mut ChunkBuilder) -> io::Result<()> {
        let file = self.logs.join(&path);
        let length = file.symlink_metadata().ok().filter(Metadata::is_file);
        let length = length.map_or(0, |found| found.len());
        let tail = self.appended.get(&path);
        let copied = tail.map_or(0, |tail| tail.offset);
        if length == copied {
            return Ok(());
        }
        let file = open(&file)?;
        // A file may have been emptied, and have grown again.
        let is_same = length > copied && tail.is_none_or(|tail| tail.continues_in(&file));
        let offset = if is_same { copied } else { 0 };
        let mut bytes = vec![0; usize::try_from((length - offset).min(PIECE_BYTES)).unwrap_or(0)];
        let count = read_at(&file, &mut bytes, offset)?;
        bytes.truncate(count);
        chunk.add(&path, offset, !is_same, &bytes);
        let tail = self.appended.entry(path).or_default();
        if !is_same {
            tail.last.clear();
        }
        tail.offset = offset + bytes.len() as u64;
        tail.last.extend_from_slice(&bytes[bytes.len().saturating_sub(COMPARED_BYTES)..]);
        tail.last.drain(..tail.last.len().saturating_sub(COMPARED_BYTES));
        Ok(())
    }

    /// The files that are appended to.
    fn appended_files(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (folder, part) in APPENDED {
            self.list(folder, part, &mut found);
        }
        let of_workers = APPENDED_OF_WORKERS.iter().filter(|_| self.has_workers);
        for (folder, part) in APPENDED_OF_NODES.iter().chain(of_workers) {
            for node in names_in(&self.logs.join(folder)) {
                self.list(&format!("{folder}/{node}"), part, &mut found);
            }
        }
        found
    }

    /// Adds the files of a folder whose names have this part.
    fn list(&self, folder: &str, part: &str, found: &mut Vec<String>) {
        let names = names_in(&self.logs.join(folder)).into_iter();
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        found.extend(names.filter(|name| name.contains(part)).map(|name| prefix.clone() + &name));
    }
}

impl Tail {
    /// Whether the file still has the last bytes that were copied.
    fn continues_in(&self, file: &File) -> bool {
        let mut bytes = vec![0; self.last.len()];
        let offset = self.offset - self.last.len() as u64;
        read_at(file, &mut bytes, offset).is_ok_and(|_| bytes == self.last)
    }
}

/// The names in a folder. Empty if it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Opens a file, but does not follow a link or block on a fifo.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let is_file = file.metadata()?.is_file();
    if is_file { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::super::chunk::decode;
    use super::*;
    use crate::model::{WorkerId, rotated};
    use std::io::Write;

    struct Job {
        _folder: tempfile::TempDir,
        dir: JobDir,
        tails: Tails,
    }

    impl Job {
        fn new(has_workers: bool) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let dir = JobDir::new(folder.path());
            let tails = Tails::new(&dir, has_workers);
            Self { _folder: folder, dir, tails }
        }

        fn append(&self, path: &Path, text: &str) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::options().create(true).append(true).open(path);
            file.unwrap().write_all(text.as_bytes()).unwrap();
        }

        /// `PATH @OFFSET: TEXT` of each new piece, with `!` if the file restarts.
        fn new_pieces(&mut self) -> Vec<String> {
            let chunk = self.tails.next_chunk();
            let shown = decode(&chunk).unwrap().into_iter().map(|(piece, bytes)| {
                let restarts = if piece.restarts { "!" } else { "" };
                let text = String::from_utf8_lossy(bytes);
                format!("{} @{}{restarts}: {text}", piece.path, piece.offset)
            });
            shown.collect()
        }
    }

    #[test]
    fn only_what_is_new_is_copied() {
        let mut job = Job::new(true);
        assert!(job.new_pieces().is_empty());
        let events = job.dir.events();
        let stdout = job.dir.script_stdout(WorkerId(3));
        job.append(&events, "one\n");
        job.append(&stdout, "hello\n");
        job.append(
            &job.dir.script_log_dir(crate::model::NodeId::ONLY).join("x.log.txt"),
            "not this",
        );
        job.append(&job.dir.mini_batch_report(), "nor this");
        let expected =
            ["sys/events.jsonl @0: one\n", "user/stdout/0/process003.stdout.txt @0: hello\n"];
        assert_eq!(job.new_pieces(), expected);
        assert!(job.new_pieces().is_empty());
        job.append(&events, "two\n");
        assert_eq!(job.new_pieces(), ["sys/events.jsonl @4: two\n"]);
        // A worker empties a file, and writes more than before.
        let newest = rotated(&stdout, 1);
        job.append(&newest, "first\n");
        assert_eq!(job.new_pieces().len(), 1);
        fs::write(&newest, "second text\n").unwrap();
        let expected = ["user/stdout/0/process003.stdout.txt.1 @0!: second text\n"];
        assert_eq!(job.new_pieces(), expected);
        fs::write(&newest, "x").unwrap();
        assert_eq!(job.new_pieces(), ["user/stdout/0/process003.stdout.txt.1 @0!: x"]);
        // The worker's files were removed, because there were too many bytes.
        fs::remove_file(&newest).unwrap();
        assert!(job.new_pieces().is_empty());
    }

    #[test]
    fn small_files_are_replaced() {
        let mut job = Job::new(false);
        job.append(&job.dir.user_errors(), "1 time\n");
        job.append(&job.dir.script_stdout(WorkerId(0)), "in the store already");
        assert_eq!(job.new_pieces(), ["user/error.txt @0!: 1 time\n"]);
        assert!(job.new_pieces().is_empty());
        fs::write(job.dir.user_errors(), "22 times\n").unwrap();
        assert_eq!(job.new_pieces(), ["user/error.txt @0!: 22 times\n"]);
    }

    /// A large file comes in several chunks.
    #[test]
    fn chunks_are_bounded() {
        let mut job = Job::new(true);
        let text = "0123456789abcde\n".repeat(400_000);
        job.append(&job.dir.events(), &text);
        let mut copied = Vec::new();
        let mut chunks = 0;
        loop {
            let chunk = job.tails.next_chunk();
            if chunk.is_empty() {
                break;
            }
            assert!(chunk.len() < CHUNK_BYTES + (2 << 20));
            for (piece, bytes) in decode(&chunk).unwrap() {
                assert_eq!(piece.offset, copied.len() as u64);
                copied.extend_from_slice(bytes);
            }
            chunks += 1;
        }
        assert_eq!((copied == text.as_bytes(), chunks), (true, 7));
    }
}
