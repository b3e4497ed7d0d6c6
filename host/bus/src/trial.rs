//! Tries what leaders, agents and submitters need of the broker, with one login.

use super::leading::{LEADS, MAX_SETTINGS, SUBMITS, to_submitter};
use super::messages::{OFFERS, publish, to_leader, to_node};
use super::nats::{Bus, BusError};
use super::roll_call::{RollCall, RollCallAnswer};
use sandmill_model::random_name;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The server must accept messages of this length, in bytes: the settings of a submitted job, and what goes with them.
pub const LEAST_PAYLOAD: usize = 2 * MAX_SETTINGS;

/// How long agents may take to answer.
const ROLL_CALL_TIME: Duration = Duration::from_secs(2);
/// How often they are asked, because each message may be lost.
const ASK_INTERVAL: Duration = Duration::from_millis(500);
/// How often the answers are read.
const READ_INTERVAL: Duration = Duration::from_millis(5);
/// The most agents that are counted. Other users of the broker can send answers without end.
const MAX_AGENTS: usize = 10_000;
/// How long a message may take to come back.
const ECHO_WITHIN: Duration = Duration::from_secs(2);
/// How often the round trip is measured.
const ROUNDS: u32 = 5;

/// What a login is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokerRole {
    /// `sandmill run`.
    Leader,
    /// `sandmill run --detach`.
    Submitter,
    /// `sandmill node --no-lead`.
    Node,
    /// `sandmill node`.
    Leading,
    /// A login that only reads which jobs are offered.
    Observer,
}

impl BrokerRole {
    /// All roles.
    pub const ALL: [Self; 5] =
        [Self::Leader, Self::Submitter, Self::Node, Self::Leading, Self::Observer];

    /// The name of the role's login in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Submitter => "submitter",
            Self::Node => "node",
            Self::Leading => "leading",
            Self::Observer => "observer",
        }
    }

    /// The command that uses such a login. For an observer, what the login is for.
    pub fn command(self) -> &'static str {
        match self {
            Self::Leader => "sandmill run",
            Self::Submitter => "sandmill run --detach",
            Self::Node => "sandmill node --no-lead",
            Self::Leading => "sandmill node",
            Self::Observer => "reads which jobs are offered",
        }
    }

    fn needs(self, right: Right) -> bool {
        use Subject::{Echo, Leader, Leads, Node, Offers, Submits, Submitter};
        let (publishes, subscribes): (&[Subject], &[Subject]) = match self {
            Self::Leader => (&[Offers, Node, Echo, Leads], &[Leader]),
            Self::Submitter => (&[Submits, Node], &[Submitter]),
            Self::Node => (&[Leader], &[Offers, Node]),
            Self::Leading => {
                (&[Offers, Node, Leader, Leads, Submitter], &[Offers, Node, Leader, Leads, Submits])
            }
            Self::Observer => (&[], &[Offers]),
        };
        match right {
            Right::Publish(subject) => publishes.contains(&subject),
            Right::Subscribe(subject) => subscribes.contains(&subject),
        }
    }
}

/// The subjects of Sandmill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Offers,
    Leader,
    Echo,
    Node,
    Leads,
    Submits,
    Submitter,
}

impl Subject {
    const ALL: [Self; 7] = [
        Self::Offers,
        Self::Leader,
        Self::Echo,
        Self::Node,
        Self::Leads,
        Self::Submits,
        Self::Submitter,
    ];

    /// As the configuration of the server names it.
    fn shown(self) -> &'static str {
        match self {
            Self::Offers => OFFERS,
            Self::Leader => "sandmill.leader.>",
            Self::Echo => "sandmill.leader.*.echo",
            Self::Node => "sandmill.node.>",
            Self::Leads => LEADS,
            Self::Submits => SUBMITS,
            Self::Submitter => "sandmill.submitter.>",
        }
    }

    /// The subject of a process with this random name. No other process reads what is published there.
    fn of(self, name: &str, last: &str) -> String {
        match self {
            Self::Offers | Self::Leads | Self::Submits => self.shown().to_owned(),
            Self::Leader => to_leader(name, last),
            Self::Echo => to_leader(name, "echo"),
            Self::Node => to_node(name),
            Self::Submitter => to_submitter(name, last),
        }
    }
}

/// What a login may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    Publish(Subject),
    Subscribe(Subject),
}

/// Whether a login can be used for a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleTrial {
    /// The role.
    pub role: BrokerRole,
    /// The subjects to which the login may not publish, although the role needs it.
    pub cannot_publish: Vec<&'static str>,
    /// The subjects to which the login may not subscribe, although the role needs it.
    pub cannot_subscribe: Vec<&'static str>,
}

impl RoleTrial {
    /// Whether the login may do all that the role needs.
    pub fn is_complete(&self) -> bool {
        self.cannot_publish.is_empty() && self.cannot_subscribe.is_empty()
    }
}

/// What was found with one login.
#[derive(Debug)]
pub struct BrokerTrial {
    /// How long the server takes to answer: the median of a few measurements.
    pub latency: Duration,
    /// How long a message takes that the process sends to itself. `None` if the login may not do that, or if no such
    /// message came back.
    pub echo: Option<Duration>,
    /// Whether the login may send messages to itself.
    pub may_echo: bool,
    /// Each role.
    pub roles: Vec<RoleTrial>,
    /// The agents that answered, by their ids. `None` if the login may not ask them.
    pub agents: Option<BTreeMap<String, RollCallAnswer>>,
}

/// Tries what Sandmill needs of a broker. Publishes nothing that changes what leaders or agents do.
///
/// # Errors
/// If the server does not answer.
pub fn try_broker(bus: &mut Bus) -> Result<BrokerTrial, BusError> {
    let name = random_name();
    let latency = latency(bus);
    let mut rights = Vec::new();
    for subject in Subject::ALL {
        let found = bus.subscribe(subject.of(&name, "*"));
        // Others' messages are of no interest.
        if !matches!(subject, Subject::Leader | Subject::Submitter) {
            bus.unsubscribe(&subject.of(&name, "*"));
        }
        rights.extend(allowed(found)?.then_some(Right::Subscribe(subject)));
    }
    for subject in Subject::ALL {
        // Agents ignore an empty message.
        let found = bus.try_publish(subject.of(&name, "trial"), Vec::new());
        rights.extend(allowed(found)?.then_some(Right::Publish(subject)));
    }
    let may = |right: Right| rights.contains(&right);
    let both = |subject| may(Right::Publish(subject)) && may(Right::Subscribe(subject));
    let own = if may(Right::Publish(Subject::Echo)) && may(Right::Subscribe(Subject::Leader)) {
        Some(Subject::Echo)
    } else {
        both(Subject::Node).then_some(Subject::Node)
    };
    let echo = match own {
        Some(subject) => echo(bus, &subject.of(&name, "echo"))?,
        None => None,
    };
    let ways = [(Subject::Offers, Subject::Leader), (Subject::Submits, Subject::Submitter)];
    let can_ask = |(ask, answer): &(Subject, Subject)| {
        may(Right::Publish(*ask)) && may(Right::Subscribe(*answer))
    };
    let ways: Vec<_> = ways.into_iter().filter(can_ask).map(|(ask, _)| ask).collect();
    let agents = (!ways.is_empty()).then(|| roll_call(bus, &name, &ways));
    let roles = BrokerRole::ALL.map(|role| role_trial(role, &rights));
    Ok(BrokerTrial { latency, echo, may_echo: own.is_some(), roles: roles.to_vec(), agents })
}

/// Whether messages that are published through one connection arrive at the other one. `None` if the login may not send
/// messages to itself.
///
/// # Errors
/// If a server does not answer.
pub fn passes_on(from: &Bus, to: &mut Bus) -> Result<Option<bool>, BusError> {
    let name = random_name();
    for subject in [Subject::Echo, Subject::Node] {
        let subject = subject.of(&name, "echo");
        if !allowed(to.subscribe(subject.clone()))? {
            continue;
        }
        let begun = Instant::now();
        let mut has_arrived = false;
        let mut is_allowed = true;
        // The servers of a cluster learn of a new subscription after some milliseconds.
        while is_allowed && !has_arrived && begun.elapsed() < ECHO_WITHIN {
            is_allowed = allowed(from.try_publish(subject.clone(), Vec::new()))?;
            sleep(READ_INTERVAL);
            has_arrived = has_message(to, &subject);
        }
        to.unsubscribe(&subject);
        if is_allowed {
            return Ok(Some(has_arrived));
        }
    }
    Ok(None)
}

fn role_trial(role: BrokerRole, rights: &[Right]) -> RoleTrial {
    let lacks = |right: fn(Subject) -> Right| {
        let lacking = Subject::ALL.into_iter().filter(move |subject| {
            role.needs(right(*subject)) && !rights.contains(&right(*subject))
        });
        lacking.map(Subject::shown).collect()
    };
    let cannot_publish = lacks(Right::Publish);
    RoleTrial { role, cannot_publish, cannot_subscribe: lacks(Right::Subscribe) }
}

/// Whether the broker allows something. Fails if it does not answer.
fn allowed(result: Result<(), BusError>) -> Result<bool, BusError> {
    match result {
        Ok(()) => Ok(true),
        Err(BusError::SubscriptionRefused { .. } | BusError::PublishRefused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn latency(bus: &Bus) -> Duration {
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            bus.flush(ECHO_WITHIN);
            begun.elapsed()
        })
        .collect();
    rounds.sort_unstable();
    rounds.get(rounds.len() / 2).copied().unwrap_or_default()
}

/// How long a message takes from this process to itself. `None` if none arrives.
fn echo(bus: &mut Bus, subject: &str) -> Result<Option<Duration>, BusError> {
    bus.subscribe(subject.to_owned())?;
    while bus.try_next().is_some() {}
    let begun = Instant::now();
    bus.publish(subject.to_owned(), Vec::new());
    let mut took = None;
    while took.is_none() && begun.elapsed() < ECHO_WITHIN {
        if has_message(bus, subject) {
            took = Some(begun.elapsed());
        } else {
            sleep(Duration::from_micros(100));
        }
    }
    bus.unsubscribe(subject);
    Ok(took)
}

/// Reads what has arrived. Returns whether a message of this subject is among it.
fn has_message(bus: &mut Bus, subject: &str) -> bool {
    let mut is_there = false;
    while let Some(message) = bus.try_next() {
        is_there |= message.subject == subject;
    }
    is_there
}

/// The agents that answer, by their ids.
fn roll_call(bus: &mut Bus, name: &str, ways: &[Subject]) -> BTreeMap<String, RollCallAnswer> {
    let question = RollCall::new(name.to_owned());
    let mut agents = BTreeMap::new();
    let begun = Instant::now();
    let mut ask_at = begun;
    while begun.elapsed() < ROLL_CALL_TIME {
        if Instant::now() >= ask_at {
            ways.iter().for_each(|subject| publish(bus, subject.shown(), &question));
            ask_at += ASK_INTERVAL;
        }
        while let Some(message) = bus.try_next() {
            if agents.len() < MAX_AGENTS
                && let Some((agent, answer)) = RollCallAnswer::read(&message)
            {
                agents.insert(agent, answer);
            }
        }
        sleep(READ_INTERVAL);
    }
    agents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_lacks_what_the_login_may_not_do() {
        use Subject::{Leader, Node, Offers};
        let rights = [Right::Publish(Leader), Right::Subscribe(Offers), Right::Subscribe(Node)];
        assert!(role_trial(BrokerRole::Node, &rights).is_complete());
        let trial = role_trial(BrokerRole::Node, &rights[..2]);
        assert_eq!(trial.cannot_subscribe, ["sandmill.node.>"]);
        assert!(!trial.is_complete() && trial.cannot_publish.is_empty());
        let trial = role_trial(BrokerRole::Submitter, &rights);
        assert_eq!(trial.cannot_publish, ["sandmill.node.>", "sandmill.submits"]);
        assert_eq!(trial.cannot_subscribe, ["sandmill.submitter.>"]);
    }
}
