//! The messages about who leads a job: between leaders and agents, which may take over, and between agents and
//! those that submit jobs to them.

use sandmill_model::ContentRef;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The subject of [`LeadNews`].
pub const LEADS: &str = "sandmill.leads";

/// The subject of a [`Submission`].
pub const SUBMITS: &str = "sandmill.submits";

/// The most bytes of settings in a message. Messages of NATS have at most 1 MB.
pub(crate) const MAX_SETTINGS: usize = 256 << 10;

/// The subject of [answers](SubmitAnswer) to a submission. The agent's id is the last part.
pub fn to_submitter(submission: &str, agent: &str) -> String {
    format!("sandmill.submitter.{submission}.{agent}")
}

/// A job, as another process needs it to lead the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobToLead {
    /// The job's name.
    pub job: String,
    /// The path of the job file on the submitter's machine. Absolute.
    pub file: PathBuf,
    /// Settings given in addition to the file.
    pub overrides: Vec<(String, String)>,
    /// The job's folder in its store.
    pub store: PathBuf,
    /// What the process needs of the job, in the job's store. `None` if an earlier version has begun the job: then the process
    /// reads the job file.
    pub source: Option<SourceToFetch>,
    /// How long a node may be silent.
    pub node_timeout: Duration,
}

impl JobToLead {
    /// Whether the settings are too large for one message.
    pub fn is_too_large(&self) -> bool {
        let sizes = self.overrides.iter().map(|(key, value)| key.len() + value.len());
        sizes.sum::<usize>() > MAX_SETTINGS
    }
}

/// What a process needs of a job, in the job's store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceToFetch {
    /// The job store: a folder or an address, as in the job file.
    pub store: String,
    /// The job's tenant.
    pub tenant: String,
    /// The texts of the job.
    pub content: ContentRef,
}

/// What all agents learn about leaders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeadNews {
    /// From a leader, at intervals: it leads a job.
    Leads(Box<Leads>),
    /// From a leader: it has ended as it should, so no agent takes over.
    Over {
        /// The id of the run.
        run: String,
        /// As in [`Leads::epoch`].
        epoch: u64,
    },
    /// From an agent: the leader that it has started no longer runs, and the job has not ended.
    Gone {
        /// The id of the run.
        run: String,
        /// As in [`Leads::epoch`].
        epoch: u64,
    },
}

/// A leader says that it leads a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leads {
    /// [`BUS_PROTOCOL`](super::BUS_PROTOCOL).
    pub protocol: u32,
    /// The version of Sandmill.
    pub version: String,
    /// The id of the run.
    pub run: String,
    /// The number of the record with which the leader began in the run's commit log. A later leader has a higher
    /// number.
    pub epoch: u64,
    /// The name of the leader's machine, for people.
    pub machine: String,
    /// The id of the agent that started the leader. `None` if a user did.
    pub agent: Option<String>,
    /// The id of the submission for which the agent started the leader.
    pub submission: Option<String>,
    /// The job.
    pub job: JobToLead,
    /// The ids of agents that may take over, the first one first. Other agents come after them. `None` if no agent
    /// may take over.
    pub successors: Option<Vec<String>>,
}

/// A submitter asks all agents, at intervals: which of them can lead this job?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// [`BUS_PROTOCOL`](super::BUS_PROTOCOL).
    pub protocol: u32,
    /// The version of Sandmill.
    pub version: String,
    /// The submission's id, a random name.
    pub id: String,
    /// The job's folder in its store.
    pub store: PathBuf,
}

/// To one agent, on its own subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// From the agent itself, which tests whether messages arrive.
    Echo,
    /// From a submitter, at intervals: the agent shall start a leader for this job. Only the first of these messages
    /// counts; the agent answers each of them.
    Lead {
        /// The submission's id.
        submission: String,
        /// The job.
        job: Box<JobToLead>,
        /// Whether to start over if the job was run before.
        overwrite: bool,
        /// Whether to reuse the result of a completed run.
        reuse: bool,
    },
}

/// An agent's answer to a submitter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitAnswer {
    /// The name of the agent's machine.
    pub machine: String,
    /// The answer.
    pub state: SubmitState,
}

/// What an agent does about a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubmitState {
    /// It can lead the job.
    Willing {
        /// How many jobs it leads already.
        led: u64,
    },
    /// It cannot lead the job, for this reason.
    Unwilling(String),
    /// The job has a leader already, on this machine.
    HasLeader(String),
    /// The leader's process was started, and does not lead the job yet.
    Starting,
    /// The leader leads the job.
    Leads {
        /// The job directory on the agent's machine.
        job_dir: PathBuf,
    },
    /// The leader's process has ended.
    Ended {
        /// The exit code. `None` if a signal ended it.
        code: Option<i32>,
        /// Its last messages.
        text: String,
    },
}
