//! The state machine of a node: its state and its two entry points.

use super::leases::Leases;
use super::types::{NodeAction, NodeMessage, NodeOutput};
use super::worker::LiveWorker;
use crate::model::{MiniBatchId, WorkerId};
use crate::protocol::{NodeNews, NodePolicy, Order, WorkersEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The state of one node of a job.
#[derive(Debug)]
pub struct NodeMachine {
    pub(super) policy: NodePolicy,
    pub(super) now: Duration,
    pub(super) outputs: Vec<NodeOutput>,
    /// Every worker that has not exited.
    pub(super) workers: BTreeMap<WorkerId, LiveWorker>,
    pub(super) next_worker: u32,
    pub(super) leases: Leases,
    /// Workers about whose lost GPU we have notified the user.
    pub(super) reported_lost: BTreeSet<WorkerId>,
    /// Workers whose attempt has just failed and that wait for the leader's decision. The value says whether
    /// a retry may run on the worker: it may not if the worker needs a new instance and its `init` is slow.
    pub(super) waiting: BTreeMap<WorkerId, bool>,
    /// The number of orders that granted attempts.
    pub(super) grants: u64,
    /// For each worker that was killed and has not exited yet: the attempt that it had. A report about this
    /// attempt comes too late.
    pub(super) abandoned: BTreeMap<WorkerId, (MiniBatchId, u32)>,
    /// Failures of `init` since an `init` last succeeded (rule I1 in `docs/parallel-run-step.md`).
    pub(super) init_failures_in_a_row: u32,
    /// When to try again to start workers, after a start has failed.
    pub(super) spawn_again_at: Option<Duration>,
    /// When to check again whether other jobs have left room.
    pub(super) room_again_at: Option<Duration>,
    /// Whether a worker of another node is past its `init`.
    pub(super) past_init_elsewhere: bool,
    /// Whether the machine's disk has no room for more attempts.
    pub(super) is_full: bool,
    pub(super) is_ending: bool,
}

impl NodeMachine {
    /// A node before its first order. Its workers are numbered from `first_worker`.
    pub fn new(policy: NodePolicy, first_worker: u32) -> Self {
        Self {
            leases: Leases::new(policy.gpus.clone()),
            policy,
            now: Duration::ZERO,
            outputs: Vec::new(),
            workers: BTreeMap::new(),
            next_worker: first_worker,
            reported_lost: BTreeSet::new(),
            waiting: BTreeMap::new(),
            grants: 0,
            abandoned: BTreeMap::new(),
            init_failures_in_a_row: 0,
            spawn_again_at: None,
            room_again_at: None,
            past_init_elsewhere: false,
            is_full: false,
            is_ending: false,
        }
    }

    /// The most workers that run at the same time.
    pub fn workers_wanted(&self) -> u32 {
        self.policy.workers
    }

    /// Whether the last worker has ended, and no worker will start.
    pub fn has_ended(&self) -> bool {
        self.is_ending && self.workers.is_empty()
    }

    /// Sets the number of the next worker. No worker may have had this number or a higher one.
    pub fn number_from(&mut self, first_worker: u32) {
        self.next_worker = first_worker;
    }

    /// Handles what happened on the node. Returns what to do and what to report, in order. Once all of that
    /// is done, the leader must learn the node's [standing](Self::standing). `now` is the node's own clock,
    /// and never goes back.
    pub fn handle(&mut self, message: NodeMessage, now: Duration) -> Vec<NodeOutput> {
        self.now = now;
        match message {
            NodeMessage::Spawned(worker, pid) => self.on_spawned(worker, pid),
            NodeMessage::SpawnFailed(worker, reason) => self.on_spawn_failed(worker, reason),
            NodeMessage::NoRoom(worker) => self.on_no_room(worker),
            NodeMessage::Ready(worker, init) => self.on_ready(worker, init),
            NodeMessage::Restarting(worker) => self.on_restarting(worker),
            NodeMessage::InitFailed(worker, failure) => self.on_init_failed(worker, failure),
            NodeMessage::Fetched(worker, id, attempt) => self.on_fetched(worker, (id, attempt)),
            NodeMessage::Unfetched(worker, id, attempt, objects) => {
                self.on_unfetched(worker, (id, attempt), objects);
            }
            NodeMessage::Started(worker, id) => self.on_started(worker, id),
            NodeMessage::Finished(worker, report) => self.on_finished(worker, report),
            NodeMessage::Overrun(worker, failure) => self.on_overrun(worker, failure),
            NodeMessage::Exited(worker, exit) => self.on_exited(worker, &exit),
            NodeMessage::GpuFree(worker) => self.on_gpu_free(worker),
            NodeMessage::BeyondShare(workers) => self.retire_beyond_share(workers),
            NodeMessage::Full(is_full) => self.is_full = is_full,
            NodeMessage::Inferring(worker, words) => self.on_inferring(worker, words),
            // Deadlines are checked only here: if the node was held up, the messages that have arrived
            // meanwhile are handled first.
            NodeMessage::Tick => self.check_deadlines(),
        }
        std::mem::take(&mut self.outputs)
    }

    /// Does what the leader orders. Returns what to do and what to report, as [`handle`](Self::handle) does.
    pub fn obey(&mut self, order: Order, now: Duration) -> Vec<NodeOutput> {
        self.now = now;
        self.grants += u64::from(order.is_grant());
        match order {
            Order::Want(workers) => self.spawn_wanted(workers),
            Order::Grant(grants) => grants.into_iter().for_each(|grant| self.begin(grant)),
            Order::GrantAhead(assignments) => self.grant_ahead(assignments),
            Order::Cancel { id, attempt } => self.cancel(id, attempt),
            Order::GoOn => self.resume_waiting(),
            Order::PastInitElsewhere(is_past) => self.past_init_elsewhere = is_past,
            Order::Retire => self.retire(),
            Order::End(WorkersEnd::Done) => self.end_done(),
            Order::End(WorkersEnd::Orderly) => self.end_orderly(),
            Order::End(WorkersEnd::AtOnce) => self.kill_all(),
        }
        std::mem::take(&mut self.outputs)
    }

    pub(super) fn act(&mut self, action: NodeAction) {
        self.outputs.push(NodeOutput::Do(action));
    }

    pub(super) fn report(&mut self, news: NodeNews) {
        self.outputs.push(NodeOutput::Report(news));
    }

    pub(super) fn notice(&mut self, message: String) {
        self.report(NodeNews::Notice(message));
    }
}
