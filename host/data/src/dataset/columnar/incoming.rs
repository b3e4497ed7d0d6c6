//! Reads an Arrow IPC stream while another program writes it. Each record batch becomes one or more
//! mini-batches.

use super::compact::compact;
use super::guard::caught;
use super::ipc::check_buffers;
use super::messages::{MAX_METADATA, parse_message, parse_schema, row_count};
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{ArrowStream, DatasetError, err};
use crate::model::to_usize;
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use arrow::ipc::MessageHeader;
use arrow::ipc::reader::StreamDecoder;
use std::io::Read;
use std::num::NonZeroU64;

/// The continuation marker: the first bytes of a message. The length of the metadata follows, in four bytes.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The maximum number of bytes that we allocate before data arrives: a large stated length alone must not
/// make us allocate memory.
const MAX_RESERVED_BYTES: u64 = 16 << 20;
/// How many bytes an error message shows of data that is not Arrow.
const SHOWN_BYTES: usize = 24;

/// The mini-batches of a stream.
pub struct StreamBatches<R> {
    source: R,
    decoder: StreamDecoder,
    /// The maximum number of rows in a mini-batch. `None`: each record batch is one mini-batch.
    max_rows: Option<NonZeroU64>,
    /// The current record batch, and how many of its rows are in earlier mini-batches.
    current: Option<(RecordBatch, usize)>,
    /// The number of rows in all earlier mini-batches.
    rows: u64,
    /// Whether the schema has been read.
    has_schema: bool,
}

/// The rows of a mini-batch.
#[derive(Debug)]
pub struct IncomingRows {
    /// The rows in the form that the guest receives.
    pub table: ArrowStream,
    /// The index of the first row in the whole stream.
    pub first: u64,
    /// The number of rows: at least one.
    pub count: u64,
}

impl<R: Read> StreamBatches<R> {
    /// Reads a stream from `source`. `max_rows` is the maximum number of rows in a mini-batch. If it is
    /// `None`, each record batch is one mini-batch.
    pub fn new(source: R, max_rows: Option<NonZeroU64>) -> Self {
        let decoder = StreamDecoder::new();
        Self { source, decoder, max_rows, current: None, rows: 0, has_schema: false }
    }

    /// The next mini-batch. `None` at the end of the stream. Skips record batches without rows.
    ///
    /// # Errors
    /// If the data is not an Arrow IPC stream, is broken, or ends before the end of the stream.
    pub fn next_rows(&mut self) -> Result<Option<IncomingRows>, DatasetError> {
        loop {
            if let Some(rows) = self.next_of_current()? {
                return Ok(Some(rows));
            }
            let Some(bytes) = self.next_message()? else { return Ok(None) };
            let decoder = &mut self.decoder;
            let batch = caught(|| {
                let mut bytes = Buffer::from_vec(bytes);
                let decoded = decoder.decode(&mut bytes);
                decoded.map_err(|error| broken("a message that cannot be decoded", &error))
            })?;
            self.current = batch.map(|batch| (batch, 0));
        }
    }

    /// The next mini-batch of the current record batch. `None` if it has no more rows.
    fn next_of_current(&mut self) -> Result<Option<IncomingRows>, DatasetError> {
        let Some((batch, taken)) = self.current.take() else { return Ok(None) };
        let left = batch.num_rows() - taken;
        if left == 0 {
            return Ok(None);
        }
        let max_rows = self.max_rows.map_or(usize::MAX, |rows| to_usize(rows.get()));
        let count = left.min(max_rows);
        let table = caught(|| {
            let part = if count == batch.num_rows() {
                batch.clone()
            } else {
                compact(&batch.slice(taken, count))
            };
            let table = ArrowStream::from_batch(&part, part.schema_ref());
            table.map_err(|error| broken("rows that cannot be written as Arrow data", &error))
        })?;
        self.current = (count < left).then_some((batch, taken + count));
        let first = self.rows;
        self.rows += count as u64;
        Ok(Some(IncomingRows { table, first, count: count as u64 }))
    }

    /// The next whole message. `None` at the end of the stream.
    fn next_message(&mut self) -> Result<Option<Vec<u8>>, DatasetError> {
        let mut bytes = Vec::new();
        self.read(&mut bytes, 4)?;
        if !self.has_schema {
            check_start(&bytes)?;
        }
        // Old writers leave out the continuation marker.
        if bytes == CONTINUATION {
            self.read(&mut bytes, 4)?;
        }
        let length = bytes.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
        if length == 0 {
            return match self.has_schema {
                true => Ok(None),
                false => err!("is not an Arrow IPC stream: it has no schema"),
            };
        }
        let length = u64::from(length);
        if length > MAX_METADATA {
            return err!("is broken: the metadata of a message claims {length} bytes");
        }
        let metadata_start = bytes.len();
        self.read(&mut bytes, length)?;
        let body_bytes = self.body_length(&bytes[metadata_start..])?;
        let body_start = bytes.len();
        self.read(&mut bytes, body_bytes)?;
        check_message(&bytes[metadata_start..body_start], &bytes[body_start..])?;
        self.has_schema = true;
        Ok(Some(bytes))
    }

    /// The length of the body of the message with this metadata. Fails if the stream may not have a
    /// message of this kind at this point.
    fn body_length(&self, metadata: &[u8]) -> Result<u64, DatasetError> {
        let message = parse_message(metadata)?;
        match (message.header_type(), self.has_schema) {
            (MessageHeader::Schema, false)
            | (MessageHeader::DictionaryBatch | MessageHeader::RecordBatch, true) => {}
            (MessageHeader::Schema, true) => return err!("is broken: it has two schemas"),
            (_, false) => {
                return err!("is not an Arrow IPC stream: it does not begin with a schema");
            }
            (other, true) => return err!("has a message of an unknown kind: {other:?}"),
        }
        match u64::try_from(message.bodyLength()) {
            Ok(length) if length <= MAX_SLICE => Ok(length),
            Ok(length) => err!(
                "has a record batch of {length} bytes, and at most {MAX_SLICE} can be read; write \
                 it in smaller batches"
            ),
            Err(_) => err!("is broken: a message claims {} bytes", message.bodyLength()),
        }
    }

    /// Reads `count` bytes and appends them.
    fn read(&mut self, bytes: &mut Vec<u8>, count: u64) -> Result<(), DatasetError> {
        bytes.reserve(to_usize(count.min(MAX_RESERVED_BYTES)));
        match (&mut self.source).take(count).read_to_end(bytes) {
            Ok(read) if read as u64 == count => Ok(()),
            Ok(0) if bytes.is_empty() && !self.has_schema => {
                err!("is empty: an Arrow IPC stream has at least a schema")
            }
            Ok(_) => err!(
                "is cut off after {} rows: it ends without an end-of-stream mark, which a program writes \
                 when it closes the stream",
                self.rows
            ),
            Err(error) => err!("cannot be read: {error}"),
        }
    }
}

/// The error for a stream that has this `problem`, such as "a message that cannot be decoded".
fn broken(problem: &str, error: &ArrowError) -> DatasetError {
    DatasetError(format!("has {problem}: {error}"))
}

/// Fails if an Arrow IPC stream cannot begin with these four bytes. The error says which format
/// begins like this.
fn check_start(bytes: &[u8]) -> Result<(), DatasetError> {
    let length = bytes.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    if bytes == CONTINUATION || u64::from(length) <= MAX_METADATA {
        return Ok(());
    }
    let shown: String = bytes
        .iter()
        .take(SHOWN_BYTES)
        .flat_map(|byte| byte.escape_ascii())
        .map(char::from)
        .collect();
    let advice = match bytes {
        b"ARRO" => {
            "it is an Arrow file, and not a stream: write it with pyarrow.ipc.new_stream".to_owned()
        }
        b"PAR1" => "it is a Parquet file: read it, and write its rows with pyarrow.ipc.new_stream"
            .to_owned(),
        _ => format!("it begins with \"{shown}\"; write it with pyarrow.ipc.new_stream"),
    };
    err!("is not an Arrow IPC stream: {advice}")
}

/// Checks the counts and lengths in a message's metadata before the decoder relies on them.
fn check_message(metadata: &[u8], body: &[u8]) -> Result<(), DatasetError> {
    let message = parse_message(metadata)?;
    match message.header_type() {
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch();
            row_count(batch.map_or(0, |batch| batch.length()))?;
            check_buffers(batch, body)
        }
        MessageHeader::DictionaryBatch => {
            let values = message.header_as_dictionary_batch().and_then(|batch| batch.data());
            row_count(values.map_or(0, |batch| batch.length()))?;
            check_buffers(values, body)
        }
        _ => parse_schema(message.header_as_schema()).map(drop),
    }
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
