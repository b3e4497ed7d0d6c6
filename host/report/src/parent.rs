//! Copies the overview, the progress and, at the end, all logs into the folder of the parent job (rule A6 in
//! docs/parallel-run-step.md): `<parent>/logs/<job>/`, to which no other job writes.
//!
//! The job's own reports are copied first, because the entry script may leave any files among the
//! logs. Files that cannot be copied are skipped and counted.

use super::log_file::with_path;
use super::logs::LOG_FOLDERS;
use super::node_folders::nodes_in;
use super::phrases::{counted, stamp};
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::JobDir;
use crate::opening::{at_its_path, folder_at_its_path};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const COPY_EVERY: Duration = Duration::from_secs(10);
/// The deepest nesting of folders that is copied, as for published files. A guest may nest folders until
/// paths are too long.
const MAX_DEPTH: usize = 64;

/// Makes the copies. It must be the last reporter: the other reporters have then written their files.
pub(super) struct ParentCopy {
    dir: JobDir,
    to: PathBuf,
    copied: Instant,
    /// The files that are copied while the job runs; empty before the job starts and after it ends.
    watched: Vec<PathBuf>,
}

/// What could not be copied.
#[derive(Default)]
struct LeftOut {
    count: u64,
    first: Option<io::Error>,
}

impl LeftOut {
    fn note(&mut self, copied: io::Result<()>) {
        if let Err(error) = copied {
            self.count += 1;
            self.first.get_or_insert(error);
        }
    }
}

impl ParentCopy {
    /// `to`: the folder of this job among the parent's logs; no part of it is a link.
    pub(super) fn new(dir: &JobDir, to: &Path) -> Self {
        let to = to.to_owned();
        Self { dir: dir.clone(), to, copied: Instant::now(), watched: Vec::new() }
    }

    fn copy(&self, from: &Path) -> io::Result<()> {
        let Ok(relative) = from.strip_prefix(self.dir.logs()) else { return Ok(()) };
        let to = self.to.join(relative);
        let copy = || {
            let mut source = match open(from) {
                // The file does not exist yet, or is a link.
                Err(_) => return Ok(()),
                Ok(source) => source,
            };
            to.parent()
                .map_or(Ok(()), |folder| folder_at_its_path(folder, Mode::RWXU).map(drop))?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
            // Logs may contain secrets from the job's settings, so only the owner may read them.
            let target = at_its_path(&to, flags, Mode::RUSR | Mode::WUSR)?;
            io::copy(&mut source, &mut File::from(target)).map(|_| ())
        };
        copy().map_err(|error| with_path(&to, &error))
    }

    /// Copies what can be copied of a folder, without the files or folders in `except`.
    fn copy_folder(
        &self,
        folder: &Path,
        except: &BTreeSet<PathBuf>,
        depth: usize,
        left: &mut LeftOut,
    ) {
        if depth > MAX_DEPTH {
            let text = format!("it is more than {MAX_DEPTH} folders deep");
            return left.note(Err(with_path(folder, &io::Error::other(text))));
        }
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return left.note(Err(with_path(folder, &error))),
            Ok(entries) => entries,
        };
        for entry in entries {
            let Ok(entry) = entry.map_err(|error| left.note(Err(with_path(folder, &error)))) else {
                continue;
            };
            let path = entry.path();
            // The type of the entry itself: links that a guest made are not copied.
            match entry.file_type() {
                Ok(_) if except.contains(&path) => {}
                Ok(kind) if kind.is_dir() => self.copy_folder(&path, except, depth + 1, left),
                Ok(kind) if kind.is_file() => left.note(self.copy(&path)),
                _ => {}
            }
        }
    }

    fn copy_all(&self) -> io::Result<()> {
        let logs = self.dir.logs();
        // If the nodes cannot be listed, copy_folder reports the same error.
        let nodes = nodes_in(&self.dir, LOG_FOLDERS[0].0).unwrap_or_default();
        let script_logs: BTreeSet<PathBuf> =
            nodes.into_iter().map(|node| self.dir.script_log_dir(node)).collect();
        let mut left_out_reports = LeftOut::default();
        let mut left_out_script_logs = LeftOut::default();
        self.copy_folder(&logs, &script_logs, 0, &mut left_out_reports);
        for folder in &script_logs {
            self.copy_folder(folder, &BTreeSet::new(), 0, &mut left_out_script_logs);
        }
        if let Some(error) = left_out_reports.first {
            return Err(error);
        }
        let Some(first) = left_out_script_logs.first else { return Ok(()) };
        let what = counted(left_out_script_logs.count, "file or folder");
        let logs = logs.display();
        Err(io::Error::other(format!(
            "{what} in the entry script's log folder could not be copied to the parent, as {first}; the \
             whole folder is in {logs}"
        )))
    }
}

/// Opens a regular file. Fails for links.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

impl Reporter for ParentCopy {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::JobStarted { .. } => {
                let progress = self.dir.progress(&stamp(event.at));
                self.watched = vec![self.dir.overview(), progress];
                Ok(())
            }
            EventKind::JobFinished { .. } => {
                self.watched.clear();
                self.copy_all()
            }
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        if self.watched.is_empty() || self.copied.elapsed() < COPY_EVERY {
            return Ok(());
        }
        self.copied = Instant::now();
        self.watched.iter().try_for_each(|path| self.copy(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeId;
    use crate::report_paths::{ParentFolder, ReportPaths};
    use crate::{log_tree, samples};

    /// A6: overview and progress are copied while the job runs, everything at the end. Links are never
    /// followed.
    #[test]
    fn the_parent_has_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().canonicalize().unwrap().join("parent/logs/digits");
        let mut paths = samples::paths(&folder.path().join("job"));
        let of_parent =
            ParentFolder { folder: parent.clone(), copy_logs: true, push_metrics: false };
        paths.parent = Some(of_parent);
        let ReportPaths { job_dir: dir, .. } = &paths;
        let mut tree = log_tree(&paths);
        let mut on_its_own = ParentCopy::new(dir, &parent);
        on_its_own.copied = Instant::now().checked_sub(COPY_EVERY).unwrap();
        let files = dir.script_log_dir(NodeId::ONLY);
        fs::create_dir_all(&files).unwrap();
        fs::write(files.join("mine.log"), "mine").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", files.join("link.log")).unwrap();
        for event in samples::job() {
            tree.iter_mut().for_each(|reporter| reporter.on_event(&event).unwrap());
            on_its_own.on_event(&event).unwrap();
            if matches!(event.kind, EventKind::JobStarted { .. }) {
                on_its_own.on_tick().unwrap();
                assert!(parent.join("job_progress_overview.txt").exists());
                assert!(!parent.join("readme.txt").exists());
            }
        }
        let copied = |inside: &str| parent.join(inside);
        for path in [dir.result_file(), dir.events(), dir.progress("20261121100000")] {
            let inside = path.strip_prefix(dir.logs()).unwrap().display().to_string();
            assert_eq!(fs::read(copied(&inside)).unwrap(), fs::read(&path).unwrap(), "{inside}");
        }
        assert!(copied("user/entry_script_log/0/files/mine.log").exists());
        assert!(!copied("user/entry_script_log/0/files/link.log").exists());
    }

    /// If a guest nests folders too deep, only these folders are not copied.
    #[test]
    fn uncopyable_files_do_not_block_the_reports() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().canonicalize().unwrap().join("parent");
        let paths = samples::paths(&folder.path().join("job"));
        let ReportPaths { job_dir: dir, .. } = &paths;
        for event in samples::job() {
            log_tree(&paths).iter_mut().for_each(|reporter| reporter.on_event(&event).unwrap());
        }
        let files = dir.script_log_dir(NodeId::ONLY);
        fs::create_dir_all(&files).unwrap();
        fs::write(files.join("a.log"), "mine").unwrap();
        nest(&files, 2047);
        fs::write(files.join("z.log"), "mine").unwrap();
        let error = ParentCopy::new(dir, &parent).copy_all().unwrap_err().to_string();
        let reported = error.replace(&files.display().to_string(), "FILES");
        let reported =
            reported.replace(&dir.logs().display().to_string(), "LOGS").replace("/d/d", "/d");
        assert!(
            reported.starts_with(
                "1 file or folder in the entry script's log folder could not be copied"
            ),
            "{reported}"
        );
        assert!(
            reported.contains("it is more than 64 folders deep; the whole folder is in LOGS"),
            "{reported}"
        );
        for path in [dir.result_file(), dir.events(), files.join("a.log"), files.join("z.log")] {
            let inside = path.strip_prefix(dir.logs()).unwrap();
            assert!(parent.join(inside).is_file(), "{}", inside.display());
        }
        sandmill_files::remove_tree(&files).unwrap();
    }

    fn nest(below: &Path, depth: usize) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut folder = rustix::fs::open(below, flags, Mode::empty()).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = rustix::fs::openat(&folder, "d", flags, Mode::empty()).unwrap();
        }
    }
}
