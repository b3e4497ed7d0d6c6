//! Arrow IPC: files with a footer, and streams.

use super::cut::{DictionaryValues, SourcePart};
use super::file_reader::FileReader;
use super::messages::{
    DataMessage, DataMessageHead, contents, head, message, prefix, record_batch, rows,
};
use super::width::least;
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, fail};
use crate::model::to_usize;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use std::collections::HashMap;
use std::sync::Arc;

/// An open file, and where its messages are.
#[derive(Debug)]
pub(super) struct ArrowFile {
    at: FileReader,
    schema: SchemaRef,
    messages: Vec<DataMessage>,
    /// The indexes of the messages that are record batches.
    batches: Vec<usize>,
    /// The dictionaries before message `next`.
    dictionaries: HashMap<i64, ArrayRef>,
    next: usize,
    /// The last record batch that was read, with its index and columns: several slices may need it.
    last: Option<(usize, Vec<usize>, RecordBatch)>,
}

impl ArrowFile {
    /// Reads the footer of a file, or walks over the messages of a stream without reading their bodies. Fails
    /// if the file is neither, or if it is broken.
    pub(super) fn open(at: FileReader) -> Result<Self, DatasetError> {
        let (schema, messages) = contents(&at)?;
        let with_rows = messages.iter().enumerate().filter(|(_, place)| place.has_rows);
        let batches = with_rows.map(|(index, _)| index).collect();
        let schema = Arc::new(schema);
        let dictionaries = HashMap::new();
        Ok(Self { at, schema, messages, batches, dictionaries, next: 0, last: None })
    }

    /// All columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The record batches, with about the size of some of their columns. Fails if a message is broken.
    pub(super) fn parts(&self, columns: &[usize]) -> Result<Vec<SourcePart>, DatasetError> {
        let fields = self.schema.fields();
        let all = fields.len().max(1) as u128;
        let wanted = columns.iter().map(|&at| keys(self.schema.field(at))).sum::<u64>();
        let keys = fields.iter().map(|field| keys(field)).sum::<u64>().max(1);
        let part_of =
            |bytes: u64| saturated(u128::from(bytes) * u128::from(wanted) / u128::from(keys));
        // The sizes of each dictionary, and of all together.
        let mut known = HashMap::new();
        let mut sum = DictionaryValues::default();
        let mut parts = Vec::with_capacity(self.batches.len());
        for place in &self.messages {
            match head(&self.at, place)? {
                DataMessageHead::Dictionary { id, values: count, is_more } => {
                    let known: &mut DictionaryValues = known.entry(id).or_default();
                    let body = place.body;
                    let old = *known;
                    let all = if is_more { old.all.saturating_add(body) } else { body };
                    *known = DictionaryValues { all, each: body.div_ceil(count.max(1)) };
                    sum.all = sum.all.saturating_sub(old.all).saturating_add(all);
                    sum.each = sum.each.saturating_sub(old.each).saturating_add(known.each);
                }
                DataMessageHead::Batch { rows } => {
                    let share = u128::from(place.body) * columns.len() as u128 / all;
                    let fields = columns.iter().map(|&at| least(self.schema.field(at), rows));
                    let bytes = fields.fold(0, u64::saturating_add).max(saturated(share));
                    let values =
                        DictionaryValues { all: part_of(sum.all), each: part_of(sum.each) };
                    parts.push(SourcePart { rows, bytes, values });
                }
            }
        }
        Ok(parts)
    }

    /// Reads rows with some of the columns, from the record batch `part` on, after `skip` of its rows. Fails
    /// if they cannot be decoded, or if the file has fewer.
    pub(super) fn read(
        &mut self,
        part: usize,
        skip: usize,
        rows: usize,
        columns: &[usize],
    ) -> Result<Vec<RecordBatch>, DatasetError> {
        let mut skip = skip;
        let mut left = rows;
        let mut found = Vec::new();
        let mut part = part;
        while left > 0
            && let Some(&index) = self.batches.get(part)
        {
            let batch = self.batch(index, columns)?;
            let taken = left.min(batch.num_rows().saturating_sub(skip));
            found.push(batch.slice(skip.min(batch.num_rows()), taken));
            left -= taken;
            skip = 0;
            part += 1;
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
            // Later messages may have replaced dictionaries, so we start again.
            self.dictionaries.clear();
            self.next = 0;
        }
        while self.next < index {
            if !self.messages[self.next].has_rows {
                self.dictionary(self.messages[self.next])?;
            }
            self.next += 1;
        }
        let batch = self.read_batch(self.messages[index], columns)?;
        self.last = Some((index, columns.to_vec(), batch.clone()));
        Ok(batch)
    }

    fn dictionary(&mut self, place: DataMessage) -> Result<(), DatasetError> {
        let (metadata, body) = self.load(place)?;
        let message = message(&metadata)?;
        let Some(batch) = message.header_as_dictionary_batch() else {
            return fail!("is broken: the message at {} is not a dictionary", place.offset);
        };
        let data = batch.data();
        check_bodies(data, &body)?;
        let version = message.version();
        let known = &mut self.dictionaries;
        match read_dictionary(&body, batch, &self.schema, known, &version) {
            Ok(()) => Ok(()),
            Err(error) => {
                fail!("has a dictionary at {} that cannot be decoded: {error}", place.offset)
            }
        }
    }

    fn read_batch(
        &self,
        place: DataMessage,
        columns: &[usize],
    ) -> Result<RecordBatch, DatasetError> {
        let (metadata, body) = self.load(place)?;
        let message = message(&metadata)?;
        let batch = record_batch(&message, &place)?;
        rows(batch.length())?;
        check_bodies(Some(batch), &body)?;
        let schema = Arc::clone(&self.schema);
        let version = message.version();
        let decoder =
            RecordBatchDecoder::try_new(&body, batch, schema, &self.dictionaries, &version);
        let batch =
            decoder.and_then(|decoder| decoder.with_projection(Some(columns)).read_record_batch());
        match batch {
            Ok(batch) => Ok(batch),
            Err(error) => fail!("cannot be decoded (a record batch at {}): {error}", place.offset),
        }
    }

    /// A message's metadata and body.
    fn load(&self, place: DataMessage) -> Result<(Vec<u8>, Buffer), DatasetError> {
        let DataMessage { offset, metadata, body, .. } = place;
        let both = self.at.bytes(offset, metadata.saturating_add(body))?;
        let both = Buffer::from_vec(both);
        let start = prefix(&both);
        let head = both.get(start..to_usize(metadata)).unwrap_or_default().to_vec();
        Ok((head, both.slice_with_length(to_usize(metadata), to_usize(body))))
    }
}

fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Fails if a buffer is not within the body, or if the buffers unpack to more than a worker can hold.
pub(super) fn check_bodies(
    batch: Option<arrow::ipc::RecordBatch<'_>>,
    body: &[u8],
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
                "is broken: {} bytes should be at {} of a record batch of {}",
                buffer.length(),
                buffer.offset(),
                body.len(),
            );
        };
        if let Some(length) = bytes.first_chunk::<8>().filter(|_| is_packed) {
            // A negative length marks a buffer that is not packed.
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

/// How many fields of dictionary keys a column has, including nested ones.
fn keys(field: &Field) -> u64 {
    let schema = Schema::new(vec![field.clone()]);
    let fields = schema.flattened_fields().into_iter();
    fields.filter(|field| matches!(field.data_type(), DataType::Dictionary(..))).count() as u64
}
