//! What a call of `run` is given, and who takes what it returns.

use crate::model::Failure;
use arrow::buffer::Buffer;

/// What `run` is called with.
#[derive(Clone, Copy, Debug)]
pub enum MiniBatchData<'a> {
    /// Guest paths.
    Files(&'a [String]),
    /// An Arrow IPC stream, in pieces.
    Table(&'a [Buffer]),
    /// Nothing.
    Void,
}

/// Takes results as they come out of the guest.
pub trait ResultSink {
    /// One row of text.
    fn row(&mut self, row: &str);
    /// Results come as outcomes, so many of them; [`ResultSink::row`] and [`ResultSink::failed`]
    /// follow. Comes first, and only then.
    fn outcomes(&mut self, _count: usize) {}
    /// The item at `index` failed.
    fn failed(&mut self, index: usize, reason: &str);
    /// An Arrow IPC stream.
    ///
    /// # Errors
    /// If it is none.
    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure>;
}
