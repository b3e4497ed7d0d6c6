//! Runs a job on this machine: what happens goes to `machine`, and what that decides is done. Decides nothing itself.

use super::error::NodeError;
use super::gpus::Gpus;
use super::inferring::inferring;
use super::looks::Looks;
use super::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};
use super::processor_time::ProcessorTime;
use super::room::{Room, Spawned};
use super::setup::for_worker;
use crate::model::{JobDir, MiniBatchId, TableFormat, WallState, WorkerId};
use crate::perf::{Monitor, MonitorOptions, PerfEvent};
use crate::pool::{Pool, PoolEvent};
use crate::protocol::{
    FromPlanner, FromWorker, News, Order, PlanRequest, Setup, Standing, ToWorker, Told,
};
use crate::store::{Arrival, Objects};
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// What runs a job on this machine.
#[derive(Debug)]
pub struct Running {
    pub(super) machine: NodeMachine,
    /// The job's processes.
    pub(super) pool: Pool,
    /// What workers say.
    pub(super) workers: mpsc::Receiver<PoolEvent>,
    /// Whether a worker has said something since the last pause.
    pub(super) heard: bool,
    /// Workers that were asked to end.
    pub(super) leaving: HashSet<WorkerId>,
    /// Where there are places for workers.
    pub(super) room: Room,
    /// The GPUs that are the job's until its end.
    pub(super) gpus: Gpus,
    /// Whether workers are to have GPUs.
    pub(super) wants_gpus: bool,
    /// What workers are told; `None` until models lie where they find them.
    pub(super) template: Option<Setup>,
    pub(super) job_dir: JobDir,
    pub(super) processor_time: ProcessorTime,
    pub(super) request: PlanRequest,
    /// What the planner says; `None` until it is started.
    pub(super) planner: Option<mpsc::Receiver<FromPlanner>>,
    /// How to read the tables; `None` until the planner has looked.
    pub(super) tables: Option<Vec<TableFormat>>,
    /// What the inputs are made of.
    pub(super) objects: Objects,
    /// What the planner looks into.
    pub(super) looks: Looks,
    pub(super) watched: MonitorOptions,
    /// `None` before and after the job.
    pub(super) monitor: Option<Monitor>,
    pub(super) perf: mpsc::UnboundedReceiver<PerfEvent>,
    /// When the clock of `machine` began.
    pub(super) start: Instant,
}

impl Running {
    /// Has the planner cut the inputs.
    ///
    /// # Errors
    /// If its process cannot be started.
    pub fn plan(&mut self) -> Result<(), NodeError> {
        let (events, planner) = mpsc::channel(4);
        self.pool.plan(&self.request, events).map_err(NodeError::Planner)?;
        self.planner = Some(planner);
        Ok(())
    }

    /// Begins to watch what the workers use.
    ///
    /// # Errors
    /// If that cannot be begun.
    pub fn watch(&mut self) -> Result<(), NodeError> {
        let (events, perf) = mpsc::unbounded_channel();
        let monitor = Monitor::start(self.watched.clone(), events).map_err(NodeError::Monitor)?;
        self.monitor = Some(monitor);
        self.perf = perf;
        Ok(())
    }

    /// See [`NodeJob::begin`](super::NodeJob::begin). No process starts early where the machine may be full, or workers
    /// are to have GPUs.
    pub(super) fn begin(
        &mut self,
        template: Setup,
        start: Instant,
        first_worker: u32,
        is_new: bool,
    ) {
        self.machine.number_from(first_worker);
        self.start = start;
        if is_new && !self.wants_gpus && !self.room.is_capped() {
            // What is wrong is told when it is spawned.
            let _ = self.pool.begin(&for_worker(&template, WorkerId(0), None, &[]));
        }
        self.template = Some(template);
    }

    /// Waits for the next thing that happens here, and returns what the leader must know of it. The planner is heard only
    /// if more of the plan is wanted. Nothing is lost if this is dropped while it waits.
    pub async fn next(&mut self, wants_plan: bool) -> Vec<Told> {
        tokio::select! {
            biased;
            Some(event) = self.perf.recv() => self.on_perf(event),
            Some(event) = self.workers.recv() => self.on_pool_event(event),
            arrival = self.objects.arrival() => self.on_arrival(arrival),
            Some(said) = next_of(&mut self.planner), if wants_plan => self.on_planner(said),
        }
    }

    /// What the leader must know of the next thing that a worker has said already, if one has.
    pub fn said_already(&mut self) -> Option<Vec<Told>> {
        let event = self.workers.try_recv().ok()?;
        Some(self.on_pool_event(event))
    }

    fn on_perf(&mut self, event: PerfEvent) -> Vec<Told> {
        match event {
            PerfEvent::Overrun(worker, failure) => {
                self.handle(NodeMessage::Overrun(worker, failure), Vec::new())
            }
            PerfEvent::Notice(text) => vec![Told::Notice(text)],
            PerfEvent::GpuUse(percent) => vec![Told::GpuUse(percent)],
        }
    }

    fn on_pool_event(&mut self, event: PoolEvent) -> Vec<Told> {
        self.heard = true;
        self.processor_time.note(&event, &self.pool);
        let mut told = Vec::new();
        let message = match event {
            PoolEvent::Worker(worker, FromWorker::Ready { init, wall }) => {
                told.push(Told::Wall(self.all_of_wall(wall)));
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
                // One that was killed, or failed, may have left half a file.
                if self.leaving.remove(&worker) && exit.code == Some(0) {
                    told.push(Told::WorkerDone(worker));
                }
                told.push(Told::WorkerGone(worker));
                if let Some(monitor) = &self.monitor {
                    monitor.exited(worker);
                }
                self.room.release(worker);
                NodeMessage::Exited(worker, exit)
            }
            PoolEvent::GpuFree(worker) => NodeMessage::GpuFree(worker),
            PoolEvent::Notice(text) => return vec![Told::Notice(text)],
        };
        self.handle(message, told)
    }

    /// With what is missing around all workers.
    fn all_of_wall(&self, mut wall: WallState) -> WallState {
        wall.missing.extend(self.pool.unconfined().map(|reason| format!("cgroup: {reason}")));
        wall
    }

    fn on_arrival(&mut self, arrival: Arrival) -> Vec<Told> {
        if let Some(answer) = self.looks.arrived(&arrival) {
            self.pool.answer(answer);
        }
        match arrival {
            Arrival::NoSpace(text) => vec![Told::NoSpace(text)],
            Arrival::Ready(number, failed) => vec![Told::Arrived, Told::Fetched(number, failed)],
            Arrival::Progress => vec![Told::Arrived],
        }
    }

    /// The planner waits here for objects that it asks for: what it says of one stands before what it asks next.
    fn on_planner(&mut self, said: FromPlanner) -> Vec<Told> {
        match said {
            FromPlanner::Opening { waits: false, .. } => Vec::new(),
            FromPlanner::Opening { source, file, waits: true, next } => {
                if let Some(answer) = self.looks.open(source, file, next, &mut self.objects) {
                    self.pool.answer(answer);
                }
                Vec::new()
            }
            FromPlanner::Closed => {
                self.looks.close(&self.objects);
                Vec::new()
            }
            FromPlanner::Finished => {
                self.looks.close(&self.objects);
                vec![Told::Planned(FromPlanner::Finished)]
            }
            FromPlanner::Tables(tables) => {
                self.tables.get_or_insert_with(|| tables.clone());
                vec![Told::Planned(FromPlanner::Tables(tables))]
            }
            said => vec![Told::Planned(said)],
        }
    }

    /// Does what the leader wants. Returns what it must know of that.
    pub fn obey(&mut self, order: Order) -> Vec<Told> {
        let outputs = self.machine.obey(order, self.start.elapsed());
        self.follow_all(outputs, Vec::new())
    }

    /// Time has passed, and a worker may be late. Returns what the leader must know.
    pub fn tick(&mut self) -> Vec<Told> {
        let now = self.start.elapsed();
        let template = self.template.as_ref();
        let noted =
            |(worker, most)| Some((worker, inferring(template?, &self.job_dir, worker, most)?));
        let inferring: Vec<(WorkerId, String)> =
            self.machine.inside_guests(now).filter_map(noted).collect();
        for (worker, words) in inferring {
            self.machine.handle(NodeMessage::Inferring(worker, words), now);
        }
        self.handle(NodeMessage::Tick, Vec::new())
    }

    fn handle(&mut self, message: NodeMessage, told: Vec<Told>) -> Vec<Told> {
        let outputs = self.machine.handle(message, self.start.elapsed());
        let mut told = self.follow_all(outputs, told);
        told.push(Told::Changed);
        told
    }

    /// Does what was decided, and what is decided of that. An answer is taken in only after all actions of its round are
    /// done.
    fn follow_all(&mut self, outputs: Vec<NodeOutput>, mut told: Vec<Told>) -> Vec<Told> {
        let mut inbox = VecDeque::new();
        self.room.begin_round();
        self.follow(outputs, &mut told, &mut inbox);
        while let Some(message) = inbox.pop_front() {
            let outputs = self.machine.handle(message, self.start.elapsed());
            self.follow(outputs, &mut told, &mut inbox);
        }
        told
    }

    fn follow(
        &mut self,
        outputs: Vec<NodeOutput>,
        told: &mut Vec<Told>,
        inbox: &mut VecDeque<NodeMessage>,
    ) {
        for output in outputs {
            match output {
                NodeOutput::Do(action) => inbox.extend(self.act(action)),
                NodeOutput::Tell(mut news) => {
                    if let News::Lost { worker, process_seconds, .. } = &mut news {
                        *process_seconds = self.processor_time.of_killed(*worker);
                    }
                    told.push(Told::News(news));
                }
            }
        }
    }

    /// Does it; returns what the machine must know of that.
    fn act(&mut self, action: NodeAction) -> Option<NodeMessage> {
        match action {
            NodeAction::Spawn(worker, gpu) => return Some(self.spawn(worker, gpu)),
            NodeAction::Assign(worker, assignment) => {
                self.pool.queue(worker, &ToWorker::Run(assignment));
            }
            NodeAction::AssignFirst(worker, assignment) => {
                self.pool.queue(worker, &ToWorker::RunFirst(assignment));
            }
            NodeAction::GoOn(worker) => self.pool.queue(worker, &ToWorker::GoOn),
            NodeAction::Shutdown(worker) => {
                self.leaving.insert(worker);
                self.pool.send(worker, &ToWorker::Shutdown);
            }
            NodeAction::Kill(worker) => {
                self.processor_time.note_kill(worker, &self.pool);
                self.pool.kill(worker);
            }
        }
        None
    }

    fn spawn(&mut self, worker: WorkerId, gpu: Option<u32>) -> NodeMessage {
        let Some(template) = &self.template else {
            return NodeMessage::SpawnFailed(worker, "the job has not begun".to_owned());
        };
        let lease = gpu.and_then(|gpu| self.gpus.lease(gpu));
        let tables = self.tables.as_deref().unwrap_or_default();
        let setup = for_worker(template, worker, lease, tables);
        match self.room.start(&mut self.pool, self.monitor.as_ref(), setup) {
            Spawned::Runs(pid) => NodeMessage::Spawned(worker, pid),
            Spawned::NoRoom => NodeMessage::NoRoom(worker),
            Spawned::Failed(reason) => NodeMessage::SpawnFailed(worker, reason),
        }
    }

    /// What the workers are at now.
    pub fn standing(&self) -> Standing {
        self.machine.standing()
    }

    /// When [`tick`](Self::tick) is due, by the time since the job began here; `None` if nothing is awaited.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.machine.next_deadline()
    }

    /// Whether a worker has said something since this was asked last, and all have enough to do while the leader looks
    /// away.
    pub fn may_pause(&mut self) -> bool {
        std::mem::take(&mut self.heard) && self.machine.is_supplied()
    }

    /// Whether objects of stores come only when a mini-batch wants them.
    pub fn comes_on_demand(&self) -> bool {
        self.objects.come_on_demand()
    }

    /// A mini-batch is to have these files, each of the source with that index. [`Told::Fetched`] says when it has.
    pub fn want(&mut self, id: MiniBatchId, files: &[(u32, &str)]) {
        let path = |(source, file): &(u32, &str)| self.looks.path(*source, file);
        self.objects.want(id.0, files.iter().map(path).collect());
    }

    /// These mini-batches need their objects no more.
    pub fn release(&mut self, ids: &[MiniBatchId]) {
        if self.objects.come_on_demand() {
            self.objects.release(ids.iter().map(|id| id.0).collect());
        }
    }

    /// The rows of this attempt, and of all that its worker reported before, are in the output.
    pub fn free(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32) {
        self.pool.queue(worker, &ToWorker::Free { id, attempt });
    }

    /// Sends what is queued for workers.
    pub fn flush(&mut self) {
        self.pool.flush();
    }

    /// The job is over: no process of it is started any more.
    pub fn close(&mut self) {
        self.pool.close();
    }

    /// Takes the last sample of what workers use.
    pub fn end_watch(&mut self) {
        self.monitor = None;
    }
}

async fn next_of(planner: &mut Option<mpsc::Receiver<FromPlanner>>) -> Option<FromPlanner> {
    planner.as_mut()?.recv().await
}
