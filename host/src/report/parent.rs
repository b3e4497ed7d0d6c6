//! A6: copies of the overview, the progress and, at the end, all logs into the folder of the job that
//! this one is a part of: `<parent>/logs/<job>/`.

use super::log_file::{at, make_parent};
use super::reporters::Reporter;
use super::words::stamp;
use crate::event::{Event, EventKind};
use crate::model::JobDir;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const COPY_EVERY: Duration = Duration::from_secs(10);

/// Makes the copies. The last of the reporters, so that the others have written by then.
pub(super) struct ParentCopy {
    dir: JobDir,
    to: PathBuf,
    copied: Instant,
    /// Files that are copied while the job runs; empty when it does not.
    watched: Vec<PathBuf>,
}

impl ParentCopy {
    pub(super) fn new(dir: &JobDir, parent: &Path, job: &str) -> Self {
        // A job's name is no path; should it be one, only its last part counts.
        let name = Path::new(job).file_name().unwrap_or_else(|| "job".as_ref());
        let to = parent.join("logs").join(name);
        Self { dir: dir.clone(), to, copied: Instant::now(), watched: Vec::new() }
    }

    fn copy(&self, from: &Path) -> io::Result<()> {
        let Ok(inside) = from.strip_prefix(self.dir.logs()) else { return Ok(()) };
        let to = self.to.join(inside);
        let copy = || {
            make_parent(&to)?;
            let mut source = match open(from) {
                // Not written yet, or a link in the place of a file.
                Err(_) => return Ok(()),
                Ok(source) => source,
            };
            io::copy(&mut source, &mut File::create(&to)?).map(|_| ())
        };
        copy().map_err(|error| at(&to, &error))
    }

    fn copy_all(&self, folder: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|error| at(folder, &error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| at(folder, &error))?;
            // Of the entry itself: what a guest linked to is not copied.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.copy_all(&entry.path())?,
                Ok(kind) if kind.is_file() => self.copy(&entry.path())?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Opens a regular file, and no link to one.
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
                self.copy_all(&self.dir.logs())
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
    use crate::report::result::{ParentFolder, Places};
    use crate::report::{log_tree, samples};

    /// A6: overview and progress while the job runs, everything at the end; never through a link.
    #[test]
    fn the_parent_has_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("parent");
        let mut places = samples::places(&folder.path().join("job"));
        let of_parent =
            ParentFolder { folder: parent.clone(), copy_logs: true, push_metrics: false };
        places.parent = Some(of_parent);
        let Places { job_dir: dir, .. } = &places;
        let mut tree = log_tree(&places);
        let mut on_its_own = ParentCopy::new(dir, &parent, "digits");
        on_its_own.copied = Instant::now().checked_sub(COPY_EVERY).unwrap();
        let files = dir.script_log_dir();
        fs::create_dir_all(&files).unwrap();
        fs::write(files.join("mine.log"), "mine").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", files.join("link.log")).unwrap();
        for event in samples::job() {
            tree.iter_mut().for_each(|reporter| reporter.on_event(&event).unwrap());
            on_its_own.on_event(&event).unwrap();
            if matches!(event.kind, EventKind::JobStarted { .. }) {
                on_its_own.on_tick().unwrap();
                assert!(parent.join("logs/digits/job_progress_overview.txt").exists());
                assert!(!parent.join("logs/digits/readme.txt").exists());
            }
        }
        let copied = |inside: &str| parent.join("logs/digits").join(inside);
        for path in [dir.result_file(), dir.events(), dir.progress("20261121100000")] {
            let inside = path.strip_prefix(dir.logs()).unwrap().display().to_string();
            assert_eq!(fs::read(copied(&inside)).unwrap(), fs::read(&path).unwrap(), "{inside}");
        }
        assert!(copied("user/entry_script_log/0/files/mine.log").exists());
        assert!(!copied("user/entry_script_log/0/files/link.log").exists());
    }
}
