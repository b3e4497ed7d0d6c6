//! The nodes of a job on other machines, as the job's leader sees them.

mod joining;
mod orders;
mod reading;

use super::broker_watch::BrokerWatch;
use super::granted_objects::GrantedObjects;
use super::lead_news::{LeadAnnouncer, LeadKeeper};
use super::leader_identity::LeaderIdentity;
use super::logs::copy_logs;
use super::node_table::NodeTable;
use super::pack::have_results;
use super::remote_node::{NodeStage, RemoteNode, ReportedPack};
use super::spill_store::SpillStore;
use super::store_work::StoreWork;
use super::uncommitted_packs::UncommittedPacks;
use super::upload::{epoch_of, is_incarnation, rows_name};
use crate::bus::{
    BUS_PROTOCOL, Bus, BusError, BusMessage, Frame, FromNode, KeptPart, NodeBackends, OFFERS,
    Packet, PacketError, ToNode, decode_message, publish, to_leader,
};
use crate::engine::RemoteWork;
use crate::model::{MiniBatchSet, NodeId, TableFormat, in_short, is_random_name, printable};
use crate::protocol::{NodeReport, NodeReports, WorkersEnd};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the leader looks whether nodes are silent.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// If the leader has not heard its own voice for this long, the broker passes nothing on, or the leader's process was
/// paused. Then the silence of nodes says nothing about them.
const DEAF_AFTER: Duration = Duration::from_millis(2500);
/// If the leader has not heard its own voice for this long, or no node works for this long, and an agent waits to lead
/// the job, this process ends.
const CUT_OFF_AFTER: Duration = Duration::from_secs(5);
/// The last part of the subject on which the leader hears itself.
const ECHO: &str = "echo";
/// An agent that prepares the job for longer than this keeps no place in the job from others.
const PREPARES_WITHIN: Duration = Duration::from_secs(60);
/// The time between two offers.
const OFFER_INTERVAL: Duration = Duration::from_secs(1);
/// When the user learns that nodes are missing.
const NOTICE_AFTER: Duration = Duration::from_secs(10);
/// How long the end of the job waits until its nodes know.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the end of the job waits for its last messages to leave.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// The most notices about machines that take no part.
const MAX_NOTICES: usize = 1000;
/// The most characters of a machine's name, or of its reason, in a notice.
const MAX_NAME: usize = 200;
/// The most agents that the leader has a connection to. Others must wait.
const MAX_LINKS: usize = 4096;

/// The nodes of a job on other machines.
#[derive(Debug)]
pub(crate) struct RemoteNodes {
    bus: Bus,
    work: RemoteWork,
    store: StoreWork,
    /// The objects of stores that mini-batches read.
    objects: GrantedObjects,
    /// Puts what mini-batches read of the planner's files into the job's store.
    spill: SpillStore,
    /// `None` at the job's end.
    announcer: Option<LeadAnnouncer>,
    /// Gets the announcer at the job's end, if the results must still go to a store.
    keeper: Option<LeadKeeper>,
    /// The log tree of the job directory.
    logs: PathBuf,
    leader: LeaderIdentity,
    epoch: u64,
    /// A node that has been silent for this long is lost.
    patience: Duration,
    start: Instant,
    nodes: NodeTable,
    /// How tables are read. `None` until the planner has inspected them.
    tables: Option<Vec<TableFormat>>,
    /// What computes with the job's models: the libraries of the first leader, and the devices of the first node. `None`
    /// until a node has joined.
    backends: Option<NodeBackends>,
    /// Reports that the leader has not taken yet.
    pending: VecDeque<NodeReports>,
    /// The packs of nodes that the leader has read, until they are committed.
    packs: UncommittedPacks,
    broker: BrokerWatch,
    /// Notices that the user has had. An agent that declines a job may return.
    said: BTreeSet<String>,
    offer_at: Duration,
    /// When the leader last looked whether nodes are silent.
    looked: Duration,
    /// When the leader last heard its own voice.
    echo: Duration,
    /// When the leader last looked and a node worked.
    worked: Duration,
    /// Until when the leader could hear nothing. The silence of nodes counts from then on.
    deaf_until: Duration,
    /// When to notify the user if nodes are missing. `None` if that was done.
    notice_at: Option<Duration>,
    /// Whether a node was lost that was ending its workers. Then the job may need another one, although the nodes
    /// that have ended are still there.
    lost_one_at_end: bool,
    is_over: bool,
}

impl RemoteNodes {
    /// Nodes on other machines, none of which takes part yet. `spill` is the planner's folder, and `logs` is the log tree of
    /// the job directory. The keeper is `None` if the results are complete at the job's end.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    pub(crate) fn new(
        bus: Bus,
        (announcer, keeper): (LeadAnnouncer, Option<LeadKeeper>),
        (work, objects, spill): (RemoteWork, GrantedObjects, PathBuf),
        leader: LeaderIdentity,
        logs: PathBuf,
        patience: Duration,
    ) -> Result<Self, BusError> {
        bus.subscribe(to_leader(leader.name(), "*"))?;
        Ok(Self {
            bus,
            announcer: Some(announcer),
            keeper,
            store: StoreWork::new(&work),
            spill: SpillStore::new(work.objects.clone(), work.run.clone(), spill),
            work,
            objects,
            logs,
            leader,
            epoch: 0,
            patience,
            start: Instant::now(),
            nodes: NodeTable::default(),
            tables: None,
            backends: None,
            pending: VecDeque::new(),
            packs: UncommittedPacks::default(),
            broker: BrokerWatch::default(),
            said: BTreeSet::new(),
            offer_at: Duration::ZERO,
            looked: Duration::ZERO,
            echo: Duration::ZERO,
            worked: Duration::ZERO,
            deaf_until: Duration::ZERO,
            notice_at: Some(NOTICE_AFTER),
            lost_one_at_end: false,
            is_over: false,
        })
    }

    /// Begins to offer the job to agents. `done`: the mini-batches that ended in earlier runs.
    pub(crate) fn begin(&mut self, epoch: u64, done: MiniBatchSet) {
        self.epoch = epoch;
        self.packs = UncommittedPacks::new(done.clone());
        self.spill.begin(epoch, done);
        self.announcer.iter().for_each(|announcer| announcer.begin(epoch));
        self.start = Instant::now();
        self.keep_up();
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits until a node reports something. The future can be dropped while it waits.
    pub(crate) async fn next(&mut self) -> NodeReports {
        loop {
            if let Some(reports) = self.pending.pop_front() {
                return reports;
            }
            // What was received may need an answer.
            self.flush_links();
            let due = (self.start + self.next_deadline()).into();
            tokio::select! {
                biased;
                result = self.store.next() => self.on_stored(result),
                reports = self.spill.next() => return NodeReports::of_only_node(reports),
                message = self.bus.next() => self.receive(&message),
                () = tokio::time::sleep_until(due) => self.flush(),
            }
        }
    }

    /// What nodes have already reported, if there is something.
    pub(crate) fn next_queued(&mut self) -> Option<NodeReports> {
        while self.pending.is_empty() {
            if let Some(result) = self.store.try_next() {
                self.on_stored(result);
            } else {
                let message = self.bus.try_next()?;
                self.receive(&message);
            }
        }
        self.pending.pop_front()
    }

    /// As [`NodeTable::pause`].
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        self.nodes.pause()
    }

    /// When [`flush`](Self::flush) is due.
    fn next_deadline(&self) -> Duration {
        self.nodes.next_deadline().min(self.looked.saturating_add(LOOK_INTERVAL))
    }

    /// Does what is due: sends offers, heartbeats and lost messages, and gives up silent nodes.
    fn keep_up(&mut self) {
        let now = self.now();
        self.looked = now;
        if self.nodes.values().any(|node| node.works() && node.is_gone.is_none()) {
            self.worked = now;
        }
        if self.is_deaf(now) {
            self.deaf_until = now;
        }
        let is_silent = |node: &RemoteNode| {
            if node.is_gone.is_some() {
                return false;
            }
            // A node that shall end at once need not be waited for while the leader can hear nothing.
            let is_useless = node.ended == Some(WorkersEnd::AtOnce);
            let deaf_until = if is_useless { Duration::ZERO } else { self.deaf_until };
            now.saturating_sub(node.link.heard().max(deaf_until)) >= self.patience
        };
        let silent = self.nodes.iter().filter(|(_, node)| is_silent(node));
        let silent: Vec<String> = silent.map(|(name, _)| name.clone()).collect();
        for incarnation in silent {
            self.lose(
                &incarnation,
                &format!("no word from it for {} s", self.patience.as_secs_f64()),
            );
        }
        self.nodes.remove_dismissed();
        if let Some(announcer) = &mut self.announcer {
            announcer.name_successors(self.nodes.values());
        }
        if now >= self.offer_at {
            self.offer_at = now + OFFER_INTERVAL;
            self.bus.publish(to_leader(self.leader.name(), ECHO), Vec::new());
            self.offer();
        }
        self.say_if_nodes_are_missing(now);
        if let Some(word) = self.broker.look(self.bus.is_connected(), now) {
            self.notice(NodeId::ONLY, word);
        }
        self.flush_links();
    }

    /// Whether the leader could not hear nodes now. If the broker does not let the leader hear itself, the connection
    /// decides.
    fn is_deaf(&self, now: Duration) -> bool {
        match self.echo {
            Duration::ZERO => !self.bus.is_connected(),
            echo => now.saturating_sub(echo) >= DEAF_AFTER,
        }
    }

    /// Whether the leader has reached nothing for some seconds: not even itself, or no node, as if the broker of this
    /// machine were cut off from the other brokers.
    pub(crate) fn is_cut_off(&self) -> bool {
        let now = self.now();
        let is_deaf = self.echo != Duration::ZERO && now.saturating_sub(self.echo) >= CUT_OFF_AFTER;
        is_deaf || now.saturating_sub(self.worked) >= CUT_OFF_AFTER
    }

    /// How many nodes take part, or will soon.
    fn members(&self) -> usize {
        let now = self.now();
        let counts = |node: &&RemoteNode| match node.stage {
            NodeStage::Works(_) if node.is_hopeless || node.is_gone.is_some() => false,
            NodeStage::Works(_) => !(node.ended.is_some() && self.lost_one_at_end),
            NodeStage::Waits | NodeStage::Prepares(_) => {
                now.saturating_sub(node.since) < PREPARES_WITHIN
            }
            NodeStage::New | NodeStage::Dismissed => false,
        };
        self.nodes.values().filter(counts).count()
    }

    /// How many nodes run workers.
    fn working(&self) -> usize {
        self.nodes.values().filter(|node| node.is_useful()).count()
    }

    fn wants_nodes(&self) -> bool {
        self.may_work() && self.members() < self.work.node_count as usize
    }

    /// Whether another node may work.
    fn may_work(&self) -> bool {
        let is_ending =
            !self.lost_one_at_end && self.nodes.values().any(|node| node.ended.is_some());
        !self.is_over && !is_ending && self.working() < self.work.node_count as usize
    }

    fn offer(&self) {
        if self.wants_nodes() {
            publish(&self.bus, OFFERS, &self.leader.offer(&self.work, self.epoch));
        }
    }

    /// Notifies the user once if the job has fewer nodes than it asks for.
    fn say_if_nodes_are_missing(&mut self, now: Duration) {
        if self.notice_at.is_none_or(|at| now < at) {
            return;
        }
        self.notice_at = None;
        if !self.wants_nodes() {
            return;
        }
        let asked = self.work.node_count;
        let found = match self.working() {
            0 if self.nodes.values().any(|node| node.works() && node.is_hopeless) => {
                "the job waits, because no worker starts on the nodes that have joined".to_owned()
            }
            0 => "the job waits, because no node takes part yet".to_owned(),
            working => format!("{working} of {asked} nodes take part, and others may join"),
        };
        let why = match self.bus.last_error() {
            Some(error) => format!(" (the broker says: {error})"),
            None if self.bus.is_connected() => String::new(),
            None => " (the broker is not reachable now)".to_owned(),
        };
        self.notice(
            NodeId::ONLY,
            format!(
                "{found}{why}: a machine takes part while `sandmill node` runs on it with the same --broker, and \
                 if it has the job store {}; `sandmill doctor --broker URL` lists these machines and their versions; {}",
                self.work.store,
                self.leader.signer_advice()
            ),
        );
    }

    fn receive(&mut self, message: &BusMessage) {
        let Some(incarnation) = message.subject.rsplit('.').next() else { return };
        if incarnation == ECHO {
            let now = self.now();
            if self.is_deaf(now) {
                self.deaf_until = now;
            }
            self.echo = now;
            return;
        }
        let Some(node) = self.nodes.get_mut(incarnation) else {
            return self.receive_from_stranger(incarnation, &message.payload);
        };
        if node.is_gone.is_some() {
            return;
        }
        match node.channel.open(&message.payload) {
            Ok(Packet::Frame(frame)) => self.on_frame(incarnation, frame),
            Ok(Packet::Gone) => self.lose(incarnation, "its process has ended"),
            Err(PacketError::Malformed(error)) => self.lose(incarnation, &error.to_string()),
            Ok(Packet::Sealed(_)) | Err(PacketError::Forged) => {}
        }
    }

    /// Begins a link with an agent, or tells it that the leader does not count on it.
    fn receive_from_stranger(&mut self, incarnation: &str, payload: &[u8]) {
        if !is_incarnation(incarnation) {
            return;
        }
        let Some(mut channel) = self.leader.channel(incarnation) else { return };
        let Ok(Packet::Frame(frame)) = channel.open(payload) else { return };
        if self.is_over || !frame.is_first() || self.nodes.len() >= MAX_LINKS {
            return channel.publish(&self.bus, &Packet::Gone);
        }
        self.nodes.insert(incarnation, RemoteNode::new(channel, self.now()));
        self.on_frame(incarnation, frame);
    }

    fn on_frame(&mut self, incarnation: &str, frame: Frame) {
        let now = self.now();
        let Some(node) = self.nodes.get_mut(incarnation) else { return };
        match node.link.receive(frame, now) {
            Ok(messages) => {
                for message in messages {
                    self.on_message(incarnation, &message);
                }
            }
            Err(error) => self.lose(incarnation, &error.to_string()),
        }
    }

    fn on_message(&mut self, incarnation: &str, bytes: &[u8]) {
        let Some(stage) = self.nodes.get(incarnation).map(|node| node.stage) else { return };
        match (decode_message(bytes), stage) {
            (
                Ok(FromNode::Hello { name, protocol, version, may_lead, continues }),
                NodeStage::New,
            ) => {
                if let Some(node) = self.nodes.get_mut(incarnation) {
                    node.may_lead = may_lead.filter(|agent| is_random_name(agent));
                }
                self.greet(incarnation, &name, (protocol, &version), continues);
            }
            (Ok(FromNode::NoRoom { name, reason }), NodeStage::New) => {
                let [name, reason] = [name, reason].map(|text| in_short(&text, MAX_NAME));
                let text = format!("the machine {name} takes no part for now, because {reason}");
                // Machines that the leader has not compared with anything say this. They must not use up the notices.
                if self.said.len() < MAX_NOTICES / 2 {
                    self.say_once(NodeId::ONLY, text);
                }
                if let Some(node) = self.nodes.get_mut(incarnation) {
                    node.dismiss(&ToNode::NotNeeded);
                }
            }
            (
                Ok(FromNode::Prepared { component, settings, workers, backends }),
                NodeStage::Prepares(_),
            ) => {
                self.on_prepared(incarnation, (&component, &settings), workers, &backends);
            }
            (Ok(FromNode::Declined(reason)), NodeStage::Prepares(_)) => {
                self.decline(incarnation, &printable(&reason));
            }
            (Ok(FromNode::Reports(reports)), NodeStage::Works(node)) => {
                if self.store.has_rows() && have_results(&reports) {
                    return self.lose(incarnation, "it reported rows without storing them");
                }
                self.on_reports(incarnation, node, reports, None);
            }
            (Ok(FromNode::Stored(reports, pack)), NodeStage::Works(node))
                if self.store.has_rows() =>
            {
                let pack = ReportedPack { pack, was_reported: false };
                self.on_reports(incarnation, node, reports, Some(pack));
            }
            (Ok(FromNode::StoredBefore(reports, pack)), NodeStage::Works(node))
                if self.store.has_rows() && self.has_kept_rows(incarnation) =>
            {
                let pack = ReportedPack { pack, was_reported: true };
                self.on_reports(incarnation, node, reports, Some(pack));
            }
            (Ok(FromNode::Leaving(reason)), _) => self.lose(incarnation, &printable(&reason)),
            // It may have sent this before it learned that it takes no part.
            (Ok(_), NodeStage::Dismissed) => {}
            (Ok(_), _) => self.lose(incarnation, "it sent a message that does not fit"),
            (Err(error), _) => self.lose(incarnation, &error.to_string()),
        }
    }

    /// Whether a node has put rows into the store for an earlier leader.
    fn has_kept_rows(&self, incarnation: &str) -> bool {
        let node = self.nodes.get(incarnation);
        node.is_some_and(|node| node.rows != rows_name(self.epoch, incarnation))
    }

    /// `continues`: what a node has whose workers go on.
    fn greet(
        &mut self,
        incarnation: &str,
        name: &str,
        (protocol, version): (u32, &str),
        continues: Option<KeptPart>,
    ) {
        // A node whose workers go on comes before others that only prepare the job.
        let goes_on = continues.is_some() && self.may_work();
        let wants_nodes = goes_on || self.wants_nodes();
        let refusal = if protocol != BUS_PROTOCOL || version != env!("CARGO_PKG_VERSION") {
            Some(ToNode::Refused(format!(
                "its version is {}, and the leader's is {}",
                printable(version),
                env!("CARGO_PKG_VERSION")
            )))
        } else if wants_nodes {
            None
        } else {
            Some(ToNode::NotNeeded)
        };
        let now = self.now();
        let claimed = continues.filter(|kept| self.may_keep(kept));
        let Some(node) = self.nodes.get_mut(incarnation) else { return };
        node.name = in_short(name, MAX_NAME);
        match refusal {
            Some(refusal) => node.dismiss(&refusal),
            None => {
                node.stage = NodeStage::Waits;
                node.since = now;
                let kept = claimed.as_ref().map(|kept| kept.node);
                node.claimed = claimed;
                self.store.take_number(incarnation, kept);
            }
        }
    }

    /// Whether a node may have this from an earlier leader: no other node has the number or the folder.
    fn may_keep(&self, kept: &KeptPart) -> bool {
        let is_earlier = epoch_of(&kept.rows).is_some_and(|epoch| epoch < self.epoch);
        let is_taken = self.nodes.has_number(kept.node)
            || self.nodes.values().any(|node| node.rows == kept.rows);
        is_earlier && !is_taken
    }

    fn say_once(&mut self, node: NodeId, text: String) {
        if self.said.len() < MAX_NOTICES && self.said.insert(text.clone()) {
            self.notice(node, text);
        }
    }

    /// Gives up a node: nothing that it still sends counts. What it has stored and reported before counts.
    fn lose(&mut self, incarnation: &str, why: &str) {
        if let Some(node) = self.nodes.get_mut(incarnation).filter(|node| node.has_unread()) {
            node.is_gone.get_or_insert_with(|| why.to_owned());
            return;
        }
        let Some(node) = self.nodes.remove(incarnation) else { return };
        node.channel.publish(&self.bus, &Packet::Gone);
        let NodeStage::Works(number) = node.stage else { return };
        self.lost_one_at_end |= node.ended == Some(WorkersEnd::Done) && !node.is_done;
        let text = format!("node {number} ({}) takes no part any longer: {why}", node.name);
        let mut reports = node.last_reports();
        reports.push(NodeReport::Notice(text));
        self.pending.push_back(NodeReports { node: number, reports });
        self.offer_at = self.now();
    }

    fn notice(&mut self, node: NodeId, text: String) {
        self.pending.push_back(NodeReports { node, reports: vec![NodeReport::Notice(text)] });
    }

    /// Sends the queued messages, and does what is due.
    pub(crate) fn flush(&mut self) {
        if self.now() >= self.looked.saturating_add(LOOK_INTERVAL) {
            return self.keep_up();
        }
        self.flush_links();
    }

    fn flush_links(&mut self) {
        let now = self.now();
        self.nodes.flush(&self.bus, now);
    }

    /// Dismisses all nodes, because the job is over. Waits briefly until they know.
    pub(crate) fn close(&mut self) {
        self.is_over = true;
        self.spill.close();
        // Until the results are in the store, another process continues if this one is lost.
        if let (Some(keeper), Some(announcer)) = (&self.keeper, self.announcer.take()) {
            keeper.keep(announcer);
        }
        for node in self.nodes.values_mut() {
            node.send(&ToNode::Over);
        }
        let until = self.now() + FAREWELL;
        loop {
            self.flush_links();
            while let Some(message) = self.bus.try_next() {
                self.receive(&message);
            }
            let waits = |node: &RemoteNode| !node.link.is_acknowledged();
            if self.now() >= until || !self.nodes.values().any(waits) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.bus.flush(FLUSH_WITHIN);
    }

    /// Copies the nodes' logs into the log tree. Call this at the job's end.
    pub(crate) fn collect_logs(&mut self) {
        if self.store.has_rows() {
            // The logs of nodes are here already.
            return;
        }
        if let Err(error) = copy_logs(&self.work.folder.logs(), &self.logs) {
            self.notice(NodeId::ONLY, format!("the logs of the nodes cannot be copied: {error}"));
        }
    }
}
