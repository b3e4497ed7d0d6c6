//! Cuts one CSV file into slices, in one pass.

use super::header::read_names;
use super::scan::Scan;
use super::window::Window;
use crate::dataset::{DatasetError, fail};
use crate::model::{ByteSize, CsvFormat, SliceSize, TextSlice};
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The longest slice, in bytes. A worker holds a slice in memory, and Arrow's text columns count
/// with 32 bits.
pub const MAX_SLICE: u64 = 1 << 30;
/// How far the last record of a slice may reach beyond the slice's size, in bytes; more is a quote
/// that was left open.
const MAX_REST: u64 = MAX_SLICE / 2;
/// The longest header, in bytes; more is a quote that was left open.
const MAX_HEADER: usize = 1 << 20;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Cuts files into slices, one file after the other. Keeps its buffer in between.
#[derive(Debug)]
pub struct Cutter {
    /// None for lines, which hold no fields.
    delimiter: Option<u8>,
    header: bool,
    size: SliceSize,
    /// [`MAX_REST`] and [`MAX_SLICE`]; less in tests, which would take long.
    pub(super) max_rest: u64,
    pub(super) max_slice: u64,
    window: Window,
}

/// A file that is being cut.
#[derive(Debug)]
pub struct CutFile<'a> {
    cutter: &'a mut Cutter,
    file: File,
    path: PathBuf,
    name: String,
    unpacked: Option<String>,
    scan: Scan,
    /// How many bytes of the window were scanned.
    at: usize,
    /// Where the byte at `at` lies in the file.
    offset: u64,
    header: Vec<u8>,
}

impl Cutter {
    /// Makes slices of that size, which is at least 1.
    pub fn new(format: &CsvFormat, size: SliceSize) -> Self {
        Self {
            delimiter: Some(format.delimiter),
            header: format.header,
            size,
            max_rest: MAX_REST,
            max_slice: MAX_SLICE,
            window: Window::default(),
        }
    }

    /// Makes slices of that size of text where each line is a record, and none is a header.
    pub fn of_lines(size: SliceSize) -> Self {
        let format = CsvFormat { header: false, ..CsvFormat::default() };
        Self { delimiter: None, ..Self::new(&format, size) }
    }

    /// Cuts otherwise from now on, with the buffer that is there.
    #[cfg(any(test, fuzzing))]
    pub fn begin(&mut self, format: &CsvFormat, size: SliceSize) {
        let window = std::mem::take(&mut self.window);
        *self = Self { window, ..Self::new(format, size) };
    }

    /// Opens the file `name` below `root` and reads its header, if it should have one. Fails if
    /// the file cannot be read or the header never ends.
    pub fn open(&mut self, root: &Path, name: String) -> Result<CutFile<'_>, DatasetError> {
        let path = root.join(&name);
        let file = open_file(&path)?;
        self.open_text(file, path, name, None)
    }

    /// As [`Self::open`], of an opened text; `path` and `name` are those of the file that it is, or
    /// that it was `unpacked` from, to a file of that name.
    pub(in crate::dataset) fn open_text(
        &mut self,
        file: File,
        path: PathBuf,
        name: String,
        unpacked: Option<String>,
    ) -> Result<CutFile<'_>, DatasetError> {
        let scan = self.delimiter.map_or_else(Scan::of_lines, Scan::new);
        let mut opened = CutFile {
            cutter: self,
            file,
            path,
            name,
            unpacked,
            scan,
            at: 0,
            offset: 0,
            header: Vec::new(),
        };
        opened.skip_bom()?;
        if opened.cutter.header {
            opened.read_header()?;
        }
        Ok(opened)
    }
}

/// Opens a file to read it. Something else that has taken the file's name since it was listed, a
/// fifo say, does not block.
pub fn open_file(path: &Path) -> Result<File, DatasetError> {
    match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => Ok(file),
        Err(error) => fail!("cannot open {}: {error}", path.display()),
    }
}

impl CutFile<'_> {
    /// The header's bytes as they are, without BOM; empty if the file has none.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The header's names: one for each column, `column_N` (from 0) for an empty one. Fails on
    /// names that occur twice.
    pub fn names(&self) -> Result<Vec<String>, DatasetError> {
        read_names(&self.header, self.cutter.delimiter.unwrap_or(b','), &self.path)
    }

    /// The file's path on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text's first bytes without BOM, at most so many, and whether these are all. Before the first slice alone.
    pub fn start(&self, most: usize) -> (&[u8], bool) {
        let bytes = &self.cutter.window.bytes()[self.at..];
        let length = self.file.metadata().map_or(u64::MAX, |metadata| metadata.len());
        let is_all = self.offset + bytes.len() as u64 == length && bytes.len() <= most;
        (&bytes[..bytes.len().min(most)], is_all)
    }

    /// Whether the text was packed in its file.
    pub fn is_unpacked(&self) -> bool {
        self.unpacked.is_some()
    }

    /// What the file system says of the file that was opened, as it lies in the input.
    pub fn metadata(&self) -> Result<Metadata, DatasetError> {
        let metadata = match self.unpacked {
            Some(_) => std::fs::metadata(&self.path),
            None => self.file.metadata(),
        };
        match metadata {
            Ok(metadata) => Ok(metadata),
            Err(error) => fail!("cannot look at {}: {error}", self.path.display()),
        }
    }

    /// The next slice; its bounds are record boundaries, and it holds at least one record. Slices
    /// follow each other without gaps. `None` at the end.
    pub fn next_slice(&mut self) -> Result<Option<TextSlice>, DatasetError> {
        // Nobody knows how long the slice before took to be wanted.
        if self.cutter.window.is_forgotten() {
            self.at = 0;
        }
        let (offset, first_line) = (self.offset, self.scan.lines + 1);
        let records = self.scan.records;
        match self.cutter.size {
            SliceSize::Bytes(bytes) => self.pass_size(bytes, first_line)?,
            SliceSize::Rows(rows) => self.pass_rows(rows.max(1), first_line)?,
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

    /// Whether the file ended inside a quoted field; known when [`Self::next_slice`] gave `None`.
    pub fn ends_quoted(&self) -> bool {
        self.scan.left_open
    }

    /// Passes records of about so many bytes, or all that are left. `line` is the first of the slice.
    fn pass_size(&mut self, bytes: u64, line: u64) -> Result<(), DatasetError> {
        let records = self.scan.records;
        self.pass_bytes(bytes.clamp(1, self.cutter.max_slice))?;
        if self.scan.after_cr() {
            self.pass_lf()?;
        }
        let started = self.scan.records > records && self.scan.at_record_start();
        if started { Ok(()) } else { self.pass_record_end(line) }
    }

    /// Passes so many records, or all that are left. Fails if no worker could hold them. `line` is
    /// the first of the slice.
    fn pass_rows(&mut self, rows: u64, line: u64) -> Result<(), DatasetError> {
        let (start, first) = (self.offset, self.scan.records);
        while self.scan.records - first < rows {
            let before = self.scan.records;
            self.pass_record_end(self.scan.lines + 1)?;
            let passed = self.scan.records - first;
            if self.scan.records == before {
                break;
            }
            if self.offset - start > self.cutter.max_slice {
                return fail!(
                    "{}: mini_batch_size is {}, and the first {passed} of those from line {line} \
                     on take more than {}, the most that a mini-batch can take, as a worker holds it \
                     in memory; write fewer, such as mini_batch_size: \"{}\", or a size in bytes",
                    self.path.display(),
                    SliceSize::Rows(rows),
                    ByteSize(self.cutter.max_slice),
                    SliceSize::Rows((passed / 2).max(1)),
                );
            }
        }
        Ok(())
    }

    /// Passes so many bytes, or all that are left.
    fn pass_bytes(&mut self, mut left: u64) -> Result<(), DatasetError> {
        while left > 0 {
            let bytes = self.pending()?;
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.scan.advance(&self.cutter.window.bytes()[self.at..self.at + count]);
            self.consume(count);
            left -= count as u64;
        }
        Ok(())
    }

    /// Passes the rest of the record and its line end. `line` is the first of the slice.
    fn pass_record_end(&mut self, line: u64) -> Result<(), DatasetError> {
        let start = self.offset;
        loop {
            if self.offset - start > self.cutter.max_rest {
                return fail!(
                    "{}: a record that begins on line {line} or later does not end within {}; \
                     look for a quote that is not closed",
                    self.path.display(),
                    ByteSize(self.cutter.max_rest),
                );
            }
            let count = self.pending()?.len();
            if count == 0 {
                return Ok(());
            }
            let bytes = &self.cutter.window.bytes()[self.at..self.at + count];
            match self.scan.advance_to_record_end(bytes) {
                None => self.consume(count),
                Some(end) => {
                    self.consume(end);
                    return self.pass_lf();
                }
            }
        }
    }

    /// Passes the LF of a CRLF whose CR was passed.
    fn pass_lf(&mut self) -> Result<(), DatasetError> {
        if self.scan.after_cr() && self.pending()?.first() == Some(&b'\n') {
            self.scan.advance(b"\n");
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

    fn read_header(&mut self) -> Result<(), DatasetError> {
        loop {
            let count = self.pending()?.len();
            if count == 0 {
                break;
            }
            let bytes = &self.cutter.window.bytes()[self.at..self.at + count];
            let end = self.scan.advance_to_record_end(bytes);
            self.header.extend_from_slice(&bytes[..end.unwrap_or(count)]);
            self.consume(end.unwrap_or(count));
            if end.is_some() {
                break;
            }
            if self.header.len() > MAX_HEADER {
                let advice = match self.header.contains(&b'"') {
                    true => "look for a quote that is not closed in the first line",
                    false => "its line ends later, or nowhere: use fewer columns or shorter names",
                };
                return fail!(
                    "{}: the header does not end within 1 MB; {advice}",
                    self.path.display()
                );
            }
        }
        self.pass_lf()
    }

    /// Bytes to be scanned; empty at the file's end, where the last record is ended.
    fn pending(&mut self) -> Result<&[u8], DatasetError> {
        if self.at == self.cutter.window.bytes().len() {
            self.refill()?;
            if self.cutter.window.bytes().is_empty() {
                self.scan.finish();
            }
        }
        Ok(&self.cutter.window.bytes()[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
        self.offset += count as u64;
    }

    fn refill(&mut self) -> Result<(), DatasetError> {
        self.at = 0;
        match self.cutter.window.move_to(&self.file, self.offset) {
            Ok(()) => Ok(()),
            Err(error) => fail!("cannot read {}: {error}", self.path.display()),
        }
    }
}
