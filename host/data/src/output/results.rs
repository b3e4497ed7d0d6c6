//! What a call of `run` receives, and the trait that takes what it returns.

use crate::model::Failure;
use arrow::buffer::Buffer;

/// The data for `run`.
#[derive(Clone, Copy, Debug)]
pub enum MiniBatchData<'a> {
    /// Files, as guest paths.
    Files(&'a [String]),
    /// A table, as an Arrow IPC stream in pieces.
    Table(&'a [Buffer]),
    /// No data.
    Void,
}

/// Takes results as the guest returns them.
pub trait ResultSink {
    /// Takes one row of text.
    fn row(&mut self, row: &str);
    /// The results are this number of outcomes; calls of [`ResultSink::row`] and [`ResultSink::failed`]
    /// follow. This is called first, and only if results come in this form.
    fn outcomes(&mut self, _count: usize) {}
    /// The item at `index` failed.
    fn failed(&mut self, index: usize, reason: &str);
    /// Takes an Arrow IPC stream.
    ///
    /// # Errors
    /// If the stream is invalid.
    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure>;
}
