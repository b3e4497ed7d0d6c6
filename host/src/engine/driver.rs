//! Joins the state machine to the world: processes, the planner, the committer, the clock, whoever
//! listens. Decides nothing itself.

use super::commit::{
    CommitError, CommitReply, CommitRequest, Committer, Free, StillWriting, last_reply,
};
use super::in_force::{in_force, policy};
use super::inferring;
use super::intake::Intake;
use super::job::Job;
use super::machine::{Action, Machine, Message};
use super::start::{Started, commit_request, resumed, start};
use super::{Claim, EngineError};
use crate::cancel::{Cancel, Request};
use crate::event::{Event, EventKind};
use crate::fail_point;
use crate::model::{
    ByteSize, EndedBy, JobDir, JobResult, JobStatus, OsSandbox, WallState, WorkerId,
};
use crate::node::{Gpus, NodeJob, ProcessorTime, Room, Running, SetupTemplate, Spawned};
use crate::output::remove_tree;
use crate::perf::{Monitor, PerfEvent};
use crate::pool::{Pool, PoolEvent};
use crate::protocol::{FromPlanner, FromWorker, NodePolicy, ToWorker};
use jiff::Timestamp;
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Runs a job to its end on this thread, which must not be one of a tokio runtime. Every event
/// goes to `on_event` in order.
///
/// A job that failed or was cancelled is an `Ok`; one that never began
/// ([`JobResult::never_began`]) leaves no job directory behind unless it has overwritten an earlier
/// job. An error means that the job could not be begun, or that its end could not be written down.
pub fn run(
    job: Job<NodeJob>,
    on_event: &mut dyn FnMut(&Event),
    cancel: &Cancel,
) -> Result<JobResult, EngineError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| EngineError(format!("the leader cannot start: {e}")))?;
    // Boxed: it holds the whole driver.
    runtime.block_on(async { Box::pin(Driver::begin(job, on_event, cancel)?.drive()).await })
}

/// After this long it is told that results are still being written, and then again and again.
const STILL_WRITING: Duration = Duration::from_secs(10);

/// How often it is read what has arrived before somebody is found to be late, or the leader looks away. Each time, one
/// worker fills what the leader reads at once; honest ones have said some words in all.
const ROUNDS: u32 = 100;
/// With so many messages read at once there may be more.
const MANY: u32 = 64;

struct Driver<'a> {
    machine: Machine,
    pool: Pool,
    room: Room,
    processor_time: ProcessorTime,
    committer: Committer,
    claim: Claim,
    /// This job's own folder for copies, at its parent.
    parent: Option<PathBuf>,
    job_dir: JobDir,
    template: SetupTemplate,
    /// Those that are this job's until its end.
    gpus: Gpus,
    intake: Intake,
    /// The longest that the committer may say nothing at the job's end.
    patience: Duration,
    /// Whether a worker has said something since the last pause.
    heard: bool,
    /// Workers that were asked to end.
    leaving: HashSet<WorkerId>,
    workers: mpsc::Receiver<PoolEvent>,
    planner: mpsc::Receiver<FromPlanner>,
    /// None once the committer has said its last.
    commits: Option<mpsc::UnboundedReceiver<CommitReply>>,
    cancel: watch::Receiver<Option<Request>>,
    /// Around the worker that was ready last.
    wall: WallState,
    /// None once the job is over.
    monitor: Option<Monitor>,
    perf: mpsc::UnboundedReceiver<PerfEvent>,
    start: Instant,
    sequence: u64,
    on_event: &'a mut dyn FnMut(&Event),
    result: Option<JobResult>,
}

impl<'a> Driver<'a> {
    fn begin(
        mut job: Job<NodeJob>,
        on_event: &'a mut dyn FnMut(&Event),
        cancel: &Cancel,
    ) -> Result<Self, EngineError> {
        let started = match start(&mut job) {
            Ok(started) => started,
            Err(error) => {
                // The error says what is wrong with the disk. Should this fail as well, the next run
                // takes up a job that was interrupted.
                let _ = job.claim.undo();
                return Err(error);
            }
        };
        let resumed = resumed(&started, job.claim.has_earlier_run());
        let template = job.node.template();
        let Started { running, planner, committer, commits, restored, monitor, perf } = started;
        let Running { pool, workers, room, gpus, objects, .. } = running;
        let policy = policy(&job.spec, gpus.indices());
        let mut driver = Self {
            machine: Machine::new(policy.clone(), job.sources.clone(), Timestamp::now(), restored),
            pool,
            room,
            processor_time: Default::default(),
            committer,
            claim: job.claim,
            parent: job.parent,
            template,
            gpus,
            job_dir: job.job_dir,
            intake: Intake::new(&job.sources, objects, &job.again),
            patience: policy.progress_timeout,
            heard: false,
            leaving: HashSet::new(),
            workers,
            planner,
            commits: Some(commits),
            cancel: cancel.watch(),
            wall: WallState::default(),
            monitor: Some(monitor),
            perf,
            start: Instant::now(),
            sequence: 0,
            on_event,
            result: None,
        };
        driver.begin_worker(job.spec.gpus);
        let in_force = in_force(&job.spec, &job.notices);
        driver.emit(EventKind::JobStarted {
            job: job.spec.name,
            tenant: job.spec.tenant,
            workers: job.spec.process_count,
            resumed,
        });
        for message in in_force {
            driver.emit(EventKind::InForce { message });
        }
        for message in job.spec.notices.into_iter().chain(job.notices) {
            driver.emit(EventKind::Notice { message });
        }
        Ok(driver)
    }

    /// Starts the process that workers are forked from while the planner looks at the input, unless the machine
    /// may be full, or they are to have GPUs. A job that is taken up may need none.
    fn begin_worker(&mut self, gpus: u32) {
        if gpus == 0 && !self.room.is_capped() && !self.claim.has_earlier_run() {
            // What is wrong is told when it is spawned.
            let _ = self.pool.begin(&self.template.for_worker(WorkerId(0), None, &[]));
        }
    }

    async fn drive(mut self) -> Result<JobResult, EngineError> {
        loop {
            self.wait().await;
            self.take_in().await;
            if self.is_somebody_late() {
                self.on_deadline().await;
            }
            if let Some(result) = self.result.take() {
                return self.finish(result).await;
            }
            if self.machine.wants_commits() {
                self.committer.flush();
            }
            self.pool.flush();
            if std::mem::take(&mut self.heard) && self.machine.may_pause() {
                std::thread::sleep(NodePolicy::PAUSE);
            }
        }
    }

    /// Takes in what all workers have said meanwhile, before anything sleeps again.
    async fn take_in(&mut self) {
        for _ in 0..ROUNDS {
            // Workers are heard by tasks. This one comes first in each turn of the runtime: in the first turn it is found
            // who has said something, in the second it is read.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            let mut taken = 0;
            while let Ok(event) = self.workers.try_recv() {
                self.on_pool_event(event);
                taken += 1;
            }
            // A turn of the runtime, and the channel, end after some hundred.
            if taken < MANY {
                return;
            }
        }
    }

    async fn wait(&mut self) {
        let deadline = self.machine.next_deadline().unwrap_or(Duration::from_secs(3600));
        let wants_plan = self.machine.wants_plan() && !self.intake.is_full();
        tokio::select! {
            biased;
            Ok(()) = self.cancel.changed() => {
                let request = self.cancel.borrow_and_update().clone();
                if let Some(Request { reason, at_once }) = request {
                    self.tell(Message::Cancel { reason, at_once });
                }
            }
            reply = next_reply(&mut self.commits) => self.on_commit_reply(reply),
            Some(event) = self.perf.recv() => match event {
                PerfEvent::Overrun(worker, failure) => self.tell(Message::Overrun(worker, failure)),
                PerfEvent::Notice(text) => self.tell(Message::Notice(text)),
                PerfEvent::GpuUse(percent) => self.emit(EventKind::GpuUse { percent }),
            },
            Some(event) = self.workers.recv() => self.on_pool_event(event),
            arrival = self.intake.next_arrival() => {
                let messages = self.intake.arrived(arrival);
                self.on_intake(messages);
            }
            Some(message) = self.planner.recv(), if wants_plan => {
                let messages = self.intake.take(message, &self.machine, &self.committer);
                self.on_intake(messages);
            }
            () = tokio::time::sleep_until((self.start + deadline).into()) => {}
        }
    }

    fn on_intake(&mut self, messages: Vec<Message>) {
        if let Some(answer) = self.intake.answer() {
            self.pool.answer(answer);
        }
        messages.into_iter().for_each(|message| self.tell(message));
    }

    fn is_somebody_late(&self) -> bool {
        self.machine.next_deadline().is_some_and(|at| self.start.elapsed() >= at)
    }

    /// Somebody may be late. If this process itself was held up (a suspended terminal, a slow
    /// disk), the answer has arrived and only waits to be read: that is done first.
    async fn on_deadline(&mut self) {
        let (mut quiet, mut rounds) = (0, 0);
        // A worker that never falls silent must not keep the clock from being looked at.
        while quiet < 3 && rounds < ROUNDS {
            tokio::task::yield_now().await;
            quiet += 1;
            rounds += 1;
            while let Ok(event) = self.workers.try_recv() {
                self.on_pool_event(event);
                quiet = 0;
            }
        }
        if self.is_somebody_late() {
            let told = inferring::tick(&self.job_dir, &self.template, &self.machine, self.start);
            told.into_iter().for_each(|message| self.tell(message));
        }
    }

    fn on_pool_event(&mut self, event: PoolEvent) {
        self.heard = true;
        self.processor_time.note(&event, &self.pool);
        let message = match event {
            PoolEvent::Worker(worker, FromWorker::Ready { init, wall }) => {
                self.note_wall(wall);
                Message::Ready(worker, init)
            }
            PoolEvent::Worker(worker, FromWorker::Restarting) => Message::Restarting(worker),
            PoolEvent::Worker(worker, FromWorker::InitFailed { failure }) => {
                Message::InitFailed(worker, failure)
            }
            PoolEvent::Worker(worker, FromWorker::Started { id }) => Message::Started(worker, id),
            PoolEvent::Worker(worker, FromWorker::Finished(report)) => {
                Message::Finished(worker, report)
            }
            PoolEvent::Exited(worker, exit) => {
                // One that was killed, or failed, may have left half a file.
                if self.leaving.remove(&worker) && exit.code == Some(0) {
                    self.committer.submit(CommitRequest::WorkerDone(worker));
                }
                self.committer.submit(CommitRequest::WorkerGone(worker));
                if let Some(monitor) = &self.monitor {
                    monitor.exited(worker);
                }
                self.room.release(worker);
                Message::Exited(worker, exit)
            }
            PoolEvent::GpuFree(worker) => Message::GpuFree(worker),
            PoolEvent::Notice(text) => Message::Notice(text),
        };
        self.tell(message);
    }

    /// All workers of a job have the same wall: what is missing is told once. That there are no cgroups
    /// is nothing to worry about, and stands in the result only.
    fn note_wall(&mut self, wall: WallState) {
        let is_first = self.wall == WallState::default();
        self.wall = wall;
        self.wall.missing.extend(self.pool.unconfined().map(|reason| format!("cgroup: {reason}")));
        if !is_first || self.wall.mode != OsSandbox::BestEffort {
            return;
        }
        let missing = self.wall.missing.clone();
        for layer in missing.iter().filter(|layer| !layer.starts_with("cgroup: ")) {
            let message = format!(
                "the job goes on without a layer of the process wall: {layer} (os_sandbox is \
                 best-effort; `sandmill doctor` says what to do)"
            );
            self.emit(EventKind::Notice { message });
        }
    }

    fn on_commit_reply(&mut self, reply: Option<CommitReply>) {
        if let Some(CommitReply::Free(attempts)) = reply {
            for Free { worker, id, attempt } in attempts {
                self.pool.queue(worker, &ToWorker::Free { id, attempt });
            }
            return;
        }
        if !matches!(reply, Some(CommitReply::Committed(_) | CommitReply::Rejected { .. })) {
            self.commits = None;
        }
        if let Some(CommitReply::Committed(ids)) = &reply {
            self.intake.settled(ids);
        }
        self.tell(match reply {
            Some(CommitReply::Committed(ids)) => Message::Committed(ids),
            Some(CommitReply::Rejected { id, failure }) => Message::Rejected(id, failure),
            Some(CommitReply::Fatal(error)) => Message::CommitFailed(error.to_string()),
            // These answer a request that only `finish` makes.
            Some(CommitReply::Finishing(_) | CommitReply::Finished | CommitReply::Free(_))
            | None => Message::CommitFailed(CommitError::BrokeDown.to_string()),
        });
    }

    fn tell(&mut self, message: Message) {
        self.room.begin_round();
        // There seldom is an answer.
        let (mut next, mut inbox) = (Some(message), VecDeque::new());
        while let Some(message) = next {
            let mut actions = self.machine.handle(message, self.start.elapsed());
            // An answer is told only after all actions of its round are done.
            inbox.extend(actions.drain(..).filter_map(|action| self.act(action)));
            self.machine.reuse(actions);
            next = inbox.pop_front();
        }
    }

    /// Does it; returns what the machine must know of that at once.
    fn act(&mut self, action: Action) -> Option<Message> {
        if let Action::Kill(worker) = &action {
            self.processor_time.note_kill(*worker, &self.pool);
        }
        match action {
            Action::Spawn(worker, gpu) => {
                let lease = gpu.and_then(|gpu| self.gpus.lease(gpu));
                let setup = self.template.for_worker(worker, lease, self.intake.tables());
                let spawned = self.room.start(&mut self.pool, self.monitor.as_ref(), setup);
                return Some(match spawned {
                    Spawned::Runs(pid) => Message::Spawned(worker, pid),
                    Spawned::NoRoom => Message::NoRoom(worker),
                    Spawned::Failed(why) => Message::SpawnFailed(worker, why),
                });
            }
            Action::Assign(worker, assignment) => {
                self.pool.queue(worker, &ToWorker::Run(assignment));
            }
            Action::AssignFirst(worker, assignment) => {
                self.pool.queue(worker, &ToWorker::RunFirst(assignment));
            }
            Action::GoOn(worker) => self.pool.queue(worker, &ToWorker::GoOn),
            Action::Shutdown(worker) => {
                self.leaving.insert(worker);
                self.pool.send(worker, &ToWorker::Shutdown);
            }
            Action::Kill(worker) => self.pool.kill(worker),
            Action::Commit(settled) => self.committer.submit(commit_request(settled)),
            Action::Emit(kind) => self.emit(kind),
            Action::Finish(result) => self.result = Some(*result),
        }
        None
    }

    fn emit(&mut self, kind: EventKind) {
        let kind = self.processor_time.completed(kind);
        let event = Event {
            version: Event::VERSION,
            run: self.claim.id().to_owned(),
            seq: self.sequence,
            at: Timestamp::now(),
            kind,
        };
        self.sequence += 1;
        (self.on_event)(&event);
    }

    /// Writes the end down, then tells of it.
    async fn finish(mut self, mut result: JobResult) -> Result<JobResult, EngineError> {
        self.pool.close();
        if let Err(error) = self.finish_commits(result.status).await {
            result.status = JobStatus::Failed;
            result.ended_by.get_or_insert(EndedBy::Commit);
            result.reason = error.to_string();
        }
        fail_point::pass("end-committed");
        if result.status == JobStatus::Completed {
            self.remove_leftovers();
            fail_point::pass("leftovers-removed");
        } else {
            // Whoever takes the job up gets them again. Should they stay, nothing refers to them.
            let _ = remove_tree(&self.job_dir.models());
        }
        // Its last sample, before the job directory may vanish.
        self.monitor = None;
        result.os_sandbox = std::mem::take(&mut self.wall);
        result.seconds = self.start.elapsed().as_secs_f64();
        let written = self.claim.end(&result);
        self.emit(EventKind::JobFinished { result: Box::new(result.clone()) });
        written.map_err(|e| EngineError(e.to_string()))?;
        if result.never_began() && !self.claim.has_earlier_run() {
            self.claim.undo().map_err(|e| EngineError(e.to_string()))?;
            // The next try has another mark. Should these stay, it is told so.
            let _ = self.parent.as_deref().map(remove_tree);
        }
        Ok(result)
    }

    async fn finish_commits(&mut self, status: JobStatus) -> Result<(), CommitError> {
        // If it stopped earlier, the result tells why.
        let Some(mut commits) = self.commits.take() else { return Ok(()) };
        self.committer.finish(status);
        let output = self.claim.output().display().to_string();
        let patience = self.patience;
        let mut tell = |writing: StillWriting| {
            let message = match writing {
                StillWriting::Silent(waited) => format!(
                    "still writing results to {output} after {} s; the disk is slow or hangs, and nothing \
                     is lost by waiting",
                    waited.as_secs()
                ),
                StillWriting::Finishing(bytes) => format!(
                    "the output file in {output} is being made: {} of its rows are done",
                    ByteSize(bytes).rounded()
                ),
            };
            self.emit(EventKind::Notice { message });
        };
        let reply = last_reply(&mut commits, (STILL_WRITING, patience), &mut tell).await;
        let Some(result) = reply else {
            self.committer.abandon();
            return Err(CommitError::Silent(patience));
        };
        result
    }

    /// A completed job's rows and files are in the output; the copies are not needed any more.
    fn remove_leftovers(&mut self) {
        let dir = &self.job_dir;
        for folder in [dir.parts(), dir.work(), dir.models(), dir.links(), dir.spill()] {
            if let Err(e) = remove_tree(&folder) {
                let message = format!("{} cannot be removed: {e}", folder.display());
                self.emit(EventKind::Notice { message });
            }
        }
    }
}

/// The committer's next reply; `None` if it broke down. Never, once it has said its last.
async fn next_reply(
    commits: &mut Option<mpsc::UnboundedReceiver<CommitReply>>,
) -> Option<CommitReply> {
    match commits {
        Some(commits) => commits.recv().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MiniBatchId;

    #[test]
    fn the_end_of_the_committer_is_not_awaited_for_ever() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let end = |replies: Vec<CommitReply>, open: bool| {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            replies.into_iter().for_each(|reply| sender.send(reply).unwrap());
            let _sender = open.then_some(sender);
            let times = (Duration::from_millis(5), Duration::from_millis(20));
            runtime.block_on(last_reply(&mut receiver, times, &mut |_| {}))
        };
        let committed = || CommitReply::Committed(vec![MiniBatchId(0)]);
        assert_eq!(end(vec![committed(), CommitReply::Finished], true), Some(Ok(())));
        assert_eq!(end(vec![committed()], true), None, "the disk does not answer");
        assert!(matches!(end(vec![committed()], false), Some(Err(_))));
    }
}
