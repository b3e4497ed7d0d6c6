//! Reads the rows that were appended to a typed output, message by message.
//!
//! They form an Arrow IPC stream: a schema, then the tables of attempts. If an attempt's table has an
//! all-null column, the attempt does not know the column's type. Its messages then form a whole stream, with
//! its own schema, in the middle of the outer one. If all tables are such streams, there is no outer stream.

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
const BUFFER: usize = 1 << 20;
/// The beginning of a message; older streams lack it.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The end-of-stream marker.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The messages of the appended rows, from a position on.
pub(super) struct Messages<S> {
    source: BufReader<S>,
    /// The number of bytes left.
    left: u64,
}

/// One message.
enum AppendedMessage {
    Schema(Arc<Schema>, Buffer),
    /// Rows, or a dictionary.
    Values(Buffer),
    End,
}

impl<S: Read + Seek> Messages<S> {
    /// All messages, from the beginning. Fails if the source cannot be read.
    pub(super) fn new(mut source: S) -> Result<Self, AppendedRowsError> {
        let left = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        Ok(Self { source: BufReader::with_capacity(BUFFER, source), left })
    }

    /// The columns that all tables have in common; `None` if there is no table. Fails if the tables have no
    /// common columns.
    pub(super) fn schema(mut self) -> Result<Option<SchemaRef>, AppendedRowsError> {
        let mut all: Option<Arc<Schema>> = None;
        while let Some(message) = self.next(false)? {
            let AppendedMessage::Schema(schema, _) = message else { continue };
            if all.is_none() && is_settled(&schema) {
                return Ok(Some(schema));
            }
            let Some(known) = all.take() else {
                all = Some(schema);
                continue;
            };
            let common = if known == schema {
                Some(known)
            } else {
                common_schema(&known, &schema).map(Arc::new)
            };
            all = Some(common.ok_or(AppendedRowsError::Columns)?);
        }
        Ok(all)
    }

    /// Passes the rows to `take`, batch by batch, with these columns. Fails if they cannot be read, or if
    /// `take` fails.
    pub(super) fn each<E: From<AppendedRowsError>>(
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
        let end = || Buffer::from(&END);
        while let Some(message) = self.next(true)? {
            let (decoder, bytes) = match message {
                AppendedMessage::Schema(found, bytes) if outer.is_none() && is_settled(&found) => {
                    (outer.insert(StreamDecoder::new()), bytes)
                }
                AppendedMessage::Schema(_, bytes) => {
                    if let Some(mut before) = inner.take() {
                        decode(&mut before, end())?;
                    }
                    (inner.insert(StreamDecoder::new()), bytes)
                }
                AppendedMessage::Values(bytes) => {
                    let decoder = inner.as_mut().or(outer.as_mut());
                    (decoder.ok_or(AppendedRowsError::NoSchema)?, bytes)
                }
                AppendedMessage::End => {
                    if let Some(mut before) = inner.take() {
                        decode(&mut before, end())?;
                    }
                    continue;
                }
            };
            decode(decoder, bytes)?;
        }
        for mut last in inner.into_iter().chain(outer) {
            decode(&mut last, end())?;
        }
        Ok(())
    }

    /// The next message. If `whole` is false, the message is returned without its bytes.
    fn next(&mut self, whole: bool) -> Result<Option<AppendedMessage>, AppendedRowsError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut word = [0; 4];
        let mut prefix = Vec::with_capacity(8);
        self.read(&mut word)?;
        if word == CONTINUATION {
            prefix.extend_from_slice(&word);
            self.read(&mut word)?;
        }
        prefix.extend_from_slice(&word);
        let length = u64::from(u32::from_le_bytes(word));
        if length == 0 {
            return Ok(Some(AppendedMessage::End));
        }
        let mut bytes = MutableBuffer::from_len_zeroed(self.room(length)?);
        self.read(&mut bytes)?;
        let message = root_as_message(&bytes)
            .map_err(|error| AppendedRowsError::NoMessage { why: error.to_string() })?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| AppendedRowsError::NoLength)?;
        let schema = match message.header_as_schema() {
            Some(schema) if message.header_type() == MessageHeader::Schema => {
                Some(try_fb_to_schema(schema)?)
            }
            _ => None,
        };
        let body = self.room(body)?;
        if !whole {
            self.source.seek_relative(i64::try_from(body)?)?;
            self.left -= body as u64;
            let bytes = Buffer::from(&[]);
            return Ok(Some(match schema {
                Some(schema) => AppendedMessage::Schema(Arc::new(schema), bytes),
                None => AppendedMessage::Values(bytes),
            }));
        }
        let start = prefix.len() + bytes.len();
        let mut all = MutableBuffer::from_len_zeroed(start + body);
        all[..prefix.len()].copy_from_slice(&prefix);
        all[prefix.len()..start].copy_from_slice(&bytes);
        self.read(&mut all[start..])?;
        Ok(Some(match schema {
            Some(schema) => AppendedMessage::Schema(Arc::new(schema), all.into()),
            None => AppendedMessage::Values(all.into()),
        }))
    }

    /// Checks that so many bytes are left, and returns the length.
    fn room(&self, length: u64) -> Result<usize, AppendedRowsError> {
        let found = usize::try_from(length).ok().filter(|_| length <= self.left);
        found.ok_or(AppendedRowsError::Cut)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), AppendedRowsError> {
        self.room(bytes.len() as u64)?;
        self.source.read_exact(bytes)?;
        self.left -= bytes.len() as u64;
        Ok(())
    }
}
