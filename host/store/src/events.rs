//! The messages between the job, the thread that fetches objects, and the fetcher processes.

use super::process::FetcherReport;
use crate::dataset::ManifestObject;
use crate::protocol::store::UnfetchedObject;
use std::path::PathBuf;

/// A message to the thread that fetches.
#[derive(Debug)]
pub(super) enum StoreEvent {
    /// Requests these files under this number.
    Want(u64, Vec<PathBuf>),
    /// Requests these objects under this number. What is known about each comes with it.
    WantKnown(u64, Vec<(PathBuf, ManifestObject)>),
    /// Drops the requests with these numbers.
    Release(Vec<u64>),
    /// The process of a folder reported something. The first number is the folder's index, the second one
    /// identifies the process.
    Reported(usize, u64, FetcherReport),
    /// The job is over.
    End,
}

/// A report to the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingReport {
    /// The request with this number is complete: all its objects are here or cannot be fetched. Those that
    /// cannot be fetched are given by their positions in the request's list.
    Ready(u64, Vec<UnfetchedObject>),
    /// Some data has arrived.
    Progress,
    /// The disk is full: nothing more arrives, and no object counts as failed. Holds the message.
    NoSpace(String),
}
