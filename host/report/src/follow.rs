//! The output of entry scripts while a job runs: the text of `sandmill logs --follow`.

use super::log_folders::LogFolders;
use super::logs::{FoundFile, LOG_FOLDERS, log_files, open_file};
use crate::model::printable;
use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// At most this many bytes of a file are read at once. The rest follows in the next read.
const PIECE_BYTES: u64 = 1 << 20;

/// Shows the text that was written since the last call.
#[derive(Debug)]
pub struct Follower {
    logs: LogFolders,
    worker: Option<String>,
    /// How far each file was shown. The keys are device and inode, because rotation renames files.
    shown: HashMap<(u64, u64), u64>,
    /// The file whose lines were shown last.
    last: Option<PathBuf>,
}

impl Follower {
    /// Follows the output of all workers, or of the worker with this name.
    pub fn new(logs: impl Into<LogFolders>, worker: Option<&str>) -> Self {
        let worker = worker.map(str::to_owned);
        Self { logs: logs.into(), worker, shown: HashMap::new(), last: None }
    }

    /// Follows other folders from now on. What was shown of a folder that stays is not shown again.
    pub fn set_logs(&mut self, logs: LogFolders) {
        self.logs = logs;
    }

    /// Writes the new text, in whole lines. The last call (`is_last`) also writes a partial line. Returns
    /// whether there was new text.
    ///
    /// # Errors
    /// If a file cannot be read, or if `out` cannot be written.
    pub fn print_new(&mut self, is_last: bool, out: &mut dyn Write) -> io::Result<bool> {
        let mut has_new = false;
        for (folder, suffix) in LOG_FOLDERS {
            for file in log_files(&self.logs, folder, self.worker.as_deref(), suffix)? {
                while self.print_piece(&file, is_last, out)? {
                    has_new = true;
                }
            }
        }
        Ok(has_new)
    }

    fn print_piece(
        &mut self,
        FoundFile { path, shown }: &FoundFile,
        is_last: bool,
        out: &mut dyn Write,
    ) -> io::Result<bool> {
        let mut file = match open_file(path) {
            Ok(file) => file,
            // It was renamed meanwhile; the next call finds it under its new name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let from = self.shown.entry((metadata.dev(), metadata.ino())).or_default();
        if metadata.len() < *from {
            *from = 0;
        }
        file.seek(SeekFrom::Start(*from))?;
        let mut bytes = Vec::new();
        file.take(PIECE_BYTES).read_to_end(&mut bytes)?;
        let fills_piece = bytes.len() as u64 == PIECE_BYTES;
        let length = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(at) if fills_piece || !is_last => at + 1,
            // A partial line waits for its end, unless it fills a whole read or this is the last call.
            None if !fills_piece && !is_last => 0,
            _ => bytes.len(),
        };
        if length == 0 {
            return Ok(false);
        }
        *from += length as u64;
        if self.last.as_deref() != Some(path) {
            writeln!(out, "==> {} <==", shown.display())?;
            self.last = Some(path.clone());
        }
        let text = String::from_utf8_lossy(&bytes[..length]);
        for line in text.lines() {
            writeln!(out, "{}", printable(line))?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobDir, WorkerId, rotated};
    use std::fs;

    #[test]
    fn new_lines_appear_once_even_after_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let path = dir.script_stdout(WorkerId(0));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut follower = Follower::new(&dir, None);
        let mut read_new = |is_last| {
            let mut out = Vec::new();
            follower.print_new(is_last, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(read_new(false), "");
        fs::write(&path, "one\ntw").unwrap();
        let head = "==> logs/user/stdout/0/process000.stdout.txt <==\n";
        assert_eq!(read_new(false), format!("{head}one\n"));
        assert_eq!(read_new(false), "", "half a line waits");
        fs::write(&path, "one\ntwo \u{1b}[31m\n").unwrap();
        assert_eq!(read_new(false), "two \\u{1b}[31m\n");
        fs::rename(&path, rotated(&path, 1)).unwrap();
        fs::write(&path, "three").unwrap();
        assert_eq!(read_new(false), "");
        assert_eq!(read_new(true), "three\n");
        assert_eq!(read_new(true), "");
        let mut other = Follower::new(&dir, Some("process001"));
        assert!(!other.print_new(true, &mut Vec::new()).unwrap());
    }
}
