//! Connects a leader to nodes on other machines through a broker. The leader's side is [`RemoteNodes`], and that of
//! a node is an [agent](run_agent), which runs a [part of a job](job_part) for each job that it takes part in.
//!
//! An agent may also [lead jobs](leading): those that a user [submits](submit()), and those whose leader is lost
//! ([`succession`]). It starts a [process](led_job) for each of them.

mod agent;
mod agent_error;
mod agent_options;
mod assignment;
mod broker_watch;
mod cancel_check;
mod disk_watch;
mod durable;
mod fetched_job;
mod following;
mod granted_objects;
mod incarnation;
mod job_part;
mod kept_reports;
mod lead_news;
mod leader_identity;
mod leading;
mod led_job;
mod log_tails;
mod logs;
mod node_table;
mod pack;
mod part_end;
mod patient;
mod preparing;
mod proof;
mod remote_node;
mod remote_nodes;
mod reports;
mod row_mirror;
mod scratch;
mod search;
mod signed_job;
mod spill_fetch;
mod spill_store;
mod store_work;
mod submit;
mod succession;
mod uncommitted_packs;
mod upload;

pub(crate) use agent::run_agent;
pub(crate) use agent_options::{AgentOptions, LeadingOptions};
pub(crate) use assignment::{Assignment, LEAD_COMMAND, LeadSource, LeadTask};
pub(crate) use disk_watch::{DiskLimits, DiskWatch};
pub(crate) use fetched_job::{FetchedJob, with_advice};
pub(crate) use granted_objects::GrantedObjects;
pub(crate) use lead_news::{LeadAnnouncer, LeadKeeper, Leadership};
pub(crate) use leader_identity::LeaderIdentity;
pub(crate) use remote_nodes::RemoteNodes;
pub(crate) use submit::{Submitted, SubmittedJob, submit};
