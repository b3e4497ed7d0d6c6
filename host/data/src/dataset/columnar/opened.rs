//! Opens a Parquet file: reads its footer and checks it.

use super::file_reader::FileReader;
use super::footer::{Footer, encrypted};
use super::nesting::check_nesting;
use super::repair::{is_impossible_dictionary, leaves_out_headers, repair};
use super::stored;
use crate::dataset::{DatasetError, fail};
use crate::model::count_u32;
use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{ConvertedType, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaData, ParquetStatisticsPolicy, RowGroupMetaData,
};
use std::sync::Arc;

/// The first and the last bytes of a file.
const MAGIC: &[u8] = b"PAR1";
/// The same if the footer is encrypted.
const ENCRYPTED: &[u8] = b"PARE";
/// The maximum length of a footer, in bytes: in memory it takes several times as much.
const MAX_FOOTER: u64 = 64 << 20;
/// The maximum number of rows in a row group, because Arrow counts with 32 bits.
const MAX_ROWS: i64 = i32::MAX as i64;
/// The bytes after the footer: its length, and the magic.
const TRAILER: u64 = 8;

/// A file and its footer.
#[derive(Debug)]
pub(super) struct OpenedFile {
    /// The file. If the footer had to be repaired, the new one follows the end of the file.
    pub(super) at: FileReader,
    /// The footer, with columns in the form in which the library reads them.
    pub(super) footer: ArrowReaderMetadata,
    /// The columns in the form in which they are passed on.
    pub(super) schema: SchemaRef,
    /// The leaf columns that are encrypted.
    pub(super) encrypted: Vec<usize>,
}

/// Reads the footer. Fails if it is missing, wrong or encrypted.
pub(super) fn open(at: FileReader) -> Result<OpenedFile, DatasetError> {
    let bytes = footer_bytes(&at)?;
    check_nesting(&bytes)?;
    let length = at.length();
    let encrypted = encrypted(&bytes).unwrap_or_default();
    let opened = match load(&at) {
        Ok(footer) if !is_odd(&footer) => {
            let schema = Arc::clone(footer.schema());
            OpenedFile { at, footer, schema, encrypted }
        }
        Err(_) if !encrypted.is_empty() => {
            return fail!(
                "has encrypted columns, which cannot be read; write it without encryption"
            );
        }
        loaded => {
            let (at, footer, schema) = repaired(&at, &bytes, loaded.err())?;
            OpenedFile { at, footer, schema, encrypted }
        }
    };
    check_counts(opened.footer.metadata(), length)?;
    Ok(opened)
}

fn load(at: &FileReader) -> Result<ArrowReaderMetadata, ParquetError> {
    let options = ArrowReaderOptions::new()
        .with_page_index_policy(PageIndexPolicy::Skip)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
    ArrowReaderMetadata::load(at, options)
}

/// Whether a footer holds something that the library would misread.
fn is_odd(footer: &ArrowReaderMetadata) -> bool {
    let metadata = footer.metadata();
    let schema = footer.parquet_schema();
    let file = metadata.file_metadata();
    let groups = metadata.row_groups();
    let is_stored_otherwise = schema.columns().iter().any(|column| {
        column.physical_type() == Type::INT96 || column.converted_type() == ConvertedType::INTERVAL
    });
    let chunks = || groups.iter().flat_map(RowGroupMetaData::columns);
    is_stored_otherwise
        || footer.schema().fields().len() != schema.root_schema().get_fields().len()
        || file.num_rows() == 0 && groups.iter().any(|group| group.num_rows() > 0)
        || file.created_by().is_some_and(|by| leaves_out_headers(by.as_bytes()))
        || chunks().any(|chunk| {
            let dictionary = chunk.dictionary_page_offset();
            dictionary.is_some_and(|at| is_impossible_dictionary(at, chunk.data_page_offset()))
        })
}

/// Repairs the footer. Returns the file with a footer that the library reads as it was meant, and the columns
/// in the form in which they are passed on. If the footer cannot be repaired, it fails with the library's
/// first error.
fn repaired(
    at: &FileReader,
    bytes: &[u8],
    first_error: Option<ParquetError>,
) -> Result<(FileReader, ArrowReaderMetadata, SchemaRef), DatasetError> {
    let end = at.length().saturating_sub(TRAILER + bytes.len() as u64);
    let Some(read) = Footer::read(bytes) else {
        let reason =
            first_error.map_or_else(|| "it ends too early".to_owned(), |error| error_text(&error));
        return fail!("has a footer that cannot be read: {reason}");
    };
    let with = |as_stored| {
        let mut footer = read.clone();
        repair(&mut footer, end, as_stored);
        let mut tail = footer.write();
        // Fits in 32 bits: it is about as long as the old footer, which is short.
        tail.extend(count_u32(tail.len()).to_le_bytes());
        tail.extend(MAGIC);
        let at = at.with_tail(tail);
        load(&at).map(|footer| (at, footer))
    };
    let both = with(true).and_then(|stored| Ok((stored, with(false)?.1)));
    let ((at, footer), meant) = match both {
        Ok(both) => both,
        Err(error) => {
            let error = first_error.unwrap_or(error);
            return fail!("has a footer that cannot be read: {}", error_text(&error));
        }
    };
    let pairs = meant.metadata().file_metadata().key_value_metadata();
    let has_arrow = pairs.is_some_and(|all| all.iter().any(|it| it.key == ARROW_SCHEMA_META_KEY));
    let fields = stored::meant(footer.schema().fields(), meant.schema().fields(), has_arrow);
    let schema = Schema::new_with_metadata(fields, meant.schema().metadata().clone());
    Ok((at, footer, Arc::new(schema)))
}

/// The bytes of the footer. Fails if the file does not begin and end as Parquet.
fn footer_bytes(at: &FileReader) -> Result<Vec<u8>, DatasetError> {
    let begin = at.peek(0, 4)?;
    let end = at.peek(at.length().saturating_sub(TRAILER), TRAILER)?;
    let (tail, magic) = end.split_at(end.len().saturating_sub(4));
    if begin == ENCRYPTED || magic == ENCRYPTED {
        return fail!("has an encrypted footer, which cannot be read; write it without encryption");
    }
    if begin != MAGIC {
        return fail!(
            "is not a Parquet file: it does not begin with PAR1; correct format, or leave the file out \
             by a glob"
        );
    }
    if magic != MAGIC || tail.len() < 4 || at.length() < 12 {
        return fail!("is cut off or broken: a Parquet file ends with PAR1, and it does not");
    }
    let footer = tail.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    if footer.saturating_add(12) > at.length() {
        return fail!(
            "is cut off or broken: its footer claims {footer} bytes, and the file has {}",
            at.length(),
        );
    }
    if footer > MAX_FOOTER {
        return fail!(
            "has a footer of {footer} bytes, and at most {MAX_FOOTER} are read; write it with larger \
             row groups, or in several files"
        );
    }
    at.bytes(at.length() - TRAILER - footer, footer)
}

/// Fails if the footer's counts and offsets are impossible or contradictory. `length` is that of the file, in
/// bytes.
fn check_counts(metadata: &ParquetMetaData, length: u64) -> Result<(), DatasetError> {
    let mut rows = 0_i64;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        check_group(group, length).map_err(|DatasetError(what)| {
            DatasetError(format!("is cut off or broken: row group {number} {what}"))
        })?;
        rows = rows.saturating_add(group.num_rows());
    }
    let stated = metadata.file_metadata().num_rows();
    if stated != rows {
        return fail!(
            "is broken: its footer says {stated} rows, and its row groups have {rows}; write it anew"
        );
    }
    Ok(())
}

/// Fails, with what is wrong, if the rows or offsets of a row group are impossible.
fn check_group(group: &RowGroupMetaData, length: u64) -> Result<(), DatasetError> {
    let rows = group.num_rows();
    if !(0..=MAX_ROWS).contains(&rows) {
        return fail!("claims {rows} rows, and at most {MAX_ROWS} can be read");
    }
    for column in group.columns() {
        let name = || column.column_path().string();
        if let Some(file) = column.file_path() {
            return fail!(
                "keeps column '{}' in another file ({file:?}); name the files with the rows",
                name(),
            );
        }
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let end = end.and_then(|end| u64::try_from(end).ok());
        if start < 0 || column.compressed_size() < 0 || end.is_none_or(|end| end > length) {
            return fail!(
                "claims column '{}' at {start}, of {} bytes, and the file has {length}",
                name(),
                column.compressed_size(),
            );
        }
        // A list has at least one value in each row.
        let is_list = column.column_descr().max_rep_level() > 0;
        let values = column.num_values();
        if values < rows || values > rows && !is_list {
            return fail!("has {rows} rows, and {values} values of column '{}'", name());
        }
    }
    Ok(())
}

/// The message of an error, without the kind that it begins with.
pub(super) fn error_text(error: &ParquetError) -> String {
    match error {
        ParquetError::General(text)
        | ParquetError::NYI(text)
        | ParquetError::EOF(text)
        | ParquetError::ArrowError(text) => text.clone(),
        other => other.to_string(),
    }
}
