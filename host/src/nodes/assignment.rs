//! What an agent tells a process that it starts to lead a job.

use crate::bus::SourceToFetch;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The hidden command of such a process. It reads a [`LeadTask`] from standard input.
pub(crate) const LEAD_COMMAND: &str = "lead-job";

/// For which agent a process leads a job, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The agent's id.
    pub(crate) agent: String,
    /// The name of the agent's machine, for people.
    pub(crate) machine: String,
    /// The id of the submission. `None` if no user has submitted the job to this agent.
    pub(crate) submission: Option<String>,
    /// The id of the run whose leader is lost. `None` if there was no leader.
    pub(crate) take_over: Option<String>,
}

/// What the process does. As JSON. It is not on the command line, because other users can read that: a setting or the
/// broker's address may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeadTask {
    /// The command line of `sandmill run`, without the broker.
    pub(crate) words: Vec<String>,
    /// As in [`Broker`](crate::bus::Broker).
    pub(crate) broker: String,
    /// As in [`Broker`](crate::bus::Broker).
    pub(crate) broker_credentials: Option<PathBuf>,
    /// As in [`Broker`](crate::bus::Broker).
    pub(crate) broker_ca: Option<PathBuf>,
    /// The agent's process. The leader ends with it.
    pub(crate) parent: u32,
    /// For which agent the process leads the job.
    pub(crate) assignment: Assignment,
    /// What the process fetches first. `None` if it reads the job file on this machine.
    pub(crate) source: Option<LeadSource>,
}

/// What a process needs of the job that it leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeadSource {
    /// The job's name.
    pub(crate) job: String,
    /// Where it is.
    pub(crate) from: SourceToFetch,
    /// The folder for the entry script's files. `None` if it is unknown.
    pub(crate) work_dir: Option<PathBuf>,
}
