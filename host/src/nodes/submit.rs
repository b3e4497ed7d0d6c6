//! Submits a job to the agents: finds one that leads it, and waits until it does.

use crate::bus::{
    BUS_PROTOCOL, Broker, Bus, BusError, JobToLead, SUBMITS, Submission, SubmitAnswer, SubmitState,
    ToAgent, decode_message, publish, to_node, to_submitter,
};
use crate::model::{Address, is_random_name, printable, random_name};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a message is sent until it is answered.
const ASK_INTERVAL: Duration = Duration::from_millis(300);
/// An agent must answer within this time.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// After the first answer, other agents may answer for this time. Then the agent with the fewest jobs is asked.
const CHOICE_TIME: Duration = Duration::from_millis(200);
/// How often the connection is read.
const READ_INTERVAL: Duration = Duration::from_millis(5);
/// After this time, the user learns what is waited for.
const SAY_AFTER: Duration = Duration::from_secs(10);
/// The most agents whose answers are remembered.
const MAX_AGENTS: usize = 1000;

/// A job for an agent.
#[derive(Clone, Debug)]
pub(crate) struct SubmittedJob {
    pub(crate) job: JobToLead,
    /// Whether to start over if the job was run before.
    pub(crate) overwrite: bool,
    /// Whether to reuse the result of a completed run.
    pub(crate) reuse: bool,
}

/// What became of a submitted job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// A machine leads it.
    Leads {
        /// The name of the machine.
        machine: String,
        /// The job directory on that machine.
        job_dir: PathBuf,
    },
    /// The job has ended already.
    Ended {
        /// The name of the machine that led it.
        machine: String,
        /// The exit code of the leader.
        code: i32,
        /// The leader's last messages.
        text: String,
    },
}

/// Why no agent leads the job. The texts are shown to users.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubmitError {
    /// The broker cannot be used.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// No agent answers.
    #[error(
        "no machine answers that could lead the job{}: start `sandmill node` with the same --broker on a machine, \
         without --no-lead, and try again; or leave out --detach, to lead the job here",
        .0.as_ref().map(|error| format!(" (the broker says: {error})")).unwrap_or_default()
    )]
    NoAgent(Option<String>),
    /// The job is led already.
    #[error(
        "the job {job} runs already, and the machine {machine} leads it: wait for it to end, or end it{}",
        how_to_cancel(job, store)
    )]
    Runs {
        /// The job's name.
        job: String,
        /// The name of the machine.
        machine: String,
        /// The job store.
        store: PathBuf,
    },
    /// No agent can lead the job.
    #[error("no machine leads the job: {}", .0.join("; "))]
    Refused(Vec<String>),
}

/// How to end a job: the end of a sentence.
fn how_to_cancel(job: &str, store: &Path) -> String {
    let store = store.display().to_string();
    match Address::looks_like_one(&store) {
        false => format!(" with sandmill cancel {job} --store {store}"),
        // The command cannot read a job store at an address.
        true => " there with sandmill cancel".to_owned(),
    }
}

/// Submits a job, and waits until a machine leads it. `say` receives lines for the user about waiting.
///
/// # Errors
/// If no machine leads the job.
pub(crate) fn submit(
    broker: &Broker,
    submitted: SubmittedJob,
    say: &mut dyn FnMut(&str),
) -> Result<Submitted, SubmitError> {
    let id = random_name();
    let bus = Bus::connect(broker, "submitter")?;
    bus.subscribe(to_submitter(&id, "*"))?;
    let mut submitter = Submitter { bus, id, submitted, answers: BTreeMap::new() };
    let mut candidates = submitter.find_agents()?;
    // The agent with the fewest jobs comes first.
    candidates.sort_unstable();
    let mut reasons = Vec::new();
    for (_, agent) in candidates {
        match submitter.request(&agent, say)? {
            Ok(done) => return Ok(done),
            Err(refusal) => reasons.push(refusal),
        }
    }
    Err(SubmitError::Refused(by_reason(reasons)))
}

/// An agent that does not lead the job: its machine, and why.
type Refusal = (String, String);

/// The machines that have the same reason, and the reason.
fn by_reason(refusals: impl IntoIterator<Item = Refusal>) -> Vec<String> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (machine, reason) in refusals {
        match found.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, machines)) if machines.contains(&machine) => {}
            Some((_, machines)) => machines.push(machine),
            None => found.push((reason, vec![machine])),
        }
    }
    found
        .into_iter()
        .map(|(reason, machines)| format!("{}: {reason}", machines.join(", ")))
        .collect()
}

struct Submitter {
    bus: Bus,
    id: String,
    submitted: SubmittedJob,
    /// The latest answer of each agent, by the agent's id.
    answers: BTreeMap<String, SubmitAnswer>,
}

impl Submitter {
    /// Reads the answers that have arrived.
    fn read(&mut self) {
        while let Some(message) = self.bus.try_next() {
            let agent = message.subject.rsplit('.').next().unwrap_or_default();
            let is_new = !self.answers.contains_key(agent);
            if !is_random_name(agent) || (is_new && self.answers.len() >= MAX_AGENTS) {
                continue;
            }
            if let Ok(answer) = decode_message::<SubmitAnswer>(&message.payload) {
                self.answers.insert(agent.to_owned(), answer);
            }
        }
    }

    /// Agents that can lead the job, each with the number of jobs that it leads.
    fn find_agents(&mut self) -> Result<Vec<(u64, String)>, SubmitError> {
        let question = Submission {
            protocol: BUS_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id: self.id.clone(),
            store: self.submitted.job.store.clone(),
        };
        let begun = Instant::now();
        let mut ask_at = begun;
        let mut end = begun + ANSWER_WITHIN;
        while Instant::now() < end {
            if Instant::now() >= ask_at {
                publish(&self.bus, SUBMITS, &question);
                ask_at += ASK_INTERVAL;
            }
            sleep(READ_INTERVAL);
            self.read();
            if let Some(error) = self.running() {
                return Err(error);
            }
            if !self.willing().is_empty() {
                end = end.min(Instant::now() + CHOICE_TIME);
            }
        }
        let willing = self.willing();
        if !willing.is_empty() {
            return Ok(willing);
        }
        if self.answers.is_empty() {
            return Err(SubmitError::NoAgent(self.bus.last_error()));
        }
        let reasons = self.answers.values().filter_map(|answer| match &answer.state {
            SubmitState::Unwilling(reason) => {
                Some((printable(&answer.machine).into_owned(), printable(reason).into_owned()))
            }
            _ => None,
        });
        Err(SubmitError::Refused(by_reason(reasons)))
    }

    fn willing(&self) -> Vec<(u64, String)> {
        let willing = self.answers.iter().filter_map(|(agent, answer)| match answer.state {
            SubmitState::Willing { led } => Some((led, agent.clone())),
            _ => None,
        });
        willing.collect()
    }

    /// The error for a job that is led already, if an agent says so.
    fn running(&self) -> Option<SubmitError> {
        let job = &self.submitted.job;
        self.answers.values().find_map(|answer| match &answer.state {
            SubmitState::HasLeader(machine) => Some(SubmitError::Runs {
                job: job.job.clone(),
                machine: printable(machine).into_owned(),
                store: job.store.parent().unwrap_or(&job.store).to_owned(),
            }),
            _ => None,
        })
    }

    /// Asks an agent to lead the job, and waits until it does. The inner error: it does not.
    fn request(
        &mut self,
        agent: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<Result<Submitted, Refusal>, SubmitError> {
        let SubmittedJob { job, overwrite, reuse } = self.submitted.clone();
        let submission = self.id.clone();
        let request = ToAgent::Lead { submission, job: Box::new(job), overwrite, reuse };
        let machine = self.answers.remove(agent).map(|answer| answer.machine).unwrap_or_default();
        let machine = printable(&machine).into_owned();
        let begun = Instant::now();
        let mut answered = begun;
        let mut ask_at = begun;
        let mut was_said = false;
        loop {
            let now = Instant::now();
            if now >= ask_at {
                publish(&self.bus, &to_node(agent), &request);
                ask_at = now + ASK_INTERVAL;
            }
            sleep(READ_INTERVAL);
            self.read();
            let Some(answer) = self.answers.remove(agent) else {
                if now - answered >= ANSWER_WITHIN {
                    return Ok(Err((machine, "does not answer any longer".to_owned())));
                }
                continue;
            };
            match answer.state {
                SubmitState::Willing { .. } => {}
                SubmitState::Starting => {
                    answered = now;
                    if now - begun >= SAY_AFTER && !std::mem::replace(&mut was_said, true) {
                        say(&format!(
                            "{machine} prepares the job; if you press Ctrl-C, it continues to do so"
                        ));
                    }
                }
                SubmitState::Unwilling(reason) => {
                    return Ok(Err((machine, printable(&reason).into_owned())));
                }
                SubmitState::HasLeader(leader) => {
                    let state = SubmitState::HasLeader(leader);
                    self.answers.insert(agent.to_owned(), SubmitAnswer { machine, state });
                    return Err(self.running().unwrap_or(SubmitError::NoAgent(None)));
                }
                SubmitState::Leads { job_dir } => {
                    return Ok(Ok(Submitted::Leads { machine, job_dir }));
                }
                SubmitState::Ended { code: Some(code @ (0 | 42 | 130)), text } => {
                    return Ok(Ok(Submitted::Ended { machine, code, text }));
                }
                SubmitState::Ended { text, .. } => {
                    return Ok(Err((machine, printable(&text).replace('\n', "; "))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once() {
        let refusals = [("a", "no input"), ("b", "full"), ("c", "no input"), ("a", "no input")];
        let refusals = refusals.map(|(machine, why)| (machine.to_owned(), why.to_owned()));
        assert_eq!(by_reason(refusals), ["a, c: no input", "b: full"]);
    }
}
