//! The pool of a machine's child processes.

use super::PoolEvent;
use super::child::Child;
use super::confine::{CgroupRoot, Confinement, WorkerCgroup, cgroup_root};
use super::conversation::{self, WorkerEnds, WorkerLink, WorkerRemains};
use super::launch::{Program, StderrLog, prepare_folders};
use super::pipes::Pipes;
use super::planner::{PlannerChild, RunningPlan};
use super::prestarted::PrestartedProcesses;
use super::zygote::Zygote;
use crate::gpu::MemoryWatch;
use crate::model::MemoryBudget;
use crate::model::{JobDir, OsSandbox, WorkerId};
use crate::perf::memory_kills;
use crate::protocol::{FromPlanner, MayOpen, PlanRequest, ToWorker, WorkerSetup, encode};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The child processes of a job on this machine. Dropping the pool kills them all.
///
/// All calls must come from the thread of one current-thread tokio runtime (see the module).
#[derive(Debug)]
pub struct Pool {
    program: Program,
    component: File,
    events: mpsc::Sender<PoolEvent>,
    planner: Option<Arc<PlannerChild>>,
    /// The channel for answers to the planner's questions about files.
    answers: Option<mpsc::UnboundedSender<MayOpen>>,
    /// Dropped before the leader leaves the cgroup that it shares with the zygote.
    zygote: Zygote,
    /// The pipes of a planner that was forked in advance and waits for its request.
    waiting_planner: Option<Pipes>,
    workers: HashMap<WorkerId, Arc<WorkerLink>>,
    /// Workers with queued messages that are not yet sent.
    queued: HashSet<WorkerId>,
    confinement: Confinement,
    /// Where cgroups can be made. `None` until that is known, and after [`confine`](Self::confine).
    cgroup_root: Option<CgroupRoot>,
    gpus: Option<MemoryWatch>,
    /// How many processes the kernel's OOM killer had killed when the pool was made. `None` if unknown.
    memory_kills: Option<u64>,
}

impl Pool {
    /// A pool without processes. `program` is the sandmill binary, `component` the compiled code for the
    /// workers.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the caller does not need the path afterwards"
    )]
    pub fn new(program: PathBuf, component: File, events: mpsc::Sender<PoolEvent>) -> Self {
        Self::with_program(Program::sandmill(&program), component, events)
    }

    pub(super) fn with_program(
        program: Program,
        component: File,
        events: mpsc::Sender<PoolEvent>,
    ) -> Self {
        Self {
            program,
            component,
            events,
            planner: None,
            answers: None,
            zygote: Zygote::default(),
            waiting_planner: None,
            workers: HashMap::new(),
            queued: HashSet::new(),
            confinement: Confinement::default(),
            cgroup_root: None,
            gpus: None,
            memory_kills: memory_kills(),
        }
    }

    /// Takes over processes that were started earlier. Must be called before all other methods.
    pub fn adopt(&mut self, prestarted: PrestartedProcesses) {
        if let Some((zygote, planner, cgroup_root)) = prestarted.into_parts() {
            self.zygote = zygote;
            self.waiting_planner = planner;
            self.cgroup_root = Some(cgroup_root);
        }
    }

    /// Kills the zygote, as there will be no more workers. Does not wait for its end.
    pub fn close(&mut self) {
        self.zygote.end();
    }

    /// From now on, gives each worker its own cgroup with this budget as its limit, if the machine and the
    /// job allow cgroups. Must be called before any process is started, except those that are [taken
    /// over](Self::adopt).
    pub fn confine(&mut self, mode: OsSandbox, job_dir: &JobDir, budget: MemoryBudget) {
        let cgroup_root = self.cgroup_root.take().unwrap_or_else(|| cgroup_root(mode));
        self.confinement = Confinement::new(cgroup_root, job_dir, budget);
    }

    /// Delays the `Exited` of a worker with a GPU until the GPU's memory is free, at most for some
    /// seconds; see [`PoolEvent::GpuFree`]. `memory` is `None` if GPU memory cannot be watched.
    pub fn watch_gpus(&mut self, memory: Option<MemoryWatch>) {
        self.gpus = memory;
    }

    /// Why workers do not have their own cgroups. `None` if they have.
    pub fn unconfined(&self) -> Option<&str> {
        self.confinement.missing()
    }

    /// Starts the planner, or uses the one that was prestarted. Its messages come through the
    /// channel `events`, and are read only as fast as the channel is emptied. If the planner is
    /// killed while it reads a file, its replacement skips that file. If the plan ends without
    /// `Finished` or `Failed`, the pool sends a `Failed` that says how the planner ended.
    ///
    /// Fails if there is a planner already, if the request is too long for a message, or if the process
    /// cannot be started.
    pub fn plan(
        &mut self,
        request: &PlanRequest,
        events: mpsc::Sender<FromPlanner>,
    ) -> io::Result<()> {
        if self.planner.is_some() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the planner runs already"));
        }
        let mut bytes = Vec::new();
        encode(request, &mut bytes).map_err(io::Error::other)?;
        let pipes = self.waiting_planner.take();
        let prestarted = pipes.and_then(|pipes| Some((self.zygote.planner()?, pipes)));
        let (child, pipes) = prestarted.map_or_else(|| self.program.start_planner(), Ok)?;
        bytes.drain(..pipes.begin(&bytes));
        let planner = Arc::new(PlannerChild::default());
        self.planner = Some(Arc::clone(&planner));
        let (answers, receiver) = mpsc::unbounded_channel();
        self.answers = Some(answers);
        let plan = RunningPlan::new(self.program.clone(), request.clone(), planner, receiver);
        tokio::spawn(plan.run((child, pipes), bytes, events));
        Ok(())
    }

    /// Answers the planner's question about a file. Only planners whose request lets them
    /// [ask](PlanRequest::asks) have questions.
    pub fn answer(&self, answer: MayOpen) {
        if let Some(answers) = &self.answers {
            // A planner that has ended needs no answer.
            let _ = answers.send(answer);
        }
    }

    /// Starts the zygote for workers like this one, so that it is ready when the first worker is
    /// [spawned](Self::spawn).
    ///
    /// # Errors
    /// If the worker's folders cannot be made, which `spawn` would report as well.
    pub fn begin(&mut self, setup: &WorkerSetup) -> io::Result<()> {
        prepare_folders(setup)?;
        self.zygote.open(&self.program, &self.component, setup, self.confinement.folder());
        Ok(())
    }

    /// Starts a worker's process. Returns the process with the channels to and from it.
    fn start(
        &mut self,
        setup: &WorkerSetup,
        cgroup: Option<&WorkerCgroup>,
        stderr: &StderrLog,
    ) -> io::Result<(Child, WorkerEnds)> {
        let leaf = cgroup.map(|cgroup| &cgroup.leaf);
        self.zygote.open(&self.program, &self.component, setup, self.confinement.folder());
        let (socket, worker_end) = UnixStream::pair()?;
        if let Some((child, reports)) = self.zygote.fork(setup, leaf, (&worker_end, stderr)) {
            return Ok((child, WorkerEnds { socket, reports }));
        }
        // The zygote may have forked a worker although we received no answer in time. That worker
        // holds the other end of the first pair of sockets, so this worker gets a new pair.
        let (socket, worker_end) = UnixStream::pair()?;
        let ends = (worker_end, stderr);
        let child = self.program.start_worker(setup, &self.component, leaf, ends)?;
        let reports = socket.try_clone()?.into();
        Ok((child, WorkerEnds { socket, reports }))
    }

    /// Starts a worker and sends it its set-up. Returns the process id.
    ///
    /// Makes the worker's folders first. Fails if they cannot be made, if the set-up is too long for a
    /// message, or if the process cannot be started.
    pub fn spawn(&mut self, setup: WorkerSetup) -> io::Result<u32> {
        let worker = setup.worker;
        let results = setup.limits.results;
        let dir = JobDir::new(&setup.job_dir);
        self.workers.retain(|_, link| !link.process.is_reaped());
        if self.workers.contains_key(&worker) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{worker} runs already"),
            ));
        }
        let stderr = prepare_folders(&setup)?;
        let cgroup = self.confinement.worker_cgroup(worker);
        let (child, ends) = self.start(&setup, cgroup.as_ref(), &stderr)?;
        let gpu = self.gpus.clone().zip(setup.gpu.clone());
        let remains = WorkerRemains { dir, cgroup, gpu, memory_kills: self.memory_kills };
        // If an error returns early, dropping the listener kills the worker.
        let (link, listener) =
            conversation::open(worker, results, child, ends, stderr, remains, self.events.clone())?;
        link.try_send(&ToWorker::Setup(Box::new(setup))).map_err(io::Error::other)?;
        let id = link.process.id();
        self.workers.insert(worker, link);
        tokio::spawn(listener.run());
        Ok(id)
    }

    /// Queues a message. [`flush`](Self::flush), or the next [`send`](Self::send) to this worker, sends it.
    pub fn queue(&mut self, worker: WorkerId, message: &ToWorker) {
        if let Some(link) = self.workers.get(&worker) {
            link.queue(message);
            self.queued.insert(worker);
        }
    }

    /// Sends the queued messages.
    pub fn flush(&mut self) {
        for worker in self.queued.drain() {
            if let Some(link) = self.workers.get(&worker) {
                link.flush();
            }
        }
    }

    /// Sends a message. Never blocks. Does nothing if the worker is gone.
    pub fn send(&mut self, worker: WorkerId, message: &ToWorker) {
        if let Some(link) = self.workers.get(&worker) {
            link.send(message);
        }
    }

    /// The CPU time that a worker's process has used so far, user and system, in microseconds. `None` if the worker
    /// is gone.
    pub fn cpu_us(&self, worker: WorkerId) -> Option<u64> {
        self.workers.get(&worker)?.process.cpu_us()
    }

    /// The highest memory of a worker's process so far, in bytes. `None` if the worker is gone.
    pub fn peak_memory(&self, worker: WorkerId) -> Option<u64> {
        self.workers.get(&worker)?.process.peak_memory()
    }

    /// Kills a worker immediately. Its `Exited` event still follows.
    pub fn kill(&mut self, worker: WorkerId) {
        if let Some(link) = self.workers.get(&worker) {
            link.process.kill();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The workers' tasks reap them, if the runtime still runs.
        for link in self.workers.values() {
            link.process.kill();
        }
        if let Some(planner) = &self.planner {
            planner.kill();
        }
    }
}
