//! Reads the events of a job while it runs, each event once.

use super::log_folders::LogFolders;
use crate::event::Event;
use crate::opening::regular;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// At most this many bytes of a file are read at once. An event is far shorter.
const PIECE_BYTES: u64 = 1 << 20;

/// Reads events as they are written. Knows how far it has read each file.
#[derive(Debug)]
pub struct EventTail {
    logs: LogFolders,
    read: HashMap<PathBuf, u64>,
}

impl EventTail {
    /// Reads the events of this log tree, from the first one.
    pub fn new(logs: impl Into<LogFolders>) -> Self {
        Self { logs: logs.into(), read: HashMap::new() }
    }

    /// Passes the next new events to `visit`, at most about a megabyte of them. Returns whether there may be more. Skips lines
    /// that are not valid events.
    ///
    /// # Errors
    /// If a file cannot be read. A file that is missing has no events yet.
    pub fn read_some(&mut self, visit: &mut dyn FnMut(Event)) -> io::Result<bool> {
        for path in self.logs.events() {
            let mut file = match regular(&path) {
                Ok((file, _)) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let position = self.read.entry(path).or_default();
            file.seek(SeekFrom::Start(*position))?;
            let mut piece = Vec::new();
            file.take(PIECE_BYTES).read_to_end(&mut piece)?;
            // A job writes whole lines, but a killed one may leave a part of a line.
            let whole = piece.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            let is_full = piece.len() as u64 == PIECE_BYTES;
            let passed = if whole == 0 && is_full { piece.len() } else { whole };
            *position += passed as u64;
            for line in piece[..whole].split(|byte| *byte == b'\n') {
                if let Ok(event) = serde_json::from_slice(line) {
                    visit(event);
                }
            }
            if passed > 0 && is_full {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobDir;
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    #[test]
    fn each_event_is_read_once_when_its_line_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut tail = EventTail::new(&dir);
        let mut read = || {
            let mut numbers = Vec::new();
            while tail.read_some(&mut |event| numbers.push(event.seq)).unwrap() {}
            numbers
        };
        assert_eq!(read(), Vec::<u64>::new());
        fs::create_dir_all(dir.events().parent().unwrap()).unwrap();
        let line = |seq: u64| {
            format!(
                "{{\"version\":1,\"run\":\"r\",\"seq\":{seq},\"at\":\"2026-11-01T00:00:00Z\",\
                 \"kind\":{{\"event\":\"waits_for_turn\"}}}}\n"
            )
        };
        let write = |text: &str| {
            let mut file = OpenOptions::new().create(true).append(true).open(dir.events()).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        write(&(line(0) + "no event\n" + &line(1)[..20]));
        assert_eq!(read(), [0]);
        write(&line(1)[20..]);
        assert_eq!(read(), [1]);
        let many: String = (2..20_000).map(line).collect();
        write(&many);
        assert_eq!(read(), (2..20_000).collect::<Vec<_>>());
        assert_eq!(read(), Vec::<u64>::new());
    }
}
