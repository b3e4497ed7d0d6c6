//! Corrects data pages of version 2 that claim to be uncompressed and are not. One program wrote all its
//! pages like this. Other readers recognize it by its name, and so do we.

use super::file_reader::{BytePatch, FileReader};
use super::repair::version_of;
use super::thrift::{I32, MAX_DEPTH, STRUCT, ThriftScan};
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

/// The program that wrote such pages in its versions before 2.
const PROGRAM: &[u8] = b"parquet-cpp";
/// The field types of a boolean in Thrift's compact protocol: the type is the value.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
/// Numbers of fields: the length of a page in its header, the header of a data page of version 2, and in that
/// one the compression flag.
const LENGTH: i64 = 3;
const DATA_PAGE_V2: i64 = 8;
const IS_COMPRESSED: i64 = 7;
/// How many bytes are first read for the header of a page, and the maximum.
const HEADER: u64 = 1 << 10;
const MAX_HEADER: u64 = 16 << 20;

/// Whether a file was written by a program that wrote such pages.
pub(super) fn writes_wrong_flags(created_by: &str) -> bool {
    version_of(created_by.as_bytes(), PROGRAM).is_some_and(|version| version < (2, 0, 0))
}

/// The bytes that mark the pages of a column as compressed. Pages that cannot be read are left to the
/// decoder, which reports them.
pub(super) fn changes(at: &FileReader, column: &ColumnChunkMetaData) -> Vec<BytePatch> {
    let mut changes = Vec::new();
    if column.compression() == Compression::UNCOMPRESSED {
        return changes;
    }
    let (mut next, length) = column.byte_range();
    let end = next.saturating_add(length);
    while next < end
        && let Some(header) = PageHeader::at(at, next)
    {
        changes.extend(header.flag);
        next = header.end;
    }
    changes
}

/// The header of a page.
#[derive(Debug, Default)]
struct PageHeader {
    /// The change that marks the page as compressed. `None` if its header does not claim otherwise.
    flag: Option<BytePatch>,
    /// The offset in the file at which the page ends.
    end: u64,
}

impl PageHeader {
    /// The header at byte `start` of a file, or `None` if it cannot be read.
    fn at(at: &FileReader, start: u64) -> Option<Self> {
        let mut wanted = HEADER;
        loop {
            let bytes = at.peek(start, wanted).ok()?;
            if let Some(header) = Self::read(&bytes, start) {
                return Some(header);
            }
            if (bytes.len() as u64) < wanted || wanted >= MAX_HEADER {
                return None;
            }
            wanted *= 8;
        }
    }

    /// Reads a header that begins at byte `start` of its file. `None` if `bytes` end before the header does.
    fn read(bytes: &[u8], start: u64) -> Option<Self> {
        let mut header = Self::default();
        let mut scan = ThriftScan(bytes);
        let mut packed = None;
        scan.fields(|scan, id, kind| {
            match (id, kind) {
                (LENGTH, I32) => packed = u64::try_from(scan.int()?).ok(),
                (DATA_PAGE_V2, STRUCT) => {
                    let place = (bytes.len() - scan.0.len()) as u64;
                    header.read_flag(scan, start + place)?;
                }
                _ => return Some(false),
            }
            Some(true)
        })?;
        let length = (bytes.len() - scan.0.len()) as u64;
        header.end = (start + length).checked_add(packed?)?;
        Some(header)
    }

    /// Reads the header of a data page of version 2, which begins at byte `start` of the file.
    fn read_flag(&mut self, scan: &mut ThriftScan<'_>, start: u64) -> Option<()> {
        let whole = scan.0;
        let mut id = 0;
        loop {
            let place = whole.len() - scan.0.len();
            let Some(kind) = scan.field(&mut id)? else { return Some(()) };
            if (id, kind) == (IS_COMPRESSED, FALSE) {
                let byte = whole[place] & 0xf0 | TRUE;
                self.flag = Some(BytePatch { at: start + place as u64, byte });
            }
            scan.skip(kind, MAX_DEPTH)?;
        }
    }
}
