//! A log file: made when the first byte goes into it, buffered, flushed about once a second.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// A file of the log tree. Errors name the file.
pub(super) struct LogFile {
    path: PathBuf,
    /// The first line of a new file; empty for none.
    header: &'static str,
    writer: Option<BufWriter<File>>,
    /// Whether something waits in the buffer.
    dirty: bool,
    flushed: Instant,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, header: &'static str) -> Self {
        Self { path, header, writer: None, dirty: false, flushed: Instant::now() }
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let result = self.open().and_then(|writer| writer.write_all(bytes));
        self.dirty = true;
        result.map_err(|error| at(&self.path, &error))
    }

    /// Flushes if it has been a while.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        if self.dirty && self.flushed.elapsed() >= FLUSH_EVERY { self.flush() } else { Ok(()) }
    }

    /// Hands everything to the operating system.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.dirty = false;
        self.flushed = Instant::now();
        match &mut self.writer {
            Some(writer) => writer.flush().map_err(|error| at(&self.path, &error)),
            None => Ok(()),
        }
    }

    /// The writer; makes the file, its folders and its header at the first use.
    pub(super) fn open(&mut self) -> io::Result<&mut BufWriter<File>> {
        if self.writer.is_none() {
            make_parent(&self.path)?;
            let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            let is_new = file.metadata()?.len() == 0;
            let mut writer = BufWriter::with_capacity(64 << 10, file);
            if is_new && !self.header.is_empty() {
                writeln!(writer, "{}", self.header)?;
                self.dirty = true;
            }
            self.writer = Some(writer);
        }
        self.writer.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Replaces a small file as a whole; whoever reads it sees the old text or the new one.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("txt.new");
    make_parent(path)
        .and_then(|()| fs::write(&beside, text))
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| at(path, &error))
}

/// Appends to a file that is too seldom written to be kept open, unless it has `most` bytes.
pub(super) fn append(path: &Path, text: &str, most: u64) -> io::Result<()> {
    let write = || {
        make_parent(path)?;
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        if length >= most {
            return Ok(());
        }
        file.write_all(text.as_bytes())?;
        if length + text.len() as u64 >= most {
            file.write_all(b"This file is full; later failures are in logs/sys/events.jsonl.\n")?;
        }
        Ok(())
    };
    write().map_err(|error| at(path, &error))
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_late_and_keeps_one_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.csv");
        let mut log = LogFile::new(path.clone(), "x,y");
        log.flush().unwrap();
        assert!(!path.exists());
        log.write(b"1,2\n").unwrap();
        log.flush().unwrap();
        let mut again = LogFile::new(path.clone(), "x,y");
        again.write(b"3,4\n").unwrap();
        again.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "x,y\n1,2\n3,4\n");
    }

    #[test]
    fn errors_name_the_file_and_appending_stops_at_the_cap() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let mut log = LogFile::new(folder.path().join("a/b.csv"), "");
        let error = log.write(b"1").unwrap_err().to_string();
        assert!(error.contains("a/b.csv: "), "{error}");

        let path = folder.path().join("c.txt");
        for _ in 0..100 {
            append(&path, "0123456789\n", 30).unwrap();
        }
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.matches("0123456789").count(), 3);
        assert!(text.ends_with("events.jsonl.\n"));
    }
}
