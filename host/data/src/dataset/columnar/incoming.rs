//! Reads an Arrow IPC stream while another program writes it. Each record batch becomes one or more
//! mini-batches.

use super::compact::compact;
use super::guard::caught;
use super::ipc::check_bodies;
use super::messages::{MAX_METADATA, columns, message, rows};
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{ArrowStream, DatasetError, fail};
use crate::model::to_usize;
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use arrow::ipc::MessageHeader;
use arrow::ipc::reader::StreamDecoder;
use std::io::Read;
use std::num::NonZeroU64;

/// The first bytes of a message. The length of its head follows, in four bytes.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// How many bytes are reserved at once; more follow as data arrives. A stated length alone must not make us
/// allocate.
const AT_ONCE: u64 = 16 << 20;
/// The maximum number of bytes that are shown of a beginning that is not Arrow.
const SHOWN: usize = 24;

/// The mini-batches of a stream.
pub struct StreamBatches<R> {
    from: R,
    decoder: StreamDecoder,
    most: Option<NonZeroU64>,
    /// The record batch that is being cut, and how many of its rows were taken.
    cut: Option<(RecordBatch, usize)>,
    rows: u64,
    is_begun: bool,
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
    /// `most`: the maximum number of rows in a mini-batch. `None`: each record batch is one mini-batch.
    pub fn new(from: R, most: Option<NonZeroU64>) -> Self {
        let decoder = StreamDecoder::new();
        Self { from, decoder, most, cut: None, rows: 0, is_begun: false }
    }

    /// The next mini-batch. `None` at the end of the stream. Skips record batches without rows.
    ///
    /// # Errors
    /// If the data is not an Arrow IPC stream, is broken, or ends before the end of the stream.
    pub fn next_rows(&mut self) -> Result<Option<IncomingRows>, DatasetError> {
        loop {
            if let Some(rows) = self.next_cut()? {
                return Ok(Some(rows));
            }
            let Some(bytes) = self.next_message()? else { return Ok(None) };
            let decoder = &mut self.decoder;
            let batch = caught(|| {
                let mut bytes = Buffer::from_vec(bytes);
                let decoded = decoder.decode(&mut bytes);
                decoded.map_err(|error| broken("a message that cannot be decoded", &error))
            })?;
            self.cut = batch.map(|batch| (batch, 0));
        }
    }

    fn next_cut(&mut self) -> Result<Option<IncomingRows>, DatasetError> {
        let Some((batch, taken)) = self.cut.take() else { return Ok(None) };
        let left = batch.num_rows() - taken;
        if left == 0 {
            return Ok(None);
        }
        let most = self.most.map_or(usize::MAX, |most| to_usize(most.get()));
        let count = left.min(most);
        let table = caught(|| {
            let part = if count == batch.num_rows() {
                batch.clone()
            } else {
                compact(&batch.slice(taken, count))
            };
            let table = ArrowStream::of(&part, part.schema_ref());
            table.map_err(|error| broken("rows that cannot be written as Arrow data", &error))
        })?;
        self.cut = (count < left).then_some((batch, taken + count));
        let first = self.rows;
        self.rows += count as u64;
        Ok(Some(IncomingRows { table, first, count: count as u64 }))
    }

    /// The next whole message. `None` at the end of the stream.
    fn next_message(&mut self) -> Result<Option<Vec<u8>>, DatasetError> {
        let mut bytes = Vec::new();
        self.read(&mut bytes, 4)?;
        if !self.is_begun {
            check_start(&bytes)?;
        }
        let is_old = bytes != CONTINUATION;
        if !is_old {
            self.read(&mut bytes, 4)?;
        }
        let length = bytes.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
        if length == 0 {
            return match self.is_begun {
                true => Ok(None),
                false => fail!("is not an Arrow IPC stream: it has no schema"),
            };
        }
        let length = u64::from(length);
        if length > MAX_METADATA {
            return fail!("is broken: the head of a message claims {length} bytes");
        }
        let head = bytes.len();
        self.read(&mut bytes, length)?;
        let body = self.body(&bytes[head..])?;
        let start = bytes.len();
        self.read(&mut bytes, body)?;
        check_message(&bytes[head..start], &bytes[start..])?;
        self.is_begun = true;
        Ok(Some(bytes))
    }

    /// The length of the body that belongs to this head.
    fn body(&self, head: &[u8]) -> Result<u64, DatasetError> {
        let message = message(head)?;
        match (message.header_type(), self.is_begun) {
            (MessageHeader::Schema, false)
            | (MessageHeader::DictionaryBatch | MessageHeader::RecordBatch, true) => {}
            (MessageHeader::Schema, true) => return fail!("is broken: it has two schemas"),
            (_, false) => {
                return fail!("is not an Arrow IPC stream: it does not begin with a schema");
            }
            (other, true) => return fail!("has a message of an unknown kind: {other:?}"),
        }
        match u64::try_from(message.bodyLength()) {
            Ok(length) if length <= MAX_SLICE => Ok(length),
            Ok(length) => fail!(
                "has a record batch of {length} bytes, and at most {MAX_SLICE} can be read; write \
                 it in smaller batches"
            ),
            Err(_) => fail!("is broken: a message claims {} bytes", message.bodyLength()),
        }
    }

    /// Reads `count` bytes and appends them.
    fn read(&mut self, bytes: &mut Vec<u8>, count: u64) -> Result<(), DatasetError> {
        bytes.reserve(to_usize(count.min(AT_ONCE)));
        match (&mut self.from).take(count).read_to_end(bytes) {
            Ok(read) if read as u64 == count => Ok(()),
            Ok(0) if bytes.is_empty() && !self.is_begun => {
                fail!("is empty: an Arrow IPC stream has a schema at least")
            }
            Ok(_) => fail!(
                "is cut off after {} rows: it ends without an end-of-stream mark, which the program \
                 that writes it puts there when it closes the stream",
                self.rows
            ),
            Err(error) => fail!("cannot be read: {error}"),
        }
    }
}

fn broken(what: &str, error: &ArrowError) -> DatasetError {
    DatasetError(format!("has {what}: {error}"))
}

/// Fails if the first four bytes do not begin an Arrow IPC stream. The message names what they begin.
fn check_start(bytes: &[u8]) -> Result<(), DatasetError> {
    let length = bytes.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    if bytes == CONTINUATION || u64::from(length) <= MAX_METADATA {
        return Ok(());
    }
    let shown: String =
        bytes.iter().take(SHOWN).flat_map(|byte| byte.escape_ascii()).map(char::from).collect();
    let what = match bytes {
        b"ARRO" => {
            "it is an Arrow file, and not a stream: write it with pyarrow.ipc.new_stream".to_owned()
        }
        b"PAR1" => "it is a Parquet file: read it, and write its rows with pyarrow.ipc.new_stream"
            .to_owned(),
        _ => format!("it begins with \"{shown}\"; write it with pyarrow.ipc.new_stream"),
    };
    fail!("is not an Arrow IPC stream: {what}")
}

/// Checks what a message says about itself before the decoder relies on it.
fn check_message(head: &[u8], body: &[u8]) -> Result<(), DatasetError> {
    let message = message(head)?;
    match message.header_type() {
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch();
            rows(batch.map_or(0, |batch| batch.length()))?;
            check_bodies(batch, body)
        }
        MessageHeader::DictionaryBatch => {
            let values = message.header_as_dictionary_batch().and_then(|batch| batch.data());
            rows(values.map_or(0, |batch| batch.length()))?;
            check_bodies(values, body)
        }
        _ => columns(message.header_as_schema()).map(drop),
    }
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
