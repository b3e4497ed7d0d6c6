//! Finds a text in the logs of a job.

use super::seen::SeenJob;
use super::text::{name, shortened};
use crate::api::{FileBody, open_below};
use std::io::{BufRead, BufReader, Read};

/// The most lines that are shown.
const MOST_LINES: usize = 200;
/// The most bytes of all files that are read.
const MOST_BYTES: u64 = 64 << 20;
/// The longest line that is not split.
const LONGEST_LINE: u64 = 1 << 20;
/// The longest line that is shown.
const MOST_SHOWN: usize = 300;

/// The lines that have a text.
#[derive(Debug, Default)]
pub(super) struct Hits {
    pub(super) lines: Vec<Hit>,
    /// Whether not all files were searched to their ends.
    pub(super) has_more: bool,
}

/// A line that has a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) path: String,
    /// The number of the line, from 1.
    pub(super) number: u64,
    pub(super) text: String,
}

/// Finds the lines that have this text, in upper or lower case. Files that cannot be read are skipped.
pub(super) fn search(seen: &SeenJob, files: &[FileBody], text: &str) -> Hits {
    let mut hits = Hits::default();
    let mut left = MOST_BYTES;
    for file in files {
        let Ok((opened, _)) = open_below(&seen.dir.logs(), &file.path) else { continue };
        let mut found = Found { path: &file.path, text: &text.to_lowercase(), hits: &mut hits };
        // What was read until an error counts.
        let _ = found.read(&mut BufReader::new(opened), &mut left);
        if hits.has_more {
            break;
        }
    }
    hits
}

struct Found<'a> {
    path: &'a str,
    text: &'a str,
    hits: &'a mut Hits,
}

impl Found<'_> {
    fn read(&mut self, reader: &mut impl BufRead, left: &mut u64) -> std::io::Result<()> {
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            line.clear();
            let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            number += 1;
            *left = left.saturating_sub(read as u64);
            let shown = String::from_utf8_lossy(&line);
            let shown = shown.trim_end_matches(['\n', '\r']);
            if shown.to_lowercase().contains(self.text) {
                let text = shortened(&name(shown), MOST_SHOWN);
                self.hits.lines.push(Hit { path: self.path.to_owned(), number, text });
            }
            if *left == 0 || self.hits.lines.len() >= MOST_LINES {
                self.hits.has_more = true;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, searched: &str) -> Hits {
        let mut hits = Hits::default();
        let mut found = Found { path: "a.txt", text, hits: &mut hits };
        found.read(&mut searched.as_bytes(), &mut MOST_BYTES.clone()).unwrap();
        hits
    }

    #[test]
    fn lines_are_found_in_any_case_and_made_safe() {
        let hits = found("error", "fine\nERROR: \u{1b}[31m\r\nno error");
        let numbers: Vec<u64> = hits.lines.iter().map(|hit| hit.number).collect();
        assert_eq!((numbers, hits.has_more), (vec![2, 3], false));
        assert_eq!(hits.lines[0].text, "ERROR: \\u{1b}[31m");
        let many = found("x", &"x\n".repeat(1000));
        assert_eq!((many.lines.len(), many.has_more), (MOST_LINES, true));
    }
}
