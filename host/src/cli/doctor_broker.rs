//! The checks of `sandmill doctor` for the broker: its servers, what the login may do, and the agents that answer.

use super::broker::BrokerArgument;
use super::doctor_checks::DoctorCheck;
use crate::bus::{
    BUS_PROTOCOL, Broker, BrokerRole, BrokerServer, BrokerTrial, Bus, BusError, LEAST_PAYLOAD,
    RoleTrial, RollCallAnswer, passes_on, try_broker,
};
use crate::model::{ByteSize, counted, in_short, printable};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// The name of the doctor in the broker's lists of connections.
const NAME: &str = "doctor";
/// The most characters of what an agent says.
const MAX_TEXT: usize = 200;
const PERMISSIONS: &str = "give the login the permissions of its role: see \"Permissions at the broker\" in docs/nodes.md";
const CLUSTER: &str = "connect the servers by the block `cluster` of their configuration, as in deploy/nats-server.conf, and let them \
                       reach each other at the ports of their routes";
const AGENTS: &str = "start sandmill node on the machines that shall run jobs";

/// What was found about the broker.
#[derive(Debug, Serialize)]
pub(super) struct DoctorBroker {
    /// What each login needs.
    needed: Vec<DoctorCheck>,
    /// What only some logins need.
    optional: Vec<DoctorCheck>,
    /// The agents that answer, by the names of their machines. Null if the login may not ask them.
    agents: Option<Vec<DoctorAgent>>,
}

/// An agent that answers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct DoctorAgent {
    machine: String,
    version: String,
    /// Whether it can run workers of jobs of this version.
    fits: bool,
    may_lead: bool,
    jobs: u32,
    max_jobs: u32,
    /// Why it takes no more work for now.
    no_room: Option<String>,
}

impl DoctorBroker {
    /// Tries the broker. `None` if no broker is named.
    pub(super) fn now(argument: &BrokerArgument) -> Option<Self> {
        let broker = argument.find()?;
        let mut found = Self { needed: Vec::new(), optional: Vec::new(), agents: None };
        if let Err(error) = found.try_all(&broker) {
            found.needed.push(failed(&error));
        }
        Some(found)
    }

    /// Whether all works that each login needs.
    pub(super) fn works(&self) -> bool {
        self.needed.iter().all(|check| check.missing.is_none())
    }

    pub(super) fn write_to(&self, text: &mut String) {
        text.push_str("\nThe broker:\n");
        self.needed.iter().for_each(|check| check.write_to(text, "WRONG"));
        self.optional.iter().for_each(|check| check.write_to(text, "-"));
        for agent in self.agents.iter().flatten() {
            let DoctorAgent { machine, version, may_lead, jobs, max_jobs, fits, no_room } = agent;
            let leads = if *may_lead { "may lead jobs" } else { "leads no jobs" };
            let _ = match fits {
                true => writeln!(
                    text,
                    "  {:<9} {machine}: version {version}, {leads}, takes part in {jobs} of at most \
                     {max_jobs} jobs",
                    ""
                ),
                false => writeln!(
                    text,
                    "  {:<9} {machine}: version {version}, so it takes no part in jobs of this version, {}",
                    "",
                    env!("CARGO_PKG_VERSION")
                ),
            };
            if let Some(why) = no_room {
                let _ = writeln!(
                    text,
                    "  {:<9} {machine} takes no more work for now, because {why}",
                    ""
                );
            }
        }
    }

    fn try_all(&mut self, broker: &Broker) -> Result<(), BusError> {
        let mut connected: Vec<(String, Bus)> = Vec::new();
        for server in broker.servers()? {
            match Bus::connect(&server, NAME) {
                Ok(bus) => {
                    let shown = server.shown()?;
                    self.needed.push(server_check(&shown, &bus.server()));
                    connected.push((shown, bus));
                }
                Err(error) => self.needed.push(failed(&error)),
            }
        }
        let mut connected = connected.into_iter();
        let Some((first_shown, mut first)) = connected.next() else { return Ok(()) };
        let trial = try_broker(&mut first)?;
        let others = connected.as_slice().iter().map(|(shown, bus)| (shown, bus.server()));
        let least = others.chain([(&first_shown, first.server())]);
        let least = least.min_by_key(|(_, server)| server.max_payload);
        self.needed.extend(least.map(|(shown, server)| payload_check(shown, server.max_payload)));
        self.needed.push(round_trip_check(&trial));
        self.needed.push(permissions_check(&trial.roles));
        if trial.roles.iter().any(RoleTrial::is_complete) {
            // Few logins are for observers, who need no command.
            let lacking =
                |role: &&RoleTrial| !role.is_complete() && role.role != BrokerRole::Observer;
            let lacking = trial.roles.iter().filter(lacking);
            self.optional.extend(lacking.map(role_check));
        }
        self.add_agents(trial.agents);
        for (shown, mut bus) in connected {
            match passes_on(&first, &mut bus)? {
                Some(passes) => self.needed.push(cluster_check(&first_shown, &shown, passes)),
                None => self.optional.push(cluster_unknown(&shown)),
            }
        }
        Ok(())
    }

    fn add_agents(&mut self, agents: Option<std::collections::BTreeMap<String, RollCallAnswer>>) {
        let Some(agents) = agents else {
            let unknown = "not known, as the login may not ask them";
            let remedy = "use the login of a leader or a submitter";
            self.optional.push(DoctorCheck::new("agents", Err(unknown), remedy));
            return;
        };
        let mut agents: Vec<DoctorAgent> = agents.into_values().map(DoctorAgent::from).collect();
        agents.sort();
        let fitting = agents.iter().filter(|agent| agent.fits).count();
        let count = counted(agents.len() as u64, "agent");
        let found = match fitting {
            0 if agents.is_empty() => Err("no agent answers".to_owned()),
            0 => {
                Err(format!("{count} found, none of them of version {}", env!("CARGO_PKG_VERSION")))
            }
            fitting if fitting == agents.len() => Ok(format!("agents that answer: {fitting}")),
            fitting => {
                Ok(format!("agents that answer: {count}, {fitting} of them of this version"))
            }
        };
        self.optional.push(DoctorCheck::new("agents", found, AGENTS));
        self.agents = Some(agents);
    }
}

impl From<RollCallAnswer> for DoctorAgent {
    fn from(answer: RollCallAnswer) -> Self {
        let RollCallAnswer {
            machine, version, protocol, may_lead, jobs, max_jobs, no_room, ..
        } = answer;
        let fits = protocol == BUS_PROTOCOL && version == env!("CARGO_PKG_VERSION");
        let [machine, version] = [machine, version].map(|text| in_short(&text, MAX_TEXT));
        let no_room = no_room.map(|why| in_short(&why, MAX_TEXT));
        Self { machine, version, fits, may_lead, jobs, max_jobs, no_room }
    }
}

/// The text of the error says what to do.
fn failed(error: &BusError) -> DoctorCheck {
    DoctorCheck { missing: Some(error.to_string()), ..DoctorCheck::unknown("the broker") }
}

fn server_check(shown: &str, server: &BrokerServer) -> DoctorCheck {
    let name = printable(&server.name);
    let version = printable(&server.version);
    let encrypted = match server.requires_tls || shown.starts_with("tls://") {
        true => "the connection is encrypted",
        false => "the connection is not encrypted (tls:// encrypts it)",
    };
    let found = format!("the server {name} at {shown} has version {version}; {encrypted}");
    DoctorCheck::new("the broker", Ok::<_, String>(found), "")
}

/// `shown`: the server with the lowest limit.
fn payload_check(shown: &str, most: usize) -> DoctorCheck {
    let size = |bytes: usize| ByteSize(bytes as u64).rounded();
    let found = size(most);
    let least = size(LEAST_PAYLOAD);
    let checked = if most >= LEAST_PAYLOAD {
        Ok(format!("a message may have {found}; Sandmill needs {least}"))
    } else {
        Err(format!("a message to {shown} may have only {found}, and Sandmill needs {least}"))
    };
    let remedy = "remove max_payload from the configuration of the server: its default is 1 MB";
    DoctorCheck::new("messages", checked, remedy)
}

fn round_trip_check(trial: &BrokerTrial) -> DoctorCheck {
    let shown = |took: Duration| format!("{:.1} ms", took.as_secs_f64() * 1e3);
    let latency = shown(trial.latency);
    let checked = match (trial.echo, trial.may_echo) {
        (Some(echo), _) => Ok(format!("a message to itself comes back after {}", shown(echo))),
        (None, true) => Err("a message to itself does not come back"),
        (None, false) => Ok(format!(
            "the server answers after {latency} (this login may not send messages to itself)"
        )),
    };
    DoctorCheck::new(
        "the round trip",
        checked,
        "look into the log of the server; it may be overloaded, or about to end",
    )
}

/// Whether the login can be used at all.
fn permissions_check(roles: &[RoleTrial]) -> DoctorCheck {
    let complete: Vec<BrokerRole> =
        roles.iter().filter(|role| role.is_complete()).map(|role| role.role).collect();
    let is_more = complete.iter().any(|role| *role != BrokerRole::Observer);
    let usable = complete.iter().filter(|role| !is_more || **role != BrokerRole::Observer);
    let usable: Vec<String> =
        usable.map(|role| format!("{} ({})", role.name(), role.command())).collect();
    let checked = if usable.is_empty() {
        let lacking: Vec<String> = roles.iter().map(lacking).collect();
        Err(format!("the login can be used for no role: {}", lacking.join("; ")))
    } else {
        Ok(format!("the login has the permissions of: {}", usable.join(", ")))
    };
    DoctorCheck::new("permissions", checked, PERMISSIONS)
}

/// A role for which the login cannot be used, although it can be used for another one.
fn role_check(role: &RoleTrial) -> DoctorCheck {
    DoctorCheck::new("permissions", Err::<String, _>(lacking(role)), PERMISSIONS)
}

/// What the login lacks for a role.
fn lacking(trial: &RoleTrial) -> String {
    let RoleTrial { role, cannot_publish, cannot_subscribe } = trial;
    let part = |verb: &str, subjects: &[&str]| match subjects {
        [] => None,
        subjects => Some(format!("{verb} {}", subjects.join(", "))),
    };
    let parts = [part("publish to", cannot_publish), part("subscribe to", cannot_subscribe)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("as {} ({}), it may not {}", role.name(), role.command(), parts.join(", nor "))
}

fn cluster_check(first: &str, other: &str, passes: bool) -> DoctorCheck {
    let checked = if passes {
        Ok(format!("messages from {first} arrive at {other}"))
    } else {
        Err(format!("messages from {first} do not arrive at {other}"))
    };
    DoctorCheck::new("the cluster", checked, CLUSTER)
}

fn cluster_unknown(other: &str) -> DoctorCheck {
    let unknown = format!(
        "not known whether messages arrive at {other}, as the login may not send any to itself"
    );
    DoctorCheck::new(
        "the cluster",
        Err::<String, _>(unknown),
        "use the login of a leader or an agent that may lead",
    )
}
