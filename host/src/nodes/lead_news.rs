//! Tells all agents that this process leads a job, from a thread of its own: also while the leader is busy, as at
//! the job's end.

use super::remote_node::RemoteNode;
use super::succession::NEWS_INTERVAL;
use crate::bus::{BUS_PROTOCOL, Bus, JobToLead, LEADS, LeadNews, Leads, SourceToFetch, publish};
use crate::engine::RemoteWork;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the last message is sent, because each one may be lost.
const LAST_MESSAGES: u32 = 3;
/// The time between two of the last messages.
const LAST_PAUSE: Duration = Duration::from_millis(20);
/// A leader names at most this many agents that may take over.
const MAX_SUCCESSORS: usize = 8;

/// Which process leads a job, and whether an agent may take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leadership {
    /// The name of this machine, for people.
    pub(crate) machine: String,
    /// The id of the agent that started this process. `None` if a user did.
    pub(crate) agent: Option<String>,
    /// The id of the submission for which the agent started this process.
    pub(crate) submission: Option<String>,
    /// Whether an agent takes over if this process is lost.
    pub(crate) may_be_replaced: bool,
}

/// The thread that sends the news. After a drop, the agents know that the job needs no other leader. If the drop is
/// due to a panic, they do not.
#[derive(Debug)]
pub(crate) struct LeadAnnouncer {
    /// `None` when the thread must end.
    updates: Option<Sender<Update>>,
    thread: Option<JoinHandle<()>>,
    /// The agent that started this process.
    agent: Option<String>,
    successors: Vec<String>,
}

#[derive(Debug)]
enum Update {
    /// The process leads the job from now on, with this epoch.
    Begin(u64),
    Successors(Vec<String>),
    /// The process has a defect, and another one should lead the job.
    Fail,
}

impl LeadAnnouncer {
    /// Starts the thread. It says nothing before [`begin`](Self::begin).
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(
        bus: Bus,
        work: &RemoteWork,
        leadership: Leadership,
        node_timeout: Duration,
    ) -> io::Result<Self> {
        let Leadership { machine, agent, submission, may_be_replaced } = leadership;
        let job = JobToLead {
            job: work.job.clone(),
            file: work.job_file.path.clone(),
            overrides: work.job_file.overrides.clone(),
            store: PathBuf::from(&work.store),
            source: Some(SourceToFetch {
                store: work.place.clone(),
                tenant: work.tenant.clone(),
                content: work.source.clone(),
            }),
            node_timeout,
        };
        let may_be_replaced = may_be_replaced && !job.is_too_large();
        let overrides = if may_be_replaced { job.overrides } else { Vec::new() };
        let leads = Leads {
            protocol: BUS_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: work.run.clone(),
            epoch: 0,
            machine,
            agent: agent.clone(),
            submission,
            job: JobToLead { overrides, ..job },
            successors: may_be_replaced.then(Vec::new),
        };
        let (updates, received) = channel();
        let thread = thread::Builder::new().name("lead-news".to_owned());
        let thread = Some(thread.spawn(move || announce(&bus, leads, &received))?);
        Ok(Self { updates: Some(updates), thread, agent, successors: Vec::new() })
    }

    /// Says from now on that this process leads the job.
    pub(super) fn begin(&self, epoch: u64) {
        self.update(Update::Begin(epoch));
    }

    /// Names the agents of these nodes as successors, those with low numbers first. The machine of this process comes
    /// last, because it is probably lost together with this process.
    pub(super) fn name_successors<'a>(&mut self, nodes: impl Iterator<Item = &'a RemoteNode>) {
        let mut working: Vec<&RemoteNode> = nodes.filter(|node| node.works()).collect();
        working.sort_by_key(|node| node.number());
        let agents = working.into_iter().filter_map(|node| node.may_lead.clone());
        let others = agents.filter(|agent| Some(agent) != self.agent.as_ref());
        let mut successors: Vec<String> = others.take(MAX_SUCCESSORS).collect();
        successors.extend(self.agent.clone());
        if successors != self.successors {
            self.successors.clone_from(&successors);
            self.update(Update::Successors(successors));
        }
    }

    fn update(&self, update: Update) {
        // If this fails, the thread has failed. Then another process takes over, and this one ends at its next commit.
        let _ = self.updates.as_ref().map(|updates| updates.send(update));
    }
}

impl Drop for LeadAnnouncer {
    fn drop(&mut self) {
        if thread::panicking() {
            self.update(Update::Fail);
        }
        self.updates.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

/// Keeps an announcer after the end of a job whose results must still go to a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeadKeeper(Arc<Mutex<Option<LeadAnnouncer>>>);

impl LeadKeeper {
    pub(super) fn keep(&self, announcer: LeadAnnouncer) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(announcer);
    }

    /// From now on, the job needs no other leader.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn announce(bus: &Bus, mut leads: Leads, updates: &Receiver<Update>) {
    let mut has_begun = false;
    loop {
        if has_begun {
            publish(bus, LEADS, &LeadNews::Leads(Box::new(leads.clone())));
        }
        match updates.recv_timeout(NEWS_INTERVAL) {
            Ok(Update::Begin(epoch)) => (leads.epoch, has_begun) = (epoch, true),
            Ok(Update::Successors(named)) => {
                leads.successors = leads.successors.map(|_| named);
            }
            Ok(Update::Fail) => return,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    for _ in 0..LAST_MESSAGES {
        if has_begun {
            publish(bus, LEADS, &LeadNews::Over { run: leads.run.clone(), epoch: leads.epoch });
            thread::sleep(LAST_PAUSE);
        }
    }
}
