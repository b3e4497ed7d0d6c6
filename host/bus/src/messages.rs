//! The messages between leaders and agents of other machines. They contain no bulk data, and no paths except those
//! of the job store and of the job file, from whose folder relative paths in the job file start. Objects of stores have
//! their names, which are relative to an address in the job file.

use super::link::{Frame, Link};
use super::nats::Bus;
use super::seal::Sealed;
use sandmill_model::{ContentRef, MiniBatchId, NodeId, SignerKey, TableFormat, WorkerId};
use sandmill_wire::node::ListedInputs;
use sandmill_wire::{NodeReport, Order};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version of these messages. Leaders and agents of different versions do not work together.
pub const BUS_PROTOCOL: u32 = 4;

/// The subject of [offers](Offer).
pub const OFFERS: &str = "sandmill.offers";

/// The subject of packets from an agent to a leader. The agent's incarnation is the last part.
pub fn to_leader(leader: &str, incarnation: &str) -> String {
    format!("sandmill.leader.{leader}.{incarnation}")
}

/// The subject of packets from a leader to an agent.
pub fn to_node(incarnation: &str) -> String {
    format!("sandmill.node.{incarnation}")
}

/// A leader to all agents, at intervals: a job wants more nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// [`BUS_PROTOCOL`].
    pub protocol: u32,
    /// The version of Sandmill.
    pub version: String,
    /// The job's name.
    pub job: String,
    /// The id of the run.
    pub run: String,
    /// The leader's random name. If the job is signed, it is the name of a [`LinkKey`](super::LinkKey).
    pub leader: String,
    /// The number of the record with which the leader began in the run's commit log. If two leaders offer the
    /// same run, the one with the higher number leads it.
    pub epoch: u64,
    /// `None` if the job is not signed.
    pub signature: Option<OfferSignature>,
}

/// The signature of an [`Offer`]. It covers all other fields of the offer, and what nodes shall execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferSignature {
    /// Whose signature it is.
    pub signer: SignerKey,
    /// The digest of what nodes shall execute: see [`JobForNode::digest`].
    pub work: WorkDigest,
    /// The signature, for Ed25519.
    pub signature: Vec<u8>,
}

/// The SHA-256 of what nodes shall execute.
pub type WorkDigest = [u8; 32];

/// What goes between a leader and one incarnation of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packet {
    /// A part of their [link](super::Link).
    Frame(Frame),
    /// The leader does not know the agent, or no longer counts on it: whatever the agent runs for the job is
    /// useless.
    Gone,
    /// Another packet, if the job is signed.
    Sealed(Sealed),
}

/// Agent to leader, in a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromNode {
    /// The first message: the agent can run workers of the job.
    Hello {
        /// The agent's name, for the user.
        name: String,
        /// [`BUS_PROTOCOL`].
        protocol: u32,
        /// The version of Sandmill.
        version: String,
        /// The agent's id, if it may lead the job.
        may_lead: Option<String>,
        /// What the agent has from an earlier leader of the run, if its workers go on.
        continues: Option<KeptPart>,
    },
    /// Instead of [`Hello`](Self::Hello): the agent takes no part for now, because its machine has no room.
    NoRoom {
        /// The agent's name, for the user.
        name: String,
        /// Why there is no room.
        reason: String,
    },
    /// The agent has prepared the job.
    Prepared {
        /// The SHA-256 of the entry script's component, in hexadecimal.
        component: String,
        /// The names and values of the settings that decide the job's rows, as the agent found them.
        settings: Vec<(String, String)>,
        /// The most workers at the same time.
        workers: u32,
        /// What computes with models there.
        backends: NodeBackends,
    },
    /// The agent cannot run the job, for this reason.
    Declined(String),
    /// What happened on the node, in order. If the job's store is a folder, the rows and files of finished attempts are
    /// durable there.
    Reports(Vec<NodeReport>),
    /// As [`Reports`](Self::Reports), for a job whose store is at an address: the rows and files of finished attempts are
    /// in this pack.
    Stored(Vec<NodeReport>, StoredPack),
    /// As [`Stored`](Self::Stored), but an earlier leader has got these reports, too. It may have committed the mini-batches,
    /// and removed the pack.
    StoredBefore(Vec<NodeReport>, StoredPack),
    /// The agent ends, for this reason, and has no workers any longer.
    Leaving(String),
}

impl FromNode {
    /// The reports in this message.
    pub fn reports(&self) -> &[NodeReport] {
        match self {
            Self::Reports(reports) | Self::Stored(reports, _) | Self::StoredBefore(reports, _) => {
                reports
            }
            Self::Hello { .. }
            | Self::NoRoom { .. }
            | Self::Prepared { .. }
            | Self::Declined(_)
            | Self::Leaving(_) => &[],
        }
    }
}

/// What computes with models on a node. Empty if the job has no models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBackends {
    /// The libraries, with their versions.
    pub libraries: Vec<String>,
    /// The kinds of devices: `CPU`, or the names of the GPUs that workers get.
    pub devices: Vec<String>,
}

/// The part of an agent in a job whose workers go on for another leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPart {
    /// The number that the earlier leader has given to the agent.
    pub node: NodeId,
    /// The name of the folder for the rows of this part, in the job's store.
    pub rows: String,
}

/// Objects of a job's store that have the rows and files of some reports. The names of the objects follow from the
/// folder of the node's part in the job, and from the pack's number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPack {
    /// The number of the pack among those of the node's part in the job.
    pub number: u64,
    /// How many objects the pack has.
    pub objects: u32,
    /// The length of all objects together, in bytes.
    pub bytes: u64,
    /// The SHA-256 of the objects' content.
    pub sha256: [u8; 32],
}

/// Leader to agent, in a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToNode {
    /// The agent shall prepare this job.
    Accepted(Box<JobForNode>),
    /// The agent takes no part in the job, for this reason.
    Refused(String),
    /// The job has as many nodes as it asked for. The agent may soon offer itself again.
    NotNeeded,
    /// How tables are read. Comes before any order to begin an attempt of a job with tables.
    Tables(Vec<TableFormat>),
    /// The first grants of an order that is too large for one message. The order with the rest of them follows.
    PartOfOrder(Order),
    /// An order for the node's state machine.
    Order(Order),
    /// The rows of this attempt, and of all attempts that its worker reported before, are in the output.
    Reclaimable {
        /// The worker.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
    },
    /// The mini-batches of the pack with this number are committed. The agent need not report it again.
    Committed(u64),
    /// The job is over.
    Over,
}

/// A job that an agent shall prepare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobForNode {
    /// The agent's number within the job.
    pub node: NodeId,
    /// The content of the file that proves that leader and agent share the job's store. The file is named after
    /// the agent's number.
    pub proof: String,
    /// The job store: a folder or an address, as in the job file.
    pub store: String,
    /// The job's tenant.
    pub tenant: String,
    /// What the agent needs of the job, in the job's store.
    pub source: ContentRef,
    /// The path of the job file on the submitter's machine. The agent does not open it.
    pub job_file: PathBuf,
    /// Settings given in addition to the file.
    pub overrides: Vec<(String, String)>,
    /// The job's name.
    pub job: String,
    /// The id of the run.
    pub run: String,
    /// What the agent must find. `None` if the job is not signed.
    pub expected: Option<ExpectedJob>,
    /// What the leader has found in the stores of the inputs. The agent does not list them.
    pub listed: ListedInputs,
}

/// What an agent must find when it prepares a signed job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedJob {
    /// A random text. Without it, a user of the broker could guess a secret setting, and compare
    /// [digests](OfferSignature::work).
    pub salt: String,
    /// The SHA-256 of the job file's text, in hexadecimal.
    pub job_file: String,
    /// The SHA-256 of the entry script's component, in hexadecimal.
    pub component: String,
    /// The names and values of the settings that decide the job's rows.
    pub settings: Vec<(String, String)>,
}

/// An order as messages that are not too large.
pub fn messages_of(order: Order) -> Vec<ToNode> {
    let mut parts = Vec::new();
    let mut waiting = vec![order];
    while let Some(order) = waiting.pop() {
        match order {
            Order::Grant(mut grants) if grants.len() > 1 && is_large(&grants) => {
                let second = grants.split_off(grants.len() / 2);
                waiting.extend([Order::Grant(second), Order::Grant(grants)]);
            }
            Order::GrantAhead(mut ahead) if ahead.len() > 1 && is_large(&ahead) => {
                let second = ahead.split_off(ahead.len() / 2);
                waiting.extend([Order::GrantAhead(second), Order::GrantAhead(ahead)]);
            }
            order => parts.push(order),
        }
    }
    let last = parts.pop();
    let parts = parts.into_iter().map(ToNode::PartOfOrder);
    parts.chain(last.map(ToNode::Order)).collect()
}

/// Reports as messages that are not too large.
pub fn report_messages(reports: Vec<NodeReport>) -> Vec<FromNode> {
    let mut messages = Vec::new();
    let mut waiting = vec![reports];
    while let Some(mut reports) = waiting.pop() {
        if reports.len() > 1 && is_large(&reports) {
            let second = reports.split_off(reports.len() / 2);
            waiting.extend([second, reports]);
        } else {
            messages.push(FromNode::Reports(reports));
        }
    }
    messages
}

fn is_large<T: Serialize>(parts: &Vec<T>) -> bool {
    encode_message(parts).is_ok_and(|bytes| bytes.len() > LARGE)
}

/// Larger messages are divided. A single mini-batch or report is smaller than the largest message of a link.
const LARGE: usize = 16 << 20;

/// Publishes a message. Plain data always encodes. If it did not, the message would be lost, as any message may be.
pub fn publish(bus: &Bus, subject: &str, message: &impl Serialize) {
    if let Ok(bytes) = encode_message(message) {
        bus.publish(subject.to_owned(), bytes);
    }
}

/// Queues a message in a link. Plain data always encodes. If it did not, the peer would be late, and its work be
/// given to another one.
pub fn queue(link: &mut Link, message: &impl Serialize) {
    if let Ok(bytes) = encode_message(message) {
        link.send(bytes);
    }
}

/// A message as bytes.
///
/// # Errors
/// If the message cannot be encoded.
pub fn encode_message(message: &impl Serialize) -> Result<Vec<u8>, MessageError> {
    postcard::to_stdvec(message).map_err(MessageError)
}

/// The message in these bytes, which another machine sent.
///
/// # Errors
/// If the bytes are not such a message, or are followed by others.
pub fn decode_message<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MessageError> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(MessageError(postcard::Error::DeserializeBadEncoding)),
        Err(error) => Err(MessageError(error)),
    }
}

/// Why a message could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message between leader and agent is malformed: {0}")]
pub struct MessageError(postcard::Error);

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_model::{MiniBatch, MiniBatchWork};
    use sandmill_wire::{Assignment, Grant};

    /// A grant of a mini-batch with a long list of files.
    fn grant(id: u64) -> Grant {
        let files = (0..60_000).map(|file| format!("{file:0100}")).collect();
        let mini_batch = MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Files(files));
        Grant {
            assignment: Assignment { mini_batch, attempt: 1, is_last: false, objects: Vec::new() },
            failed_on: None,
        }
    }

    #[test]
    fn large_orders_are_divided() {
        let grants: Vec<Grant> = (0..5).map(grant).collect();
        let messages = messages_of(Order::Grant(grants.clone()));
        let mut found = Vec::new();
        let last = messages.len() - 1;
        for (position, message) in messages.into_iter().enumerate() {
            match message {
                ToNode::PartOfOrder(Order::Grant(grants)) if position < last => {
                    found.extend(grants);
                }
                ToNode::Order(Order::Grant(grants)) if position == last => found.extend(grants),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(found, grants);
        assert!(last > 0);
        assert_eq!(messages_of(Order::Retire), [ToNode::Order(Order::Retire)]);
    }

    #[test]
    fn large_reports_are_divided() {
        let notice = |number: u32| NodeReport::Notice(number.to_string() + &"x".repeat(7_000_000));
        let reports: Vec<NodeReport> = (0..5).map(notice).collect();
        let messages = report_messages(reports.clone());
        assert!(messages.len() > 1);
        let each = messages.into_iter().flat_map(|message| match message {
            FromNode::Reports(reports) => reports,
            other => panic!("{other:?}"),
        });
        assert_eq!(each.collect::<Vec<_>>(), reports);
    }
}
