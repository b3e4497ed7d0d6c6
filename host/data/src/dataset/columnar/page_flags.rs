//! Corrects data pages of version 2 that claim to be uncompressed although they are compressed. One
//! program wrote all its pages like this. We recognize the program by its name, as other readers
//! do.

use super::file_reader::{BytePatch, FileReader};
use super::repair::version_of;
use super::thrift::{I32, MAX_DEPTH, STRUCT, ThriftScan};
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

/// The program that wrote such pages in its versions before 2.
const PROGRAM: &[u8] = b"parquet-cpp";
/// The field types of a boolean in Thrift's compact protocol. In that protocol, the type also gives
/// the value.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
/// Field numbers of Parquet's `PageHeader`.
const COMPRESSED_PAGE_SIZE: i64 = 3;
const DATA_PAGE_HEADER_V2: i64 = 8;
/// A field number of Parquet's `DataPageHeaderV2`.
const IS_COMPRESSED: i64 = 7;
/// How many bytes are read first for the header of a page.
const FIRST_READ_BYTES: u64 = 1 << 10;
/// The maximum length of the header of a page.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// Whether the program that wrote a file marked compressed pages as uncompressed.
pub(super) fn writes_wrong_flags(created_by: &str) -> bool {
    version_of(created_by.as_bytes(), PROGRAM).is_some_and(|version| version < (2, 0, 0))
}

/// The patches that mark the pages of a column as compressed. Ignores pages that cannot be read: the decoder
/// reports them.
pub(super) fn patches(file: &FileReader, column: &ColumnChunkMetaData) -> Vec<BytePatch> {
    let mut patches = Vec::new();
    if column.compression() == Compression::UNCOMPRESSED {
        return patches;
    }
    let (mut next, length) = column.byte_range();
    let end = next.saturating_add(length);
    while next < end
        && let Some(header) = PageHeader::read(file, next)
    {
        patches.extend(header.patch);
        next = header.page_end;
    }
    patches
}

#[derive(Debug, Default)]
struct PageHeader {
    /// The patch that marks the page as compressed. `None` if the header does not say "uncompressed".
    patch: Option<BytePatch>,
    /// The offset in the file at which the page ends.
    page_end: u64,
}

impl PageHeader {
    /// Reads the header at offset `start` of a file. `None` if that is not possible.
    fn read(file: &FileReader, start: u64) -> Option<Self> {
        let mut wanted = FIRST_READ_BYTES;
        loop {
            let bytes = file.peek(start, wanted).ok()?;
            if let Some(header) = Self::parse(&bytes, start) {
                return Some(header);
            }
            if (bytes.len() as u64) < wanted || wanted >= MAX_HEADER_BYTES {
                return None;
            }
            wanted *= 8;
        }
    }

    /// Parses a header that begins at offset `start` of its file. `None` if `bytes` end before the header
    /// does, or if the header is broken.
    fn parse(bytes: &[u8], start: u64) -> Option<Self> {
        let mut header = Self::default();
        let mut scan = ThriftScan(bytes);
        let mut page_bytes = None;
        scan.fields(|scan, id, kind| {
            match (id, kind) {
                (COMPRESSED_PAGE_SIZE, I32) => page_bytes = u64::try_from(scan.int()?).ok(),
                (DATA_PAGE_HEADER_V2, STRUCT) => {
                    let passed = (bytes.len() - scan.0.len()) as u64;
                    header.parse_flag(scan, start + passed)?;
                }
                _ => return Some(false),
            }
            Some(true)
        })?;
        let header_bytes = (bytes.len() - scan.0.len()) as u64;
        header.page_end = (start + header_bytes).checked_add(page_bytes?)?;
        Some(header)
    }

    /// Parses a `DataPageHeaderV2`, which begins at offset `start` of the file.
    fn parse_flag(&mut self, scan: &mut ThriftScan<'_>, start: u64) -> Option<()> {
        let whole = scan.0;
        let mut id = 0;
        loop {
            let passed = whole.len() - scan.0.len();
            let Some(kind) = scan.field(&mut id)? else { return Some(()) };
            if (id, kind) == (IS_COMPRESSED, FALSE) {
                let byte = whole[passed] & 0xf0 | TRUE;
                self.patch = Some(BytePatch { offset: start + passed as u64, byte });
            }
            scan.skip(kind, MAX_DEPTH)?;
        }
    }
}
