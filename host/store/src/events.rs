//! The messages between the job, the thread that fetches objects, and the fetcher processes.

use super::process::FetcherReport;
use std::path::PathBuf;

/// A message to the thread that fetches.
#[derive(Debug)]
pub(super) enum StoreEvent {
    /// Requests these files under this number.
    Want(u64, Vec<PathBuf>),
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
    /// cannot be fetched are given by their positions in the request's list, each with the reason.
    Ready(u64, Vec<(u32, String)>),
    /// Some data has arrived.
    Progress,
    /// The disk is full: nothing more arrives, and no object counts as failed. Holds the message.
    NoSpace(String),
}
