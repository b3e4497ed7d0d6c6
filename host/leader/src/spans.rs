//! Turns the job's events into `tracing` spans: one for the plan, one for each worker and one for each
//! attempt, below the span of the job.
//!
//! All spans have the highest level, so that every log line shows where it belongs. If tracing is disabled,
//! events are ignored.

use crate::event::EventKind;
use crate::model::{AttemptReport, Failure, JobResult, MiniBatchId};
use std::collections::HashMap;
use tracing::{Span, debug, error, error_span, info, warn};

/// The open spans.
#[derive(Debug)]
pub(super) struct Spans {
    job: Span,
    plan: Option<Span>,
    workers: HashMap<String, Span>,
    /// The spans of attempts whose end is not reported yet, by worker, mini-batch and attempt number. A success is
    /// reported only when it is committed. By then, its worker may have begun the next attempt, or may be
    /// gone.
    attempts: HashMap<(String, MiniBatchId, u32), Span>,
}

impl Spans {
    /// New spans are children of the current span, which must be the job's.
    pub(super) fn new() -> Self {
        let job = Span::current();
        Self { job, plan: None, workers: HashMap::new(), attempts: HashMap::new() }
    }

    pub(super) fn observe(&mut self, kind: &EventKind) {
        if self.job.is_disabled() {
            return;
        }
        match kind {
            EventKind::JobStarted { workers, resumed, .. } => {
                let is_resumed = resumed.is_some();
                self.job.in_scope(|| info!(workers, resumed = is_resumed, "the job begins"));
                self.plan = Some(error_span!(parent: &self.job, "plan"));
            }
            EventKind::InForce { message } | EventKind::Columns { message } => {
                self.job.in_scope(|| debug!("{message}"));
            }
            EventKind::Notice { message } => self.job.in_scope(|| info!("{message}")),
            EventKind::Planned { mini_batches, items, finished, .. } => {
                self.planned(*mini_batches, *items, *finished);
            }
            EventKind::WindingDown { reason } => {
                self.job.in_scope(|| warn!(reason, "no new mini-batches are handed out"));
            }
            EventKind::JobFinished { result } => self.end(result),
            EventKind::GpuUse { percent } => self.job.in_scope(|| debug!(percent, "use of GPUs")),
            EventKind::MiniBatchReturned { id } => {
                self.job.in_scope(|| debug!(mini_batch = id.0, "the mini-batch goes back"));
            }
            EventKind::TwinGranted { id, node, seconds, median_seconds, .. } => {
                self.job.in_scope(|| {
                    debug!(mini_batch = id.0, node, seconds, median_seconds, "a twin begins");
                });
            }
            EventKind::MixedBackends { node, backends } => {
                self.job.in_scope(|| warn!(node, backends, "the node has other backends"));
            }
            _ => self.observe_worker(kind),
        }
    }

    fn planned(&mut self, mini_batches: u64, items: u64, is_complete: bool) {
        let Some(plan) = &self.plan else { return };
        if is_complete {
            plan.in_scope(|| info!(mini_batches, items, "the plan is complete"));
            self.plan = None;
        } else {
            plan.in_scope(|| debug!(mini_batches, items, "more mini-batches are known"));
        }
    }

    fn observe_worker(&mut self, kind: &EventKind) {
        match kind {
            EventKind::WorkerStarted { worker, pid, gpu_index } => {
                let span = error_span!(parent: &self.job, "worker", worker, pid, gpu = *gpu_index);
                span.in_scope(|| debug!("the worker starts"));
                self.workers.insert(worker.clone(), span);
            }
            EventKind::WorkerReady { worker, start_seconds, init_seconds, init_fuel } => {
                let span = self.worker(worker);
                let init_fuel = *init_fuel;
                span.in_scope(|| {
                    info!(start_seconds, init_seconds, init_fuel, "the worker is ready");
                });
            }
            EventKind::InitFailed { worker, failure } => {
                let Failure { kind, message, .. } = failure;
                self.worker(worker).in_scope(|| error!(%kind, "init failed: {message}"));
            }
            EventKind::WorkerExited { worker, how, expected } => {
                let span = self.worker(worker);
                if *expected {
                    span.in_scope(|| debug!(how, "the worker has ended"));
                } else {
                    span.in_scope(|| warn!(how, "the worker has ended unexpectedly"));
                }
                self.workers.remove(worker);
            }
            EventKind::AttemptStarted { worker, id, attempt } => {
                let worker_span = self.worker(worker);
                let span = error_span!(parent: worker_span, "attempt", mini_batch = id.0, attempt);
                span.in_scope(|| debug!("run begins"));
                self.attempts.insert((worker.clone(), *id, *attempt), span);
            }
            EventKind::AttemptFinished { worker, report, will_retry, .. } => {
                self.attempt_finished(worker, report, *will_retry);
            }
            EventKind::AttemptDiscarded { worker, id, attempt, succeeded } => {
                let known = self.attempts.remove(&(worker.clone(), *id, *attempt));
                let span = known.as_ref().unwrap_or_else(|| self.worker(worker));
                span.in_scope(|| debug!(succeeded, "the attempt came too late"));
            }
            EventKind::AttemptCancelled { worker, id, attempt, by } => {
                let known = self.attempts.remove(&(worker.clone(), *id, *attempt));
                let span = known.as_ref().unwrap_or_else(|| self.worker(worker));
                span.in_scope(|| debug!(by, "ended, because its twin has succeeded"));
            }
            _ => {}
        }
    }

    fn attempt_finished(&mut self, worker: &str, report: &AttemptReport, will_retry: bool) {
        let AttemptReport { id, attempt, elapsed_seconds: seconds, .. } = report;
        let known = self.attempts.remove(&(worker.to_owned(), *id, *attempt));
        let span = known.as_ref().unwrap_or_else(|| self.worker(worker));
        match &report.outcome {
            Ok(segment) => {
                let rows = segment.rows;
                span.in_scope(|| debug!(seconds, rows, "the attempt succeeded"));
            }
            Err(Failure { kind, message, .. }) => {
                span.in_scope(|| {
                    warn!(seconds, %kind, will_retry, "the attempt failed: {message}");
                });
            }
        }
    }

    /// The span of a worker, or the job's span if the worker is unknown.
    fn worker(&self, worker: &str) -> &Span {
        self.workers.get(worker).unwrap_or(&self.job)
    }

    fn end(&mut self, result: &JobResult) {
        let status = result.status.to_string();
        let seconds = result.seconds;
        let rows = result.rows;
        self.job.in_scope(|| info!(status, seconds, rows, "the job has ended"));
        self.plan = None;
        self.attempts.clear();
        self.workers.clear();
    }
}
