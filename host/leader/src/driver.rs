//! Connects the job's state machine to the world: the node that runs the job, the committer, the clock, and
//! the listener for events. The driver makes no decisions itself.

use super::commit::{
    CommitError, CommitReply, CommitRequest, Committer, ReclaimableAttempt, StillWriting,
    last_reply,
};
use super::control::Control;
use super::intake::{PlanIntake, PlanStore};
use super::job::PreparedJob;
use super::job_store::{JobStore, successor_file, undo};
use super::leftovers::Leftovers;
use super::machine::{ConnectedJob, ConnectedOutcome, JobAction, JobMachine, JobMessage};
use super::nodes::{BeginRequest, JobOnNode, RunningNode};
use super::peak::peak_of_children;
use super::presence::Presence;
use super::receipt_reports::{ReceiptReports, sums};
use super::settings_in_force::{in_force, policy};
use super::spans::Spans;
use super::start::{Started, commit_request, resumed, start};
use super::store_link::StoreLink;
use super::{Claim, EngineError};
use crate::cancel::{Cancel, CancelRequest};
use crate::event::{Event, EventKind};
use crate::fail_point;
use crate::files::remove_tree;
use crate::model::{
    ByteSize, EndedBy, JobDir, JobResult, JobStatus, OsSandbox, WallState, add_bytes,
};
use crate::protocol::{NodeReport, NodeReports};
use jiff::Timestamp;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tracing::error_span;

/// Runs a job to its end on this thread, which must not belong to a tokio runtime. `on_event` receives every
/// event, in order.
///
/// A job that failed or was cancelled is an `Ok`. A job that never began ([`JobResult::never_began`]) leaves
/// no job directory, unless it has overwritten an earlier run. An error means that the job could not begin,
/// or that its end could not be recorded.
pub fn run<N: JobOnNode + Send>(
    job: PreparedJob<N>,
    on_event: &mut dyn FnMut(&Event),
    cancel: &Cancel,
) -> Result<JobResult, EngineError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| EngineError(format!("the leader cannot start: {e}")))?;
    let span = error_span!(
        "job",
        job = job.spec.name,
        tenant = job.spec.settings.tenant,
        run = job.claim.id()
    );
    let _inside = span.entered();
    // Boxed, because the future holds the whole driver.
    runtime.block_on(async { Box::pin(Driver::begin(job, on_event, cancel)?.drive()).await })
}

/// How often, at the job's end, the driver emits a notice that results are still being written.
const STILL_WRITING_INTERVAL: Duration = Duration::from_secs(10);

/// How often a leader with a commit log looks whether another one leads the job. A leader with results to commit
/// notices this without looking.
const LEAD_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A leader that continues a job on other machines grants nothing for this time, so that nodes can first offer the
/// attempts that they have. They do this within some milliseconds.
const OFFERS_WITHIN: Duration = Duration::from_millis(500);

/// Before the driver pauses or declares a worker late, it reads pending messages, in at most this
/// many rounds. Without a maximum, a worker that sends without end could fill round after round. An
/// honest worker sends only a few messages in total.
const MAX_ROUNDS: u32 = 100;
/// If a round reads fewer messages than this, it has read all of them.
const MANY_MESSAGES: u32 = 64;

struct Driver<'a, R> {
    connected_job: ConnectedJob<R>,
    committer: Committer,
    claim: Claim,
    /// The job's store, if it has one.
    store: Option<JobStore>,
    /// The job's own folder for copies, in its parent.
    parent: Option<PathBuf>,
    /// The directory with the folders of workers.
    worker_dir: JobDir,
    /// Whether other machines use it, too.
    is_shared: bool,
    leftovers: Leftovers,
    intake: PlanIntake,
    /// How long the committer may stay silent at the job's end.
    patience: Duration,
    /// `None` after the committer's last message.
    commits: Option<mpsc::UnboundedReceiver<CommitReply>>,
    cancel: watch::Receiver<Option<CancelRequest>>,
    /// The sandbox of the worker that became ready last.
    wall: WallState,
    /// The missing layers that the user knows of.
    missing_layers: BTreeSet<String>,
    /// The runtime of the entry script, as shown to users.
    runtime: Option<String>,
    start: Instant,
    /// CPU seconds of all attempts.
    processor_seconds: f64,
    /// Bytes that workers have read in all attempts.
    bytes_read: Option<u64>,
    /// The number of the next event.
    sequence: u64,
    spans: Spans,
    on_event: &'a mut dyn FnMut(&Event),
    /// `None` if the job directory cannot have a socket.
    control: Option<Control>,
    /// See [`Started::presence`].
    presence: Option<Presence>,
    /// `None` if the job has no store, and at its end.
    store_link: Option<StoreLink>,
    result: Option<JobResult>,
    /// When to look whether another process leads the job. `None` if other machines do not know the job.
    lead_check: Option<Duration>,
    receipts: ReceiptReports,
}

impl<'a, R: RunningNode> Driver<'a, R> {
    fn begin<N: JobOnNode<Running = R> + Send>(
        mut job: PreparedJob<N>,
        on_event: &'a mut dyn FnMut(&Event),
        cancel: &Cancel,
    ) -> Result<Self, EngineError> {
        let started = match start(&mut job) {
            Ok(started) => started,
            Err(error) => {
                // The error already describes the disk's problem. If `undo` fails too, the next run finds an
                // interrupted job and resumes it.
                let _ = undo(&job.claim, job.store.as_ref());
                return Err(error);
            }
        };
        let Started { mut node, committer, commits, restored, epoch, presence } = started;
        let store_link = StoreLink::begin(&job, epoch, cancel);
        let has_earlier_run = job.claim.has_earlier_run();
        let resumed = resumed(&restored, has_earlier_run);
        let start = Instant::now();
        let first_worker = restored.next_worker;
        let done = restored.finished.clone();
        let begin = BeginRequest { start, first_worker, is_new: !has_earlier_run, epoch, done };
        job.node.begin(&mut node, begin);
        let worker_dir = job.worker_dir().clone();
        let policy = policy(&job.spec, job.remote.as_ref().map(|remote| remote.node_count));
        let patience = policy.progress_timeout;
        let mut machine = JobMachine::new(policy, job.sources.clone(), Timestamp::now(), restored);
        if has_earlier_run && job.remote.is_some() {
            machine.await_offers(OFFERS_WITHIN);
            let known = job.plan.as_ref().and_then(|plan| plan.known.as_ref());
            machine.know_plan_until(known.map_or(0, |known| known.position.mini_batches));
        }
        let control = Control::open(&job.job_dir, &job.spec.name, job.claim.id(), cancel);
        let (control, socket_error) = match control {
            Ok(control) => (Some(control), None),
            Err(error) => (None, Some(error)),
        };
        let plan = PlanStore::begin(job.plan.take())
            .map_err(|e| EngineError(format!("the plan cannot be read or saved: {e}")))?;
        let intake = PlanIntake::new(&job.sources, node.fetches_on_demand(), &job.unreadable, plan);
        let leftovers = Leftovers::of(&job);
        let mut driver = Self {
            leftovers,
            connected_job: ConnectedJob::new(machine, node),
            committer,
            claim: job.claim,
            store: job.store,
            parent: job.parent,
            worker_dir,
            lead_check: job.remote.is_some().then_some(LEAD_CHECK_INTERVAL),
            is_shared: job.remote.is_some(),
            intake,
            patience,
            commits: Some(commits),
            cancel: cancel.watch(),
            wall: WallState::default(),
            missing_layers: BTreeSet::new(),
            runtime: job.runtime,
            start,
            processor_seconds: 0.0,
            bytes_read: None,
            sequence: 0,
            spans: Spans::new(),
            on_event,
            control,
            presence,
            store_link,
            result: None,
            receipts: ReceiptReports::new(start),
        };
        let in_force = in_force(&job.spec, &job.notices);
        driver.emit(EventKind::JobStarted {
            job: job.spec.name,
            tenant: job.spec.settings.tenant,
            workers: job.spec.process_count,
            resumed,
        });
        for message in job.spec.conversions.into_iter().chain(in_force) {
            driver.emit(EventKind::InForce { message });
        }
        for message in job.spec.notices.into_iter().chain(job.notices) {
            driver.emit(EventKind::Notice { message });
        }
        if let Some(error) = socket_error {
            let message = format!(
                "sandmill cancel cannot reach this job, because no socket can be made in its directory: \
                 {error}"
            );
            driver.emit(EventKind::Notice { message });
        }
        Ok(driver)
    }

    async fn drive(mut self) -> Result<JobResult, EngineError> {
        loop {
            self.wait().await;
            self.receive_from_workers().await;
            self.check_lead();
            if self.is_late() {
                self.on_deadline().await;
            }
            self.with_outcomes(ConnectedJob::decide_due);
            self.release_plan();
            if let Some(result) = self.result.take() {
                return self.conclude(result).await;
            }
            if self.connected_job.job().wants_commits() {
                self.committer.flush();
            }
            self.connected_job.node.flush();
            if let Some(pause) = self.connected_job.node.pause()
                && self.connected_job.job().awaits_no_decision()
            {
                std::thread::sleep(pause);
            }
        }
    }

    /// Reads everything that workers have sent, before the driver sleeps again.
    async fn receive_from_workers(&mut self) {
        for _ in 0..MAX_ROUNDS {
            // Each worker has a separate task that reads its messages. The driver's task comes first in each
            // turn of the runtime. In the first turn, the runtime finds out which workers have sent
            // something. In the second, the tasks of these workers read it.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            let mut taken = 0;
            while let Some(reported) = self.connected_job.node.next_queued_reports() {
                self.receive(reported);
                taken += 1;
            }
            // Each round reads at most some hundred messages. If it reads many, more may be waiting.
            if taken < MANY_MESSAGES {
                return;
            }
        }
    }

    async fn wait(&mut self) {
        let deadline = self.connected_job.next_deadline().unwrap_or(Duration::from_secs(3600));
        let deadline = deadline.min(self.lead_check.unwrap_or(Duration::MAX));
        let wanted = self.connected_job.job().wants_plan();
        let wants_plan = self.intake.wants_plan(wanted);
        tokio::select! {
            biased;
            Ok(()) = self.cancel.changed() => {
                let request = self.cancel.borrow_and_update().clone();
                if let Some(CancelRequest { reason, at_once }) = request {
                    self.send(JobMessage::Cancel { reason, at_once });
                }
            }
            reply = next_reply(&mut self.commits) => self.on_commit_reply(reply),
            reported = self.connected_job.node.next(wants_plan) => self.receive(reported),
            event = self.intake.next(wanted) => {
                let messages =
                    self.intake.on_event(event, &mut self.connected_job, &self.committer);
                messages.into_iter().for_each(|message| self.send(message));
            }
            message = StoreLink::next_notice(&mut self.store_link) => {
                self.emit(EventKind::Notice { message });
            }
            () = tokio::time::sleep_until((self.start + deadline).into()) => {}
        }
    }

    /// Passes mini-batches that were planned ahead to the state machine, if it wants some.
    fn release_plan(&mut self) {
        while self.result.is_none() {
            let wanted = self.connected_job.job().wants_plan();
            let messages = self.intake.release(wanted);
            if messages.is_empty() {
                return;
            }
            messages.into_iter().for_each(|message| self.send(message));
        }
    }

    /// Looks at intervals whether another process leads the job.
    fn check_lead(&mut self) {
        let now = self.start.elapsed();
        if self.lead_check.is_some_and(|at| now >= at) {
            self.lead_check = Some(now + LEAD_CHECK_INTERVAL);
            let is_cut_off = self.connected_job.node.is_cut_off();
            let successor = is_cut_off.then(|| successor_file(&self.worker_dir));
            self.committer.submit(CommitRequest::CheckLead { successor });
        }
    }

    fn is_late(&self) -> bool {
        self.connected_job.next_deadline().is_some_and(|deadline| self.start.elapsed() >= deadline)
    }

    /// Called when a worker, or the job, may be late. But if this process itself was held up (a suspended
    /// terminal, a slow disk), the worker's message may have arrived already. So the driver reads pending
    /// messages first.
    async fn on_deadline(&mut self) {
        let mut quiet = 0;
        let mut rounds = 0;
        // A worker that sends without end must not keep the driver from checking the clock.
        while quiet < 3 && rounds < MAX_ROUNDS {
            tokio::task::yield_now().await;
            quiet += 1;
            rounds += 1;
            while let Some(reported) = self.connected_job.node.next_queued_reports() {
                self.receive(reported);
                quiet = 0;
            }
        }
        if self.is_late() {
            self.with_outcomes(|job, now, out| job.tick(now, out));
        }
    }

    /// Passes the node's messages to the state machine, and carries out its decisions.
    fn receive(&mut self, reported: NodeReports) {
        self.with_outcomes(|job, now, out| job.receive(reported, now, out));
    }

    /// Passes a message about the job to the state machine, and carries out its decisions.
    fn send(&mut self, message: JobMessage) {
        self.with_outcomes(|job, now, out| job.send(message, now, out));
    }

    /// Calls `change`. Carries out the outcomes that it reports, in order, and then the outcomes that follow
    /// from them.
    fn with_outcomes(
        &mut self,
        change: impl FnOnce(&mut ConnectedJob<R>, Duration, &mut dyn FnMut(ConnectedOutcome)),
    ) {
        let mut outcomes = VecDeque::new();
        change(&mut self.connected_job, self.start.elapsed(), &mut |outcome| {
            outcomes.push_back(outcome);
        });
        while let Some(outcome) = outcomes.pop_front() {
            let messages = match outcome {
                ConnectedOutcome::Do(action) => {
                    self.act(action);
                    continue;
                }
                ConnectedOutcome::Reported(reported) => self.act_on(reported),
            };
            for message in messages {
                let now = self.start.elapsed();
                self.connected_job.send(message, now, &mut |outcome| outcomes.push_back(outcome));
            }
        }
    }

    fn act(&mut self, action: JobAction) {
        match action {
            JobAction::Receipt(receipt) => self.committer.submit(CommitRequest::Receipt(receipt)),
            JobAction::Commit(settled) => self.committer.submit(commit_request(settled)),
            JobAction::Emit(kind) => self.emit(kind),
            JobAction::Finish(result) => self.result = Some(*result),
        }
    }

    /// Handles the node's messages that do not go to the state machine. Returns what the state machine must
    /// learn from them.
    fn act_on(&mut self, reported: NodeReport) -> Vec<JobMessage> {
        match reported {
            NodeReport::Planned(message) => {
                return self.intake.on_message(message, &mut self.connected_job, &self.committer);
            }
            NodeReport::Fetched(number, failed) => return self.intake.arrived(number, failed),
            NodeReport::GpuUse(percent) => self.emit(EventKind::GpuUse { percent }),
            NodeReport::Wall(wall) => self.note_wall(wall),
            NodeReport::WorkerDone(worker) => {
                self.committer.submit(CommitRequest::WorkerDone(worker));
            }
            NodeReport::WorkerGone(worker) => {
                self.committer.submit(CommitRequest::WorkerGone(worker));
            }
            // The state machine handles these.
            NodeReport::News(_)
            | NodeReport::Changed
            | NodeReport::Joined { .. }
            | NodeReport::MixedBackends(_)
            | NodeReport::Lost
            | NodeReport::Notice(_)
            | NodeReport::Arrived
            | NodeReport::NoSpace(_) => {}
        }
        Vec::new()
    }

    /// Reports each missing layer of the workers' sandboxes once. All workers of a machine have the same sandbox.
    /// A missing cgroup is harmless, and appears in the result only.
    fn note_wall(&mut self, wall: WallState) {
        let before = std::mem::replace(&mut self.wall, wall);
        if before == self.wall || self.wall.mode != OsSandbox::BestEffort {
            return;
        }
        let missing: Vec<String> = self.wall.missing.clone();
        for layer in missing.iter().filter(|layer| !layer.starts_with("cgroup: ")) {
            if !self.missing_layers.insert(layer.clone()) {
                continue;
            }
            let message = format!(
                "the job continues without a layer of the process wall: {layer} (os_sandbox is \
                 best-effort; `sandmill doctor` says what to do)"
            );
            self.emit(EventKind::Notice { message });
        }
    }

    fn on_commit_reply(&mut self, reply: Option<CommitReply>) {
        if let Some(CommitReply::Reclaimable(attempts)) = reply {
            for ReclaimableAttempt { worker, id, attempt } in attempts {
                self.connected_job.node.mark_reclaimable(worker, id, attempt);
            }
            return;
        }
        if !matches!(reply, Some(CommitReply::Committed(_) | CommitReply::Rejected { .. })) {
            self.commits = None;
        }
        if let Some(CommitReply::Committed(ids)) = &reply {
            self.connected_job.node.release(ids);
            if let Some(kind) = self.receipts.due(&self.committer) {
                self.emit(kind);
            }
        }
        self.send(match reply {
            Some(CommitReply::Committed(ids)) => JobMessage::Committed(ids),
            Some(CommitReply::Rejected { id, failure }) => JobMessage::Rejected(id, failure),
            Some(CommitReply::Fatal(error)) if error.is_replacement() => {
                JobMessage::Replaced(error.to_string())
            }
            Some(CommitReply::Fatal(error)) => JobMessage::CommitFailed(error.to_string()),
            // `Reclaimable` is handled above. The committer sends the other two only after `end_job`.
            Some(
                CommitReply::Finishing(_) | CommitReply::Finished | CommitReply::Reclaimable(_),
            )
            | None => JobMessage::CommitFailed(CommitError::BrokeDown.to_string()),
        });
    }

    fn emit(&mut self, kind: EventKind) {
        self.spans.observe(&kind);
        if let EventKind::AttemptFinished { report, .. } = &kind {
            self.processor_seconds += report.process_seconds;
            add_bytes(&mut self.bytes_read, report.bytes_read);
        }
        self.control.iter().for_each(|control| control.observe(&kind));
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

    /// Records the job's end, then emits its last event.
    async fn conclude(mut self, mut result: JobResult) -> Result<JobResult, EngineError> {
        self.connected_job.node.close();
        if let Err(error) = self.finish_commits(result.status).await {
            result.status = JobStatus::Failed;
            let is_replaced = error.is_replacement();
            let by = if is_replaced { EndedBy::Replaced } else { EndedBy::Commit };
            result.ended_by.get_or_insert(by);
            result.reason = error.to_string();
        }
        fail_point::pass("end-committed");
        if result.status == JobStatus::Completed {
            for message in self.leftovers.remove() {
                self.emit(EventKind::Notice { message });
            }
            fail_point::pass("leftovers-removed");
        } else if !self.is_shared {
            // No later run uses these models: a run that resumes the job stages its models again. Another leader
            // may use those in the job's store.
            let _ = remove_tree(&self.worker_dir.models());
        }
        // Takes the last sample, before the job directory may vanish.
        self.connected_job.node.end_watch();
        result.os_sandbox = std::mem::take(&mut self.wall);
        result.runtime = self.runtime.take();
        result.seconds = self.start.elapsed().as_secs_f64();
        result.processor_seconds = self.processor_seconds;
        result.bytes_read = self.bytes_read;
        result.peak_memory = peak_of_children();
        result.receipts = sums(&self.committer);
        // Close the socket before `job.json` says that the job has ended: a client that reads this
        // must find no socket.
        self.control = None;
        let written = self.claim.end(&result);
        self.emit(EventKind::JobFinished { result: Box::new(result.clone()) });
        let publishes_later = self.store.as_ref().is_some_and(JobStore::publishes_later);
        let publishes = publishes_later && result.status == JobStatus::Completed;
        if let Some(link) = self.store_link.take() {
            link.end(publishes);
        }
        written.map_err(|e| EngineError(e.to_string()))?;
        if result.never_began() && !self.claim.has_earlier_run() {
            undo(&self.claim, self.store.as_ref()).map_err(|e| EngineError(e.to_string()))?;
            // If the removal fails, the next run reports the folder as another job's, because the
            // next run has another mark.
            let _ = self.parent.as_deref().map(remove_tree);
        }
        if publishes && let Some(presence) = self.presence.take() {
            presence.interrupt();
        }
        Ok(result)
    }

    async fn finish_commits(&mut self, status: JobStatus) -> Result<(), CommitError> {
        // If the committer stopped earlier, the result already says why.
        let Some(mut commits) = self.commits.take() else { return Ok(()) };
        self.committer.end_job(status);
        let output = self.claim.output().display().to_string();
        let patience = self.patience;
        let mut notify = |writing: StillWriting| {
            let message = match writing {
                StillWriting::Silent(waited) => format!(
                    "still writing results to {output} after {} s; the disk is slow or hangs, and nothing \
                     is lost by waiting",
                    waited.as_secs()
                ),
                StillWriting::Finishing(bytes) => format!(
                    "the output file in {output} is being made: {} of the rows are converted",
                    ByteSize(bytes).rounded()
                ),
            };
            self.emit(EventKind::Notice { message });
        };
        let reply = last_reply(&mut commits, (STILL_WRITING_INTERVAL, patience), &mut notify).await;
        let Some(result) = reply else {
            self.committer.abandon();
            return Err(CommitError::Silent(patience));
        };
        result
    }
}

/// The committer's next reply. `None` if the committer's thread has failed. After the last reply, this never
/// returns.
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
    fn waiting_for_the_committer_has_a_time_out() {
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
