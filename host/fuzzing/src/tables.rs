//! Cuts CSV into slices, and compares them with the slices of a simple reference implementation, which
//! reads byte by byte.

use super::scratch;
use sandmill_data::dataset::csv::Cutter;
use sandmill_model::{CsvFormat, SliceSize, TextSlice, to_usize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const DELIMITERS: [u8; 4] = *b",;\t|";
const FILE_NAME: &str = "t.csv";

thread_local! {
    /// The path of the file to cut.
    static PATH: PathBuf = scratch::file(FILE_NAME);
    /// One cutter for all tables, as in workers: making its buffer takes longer than cutting a short
    /// table.
    static CUTTER: RefCell<Cutter> = RefCell::new(Cutter::new(&CsvFormat::default(), SliceSize::Rows(1)));
    /// One parser for each delimiter.
    static PARSERS: RefCell<BTreeMap<u8, csv_core::Reader>> = RefCell::default();
}

/// The first byte chooses the delimiter, whether there is a header, and whether the size of a slice is
/// in rows or bytes. The first two bytes together give this size; the rest is the file. The slices must be
/// those of the reference. If the file has no stray quote, csv-core must find the same number of records.
pub fn tables(data: &[u8]) {
    let [choice, size, text @ ..] = data else { return };
    let delimiter = DELIMITERS[usize::from(choice & 3)];
    let header = choice & 4 != 0;
    let size = u64::from(*size).max(1) << (choice >> 5);
    let format = CsvFormat { delimiter, header, ..CsvFormat::default() };
    let size = if choice & 8 != 0 { SliceSize::Rows(size) } else { SliceSize::Bytes(size) };
    let slices = cut(&format, size, text);
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let bom_bytes = data.len() - 2 - text.len();
    let reference = Reference::new(text, delimiter);
    assert_eq!(slices, reference.slices(header, size, bom_bytes as u64));
    let rows = slices.iter().map(|slice| slice.rows).sum::<u64>();
    let headers = u64::from(header && reference.records(text.len()) > 0);
    if !reference.has_strays {
        assert_eq!(
            rows + headers,
            records(text, delimiter),
            "csv-core finds another number of records"
        );
    }
}

fn cut(format: &CsvFormat, size: SliceSize, text: &[u8]) -> Vec<TextSlice> {
    let path = PATH.with(PathBuf::clone);
    fs::write(&path, text).expect("fuzzing needs room for temporary files");
    CUTTER.with_borrow_mut(|cutter| {
        cutter.begin(format, size);
        let folder = path.parent().expect("a file is in a folder");
        let opened = cutter.open(folder, FILE_NAME.to_owned());
        let mut cut = opened.expect("a short file can be cut");
        let mut slices = Vec::new();
        while let Some(slice) = cut.next_slice().expect("a short file can be cut") {
            slices.push(slice);
        }
        slices
    })
}

/// The state of the scan at an offset of the text.
#[derive(Clone, Copy)]
struct ScanStates {
    /// Whether a record, or a blank line, begins at this offset.
    is_start: bool,
    /// The byte before this offset.
    before: u8,
    /// How many records and lines have ended before this offset.
    records: u64,
    lines: u64,
}

struct Reference<'a> {
    text: &'a [u8],
    /// The state at each offset, and at the end.
    states: Vec<ScanStates>,
    has_strays: bool,
}

impl<'a> Reference<'a> {
    fn new(text: &'a [u8], delimiter: u8) -> Self {
        let mut states = Vec::new();
        let mut has_strays = false;
        let mut now = ScanStates { is_start: true, before: b'\n', records: 0, lines: 0 };
        let mut end = None;
        for offset in 0..=text.len() {
            if end == Some(offset) {
                (now.is_start, now.records, end) = (true, now.records + 1, None);
            }
            states.push(now);
            let Some(&byte) = text.get(offset) else { break };
            if now.is_start && !is_line_end(byte) {
                let (record_end, is_stray) = record_end(text, offset, delimiter);
                (now.is_start, end, has_strays) = (false, Some(record_end), has_strays | is_stray);
            }
            now.lines += u64::from(byte == b'\r' || byte == b'\n' && now.before != b'\r');
            now.before = byte;
        }
        Self { text, states, has_strays }
    }

    /// The number of records up to an offset.
    fn records(&self, offset: usize) -> u64 {
        self.states[offset].records
    }

    /// If `offset` is inside a CRLF, the offset after its LF; otherwise `offset`.
    fn after_lf(&self, offset: usize) -> usize {
        let is_in_crlf =
            self.states[offset].before == b'\r' && self.text.get(offset) == Some(&b'\n');
        offset + usize::from(is_in_crlf)
    }

    /// The offset after the line end of the record that contains `offset`.
    fn record_end(&self, offset: usize) -> usize {
        let ended = |end: &usize| self.states[*end].records > self.states[offset].records;
        let end = (offset + 1..self.states.len()).find(ended).unwrap_or(self.text.len());
        self.after_lf(end)
    }

    /// The end of the slice that begins at `from`.
    fn slice_end(&self, from: usize, size: SliceSize) -> usize {
        let (bytes, rows) = match size {
            SliceSize::Bytes(bytes) => (to_usize(bytes), 1),
            SliceSize::Rows(rows) => (0, rows),
        };
        let mut end = self.after_lf((from + bytes).min(self.text.len()));
        while end < self.text.len()
            && (self.states[end].records - self.states[from].records < rows
                || !self.states[end].is_start)
        {
            end = self.record_end(end);
        }
        end
    }

    fn slices(&self, header: bool, size: SliceSize, bom_bytes: u64) -> Vec<TextSlice> {
        let mut from = if header { self.record_end(0) } else { 0 };
        let mut slices = Vec::new();
        loop {
            let end = self.slice_end(from, size);
            let rows = self.records(end) - self.states[from].records;
            if rows == 0 || from == self.text.len() {
                return slices;
            }
            slices.push(TextSlice {
                file: FILE_NAME.to_owned(),
                offset: bom_bytes + from as u64,
                length: (end - from) as u64,
                first_line: self.states[from].lines + 1,
                rows,
                ..TextSlice::sample()
            });
            from = end;
        }
    }
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// For the record that begins at `start`: the offset after the first byte of its line end, and whether
/// it has a stray quote.
fn record_end(text: &[u8], start: usize, delimiter: u8) -> (usize, bool) {
    let mut at = start;
    let is_stray = loop {
        if text.get(at) == Some(&b'"') {
            match field_end(text, at, delimiter) {
                Some(end) => at = end,
                None => break true,
            }
        }
        let is_text = |byte: &&u8| **byte != delimiter && !is_line_end(**byte);
        at += text[at..].iter().take_while(is_text).count();
        if text.get(at) != Some(&delimiter) {
            break false;
        }
        at += 1;
    };
    at += text[at..].iter().take_while(|byte| !is_line_end(**byte)).count();
    ((at + 1).min(text.len()), is_stray)
}

/// The end of the field that begins with a quote at offset `quote`: the offset after the closing quote and
/// the blanks that follow it. `None` if the quote is stray: it is not closed, or text follows the closing
/// quote.
fn field_end(text: &[u8], quote: usize, delimiter: u8) -> Option<usize> {
    let mut at = quote + 1;
    loop {
        match (text.get(at)?, text.get(at + 1)) {
            (b'"', Some(b'"')) => at += 2,
            (b'"', _) => break,
            _ => at += 1,
        }
    }
    let is_blank = |byte: &&u8| matches!(**byte, b' ' | b'\t') && **byte != delimiter;
    at += 1 + text[at + 1..].iter().take_while(is_blank).count();
    text.get(at).is_none_or(|byte| *byte == delimiter || is_line_end(*byte)).then_some(at)
}

/// How many records csv-core finds.
fn records(text: &[u8], delimiter: u8) -> u64 {
    PARSERS.with_borrow_mut(|parsers| {
        // Making a parser takes longer than parsing a short table.
        let build = || csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        count_records(parsers.entry(delimiter).or_insert_with(build), text)
    })
}

fn count_records(parser: &mut csv_core::Reader, text: &[u8]) -> u64 {
    let mut fields = vec![0; text.len() + 1];
    let mut field_ends = vec![0; text.len() + 2];
    parser.reset();
    // The caller removed a BOM. A parser that has read nothing yet would drop a second one.
    parser.read_record(b"\n", &mut fields, &mut field_ends);
    let mut rest = text;
    let mut count = 0;
    loop {
        let (result, read, ..) = parser.read_record(rest, &mut fields, &mut field_ends);
        rest = &rest[read..];
        match result {
            csv_core::ReadRecordResult::Record => count += 1,
            csv_core::ReadRecordResult::End => return count,
            _ => {}
        }
    }
}
