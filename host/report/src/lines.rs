//! Log files in the line format of ParallelRunStep: `date time,ms|LEVEL|pid|thread|text`.

use super::log_file::LogFile;
use super::times::{TimeWriter, number};
use crate::model::on_one_line;
use jiff::Timestamp;
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::io;
use std::path::PathBuf;

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineLevel {
    Info,
    Warning,
    Error,
}

impl LineLevel {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// A rotated file of lines in this format.
pub(super) struct LineLog {
    file: LogFile,
    pid: u32,
    thread: String,
    times: TimeWriter,
    line: String,
}

impl LineLog {
    /// A log of the process `pid`; `thread` names the part of the process that logs.
    pub(super) fn new(path: PathBuf, pid: u32, thread: impl Into<String>) -> Self {
        let thread = thread.into();
        Self {
            file: LogFile::rotated(path),
            pid,
            thread,
            times: TimeWriter::log(),
            line: String::new(),
        }
    }

    /// Adds a line. A `text` of several lines is escaped to one.
    pub(super) fn log(
        &mut self,
        at: Timestamp,
        level: LineLevel,
        text: fmt::Arguments<'_>,
    ) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        self.times.millis(line, at);
        line.push('|');
        line.push_str(level.name());
        line.push('|');
        number(line, self.pid.into());
        line.push('|');
        line.push_str(&self.thread);
        line.push('|');
        let from = line.len();
        // Writing to a string cannot fail.
        let _ = line.write_fmt(text);
        if let Cow::Owned(clean) = on_one_line(&line[from..]) {
            line.replace_range(from.., &clean);
        }
        line.push('\n');
        self.file.write(line.as_bytes())
    }

    pub(super) fn tick(&mut self) -> io::Result<()> {
        self.file.tick()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 1.9 of docs/parallel-run-step.md: the format of the lines.
    #[test]
    fn any_text_stays_on_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.txt");
        let mut log = LineLog::new(path.clone(), 42, "leader");
        let at = "2026-11-21T10:00:00.0456Z".parse().unwrap();
        log.log(at, LineLevel::Warning, format_args!("one\ntwo\u{1b}[2J\u{85} é")).unwrap();
        log.flush().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            text,
            "2026-11-21 10:00:00,045|WARNING|42|leader|one\\u{a}two\\u{1b}[2J\\u{85} é\n"
        );
    }
}
