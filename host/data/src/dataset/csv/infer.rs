//! Infers the columns of an input whose job file does not name them.

use super::bad_records::shortened;
use super::cut::Cutter;
use super::header::{check_names, default_name};
use super::records::RecordWalk;
use super::slice::read_slice;
use super::tally::count_lines;
use super::types::{accepts, guess, is_exact_float, is_null, join, may_be_code};
use crate::dataset::{AskToOpen, DatasetError, SourceListing, Unpacker};
use crate::model::{Column, ColumnType, CsvFormat, SliceSize, Source, TableFormat, TextSlice};

/// How many bytes of an input are sampled.
const SAMPLE_BYTES: u64 = 1 << 20;
/// The maximum number of sampled files that have rows. Opening each file takes time before the
/// first mini-batch.
const MAX_SAMPLE_FILES: u32 = 100;
/// How many values of a text column are inspected to find out whether it was meant as text.
const MAX_DOUBTED_VALUES: u32 = 10_000;

/// What was inferred from the values of an input.
#[derive(Debug)]
pub struct Inferred {
    /// How to read the tables.
    pub format: TableFormat,
    /// For each column that became text because of a few values, a message about the first of them:
    /// `a.csv, line 3: "oops" is not a valid float64`. `None` for other columns.
    pub doubts: Vec<Option<String>>,
}

/// Infers the format of one input, given its sources. Samples the first megabyte of rows, in at most 100
/// files; with `full` it reads all files. Skips files that cannot be read, or whose header differs from the
/// first header. Calls `may_open` before each file.
///
/// A column without values is text. An input without rows has only text columns, named by its first header.
///
/// # Errors
///
/// If a folder cannot be listed, or if `may_open` fails.
pub fn infer_format<E: From<DatasetError>>(
    sources: &[Source],
    csv: &CsvFormat,
    full: bool,
    unpacker: &Unpacker,
    may_open: &mut AskToOpen<'_, E>,
) -> Result<Inferred, E> {
    let mut inference =
        TypeInference { csv, unpacker, columns: Vec::new(), first_file: String::new() };
    let mut bytes_left = SAMPLE_BYTES;
    let mut files = 0;
    'sources: for (index, source) in (0..).zip(sources) {
        let mut listing = SourceListing::of_rows(source)?;
        while let Some(file) = listing.next_file()? {
            if !may_open(index, &file, &mut listing)? {
                continue;
            }
            // An unreadable file is skipped here. It is reported later, when it is cut into slices.
            let learned = inference.learn_from_file(source, file, (!full).then_some(bytes_left));
            let learned = learned.unwrap_or_default();
            bytes_left = bytes_left.saturating_sub(learned);
            files += u32::from(learned > 0);
            if !full && (bytes_left == 0 || files == MAX_SAMPLE_FILES) {
                break 'sources;
            }
        }
    }
    let doubts = inference.columns.iter().map(|(_, found)| found.doubt()).collect();
    let columns = inference.columns.into_iter();
    let columns = columns.map(|(name, found)| Column { name, kind: found.kind() }).collect();
    Ok(Inferred {
        format: TableFormat { csv: csv.clone(), columns, inferred: true, ..TableFormat::default() },
        doubts,
    })
}

struct TypeInference<'a> {
    csv: &'a CsvFormat,
    unpacker: &'a Unpacker,
    /// The name of each column, and what is known of its values.
    columns: Vec<(String, ColumnEvidence)>,
    /// The file that the names came from.
    first_file: String,
}

/// What the values of one column have in common.
#[derive(Default)]
struct ColumnEvidence {
    /// The kind that holds all values. `None` if there has been no value.
    kind: Option<ColumnType>,
    /// The kind that holds all values except those that fit only text.
    typed: Option<ColumnType>,
    /// The number of values that fit a kind other than text.
    typed_count: u32,
    /// The number of values that fit only text.
    text_count: u32,
    /// The first value that fits only text: its place and its text.
    first_text: Option<(String, String)>,
    /// The first number that may be a code: its place and its text.
    first_code: Option<(String, String)>,
    /// The first whole number that a float would round: its place and its text.
    first_long: Option<(String, String)>,
}

impl ColumnEvidence {
    /// Learns from a value that is not null. `place` returns the file and the line of the value,
    /// for messages.
    fn learn_from_value(&mut self, text: &str, place: impl Fn() -> String) {
        match self.kind {
            Some(ColumnType::String)
                if self.typed_count + self.text_count >= MAX_DOUBTED_VALUES =>
            {
                return;
            }
            Some(ColumnType::String) | None => {}
            Some(known) if accepts(known, true, text) => {
                self.typed_count = self.typed_count.saturating_add(1);
                if known == ColumnType::Int64 {
                    self.note_inexact_number(text, place);
                }
                return;
            }
            Some(_) => {}
        }
        if may_be_code(text) && accepts(ColumnType::Float64, true, text) {
            self.first_code.get_or_insert_with(|| (place(), shortened(text)));
            return;
        }
        let kind = guess(text);
        if kind == ColumnType::Int64 {
            self.note_inexact_number(text, &place);
        }
        if kind == ColumnType::String {
            self.text_count += 1;
            self.first_text.get_or_insert_with(|| (place(), shortened(text)));
        } else {
            self.typed_count = self.typed_count.saturating_add(1);
            self.typed = Some(self.typed.map_or(kind, |typed| join(typed, kind)));
        }
        self.kind = Some(self.kind.map_or(kind, |known| join(known, kind)));
    }

    /// Keeps the text if it is the first whole number that a float would round.
    fn note_inexact_number(&mut self, text: &str, place: impl Fn() -> String) {
        if self.first_long.is_none() && !is_exact_float(text.trim_ascii()) {
            self.first_long = Some((place(), shortened(text)));
        }
    }

    /// The kind that keeps all values of the column.
    fn kind(&self) -> ColumnType {
        match self.kind {
            Some(ColumnType::Float64) if self.first_long.is_none() => ColumnType::Float64,
            Some(ColumnType::Float64) => ColumnType::String,
            Some(kind) if self.first_code.is_none() => kind,
            _ => ColumnType::String,
        }
    }

    /// Why the column may not have been meant as text. `None` unless most of its values fit another kind.
    fn doubt(&self) -> Option<String> {
        let kind = self.kind();
        if let Some(other) = self.kind.filter(|other| *other != kind) {
            let first =
                if other == ColumnType::Float64 { &self.first_long } else { &self.first_code };
            return first
                .as_ref()
                .map(|(place, text)| format!("{place}: {text:?} is not a valid {other}"));
        }
        let (place, text) = self.first_text.as_ref()?;
        let meant = self.typed.filter(|kind| *kind != ColumnType::String)?;
        (self.typed_count > self.text_count)
            .then(|| format!("{place}: {text:?} is not a valid {meant}"))
    }
}

impl TypeInference<'_> {
    /// Learns from a file, or from about its first `max_bytes` bytes. Returns how many bytes of rows it used.
    fn learn_from_file(
        &mut self,
        source: &Source,
        file: String,
        max_bytes: Option<u64>,
    ) -> Result<u64, DatasetError> {
        let mut cutter = Cutter::new(self.csv, SliceSize::Bytes(max_bytes.unwrap_or(SAMPLE_BYTES)));
        let mut cut = self.unpacker.open(&mut cutter, &source.root, file)?;
        if self.csv.header {
            let names = cut.names()?;
            if names.is_empty() {
                return Ok(0);
            }
            if self.columns.is_empty() {
                self.columns =
                    names.into_iter().map(|name| (name, ColumnEvidence::default())).collect();
                self.first_file = cut.path().display().to_string();
            } else {
                let expected = self.columns.iter().map(|(name, _)| name.as_str());
                check_names(cut.path(), &names, expected, &self.first_file)?;
            }
        }
        let mut text = Vec::new();
        let mut learned = 0;
        while let Some(slice) = cut.next_slice()? {
            learned += slice.length;
            let root = self.unpacker.root_of(&slice, &source.root);
            self.learn_from_text(read_slice(root, &slice, &mut text)?, &slice);
            if max_bytes.is_some() {
                break;
            }
        }
        Ok(learned)
    }

    /// Learns from records. Skips records with a stray quote or with another number of fields than columns.
    fn learn_from_text(&mut self, text: &[u8], slice: &TextSlice) {
        let mut records = RecordWalk::new(text, self.csv);
        let mut stray_fields = 0;
        while let Some(record) = records.next_record() {
            if record.stray.is_some() {
                stray_fields = if stray_fields == 0 { record.len() } else { stray_fields };
                continue;
            }
            if self.columns.is_empty() {
                self.number_columns(record.len());
            }
            if record.len() != self.columns.len() {
                continue;
            }
            let place = || {
                let before = &text[..record.start];
                format!("{}, line {}", slice.file, slice.first_line + count_lines(before, 0))
            };
            for ((_, found), field) in self.columns.iter_mut().zip(record.fields()) {
                match std::str::from_utf8(field) {
                    Ok(text) if !is_null(text, self.csv) => found.learn_from_value(text, place),
                    _ => {}
                }
            }
        }
        // If all records have stray quotes, the table still needs columns: without columns it could
        // not refuse the records.
        if self.columns.is_empty() {
            self.number_columns(stray_fields);
        }
    }

    /// Adds this many columns, named by their numbers.
    fn number_columns(&mut self, count: usize) {
        let names = (0..count).map(default_name);
        self.columns = names.map(|name| (name, ColumnEvidence::default())).collect();
    }
}
