//! Fetches the logs of a job's leaders from its store, into a folder of this machine. Only new chunks are read.

use super::chunk::{Piece, decode};
use super::sharing::{MERGED_CHUNKS, folders};
use crate::model::JobDir;
use sandmill_commit_log::{LogError, LogStore, RecordSeries};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// How much of a leader's logs a folder has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopiedLeader {
    /// The number of the record with which the leader began.
    pub(crate) epoch: u64,
    /// The number of the first chunk that is missing.
    pub(crate) next: u64,
}

/// Why logs cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] LogError),
    /// A chunk cannot be understood.
    #[error("it cannot be understood ({0}): use the version of sandmill that runs the job")]
    Chunk(String),
    /// The folder of this machine failed.
    #[error(transparent)]
    Folder(#[from] io::Error),
}

/// Fetches what is new of a leader's logs into `to`. `copied` counts what was fetched, also if this fails later.
pub(crate) fn fetch(
    store: &Arc<dyn LogStore>,
    run: &str,
    copied: &mut CopiedLeader,
    to: &JobDir,
) -> Result<(), CopyError> {
    let [chunks, merged] = folders(copied.epoch).map(|name| RecordSeries::new(store, run, &name));
    loop {
        let is_first = copied.next.is_multiple_of(MERGED_CHUNKS);
        let number = copied.next / MERGED_CHUNKS;
        let several = if is_first { read(&merged, number)? } else { Found::Nothing };
        let (found, count) = match several {
            Found::Chunk(_) => (several, MERGED_CHUNKS),
            Found::Nothing | Found::Damage => (read(&chunks, copied.next)?, 1),
        };
        match found {
            Found::Chunk(chunk) => apply(&chunk, &to.logs())?,
            // Its content is lost.
            Found::Damage => {}
            Found::Nothing => return Ok(()),
        }
        copied.next += count;
    }
}

/// What a reader finds under a number.
enum Found {
    Chunk(Vec<u8>),
    /// A crash of the store has damaged the chunk.
    Damage,
    Nothing,
}

fn read(series: &RecordSeries, number: u64) -> Result<Found, LogError> {
    match series.read(number) {
        Ok(Some(record)) => Ok(Found::Chunk(record.payload)),
        Ok(None) => Ok(Found::Nothing),
        Err(LogError::Damaged { .. }) => Ok(Found::Damage),
        Err(error) => Err(error),
    }
}

/// Writes the pieces of a chunk to the files of a log tree. Writing them twice changes nothing.
fn apply(chunk: &[u8], logs: &Path) -> Result<(), CopyError> {
    for (piece, bytes) in decode(chunk).map_err(CopyError::Chunk)? {
        write_piece(&piece, bytes, logs)?;
    }
    Ok(())
}

/// Writes a piece to its file of a log tree.
pub(super) fn write_piece(piece: &Piece, bytes: &[u8], logs: &Path) -> io::Result<()> {
    let path = logs.join(&piece.path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = File::options();
    let options = options.create(true).write(true).truncate(piece.restarts);
    let file = options.mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path)?;
    file.write_all_at(bytes, piece.offset)
}

#[cfg(test)]
mod tests {
    use super::super::sharing::{LogSharing, Shared};
    use super::super::{leaders, read_last_word};
    use super::*;
    use sandmill_commit_log::FolderStore;
    use std::io::Write;
    use std::sync::mpsc;
    use std::time::Duration;
    use tokio::sync::mpsc::unbounded_channel;

    struct Job {
        folder: tempfile::TempDir,
        store: Arc<dyn LogStore>,
        dir: JobDir,
    }

    impl Job {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            let store: Arc<dyn LogStore> = Arc::new(FolderStore::new(root.join("store")));
            Self { store, dir: JobDir::new(root.join("job")), folder }
        }

        fn append(&self, text: &str) {
            let path = self.dir.events();
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::options().create(true).append(true).open(path);
            file.unwrap().write_all(text.as_bytes()).unwrap();
        }

        fn share(&self, epoch: u64) -> LogSharing {
            let directory = format!("directory-{epoch}");
            let Self { store, dir: job_dir, .. } = self;
            let shared = Shared { store, run: "r", epoch, job_dir, directory, has_workers: true };
            LogSharing::start(shared, unbounded_channel().0).unwrap()
        }

        /// The events on the other machine.
        fn fetch(&self, copied: &mut CopiedLeader) -> String {
            let to = JobDir::new(self.folder.path().join(format!("copy-{}", copied.epoch)));
            fetch(&self.store, "r", copied, &to).unwrap();
            fs::read_to_string(to.events()).unwrap_or_default()
        }
    }

    #[test]
    fn another_machine_gets_what_is_new() {
        let job = Job::new();
        let mut copied = CopiedLeader { epoch: 0, next: 0 };
        assert_eq!(job.fetch(&mut copied), "");
        job.append("one\n");
        job.share(0).finish(false);
        assert_eq!(job.fetch(&mut copied), "one\n");
        assert_eq!(copied.next, 1);
        assert!(read_last_word(&job.store, "r").unwrap().unwrap().has_ended);
        // The next leader has a directory of its own.
        job.append("two\n");
        job.share(9).finish(false);
        assert_eq!(leaders(&job.store, "r").unwrap().len(), 2);
        assert_eq!(job.fetch(&mut CopiedLeader { epoch: 9, next: 0 }), "one\ntwo\n");
        // A copy whose progress was not recorded is repeated.
        copied.next = 0;
        assert_eq!(job.fetch(&mut copied), "one\n");
    }

    /// A reader that comes late needs fewer requests, and gets the same.
    #[test]
    fn merged_chunks_have_the_same_content() {
        let job = Job::new();
        let [chunks, merged] = folders(0).map(|name| RecordSeries::new(&job.store, "r", &name));
        // More than one chunk with the same content as many small ones.
        let line = format!("{}\n", "x".repeat((1 << 16) - 1));
        let all = line.repeat(MERGED_CHUNKS as usize + 3);
        let mut tails = super::super::tails::Tails::new(&job.dir, true);
        let mut together = Vec::new();
        chunks.make().unwrap();
        merged.make().unwrap();
        for number in 0..MERGED_CHUNKS + 3 {
            job.append(&line);
            let chunk = tails.next_chunk();
            if number < MERGED_CHUNKS {
                together.extend_from_slice(&chunk);
            }
            // Only a merged chunk has these.
            if !(1..MERGED_CHUNKS).contains(&number) {
                chunks.write(number, &chunk).unwrap();
            }
        }
        merged.write(0, &together).unwrap();
        let mut copied = CopiedLeader { epoch: 0, next: 0 };
        assert!(job.fetch(&mut copied) == all);
        assert_eq!(copied.next, MERGED_CHUNKS + 3);
        // A crash of the store costs the chunk that it damages.
        let name = format!("r/{}/{:020}", folders(0)[0], MERGED_CHUNKS + 3);
        job.store.create(&name, b"").unwrap();
        job.append("last\n");
        chunks.write(MERGED_CHUNKS + 4, &tails.next_chunk()).unwrap();
        assert!(job.fetch(&mut copied) == all + "last\n");
    }

    /// A store that fails costs one notice, and no time at the end.
    #[test]
    fn a_failing_store_is_reported_once() {
        let job = Job::new();
        // A file, in which no folder can be made.
        let root = job.folder.path().canonicalize().unwrap().join("file");
        fs::write(&root, "x").unwrap();
        let store: Arc<dyn LogStore> = Arc::new(FolderStore::new(root));
        let (notices, mut received) = unbounded_channel();
        let directory = String::new();
        let Job { dir: job_dir, .. } = &job;
        let shared =
            Shared { store: &store, run: "r", epoch: 0, job_dir, directory, has_workers: true };
        let sharing = LogSharing::start(shared, notices).unwrap();
        let notice = received.blocking_recv().unwrap();
        assert!(notice.starts_with("the logs cannot be copied to the job store now"), "{notice}");
        sharing.finish(false);
        assert_eq!(received.blocking_recv(), None, "the thread has ended");
    }

    /// A store whose calls do not return.
    #[derive(Debug)]
    struct Hanging(std::sync::Mutex<mpsc::Receiver<()>>);

    impl Hanging {
        fn hang<T>(&self) -> io::Result<T> {
            // Returns when the test ends.
            let _ = self.0.lock().unwrap().recv();
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    impl LogStore for Hanging {
        fn make_folder(&self, _: &str) -> io::Result<()> {
            self.hang()
        }
        fn create(&self, _: &str, _: &[u8]) -> io::Result<bool> {
            self.hang()
        }
        fn make_durable(&self, _: &str) -> io::Result<()> {
            self.hang()
        }
        fn remove(&self, _: &str) -> io::Result<()> {
            self.hang()
        }
        fn read(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
            self.hang()
        }
        fn list(&self, _: &str) -> io::Result<Vec<String>> {
            self.hang()
        }

        fn folders(&self, _: &str) -> io::Result<Vec<String>> {
            self.hang()
        }
    }

    #[test]
    fn a_hanging_store_does_not_keep_the_job() {
        let job = Job::new();
        let (_end, ended) = mpsc::channel();
        let store: Arc<dyn LogStore> = Arc::new(Hanging(ended.into()));
        let begun = std::time::Instant::now();
        let directory = String::new();
        let Job { dir: job_dir, .. } = &job;
        let shared =
            Shared { store: &store, run: "r", epoch: 0, job_dir, directory, has_workers: true };
        let sharing = LogSharing::start(shared, unbounded_channel().0).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(2));
        sharing.finish(false);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
