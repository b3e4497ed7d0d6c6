//! How a node makes rows and files durable before it reports them.

use super::agent_error::AgentError;
use super::preparing::PreparedPart;
use super::upload::ResultUpload;
use crate::bus::FromNode;
use crate::model::FailureKind;
use crate::protocol::{NodeNews, NodeReport};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How rows and files are made durable before they are reported.
#[derive(Clone, Debug)]
pub(super) enum Durable {
    /// The folder of the workers' folders, which all machines share. It stays open, so that no error of a write is missed.
    Folder(Arc<File>, PathBuf),
    /// The job's store. The number is that of the next pack.
    Store(ResultUpload, u64),
}

/// What became durable: reports that were waiting for it.
pub(super) type DurableReports = Result<Vec<FromNode>, AgentError>;

impl Durable {
    /// For the files of this part. `rows`: the folder of its rows in the store. `patience`: how long the store may fail.
    pub(super) fn new(
        prepared: &PreparedPart,
        rows: String,
        patience: Duration,
    ) -> Result<Self, AgentError> {
        let PreparedPart { folder, objects, is_folder_own, .. } = prepared;
        if *is_folder_own {
            let upload = ResultUpload::new(objects.clone(), rows, folder.clone(), patience);
            return Ok(Self::Store(upload, 0));
        }
        let path = folder.work();
        let opened = File::open(&path);
        let opened = opened.map_err(|source| AgentError::Sync { folder: path.clone(), source })?;
        Ok(Self::Folder(Arc::new(opened), path))
    }

    /// Makes the rows and files durable of which these messages speak. Returns the messages with which to report them.
    pub(super) fn make_durable(self, messages: Vec<FromNode>, with_logs: bool) -> DurableReports {
        match self {
            Self::Folder(opened, folder) => {
                let synced = rustix::fs::syncfs(&opened);
                synced.map_err(|errno| AgentError::Sync { folder, source: errno.into() })?;
                Ok(messages)
            }
            Self::Store(upload, first) => upload.store_all(messages, first, with_logs),
        }
    }
}

/// The message of an attempt that has failed because the disk is full.
pub(super) fn full_disk(report: &NodeReport) -> Option<String> {
    let failure = match report {
        NodeReport::News(NodeNews::Finished { report, .. }) => report.outcome.as_ref().err()?,
        NodeReport::News(NodeNews::InitFailed { failure, .. }) => failure,
        _ => return None,
    };
    (failure.kind == FailureKind::NoSpace).then(|| failure.message.clone())
}

/// Whether a report says that a worker has left rows or files.
pub(super) fn has_results(report: &NodeReport) -> bool {
    match report {
        NodeReport::News(NodeNews::Finished { report, .. }) => report.outcome.is_ok(),
        NodeReport::WorkerDone(_) => true,
        _ => false,
    }
}
