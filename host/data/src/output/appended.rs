//! Reads the rows that were appended to a typed output (Parquet or Arrow), message by message.
//!
//! The messages form an Arrow IPC stream: a schema, then the tables of attempts. If a column of an attempt's
//! table is all null, the attempt does not know the column's type. Then the messages of the attempt form an
//! inner stream, with its own schema, in the middle of the outer stream. If all tables are inner streams,
//! there is no outer stream.

use super::common::{common_schema, is_settled, widened};
use super::table_error::AppendedRowsError;
use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::{MessageHeader, root_as_message};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// The continuation marker, which begins each message. The oldest streams lack it.
const CONTINUATION_MARKER: [u8; 4] = [0xff; 4];
/// The end-of-stream marker.
const END_MARKER: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The messages of the appended rows, from a position on.
pub(super) struct Messages<S> {
    source: BufReader<S>,
    bytes_left: u64,
}

enum AppendedMessage {
    Schema(Arc<Schema>, Buffer),
    /// Rows, or a dictionary.
    Values(Buffer),
    End,
}

impl<S: Read + Seek> Messages<S> {
    /// All messages, from the beginning. Fails if the source cannot be read.
    pub(super) fn new(mut source: S) -> Result<Self, AppendedRowsError> {
        let bytes_left = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        Ok(Self { source: BufReader::with_capacity(BUFFER_BYTES, source), bytes_left })
    }

    /// One schema that fits all tables; `None` if there is no table. Fails if no schema fits all tables.
    pub(super) fn schema(mut self) -> Result<Option<SchemaRef>, AppendedRowsError> {
        let mut found: Option<Arc<Schema>> = None;
        while let Some(message) = self.next(false)? {
            let AppendedMessage::Schema(schema, _) = message else { continue };
            if found.is_none() && is_settled(&schema) {
                return Ok(Some(schema));
            }
            let Some(known) = found.take() else {
                found = Some(schema);
                continue;
            };
            let common = if known == schema {
                Some(known)
            } else {
                common_schema(&known, &schema).map(Arc::new)
            };
            found = Some(common.ok_or(AppendedRowsError::Columns)?);
        }
        Ok(found)
    }

    /// Passes the rows to `take`, batch by batch, with these columns. Fails if the rows cannot be read, or if
    /// `take` fails.
    pub(super) fn for_each_batch<E: From<AppendedRowsError>>(
        mut self,
        schema: &SchemaRef,
        mut take: impl FnMut(RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut outer, mut inner): (Option<StreamDecoder>, Option<StreamDecoder>) = (None, None);
        let mut decode = |decoder: &mut StreamDecoder, mut bytes: Buffer| -> Result<(), E> {
            while !bytes.is_empty() {
                let Some(batch) = decoder.decode(&mut bytes).map_err(AppendedRowsError::Arrow)?
                else {
                    continue;
                };
                if batch.schema_ref() == schema {
                    take(batch)?;
                } else {
                    take(widened(&batch, schema).map_err(AppendedRowsError::Arrow)?)?;
                }
            }
            Ok(())
        };
        // The decoder returns a message without a body only when more bytes follow.
        let end_marker = || Buffer::from(&END_MARKER);
        while let Some(message) = self.next(true)? {
            let (decoder, bytes) = match message {
                AppendedMessage::Schema(found, bytes) if outer.is_none() && is_settled(&found) => {
                    (outer.insert(StreamDecoder::new()), bytes)
                }
                AppendedMessage::Schema(_, bytes) => {
                    if let Some(mut previous) = inner.take() {
                        decode(&mut previous, end_marker())?;
                    }
                    (inner.insert(StreamDecoder::new()), bytes)
                }
                AppendedMessage::Values(bytes) => {
                    let decoder = inner.as_mut().or(outer.as_mut());
                    (decoder.ok_or(AppendedRowsError::NoSchema)?, bytes)
                }
                AppendedMessage::End => {
                    if let Some(mut previous) = inner.take() {
                        decode(&mut previous, end_marker())?;
                    }
                    continue;
                }
            };
            decode(decoder, bytes)?;
        }
        for mut last in inner.into_iter().chain(outer) {
            decode(&mut last, end_marker())?;
        }
        Ok(())
    }

    /// The next message. If `with_bytes` is false, the message is returned without its bytes.
    fn next(&mut self, with_bytes: bool) -> Result<Option<AppendedMessage>, AppendedRowsError> {
        if self.bytes_left == 0 {
            return Ok(None);
        }
        let mut word = [0; 4];
        let mut prefix = Vec::with_capacity(8);
        self.read(&mut word)?;
        if word == CONTINUATION_MARKER {
            prefix.extend_from_slice(&word);
            self.read(&mut word)?;
        }
        prefix.extend_from_slice(&word);
        let length = u64::from(u32::from_le_bytes(word));
        if length == 0 {
            return Ok(Some(AppendedMessage::End));
        }
        let mut bytes = MutableBuffer::from_len_zeroed(self.checked_length(length)?);
        self.read(&mut bytes)?;
        let message = root_as_message(&bytes)
            .map_err(|error| AppendedRowsError::NoMessage { why: error.to_string() })?;
        let body =
            u64::try_from(message.bodyLength()).map_err(|_| AppendedRowsError::NegativeLength)?;
        let schema = match message.header_as_schema() {
            Some(schema) if message.header_type() == MessageHeader::Schema => {
                Some(try_fb_to_schema(schema)?)
            }
            _ => None,
        };
        let body = self.checked_length(body)?;
        if !with_bytes {
            self.source.seek_relative(i64::try_from(body)?)?;
            self.bytes_left -= body as u64;
            let bytes = Buffer::from(&[]);
            return Ok(Some(match schema {
                Some(schema) => AppendedMessage::Schema(Arc::new(schema), bytes),
                None => AppendedMessage::Values(bytes),
            }));
        }
        let body_start = prefix.len() + bytes.len();
        let mut whole = MutableBuffer::from_len_zeroed(body_start + body);
        whole[..prefix.len()].copy_from_slice(&prefix);
        whole[prefix.len()..body_start].copy_from_slice(&bytes);
        self.read(&mut whole[body_start..])?;
        Ok(Some(match schema {
            Some(schema) => AppendedMessage::Schema(Arc::new(schema), whole.into()),
            None => AppendedMessage::Values(whole.into()),
        }))
    }

    /// `length` as a `usize`. Fails if fewer bytes are left.
    fn checked_length(&self, length: u64) -> Result<usize, AppendedRowsError> {
        let checked = usize::try_from(length).ok().filter(|_| length <= self.bytes_left);
        checked.ok_or(AppendedRowsError::Cut)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), AppendedRowsError> {
        self.checked_length(bytes.len() as u64)?;
        self.source.read_exact(bytes)?;
        self.bytes_left -= bytes.len() as u64;
        Ok(())
    }
}
