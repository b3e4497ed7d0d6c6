//! Delimiters, quotes and nulls in a line of fields, as in Python's csv writer.

use super::table_error::NamesError;
use crate::model::{ByteSize, OutputFormat, Quoting};
use arrow::datatypes::Schema;

/// The longest header line, in bytes. The limit exists because the worker sends the header to the leader in a
/// message.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// What the texts of a column look like. This decides about quotes, and about the form in JSON.
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
    pub(super) has_bare_numbers: bool,
    /// A copy of the field that is being quoted.
    unquoted: Vec<u8>,
}

/// A field would need quotes, which the job forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeedsQuotes;

impl Style {
    pub(super) fn new(format: &OutputFormat) -> Self {
        // If the delimiter may occur in numbers or booleans, some of them need quotes.
        let is_in_numbers =
            format.delimiter.is_ascii_alphanumeric() || b"+-.".contains(&format.delimiter);
        let mut style = Self {
            delimiter: format.delimiter,
            quoting: format.quoting,
            null: None,
            has_bare_numbers: format.quoting != Quoting::All && !is_in_numbers,
            unquoted: Vec::new(),
        };
        let mut null = format.null.clone().into_bytes();
        style.null = style.end_field(&mut null, 0, CellStyle::Text).is_ok().then_some(null);
        style
    }

    #[inline]
    pub(super) fn push_null(&self, out: &mut Vec<u8>) -> Result<(), NeedsQuotes> {
        out.extend_from_slice(self.null.as_ref().ok_or(NeedsQuotes)?);
        Ok(())
    }

    /// Ends the field that begins at `start`. Puts the field in quotes if it needs them.
    #[inline]
    pub(super) fn end_field(
        &mut self,
        out: &mut Vec<u8>,
        start: usize,
        content: CellStyle,
    ) -> Result<(), NeedsQuotes> {
        if self.has_bare_numbers && content != CellStyle::Text {
            return Ok(());
        }
        let delimiter = self.delimiter;
        let is_special = |&byte: &u8| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
        let needs_quotes = match self.quoting {
            Quoting::All => true,
            Quoting::Nonnumeric if content == CellStyle::Text => true,
            Quoting::Minimal | Quoting::Nonnumeric | Quoting::None => {
                out[start..].iter().any(is_special)
            }
        };
        if needs_quotes { self.quote(out, start) } else { Ok(()) }
    }

    /// Ends the line that begins at `start`. An empty line becomes `""`, because CSV readers skip empty
    /// lines.
    #[inline]
    pub(super) fn end_line(&self, out: &mut Vec<u8>, start: usize) -> Result<(), NeedsQuotes> {
        if out.len() == start {
            if self.quoting == Quoting::None {
                return Err(NeedsQuotes);
            }
            out.extend_from_slice(b"\"\"");
        }
        out.push(b'\n');
        Ok(())
    }

    /// The line of the column names. If rows are numbered, an unnamed column comes first.
    pub(super) fn header_line(
        &mut self,
        schema: &Schema,
        are_numbered: bool,
    ) -> Result<String, NamesError> {
        let unnamed = are_numbered.then_some("");
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let mut line = Vec::new();
        for (index, name) in unnamed.into_iter().chain(names).enumerate() {
            if index > 0 {
                line.push(self.delimiter);
            }
            let start = line.len();
            line.extend_from_slice(name.as_bytes());
            self.end_field(&mut line, start, CellStyle::Text)
                .map_err(|NeedsQuotes| NamesError::Quotes { name: name.to_owned() })?;
            if line.len() > MAX_HEADER_BYTES {
                return Err(NamesError::Long { limit: ByteSize(MAX_HEADER_BYTES as u64) });
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
        self.unquoted.clear();
        self.unquoted.extend_from_slice(&out[start..]);
        out.truncate(start);
        out.push(b'"');
        let mut rest = self.unquoted.as_slice();
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
