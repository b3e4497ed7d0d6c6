//! Delimiters, quotes and nulls in a line of fields, as in Python's csv writer.

use super::table_error::NamesError;
use crate::model::{ByteSize, OutputFormat, Quoting};
use arrow::datatypes::Schema;

/// The longest header line, in bytes: it travels to the leader in a message.
const HEADER_LIMIT: usize = 1 << 20;

/// The content of a column, as far as it matters for quotes and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellStyle {
    /// Digits, `nan` or `inf`.
    Number,
    /// `True` or `False`.
    Boolean,
    /// Everything else.
    Text,
}

/// How fields are written into lines.
#[derive(Debug)]
pub(super) struct Style {
    pub(super) delimiter: u8,
    quoting: Quoting,
    /// The text of a null, with its quotes; `None` if it would need quotes and the job forbids them.
    null: Option<Vec<u8>>,
    /// Whether numbers and booleans never need quotes.
    pub(super) bare_numbers: bool,
    /// Holds a field while it is quoted.
    spare: Vec<u8>,
}

/// A field would need quotes, which the job forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeedsQuotes;

impl Style {
    /// The style of an output format.
    pub(super) fn new(format: &OutputFormat) -> Self {
        // If the delimiter may occur in numbers or booleans, some of them need quotes.
        let in_numbers =
            format.delimiter.is_ascii_alphanumeric() || b"+-.".contains(&format.delimiter);
        let mut style = Self {
            delimiter: format.delimiter,
            quoting: format.quoting,
            null: None,
            bare_numbers: format.quoting != Quoting::All && !in_numbers,
            spare: Vec::new(),
        };
        let mut null = format.null.clone().into_bytes();
        style.null = style.close(&mut null, 0, CellStyle::Text).is_ok().then_some(null);
        style
    }

    /// Appends a null.
    #[inline]
    pub(super) fn null(&self, out: &mut Vec<u8>) -> Result<(), NeedsQuotes> {
        out.extend_from_slice(self.null.as_ref().ok_or(NeedsQuotes)?);
        Ok(())
    }

    /// Ends the field that begins at `start`: adds quotes if it needs them.
    #[inline]
    pub(super) fn close(
        &mut self,
        out: &mut Vec<u8>,
        start: usize,
        kind: CellStyle,
    ) -> Result<(), NeedsQuotes> {
        if self.bare_numbers && kind != CellStyle::Text {
            return Ok(());
        }
        let delimiter = self.delimiter;
        let special = |&byte: &u8| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
        let quoted = match self.quoting {
            Quoting::All => true,
            Quoting::Nonnumeric if kind == CellStyle::Text => true,
            Quoting::Minimal | Quoting::Nonnumeric | Quoting::None => {
                out[start..].iter().any(special)
            }
        };
        if quoted { self.quote(out, start) } else { Ok(()) }
    }

    /// Ends a line that began at `start`. CSV readers skip an empty line, so the only field of such a line is
    /// put in quotes.
    #[inline]
    pub(super) fn end(&self, out: &mut Vec<u8>, start: usize) -> Result<(), NeedsQuotes> {
        if out.len() == start {
            if self.quoting == Quoting::None {
                return Err(NeedsQuotes);
            }
            out.extend_from_slice(b"\"\"");
        }
        out.push(b'\n');
        Ok(())
    }

    /// The line of the column names. With `index`, an unnamed column of row numbers comes first.
    pub(super) fn names(&mut self, schema: &Schema, index: bool) -> Result<String, NamesError> {
        let unnamed = index.then_some("");
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let mut line = Vec::new();
        for (index, name) in unnamed.into_iter().chain(names).enumerate() {
            if index > 0 {
                line.push(self.delimiter);
            }
            let start = line.len();
            line.extend_from_slice(name.as_bytes());
            self.close(&mut line, start, CellStyle::Text)
                .map_err(|NeedsQuotes| NamesError::Quotes { name: name.to_owned() })?;
            if line.len() > HEADER_LIMIT {
                return Err(NamesError::Long { limit: ByteSize(HEADER_LIMIT as u64) });
            }
        }
        if line.is_empty() {
            line.extend_from_slice(b"\"\"");
        }
        // Quotes, delimiters and names are all valid UTF-8.
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    fn quote(&mut self, out: &mut Vec<u8>, start: usize) -> Result<(), NeedsQuotes> {
        if self.quoting == Quoting::None {
            return Err(NeedsQuotes);
        }
        self.spare.clear();
        self.spare.extend_from_slice(&out[start..]);
        out.truncate(start);
        out.push(b'"');
        let mut rest = self.spare.as_slice();
        while let Some(quote) = memchr::memchr(b'"', rest) {
            out.extend_from_slice(&rest[..=quote]);
            out.push(b'"');
            rest = &rest[quote + 1..];
        }
        out.extend_from_slice(rest);
        out.push(b'"');
        Ok(())
    }
}
