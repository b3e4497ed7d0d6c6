//! Runs a job on this machine: passes events to `machine`, and does what `machine` decides. Decides nothing
//! itself.

use super::admission::{Admission, Spawned};
use super::error::NodeError;
use super::fetched_spill::{SpillArrival, SpillCopies, SpillFailure, next_arrival};
use super::gpus::LeasedGpus;
use super::hang_report::current_model_call;
use super::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};
use super::metering::Metering;
use super::object_waits::{ObjectWaits, ObjectsArrived, Requests};
use super::planner_reads::{PlannerReads, next_of};
use super::setup::for_worker;
use super::shared_files;
use crate::files::ManifestObject;
use crate::model::{JobDir, MiniBatchId, TableFormat, WallState, WorkerId};
use crate::perf::{Monitor, MonitorOptions, PerfEvent};
use crate::pool::{Pool, PoolEvent};
use crate::protocol::{
    Assignment, ContinuedAttempt, FromPlanner, FromWorker, NodeNews, NodeReport, Order,
    PlanRequest, ToWorker, WorkerSetup, WorkersStanding,
};
use crate::store::{JobObjects, StagingReport};
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often a leader on another machine learns at most that objects arrive.
const ARRIVAL_INTERVAL: Duration = Duration::from_secs(1);

/// A job that runs on this machine.
#[derive(Debug)]
pub struct RunningJob {
    pub(super) machine: NodeMachine,
    /// The job's processes.
    pub(super) pool: Pool,
    /// Events of the workers.
    pub(super) workers: mpsc::Receiver<PoolEvent>,
    /// Whether a worker has reported since the last call of [`pause`](Self::pause).
    pub(super) has_received: bool,
    /// Workers that were asked to end.
    pub(super) leaving: HashSet<WorkerId>,
    /// Leases slots on the machine for workers.
    pub(super) admission: Admission,
    /// The GPUs that the job has until it ends.
    pub(super) gpus: LeasedGpus,
    /// Whether workers will have GPUs.
    pub(super) wants_gpus: bool,
    /// The set-up that all workers share. `None` until the models are where workers find them.
    pub(super) template: Option<WorkerSetup>,
    pub(super) job_dir: JobDir,
    pub(super) metering: Metering,
    /// The request for the planner.
    pub(super) request: PlanRequest,
    /// The planner's messages. `None` until it is started.
    pub(super) planner: Option<mpsc::Receiver<FromPlanner>>,
    /// How to read the tables. `None` until the planner has inspected them.
    pub(super) tables: Option<Vec<TableFormat>>,
    /// The objects of stores in the inputs.
    pub(super) objects: JobObjects,
    /// The objects that the planner asks for.
    pub(super) reads: PlannerReads,
    /// The attempts whose objects are fetched first. `None` if the leader is on this machine: then it grants attempts
    /// only when their objects are here.
    pub(super) waits: Option<ObjectWaits>,
    /// Fetches what mini-batches read of the planner's files, if the planner is on another machine.
    pub(super) spill: Option<SpillCopies>,
    /// When the leader last learned that something has arrived.
    pub(super) arrival_reported: Option<Instant>,
    /// The numbers of the machine's workers are below this one.
    pub(super) worker_limit: u32,
    pub(super) monitor_options: MonitorOptions,
    /// `None` before and after the job.
    pub(super) monitor: Option<Monitor>,
    /// Events of `monitor`.
    pub(super) perf: mpsc::UnboundedReceiver<PerfEvent>,
    /// When the clock of `machine` began.
    pub(super) start: Instant,
}

impl RunningJob {
    /// Starts the planner, which splits the inputs into mini-batches.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn plan(&mut self) -> Result<(), NodeError> {
        let (events, planner) = mpsc::channel(4);
        self.pool.plan(&self.request, events).map_err(NodeError::Planner)?;
        self.planner = Some(planner);
        Ok(())
    }

    /// Starts the monitor, which watches the resources that the workers use.
    ///
    /// # Errors
    /// If the monitor cannot be started.
    pub fn watch(&mut self) -> Result<(), NodeError> {
        let (events, perf) = mpsc::unbounded_channel();
        let monitor =
            Monitor::start(self.monitor_options.clone(), events).map_err(NodeError::Monitor)?;
        self.monitor = Some(monitor);
        self.perf = perf;
        Ok(())
    }

    /// See [`NodeJob::begin`](super::NodeJob::begin). Starts no process early if the machine may be full, or
    /// if workers will have GPUs.
    pub(super) fn begin(
        &mut self,
        template: WorkerSetup,
        start: Instant,
        first_worker: u32,
        is_new: bool,
    ) {
        self.machine.number_from(first_worker);
        self.start = start;
        if is_new && !self.wants_gpus && !self.admission.is_capped() {
            // An error is reported when the worker is spawned.
            let _ = self.pool.begin(&for_worker(&template, WorkerId(0), None, &[]));
        }
        self.template = Some(template);
    }

    /// Waits for the next event on this machine, and returns what the leader must know about it. The
    /// planner's messages are read only if `wants_plan`. No event is lost if this future is dropped while it
    /// waits.
    pub async fn next(&mut self, wants_plan: bool) -> Vec<NodeReport> {
        tokio::select! {
            biased;
            Some(event) = self.perf.recv() => self.on_perf(event),
            Some(event) = self.workers.recv() => self.on_pool_event(event),
            arrival = self.objects.arrival() => self.on_arrival(arrival),
            Some(arrival) = next_arrival(&mut self.spill) => self.on_spill(arrival),
            Some(message) = next_of(&mut self.planner), if wants_plan => self.on_planner(message),
        }
    }

    /// Takes the next event of the workers that is already queued, and returns what the leader must know
    /// about it. `None` if no event is queued.
    pub fn next_queued_reports(&mut self) -> Option<Vec<NodeReport>> {
        let event = self.workers.try_recv().ok()?;
        Some(self.on_pool_event(event))
    }

    fn on_perf(&mut self, event: PerfEvent) -> Vec<NodeReport> {
        match event {
            PerfEvent::Overrun(worker, failure) => {
                self.handle(NodeMessage::Overrun(worker, failure), Vec::new())
            }
            PerfEvent::Notice(text) => vec![NodeReport::Notice(text)],
            PerfEvent::GpuUse(percent) => vec![NodeReport::GpuUse(percent)],
        }
    }

    fn on_pool_event(&mut self, event: PoolEvent) -> Vec<NodeReport> {
        self.has_received = true;
        let gone = match &event {
            PoolEvent::Exited(worker, _) => Some(*worker),
            _ => None,
        };
        let mut reported = Vec::new();
        let message = match event {
            PoolEvent::Worker(worker, FromWorker::Ready { init, wall }) => {
                reported.push(NodeReport::Wall(self.with_cgroup_reason(wall)));
                NodeMessage::Ready(worker, init)
            }
            PoolEvent::Worker(worker, FromWorker::Restarting) => NodeMessage::Restarting(worker),
            PoolEvent::Worker(worker, FromWorker::InitFailed { failure }) => {
                NodeMessage::InitFailed(worker, failure)
            }
            PoolEvent::Worker(worker, FromWorker::Started { id }) => {
                NodeMessage::Started(worker, id)
            }
            PoolEvent::Worker(worker, FromWorker::Finished(report)) => {
                NodeMessage::Finished(worker, report)
            }
            PoolEvent::Exited(worker, exit) => {
                // A worker that was killed, or that failed, may have left partial files.
                if self.leaving.remove(&worker) && exit.code == Some(0) {
                    reported.push(NodeReport::WorkerDone(worker));
                }
                reported.push(NodeReport::WorkerGone(worker));
                if let Some(monitor) = &self.monitor {
                    monitor.exited(worker);
                }
                self.admission.release(worker);
                self.release_objects_of(worker);
                NodeMessage::Exited(worker, exit)
            }
            PoolEvent::GpuFree(worker) => NodeMessage::GpuFree(worker),
            PoolEvent::Notice(text) => return vec![NodeReport::Notice(text)],
        };
        let reported = self.handle(message, reported);
        gone.into_iter().for_each(|worker| self.metering.forget(worker));
        reported
    }

    /// Adds why workers have no cgroup, if they have none.
    fn with_cgroup_reason(&self, mut wall: WallState) -> WallState {
        wall.missing.extend(self.pool.unconfined().map(|reason| format!("cgroup: {reason}")));
        wall
    }

    fn on_arrival(&mut self, arrival: StagingReport) -> Vec<NodeReport> {
        if let Some(answer) = self.reads.arrived(&arrival) {
            self.pool.answer(answer);
        }
        match (arrival, &mut self.waits) {
            (StagingReport::NoSpace(text), _) => vec![NodeReport::NoSpace(text)],
            (StagingReport::Ready(number, failed), Some(waits)) => {
                let arrived = waits.arrived(number, failed);
                let mut reported = self.note_arrival();
                if let Some((worker, arrived)) = arrived {
                    reported.extend(self.on_objects(worker, arrived));
                }
                reported
            }
            (StagingReport::Progress, Some(_)) => self.note_arrival(),
            (StagingReport::Ready(number, failed), None) => {
                let failed = failed.into_iter().map(|object| (object.file, object.reason));
                vec![NodeReport::Arrived, NodeReport::Fetched(number, failed.collect())]
            }
            (StagingReport::Progress, None) => vec![NodeReport::Arrived],
        }
    }

    /// From now on, copies of the planner's files are fetched in this way.
    pub fn fetch_spill(&mut self, copies: SpillCopies) {
        self.spill = Some(copies);
    }

    fn on_spill(&mut self, arrival: SpillArrival) -> Vec<NodeReport> {
        let Some(waits) = &mut self.waits else { return Vec::new() };
        let failed = match arrival.failed {
            Some(SpillFailure::NoSpace(text)) => return vec![NodeReport::NoSpace(text)],
            Some(SpillFailure::Unfetched(reason)) => Some(reason),
            None => None,
        };
        let arrived = waits.spill_arrived(arrival.number, failed);
        let mut reported = self.note_arrival();
        if let Some((worker, arrived)) = arrived {
            reported.extend(self.on_objects(worker, arrived));
        }
        reported
    }

    /// Reports now and then that something has arrived, to a leader on another machine.
    fn note_arrival(&mut self) -> Vec<NodeReport> {
        if self.arrival_reported.is_some_and(|at| at.elapsed() < ARRIVAL_INTERVAL) {
            return Vec::new();
        }
        self.arrival_reported = Some(Instant::now());
        vec![NodeReport::Arrived]
    }

    /// Handles the arrival of an attempt's objects.
    fn on_objects(&mut self, worker: WorkerId, arrived: ObjectsArrived) -> Vec<NodeReport> {
        let ObjectsArrived { ready, unfetched } = arrived;
        let mut reported = Vec::new();
        if let Some(((id, attempt), objects)) = unfetched {
            let message = NodeMessage::Unfetched(worker, id, attempt, objects);
            reported.extend(self.handle(message, Vec::new()));
        }
        for message in self.give_all(worker, ready) {
            reported.extend(self.handle(message, Vec::new()));
        }
        reported
    }

    /// Gives a worker these attempts, whose objects are here. Returns the messages for the machine.
    fn give_all(&mut self, worker: WorkerId, ready: Vec<Assignment>) -> Vec<NodeMessage> {
        let mut messages = Vec::new();
        for assignment in ready {
            let id = assignment.mini_batch.id;
            let attempt = assignment.attempt;
            messages.push(NodeMessage::Fetched(worker, id, attempt));
            self.give(worker, assignment);
        }
        messages
    }

    /// Gives a worker an attempt, whose objects are here.
    fn give(&mut self, worker: WorkerId, assignment: Assignment) {
        let assignment = Assignment { objects: Vec::new(), ..assignment };
        self.pool.queue(worker, &ToWorker::Run(assignment));
    }

    /// Gives a worker an attempt when its objects are here, after those that were assigned to it before. Returns messages
    /// for the machine.
    fn assign(&mut self, worker: WorkerId, mut assignment: Assignment) -> Vec<NodeMessage> {
        let (id, attempt) = (assignment.mini_batch.id, assignment.attempt);
        let Some(waits) = &mut self.waits else {
            self.give(worker, assignment);
            return Vec::new();
        };
        let was_awaited = assignment.must_fetch();
        let is_fetched = |path: &Path| self.objects.holds(path);
        let other = shared_files::take(&mut assignment, &self.reads, is_fetched);
        if !other.is_empty() {
            return vec![NodeMessage::Unfetched(worker, id, attempt, other)];
        }
        if !assignment.must_fetch() && !waits.has_queue(worker) {
            self.give(worker, assignment);
            let fetched = was_awaited.then_some(NodeMessage::Fetched(worker, id, attempt));
            return fetched.into_iter().collect();
        }
        let reads = assignment.mini_batch.reads();
        let objects = assignment.objects.iter().map(|object| {
            let (source, file) = reads.get(object.file as usize).copied().unwrap_or_default();
            (self.reads.path(source, file), object.known)
        });
        let objects: Vec<(PathBuf, ManifestObject)> = objects.collect();
        let bytes = objects.iter().map(|(_, known)| known.found.length);
        self.metering.note_fetch((id, attempt), bytes.fold(0, u64::saturating_add));
        let Requests { objects: number, spill } = waits.add(worker, assignment);
        if let Some(number) = number {
            self.objects.request_known(number, objects);
        }
        if let Some((number, spill)) = spill
            && let Some(copies) = &mut self.spill
        {
            copies.fetcher.fetch(number, spill);
        }
        Vec::new()
    }

    /// Drops what these requests have fetched.
    fn release_requests(&mut self, numbers: Vec<u64>) {
        if let Some(copies) = &mut self.spill {
            numbers.iter().for_each(|number| copies.fetcher.release(*number));
        }
        self.objects.release(numbers);
    }

    /// Takes an attempt back that its worker has not got. Returns messages for the machine.
    fn withdraw(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32) -> Vec<NodeMessage> {
        let Some(waits) = &mut self.waits else { return Vec::new() };
        let ready = waits.withdraw(worker, (id, attempt));
        let ended = waits.end((id, attempt));
        self.release_requests(ended);
        self.give_all(worker, ready)
    }

    /// Drops the objects of a worker that is gone.
    fn release_objects_of(&mut self, worker: WorkerId) {
        if let Some(waits) = &mut self.waits {
            let ended = waits.end_all_of(worker);
            self.release_requests(ended);
        }
    }

    /// Drops the objects of the attempts that have ended.
    fn release_ended(&mut self, news: &NodeNews) {
        let Some(waits) = &mut self.waits else { return };
        let numbers: Vec<u64> = match news {
            NodeNews::Finished { report, .. } => waits.end((report.id, report.attempt)),
            NodeNews::Lost { id, attempt, .. } | NodeNews::Unfetched { id, attempt, .. } => {
                waits.end((*id, *attempt))
            }
            NodeNews::Returned(attempts) => {
                attempts.iter().flat_map(|attempt| waits.end(*attempt)).collect()
            }
            _ => return,
        };
        self.release_requests(numbers);
    }

    /// Handles a message of the planner. The planner waits for each object that it asks for, so its messages
    /// about an object come before its next request.
    fn on_planner(&mut self, message: FromPlanner) -> Vec<NodeReport> {
        match message {
            FromPlanner::Opening { waits: false, .. } => Vec::new(),
            FromPlanner::Opening { source, file, waits: true, next } => {
                if let Some(answer) = self.reads.open(source, file, next, &mut self.objects) {
                    self.pool.answer(answer);
                }
                Vec::new()
            }
            FromPlanner::Closed => {
                self.reads.close(&self.objects);
                Vec::new()
            }
            FromPlanner::Finished => {
                self.reads.close(&self.objects);
                vec![NodeReport::Planned(FromPlanner::Finished)]
            }
            FromPlanner::Tables(tables) => {
                self.tables.get_or_insert_with(|| tables.clone());
                vec![NodeReport::Planned(FromPlanner::Tables(tables))]
            }
            message => vec![NodeReport::Planned(message)],
        }
    }

    /// Does what the leader orders. Returns what the leader must know about the result.
    pub fn obey(&mut self, mut order: Order) -> Vec<NodeReport> {
        // The machine need not know of files that are here and as they should be.
        let is_fetched = |path: &Path| self.objects.holds(path);
        shared_files::compare(&mut order, &self.reads, is_fetched);
        let outputs = self.machine.obey(order, self.start.elapsed());
        self.follow_all(outputs, Vec::new())
    }

    /// Handles the passing of time: a worker may be late. Returns what the leader must know.
    pub fn tick(&mut self) -> Vec<NodeReport> {
        let now = self.start.elapsed();
        let template = self.template.as_ref();
        let model_call = |(worker, most)| {
            Some((worker, current_model_call(template?, &self.job_dir, worker, most)?))
        };
        let model_calls: Vec<(WorkerId, String)> =
            self.machine.inside_guests(now).filter_map(model_call).collect();
        for (worker, model_call) in model_calls {
            self.machine.handle(NodeMessage::Inferring(worker, model_call), now);
        }
        let mut reported = Vec::new();
        if let Some(beyond) = self.admission.beyond_share(now) {
            reported = self.handle(NodeMessage::BeyondShare(beyond), reported);
        }
        self.handle(NodeMessage::Tick, reported)
    }

    /// Works for another leader of the job from now on. Returns the attempts that workers have.
    pub fn follow_leader(&mut self) -> Vec<ContinuedAttempt> {
        self.machine.follow_leader(self.start.elapsed())
    }

    fn handle(&mut self, message: NodeMessage, reported: Vec<NodeReport>) -> Vec<NodeReport> {
        let outputs = self.machine.handle(message, self.start.elapsed());
        let mut reported = self.follow_all(outputs, reported);
        if self.machine.has_ended() {
            self.admission.end();
        }
        reported.push(NodeReport::Changed);
        reported
    }

    /// Performs the outputs of the machine, passes the results to the machine, and performs what the machine
    /// then decides. The machine gets the result of an action only after all actions of the same round are
    /// done.
    fn follow_all(
        &mut self,
        outputs: Vec<NodeOutput>,
        mut reported: Vec<NodeReport>,
    ) -> Vec<NodeReport> {
        let mut inbox = VecDeque::new();
        self.admission.begin_round(&outputs, self.start);
        self.follow(outputs, &mut reported, &mut inbox);
        while let Some(message) = inbox.pop_front() {
            let outputs = self.machine.handle(message, self.start.elapsed());
            self.follow(outputs, &mut reported, &mut inbox);
        }
        reported
    }

    /// Performs one round of outputs. Adds to `reported` what the leader must know, and to `inbox` the
    /// results for the machine.
    fn follow(
        &mut self,
        outputs: Vec<NodeOutput>,
        reported: &mut Vec<NodeReport>,
        inbox: &mut VecDeque<NodeMessage>,
    ) {
        for output in outputs {
            match output {
                NodeOutput::Do(action) => inbox.extend(self.act(action)),
                NodeOutput::Report(mut news) => {
                    self.metering.measure_news(&mut news, &self.pool);
                    self.release_ended(&news);
                    reported.push(NodeReport::News(news));
                }
            }
        }
    }

    /// Does one action. Returns its results for the machine.
    fn act(&mut self, action: NodeAction) -> Vec<NodeMessage> {
        match action {
            NodeAction::Spawn(worker, gpu) => return vec![self.spawn(worker, gpu)],
            NodeAction::Assign(worker, assignment) => return self.assign(worker, assignment),
            NodeAction::Withdraw(worker, id, attempt) => return self.withdraw(worker, id, attempt),
            NodeAction::AssignFirst(worker, assignment) => {
                self.pool.queue(worker, &ToWorker::RunFirst(assignment));
            }
            NodeAction::GoOn(worker) => self.pool.queue(worker, &ToWorker::GoOn),
            NodeAction::Shutdown(worker) => {
                self.leaving.insert(worker);
                self.pool.send(worker, &ToWorker::Shutdown);
            }
            NodeAction::Kill(worker) => {
                self.metering.note_kill(worker, &self.pool);
                self.pool.kill(worker);
                self.release_objects_of(worker);
            }
        }
        Vec::new()
    }

    fn spawn(&mut self, worker: WorkerId, gpu: Option<u32>) -> NodeMessage {
        if worker.0 >= self.worker_limit {
            let text = "the node has had all the workers that it may have";
            return NodeMessage::SpawnFailed(worker, text.to_owned());
        }
        let Some(template) = &self.template else {
            return NodeMessage::SpawnFailed(worker, "the job has not begun".to_owned());
        };
        let lease = gpu.and_then(|gpu| self.gpus.lease(gpu));
        let tables = self.tables.as_deref().unwrap_or_default();
        let setup = for_worker(template, worker, lease, tables);
        let has_gpu = setup.gpu.is_some();
        match self.admission.start(&mut self.pool, self.monitor.as_ref(), setup) {
            Spawned::Runs(pid) => {
                self.metering.on_spawned(worker, has_gpu);
                NodeMessage::Spawned(worker, pid)
            }
            Spawned::NoRoom => NodeMessage::NoRoom(worker),
            Spawned::Failed(reason) => NodeMessage::SpawnFailed(worker, reason),
        }
    }

    /// Records how tables are read. The planner of another machine has inspected them.
    pub fn know_tables(&mut self, tables: Vec<TableFormat>) {
        self.tables = Some(tables);
    }

    /// The most workers that run at the same time.
    pub fn workers(&self) -> u32 {
        self.machine.workers_wanted()
    }

    /// What the workers are doing now.
    pub fn standing(&self) -> WorkersStanding {
        self.machine.standing()
    }

    /// When [`tick`](Self::tick) is due, as time since the job began here. `None` if nothing is due.
    pub fn next_deadline(&self) -> Option<Duration> {
        let deadlines = [self.machine.next_deadline(), self.admission.next_look()];
        deadlines.into_iter().flatten().min()
    }

    /// Returns how long the leader, or a node on another machine, should pause now. `None` if no worker has reported
    /// since the last call, or if a worker would run out of work.
    pub fn pause(&mut self) -> Option<Duration> {
        let is_due = std::mem::take(&mut self.has_received) && self.machine.is_supplied();
        is_due.then(|| self.machine.pause())
    }

    /// Whether objects of stores are downloaded only when a mini-batch needs them.
    pub fn fetches_on_demand(&self) -> bool {
        self.objects.come_on_demand()
    }

    /// Requests the files that a mini-batch needs, each with the index of its source. [`NodeReport::Fetched`]
    /// reports when they have arrived.
    pub fn request(&mut self, id: MiniBatchId, files: &[(u32, &str)]) {
        let path = |(source, file): &(u32, &str)| self.reads.path(*source, file);
        let files: Vec<PathBuf> = files.iter().map(path).collect();
        self.metering.note_files(id, &files);
        self.objects.request(id.0, files);
    }

    /// Releases the objects of these mini-batches.
    pub fn release(&mut self, ids: &[MiniBatchId]) {
        if self.objects.come_on_demand() {
            self.objects.release(ids.iter().map(|id| id.0).collect());
        }
    }

    /// Tells a worker that the output has the rows of this attempt, and of all attempts that the worker
    /// reported before.
    pub fn mark_reclaimable(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32) {
        self.pool.queue(worker, &ToWorker::Reclaimable { id, attempt });
    }

    /// Notes whether the machine's disk has room for more attempts. Returns what the leader must know.
    pub fn set_full(&mut self, is_full: bool) -> Vec<NodeReport> {
        self.handle(NodeMessage::Full(is_full), Vec::new())
    }

    /// Sends the messages that are queued for workers.
    pub fn flush(&mut self) {
        self.pool.flush();
    }

    /// Ends the job, which starts no more processes.
    pub fn close(&mut self) {
        self.pool.close();
    }

    /// Takes the last sample of the workers' resource use, and stops watching.
    pub fn end_watch(&mut self) {
        self.monitor = None;
    }
}
