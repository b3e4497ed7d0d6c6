//! An agent's part in one job: it runs workers as the leader orders, and reports what they did.

mod reporting;
mod room;

use super::agent_error::AgentError;
use super::agent_options::{AgentOptions, LoadJob, Wish};
use super::cancel_check::CancelCheck;
use super::disk_watch::DiskWatch;
use super::durable::{Durable, DurableReports, full_disk};
use super::incarnation::{Connected, connect_to};
use super::kept_reports::KeptReports;
use super::log_tails::LogTailing;
use super::part_end::PartEnd;
use super::preparing::{PreparedPart, prepare};
use super::upload::{rows_folder, rows_name};
use crate::bus::{
    BUS_PROTOCOL, Bus, BusMessage, Channel, FromNode, JobForNode, KeptPart, Link, Offer, Packet,
    PacketError, ToNode, decode_message, queue,
};
use crate::engine::CancelRequests;
use crate::model::MiniBatchId;
use crate::node::RunningJob;
use crate::protocol::node::PlanOptions;
use crate::protocol::{NodeReport, Order, WorkersEnd, WorkersStanding};
use room::Room;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// After the job's end, the agent waits this long for the leader's last message.
const END_PATIENCE: Duration = Duration::from_secs(15);
/// How long killed workers may take to end.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// How long the last messages may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// In this many rounds at most, messages of workers are read before the clock is checked.
const MAX_ROUNDS: u32 = 100;

/// Takes part in a job until the part ends.
///
/// # Errors
/// If the broker cannot be reached, or results cannot be made durable.
pub(super) fn take_part(
    offer: &Offer,
    options: &AgentOptions,
    load: LoadJob,
    wish: watch::Receiver<Wish>,
    later: watch::Receiver<Option<Offer>>,
) -> Result<PartEnd, AgentError> {
    let Connected { bus, channel, incarnation } = connect_to(offer, options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AgentError::Thread)?;
    let part = JobPart {
        link: Link::new(Duration::ZERO),
        offer: offer.clone(),
        channel,
        incarnation,
        cancels: None,
        cancel_check: CancelCheck::default(),
        bus,
        disk: options.disk.clone(),
        room: Room::default(),
        options: options.clone(),
        load,
        start: Instant::now(),
        wish,
        later,
        asked: None,
        kept: KeptReports::default(),
        has_joined: true,
        has_followed: false,
        preparing: None,
        work: None,
        outbox: Vec::new(),
        unsent: Vec::new(),
        has_changed: false,
        has_stored_logs: false,
        parts: Vec::new(),
        syncing: None,
        broken: None,
        end: None,
    };
    // Boxed, because the future is large.
    let end = runtime.block_on(Box::pin(part.drive()));
    // A store that hangs must not keep the agent.
    runtime.shutdown_background();
    end
}

/// What the agent runs for the job.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) running: RunningJob,
    pub(super) prepared: PreparedPart,
    pub(super) durable: Durable,
    /// The name of the folder for rows in the job's store.
    pub(super) rows: String,
    /// `None` if the log tree is in a folder that all machines share.
    _logs: Option<LogTailing>,
}

/// Reports whose rows and files are being made durable.
#[derive(Debug)]
pub(super) struct Syncing {
    /// The attempts that have ended.
    pub(super) ended: Vec<(MiniBatchId, u32)>,
    task: JoinHandle<DurableReports>,
    since: Duration,
}

pub(super) struct JobPart {
    pub(super) bus: Bus,
    pub(super) link: Link,
    pub(super) offer: Offer,
    pub(super) channel: Channel,
    /// The name of this part, for the leader.
    pub(super) incarnation: String,
    /// The requests to cancel the job. `None` until the job is prepared.
    cancels: Option<CancelRequests>,
    cancel_check: CancelCheck,
    pub(super) options: AgentOptions,
    disk: DiskWatch,
    room: Room,
    load: LoadJob,
    start: Instant,
    pub(super) wish: watch::Receiver<Wish>,
    /// The offer of a later leader.
    pub(super) later: watch::Receiver<Option<Offer>>,
    /// What this node has prepared, or prepares.
    pub(super) asked: Option<JobForNode>,
    /// What a later leader must learn.
    pub(super) kept: KeptReports,
    /// Whether the leader waits for reports. A later leader first accepts the node.
    pub(super) has_joined: bool,
    /// Whether the workers were started for an earlier leader.
    pub(super) has_followed: bool,
    preparing: Option<oneshot::Receiver<Result<PreparedPart, AgentError>>>,
    /// `None` until the job is prepared.
    pub(super) work: Option<Work>,
    /// Reports that are not sent.
    pub(super) outbox: Vec<NodeReport>,
    /// Messages to a later leader, which has not accepted this node yet. They come before the outbox.
    pub(super) unsent: Vec<FromNode>,
    /// Whether the state of the workers has changed since the last report of it.
    pub(super) has_changed: bool,
    /// Whether the logs of all workers are in the store.
    has_stored_logs: bool,
    /// The first grants of an order whose rest has not arrived.
    pub(super) parts: Vec<Order>,
    /// Later reports wait for these.
    pub(super) syncing: Option<Syncing>,
    /// Whether results could not be made durable.
    broken: Option<AgentError>,
    pub(super) end: Option<PartEnd>,
}

impl JobPart {
    async fn drive(mut self) -> Result<PartEnd, AgentError> {
        if !self.declines_for_room() {
            self.say_hello(None);
        }
        loop {
            self.flush();
            self.pause();
            self.wait().await;
            self.receive_from_workers().await;
            self.check_room();
            self.send_reports();
            if let Some(error) = self.broken.take() {
                self.leave(&error.to_string()).await;
                return Err(error);
            }
            self.check_silence();
            if let Some(end) = self.end.take() {
                match &end {
                    PartEnd::Stopped => self.leave("the agent ends").await,
                    PartEnd::Renewed => self.leave("it joins again").await,
                    PartEnd::NoRoom { reason, .. } => self.leave(reason).await,
                    // The earlier leader is probably lost. If not, it learns that this node no longer works for it.
                    PartEnd::Followed => {
                        self.stop_workers().await;
                        self.channel.publish(&self.bus, &Packet::Gone);
                    }
                    _ => {
                        self.stop_workers().await;
                        self.say_last_words().await;
                    }
                }
                return Ok(end);
            }
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Begins the conversation with a leader. `continues`: what this node has, if its workers go on.
    pub(super) fn say_hello(&mut self, continues: Option<KeptPart>) {
        self.send(&FromNode::Hello {
            name: self.options.name.clone(),
            protocol: BUS_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            may_lead: self.options.may_lead.clone(),
            continues,
        });
    }

    /// Queues a message for the leader.
    pub(super) fn send(&mut self, message: &FromNode) {
        queue(&mut self.link, message);
    }

    /// Sends what is due, to workers and to the leader.
    fn flush(&mut self) {
        if let Some(work) = &mut self.work {
            work.running.flush();
        }
        let now = self.now();
        self.channel.publish_frames(&self.bus, &mut self.link, now);
    }

    /// Pauses while all workers have enough to do. Then many mini-batches are synced and reported together.
    fn pause(&mut self) {
        if let Some(pause) = self.work.as_mut().and_then(|work| work.running.pause()) {
            std::thread::sleep(pause);
        }
    }

    async fn wait(&mut self) {
        let patience = self.link.heard().saturating_add(self.patience());
        let sync = self.syncing.as_ref().map(|syncing| self.sync_deadline(syncing));
        let patience = patience.min(sync.unwrap_or(Duration::MAX));
        let node = self.work.as_ref().and_then(|work| work.running.next_deadline());
        let deadline = self.link.next_deadline().min(patience).min(node.unwrap_or(Duration::MAX));
        let deadline = deadline.min(self.room_deadline());
        let due = self.start.checked_add(deadline);
        let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(1));
        tokio::select! {
            biased;
            Ok(()) = self.wish.changed() => self.on_wish(),
            Ok(()) = self.later.changed() => self.on_later_leader(),
            message = self.bus.next() => self.receive(&message),
            () = self.disk.changed() => {}
            prepared = next_prepared(&mut self.preparing) => self.on_prepared(prepared),
            synced = next_synced(&mut self.syncing) => self.on_synced(synced),
            reports = next_reports(&mut self.work) => self.collect(reports),
            () = tokio::time::sleep_until(due.into()) => {}
        }
    }

    fn on_wish(&mut self) {
        let wish = *self.wish.borrow_and_update();
        match wish {
            Wish::TakePart => {}
            // The job needs nodes again, although its end was near.
            Wish::Renew if self.has_ended() && self.has_reported() => {
                self.end = Some(PartEnd::Renewed);
            }
            Wish::Renew => {}
            Wish::Drain if self.work.is_some() => self.obey(Order::End(WorkersEnd::Orderly)),
            Wish::Drain | Wish::Quit => self.end = Some(PartEnd::Stopped),
        }
    }

    fn receive(&mut self, message: &BusMessage) {
        let now = self.now();
        let messages = match self.channel.open(&message.payload) {
            Ok(Packet::Frame(frame)) => self.link.receive(frame, now).map_err(|_| ()),
            Ok(Packet::Gone) | Err(PacketError::Malformed(_)) => Err(()),
            // The message is not from the leader.
            Ok(Packet::Sealed(_)) | Err(PacketError::Forged) => return,
        };
        let Ok(messages) = messages else {
            self.end = Some(PartEnd::GivenUp);
            return;
        };
        for message in messages {
            match decode_message(&message) {
                Ok(message) => self.on_message(message),
                Err(_) => self.end = Some(PartEnd::GivenUp),
            }
        }
    }

    fn on_message(&mut self, message: ToNode) {
        match message {
            ToNode::Accepted(job) if self.has_followed => self.continue_for(&job),
            ToNode::Accepted(job) => self.prepare(*job),
            ToNode::Refused(reason) => self.end = Some(PartEnd::Refused(reason)),
            ToNode::NotNeeded if self.leaves_for_room() => self.end = Some(self.drained()),
            ToNode::NotNeeded => self.end = Some(PartEnd::NotNeeded),
            ToNode::Tables(tables) => {
                if let Some(work) = &mut self.work {
                    work.running.know_tables(tables);
                }
            }
            ToNode::PartOfOrder(part) => self.parts.push(part),
            ToNode::Order(order) => {
                let order = self.parts.drain(..).rev().fold(order, joined);
                self.obey(order);
            }
            ToNode::Reclaimable { worker, id, attempt } => {
                self.kept.release(worker, id, attempt);
                if let Some(work) = &mut self.work {
                    work.running.mark_reclaimable(worker, id, attempt);
                }
            }
            ToNode::Committed(pack) => self.kept.release_pack(pack),
            ToNode::Over => self.end = Some(PartEnd::Over),
        }
    }

    /// Prepares the job on a thread of its own, so that the leader hears from this agent meanwhile.
    fn prepare(&mut self, job: JobForNode) {
        let (sender, receiver) = oneshot::channel();
        self.asked = Some(job.clone());
        let options = self.options.clone();
        let load = self.load.clone();
        let offer = self.offer.clone();
        let thread = std::thread::Builder::new().name("prepare".to_owned());
        let spawned = thread.spawn(move || {
            // If this fails, the part has ended.
            let _ = sender.send(prepare(&job, &offer, &options, &load));
        });
        match spawned {
            Ok(_) => self.preparing = Some(receiver),
            Err(error) => self.decline(&AgentError::Thread(error)),
        }
    }

    fn on_prepared(&mut self, prepared: Result<PreparedPart, AgentError>) {
        self.preparing = None;
        match prepared.and_then(|prepared| self.begin(prepared)) {
            Ok(()) => {}
            Err(error) => self.decline(&error),
        }
    }

    fn begin(&mut self, mut prepared: PreparedPart) -> Result<(), AgentError> {
        let patience = self.options.leader_patience;
        let rows = rows_name(self.offer.epoch, &self.incarnation);
        let folder_of_rows = rows_folder(&self.offer.run, &rows);
        let durable = Durable::new(&prepared, folder_of_rows.clone(), patience)?;
        self.cancels = Some(CancelRequests::of_run(&prepared.objects, &self.offer.run));
        let mut running = prepared.job.start(&PlanOptions::default())?;
        prepared.job.begin(&mut running, self.start, prepared.first_worker, true);
        running.watch()?;
        running.fetch_spill(prepared.spill_copies(&self.offer.run)?);
        self.send(&FromNode::Prepared {
            component: prepared.component.clone(),
            settings: prepared.settings.clone(),
            workers: prepared.workers,
            backends: prepared.backends.clone(),
        });
        let PreparedPart { folder, objects, .. } = &prepared;
        let logs = matches!(durable, Durable::Store(..))
            .then(|| LogTailing::start(objects.clone(), folder_of_rows, folder));
        self.work = Some(Work { running, prepared, durable, rows, _logs: logs.flatten() });
        Ok(())
    }

    fn decline(&mut self, error: &AgentError) {
        let reason = error.to_string();
        self.send(&FromNode::Declined(reason.clone()));
        self.end = Some(PartEnd::Declined(reason));
    }

    fn obey(&mut self, order: Order) {
        let Some(work) = &mut self.work else { return };
        let now = self.start.elapsed();
        // The order may come before the tick of a deadline, which then reports nothing.
        let is_due = work.running.next_deadline().is_some_and(|deadline| deadline <= now);
        let before = without_ages(work.running.standing());
        let reports = work.running.obey(order);
        // The leader learns that the order was carried out. If it changed nothing, an answer would lead to the same
        // order again.
        self.has_changed |= is_due || without_ages(work.running.standing()) != before;
        self.collect(reports);
    }

    /// Collects reports for the leader.
    fn collect(&mut self, reports: Vec<NodeReport>) {
        for report in reports {
            if let Some(message) = full_disk(&report)
                && let Some(Work { prepared, .. }) = &self.work
                && prepared.is_folder_own
            {
                // Other machines may have room.
                let folder = prepared.folder.root().to_owned();
                self.broken.get_or_insert(AgentError::NoSpace { folder, message });
            }
            match report {
                NodeReport::Changed => self.has_changed = true,
                // Other machines may have room.
                NodeReport::NoSpace(text) => self.broken = Some(AgentError::NoRoom(text)),
                report => {
                    self.room.note(&report);
                    self.outbox.push(report);
                }
            }
        }
    }

    /// Reads everything that workers have sent, then checks whether one of them is late.
    async fn receive_from_workers(&mut self) {
        for _ in 0..MAX_ROUNDS {
            // The tasks that read the workers' messages run in these turns.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            let mut taken = 0;
            while let Some(reports) =
                self.work.as_mut().and_then(|work| work.running.next_queued_reports())
            {
                self.collect(reports);
                taken += 1;
            }
            if taken == 0 {
                break;
            }
        }
        let now = self.now();
        let Some(work) = &mut self.work else { return };
        if work.running.next_deadline().is_some_and(|deadline| now >= deadline) {
            let reports = work.running.tick();
            self.collect(reports);
        }
    }

    fn has_ended(&self) -> bool {
        let standing = self.work.as_ref().map(|work| work.running.standing());
        standing.is_some_and(|standing| standing.is_ending && standing.workers() == 0)
    }

    /// How long the leader may be silent.
    fn patience(&self) -> Duration {
        let has_begun = self.work.is_some() || self.preparing.is_some();
        if has_begun && !self.has_ended() { self.options.leader_patience } else { END_PATIENCE }
    }

    /// When the agent gives up a store that does not answer.
    fn sync_deadline(&self, syncing: &Syncing) -> Duration {
        // A store may take long, and an upload has a patience of its own for one that fails.
        let is_upload = |work: &Work| matches!(work.durable, Durable::Store(..));
        match self.work.as_ref().is_some_and(is_upload) {
            true => Duration::MAX,
            false => syncing.since.saturating_add(self.options.leader_patience),
        }
    }

    fn check_silence(&mut self) {
        let now = self.now();
        let hangs = |syncing: &Syncing| now >= self.sync_deadline(syncing);
        if let (true, Some(work)) = (self.syncing.as_ref().is_some_and(hangs), &self.work) {
            let folder = work.prepared.folder.work();
            self.broken = Some(AgentError::Sync { folder, source: ErrorKind::TimedOut.into() });
        }
        let drains = *self.wish.borrow() == Wish::Drain || self.leaves_for_room();
        if drains && self.work.is_some() && self.has_drained() {
            let end = self.drained();
            self.end.get_or_insert(end);
        }
        let silence = self.link.silence(now);
        if silence >= self.patience() {
            self.end.get_or_insert(PartEnd::LeaderLost);
        }
        if let Some(requests) = &self.cancels
            && self.cancel_check.is_cancelled(requests, self.offer.epoch, now, silence)
        {
            self.end.get_or_insert(PartEnd::Cancelled);
        }
    }

    /// Whether no worker runs any longer, and the leader knows what all of them did.
    fn has_drained(&self) -> bool {
        let has_worker =
            self.work.as_ref().is_some_and(|work| work.running.standing().workers() > 0);
        !has_worker && self.has_reported()
    }

    /// Whether the leader knows everything that has happened here.
    fn has_reported(&self) -> bool {
        let is_durable = self.unsent.is_empty() && self.syncing.is_none();
        let is_sent = is_durable && self.outbox.is_empty() && !self.has_changed;
        is_sent && self.link.is_acknowledged()
    }

    /// Ends the part, and says so.
    async fn leave(&mut self, reason: &str) {
        self.stop_workers().await;
        self.send(&FromNode::Leaving(reason.to_owned()));
        self.say_last_words().await;
        self.channel.publish(&self.bus, &Packet::Gone);
    }

    /// Waits until the leader has all messages, or does not listen.
    async fn say_last_words(&mut self) {
        let until = self.now() + LAST_WORDS;
        // Also until the leader knows what has arrived here.
        while !self.link.is_idle() && self.now() < until {
            self.flush();
            let due = self.start + self.link.next_deadline().min(until);
            tokio::select! {
                message = self.bus.next() => {
                    let now = self.now();
                    let received = match self.channel.open(&message.payload) {
                        Ok(Packet::Frame(frame)) => self.link.receive(frame, now).is_ok(),
                        Err(PacketError::Forged) => true,
                        Ok(_) | Err(PacketError::Malformed(_)) => false,
                    };
                    if !received {
                        return;
                    }
                }
                () = tokio::time::sleep_until(due.into()) => {}
            }
        }
        self.flush();
    }

    /// Kills the workers that are left.
    async fn stop_workers(&mut self) {
        let Some(Work { mut running, prepared, durable, _logs, .. }) = self.work.take() else {
            return;
        };
        if let Durable::Store(upload, _) = durable {
            upload.stop();
        }
        running.obey(Order::End(WorkersEnd::AtOnce));
        let until = Instant::now() + KILL_PATIENCE;
        while running.standing().workers() > 0 && Instant::now() < until {
            let deadline = tokio::time::sleep_until(until.into());
            tokio::select! {
                _ = running.next(false) => {}
                () = deadline => {}
            }
        }
        running.close();
        running.end_watch();
        // The folder for the workers' files is removed last.
        drop(prepared);
    }
}

/// The order with the grants of an earlier part of it.
fn joined(order: Order, part: Order) -> Order {
    match (part, order) {
        (Order::Grant(first), Order::Grant(rest)) => Order::Grant([first, rest].concat()),
        (Order::GrantAhead(first), Order::GrantAhead(rest)) => {
            Order::GrantAhead([first, rest].concat())
        }
        // The leader sends no such parts.
        (_, order) => order,
    }
}

/// The state of the workers, without what only the passing of time changes.
fn without_ages(standing: WorkersStanding) -> WorkersStanding {
    WorkersStanding { last_start: None, ..standing }
}

async fn next_synced(syncing: &mut Option<Syncing>) -> DurableReports {
    match syncing {
        Some(Syncing { task, .. }) => {
            task.await.unwrap_or_else(|error| Err(AgentError::Thread(std::io::Error::other(error))))
        }
        None => std::future::pending().await,
    }
}

async fn next_prepared(
    preparing: &mut Option<oneshot::Receiver<Result<PreparedPart, AgentError>>>,
) -> Result<PreparedPart, AgentError> {
    match preparing {
        Some(receiver) => receiver.await.unwrap_or_else(|_| {
            Err(AgentError::Thread(std::io::Error::other("it has ended unexpectedly")))
        }),
        None => std::future::pending().await,
    }
}

async fn next_reports(work: &mut Option<Work>) -> Vec<NodeReport> {
    match work {
        Some(work) => work.running.next(false).await,
        None => std::future::pending().await,
    }
}
