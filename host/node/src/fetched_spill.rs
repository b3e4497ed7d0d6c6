//! Copies of what mini-batches read of the planner's files, on a machine that runs workers for a leader on another machine.
//! The crate that connects leader and nodes fetches them from the job's store.

use crate::model::StoredSpill;
use std::fmt::Debug;
use tokio::sync::mpsc::UnboundedReceiver;

/// Fetches copies into the folder from which workers read. The names of their files are [`local_name`] and
/// [`local_names`].
pub trait FetchSpill: Debug + Send {
    /// Begins to fetch a copy. The number is that of the request.
    fn fetch(&mut self, number: u64, spill: StoredSpill);

    /// Removes a copy, or ends fetching it. Does nothing if there is no request of this number.
    fn release(&mut self, number: u64);
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillArrival {
    /// The number of the request.
    pub number: u64,
    /// Why there is no copy. `None` if it is complete.
    pub failed: Option<SpillFailure>,
}

/// Why a copy could not be made. The texts are for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpillFailure {
    /// The disk of this machine is full.
    NoSpace(String),
    /// The bytes cannot be fetched, or are not those that the leader has stored.
    Unfetched(String),
}

/// What fetches copies, and what it has done.
#[derive(Debug)]
pub struct SpillCopies {
    /// Does it.
    pub fetcher: Box<dyn FetchSpill>,
    /// The ends of its requests.
    pub arrivals: UnboundedReceiver<SpillArrival>,
}

/// The name of the copy that a request makes, in the folder from which workers read.
pub fn local_name(number: u64) -> String {
    number.to_string()
}

/// The name of the copy of the file with the names of input files. Many mini-batches use it.
pub fn local_names(spill: &StoredSpill) -> String {
    let Some([names, _]) = &spill.names else { return String::new() };
    format!("names-{}-{}-{}", names.epoch, names.object, names.offset)
}

/// The next arrival. Without copies, there is none.
pub(super) async fn next_arrival(copies: &mut Option<SpillCopies>) -> Option<SpillArrival> {
    copies.as_mut()?.arrivals.recv().await
}
