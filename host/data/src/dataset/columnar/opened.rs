//! Opens a Parquet file: reads its footer and checks it.

use super::file_reader::FileReader;
use super::footer::{Footer, encrypted_leaves};
use super::nesting::check_nesting;
use super::repair::{is_impossible_dictionary, leaves_out_headers, repair};
use super::stored;
use crate::dataset::{DatasetError, err};
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
/// The first and the last bytes of a file whose footer is encrypted.
const ENCRYPTED_MAGIC: &[u8] = b"PARE";
/// The maximum length of a footer. In memory, a footer takes several times as much.
const MAX_FOOTER_BYTES: u64 = 64 << 20;
/// The maximum number of rows in a row group, because Arrow counts with 32 bits.
const MAX_ROWS: i64 = i32::MAX as i64;
/// The bytes after the footer: its length, and the magic.
const TRAILER_BYTES: u64 = 8;

/// A file and its footer.
#[derive(Debug)]
pub(super) struct OpenedFile {
    /// The file. If we repaired the footer, the new footer follows the original end of the file.
    pub(super) file: FileReader,
    /// The footer. Its columns have the types that the `parquet` crate reads.
    pub(super) footer: ArrowReaderMetadata,
    /// The columns, with their types after 96-bit times and intervals are converted.
    pub(super) schema: SchemaRef,
    /// The leaf columns that are encrypted.
    pub(super) encrypted: Vec<usize>,
}

/// Reads the footer. Fails if it is missing, wrong or encrypted.
pub(super) fn open(file: FileReader) -> Result<OpenedFile, DatasetError> {
    let bytes = footer_bytes(&file)?;
    check_nesting(&bytes)?;
    let length = file.length();
    let encrypted = encrypted_leaves(&bytes).unwrap_or_default();
    let opened = match load(&file) {
        Ok(footer) if !needs_repair(&footer) => {
            let schema = Arc::clone(footer.schema());
            OpenedFile { file, footer, schema, encrypted }
        }
        Err(_) if !encrypted.is_empty() => {
            return err!(
                "has encrypted columns, which cannot be read; write it without encryption"
            );
        }
        loaded => {
            let (file, footer, schema) = repaired(&file, &bytes, loaded.err())?;
            OpenedFile { file, footer, schema, encrypted }
        }
    };
    check_counts(opened.footer.metadata(), length)?;
    Ok(opened)
}

/// Reads the footer with the `parquet` crate.
fn load(file: &FileReader) -> Result<ArrowReaderMetadata, ParquetError> {
    let options = ArrowReaderOptions::new()
        .with_page_index_policy(PageIndexPolicy::Skip)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
    ArrowReaderMetadata::load(file, options)
}

/// Whether a footer holds something that the `parquet` crate would misread.
fn needs_repair(footer: &ArrowReaderMetadata) -> bool {
    let metadata = footer.metadata();
    let schema = footer.parquet_schema();
    let file_metadata = metadata.file_metadata();
    let groups = metadata.row_groups();
    let has_wrapped_types = schema.columns().iter().any(|column| {
        column.physical_type() == Type::INT96 || column.converted_type() == ConvertedType::INTERVAL
    });
    let chunks = || groups.iter().flat_map(RowGroupMetaData::columns);
    has_wrapped_types
        || footer.schema().fields().len() != schema.root_schema().get_fields().len()
        || file_metadata.num_rows() == 0 && groups.iter().any(|group| group.num_rows() > 0)
        || file_metadata.created_by().is_some_and(|by| leaves_out_headers(by.as_bytes()))
        || chunks().any(|chunk| {
            let dictionary = chunk.dictionary_page_offset();
            dictionary
                .is_some_and(|offset| is_impossible_dictionary(offset, chunk.data_page_offset()))
        })
}

/// Repairs the footer. Returns the file with a footer that the `parquet` crate reads correctly,
/// that footer, and the columns, with their types after 96-bit times and intervals are converted.
/// If the footer cannot be repaired, fails with `first_error`, the crate's error for the original
/// footer.
fn repaired(
    file: &FileReader,
    bytes: &[u8],
    first_error: Option<ParquetError>,
) -> Result<(FileReader, ArrowReaderMetadata, SchemaRef), DatasetError> {
    let footer_start = file.length().saturating_sub(TRAILER_BYTES + bytes.len() as u64);
    let Some(original) = Footer::read(bytes) else {
        let reason =
            first_error.map_or_else(|| "it ends too early".to_owned(), |error| error_text(&error));
        return err!("has a footer that cannot be read: {reason}");
    };
    let repaired = |as_stored| {
        let mut footer = original.clone();
        repair(&mut footer, footer_start, as_stored);
        let mut tail = footer.write();
        // Fits in 32 bits: the new footer is about as long as the old one, which is short.
        tail.extend(count_u32(tail.len()).to_le_bytes());
        tail.extend(MAGIC);
        let file = file.with_tail(tail);
        load(&file).map(|footer| (file, footer))
    };
    let both = repaired(true).and_then(|stored| Ok((stored, repaired(false)?.1)));
    let ((file, footer), library_footer) = match both {
        Ok(both) => both,
        Err(error) => {
            let error = first_error.unwrap_or(error);
            return err!("has a footer that cannot be read: {}", error_text(&error));
        }
    };
    let pairs = library_footer.metadata().file_metadata().key_value_metadata();
    let has_arrow_schema =
        pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == ARROW_SCHEMA_META_KEY));
    let fields = stored::output_fields(
        footer.schema().fields(),
        library_footer.schema().fields(),
        has_arrow_schema,
    );
    let schema = Schema::new_with_metadata(fields, library_footer.schema().metadata().clone());
    Ok((file, footer, Arc::new(schema)))
}

/// The bytes of the footer. Fails if the file does not begin and end as Parquet.
fn footer_bytes(file: &FileReader) -> Result<Vec<u8>, DatasetError> {
    let length = file.length();
    let first_magic = file.peek(0, 4)?;
    let trailer = file.peek(length.saturating_sub(TRAILER_BYTES), TRAILER_BYTES)?;
    let (length_bytes, last_magic) = trailer.split_at(trailer.len().saturating_sub(4));
    if first_magic == ENCRYPTED_MAGIC || last_magic == ENCRYPTED_MAGIC {
        return err!("has an encrypted footer, which cannot be read; write it without encryption");
    }
    if first_magic != MAGIC {
        return err!(
            "is not a Parquet file: it does not begin with PAR1; correct the key `format`, or leave the file \
             out with a glob"
        );
    }
    if last_magic != MAGIC || length_bytes.len() < 4 || length < 12 {
        return err!("is cut off or broken: a Parquet file ends with PAR1, but this file does not");
    }
    let footer_length =
        length_bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    if footer_length.saturating_add(12) > length {
        return err!(
            "is cut off or broken: its footer claims {footer_length} bytes, and the file has {length}"
        );
    }
    if footer_length > MAX_FOOTER_BYTES {
        return err!(
            "has a footer of {footer_length} bytes, and at most {MAX_FOOTER_BYTES} can be read; write it \
             with larger row groups, or in several files"
        );
    }
    file.bytes(length - TRAILER_BYTES - footer_length, footer_length)
}

/// Fails if the footer's counts and offsets are impossible or contradictory. `length` is the length of the
/// file, in bytes.
fn check_counts(metadata: &ParquetMetaData, length: u64) -> Result<(), DatasetError> {
    let mut rows = 0_i64;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        check_group(group, length).map_err(|DatasetError(problem)| {
            DatasetError(format!("is cut off or broken: row group {number} {problem}"))
        })?;
        rows = rows.saturating_add(group.num_rows());
    }
    let stated = metadata.file_metadata().num_rows();
    if stated != rows {
        return err!(
            "is broken: its footer says {stated} rows, and its row groups have {rows}; write the file again"
        );
    }
    Ok(())
}

/// Fails if the rows or offsets of a row group are impossible. The error continues a sentence that begins
/// with the row group.
fn check_group(group: &RowGroupMetaData, length: u64) -> Result<(), DatasetError> {
    let rows = group.num_rows();
    if !(0..=MAX_ROWS).contains(&rows) {
        return err!("claims {rows} rows, and at most {MAX_ROWS} can be read");
    }
    for column in group.columns() {
        let name = || column.column_path().string();
        if let Some(file) = column.file_path() {
            return err!(
                "keeps column '{}' in another file ({file:?}); name the files that hold the rows",
                name(),
            );
        }
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let end = end.and_then(|end| u64::try_from(end).ok());
        if start < 0 || column.compressed_size() < 0 || end.is_none_or(|end| end > length) {
            return err!(
                "claims column '{}' at offset {start} with {} bytes, and the file has {length}",
                name(),
                column.compressed_size(),
            );
        }
        // A list has at least one value in each row.
        let is_list = column.column_descr().max_rep_level() > 0;
        let values = column.num_values();
        if values < rows || values > rows && !is_list {
            return err!("has {rows} rows, and {values} values of column '{}'", name());
        }
    }
    Ok(())
}

/// The message of an error, without the kind of error at its beginning.
pub(super) fn error_text(error: &ParquetError) -> String {
    match error {
        ParquetError::General(text)
        | ParquetError::NYI(text)
        | ParquetError::EOF(text)
        | ParquetError::ArrowError(text) => text.clone(),
        other => other.to_string(),
    }
}
