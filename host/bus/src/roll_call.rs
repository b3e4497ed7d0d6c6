//! A question to all agents: which of them are there? `sandmill doctor` asks it. It uses the subjects of leaders and
//! submitters, so their logins may ask it.

use super::leading::{SUBMITS, to_submitter};
use super::messages::{OFFERS, decode_message, to_leader};
use super::nats::BusMessage;
use sandmill_model::is_random_name;
use serde::{Deserialize, Serialize};

/// The first field of each message. With it, no offer and no submission is mistaken for a roll call, or the other way
/// round.
const KIND: &str = "sandmill roll call 1";

/// To all agents, on [`OFFERS`] or [`SUBMITS`]: say that you are there. Agents of all versions answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollCall {
    kind: String,
    /// The caller's random name.
    id: String,
}

/// An agent's answer to a [`RollCall`]. The last part of its subject is the agent's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollCallAnswer {
    kind: String,
    /// The name of the agent's machine.
    pub machine: String,
    /// The version of Sandmill.
    pub version: String,
    /// [`BUS_PROTOCOL`](super::BUS_PROTOCOL).
    pub protocol: u32,
    /// Whether the agent may lead jobs.
    pub may_lead: bool,
    /// In how many jobs the agent takes part.
    pub jobs: u32,
    /// The most jobs in which it takes part.
    pub max_jobs: u32,
    /// Why the agent takes no more work for now. `None` if it does.
    pub no_room: Option<String>,
}

impl RollCall {
    /// The question of a caller with this random name.
    pub fn new(id: String) -> Self {
        Self { kind: KIND.to_owned(), id }
    }

    /// The subject to which an agent publishes its answer. `None` if the message is not a roll call.
    pub fn answer_subject(message: &BusMessage, agent: &str) -> Option<String> {
        let of_leader = match &*message.subject {
            OFFERS => true,
            SUBMITS => false,
            _ => return None,
        };
        let call: Self = decode_message(&message.payload).ok()?;
        // The name becomes a part of a subject.
        if call.kind != KIND || !is_random_name(&call.id) {
            return None;
        }
        Some(if of_leader { to_leader(&call.id, agent) } else { to_submitter(&call.id, agent) })
    }
}

impl RollCallAnswer {
    /// The answer of an agent that takes part in this many jobs, at most.
    pub fn new(
        machine: String,
        version: String,
        may_lead: bool,
        jobs: (usize, usize),
        no_room: Option<String>,
    ) -> Self {
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            kind: KIND.to_owned(),
            machine,
            version,
            protocol: super::BUS_PROTOCOL,
            may_lead,
            jobs: small(jobs.0),
            max_jobs: small(jobs.1),
            no_room,
        }
    }

    /// The answer in this message, with the agent's id. `None` if the message is not such an answer.
    pub fn read(message: &BusMessage) -> Option<(String, Self)> {
        let agent = message.subject.rsplit('.').next()?;
        let answer: Self = decode_message(&message.payload).ok()?;
        (answer.kind == KIND && is_random_name(agent)).then(|| (agent.to_owned(), answer))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BUS_PROTOCOL, Offer, Submission, encode_message};
    use super::*;
    use sandmill_model::random_name;

    fn message(subject: &str, content: &impl Serialize) -> BusMessage {
        BusMessage { subject: subject.to_owned(), payload: encode_message(content).unwrap() }
    }

    #[test]
    fn roll_calls_are_neither_offers_nor_submissions() {
        let id = random_name();
        let call = RollCall::new(id.clone());
        let subject = |message: &BusMessage| RollCall::answer_subject(message, "agent");
        let to = subject(&message(OFFERS, &call));
        assert_eq!(to, Some(format!("sandmill.leader.{id}.agent")));
        let to = subject(&message(SUBMITS, &call));
        assert_eq!(to, Some(format!("sandmill.submitter.{id}.agent")));
        assert_eq!(subject(&message("sandmill.leads", &call)), None);
        // The name must not lead to other subjects.
        assert_eq!(subject(&message(OFFERS, &RollCall::new("a.>".to_owned()))), None);
        let bytes = encode_message(&call).unwrap();
        assert!(decode_message::<Offer>(&bytes).is_err());
        assert!(decode_message::<Submission>(&bytes).is_err());
        let offer = Offer {
            protocol: BUS_PROTOCOL,
            version: "1.0.0".to_owned(),
            job: id.clone(),
            run: id.clone(),
            leader: id.clone(),
            epoch: 0,
            signature: None,
        };
        assert_eq!(subject(&message(OFFERS, &offer)), None);
        let submission = Submission {
            protocol: BUS_PROTOCOL,
            version: "1.0.0".to_owned(),
            id,
            store: "/shared".into(),
        };
        assert_eq!(subject(&message(SUBMITS, &submission)), None);
    }

    #[test]
    fn answers_name_their_agents() {
        let agent = random_name();
        let answer = RollCallAnswer::new("a".to_owned(), "1.0.0".to_owned(), true, (1, 4), None);
        let subject = to_leader("caller", &agent);
        assert_eq!(
            RollCallAnswer::read(&message(&subject, &answer)),
            Some((agent, answer.clone()))
        );
        assert_eq!(RollCallAnswer::read(&message("sandmill.leader.a.b", &answer)), None);
        assert_eq!(RollCallAnswer::read(&message(&subject, &RollCall::new(random_name()))), None);
    }
}
