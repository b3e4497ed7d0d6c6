//! Finds the messages of Arrow IPC in a file with a footer or in a stream. Reads their metadata but
//! not their bodies.

use super::file_reader::FileReader;
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, err};
use crate::model::to_usize;
use arrow::datatypes::Schema;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::{Block, Message, MessageHeader, root_as_footer, root_as_message};

/// The first and the last bytes of a file with a footer.
const MAGIC: &[u8] = b"ARROW1";
/// The bytes after the footer: its length, and the magic.
const TRAILER_BYTES: u64 = 10;
/// The continuation marker: the first bytes of a message, before its length. Older writers leave it out.
const CONTINUATION: &[u8] = &[0xFF; 4];
/// The maximum length of a message's metadata, and of a footer, in bytes.
pub(super) const MAX_METADATA: u64 = 64 << 20;
/// How many bytes of a message are read first: the metadata of most messages is shorter.
const FIRST_READ_BYTES: u64 = 4 << 10;
/// The maximum number of rows in a record batch, because Arrow counts with 32 bits.
const MAX_ROWS: u64 = i32::MAX as u64;
/// The maximum number of zero bytes after the end of a stream: some writers pad the file.
const MAX_PADDING_BYTES: u64 = 64;

/// Where a message with data is: a record batch or a dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataMessage {
    /// Where it begins in the file.
    pub(super) offset: u64,
    /// The number of bytes before its body: the continuation marker, a length, and the metadata.
    pub(super) metadata_bytes: u64,
    pub(super) body_bytes: u64,
    /// Whether it is a record batch. If not, it is a dictionary.
    pub(super) has_rows: bool,
}

/// What the metadata of a message with data says.
#[derive(Clone, Copy, Debug)]
pub(super) enum DataMessageHead {
    /// A record batch.
    Batch { rows: u64 },
    /// Values of a dictionary.
    Dictionary {
        id: i64,
        values: u64,
        /// Whether the values are added to those of earlier messages. If not, they replace them.
        is_delta: bool,
    },
}

/// The columns of a file or stream, and its messages with data.
pub(super) type Contents = (Schema, Vec<DataMessage>);

/// Reads the footer of a file, or walks over the messages of a stream. Fails if the file is neither, or if it
/// is broken.
pub(super) fn contents(file: &FileReader) -> Result<Contents, DatasetError> {
    match file.peek(0, MAGIC.len() as u64)? == MAGIC {
        true => file_contents(file),
        false => stream_contents(file),
    }
}

/// The number of bytes before the metadata of a message: an optional continuation marker, and the
/// length.
pub(super) fn prefix_length(bytes: &[u8]) -> usize {
    if bytes.starts_with(CONTINUATION) { 8 } else { 4 }
}

pub(super) fn parse_message(metadata: &[u8]) -> Result<Message<'_>, DatasetError> {
    match root_as_message(metadata) {
        Ok(message) => Ok(message),
        Err(error) => err!("is broken: a message cannot be read: {error}"),
    }
}

/// Reads the metadata of a message. Fails if the message is of another type than expected.
pub(super) fn read_head(
    file: &FileReader,
    message: &DataMessage,
) -> Result<DataMessageHead, DatasetError> {
    let bytes = file.bytes(message.offset, message.metadata_bytes)?;
    let parsed = parse_message(bytes.get(prefix_length(&bytes)..).unwrap_or_default())?;
    if message.has_rows {
        let rows = row_count(record_batch(&parsed, message)?.length())?;
        return Ok(DataMessageHead::Batch { rows });
    }
    let Some(batch) = parsed.header_as_dictionary_batch() else {
        return err!("is broken: the message at offset {} is not a dictionary", message.offset);
    };
    let values = batch.data().map_or(Ok(0), |data| row_count(data.length()))?;
    Ok(DataMessageHead::Dictionary { id: batch.id(), values, is_delta: batch.isDelta() })
}

/// The record batch in a parsed message. Fails if the message is of another type.
pub(super) fn record_batch<'m>(
    parsed: &Message<'m>,
    message: &DataMessage,
) -> Result<arrow::ipc::RecordBatch<'m>, DatasetError> {
    match parsed.header_as_record_batch() {
        Some(batch) => Ok(batch),
        None => {
            err!("is broken: the message at offset {} is not a record batch", message.offset)
        }
    }
}

/// The length of a record batch as a number of rows. Fails if Arrow data cannot have that many.
pub(super) fn row_count(length: i64) -> Result<u64, DatasetError> {
    match u64::try_from(length) {
        Ok(rows) if rows <= MAX_ROWS => Ok(rows),
        _ => err!("is broken: a record batch claims {length} rows"),
    }
}

/// Converts a schema of Arrow IPC. Fails if it cannot be read.
pub(super) fn parse_schema(schema: Option<arrow::ipc::Schema<'_>>) -> Result<Schema, DatasetError> {
    let Some(schema) = schema else { return err!("is broken: it has no schema") };
    if schema.endianness() != arrow::ipc::Endianness::Little {
        return err!(
            "was written by a big-endian machine, which cannot be read; write the file again"
        );
    }
    match try_fb_to_schema(schema) {
        Ok(schema) => Ok(schema),
        Err(error) => err!("has columns that cannot be read: {error}"),
    }
}

fn file_contents(file: &FileReader) -> Result<Contents, DatasetError> {
    let length = file.length();
    let trailer = file.peek(length.saturating_sub(TRAILER_BYTES), TRAILER_BYTES)?;
    let Some((footer_bytes, MAGIC)) = trailer.split_first_chunk::<4>() else {
        return err!(
            "is cut off or broken: an Arrow file ends with ARROW1, but this file does not"
        );
    };
    let footer_bytes = u64::from(u32::from_le_bytes(*footer_bytes));
    let start = length.checked_sub(TRAILER_BYTES + footer_bytes);
    let Some(start) = start.filter(|_| footer_bytes <= MAX_METADATA) else {
        return err!(
            "is cut off or broken: its footer claims {footer_bytes} bytes, and the file has {length}"
        );
    };
    let bytes = file.bytes(start, footer_bytes)?;
    let footer = match root_as_footer(&bytes) {
        Ok(footer) => footer,
        Err(error) => return err!("has a footer that cannot be read: {error}"),
    };
    let schema = parse_schema(footer.schema())?;
    let dictionaries = footer.dictionaries().into_iter().flatten();
    let batches = footer.recordBatches().into_iter().flatten();
    let blocks = dictionaries.map(|block| (block, false)).chain(batches.map(|block| (block, true)));
    let message = |(block, has_rows)| message_of_block(file, block, has_rows);
    Ok((schema, blocks.map(message).collect::<Result<_, _>>()?))
}

/// Where a message is, as the footer states it. Fails if an offset or a length in the footer is impossible.
fn message_of_block(
    file: &FileReader,
    block: &Block,
    has_rows: bool,
) -> Result<DataMessage, DatasetError> {
    let unsigned = |number: i64| u64::try_from(number).ok();
    let start = unsigned(block.offset()).zip(unsigned(block.metaDataLength().into()));
    let Some(((offset, metadata_bytes), body_bytes)) = start.zip(unsigned(block.bodyLength()))
    else {
        return err!("is broken: its footer has a negative offset or length");
    };
    let message = DataMessage { offset, metadata_bytes, body_bytes, has_rows };
    check_bounds(file, &message)?;
    Ok(message)
}

/// Fails if a message goes beyond the end of the file, or is too large.
fn check_bounds(file: &FileReader, message: &DataMessage) -> Result<(), DatasetError> {
    let DataMessage { offset, metadata_bytes, body_bytes, .. } = *message;
    let end = offset.checked_add(metadata_bytes).and_then(|end| end.checked_add(body_bytes));
    if end.is_none_or(|end| end > file.length()) {
        return err!(
            "is cut off or broken: a message at offset {offset} claims {metadata_bytes} bytes of metadata \
             and {body_bytes} bytes of data, and the file has {}",
            file.length(),
        );
    }
    if metadata_bytes > MAX_METADATA || body_bytes > MAX_SLICE {
        return err!(
            "has a record batch of {body_bytes} bytes, and at most {MAX_SLICE} can be read; write it in \
             smaller batches"
        );
    }
    Ok(())
}

/// Walks over the messages of a stream, and of the streams that follow it in the file. Each stream
/// begins with a schema, and all schemas must be the same.
fn stream_contents(file: &FileReader) -> Result<Contents, DatasetError> {
    let mut offset = 0;
    let mut schema = None;
    let mut messages = Vec::new();
    // Whether the end-of-stream mark of the current stream is still to come.
    let mut is_open = false;
    while offset < file.length() {
        let mut head = file.peek(offset, FIRST_READ_BYTES)?;
        let start = prefix_length(&head);
        let length = head.get(start - 4..start).and_then(|bytes| bytes.first_chunk::<4>());
        let Some(length) = length.map(|length| u64::from(u32::from_le_bytes(*length))) else {
            if !is_open && schema.is_some() {
                break;
            }
            return err!("is cut off: it ends within a message, at offset {offset}");
        };
        if length == 0 && is_open {
            is_open = false;
            offset += start as u64;
            continue;
        }
        let metadata_bytes = start as u64 + length;
        let is_too_long = metadata_bytes > MAX_METADATA || metadata_bytes > file.length() - offset;
        if !is_open && (length == 0 || is_too_long) {
            break;
        }
        let mut message = DataMessage { offset, metadata_bytes, body_bytes: 0, has_rows: false };
        check_bounds(file, &message)?;
        if (head.len() as u64) < metadata_bytes {
            head = file.bytes(offset, metadata_bytes)?;
        }
        let metadata = head.get(start..to_usize(metadata_bytes)).unwrap_or_default();
        let parsed = match parse_message(metadata) {
            Err(_) if !is_open => break,
            Ok(parsed) if !is_open && parsed.header_type() != MessageHeader::Schema => break,
            other => other?,
        };
        let Ok(body_bytes) = u64::try_from(parsed.bodyLength()) else {
            return err!("is broken: the message at offset {offset} has a negative length");
        };
        message.body_bytes = body_bytes;
        check_bounds(file, &message)?;
        match parsed.header_type() {
            MessageHeader::Schema if !is_open => {
                let found = parse_schema(parsed.header_as_schema())?;
                if schema.get_or_insert_with(|| found.clone()).fields() != found.fields() {
                    return err!(
                        "holds another stream at offset {offset}, with other columns than the first; write \
                         each stream into its own file"
                    );
                }
                is_open = true;
            }
            MessageHeader::DictionaryBatch => messages.push(message),
            MessageHeader::RecordBatch => messages.push(DataMessage { has_rows: true, ..message }),
            kind => {
                return err!(
                    "is broken: the message at offset {offset} has an unexpected kind ({kind:?})"
                );
            }
        }
        offset += metadata_bytes + body_bytes;
    }
    let Some(schema) = schema else {
        return err!(
            "is not an Arrow file or stream; correct the key `format`, or leave the file out with a glob"
        );
    };
    check_padding(file, offset)?;
    Ok((schema, messages))
}

/// Fails if more than a few zeros follow the last stream.
fn check_padding(file: &FileReader, offset: u64) -> Result<(), DatasetError> {
    let rest = file.length().saturating_sub(offset);
    if rest <= MAX_PADDING_BYTES && file.bytes(offset, rest)?.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    err!(
        "holds {rest} bytes after the end of its stream, at offset {offset}, which are not another stream; \
         remove them, or write the file anew"
    )
}
