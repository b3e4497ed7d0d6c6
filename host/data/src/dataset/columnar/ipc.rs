//! Arrow IPC: files with a footer, and streams.

use super::cut::{DictionaryValues, SourcePart};
use super::file_reader::FileReader;
use super::messages::{
    DataMessage, DataMessageHead, contents, parse_message, prefix_length, read_head, record_batch,
    row_count,
};
use super::width::least_bytes;
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, err};
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
    file: FileReader,
    schema: SchemaRef,
    messages: Vec<DataMessage>,
    /// The indexes of the messages that are record batches.
    batches: Vec<usize>,
    /// The dictionaries by their identifiers, as the messages before `next_message` define them.
    dictionaries: HashMap<i64, ArrayRef>,
    next_message: usize,
    /// The last record batch that was read, with the index of its message and its columns: several slices may
    /// need it.
    last_read: Option<(usize, Vec<usize>, RecordBatch)>,
}

impl ArrowFile {
    /// Reads the footer of a file, or walks over the messages of a stream without reading their bodies. Fails
    /// if the file is neither, or if it is broken.
    pub(super) fn open(file: FileReader) -> Result<Self, DatasetError> {
        let (schema, messages) = contents(&file)?;
        let with_rows = messages.iter().enumerate().filter(|(_, message)| message.has_rows);
        let batches = with_rows.map(|(index, _)| index).collect();
        Ok(Self {
            file,
            schema: Arc::new(schema),
            messages,
            batches,
            dictionaries: HashMap::new(),
            next_message: 0,
            last_read: None,
        })
    }

    /// All columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The record batches, each with the approximate size of the given columns. Fails if a message is broken.
    pub(super) fn parts(&self, columns: &[usize]) -> Result<Vec<SourcePart>, DatasetError> {
        let fields = self.schema.fields();
        let column_count = fields.len().max(1) as u128;
        // We assume that the dictionaries of all columns have the same size.
        let wanted: u64 =
            columns.iter().map(|&column| dictionary_count(self.schema.field(column))).sum();
        let all = fields.iter().map(|field| dictionary_count(field)).sum::<u64>().max(1);
        let wanted_share =
            |bytes: u64| saturated(u128::from(bytes) * u128::from(wanted) / u128::from(all));
        let mut dictionaries: HashMap<i64, DictionaryValues> = HashMap::new();
        // The sizes of all dictionaries together.
        let mut sum = DictionaryValues::default();
        let mut parts = Vec::with_capacity(self.batches.len());
        for message in &self.messages {
            let body_bytes = message.body_bytes;
            match read_head(&self.file, message)? {
                DataMessageHead::Dictionary { id, values, is_delta } => {
                    let known = dictionaries.entry(id).or_default();
                    let old = *known;
                    let before = if is_delta { old.total_bytes } else { 0 };
                    *known = DictionaryValues {
                        total_bytes: before.saturating_add(body_bytes),
                        bytes_per_row: body_bytes.div_ceil(values.max(1)),
                    };
                    sum.total_bytes = sum
                        .total_bytes
                        .saturating_sub(old.total_bytes)
                        .saturating_add(known.total_bytes);
                    sum.bytes_per_row = sum
                        .bytes_per_row
                        .saturating_sub(old.bytes_per_row)
                        .saturating_add(known.bytes_per_row);
                }
                DataMessageHead::Batch { rows } => {
                    let share = u128::from(body_bytes) * columns.len() as u128 / column_count;
                    let least = columns
                        .iter()
                        .map(|&column| least_bytes(self.schema.field(column), rows))
                        .fold(0, u64::saturating_add);
                    let values = DictionaryValues {
                        total_bytes: wanted_share(sum.total_bytes),
                        bytes_per_row: wanted_share(sum.bytes_per_row),
                    };
                    parts.push(SourcePart { rows, bytes: least.max(saturated(share)), values });
                }
            }
        }
        Ok(parts)
    }

    /// Reads `rows` rows of these columns. Begins in record batch `part`, after its first `skip` rows. Fails
    /// if the rows cannot be decoded, or if the file has fewer.
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
            return err!("has fewer rows than when it was planned");
        }
        Ok(found)
    }

    /// The record batch in the message with this index.
    fn batch(&mut self, index: usize, columns: &[usize]) -> Result<RecordBatch, DatasetError> {
        if let Some((last_index, last_columns, batch)) = &self.last_read
            && *last_index == index
            && last_columns == columns
        {
            return Ok(batch.clone());
        }
        self.last_read = None;
        if index < self.next_message {
            // Later messages may have replaced dictionaries, so we read all dictionaries again.
            self.dictionaries.clear();
            self.next_message = 0;
        }
        while self.next_message < index {
            let message = self.messages[self.next_message];
            if !message.has_rows {
                self.load_dictionary(message)?;
            }
            self.next_message += 1;
        }
        let batch = self.decode_batch(self.messages[index], columns)?;
        self.last_read = Some((index, columns.to_vec(), batch.clone()));
        Ok(batch)
    }

    fn load_dictionary(&mut self, message: DataMessage) -> Result<(), DatasetError> {
        let (metadata, body) = self.load(message)?;
        let parsed = parse_message(&metadata)?;
        let offset = message.offset;
        let Some(batch) = parsed.header_as_dictionary_batch() else {
            return err!("is broken: the message at offset {offset} is not a dictionary");
        };
        check_buffers(batch.data(), &body)?;
        let version = parsed.version();
        let known = &mut self.dictionaries;
        match read_dictionary(&body, batch, &self.schema, known, &version) {
            Ok(()) => Ok(()),
            Err(error) => {
                err!("has a dictionary at offset {offset} that cannot be decoded: {error}")
            }
        }
    }

    fn decode_batch(
        &self,
        message: DataMessage,
        columns: &[usize],
    ) -> Result<RecordBatch, DatasetError> {
        let (metadata, body) = self.load(message)?;
        let parsed = parse_message(&metadata)?;
        let batch = record_batch(&parsed, &message)?;
        row_count(batch.length())?;
        check_buffers(Some(batch), &body)?;
        let schema = Arc::clone(&self.schema);
        let version = parsed.version();
        let decoder =
            RecordBatchDecoder::try_new(&body, batch, schema, &self.dictionaries, &version);
        let batch =
            decoder.and_then(|decoder| decoder.with_projection(Some(columns)).read_record_batch());
        match batch {
            Ok(batch) => Ok(batch),
            Err(error) => {
                err!("cannot be decoded (a record batch at offset {}): {error}", message.offset)
            }
        }
    }

    /// Reads a message. Returns its metadata and its body.
    fn load(&self, message: DataMessage) -> Result<(Vec<u8>, Buffer), DatasetError> {
        let DataMessage { offset, metadata_bytes, body_bytes, .. } = message;
        let whole = self.file.bytes(offset, metadata_bytes.saturating_add(body_bytes))?;
        let whole = Buffer::from_vec(whole);
        let start = prefix_length(&whole);
        let metadata = whole.get(start..to_usize(metadata_bytes)).unwrap_or_default().to_vec();
        Ok((metadata, whole.slice_with_length(to_usize(metadata_bytes), to_usize(body_bytes))))
    }
}

/// The number of bytes, or the maximum if it does not fit.
fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Fails if a buffer of a record batch is not within the body of its message, or if the buffers unpack to
/// more than a worker can hold.
pub(super) fn check_buffers(
    batch: Option<arrow::ipc::RecordBatch<'_>>,
    body: &[u8],
) -> Result<(), DatasetError> {
    let Some(batch) = batch else { return err!("is broken: a dictionary has no values") };
    let is_packed = batch.compression().is_some();
    let mut unpacked = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let range =
            usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = range.and_then(|(start, length)| body.get(start..start.checked_add(length)?));
        let Some(bytes) = bytes else {
            return err!(
                "is broken: a buffer of {} bytes at offset {} does not fit into the record batch of \
                 {} bytes",
                buffer.length(),
                buffer.offset(),
                body.len(),
            );
        };
        if let Some(length) = bytes.first_chunk::<8>().filter(|_| is_packed) {
            // A packed buffer begins with its unpacked length. A negative length marks a buffer that is not
            // packed.
            unpacked =
                unpacked.saturating_add(u64::try_from(i64::from_le_bytes(*length)).unwrap_or(0));
        }
    }
    if unpacked > MAX_SLICE {
        return err!(
            "has a record batch that unpacks to {unpacked} bytes, and at most {MAX_SLICE} can be read; \
             write it in smaller batches"
        );
    }
    Ok(())
}

/// How many dictionary-encoded fields a column has: itself and nested ones.
fn dictionary_count(field: &Field) -> u64 {
    let schema = Schema::new(vec![field.clone()]);
    let fields = schema.flattened_fields().into_iter();
    fields.filter(|field| matches!(field.data_type(), DataType::Dictionary(..))).count() as u64
}
