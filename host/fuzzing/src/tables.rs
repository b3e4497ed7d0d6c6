//! Cuts CSV, and compares the slices with those of a simple reference that goes byte by byte.

use super::scratch;
use sandmill_data::dataset::csv::Cutter;
use sandmill_model::{CsvFormat, SliceSize, TextSlice, to_usize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const DELIMITERS: [u8; 4] = *b",;\t|";
const FILE: &str = "t.csv";

thread_local! {
    static PATH: PathBuf = scratch::file(FILE);
    /// One cutter for all tables, as in workers: making its buffer takes longer than a short table.
    static CUTTER: RefCell<Cutter> = RefCell::new(Cutter::new(&CsvFormat::default(), SliceSize::Rows(1)));
    /// One parser for each delimiter.
    static PARSERS: RefCell<BTreeMap<u8, csv_core::Reader>> = RefCell::default();
}

/// The first byte chooses the delimiter, the header and the unit of sizes, the second the size of slices; the
/// rest is the file. The slices must be those of the reference, and csv-core must find as many records if no
/// quote is stray.
pub fn tables(data: &[u8]) {
    let [kind, size, text @ ..] = data else { return };
    let delimiter = DELIMITERS[usize::from(kind & 3)];
    let header = kind & 4 != 0;
    let size = u64::from(*size).max(1) << (kind >> 5);
    let format = CsvFormat { delimiter, header, ..CsvFormat::default() };
    let size = if kind & 8 != 0 { SliceSize::Rows(size) } else { SliceSize::Bytes(size) };
    let slices = cut(&format, size, text);
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let bom = data.len() - 2 - text.len();
    let reference = Reference::new(text, delimiter);
    assert_eq!(slices, reference.slices(header, size, bom as u64));
    let all = slices.iter().map(|slice| slice.rows).sum::<u64>();
    let headers = u64::from(header && reference.records(text.len()) > 0);
    if !reference.has_strays {
        assert_eq!(
            all + headers,
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
        let opened = cutter.open(folder, FILE.to_owned());
        let mut cut = opened.expect("a short file can be cut");
        let mut slices = Vec::new();
        while let Some(slice) = cut.next_slice().expect("a short file can be cut") {
            slices.push(slice);
        }
        slices
    })
}

/// The state before each byte, and at the end.
#[derive(Clone, Copy)]
struct ScanStates {
    /// Whether a record begins here, or a blank line.
    start: bool,
    /// The byte before.
    before: u8,
    /// How many records and lines have ended.
    records: u64,
    lines: u64,
}

struct Reference<'a> {
    text: &'a [u8],
    at: Vec<ScanStates>,
    has_strays: bool,
}

impl<'a> Reference<'a> {
    fn new(text: &'a [u8], delimiter: u8) -> Self {
        let mut at = Vec::new();
        let mut has_strays = false;
        let mut now = ScanStates { start: true, before: b'\n', records: 0, lines: 0 };
        let mut end = None;
        for place in 0..=text.len() {
            if end == Some(place) {
                (now.start, now.records, end) = (true, now.records + 1, None);
            }
            at.push(now);
            let Some(&byte) = text.get(place) else { break };
            if now.start && !ends(byte) {
                let (record_end, is_stray) = record_end(text, place, delimiter);
                (now.start, end, has_strays) = (false, Some(record_end), has_strays | is_stray);
            }
            now.lines += u64::from(byte == b'\r' || byte == b'\n' && now.before != b'\r');
            now.before = byte;
        }
        Self { text, at, has_strays }
    }

    /// The number of records up to an offset.
    fn records(&self, place: usize) -> u64 {
        self.at[place].records
    }

    /// If `place` is inside a CRLF, the offset after its LF; otherwise `place`.
    fn after_lf(&self, place: usize) -> usize {
        let cut = self.at[place].before == b'\r' && self.text.get(place) == Some(&b'\n');
        place + usize::from(cut)
    }

    /// The offset after the line end of the record that has not ended at `place`.
    fn record_end(&self, place: usize) -> usize {
        let ended = |end: &usize| self.at[*end].records > self.at[place].records;
        let end = (place + 1..self.at.len()).find(ended).unwrap_or(self.text.len());
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
            && (self.at[end].records - self.at[from].records < rows || !self.at[end].start)
        {
            end = self.record_end(end);
        }
        end
    }

    fn slices(&self, header: bool, size: SliceSize, bom: u64) -> Vec<TextSlice> {
        let mut from = if header { self.record_end(0) } else { 0 };
        let mut slices = Vec::new();
        loop {
            let end = self.slice_end(from, size);
            let rows = self.records(end) - self.at[from].records;
            if rows == 0 || from == self.text.len() {
                return slices;
            }
            slices.push(TextSlice {
                file: FILE.to_owned(),
                offset: bom + from as u64,
                length: (end - from) as u64,
                first_line: self.at[from].lines + 1,
                rows,
                ..TextSlice::sample()
            });
            from = end;
        }
    }
}

fn ends(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// The offset after the first byte of the line end of the record that begins at `start`, and whether a quote
/// in it is stray.
fn record_end(text: &[u8], start: usize, delimiter: u8) -> (usize, bool) {
    let mut at = start;
    let is_stray = loop {
        if text.get(at) == Some(&b'"') {
            match field_end(text, at, delimiter) {
                Some(end) => at = end,
                None => break true,
            }
        }
        let is_text = |byte: &&u8| **byte != delimiter && !ends(**byte);
        at += text[at..].iter().take_while(is_text).count();
        if text.get(at) != Some(&delimiter) {
            break false;
        }
        at += 1;
    };
    at += text[at..].iter().take_while(|byte| !ends(**byte)).count();
    ((at + 1).min(text.len()), is_stray)
}

/// The offset after the closing quote, and blanks after it, of the field that a quote opens. `None` if the
/// quote is stray.
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
    text.get(at).is_none_or(|byte| *byte == delimiter || ends(*byte)).then_some(at)
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
    let mut ends = vec![0; text.len() + 2];
    parser.reset();
    // A parser that has read nothing yet would drop a second BOM.
    parser.read_record(b"\n", &mut fields, &mut ends);
    let mut rest = text;
    let mut count = 0;
    loop {
        let (result, read, ..) = parser.read_record(rest, &mut fields, &mut ends);
        rest = &rest[read..];
        match result {
            csv_core::ReadRecordResult::Record => count += 1,
            csv_core::ReadRecordResult::End => return count,
            _ => {}
        }
    }
}
