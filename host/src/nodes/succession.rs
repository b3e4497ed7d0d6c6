//! Decides when an agent takes over a job whose leader is lost. Does no I/O, and reads no clock: the owner passes
//! in the time, which never decreases.
//!
//! A leader sends news to all agents at intervals. An agent takes over if the leader is silent, or if the agent that
//! started the leader says that it is gone. The agents that the leader has named come first, in order, and the others
//! after them. An agent that comes later does not begin if it hears from a new leader before. If two begin
//! nevertheless, the commit log decides which of them leads.

#[cfg(test)]
mod tests;

use crate::bus::{JobToLead, Leads};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

/// The time between two messages of a leader.
pub(super) const NEWS_INTERVAL: Duration = Duration::from_millis(500);
/// A leader that has been silent for this long is lost.
const SILENCE: Duration = Duration::from_millis(2500);
/// The time between the beginnings of two agents that may take over.
const STEP: Duration = Duration::from_secs(2);
/// If a leader is silent for this long, the agent that started it kills it. Otherwise a leader that is only paused
/// would keep its lock on the output folder.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// If the agent itself was paused for this long, the silence of leaders counts from then on.
const PAUSED_FOR: Duration = Duration::from_secs(2);
/// After a leader that this agent started has failed, the agent waits this long, and then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A leader that has led for this long was good, whatever happens then.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// A silent run that no agent may take over is forgotten after this time.
const FORGET_AFTER: Duration = Duration::from_secs(10);
/// Other silent runs are forgotten after this time.
const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);
/// The most runs that are remembered.
const MAX_RUNS: usize = 1000;
/// Agents that the leader has not named come in this many different places.
const OTHER_PLACES: u64 = 4;

/// What the agent shall do. The text is the id of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Start a process that leads the run as soon as no other one does.
    Start(String),
    /// End this process, because the run has a leader.
    Stop(String),
    /// Kill the leader that this agent started, because it is silent.
    Kill(String),
}

/// How a process that leads, or that was started to lead, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderEnd {
    /// The job has ended, or another process leads it.
    Orderly,
    /// The process failed, or was killed.
    Failed,
}

/// What an agent knows of the leaders of all jobs.
#[derive(Debug)]
pub(super) struct Succession {
    /// The agent's id.
    agent: String,
    /// By the id of the run.
    runs: BTreeMap<String, Run>,
    /// Until when the agent could hear nothing. The silence of leaders counts from then on.
    deaf_until: Duration,
    ticked: Duration,
}

#[derive(Debug)]
struct Run {
    /// The latest news of the latest leader.
    leads: Leads,
    /// When this leader was heard first.
    since: Duration,
    /// When it was heard last.
    heard: Duration,
    /// When the agent that started it said that it is gone. `None` if it did not.
    gone: Option<Duration>,
    /// Whether a process of this agent is about to lead the run.
    is_candidate: bool,
    /// How many leaders that this agent started have failed in a row.
    failures: u32,
    /// The agent starts no leader before this time.
    not_before: Duration,
    /// Whether the run was found in a store, and no leader of it was heard.
    was_found: bool,
}

impl Succession {
    /// `agent` is the agent's id.
    pub(super) fn new(agent: String, now: Duration) -> Self {
        Self { agent, runs: BTreeMap::new(), deaf_until: now, ticked: now }
    }

    /// Takes news of a leader.
    pub(super) fn hear(&mut self, leads: Leads, now: Duration) {
        let is_own = leads.agent.as_ref() == Some(&self.agent);
        if let Some(run) = self.runs.get_mut(&leads.run) {
            let is_late = run.gone.is_some() && leads.epoch == run.leads.epoch;
            if !run.was_found && (leads.epoch < run.leads.epoch || is_late) {
                return;
            }
            if std::mem::take(&mut run.was_found) || leads.epoch > run.leads.epoch {
                (run.since, run.gone) = (now, None);
            }
            run.is_candidate &= !is_own;
            (run.leads, run.heard) = (leads, now);
            return;
        }
        if self.runs.len() >= MAX_RUNS {
            let silent = self.runs.iter().min_by_key(|(_, run)| run.heard);
            let silent = silent.map(|(id, _)| id.clone());
            silent.and_then(|id| self.runs.remove(&id));
        }
        let run = Run {
            since: now,
            heard: now,
            gone: None,
            is_candidate: false,
            failures: 0,
            not_before: now,
            was_found: false,
            leads,
        };
        self.runs.insert(run.leads.run.clone(), run);
    }

    /// Takes a run that was found in a store, and has no leader there.
    pub(super) fn find(&mut self, leads: Leads, now: Duration) {
        let id = leads.run.clone();
        if !self.runs.contains_key(&id) {
            self.hear(leads, now);
            if let Some(run) = self.runs.get_mut(&id) {
                (run.gone, run.was_found) = (Some(now), true);
            }
        }
    }

    /// A leader has ended as it should.
    pub(super) fn end(&mut self, id: &str, epoch: u64) {
        if self.runs.get(id).is_some_and(|run| run.leads.epoch <= epoch) {
            self.runs.remove(id);
        }
    }

    /// An agent says that the leader that it started is gone.
    pub(super) fn lose(&mut self, id: &str, epoch: u64, now: Duration) {
        if let Some(run) = self.runs.get_mut(id).filter(|run| run.leads.epoch == epoch) {
            run.gone.get_or_insert(now);
        }
    }

    /// A process has ended that leads the run, or that this agent started to lead it. Returns the epoch of the
    /// leader if other agents must learn that it is gone.
    pub(super) fn on_end(&mut self, id: &str, end: LeaderEnd, now: Duration) -> Option<u64> {
        let run = self.runs.get_mut(id)?;
        let was_leader = run.leads.agent.as_ref() == Some(&self.agent) && run.gone.is_none();
        let was_candidate = std::mem::take(&mut run.is_candidate);
        if end == LeaderEnd::Orderly {
            if was_leader || was_candidate {
                self.runs.remove(id);
            }
            return None;
        }
        if was_leader && now.saturating_sub(run.since) >= GOOD_FOR {
            run.failures = 0;
        }
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(run.failures));
        run.not_before = now + pause.min(LONGEST_PAUSE);
        run.failures += 1;
        if !was_leader {
            return None;
        }
        run.gone = Some(now);
        Some(run.leads.epoch)
    }

    /// What to do now. Call this several times a second. `is_deaf`: whether the agent cannot hear leaders now.
    /// `room`: how many more processes that lead the agent may have.
    pub(super) fn tick(&mut self, now: Duration, is_deaf: bool, mut room: usize) -> Vec<Step> {
        if is_deaf || now.saturating_sub(self.ticked) >= PAUSED_FOR {
            self.deaf_until = now;
        }
        self.ticked = now;
        let deaf_until = self.deaf_until;
        self.runs.retain(|_, run| !run.is_forgotten(now, deaf_until));
        let mut steps = Vec::new();
        for (id, run) in &mut self.runs {
            let heard = run.heard.max(deaf_until);
            let lost = run.gone.map_or(heard + SILENCE, |gone| gone.max(deaf_until));
            if now < lost {
                if std::mem::take(&mut run.is_candidate) {
                    steps.push(Step::Stop(id.clone()));
                }
                continue;
            }
            if run.gone.is_none() && run.leads.agent.as_ref() == Some(&self.agent) {
                if now >= heard + KILL_AFTER {
                    steps.push(Step::Kill(id.clone()));
                }
                continue;
            }
            let Some(place) = run.place_of(&self.agent) else { continue };
            let due = (lost + STEP * place).max(run.not_before);
            if !run.is_candidate && room > 0 && now >= due {
                run.is_candidate = true;
                room -= 1;
                steps.push(Step::Start(id.clone()));
            }
        }
        steps
    }

    /// The job of a run.
    pub(super) fn job(&self, id: &str) -> Option<&JobToLead> {
        self.runs.get(id).map(|run| &run.leads.job)
    }

    /// The name of the machine that leads the job with this folder in a store. `None` if no leader is known that
    /// still speaks.
    pub(super) fn machine_of(&self, store: &Path, now: Duration) -> Option<&str> {
        let speaks = |run: &&Run| run.gone.is_none() && now < run.heard + SILENCE;
        let mut leaders = self.runs.values().filter(speaks);
        leaders.find(|run| run.leads.job.store == store).map(|run| run.leads.machine.as_str())
    }
}

impl Run {
    fn is_forgotten(&self, now: Duration, deaf_until: Duration) -> bool {
        let patience = match self.leads.successors {
            Some(_) => GIVE_UP_AFTER,
            None => FORGET_AFTER,
        };
        !self.is_candidate && now.saturating_sub(self.heard.max(deaf_until)) >= patience
    }

    /// How many agents have their turn before this one. `None` if no agent may take over.
    fn place_of(&self, agent: &str) -> Option<u32> {
        let successors = self.leads.successors.as_ref()?;
        let place = successors.iter().position(|successor| successor == agent);
        let place = place.map_or_else(
            || {
                let mut hasher = DefaultHasher::new();
                (agent, &self.leads.run).hash(&mut hasher);
                successors.len() as u64 + 1 + hasher.finish() % OTHER_PLACES
            },
            |place| place as u64,
        );
        Some(u32::try_from(place).unwrap_or(u32::MAX).min(1000))
    }
}
