//! Messages between the leader and the nodes of a job on other machines.
//!
//! A broker, which is a NATS server, carries them. The broker may lose, double, delay or reorder any message.
//! It may also stop, and start again with nothing in its memory. That may cost work, but never a row.
//!
//! - [`Bus`] is a process's connection to the broker;
//! - [`Link`] is a reliable connection between two processes. It does no I/O: it makes [`Frame`]s for the
//!   owner to publish, and takes those that the owner received.
//! - [`Channel`] publishes and opens the packets of a link. In a signed job, they are sealed (`seal`).
//!
//! - `messages` has what leaders and agents send each other. The link and the bus carry it as bytes. `leading` has the
//!   messages about who leads a job.
//! - `signing` has the signatures of jobs.
//! - `trial` tries what Sandmill needs of a broker, and `roll_call` asks which agents are there.

mod channel;
mod leading;
mod link;
#[cfg(test)]
mod link_simulation;
mod messages;
mod nats;
mod roll_call;
mod seal;
mod signing;
mod trial;

pub use channel::{Channel, PacketError};
pub use leading::{
    JobToLead, LEADS, LeadNews, Leads, SUBMITS, SourceToFetch, Submission, SubmitAnswer,
    SubmitState, ToAgent, to_submitter,
};
pub use link::{Chunk, Frame, Link, LinkError, MAX_MESSAGE};
pub use messages::{
    BUS_PROTOCOL, ExpectedJob, FromNode, JobForNode, KeptPart, MessageError, NodeBackends, OFFERS,
    Offer, OfferSignature, Packet, StoredPack, ToNode, WorkDigest, decode_message, encode_message,
    messages_of, publish, queue, report_messages, to_leader, to_node,
};
pub use nats::{Broker, BrokerServer, Bus, BusError, BusMessage};
pub use roll_call::{RollCall, RollCallAnswer};
pub use seal::{LinkEnd, LinkKey, NoRandomBytes, Seal, Sealed, secret_text};
pub use signing::{OfferError, SigningKey};
pub use trial::{BrokerRole, BrokerTrial, LEAST_PAYLOAD, RoleTrial, passes_on, try_broker};
