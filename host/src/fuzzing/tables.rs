//! Cutting CSV, held against a cut that looks at one byte at a time.

use super::scratch;
use crate::dataset::csv::Cutter;
use crate::model::{CsvFormat, SliceSize, TextSlice};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const DELIMITERS: [u8; 4] = *b",;\t|";
const FILE: &str = "t.csv";

thread_local! {
    static PATH: PathBuf = scratch::file(FILE);
    /// One for all tables, as workers have it: making its buffer takes longer than a short table.
    static CUTTER: RefCell<Cutter> = RefCell::new(Cutter::new(&CsvFormat::default(), SliceSize::Rows(1)));
    /// One for each delimiter.
    static PARSERS: RefCell<BTreeMap<u8, csv_core::Reader>> = RefCell::default();
}

/// The first byte is delimiter, header and unit, the second the size of slices; the rest is the file. The
/// slices are those of the plain reference, and csv-core finds as many records.
pub fn tables(data: &[u8]) {
    let [kind, size, text @ ..] = data else { return };
    let delimiter = DELIMITERS[usize::from(kind & 3)];
    let header = kind & 4 != 0;
    let size = u64::from(*size).max(1) << (kind >> 5);
    let format = CsvFormat { delimiter, header, ..CsvFormat::default() };
    let size = if kind & 8 != 0 { SliceSize::Rows(size) } else { SliceSize::Bytes(size) };
    let (slices, ends_quoted) = cut(&format, size, text);
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let bom = data.len() - 2 - text.len();
    let reference = Reference::new(text, delimiter);
    assert_eq!(slices, reference.slices(header, size, bom as u64));
    assert_eq!(ends_quoted, reference.ends_quoted);
    let all = slices.iter().map(|slice| slice.rows).sum::<u64>();
    let headers = u64::from(header && reference.records(text.len()) > 0);
    assert_eq!(all + headers, records(text, delimiter), "csv-core counts otherwise");
}

fn cut(format: &CsvFormat, size: SliceSize, text: &[u8]) -> (Vec<TextSlice>, bool) {
    let path = PATH.with(PathBuf::clone);
    fs::write(&path, text).expect("fuzzing needs room for temporary files");
    CUTTER.with_borrow_mut(|cutter| {
        cutter.begin(format, size);
        let folder = path.parent().expect("a file lies in a folder");
        let opened = cutter.open(folder, FILE.to_owned());
        let mut cut = opened.expect("a short file can be cut");
        let mut slices = Vec::new();
        while let Some(slice) = cut.next_slice().expect("a short file can be cut") {
            slices.push(slice);
        }
        (slices, cut.ends_quoted())
    })
}

/// What is true in front of each byte, and at the end.
#[derive(Clone, Copy)]
struct At {
    /// Whether a record begins here, or a blank line.
    start: bool,
    /// The byte before.
    before: u8,
    /// Records and lines that have ended.
    records: u64,
    lines: u64,
}

struct Reference<'a> {
    text: &'a [u8],
    at: Vec<At>,
    ends_quoted: bool,
}

impl<'a> Reference<'a> {
    fn new(text: &'a [u8], delimiter: u8) -> Self {
        let ends = |byte: u8| byte == b'\n' || byte == b'\r';
        let mut now = At { start: true, before: b'\n', records: 0, lines: 0 };
        let mut at = vec![now];
        // Within quotes; just behind a quote that may have ended them.
        let (mut quoted, mut seen) = (false, false);
        for &byte in text {
            let opens = now.before == delimiter || ends(now.before);
            if seen {
                // `""` is a quote within quotes; anything else is outside.
                (quoted, seen) = (byte == b'"', false);
                if !quoted {
                    now.records += u64::from(ends(byte));
                }
            } else if quoted {
                (quoted, seen) = (byte != b'"', byte == b'"');
            } else if byte == b'"' {
                quoted = opens;
            } else {
                now.records += u64::from(ends(byte) && !ends(now.before));
            }
            now.lines += u64::from(byte == b'\r' || byte == b'\n' && now.before != b'\r');
            now.before = byte;
            now.start = !quoted && !seen && ends(byte);
            at.push(now);
        }
        Self { text, at, ends_quoted: quoted }
    }

    /// Records up to a place; the end of the text ends one too.
    fn records(&self, place: usize) -> u64 {
        let At { records, start, .. } = self.at[place];
        records + u64::from(place == self.text.len() && !start)
    }

    /// Behind the LF of a CRLF that was cut in two.
    fn behind_lf(&self, place: usize) -> usize {
        let cut = self.at[place].before == b'\r' && self.text.get(place) == Some(&b'\n');
        place + usize::from(cut)
    }

    /// Behind the line end of the record that has not ended at `place`.
    fn record_end(&self, place: usize) -> usize {
        let ended = |end: &usize| self.at[*end].records > self.at[place].records;
        let end = (place + 1..self.at.len()).find(ended).unwrap_or(self.text.len());
        self.behind_lf(end)
    }

    /// Where the slice that begins at `from` ends.
    fn slice_end(&self, from: usize, size: SliceSize) -> usize {
        let (bytes, rows) = match size {
            SliceSize::Bytes(bytes) => (bytes as usize, 1),
            SliceSize::Rows(rows) => (0, rows),
        };
        let mut end = self.behind_lf((from + bytes).min(self.text.len()));
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
                unpacked: None,
            });
            from = end;
        }
    }
}

/// How many records csv-core finds.
fn records(text: &[u8], delimiter: u8) -> u64 {
    PARSERS.with_borrow_mut(|parsers| {
        // Making one takes longer than a short table.
        let build = || csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        count_records(parsers.entry(delimiter).or_insert_with(build), text)
    })
}

fn count_records(parser: &mut csv_core::Reader, text: &[u8]) -> u64 {
    let (mut fields, mut ends) = (vec![0; text.len() + 1], vec![0; text.len() + 2]);
    parser.reset();
    // A parser that has read nothing would drop a second BOM.
    parser.read_record(b"\n", &mut fields, &mut ends);
    let (mut rest, mut count) = (text, 0);
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
