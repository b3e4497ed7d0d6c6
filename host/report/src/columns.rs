//! `logs/sys/columns.txt`: the columns of the inputs and their types. The next run of the job uses it to
//! report changes.

use super::log_file;
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::{JobDir, on_one_line};
use std::io;

/// The maximum size of the file in bytes. A larger file is ignored.
const MAX_READ_BYTES: usize = 1 << 20;

/// The columns as the last run of a job found them, a line for each input.
pub fn earlier_columns(dir: &JobDir) -> Vec<String> {
    let text = std::fs::read_to_string(dir.columns()).unwrap_or_default();
    let text = if text.len() <= MAX_READ_BYTES { text } else { String::new() };
    text.lines().map(str::to_owned).collect()
}

/// Writes `logs/sys/columns.txt`.
pub(super) struct ColumnsFile {
    dir: JobDir,
    lines: String,
}

impl ColumnsFile {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self { dir: dir.clone(), lines: String::new() }
    }
}

impl Reporter for ColumnsFile {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let EventKind::Columns { message } = &event.kind else { return Ok(()) };
        self.lines.push_str(&on_one_line(message));
        self.lines.push('\n');
        log_file::replace(&self.dir.columns(), &self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_next_run_reads_the_columns() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        assert!(earlier_columns(&dir).is_empty());
        let mut file = ColumnsFile::new(&dir);
        for message in ["columns of input a: x int64", "columns of input b: y string"] {
            let kind = EventKind::Columns { message: message.to_owned() };
            file.on_event(&samples::event(0, kind)).unwrap();
        }
        assert_eq!(
            earlier_columns(&dir),
            ["columns of input a: x int64", "columns of input b: y string"]
        );
    }
}
