//! From a prepared job to its running parts: planner, pool, journal, committer.

use super::EngineError;
use super::commit::{
    CommitReply, CommitRequest, CommitTarget, Committer, FinalFailure, Finish, Success, worker_of,
};
use super::job::Job;
use super::machine::Settled;
use super::taking_up::TakenUp;
use crate::event::Resumed;
use crate::fail_point;
use crate::finish::Finisher;
use crate::journal::{JobIdentity, Journal};
use crate::model::{JobDir, OutputAction, Restored};
use crate::node;
use crate::output::remove_tree;
use crate::perf::{Monitor, PerfEvent};
use crate::pool::{self, Pool, PoolEvent};
use crate::protocol::{FromPlanner, PlanRequest};
use std::fs::File;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use tokio::sync::mpsc;

/// What a job runs on.
pub(super) struct Started {
    pub(super) pool: Pool,
    pub(super) workers: mpsc::Receiver<PoolEvent>,
    pub(super) planner: mpsc::Receiver<FromPlanner>,
    pub(super) committer: Committer,
    pub(super) commits: mpsc::UnboundedReceiver<CommitReply>,
    /// What an earlier run left done.
    pub(super) restored: Restored,
    pub(super) monitor: Monitor,
    pub(super) perf: mpsc::UnboundedReceiver<PerfEvent>,
}

/// Starts all of it; takes what an earlier run left out of the job.
pub(super) fn start(job: &mut Job) -> Result<Started, EngineError> {
    let failed = |what: &str, e: std::io::Error| EngineError(format!("{what}: {e}"));
    // What an interrupted shuffle left would be in the way.
    let spill = job.job_dir.spill();
    remove_tree(&spill).map_err(|e| failed(&format!("cannot remove {}", spill.display()), e))?;
    let (events, workers) = mpsc::channel(256);
    let (plan_events, planner) = mpsc::channel(4);
    let component = job.component.file.try_clone();
    let component = component.map_err(|e| failed("the compiled entry script cannot be used", e))?;
    let mut pool = Pool::new(job.program.clone(), component, events);
    if let Some(standby) = job.standby.take() {
        pool.take_over(standby);
    }
    let mut monitor = node::monitor(&job.spec, &job.job_dir);
    monitor.gpus = job.gpus.indices();
    monitor.processes = job.process_lists;
    pool.confine(job.spec.os_sandbox, &job.job_dir, monitor.budget.clone());
    pool.watch_gpus(job.gpus.memory());
    let request = node::plan_request(&job.spec, &job.sources, spill);
    let (again, asks) = (job.again.clone(), job.objects.come_on_demand());
    let request = PlanRequest { again, asks, ..request };
    let (replies, commits) = mpsc::unbounded_channel();
    let plan = || {
        let planned = pool.plan(&request, plan_events);
        planned.map_err(|e| failed("the planner process cannot be started", e))
    };
    let (committer, restored) = if job.taken_up.is_some() {
        plan()?;
        start_committer(job, replies)?
    } else {
        // The one waits for the planner's process, the other for the disk.
        thread::scope(|scope| {
            let making =
                thread::Builder::new().spawn_scoped(scope, || start_committer(job, replies));
            let making = making.map_err(|e| failed("the journal cannot be made", e))?;
            let planned = plan();
            let made = making.join().unwrap_or_else(|panic| resume_unwind(panic));
            planned.and(made)
        })?
    };
    // Now that nothing of an earlier run is in the way.
    node::stage_models(&job.spec.models, &job.models, &job.job_dir)
        .map_err(|e| EngineError(e.to_string()))?;
    job.claim.set_room_aside(&job.job_dir);
    let (perf_events, perf) = mpsc::unbounded_channel();
    let monitor = Monitor::start(monitor, perf_events)
        .map_err(|e| failed("the monitor of memory cannot be started", e))?;
    Ok(Started { pool, workers, planner, committer, commits, restored, monitor, perf })
}

/// What the first event says of an earlier run.
pub(super) fn resumed(started: &Started, has_earlier_run: bool) -> Option<Resumed> {
    let Restored { succeeded, failed, items, rows, .. } = started.restored;
    has_earlier_run.then_some(Resumed { succeeded, failed, items, rows })
}

fn start_committer(
    job: &mut Job,
    replies: mpsc::UnboundedSender<CommitReply>,
) -> Result<(Committer, Restored), EngineError> {
    let (journal, retry_failed) = match job.taken_up.take() {
        Some(TakenUp { journal, retry_failed, .. }) => {
            settle_workers(&job.job_dir);
            (journal, retry_failed)
        }
        None => {
            job.claim.sync().map_err(|e| EngineError(e.to_string()))?;
            let journal = Journal::create(&job.job_dir.journal(), &identity(job));
            fail_point::pass("journal-made");
            (journal.map_err(|e| EngineError(e.to_string()))?, false)
        }
    };
    Committer::start(commit_target(job), journal, retry_failed, replies)
        .map_err(|e| EngineError(e.to_string()))
}

/// Does for the workers of a leader that was killed what it would have done at their ends, before their
/// folders are removed. What cannot be looked into holds no logs.
fn settle_workers(job_dir: &JobDir) {
    for entry in std::fs::read_dir(job_dir.work()).into_iter().flatten().flatten() {
        if let Some(worker) = entry.file_name().to_str().and_then(worker_of) {
            pool::settle(job_dir, worker);
        }
    }
}

/// What the journal says of the job.
fn identity(job: &Job) -> JobIdentity {
    JobIdentity {
        name: job.spec.name.clone(),
        id: job.claim.id().to_owned(),
        entry_script_digest: job.component.digest.clone(),
        settings: job.settings.clone(),
        created: job.claim.started(),
    }
}

/// Where results go.
fn commit_target(job: &Job) -> CommitTarget {
    let appends = job.spec.output_action == OutputAction::AppendRow;
    let (name, format) = (&job.spec.append_row_file_name, &job.spec.output_format);
    let finish = (appends && !format.kind.is_lines()).then(|| {
        let finisher = Finisher::new(&job.program, job.spec.os_sandbox, format);
        let make = move |source: &File, target: &File, rows, told: &mut dyn FnMut(u64)| {
            finisher.run(source, target, rows, told).map_err(Into::into)
        };
        Finish { name: name.clone(), make: Arc::new(make) }
    });
    CommitTarget {
        job_dir: job.job_dir.clone(),
        output: job.claim.output().to_owned(),
        output_file: appends.then(|| format.appended(name)),
        ordered: job.spec.ordered,
        on_conflict: job.spec.output_files,
        header_wanted: format.has_header(),
        is_plain: format.is_plain(),
        parts: format.part_ending().filter(|_| appends),
        finish,
    }
}

/// The end of a mini-batch, for the committer.
pub(super) fn commit_request(settled: Settled) -> CommitRequest {
    let Settled { worker, report } = settled;
    match report.outcome {
        Ok(segment) => CommitRequest::Success(Success {
            worker,
            id: report.id,
            attempt: report.attempt,
            items: report.items,
            is_short: report.is_short,
            segment,
            header: report.header,
            has_files: report.has_files,
            stamp: report.stamp,
        }),
        Err(failure) => CommitRequest::Failure(FinalFailure {
            id: report.id,
            attempts: report.attempt,
            worker: Some(worker),
            items: report.items,
            failure,
            stamp: report.stamp,
        }),
    }
}
