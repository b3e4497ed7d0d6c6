//! The lines of a text.

use memchr::memchr2;

/// Iterates over the lines of a text that are not empty.
#[derive(Debug)]
pub struct FilledLines<'a> {
    text: &'a [u8],
    /// The offset at which to look for the next line.
    at: usize,
}

impl<'a> FilledLines<'a> {
    /// Starts at the first line.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }
}

impl<'a> Iterator for FilledLines<'a> {
    /// The offset of a line, and the line without its end.
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        let start = self.at;
        let rest = self.text.get(start..).filter(|rest| !rest.is_empty())?;
        let line = &rest[..memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())];
        self.at += line.len();
        Some((start, line))
    }
}
