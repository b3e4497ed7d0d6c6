//! A log file. It is created with its first byte, buffered, and flushed about once a second. An existing file
//! is appended to. If the disk is full, the text waits: when a full disk ends a job, the job frees
//! reserved space for its last lines.

use super::budget::ReportBudget;
use super::continued::make_parent;
use super::header::open_table;
use crate::model::{is_full, is_plain, printable, printable_json};
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// The maximum size of a rotated file, in bytes.
const ROTATED_BYTES: u64 = 16 << 20;
/// How many full files are kept besides the current one.
const KEPT_FILES: u32 = 2;
/// At most this many bytes wait while the disk is full. Further text is lost.
pub(super) const MAX_WAITING_BYTES: usize = 1 << 20;

/// A file of the log tree. Errors name the file.
pub(super) struct LogFile {
    path: PathBuf,
    /// The first line of a new file. Empty if the file has no header.
    header: &'static str,
    /// The length at which the file is rotated.
    max_bytes: u64,
    length: u64,
    file: Option<File>,
    /// The budget that the file shares with others.
    budget: ReportBudget,
    /// Escapes control characters.
    escape: fn(&str) -> Cow<'_, str>,
    /// The text that is not written yet.
    pending: Vec<u8>,
    flushed: Instant,
}

impl LogFile {
    /// A file without a limit.
    pub(super) fn new(path: PathBuf, header: &'static str) -> Self {
        let flushed = Instant::now();
        Self {
            path,
            header,
            max_bytes: u64::MAX,
            length: 0,
            file: None,
            budget: ReportBudget::default(),
            escape: printable,
            pending: Vec::new(),
            flushed,
        }
    }

    /// A file of JSON lines without a limit.
    pub(super) fn json(path: PathBuf) -> Self {
        let mut file = Self::new(path, "");
        file.escape = printable_json;
        file
    }

    /// Sets the budget that the file shares with others. [`write_within`](Self::write_within) leaves out
    /// lines for which the budget has no room.
    #[must_use]
    pub(super) fn with_budget(mut self, budget: &ReportBudget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// A file that is rotated when it is full: `a.txt` becomes `a.1.txt`, `a.1.txt` becomes `a.2.txt`, and
    /// the old `a.2.txt` is removed. A note in the full file and in the new one says so.
    pub(super) fn rotated(path: PathBuf) -> Self {
        let mut file = Self::new(path, "");
        file.max_bytes = ROTATED_BYTES;
        file
    }

    /// Like [`write`](Self::write), but only if the budget has room. Returns whether it has.
    pub(super) fn write_within(&mut self, bytes: &[u8]) -> io::Result<bool> {
        // Opening counts the bytes that an existing file has already.
        match self.open() {
            Err(error) if !is_full(&error) => return Err(error),
            _ => {}
        }
        // The budget counts the escaped text, which may be longer.
        let bytes = self.escaped(bytes);
        if !self.budget.try_take(bytes.len()) {
            return Ok(false);
        }
        self.append(&bytes).map(|()| true)
    }

    /// Appends whole lines of UTF-8, with control characters escaped. If the disk is full, this fails and
    /// keeps the lines.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let bytes = self.escaped(bytes);
        self.append(&bytes)
    }

    fn escaped<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if is_plain(bytes) {
            return Cow::Borrowed(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        Cow::Owned((self.escape)(&text).into_owned().into_bytes())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let ready = self.open().and_then(|()| self.make_room(bytes.len()));
        let fits = self.pending.len() + bytes.len() <= MAX_WAITING_BYTES;
        if ready.is_ok() || (ready.as_ref().is_err_and(is_full) && fits) {
            self.pending.extend_from_slice(bytes);
            self.length += bytes.len() as u64;
        }
        ready?;
        let capacity = if self.max_bytes == u64::MAX { 64 << 10 } else { 8 << 10 };
        if self.pending.len() >= capacity { self.flush() } else { Ok(()) }
    }

    /// Flushes if the last flush was a while ago.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        let is_due = !self.pending.is_empty() && self.flushed.elapsed() >= FLUSH_EVERY;
        if is_due { self.flush() } else { Ok(()) }
    }

    /// Writes all text to the file. If the disk is full, the text is kept, up to a limit.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = self.write_pending();
        if written.is_err() {
            // Cut at the end of a line.
            let line_end =
                self.pending.iter().take(MAX_WAITING_BYTES).rposition(|byte| *byte == b'\n');
            self.pending.truncate(line_end.map_or(0, |at| at + 1).min(MAX_WAITING_BYTES));
        }
        written
    }

    fn write_pending(&mut self) -> io::Result<()> {
        self.flushed = Instant::now();
        if self.pending.is_empty() {
            return Ok(());
        }
        self.open()?;
        let Some(file) = &mut self.file else { return Ok(()) };
        while !self.pending.is_empty() {
            match file.write(&self.pending) {
                Ok(0) => return Err(with_path(&self.path, &io::ErrorKind::WriteZero.into())),
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(with_path(&self.path, &error)),
            }
        }
        Ok(())
    }

    /// Creates the file, its folders and its header at the first use.
    pub(super) fn open(&mut self) -> io::Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let opened =
            open_table(&self.path, self.header).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) = opened.map_err(|error| with_path(&self.path, &error))?;
        self.budget.count_existing(length);
        self.length = length + self.pending.len() as u64;
        if length == 0 && !self.header.is_empty() {
            let header = format!("{}\n", self.header);
            self.length += header.len() as u64;
            self.pending.splice(0..0, header.into_bytes());
        }
        self.file = Some(file);
        Ok(())
    }

    /// Rotates the file if this many more bytes would exceed its limit.
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        let is_too_long = self.length + bytes as u64 > self.max_bytes;
        if is_too_long { self.rotate() } else { Ok(()) }
    }

    fn rotate(&mut self) -> io::Result<()> {
        // Flush first: otherwise, each failed attempt would add the note once more.
        self.flush()?;
        let full = rotated_path(&self.path, 1);
        let note = format!("This file is full; it continues in {}.\n", file_name(&self.path));
        self.pending.extend_from_slice(note.as_bytes());
        self.flush()?;
        self.file = None;
        for number in (1..KEPT_FILES).rev() {
            if rotated_path(&self.path, number).exists() {
                fs::rename(rotated_path(&self.path, number), rotated_path(&self.path, number + 1))
                    .map_err(|error| with_path(&self.path, &error))?;
            }
        }
        fs::rename(&self.path, &full).map_err(|error| with_path(&self.path, &error))?;
        let note = format!(
            "This continues a file that was full. Full files are kept as {} and, older, {}; even \
             older ones have been removed.\n",
            file_name(&full),
            file_name(&rotated_path(&self.path, KEPT_FILES)),
        );
        self.pending.extend_from_slice(note.as_bytes());
        self.open()
    }
}

/// Writes the waiting text. A caller that needs to know whether this succeeds must call `flush` first.
impl Drop for LogFile {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// The path of a full file: `a.1.txt` for `a.txt`.
fn rotated_path(path: &Path, number: u32) -> PathBuf {
    path.with_extension(format!("{number}.txt"))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Replaces a small file atomically: a reader sees the old text or the new one.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("txt.new");
    make_parent(path)
        .and_then(|()| {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(true).mode(0o600);
            options.open(&temporary)?.write_all(printable(text).as_bytes())
        })
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|error| with_path(path, &error))
}

/// A table whose last rows are updated in place: settled rows stay, and each write replaces the rows after
/// them.
pub(super) struct RenewedFile {
    path: PathBuf,
    header: &'static str,
    /// `None` before the first write. Until then, all rows in the file are settled.
    file: Option<File>,
    /// The length of the settled rows, with the header.
    settled_bytes: u64,
}

impl RenewedFile {
    pub(super) fn new(path: PathBuf, header: &'static str) -> Self {
        Self { path, header, file: None, settled_bytes: 0 }
    }

    /// Appends `settled` to the rows that stay, and writes `unsettled` after them.
    pub(super) fn write(&mut self, settled: &str, unsettled: &str) -> io::Result<()> {
        self.try_write(settled, unsettled).map_err(|error| with_path(&self.path, &error))
    }

    fn try_write(&mut self, settled: &str, unsettled: &str) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open_file()?,
        };
        let file = self.file.insert(file);
        // A single write, so that a reader sees the old table, the new one, or for a moment only the settled
        // rows.
        file.set_len(self.settled_bytes)?;
        let settled = printable(settled);
        file.write_all(format!("{settled}{}", printable(unsettled)).as_bytes())?;
        self.settled_bytes += settled.len() as u64;
        Ok(())
    }

    fn open_file(&mut self) -> io::Result<File> {
        let mut file = open_table(&self.path, self.header)?;
        if file.metadata()?.len() == 0 {
            writeln!(file, "{}", self.header)?;
        }
        self.settled_bytes = file.metadata()?.len();
        Ok(file)
    }
}

/// The same error, with the path before its text.
pub(super) fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::continued::open_to_append;
    use super::*;

    #[test]
    fn a_file_is_created_at_first_write_with_one_header() {
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

    /// When a job is resumed, a partial line that a crash left does not swallow the next line.
    #[test]
    fn a_partial_line_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.csv");
        fs::write(&path, "x,y\n1,2\n3").unwrap();
        let mut log = LogFile::new(path.clone(), "x,y");
        log.write(b"4,5\n").unwrap();
        log.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "x,y\n1,2\n3\n4,5\n");
    }

    #[test]
    fn a_full_file_is_rotated_with_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("process000.txt");
        let mut log = LogFile::rotated(path);
        log.max_bytes = 100;
        for number in 0..40 {
            log.write(format!("line {number:04}\n").as_bytes()).unwrap();
        }
        log.flush().unwrap();
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        names.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
        let text: String = names
            .into_iter()
            .map(|entry| {
                let path = entry.unwrap().path();
                format!("== {}\n{}", file_name(&path), fs::read_to_string(&path).unwrap())
            })
            .collect();
        insta::assert_snapshot!(text, @"
        == process000.1.txt
        This continues a file that was full. Full files are kept as process000.1.txt and, older, process000.2.txt; even older ones have been removed.
        line 0038
        This file is full; it continues in process000.txt.
        == process000.2.txt
        This continues a file that was full. Full files are kept as process000.1.txt and, older, process000.2.txt; even older ones have been removed.
        line 0037
        This file is full; it continues in process000.txt.
        == process000.txt
        This continues a file that was full. Full files are kept as process000.1.txt and, older, process000.2.txt; even older ones have been removed.
        line 0039
        ");
    }

    /// Text waits until the disk has room, up to a limit, and lines stay whole.
    #[test]
    #[cfg(target_os = "linux")]
    fn text_waits_while_the_disk_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let mut log = LogFile::new(PathBuf::from("/dev/full"), "x,y");
        log.write(b"1,2\n").unwrap();
        assert!(is_full(&log.flush().unwrap_err()));
        log.write(b"3,4\n").unwrap();
        assert!(is_full(&log.flush().unwrap_err()));
        // There is room again.
        log.file = Some(open_to_append(&path).unwrap());
        log.write(b"5,6\n").unwrap();
        log.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "x,y\n1,2\n3,4\n5,6\n");
        let mut log = LogFile::new(PathBuf::from("/dev/full"), "");
        let line = [b"0".repeat(999), b"\n".to_vec()].concat();
        for _ in 0..3000 {
            let _ = log.write(&line);
        }
        assert_eq!(
            (log.pending.len() / 1000, log.pending.len() % 1000),
            (MAX_WAITING_BYTES / 1000, 0)
        );
    }

    /// Settled rows are never rewritten, not even by the next run.
    #[test]
    fn a_table_keeps_its_settled_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/t.csv");
        let mut table = RenewedFile::new(path.clone(), "x");
        let read = || fs::read_to_string(&path).unwrap();
        table.write("", "1\n2\n").unwrap();
        assert_eq!(read(), "x\n1\n2\n");
        table.write("1!\n", "2\n3\n").unwrap();
        table.write("", "2 again\n").unwrap();
        assert_eq!(read(), "x\n1!\n2 again\n");
        let mut next = RenewedFile::new(path.clone(), "x");
        next.write("", "4\n").unwrap();
        next.write("4!\n", "").unwrap();
        assert_eq!(read(), "x\n1!\n2 again\n4!\n");
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let mut log = LogFile::new(folder.path().join("a/b.csv"), "");
        let error = log.write(b"1").unwrap_err().to_string();
        assert!(error.contains("a/b.csv: "), "{error}");
    }

    /// The budget counts the bytes of escapes, which are longer than the characters that they replace.
    #[test]
    fn a_budget_counts_escaped_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let budget = ReportBudget::new(crate::model::ByteSize(100));
        let mut log = LogFile::new(path.clone(), "").with_budget(&budget);
        let line = format!("{}\n", "\u{1b}".repeat(9));
        let written = [(); 3].map(|()| log.write_within(line.as_bytes()).unwrap());
        log.flush().unwrap();
        assert_eq!((written, fs::metadata(&path).unwrap().len()), ([true, false, false], 55));
    }

    /// Control characters in names never reach a terminal, and JSON stays valid.
    #[test]
    fn control_characters_are_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let hidden = "a\u{9b}2J\u{202e}\u{e0041}b";
        let mut log = LogFile::new(folder.path().join("a.csv"), "");
        log.write(format!("1,{hidden}\n").as_bytes()).unwrap();
        log.flush().unwrap();
        assert_eq!(read("a.csv"), "1,a\\u{9b}2J\\u{202e}\\u{e0041}b\n");
        let mut log = LogFile::json(folder.path().join("a.jsonl"));
        let line = serde_json::to_string(hidden).unwrap();
        log.write(format!("{line}\n").as_bytes()).unwrap();
        log.flush().unwrap();
        let text = read("a.jsonl");
        assert!(text.is_ascii(), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hidden);
        replace(&folder.path().join("a.txt"), hidden).unwrap();
        RenewedFile::new(folder.path().join("t.csv"), "x").write(hidden, hidden).unwrap();
        assert!(read("a.txt").is_ascii() && read("t.csv").is_ascii());
    }
}
