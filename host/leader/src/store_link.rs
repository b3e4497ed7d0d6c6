//! What a running job does in its store for other machines: it copies its logs there, and reads requests to cancel it.

use super::cancel_requests::{CancelRequests, CancelWatch};
use super::job::PreparedJob;
use super::shared_logs::{LogSharing, Shared};
use crate::cancel::Cancel;
use crate::journal::directory_id;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The threads of a running job that connect it to other machines through its store.
#[derive(Debug)]
pub(super) struct StoreLink {
    _cancels: Option<CancelWatch>,
    logs: Option<LogSharing>,
    notices: UnboundedReceiver<String>,
}

impl StoreLink {
    /// Begins to serve other machines. If there is a request to cancel the job, this cancels it. `epoch`: the number
    /// of the record with which this leader began. `None` if the job has no store.
    pub(super) fn begin<N>(job: &PreparedJob<N>, epoch: u64, cancel: &Cancel) -> Option<Self> {
        let store = job.store.as_ref()?.logs().store();
        let requests = CancelRequests::of_run(store, &job.run);
        let cancels = CancelWatch::start(requests, job.claim.cancels_from(), cancel.clone());
        let (sender, notices) = unbounded_channel();
        let shared = Shared {
            store,
            run: &job.run,
            epoch,
            job_dir: &job.job_dir,
            directory: directory_id(&job.job_dir.journal()),
            // The logs of nodes that share no folder are in the log tree, too.
            has_workers: job.remote.as_ref().is_none_or(|remote| !remote.is_folder_shared),
        };
        Some(Self { _cancels: cancels, logs: LogSharing::start(shared, sender), notices })
    }

    /// The next line for the user. The future can be dropped while it waits.
    pub(super) async fn next_notice(link: &mut Option<Self>) -> String {
        let notice = match link {
            Some(link) => link.notices.recv().await,
            None => None,
        };
        match notice {
            Some(notice) => notice,
            None => std::future::pending().await,
        }
    }

    /// Copies the last logs. Call this after the job's last event. `publishes`: whether this process goes on to publish
    /// the job's results.
    pub(super) fn end(self, publishes: bool) {
        if let Some(logs) = self.logs {
            logs.finish(publishes);
        }
    }
}
