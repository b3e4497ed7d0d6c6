//! Arrow IPC on its way to the guest.

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamEncoder;

/// An Arrow IPC stream in pieces: what a table holds lies where it was decoded to, and is copied once, into the
/// guest's memory.
#[derive(Clone, Debug, Default)]
pub struct Stream(Vec<Buffer>);

impl Stream {
    /// Schema, dictionaries, one record batch, end.
    pub(in crate::dataset) fn of(batch: &RecordBatch, schema: &Schema) -> Result<Self, ArrowError> {
        let mut encoder = StreamEncoder::try_new(schema)?;
        let mut pieces = encoder.encode(batch)?;
        pieces.extend(encoder.finish()?);
        Ok(Self(pieces))
    }

    /// Lets go of what is in it, so that the memory can serve the next one.
    pub(in crate::dataset) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes another's place.
    pub(in crate::dataset) fn put(&mut self, other: Self) -> &Self {
        *self = other;
        self
    }

    /// The pieces, in their order.
    pub fn pieces(&self) -> &[Buffer] {
        &self.0
    }

    /// All of it in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.iter().map(Buffer::as_slice).collect::<Vec<_>>().concat()
    }
}
