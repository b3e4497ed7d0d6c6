//! How an agent works, and what it wants of its parts in jobs.

use super::disk_watch::DiskWatch;
use crate::bus::Broker;
use crate::engine::{JobFile, SearchedStore};
use crate::node::NodeOptions;
use crate::spec::{GivenJob, JobSpec, OperatorPolicy};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Reads the job of another machine, under a policy. The error is a text for the user.
pub(crate) type LoadJob =
    Arc<dyn Fn(&JobFile, &GivenJob, &OperatorPolicy) -> Result<JobSpec, String> + Send + Sync>;

/// How an agent works.
#[derive(Clone)]
pub(crate) struct AgentOptions {
    pub(crate) broker: Broker,
    /// The agent's name, for users.
    pub(crate) name: String,
    /// What concerns this machine.
    pub(crate) node: NodeOptions,
    /// The most jobs at the same time.
    pub(crate) max_jobs: usize,
    /// The folder for entry scripts, and for the files of workers of jobs whose store is at an address. `None` if it is
    /// unknown.
    pub(crate) work_dir: Option<PathBuf>,
    /// Whether the machine has room for more work.
    pub(crate) disk: DiskWatch,
    /// How long workers may run without a leader.
    pub(crate) leader_patience: Duration,
    /// How the agent leads jobs. `None` if it leads none.
    pub(crate) leading: Option<LeadingOptions>,
    /// The agent's id, if leaders may name it as their successor.
    pub(crate) may_lead: Option<String>,
    /// Receives lines for the operator.
    pub(crate) say: Arc<dyn Fn(&str) + Send + Sync>,
}

/// How an agent leads jobs.
#[derive(Clone, Debug)]
pub(crate) struct LeadingOptions {
    /// The most jobs at the same time.
    pub(crate) max_jobs: usize,
    /// The folder of the job directories.
    pub(crate) root: PathBuf,
    /// Options of `sandmill run` that concern this machine.
    pub(crate) words: Vec<String>,
    /// Job stores in which the agent looks for jobs without a leader.
    pub(crate) stores: Vec<SearchedStore>,
}

/// What the agent wants of its part in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To take part.
    TakePart,
    /// To take part again, if the part has ended its workers: the leader wants nodes again.
    Renew,
    /// To finish what runs, and give back the rest.
    Drain,
    /// To end at once.
    Quit,
}
