//! Cuts one CSV file into slices, in one pass.

use super::header::read_names;
use super::joined::JoinedLines;
use super::records::RecordWalk;
use super::scan::{CsvScan, MAX_FIELD_BYTES, ScanStop};
use super::window::FileWindow;
use crate::dataset::{DatasetError, err};
use crate::model::{ByteSize, CsvFormat, SliceSize, TextSlice, to_usize};
use memchr::memchr2;
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The maximum length of a slice, in bytes: a worker holds a slice in memory, and Arrow's text columns count
/// with 32 bits.
pub const MAX_SLICE: u64 = 1 << 30;
/// How many bytes the last record of a slice may reach beyond the size of the slice. Checked only outside
/// quotes.
const MAX_REST: u64 = MAX_FIELD_BYTES;
/// The maximum length of a header, in bytes. A longer header probably has a quote that is not closed.
const MAX_HEADER: usize = 1 << 20;
/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Cuts files into slices, one file after the other. Reuses its buffer.
#[derive(Debug)]
pub struct Cutter {
    /// `None` for lines, which have no fields.
    csv: Option<CsvFormat>,
    header: bool,
    size: SliceSize,
    /// This is [`MAX_REST`], or less in tests, so that they are fast.
    pub(super) max_rest: u64,
    /// This is [`MAX_SLICE`], or less in tests, so that they are fast.
    pub(super) max_slice: u64,
    window: FileWindow,
}

/// A file that is being cut.
#[derive(Debug)]
pub struct CutFile<'a> {
    cutter: &'a mut Cutter,
    file: File,
    path: PathBuf,
    name: String,
    /// The path of the unpacked text in the spill folder. `None` if the file is not packed.
    unpacked: Option<String>,
    scan: CsvScan,
    /// How many bytes of the window were scanned.
    scanned: usize,
    /// The offset in the file of the first byte that is not scanned.
    offset: u64,
    header: Vec<u8>,
    /// Detects quoted fields that are probably several records. `None` if [`Self::look_for_joined`]
    /// was not called, or did nothing.
    joined: Option<JoinedLines>,
    /// The maximum number of records in the next slice. `None` if there is no limit.
    max_records: Option<u64>,
}

impl Cutter {
    /// Makes slices of this size, which is at least 1.
    pub fn new(format: &CsvFormat, size: SliceSize) -> Self {
        Self {
            csv: Some(format.clone()),
            header: format.header,
            size,
            max_rest: MAX_REST,
            max_slice: MAX_SLICE,
            window: FileWindow::default(),
        }
    }

    /// Makes slices of this size from text without a header, in which each line is a record.
    pub fn of_lines(size: SliceSize) -> Self {
        let format = CsvFormat { header: false, ..CsvFormat::default() };
        Self { csv: None, ..Self::new(&format, size) }
    }

    /// Cuts with another format and size from now on. Keeps the buffer.
    #[cfg(any(test, feature = "testing"))]
    pub fn begin(&mut self, format: &CsvFormat, size: SliceSize) {
        let window = std::mem::take(&mut self.window);
        *self = Self { window, ..Self::new(format, size) };
    }

    /// Opens the file `name` below `root`, and reads its header if the format has one. Fails if the file
    /// cannot be read, or if the header does not end.
    pub fn open(&mut self, root: &Path, name: String) -> Result<CutFile<'_>, DatasetError> {
        let path = root.join(&name);
        let file = open_file(&path)?;
        self.open_text(file, path, name, None)
    }

    fn new_scan(&self) -> CsvScan {
        let mut scan = match &self.csv {
            Some(csv) if csv.quoted_newlines => CsvScan::from_format(csv),
            Some(csv) => CsvScan::of_lines_with_comments(csv),
            None => CsvScan::of_lines(),
        };
        scan.max_field_bytes = self.max_rest;
        scan
    }

    /// Like [`Self::open`], for a text that is already open. `path` and `name` are those of the text's file,
    /// or of the packed file that the text was unpacked from. In that case `unpacked` is the path of the text
    /// in the spill folder.
    pub(in crate::dataset) fn open_text(
        &mut self,
        file: File,
        path: PathBuf,
        name: String,
        unpacked: Option<String>,
    ) -> Result<CutFile<'_>, DatasetError> {
        let scan = self.new_scan();
        let mut opened = CutFile {
            cutter: self,
            file,
            path,
            name,
            unpacked,
            scan,
            scanned: 0,
            offset: 0,
            header: Vec::new(),
            joined: None,
            max_records: None,
        };
        opened.skip_bom()?;
        let skipped = opened.cutter.csv.as_ref().map_or(0, |csv| csv.skip_lines);
        opened.skip_lines(skipped)?;
        opened.scan.offset = opened.offset;
        if opened.cutter.header {
            // A longer field is not a column's name.
            let max_field_bytes =
                std::mem::replace(&mut opened.scan.max_field_bytes, MAX_HEADER as u64);
            opened.read_header()?;
            opened.scan.max_field_bytes = max_field_bytes;
        }
        Ok(opened)
    }
}

/// Opens a file to read it. Does not block if something else (a FIFO, for example) has replaced the file
/// since it was listed.
pub fn open_file(path: &Path) -> Result<File, DatasetError> {
    match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => Ok(file),
        Err(error) => err!("cannot open {}: {error}", path.display()),
    }
}

impl CutFile<'_> {
    /// The bytes of the header, unchanged, without a BOM. Empty if the file has no header.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The names in the header: one for each column. An empty name becomes `column_N` (from 0). Fails if a
    /// name occurs twice.
    pub fn names(&self) -> Result<Vec<String>, DatasetError> {
        read_names(&self.header, &self.cutter.csv.clone().unwrap_or_default(), &self.path)
    }

    /// Whether the header has a stray quote.
    pub fn has_stray_header(&self) -> bool {
        let csv = self.cutter.csv.as_ref();
        csv.is_some_and(|csv| {
            let is_stray =
                RecordWalk::new(&self.header, csv).next_record().map(|it| it.stray.is_some());
            is_stray == Some(true)
        })
    }

    /// From now on, detects quoted fields whose lines look like records with this many columns: two stray
    /// quotes may have joined these records. Does nothing for one column, because any line of text looks like
    /// a record of one column.
    pub fn look_for_joined(&mut self, columns: usize) {
        let csv = self.cutter.csv.as_ref().filter(|csv| csv.quoted_newlines && columns > 1);
        if let Some(csv) = csv {
            self.joined = Some(JoinedLines::new(csv.delimiter, columns));
            self.scan.spans = Some(Vec::new());
        }
    }

    /// The fields that [`Self::look_for_joined`] has detected so far: the first and the last line of the
    /// first few, and the number of all.
    pub fn joined(&self) -> (&[(u64, u64)], u64) {
        self.joined.as_ref().map_or((&[], 0), JoinedLines::found)
    }

    /// From now on a slice has at most this many records. With 0 there are no more slices.
    pub fn set_max_records(&mut self, records: u64) {
        self.max_records = Some(records);
    }

    /// Goes to the end of a slice that was cut before: after this many bytes and lines of the text. Call this before the
    /// first slice.
    pub fn continue_from(&mut self, offset: u64, lines: u64) -> Result<(), DatasetError> {
        let spans = self.scan.spans.take();
        self.scan = self.cutter.new_scan();
        self.scan.spans = spans;
        self.scan.offset = offset;
        self.scan.lines = lines;
        self.offset = offset;
        self.refill()
    }

    /// How many lines of the text have ended so far.
    pub fn lines(&self) -> u64 {
        self.scan.lines
    }

    /// The file's path on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// At most the first `max_bytes` bytes of the text, after a BOM, and whether they are the whole text.
    /// Valid only before the first slice.
    pub fn start(&self, max_bytes: usize) -> (&[u8], bool) {
        let bytes = &self.cutter.window.bytes()[self.scanned..];
        let length = self.file.metadata().map_or(u64::MAX, |metadata| metadata.len());
        let is_all = self.offset + bytes.len() as u64 == length && bytes.len() <= max_bytes;
        (&bytes[..bytes.len().min(max_bytes)], is_all)
    }

    /// Whether the text was unpacked from its file.
    pub fn is_unpacked(&self) -> bool {
        self.unpacked.is_some()
    }

    /// The metadata of the file in the input, which may be packed.
    pub fn metadata(&self) -> Result<Metadata, DatasetError> {
        let metadata = match self.unpacked {
            Some(_) => std::fs::metadata(&self.path),
            None => self.file.metadata(),
        };
        match metadata {
            Ok(metadata) => Ok(metadata),
            Err(error) => err!("cannot inspect {}: {error}", self.path.display()),
        }
    }

    /// The next slice. A slice begins and ends at record boundaries, and holds at least one record. There are
    /// no gaps between slices. `None` at the end.
    pub fn next_slice(&mut self) -> Result<Option<TextSlice>, DatasetError> {
        let offset = self.offset;
        let first_line = self.scan.lines + 1;
        let records = self.scan.records;
        match (self.cutter.size, self.max_records) {
            (_, Some(0)) => return Ok(None),
            (SliceSize::Bytes(bytes), None) => self.pass_size(bytes, first_line)?,
            (SliceSize::Bytes(bytes), Some(most)) => self.pass_few(bytes, most)?,
            (SliceSize::Rows(rows), most) => {
                self.pass_rows(rows.min(most.unwrap_or(rows)).max(1), first_line)?;
            }
        }
        let rows = self.scan.records - records;
        if rows == 0 {
            return Ok(None);
        }
        let length = self.offset - offset;
        Ok(Some(TextSlice {
            file: self.name.clone(),
            offset,
            length,
            first_line,
            rows,
            unpacked: self.unpacked.clone(),
        }))
    }

    /// Moves past records of about this many bytes, or past the rest of the file. `line` is the
    /// first line of the slice.
    fn pass_size(&mut self, bytes: u64, line: u64) -> Result<(), DatasetError> {
        let records = self.scan.records;
        let end = self.offset + bytes.clamp(1, self.cutter.max_slice);
        loop {
            self.pass_bytes(end)?;
            if self.scan.after_cr() {
                self.pass_lf()?;
            }
            let has_started = self.scan.records > records && self.scan.at_record_start();
            if has_started || self.pass_record_end(line)? {
                return Ok(());
            }
        }
    }

    /// Moves past records of about this many bytes, but at most `max_records` records, or past the
    /// rest of the file.
    fn pass_few(&mut self, bytes: u64, max_records: u64) -> Result<(), DatasetError> {
        let first = self.scan.records;
        let end = self.offset + bytes.clamp(1, self.cutter.max_slice);
        while self.scan.records - first < max_records && self.offset < end {
            let before = self.scan.records;
            let next = self.scan.lines + 1;
            while !self.pass_record_end(next)? {}
            if self.scan.records == before {
                break;
            }
        }
        Ok(())
    }

    /// Moves past this many records, or past the rest of the file. Fails if a worker could not hold
    /// the records. `line` is the first line of the slice.
    fn pass_rows(&mut self, rows: u64, line: u64) -> Result<(), DatasetError> {
        let start = self.offset;
        let first = self.scan.records;
        while self.scan.records - first < rows {
            let before = self.scan.records;
            let next = self.scan.lines + 1;
            while !self.pass_record_end(next)? {}
            let passed = self.scan.records - first;
            if self.scan.records == before {
                break;
            }
            if self.offset - start > self.cutter.max_slice {
                return err!(
                    "{}: mini_batch_size is {}, but the first {passed} rows from line {line} on take \
                     more than {}, the maximum for a mini-batch, because a worker holds it in memory; \
                     choose a smaller number, such as mini_batch_size: \"{}\", or a size in bytes",
                    self.path.display(),
                    SliceSize::Rows(rows),
                    ByteSize(self.cutter.max_slice),
                    SliceSize::Rows((passed / 2).max(1)),
                );
            }
        }
        Ok(())
    }

    /// Moves past the bytes up to this offset in the file, or to the end of the file.
    fn pass_bytes(&mut self, end: u64) -> Result<(), DatasetError> {
        while self.offset < end {
            let count = self.pending()?.len();
            if count == 0 {
                break;
            }
            let count = count.min(usize::try_from(end - self.offset).unwrap_or(usize::MAX));
            let bytes = &self.cutter.window.bytes()[self.scanned..self.scanned + count];
            let back = self.scan.advance(bytes);
            self.check_spans();
            match back {
                None => self.consume(count),
                Some(offset) => self.go_back(offset),
            }
        }
        Ok(())
    }

    /// Moves past the rest of the record and its line end, and returns true. After a stray quote,
    /// goes back to the byte after the quote and returns false. `line` is the first line of the
    /// slice.
    fn pass_record_end(&mut self, line: u64) -> Result<bool, DatasetError> {
        let start = self.offset;
        loop {
            // Within quotes the scan itself has a limit.
            if self.offset.saturating_sub(start) > self.cutter.max_rest && !self.scan.is_quoted() {
                return err!(
                    "{}: a record that begins on line {line} or later does not end within {}; \
                     look for the line that is too long, or that has no end",
                    self.path.display(),
                    ByteSize(self.cutter.max_rest),
                );
            }
            let before = self.offset;
            let count = self.pending()?.len();
            if count == 0 {
                return Ok(true);
            }
            if self.offset < before {
                return Ok(false);
            }
            let bytes = &self.cutter.window.bytes()[self.scanned..self.scanned + count];
            let passed = self.scan.advance_to_record_end(bytes);
            self.check_spans();
            match passed {
                ScanStop::All => self.consume(count),
                ScanStop::Record(end) => {
                    self.consume(end);
                    self.pass_lf()?;
                    return Ok(true);
                }
                ScanStop::Back(offset) => {
                    self.go_back(offset);
                    return Ok(false);
                }
            }
        }
    }

    /// Checks whether the fields with line ends that the scan has passed are probably joined
    /// records.
    fn check_spans(&mut self) {
        let (Some(spans), Some(joined)) = (&mut self.scan.spans, &mut self.joined) else { return };
        let window = self.cutter.window.bytes();
        let window_start = self.offset.saturating_sub(self.scanned as u64);
        spans.drain(..).for_each(|span| joined.check(&span, window, window_start, &self.file));
    }

    /// Moves past the LF of a CRLF after its CR.
    fn pass_lf(&mut self) -> Result<(), DatasetError> {
        if self.scan.after_cr() && self.pending()?.first() == Some(&b'\n') {
            let back = self.scan.advance(b"\n");
            debug_assert_eq!(back, None, "a line end is outside of quotes");
            self.consume(1);
        }
        Ok(())
    }

    fn skip_bom(&mut self) -> Result<(), DatasetError> {
        self.refill()?;
        if self.cutter.window.bytes().starts_with(BOM) {
            self.consume(BOM.len());
        }
        Ok(())
    }

    /// Moves past lines without parsing them.
    fn skip_lines(&mut self, count: u32) -> Result<(), DatasetError> {
        let mut after_cr = false;
        while self.scan.lines < u64::from(count) || after_cr {
            if self.scanned == self.cutter.window.bytes().len() {
                self.refill()?;
            }
            let rest = &self.cutter.window.bytes()[self.scanned..];
            match rest.first() {
                None => break,
                Some(byte) if after_cr => {
                    self.consume(usize::from(*byte == b'\n'));
                    after_cr = false;
                    continue;
                }
                Some(_) => {}
            }
            let end = memchr2(b'\n', b'\r', rest);
            after_cr = end.is_some_and(|end| rest[end] == b'\r');
            let passed = end.map_or(rest.len(), |end| end + 1);
            self.scan.lines += u64::from(end.is_some());
            self.consume(passed);
        }
        Ok(())
    }

    fn read_header(&mut self) -> Result<(), DatasetError> {
        let start = self.offset;
        loop {
            let count = self.pending()?.len();
            // The scan may have gone back because of a stray quote.
            self.header.truncate(to_usize(self.offset - start));
            if count == 0 {
                break;
            }
            let bytes = &self.cutter.window.bytes()[self.scanned..self.scanned + count];
            let passed = self.scan.advance_to_record_end(bytes);
            let end = match passed {
                ScanStop::All => count,
                ScanStop::Record(end) => end,
                ScanStop::Back(offset) => to_usize(offset.saturating_sub(self.offset)),
            };
            self.header.extend_from_slice(&bytes[..end]);
            if let ScanStop::Back(offset) = passed {
                self.go_back(offset);
                continue;
            }
            self.consume(end);
            if passed != ScanStop::All {
                break;
            }
            if self.header.len() > MAX_HEADER && !self.scan.is_quoted() {
                let advice = match self.header.contains(&b'"') {
                    true => "look for a quote that is not closed in the first line",
                    false => {
                        "its first line is longer, or has no end: use fewer columns or shorter names"
                    }
                };
                return err!(
                    "{}: the header does not end within 1 MB; {advice}",
                    self.path.display()
                );
            }
        }
        self.pass_lf()
    }

    /// The bytes to scan next. At the end of the file, ends the last record and returns no bytes.
    fn pending(&mut self) -> Result<&[u8], DatasetError> {
        while self.scanned == self.cutter.window.bytes().len() {
            self.refill()?;
            if !self.cutter.window.bytes().is_empty() {
                break;
            }
            let back = self.scan.end_last_record();
            self.check_spans();
            let Some(offset) = back else { break };
            self.go_back(offset);
        }
        Ok(&self.cutter.window.bytes()[self.scanned..])
    }

    /// Marks this many more bytes as scanned.
    fn consume(&mut self, count: usize) {
        self.scanned += count;
        self.offset += count as u64;
    }

    /// Goes back to an offset that was passed. If it is before the window, the next [`Self::pending`] moves
    /// the window.
    fn go_back(&mut self, offset: u64) {
        let window_start = self.offset - self.scanned as u64;
        let scanned = offset.checked_sub(window_start).and_then(|at| usize::try_from(at).ok());
        self.scanned = scanned.unwrap_or(self.cutter.window.bytes().len());
        self.offset = offset;
    }

    /// Moves the window to the first byte that is not scanned.
    fn refill(&mut self) -> Result<(), DatasetError> {
        self.scanned = 0;
        match self.cutter.window.move_to(&self.file, self.offset) {
            Ok(()) => Ok(()),
            Err(error) => err!("cannot read {}: {error}", self.path.display()),
        }
    }
}
