//! Arrow IPC: files with a footer, and streams.

use super::at::At;
use super::cut::Part;
use super::width::least;
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, fail};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow::ipc::{Block, Message, MessageHeader, root_as_footer, root_as_message};
use std::collections::HashMap;
use std::sync::Arc;

/// What a file with a footer begins and ends with.
const MAGIC: &[u8] = b"ARROW1";
/// Bytes behind the footer: its length, and the magic.
const TRAILER: u64 = 10;
/// What a message begins with, before its length; older writers leave it out.
const CONTINUATION: &[u8] = &[0xFF; 4];
/// The longest metadata of a message, and the longest footer, in bytes.
const MAX_METADATA: u64 = 64 << 20;
/// Bytes read at a message's begin: most messages' metadata is shorter.
const PEEK: u64 = 4 << 10;
/// The most rows of a record batch: Arrow counts with 32 bits.
const MAX_ROWS: u64 = i32::MAX as u64;

/// An open file, and where its messages lie.
#[derive(Debug)]
pub(super) struct ArrowFile {
    at: At,
    schema: SchemaRef,
    messages: Vec<Place>,
    /// The dictionaries as they are before message `next`.
    dictionaries: HashMap<i64, ArrayRef>,
    next: usize,
    /// The record batch that was read last, and the columns that were: its rows may be several slices.
    last: Option<(usize, Vec<usize>, RecordBatch)>,
}

/// A message with data.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where it begins.
    offset: u64,
    /// Bytes before its body.
    metadata: u64,
    /// Bytes of its body.
    body: u64,
    /// Rows, of a record batch; none for a dictionary.
    rows: Option<u64>,
}

impl ArrowFile {
    /// Reads the footer, or walks over a stream's messages, without what is in them. Fails if the file
    /// is neither, or broken.
    pub(super) fn open(at: At) -> Result<Self, DatasetError> {
        let (schema, messages) = match at.peek(0, MAGIC.len() as u64)? == MAGIC {
            true => file(&at)?,
            false => stream(&at)?,
        };
        let (schema, dictionaries) = (Arc::new(schema), HashMap::new());
        Ok(Self { at, schema, messages, dictionaries, next: 0, last: None })
    }

    /// All columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The record batches, as large as some of their columns are, about.
    pub(super) fn parts(&self, columns: &[usize]) -> Vec<Part> {
        let all = self.schema.fields().len().max(1) as u128;
        let batches = self.messages.iter().filter_map(|place| Some((place.rows?, place.body)));
        let part = |(rows, body)| {
            let share = u128::from(body) * columns.len() as u128 / all;
            let fields = columns.iter().map(|&at| least(self.schema.field(at), rows));
            let bytes = fields.fold(0, u64::saturating_add).max(share as u64);
            Part { rows, bytes }
        };
        batches.map(part).collect()
    }

    /// Rows from the record batch `part` on, after so many of it, with some of the columns. Fails if
    /// they cannot be decoded, or if the file has fewer.
    pub(super) fn read(
        &mut self,
        part: usize,
        skip: usize,
        rows: usize,
        columns: &[usize],
    ) -> Result<Vec<RecordBatch>, DatasetError> {
        let batches = self.messages.iter().enumerate().filter(|(_, place)| place.rows.is_some());
        let batches: Vec<usize> = batches.map(|(index, _)| index).skip(part).collect();
        let (mut skip, mut left) = (skip, rows);
        let mut found = Vec::new();
        for index in batches {
            if left == 0 {
                break;
            }
            let batch = self.batch(index, columns)?;
            let taken = left.min(batch.num_rows().saturating_sub(skip));
            found.push(batch.slice(skip.min(batch.num_rows()), taken));
            left -= taken;
            skip = 0;
        }
        if left > 0 {
            return fail!("has fewer rows than when it was planned");
        }
        Ok(found)
    }

    fn batch(&mut self, index: usize, columns: &[usize]) -> Result<RecordBatch, DatasetError> {
        if let Some((last, with, batch)) = &self.last
            && *last == index
            && with == columns
        {
            return Ok(batch.clone());
        }
        self.last = None;
        if index < self.next {
            // Dictionaries may be replaced on the way.
            self.dictionaries.clear();
            self.next = 0;
        }
        while self.next < index {
            if self.messages[self.next].rows.is_none() {
                self.dictionary(self.messages[self.next])?;
            }
            self.next += 1;
        }
        let place = self.messages[index];
        let batch = self.read_batch(place, columns)?;
        if Some(batch.num_rows() as u64) != place.rows {
            return fail!("has fewer rows than when it was planned");
        }
        self.last = Some((index, columns.to_vec(), batch.clone()));
        Ok(batch)
    }

    fn dictionary(&mut self, place: Place) -> Result<(), DatasetError> {
        let (metadata, body) = self.load(place)?;
        let message = message(&metadata)?;
        let Some(batch) = message.header_as_dictionary_batch() else {
            return fail!("is broken: the message at {} is no dictionary", place.offset);
        };
        let data = batch.data();
        check_bodies(data, &body)?;
        let (version, known) = (message.version(), &mut self.dictionaries);
        match read_dictionary(&body, batch, &self.schema, known, &version) {
            Ok(()) => Ok(()),
            Err(error) => fail!("has a dictionary that cannot be decoded: {error}"),
        }
    }

    fn read_batch(&self, place: Place, columns: &[usize]) -> Result<RecordBatch, DatasetError> {
        let (metadata, body) = self.load(place)?;
        let message = message(&metadata)?;
        let Some(batch) = message.header_as_record_batch() else {
            return fail!("is broken: the message at {} is no record batch", place.offset);
        };
        check_bodies(Some(batch), &body)?;
        let (schema, version) = (Arc::clone(&self.schema), message.version());
        let decoder =
            RecordBatchDecoder::try_new(&body, batch, schema, &self.dictionaries, &version);
        let batch =
            decoder.and_then(|decoder| decoder.with_projection(Some(columns)).read_record_batch());
        match batch {
            Ok(batch) => Ok(batch),
            Err(error) => fail!("cannot be decoded: {error}"),
        }
    }

    /// A message's metadata and body.
    fn load(&self, place: Place) -> Result<(Vec<u8>, Buffer), DatasetError> {
        let Place { offset, metadata, body, .. } = place;
        let both = self.at.bytes(offset, metadata.saturating_add(body))?;
        let both = Buffer::from_vec(both);
        let start = prefix(&both);
        let head = both.get(start..metadata as usize).unwrap_or_default().to_vec();
        Ok((head, both.slice_with_length(metadata as usize, body as usize)))
    }
}

/// How many bytes are before the message: its length, and what marks it.
fn prefix(bytes: &[u8]) -> usize {
    if bytes.starts_with(CONTINUATION) { 8 } else { 4 }
}

fn message(metadata: &[u8]) -> Result<Message<'_>, DatasetError> {
    match root_as_message(metadata) {
        Ok(message) => Ok(message),
        Err(error) => fail!("is broken: a message cannot be read: {error}"),
    }
}

/// Refuses buffers that do not lie within the body, or that unpack to more than a worker can hold.
fn check_bodies(
    batch: Option<arrow::ipc::RecordBatch<'_>>,
    body: &Buffer,
) -> Result<(), DatasetError> {
    let Some(batch) = batch else { return fail!("is broken: a dictionary has no values") };
    let is_packed = batch.compression().is_some();
    let mut unpacked = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let place =
            usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = place.and_then(|(start, length)| body.get(start..start.checked_add(length)?));
        let Some(bytes) = bytes else {
            return fail!(
                "is broken: {} bytes are to be at {} of a record batch of {}",
                buffer.length(),
                buffer.offset(),
                body.len(),
            );
        };
        if let Some(length) = bytes.first_chunk::<8>().filter(|_| is_packed) {
            // Less than nothing means that the buffer was not packed.
            unpacked =
                unpacked.saturating_add(u64::try_from(i64::from_le_bytes(*length)).unwrap_or(0));
        }
    }
    if unpacked > MAX_SLICE {
        return fail!(
            "has a record batch that unpacks to {unpacked} bytes, and at most {MAX_SLICE} can be read; \
             write it in smaller batches"
        );
    }
    Ok(())
}

/// The columns of a schema. Fails if it cannot be read.
fn columns(schema: Option<arrow::ipc::Schema<'_>>) -> Result<Schema, DatasetError> {
    let Some(schema) = schema else { return fail!("is broken: it has no schema") };
    if schema.endianness() != arrow::ipc::Endianness::Little {
        return fail!("was written by a big-endian machine, which cannot be read; write it anew");
    }
    match try_fb_to_schema(schema) {
        Ok(schema) => Ok(schema),
        Err(error) => fail!("has columns that cannot be read: {error}"),
    }
}

type Contents = (Schema, Vec<Place>);

fn file(at: &At) -> Result<Contents, DatasetError> {
    let length = at.length();
    let trailer = at.peek(length.saturating_sub(TRAILER), TRAILER)?;
    let Some((footer, MAGIC)) = trailer.split_first_chunk::<4>() else {
        return fail!("is cut off or broken: an Arrow file ends with ARROW1, and it does not");
    };
    let footer = u64::from(u32::from_le_bytes(*footer));
    let Some(start) = length.checked_sub(TRAILER + footer).filter(|_| footer <= MAX_METADATA)
    else {
        return fail!(
            "is cut off or broken: its footer is to take {footer} bytes, and the file has {length}"
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

/// A block of a footer.
fn block(at: &At, block: &Block, has_rows: bool) -> Result<Place, DatasetError> {
    let known = |number: i64| u64::try_from(number).ok();
    let place = known(block.offset()).zip(known(block.metaDataLength().into()));
    let Some(((offset, metadata), body)) = place.zip(known(block.bodyLength())) else {
        return fail!("is broken: its footer names a place before the file");
    };
    let mut place = Place { offset, metadata, body, rows: None };
    check_place(at, &place)?;
    if has_rows {
        let head = at.bytes(offset, metadata)?;
        let message = message(head.get(prefix(&head)..).unwrap_or_default())?;
        let Some(batch) = message.header_as_record_batch() else {
            return fail!("is broken: the message at {offset} is no record batch");
        };
        place.rows = Some(rows(batch.length())?);
    }
    Ok(place)
}

/// Fails if a message cannot be there.
fn check_place(at: &At, place: &Place) -> Result<(), DatasetError> {
    let Place { offset, metadata, body, .. } = *place;
    let end = offset.checked_add(metadata).and_then(|end| end.checked_add(body));
    if end.is_none_or(|end| end > at.length()) {
        return fail!(
            "is cut off or broken: a message at {offset} is to take {metadata} and {body} bytes, and the \
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

fn rows(length: i64) -> Result<u64, DatasetError> {
    match u64::try_from(length) {
        Ok(rows) if rows <= MAX_ROWS => Ok(rows),
        _ => fail!("is broken: a record batch is to have {length} rows"),
    }
}

fn stream(at: &At) -> Result<Contents, DatasetError> {
    let mut offset = 0;
    let mut schema = None;
    let mut messages = Vec::new();
    while offset < at.length() {
        let mut head = at.peek(offset, PEEK)?;
        let start = prefix(&head);
        let Some(length) = head.get(start - 4..start).and_then(|it| it.first_chunk::<4>()) else {
            return fail!("is cut off: it ends within a message, at {offset}");
        };
        let length = u64::from(u32::from_le_bytes(*length));
        if length == 0 {
            break;
        }
        let metadata = start as u64 + length;
        if schema.is_none() && (metadata > MAX_METADATA || metadata > at.length()) {
            return fail!(
                "is no Arrow file or stream; correct format, or leave the file out by a glob"
            );
        }
        check_place(at, &Place { offset, metadata, body: 0, rows: None })?;
        if (head.len() as u64) < metadata {
            head = at.bytes(offset, metadata)?;
        }
        let message = message(head.get(start..metadata as usize).unwrap_or_default());
        let message = match message {
            Err(_) if schema.is_none() => {
                return fail!(
                    "is no Arrow file or stream; correct format, or leave the file out by a glob"
                );
            }
            other => other?,
        };
        let Ok(body) = u64::try_from(message.bodyLength()) else {
            return fail!("is broken: the message at {offset} is shorter than nothing");
        };
        let mut place = Place { offset, metadata, body, rows: None };
        check_place(at, &place)?;
        match (message.header_type(), &schema) {
            (MessageHeader::Schema, None) => schema = Some(columns(message.header_as_schema())?),
            (MessageHeader::DictionaryBatch, Some(_)) => messages.push(place),
            (MessageHeader::RecordBatch, Some(_)) => {
                let length = message.header_as_record_batch().map_or(-1, |batch| batch.length());
                place.rows = Some(rows(length)?);
                messages.push(place);
            }
            (kind, _) => {
                return fail!("is broken: the message at {offset} must not be there ({kind:?})");
            }
        }
        offset += metadata + body;
    }
    match schema {
        Some(schema) => Ok((schema, messages)),
        None => {
            fail!("is no Arrow file or stream; correct format, or leave the file out by a glob")
        }
    }
}
