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
    /// Announces that the results are this number of outcomes: for each of them, a call of
    /// [`ResultSink::row`] or [`ResultSink::failed`] follows. Not called if the results have another form.
    fn outcomes(&mut self, _count: usize) {}
    /// The item at `index` failed.
    fn failed(&mut self, index: usize, reason: &str);
    /// Takes an Arrow IPC stream.
    ///
    /// # Errors
    /// If the stream is invalid.
    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure>;
}
