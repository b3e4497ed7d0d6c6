//! The part of an agent that leads jobs: it starts a process for each job that a user submits to it, and for each job
//! whose leader is lost.

use super::agent_options::{AgentOptions, LeadingOptions};
use super::led_job::{LeadReason, LedJob};
use super::search::{news_of, search};
use super::succession::{LeaderEnd, Step, Succession};
use crate::bus::{
    BUS_PROTOCOL, Bus, BusError, BusMessage, JobToLead, LEADS, LeadNews, Leads, SUBMITS,
    Submission, SubmitAnswer, SubmitState, ToAgent, decode_message, publish, to_node, to_submitter,
};
use crate::engine::OrphanedJob;
use crate::model::{is_random_name, printable, random_name};
use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How often the agent sends a message to itself.
const ECHO_INTERVAL: Duration = Duration::from_millis(500);
/// If the agent has not received such a message for this long, the broker passes nothing on, or the agent's process
/// was paused. Then the silence of leaders says nothing about them.
const DEAF_AFTER: Duration = Duration::from_millis(1500);
/// After this time, the operator learns what a process waits for that shall take over.
const SAY_AFTER: Duration = Duration::from_secs(10);
/// How often a message is sent that other agents need, because each one may be lost.
const REPEATS: u32 = 3;
/// The time between two of these messages.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);
/// When the agent ends, it waits this long for a killed leader to end.
const KILL_WITHIN: Duration = Duration::from_secs(5);
/// The last messages must leave within this time.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// The most submissions that the agent remembers.
const MAX_SUBMISSIONS: usize = 1000;
/// The exit codes of a leader whose job has ended: completed, failed, cancelled.
const ENDED: [i32; 3] = [0, 42, 130];

/// The jobs that an agent leads, or is about to.
pub(super) struct Leading {
    options: AgentOptions,
    limits: LeadingOptions,
    /// The agent's id.
    id: String,
    start: Instant,
    succession: Succession,
    jobs: Vec<LedJob>,
    /// Jobs without a leader that were found in stores.
    found: Receiver<OrphanedJob>,
    /// How each submission to this agent stands, by its id.
    submissions: BTreeMap<String, SubmitState>,
    /// When to send the next message to itself.
    echo_at: Duration,
    /// When the last message to itself has arrived. `None` if none has.
    echo: Option<Duration>,
    /// Whether the agent is about to end.
    is_ending: bool,
}

impl Leading {
    /// Listens to leaders and submitters.
    ///
    /// # Errors
    /// If the broker forbids it, or does not answer.
    pub(super) fn new(
        options: AgentOptions,
        limits: LeadingOptions,
        bus: &Bus,
    ) -> Result<Self, BusError> {
        let found = search(limits.stores.clone(), &options).map_err(BusError::Thread)?;
        let id = random_name();
        for subject in [LEADS.to_owned(), SUBMITS.to_owned(), to_node(&id)] {
            bus.subscribe(subject)?;
        }
        Ok(Self {
            options,
            limits,
            succession: Succession::new(id.clone(), Duration::ZERO),
            id,
            start: Instant::now(),
            jobs: Vec::new(),
            found,
            submissions: BTreeMap::new(),
            echo_at: Duration::ZERO,
            echo: None,
            is_ending: false,
        })
    }

    /// The agent's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn say(&self, line: &str) {
        (self.options.say)(line);
    }

    /// How many more jobs the agent can lead.
    fn room(&self) -> usize {
        if self.is_ending { 0 } else { self.limits.max_jobs.saturating_sub(self.jobs.len()) }
    }

    /// Takes a message. Returns false if the message is not for this part of the agent.
    pub(super) fn receive(&mut self, message: &BusMessage, bus: &Bus) -> bool {
        match &*message.subject {
            LEADS => {
                if let Ok(news) = decode_message(&message.payload) {
                    self.on_news(news, bus);
                }
            }
            SUBMITS => {
                if let Ok(submission) = decode_message(&message.payload) {
                    self.on_submission(&submission, bus);
                }
            }
            subject if subject == to_node(&self.id) => match decode_message(&message.payload) {
                Ok(ToAgent::Echo) => self.echo = Some(self.now()),
                Ok(ToAgent::Lead { submission, job, overwrite, reuse }) => {
                    self.on_request(&submission, &job, (overwrite, reuse), bus);
                }
                Err(_) => {}
            },
            _ => return false,
        }
        true
    }

    fn on_news(&mut self, news: LeadNews, bus: &Bus) {
        let now = self.now();
        match news {
            LeadNews::Leads(leads) if is_usable(&leads) => {
                self.note_own(&leads, bus);
                self.succession.hear(*leads, now);
            }
            LeadNews::Leads(_) => {}
            LeadNews::Over { run, epoch } => self.succession.end(&run, epoch),
            LeadNews::Gone { run, epoch } => self.succession.lose(&run, epoch, now),
        }
    }

    /// Notes that a process of this agent leads its job.
    fn note_own(&mut self, leads: &Leads, bus: &Bus) {
        if leads.agent.as_ref() != Some(&self.id) {
            return;
        }
        let is_meant = |job: &&mut LedJob| match (&job.submission, &job.run) {
            (Some(submission), None) => leads.submission.as_ref() == Some(submission),
            (_, run) => run.as_ref() == Some(&leads.run),
        };
        let Some(job) = self.jobs.iter_mut().find(is_meant).filter(|job| !job.leads) else {
            return;
        };
        job.leads = true;
        job.run = Some(leads.run.clone());
        let line = format!("leads the job {} (its log: {})", job.job, job.log.display());
        let state = SubmitState::Leads { job_dir: job.job_dir.clone() };
        let submission = job.submission.clone();
        self.say(&line);
        if let Some(submission) = submission {
            self.set_state(submission, state, bus);
        }
    }

    /// Says whether this agent can lead the job.
    fn on_submission(&self, submission: &Submission, bus: &Bus) {
        let Submission { protocol, version, id, store } = submission;
        if !is_random_name(id) {
            return;
        }
        let own = env!("CARGO_PKG_VERSION");
        let state = if *protocol != BUS_PROTOCOL || version != own {
            SubmitState::Unwilling(format!("its version is {own}"))
        } else if let Some(machine) = self.succession.machine_of(store, self.now()) {
            SubmitState::HasLeader(machine.to_owned())
        } else if self.is_ending {
            SubmitState::Unwilling("its agent is about to end".to_owned())
        } else if self.room() == 0 {
            SubmitState::Unwilling(format!(
                "it leads {} jobs already (--max-led)",
                self.limits.max_jobs
            ))
        } else {
            SubmitState::Willing { led: self.jobs.len() as u64 }
        };
        self.answer(id, state, bus);
    }

    /// Starts a leader for a submitted job, unless that was done.
    fn on_request(
        &mut self,
        submission: &str,
        job: &JobToLead,
        (overwrite, reuse): (bool, bool),
        bus: &Bus,
    ) {
        if !is_random_name(submission) || !is_well_formed(job) {
            return;
        }
        if let Some(state) = self.submissions.get(submission) {
            return self.answer(submission, state.clone(), bus);
        }
        let leader = self.succession.machine_of(&job.store, self.now()).map(str::to_owned);
        // A process that does not lead yet is not in the news.
        let is_here = self.jobs.iter().any(|led| led.store == job.store);
        let state = match leader.or_else(|| is_here.then(|| self.options.name.clone())) {
            Some(machine) => SubmitState::HasLeader(machine),
            None if self.room() == 0 => {
                SubmitState::Unwilling("it leads no more jobs now".to_owned())
            }
            None => {
                let options = [("--overwrite", overwrite), ("--no-reuse", !reuse)];
                let options = options.into_iter().filter(|(_, is_given)| *is_given);
                let reason = LeadReason::Submitted {
                    submission: submission.to_owned(),
                    options: options.map(|(option, _)| option.to_owned()).collect(),
                };
                match self.start_leader(job, reason) {
                    Ok(()) => SubmitState::Starting,
                    Err(text) => SubmitState::Ended { code: None, text },
                }
            }
        };
        self.set_state(submission.to_owned(), state, bus);
    }

    /// Starts a process that leads a job. The error is a text for users.
    fn start_leader(&mut self, job: &JobToLead, reason: LeadReason) -> Result<(), String> {
        let name = printable(&job.job).into_owned();
        let why = match &reason {
            LeadReason::Submitted { .. } => format!("a user has submitted the job {name}"),
            LeadReason::TakeOver { .. } => {
                format!("the leader of the job {name} is lost, and this machine takes over")
            }
        };
        let now = self.now();
        match LedJob::start(&self.options, (&self.id, &self.limits), job, reason, now) {
            Ok(led) => {
                self.say(&format!("{why} (its log: {})", led.log.display()));
                self.jobs.push(led);
                Ok(())
            }
            Err(error) => {
                let root = self.limits.root.display();
                let text = format!(
                    "a process that leads the job {name} cannot be started with a directory in {root}: {error}"
                );
                self.say(&text);
                Err(text)
            }
        }
    }

    fn set_state(&mut self, submission: String, state: SubmitState, bus: &Bus) {
        self.answer(&submission, state.clone(), bus);
        if self.submissions.len() >= MAX_SUBMISSIONS {
            self.submissions.retain(|_, state| {
                matches!(state, SubmitState::Starting | SubmitState::Leads { .. })
            });
        }
        self.submissions.insert(submission, state);
    }

    fn answer(&self, submission: &str, state: SubmitState, bus: &Bus) {
        let answer = SubmitAnswer { machine: self.options.name.clone(), state };
        publish(bus, &to_submitter(submission, &self.id), &answer);
    }

    /// Does what is due. Call this several times a second.
    pub(super) fn keep_up(&mut self, bus: &Bus) {
        let now = self.now();
        if now >= self.echo_at {
            self.echo_at = now + ECHO_INTERVAL;
            publish(bus, &to_node(&self.id), &ToAgent::Echo);
        }
        self.reap(bus);
        for job in self.found.try_iter() {
            self.succession.find(news_of(job), now);
        }
        // If the broker does not let the agent hear itself, the connection decides.
        let is_deaf = match self.echo {
            None => !bus.is_connected(),
            Some(echo) => now.saturating_sub(echo) >= DEAF_AFTER,
        };
        let room = self.room();
        for step in self.succession.tick(now, is_deaf, room) {
            match step {
                Step::Start(run) => self.take_over(&run),
                Step::Stop(run) => self.stop(&run),
                Step::Kill(run) => self.kill_silent(&run),
            }
        }
        self.say_what_is_waited_for(now);
    }

    fn take_over(&mut self, run: &str) {
        let now = self.now();
        let Some(job) = self.succession.job(run).cloned() else { return };
        let is_here = self.jobs.iter().any(|led| led.store == job.store);
        let reason = LeadReason::TakeOver { run: run.to_owned() };
        if is_here || self.start_leader(&job, reason).is_err() {
            self.succession.on_end(run, LeaderEnd::Failed, now);
        }
    }

    /// Ends a process that was to take over a run.
    fn stop(&mut self, run: &str) {
        let is_meant =
            |job: &LedJob| job.run.as_deref() == Some(run) && !job.leads && !job.is_stopped;
        let Some(job) = self.jobs.iter_mut().find(|job| is_meant(job)) else { return };
        job.is_stopped = true;
        job.kill();
        let line = format!("the job {} has a leader; this machine does not take over", job.job);
        self.say(&line);
    }

    /// Kills a leader of this machine that is silent, so that another one can lead. Its end is noticed like any other.
    fn kill_silent(&mut self, run: &str) {
        let is_meant = |job: &&mut LedJob| job.run.as_deref() == Some(run) && job.leads;
        let Some(job) = self.jobs.iter_mut().find(is_meant) else { return };
        job.kill();
        let line =
            format!("the leader of the job {} on this machine was silent, and was killed", job.job);
        self.say(&line);
    }

    /// Says once what a process waits for that shall take over.
    fn say_what_is_waited_for(&mut self, now: Duration) {
        let waits = |job: &&mut LedJob| {
            !job.leads && !job.wait_was_said && !job.is_stopped && job.since + SAY_AFTER <= now
        };
        let mut lines = Vec::new();
        for job in self.jobs.iter_mut().filter(waits) {
            job.wait_was_said = true;
            let last = job.last_words();
            let last = last.lines().last().map(|last| format!(": {}", printable(last)));
            let last = last.unwrap_or_else(|| ", and is still preparing it".to_owned());
            lines.push(format!("does not lead the job {} yet{last}", job.job));
        }
        lines.iter().for_each(|line| self.say(line));
    }

    /// Notes the processes that have ended.
    fn reap(&mut self, bus: &Bus) {
        let mut place = 0;
        while let Some(job) = self.jobs.get_mut(place) {
            match job.ended() {
                None => place += 1,
                Some(status) => {
                    let job = self.jobs.swap_remove(place);
                    self.on_end(&job, status, bus);
                }
            }
        }
    }

    fn on_end(&mut self, job: &LedJob, status: ExitStatus, bus: &Bus) {
        if job.is_stopped {
            return;
        }
        let has_ended = status.code().is_some_and(|code| ENDED.contains(&code));
        let end = if has_ended { LeaderEnd::Orderly } else { LeaderEnd::Failed };
        let gone = job.run.as_ref().and_then(|run| {
            let epoch = self.succession.on_end(run, end, self.now())?;
            Some(LeadNews::Gone { run: run.clone(), epoch })
        });
        if let Some(news) = gone {
            repeat(&news, bus);
        }
        let text = job.last_words();
        let last = printable(text.lines().last().unwrap_or_default()).into_owned();
        let name = &job.job;
        let log = job.log.display();
        self.say(&match (has_ended, job.leads) {
            (true, true) => format!("leads the job {name} no longer: {status}"),
            (true, false) => format!("the job {name} needs no leader: {status}"),
            (false, true) => {
                format!("the leader of the job {name} is lost: {status} (its log: {log})")
            }
            (false, false) => {
                format!("cannot lead the job {name}: {status}: {last} (its log: {log})")
            }
        });
        if let Some(submission) = &job.submission {
            let state = SubmitState::Ended { code: status.code(), text };
            self.set_state(submission.clone(), state, bus);
        }
    }

    /// Leads no further job, because the agent is about to end. The jobs that it leads continue here meanwhile.
    pub(super) fn begin_to_end(&mut self) {
        self.is_ending = true;
    }

    /// Ends all leaders, in a way that lets other agents continue their jobs at once.
    pub(super) fn hand_over(&mut self, bus: &Bus) {
        let now = self.now();
        for mut job in std::mem::take(&mut self.jobs) {
            // As if the machine had failed, because then the job continues elsewhere. First of all, this frees the
            // lock of the output folder.
            job.kill_and_wait(KILL_WITHIN);
            let Some(run) = &job.run else { continue };
            if let Some(epoch) = self.succession.on_end(run, LeaderEnd::Failed, now) {
                repeat(&LeadNews::Gone { run: run.clone(), epoch }, bus);
                self.say(&format!("hands over the job {} to other agents", job.job));
            }
        }
        bus.flush(FLUSH_WITHIN);
    }
}

/// Sends a message several times, because each one may be lost.
fn repeat(news: &LeadNews, bus: &Bus) {
    for time in 0..REPEATS {
        if time > 0 {
            std::thread::sleep(REPEAT_PAUSE);
        }
        publish(bus, LEADS, news);
    }
}

/// Whether this agent can follow the leader.
fn is_usable(leads: &Leads) -> bool {
    leads.protocol == BUS_PROTOCOL
        && leads.version == env!("CARGO_PKG_VERSION")
        && is_well_formed(&leads.job)
}

/// Whether a process can be started for the job. The path of its file becomes an argument of the process, and a path
/// that is not absolute could be an option. The process gets the job from the job's store: no message makes it open a job
/// file on this machine.
fn is_well_formed(job: &JobToLead) -> bool {
    is_plain(&job.job) && job.file.is_absolute() && job.source.is_some()
}

/// Whether this can be the name of a folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && name.len() <= 200
}
