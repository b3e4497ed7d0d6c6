//! Limits the total size of the output and logs of entry scripts. The files of one worker are limited, but a
//! worker that replaces a killed one has new files, so the total could grow. Therefore the files of all
//! workers share a budget. Once it is used up, only the beginning of each further file is kept.

use super::budget::ReportBudget;
use super::phrases::worker_id;
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::{JobDir, WorkerId, rotated};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The bytes that are kept of each file once the budget is used up.
const KEPT_BYTES: u64 = 4 << 10;
const CUT_NOTE: &[u8] = b"\n[sandmill: cut here, because limits.reports was reached]\n";

/// Checks the files of each worker that has ended.
pub(super) struct GuestLogs {
    dir: JobDir,
    /// The budget for these files. It is as large as the budget of the reports.
    log_budget: ReportBudget,
    /// The budget of the reports. It counts the workers whose files were cut.
    report_budget: ReportBudget,
}

impl GuestLogs {
    pub(super) fn new(dir: &JobDir, budget: &ReportBudget) -> Self {
        Self { dir: dir.clone(), log_budget: budget.same_size(), report_budget: budget.clone() }
    }

    /// Counts the bytes in the files of a worker that has ended, and cuts the files if the budget has no room
    /// for them.
    fn check_size(&self, worker: WorkerId) -> io::Result<()> {
        let dir = &self.dir;
        let files = [
            dir.script_log(worker),
            dir.script_stdout(worker),
            dir.script_stderr(worker),
            dir.worker_stderr(worker),
        ];
        let rotated_paths = |path: &PathBuf| [rotated(path, 1), rotated(path, 2)];
        let all_paths =
            files.iter().flat_map(|path| rotated_paths(path).into_iter().chain([path.clone()]));
        let bytes: u64 = all_paths.map(|path| length(&path)).sum();
        if bytes == 0 || self.log_budget.try_take(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            return Ok(());
        }
        self.report_budget.leave_out();
        files.iter().try_for_each(|path| {
            for older in rotated_paths(path) {
                match fs::remove_file(&older) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            if length(path) > KEPT_BYTES { cut(path) } else { Ok(()) }
        })
    }
}

/// The length of a regular file. 0 for anything else.
fn length(path: &Path) -> u64 {
    let metadata = path.symlink_metadata().ok().filter(fs::Metadata::is_file);
    metadata.map_or(0, |metadata| metadata.len())
}

fn cut(path: &Path) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = OpenOptions::new().append(true).custom_flags(flags).open(path)?;
    file.set_len(KEPT_BYTES)?;
    file.write_all(CUT_NOTE)
}

impl Reporter for GuestLogs {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::WorkerExited { worker, .. } => {
                worker_id(worker).map_or(Ok(()), |worker| self.check_size(worker))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ByteSize;
    use crate::samples;

    #[test]
    fn logs_beyond_the_limit_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let budget = ReportBudget::new(ByteSize(100_000));
        let mut logs = GuestLogs::new(&dir, &budget);
        let lengths = [0, 1, 2].map(|number| {
            let worker = WorkerId(number);
            let stdout = dir.script_stdout(worker);
            fs::create_dir_all(stdout.parent().unwrap()).unwrap();
            fs::write(&stdout, vec![b'x'; 30_000]).unwrap();
            fs::write(rotated(&stdout, 1), vec![b'y'; 10_000]).unwrap();
            let how = "exits with returncode 0".to_owned();
            let exited =
                EventKind::WorkerExited { worker: worker.to_string(), how, expected: true };
            logs.on_event(&samples::event(0, exited)).unwrap();
            (length(&stdout), length(&rotated(&stdout, 1)))
        });
        let little = KEPT_BYTES + CUT_NOTE.len() as u64;
        assert_eq!(lengths, [(30_000, 10_000), (30_000, 10_000), (little, 0)]);
        assert!(budget.left_out_text().unwrap().starts_with("1 part of the logs"));
    }
}
