//! Writes Arrow IPC streams for the guest.

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamEncoder;

/// An Arrow IPC stream in pieces. The data of a table stays where it was decoded. It is copied only once:
/// into the guest's memory.
#[derive(Clone, Debug, Default)]
pub struct ArrowStream(Vec<Buffer>);

impl ArrowStream {
    /// A stream of a schema, dictionaries, one record batch and the end-of-stream mark.
    pub(in crate::dataset) fn from_batch(
        batch: &RecordBatch,
        schema: &Schema,
    ) -> Result<Self, ArrowError> {
        let mut encoder = StreamEncoder::try_new(schema)?;
        let mut pieces = encoder.encode(batch)?;
        pieces.extend(encoder.finish()?);
        Ok(Self(pieces))
    }

    /// Releases the pieces, so that the next stream can reuse their memory.
    pub(in crate::dataset) fn clear(&mut self) {
        self.0.clear();
    }

    /// Replaces the pieces with those of another stream.
    pub(in crate::dataset) fn replace(&mut self, other: Self) -> &Self {
        *self = other;
        self
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> &[Buffer] {
        &self.0
    }

    /// The whole stream in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.iter().map(Buffer::as_slice).collect::<Vec<_>>().concat()
    }
}
