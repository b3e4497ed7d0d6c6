//! The agent on a machine: takes part in the jobs that leaders offer.

use super::agent_error::AgentError;
use super::agent_options::{AgentOptions, LoadJob, Wish};
use super::broker_watch::BrokerWatch;
use super::job_part::take_part;
use super::leading::Leading;
use super::part_end::PartEnd;
use super::signed_job::policy_for;
use crate::bus::{
    BUS_PROTOCOL, Bus, BusMessage, OFFERS, Offer, RollCall, RollCallAnswer, decode_message, publish,
};
use crate::cancel::Cancel;
use crate::model::{SignerKey, printable, random_name};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often the agent looks whether a part has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// After a leader refused this agent, or the agent declined the job, the agent ignores the leader for this time.
const REFUSAL_PAUSE: Duration = Duration::from_secs(30);
/// After a leader had enough nodes, the agent ignores the leader for this time. It is shorter, because the leader may
/// lose a node at any time.
const NOT_NEEDED_PAUSE: Duration = Duration::from_secs(3);
/// If this machine has no room for the work of a leader, the agent ignores the leader for this time.
const ROOM_PAUSE: Duration = Duration::from_secs(10);
/// The longest such pause, of an agent that has left the run several times.
const MAX_ROOM_PAUSE: Duration = Duration::from_secs(600);
/// The most refusals that the agent remembers.
const MAX_REFUSALS: usize = 1000;
/// The most reasons against offers that the agent says in [`REFUSAL_PAUSE`]. Other clients of the broker may make
/// offers without end.
const MAX_REASONS: usize = 20;
/// The agent answers at most one roll call in this time. Other clients of the broker may ask without end.
const ROLL_CALL_PAUSE: Duration = Duration::from_millis(20);
/// The most characters of a job's name in such a reason.
const MAX_NAME: usize = 100;

/// A part in a job.
struct Part {
    job: String,
    leader: String,
    epoch: u64,
    wish: watch::Sender<Wish>,
    thread: JoinHandle<Result<PartEnd, AgentError>>,
    /// The offer of a later leader. If the part cannot follow it, the offer is considered when the part has ended.
    later: watch::Sender<Option<Offer>>,
}

/// Takes part in jobs until `cancel` is requested. Then what runs is finished, and the rest is given back.
///
/// # Errors
/// If the broker cannot be reached at the start.
pub(crate) fn run_agent(
    mut options: AgentOptions,
    load: LoadJob,
    cancel: &Cancel,
) -> Result<(), AgentError> {
    let bus = Bus::connect(&options.broker, &format!("agent-{}", options.name))?;
    bus.subscribe(OFFERS.to_owned())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AgentError::Thread)?;
    let leading = options.leading.clone();
    let leading = leading.map(|limits| Leading::new(options.clone(), limits, &bus)).transpose();
    let leading = leading.unwrap_or_else(|error| {
        (options.say)(&format!("warning: this machine leads no jobs: {error}"));
        None
    });
    options.may_lead = leading.as_ref().map(|leading| leading.id().to_owned());
    let whose = options.node.policy.signers();
    let whose = whose.map(|names| format!(" of {}", names.join(", "))).unwrap_or_default();
    (options.say)(&format!("{} waits for jobs{whose}", options.name));
    let agent = Agent {
        bus,
        leading,
        options,
        load,
        parts: BTreeMap::new(),
        refusals: BTreeMap::new(),
        reasons: BTreeMap::new(),
        epochs: BTreeMap::new(),
        without_room: BTreeSet::new(),
        left_for_room: BTreeMap::new(),
        id: random_name(),
        roll_call: None,
        start: Instant::now(),
        broker: BrokerWatch::default(),
    };
    runtime.block_on(Box::pin(agent.drive(cancel)));
    Ok(())
}

struct Agent {
    bus: Bus,
    /// `None` if the agent leads no jobs.
    leading: Option<Leading>,
    options: AgentOptions,
    load: LoadJob,
    /// By the id of the run.
    parts: BTreeMap<String, Part>,
    /// Until when this agent ignores leaders that have refused it, by the leader's name.
    refusals: BTreeMap<String, Instant>,
    /// When the agent said why it takes no part in jobs that its policy does not allow.
    reasons: BTreeMap<String, Instant>,
    /// The highest [epoch](Offer::epoch) of each run that was offered lately, by the run's id and the signer.
    epochs: BTreeMap<(String, Option<SignerKey>), u64>,
    /// The runs of which the operator knows that this machine has no room for them.
    without_room: BTreeSet<String>,
    /// How often this machine has left each of these runs because it had no room, before it was of use.
    left_for_room: BTreeMap<String, u32>,
    /// The agent's name in answers to roll calls.
    id: String,
    /// When the last roll call was answered. `None` if none was.
    roll_call: Option<Instant>,
    /// When the agent began.
    start: Instant,
    broker: BrokerWatch,
}

impl Agent {
    async fn drive(mut self, cancel: &Cancel) {
        let mut stop = cancel.watch();
        let mut is_stopping = false;
        loop {
            self.reap(is_stopping);
            let word = self.broker.look(self.bus.is_connected(), self.start.elapsed());
            word.iter().for_each(|word| self.say(word));
            let has_ended = is_stopping && self.parts.is_empty();
            match &mut self.leading {
                Some(leading) if has_ended => return leading.hand_over(&self.bus),
                None if has_ended => return,
                Some(leading) => leading.keep_up(&self.bus),
                None => {}
            }
            tokio::select! {
                biased;
                Ok(()) = stop.changed() => {
                    let request = stop.borrow_and_update().clone();
                    if let Some(request) = request {
                        is_stopping = true;
                        if let Some(leading) = &mut self.leading {
                            leading.begin_to_end();
                        }
                        self.stop_all(if request.at_once { Wish::Quit } else { Wish::Drain });
                    }
                }
                message = self.bus.next() => {
                    if self.answer_roll_call(&message) {
                        continue;
                    }
                    let leading = self.leading.as_mut();
                    if leading.is_some_and(|leading| leading.receive(&message, &self.bus)) {
                        continue;
                    }
                    if let (false, Ok(offer)) = (is_stopping, decode_message(&message.payload)) {
                        self.consider(offer);
                    }
                }
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    /// If the message is a roll call, says that this agent is there.
    fn answer_roll_call(&mut self, message: &BusMessage) -> bool {
        let Some(subject) = RollCall::answer_subject(message, &self.id) else { return false };
        if self.roll_call.is_none_or(|at| at.elapsed() >= ROLL_CALL_PAUSE) {
            self.roll_call = Some(Instant::now());
            let answer = RollCallAnswer::new(
                self.options.name.clone(),
                env!("CARGO_PKG_VERSION").to_owned(),
                self.leading.is_some(),
                (self.parts.len(), self.options.max_jobs),
                self.options.disk.full().map(|full| full.to_string()),
            );
            publish(&self.bus, &subject, &answer);
        }
        true
    }

    fn stop_all(&self, wish: Wish) {
        let running = self.parts.len();
        if running > 0 && wish == Wish::Drain {
            self.say(&format!(
                "jobs here: {running}. What their workers do now is finished, and the rest is given back"
            ));
        }
        for part in self.parts.values() {
            // If this fails, the part has ended.
            let _ = part.wish.send(wish);
        }
    }

    fn say(&self, line: &str) {
        (self.options.say)(line);
    }

    /// Takes part in an offered job, if it can.
    fn consider(&mut self, offer: Offer) {
        let job = printable(&offer.job).into_owned();
        // Before anything else: such an offer must not change what the agent does.
        let policy = match policy_for(&offer, &self.options.node.policy) {
            Ok(policy) => policy,
            Err(reason) => {
                let job: String = job.chars().take(MAX_NAME).collect();
                return self.say_sometimes(format!("takes no part in the job {job}: {reason}"));
            }
        };
        if self.is_outdated(&offer) {
            return;
        }
        if let Some(part) = self.parts.get_mut(&offer.run) {
            // If sending fails, the part has ended.
            if part.leader == offer.leader {
                let _ = part.wish.send(Wish::Renew);
            } else if offer.epoch > part.epoch {
                part.leader.clone_from(&offer.leader);
                part.epoch = offer.epoch;
                let _ = part.later.send(Some(offer));
            }
            return;
        }
        let is_ignored = |until: &Instant| Instant::now() < *until;
        if self.refusals.get(&offer.leader).is_some_and(is_ignored)
            || self.parts.len() >= self.options.max_jobs
        {
            return;
        }
        if offer.protocol != BUS_PROTOCOL || offer.version != env!("CARGO_PKG_VERSION") {
            self.say(&format!(
                "the job {job} is not for this agent: its leader has version {}, and this is version {}; install one version on \
                 all machines",
                printable(&offer.version),
                env!("CARGO_PKG_VERSION")
            ));
            return self.ignore_for(REFUSAL_PAUSE, offer.leader);
        }
        // Without room, it only says so to the leader.
        if self.options.disk.full().is_none() {
            self.say(&format!("offers to run workers of the job {job}"));
        }
        let (wish, wishes) = watch::channel(Wish::TakePart);
        let load = self.load.clone();
        let run = offer.run.clone();
        let mut options = self.options.clone();
        options.node.policy = policy;
        let leader = offer.leader.clone();
        let epoch = offer.epoch;
        let thread = thread::Builder::new().name("part".to_owned());
        let (later, offers) = watch::channel(None);
        match thread.spawn(move || take_part(&offer, &options, load, wishes, offers)) {
            Ok(thread) => {
                self.parts.insert(run, Part { job, leader, epoch, wish, thread, later });
            }
            Err(error) => self.say(&AgentError::Thread(error).to_string()),
        }
    }

    /// Says a line, unless the agent has said it lately.
    fn say_sometimes(&mut self, line: String) {
        self.reasons.retain(|_, at| at.elapsed() < REFUSAL_PAUSE);
        if self.reasons.len() < MAX_REASONS && !self.reasons.contains_key(&line) {
            self.say(&line);
            self.reasons.insert(line, Instant::now());
        }
    }

    /// Whether another leader has led the run after this one. Remembers the latest leader.
    fn is_outdated(&mut self, offer: &Offer) -> bool {
        if self.epochs.len() >= MAX_REFUSALS {
            self.epochs.retain(|(run, _), _| self.parts.contains_key(run));
        }
        let signer = offer.signature.as_ref().map(|signature| signature.signer);
        let latest = self.epochs.entry((offer.run.clone(), signer)).or_default();
        *latest = offer.epoch.max(*latest);
        offer.epoch < *latest
    }

    fn ignore_for(&mut self, pause: Duration, leader: String) {
        let now = Instant::now();
        self.refusals.retain(|_, until| now < *until);
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.insert(leader, now + pause);
        }
    }

    /// How long this machine stays away from a run that it has left because it had no room, before an attempt had ended. What
    /// the job needs may be more than the limit: then the machine would soon leave again, so it waits twice as long each
    /// time.
    fn pause_of(&mut self, run: &str) -> Duration {
        if self.left_for_room.len() >= MAX_REFUSALS {
            self.left_for_room.clear();
        }
        let left = self.left_for_room.entry(run.to_owned()).or_default();
        let pause = ROOM_PAUSE.saturating_mul(1 << (*left).min(10));
        *left = left.saturating_add(1);
        pause.min(MAX_ROOM_PAUSE)
    }

    /// Notes the parts that have ended. If the agent does not end, it then considers offers that came meanwhile.
    fn reap(&mut self, is_stopping: bool) {
        if self.without_room.len() >= MAX_REFUSALS || self.options.disk.full().is_none() {
            self.without_room.clear();
        }
        let is_over = |(_, part): &(&String, &Part)| part.thread.is_finished();
        let over: Vec<String> =
            self.parts.iter().filter(is_over).map(|(run, _)| run.clone()).collect();
        for run in over {
            let Some(part) = self.parts.remove(&run) else { continue };
            let Part { job, leader, thread, later, .. } = part;
            let ended = thread.join();
            let follows = matches!(ended, Ok(Ok(PartEnd::Followed)));
            let text = match ended {
                Ok(Ok(PartEnd::Over)) => format!("the job {job} is over"),
                Ok(Ok(PartEnd::Stopped | PartEnd::Renewed)) => {
                    format!("takes no part in the job {job} any longer")
                }
                Ok(Ok(PartEnd::Followed)) => format!("the job {job} has another leader"),
                Ok(Ok(PartEnd::GivenUp)) => {
                    format!("the leader of the job {job} gave up this machine")
                }
                Ok(Ok(PartEnd::LeaderLost)) => {
                    format!("the leader of the job {job} is silent; its workers were ended")
                }
                Ok(Ok(PartEnd::NotNeeded)) => {
                    self.ignore_for(NOT_NEEDED_PAUSE, leader);
                    format!("the job {job} has as many nodes as it asked for")
                }
                Ok(Ok(PartEnd::Cancelled)) => {
                    format!(
                        "the job {job} was cancelled, and its leader is silent; its workers were ended"
                    )
                }
                Ok(Ok(PartEnd::NoRoom { reason, was_useless })) => {
                    let pause = if was_useless { self.pause_of(&run) } else { ROOM_PAUSE };
                    self.ignore_for(pause, leader);
                    let line = format!("takes no part in the job {job} for now: {reason}");
                    if !self.without_room.insert(run) {
                        continue;
                    }
                    line
                }
                Ok(Ok(PartEnd::Refused(reason) | PartEnd::Declined(reason))) => {
                    self.ignore_for(REFUSAL_PAUSE, leader);
                    format!("takes no part in the job {job}: {}", printable(&reason))
                }
                Ok(Err(error)) => {
                    self.ignore_for(REFUSAL_PAUSE, leader);
                    format!("takes no part in the job {job}: {error}")
                }
                Err(_) => {
                    self.ignore_for(REFUSAL_PAUSE, leader);
                    format!(
                        "a defect of Sandmill ended the part in the job {job}; please report it"
                    )
                }
            };
            self.say(&text);
            let later = later.borrow().clone();
            if let Some(offer) = later.filter(|_| follows && !is_stopping) {
                self.consider(offer);
            }
        }
    }
}
