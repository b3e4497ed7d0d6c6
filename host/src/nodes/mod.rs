//! Connects a leader to nodes on other machines through a broker. The leader's side is [`RemoteNodes`], and that of
//! a node is an [agent](run_agent), which runs a [part of a job](job_part) for each job that it takes part in.

mod agent;
mod agent_error;
mod agent_options;
mod job_part;
mod logs;
mod preparing;
mod proof;
mod remote_node;
mod remote_nodes;
mod reports;

pub(crate) use agent::run_agent;
pub(crate) use agent_options::AgentOptions;
pub(crate) use remote_nodes::RemoteNodes;
