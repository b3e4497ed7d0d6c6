//! Finds the messages of Arrow IPC in a file with a footer or in a stream, and reads their heads, but not
//! their bodies.

use super::file_reader::FileReader;
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, fail};
use crate::model::to_usize;
use arrow::datatypes::Schema;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::{Block, Message, MessageHeader, root_as_footer, root_as_message};

/// The first and the last bytes of a file with a footer.
const MAGIC: &[u8] = b"ARROW1";
/// The bytes after the footer: its length, and the magic.
const TRAILER: u64 = 10;
/// The first bytes of a message, before its length. Older writers leave them out.
const CONTINUATION: &[u8] = &[0xFF; 4];
/// The maximum length of a message's metadata, and of a footer, in bytes.
pub(super) const MAX_METADATA: u64 = 64 << 20;
/// How many bytes are read at the beginning of a message: the metadata of most messages is shorter.
const PEEK: u64 = 4 << 10;
/// The maximum number of rows in a record batch, because Arrow counts with 32 bits.
const MAX_ROWS: u64 = i32::MAX as u64;
/// How many zeros may follow the end of a stream, in bytes: some writers pad the file.
const PADDING: u64 = 64;

/// A message with data.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataMessage {
    /// The offset of its beginning.
    pub(super) offset: u64,
    /// The bytes before its body.
    pub(super) metadata: u64,
    /// The bytes of its body.
    pub(super) body: u64,
    /// Whether it is a record batch. If not, it is a dictionary.
    pub(super) has_rows: bool,
}

/// What the head of a message with data says.
#[derive(Clone, Copy, Debug)]
pub(super) enum DataMessageHead {
    /// A record batch.
    Batch {
        /// The number of rows.
        rows: u64,
    },
    /// Values of a dictionary.
    Dictionary {
        /// The identifier of the dictionary.
        id: i64,
        /// The number of values.
        values: u64,
        /// Whether the values are added to the known ones.
        is_more: bool,
    },
}

/// The columns, and the messages with data.
pub(super) type Contents = (Schema, Vec<DataMessage>);

/// Reads the footer of a file, or walks over the messages of a stream. Fails if the file is neither, or if it
/// is broken.
pub(super) fn contents(at: &FileReader) -> Result<Contents, DatasetError> {
    match at.peek(0, MAGIC.len() as u64)? == MAGIC {
        true => file(at),
        false => stream(at),
    }
}

/// The number of bytes before the metadata of a message: its length, and the mark before that.
pub(super) fn prefix(bytes: &[u8]) -> usize {
    if bytes.starts_with(CONTINUATION) { 8 } else { 4 }
}

/// Parses a message.
pub(super) fn message(metadata: &[u8]) -> Result<Message<'_>, DatasetError> {
    match root_as_message(metadata) {
        Ok(message) => Ok(message),
        Err(error) => fail!("is broken: a message cannot be read: {error}"),
    }
}

/// Reads the head of the message at a place. Fails if it is of another type than expected.
pub(super) fn head(at: &FileReader, place: &DataMessage) -> Result<DataMessageHead, DatasetError> {
    let bytes = at.bytes(place.offset, place.metadata)?;
    let message = message(bytes.get(prefix(&bytes)..).unwrap_or_default())?;
    if place.has_rows {
        return Ok(DataMessageHead::Batch { rows: rows(record_batch(&message, place)?.length())? });
    }
    let Some(batch) = message.header_as_dictionary_batch() else {
        return fail!("is broken: the message at {} is not a dictionary", place.offset);
    };
    let values = batch.data().map_or(Ok(0), |data| rows(data.length()))?;
    Ok(DataMessageHead::Dictionary { id: batch.id(), values, is_more: batch.isDelta() })
}

/// The record batch in a message.
pub(super) fn record_batch<'m>(
    message: &Message<'m>,
    place: &DataMessage,
) -> Result<arrow::ipc::RecordBatch<'m>, DatasetError> {
    match message.header_as_record_batch() {
        Some(batch) => Ok(batch),
        None => fail!("is broken: the message at {} is not a record batch", place.offset),
    }
}

/// The number of rows. Fails if Arrow data cannot have that many.
pub(super) fn rows(length: i64) -> Result<u64, DatasetError> {
    match u64::try_from(length) {
        Ok(rows) if rows <= MAX_ROWS => Ok(rows),
        _ => fail!("is broken: a record batch claims {length} rows"),
    }
}

/// The columns of a schema. Fails if it cannot be read.
pub(super) fn columns(schema: Option<arrow::ipc::Schema<'_>>) -> Result<Schema, DatasetError> {
    let Some(schema) = schema else { return fail!("is broken: it has no schema") };
    if schema.endianness() != arrow::ipc::Endianness::Little {
        return fail!("was written by a big-endian machine, which cannot be read; write it anew");
    }
    match try_fb_to_schema(schema) {
        Ok(schema) => Ok(schema),
        Err(error) => fail!("has columns that cannot be read: {error}"),
    }
}

fn file(at: &FileReader) -> Result<Contents, DatasetError> {
    let length = at.length();
    let trailer = at.peek(length.saturating_sub(TRAILER), TRAILER)?;
    let Some((footer, MAGIC)) = trailer.split_first_chunk::<4>() else {
        return fail!("is cut off or broken: an Arrow file ends with ARROW1, and it does not");
    };
    let footer = u64::from(u32::from_le_bytes(*footer));
    let Some(start) = length.checked_sub(TRAILER + footer).filter(|_| footer <= MAX_METADATA)
    else {
        return fail!(
            "is cut off or broken: its footer claims {footer} bytes, and the file has {length}"
        );
    };
    let bytes = at.bytes(start, footer)?;
    let footer = match root_as_footer(&bytes) {
        Ok(footer) => footer,
        Err(error) => return fail!("has a footer that cannot be read: {error}"),
    };
    let schema = columns(footer.schema())?;
    let dictionaries = footer.dictionaries().into_iter().flatten();
    let batches = footer.recordBatches().into_iter().flatten();
    let blocks = dictionaries.map(|block| (block, false)).chain(batches.map(|block| (block, true)));
    let place = |(block, has_rows)| self::block(at, block, has_rows);
    Ok((schema, blocks.map(place).collect::<Result<_, _>>()?))
}

/// The place of a message that the footer names.
fn block(at: &FileReader, block: &Block, has_rows: bool) -> Result<DataMessage, DatasetError> {
    let known = |number: i64| u64::try_from(number).ok();
    let place = known(block.offset()).zip(known(block.metaDataLength().into()));
    let Some(((offset, metadata), body)) = place.zip(known(block.bodyLength())) else {
        return fail!("is broken: its footer names a place before the file");
    };
    let place = DataMessage { offset, metadata, body, has_rows };
    check_place(at, &place)?;
    Ok(place)
}

/// Fails if a message goes beyond the end of the file, or is too large.
fn check_place(at: &FileReader, place: &DataMessage) -> Result<(), DatasetError> {
    let DataMessage { offset, metadata, body, .. } = *place;
    let end = offset.checked_add(metadata).and_then(|end| end.checked_add(body));
    if end.is_none_or(|end| end > at.length()) {
        return fail!(
            "is cut off or broken: a message at {offset} claims {metadata} and {body} bytes, and the \
             file has {}",
            at.length(),
        );
    }
    if metadata > MAX_METADATA || body > MAX_SLICE {
        return fail!(
            "has a record batch of {body} bytes, and at most {MAX_SLICE} can be read; write it in smaller \
             batches"
        );
    }
    Ok(())
}

/// Walks over the messages of a stream, and over those of the streams that follow it. Each stream begins with
/// its schema, which must be the same.
fn stream(at: &FileReader) -> Result<Contents, DatasetError> {
    let mut offset = 0;
    let mut schema = None;
    let mut messages = Vec::new();
    // Whether a stream has begun and has not ended.
    let mut is_open = false;
    while offset < at.length() {
        let mut head = at.peek(offset, PEEK)?;
        let start = prefix(&head);
        let length = head.get(start - 4..start).and_then(|it| it.first_chunk::<4>());
        let Some(length) = length.map(|length| u64::from(u32::from_le_bytes(*length))) else {
            if !is_open && schema.is_some() {
                break;
            }
            return fail!("is cut off: it ends within a message, at {offset}");
        };
        if length == 0 && is_open {
            is_open = false;
            offset += start as u64;
            continue;
        }
        let metadata = start as u64 + length;
        if !is_open && (length == 0 || metadata > MAX_METADATA || metadata > at.length() - offset) {
            break;
        }
        let mut place = DataMessage { offset, metadata, body: 0, has_rows: false };
        check_place(at, &place)?;
        if (head.len() as u64) < metadata {
            head = at.bytes(offset, metadata)?;
        }
        let message = match message(head.get(start..to_usize(metadata)).unwrap_or_default()) {
            Err(_) if !is_open => break,
            Ok(message) if !is_open && message.header_type() != MessageHeader::Schema => break,
            other => other?,
        };
        let Ok(body) = u64::try_from(message.bodyLength()) else {
            return fail!("is broken: the message at {offset} has a negative length");
        };
        place.body = body;
        check_place(at, &place)?;
        match message.header_type() {
            MessageHeader::Schema if !is_open => {
                let found = columns(message.header_as_schema())?;
                if schema.get_or_insert_with(|| found.clone()).fields() != found.fields() {
                    return fail!(
                        "holds another stream at {offset}, with other columns than the first; write each \
                         into a file of its own"
                    );
                }
                is_open = true;
            }
            MessageHeader::DictionaryBatch => messages.push(place),
            MessageHeader::RecordBatch => messages.push(DataMessage { has_rows: true, ..place }),
            kind => {
                return fail!("is broken: the message at {offset} is not allowed there ({kind:?})");
            }
        }
        offset += metadata + body;
    }
    let Some(schema) = schema else {
        return fail!(
            "is not an Arrow file or stream; correct format, or leave the file out by a glob"
        );
    };
    check_rest(at, offset)?;
    Ok((schema, messages))
}

/// Fails if more than a few zeros follow the last stream.
fn check_rest(at: &FileReader, offset: u64) -> Result<(), DatasetError> {
    let rest = at.length().saturating_sub(offset);
    if rest <= PADDING && at.bytes(offset, rest)?.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    fail!(
        "holds {rest} bytes after the end of its stream, at {offset}, which are not another stream; write \
         it anew, or remove them"
    )
}
