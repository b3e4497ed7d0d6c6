//! Reports the current state of a job's inputs: plans the job once before it runs, and stamps the files of
//! its mini-batches as workers do.

use super::error::NodeError;
use super::job::NodeJob;
use super::planner_reads::{InspectionPlanner, PlannerReads};
use crate::dataset::{FileVersion, OpenRoot, content_stamp};
use crate::model::{MiniBatch, Source};
use crate::pool::Pool;
use crate::protocol::FromPlanner;
use crate::protocol::node::{InspectReport, InspectRequest, InspectedMiniBatch};
use jiff::Timestamp;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

impl NodeJob {
    /// Plans the job. Passes each part of the plan, with the state of its files, to `on_report`,
    /// until `on_report` returns `Break`.
    ///
    /// # Errors
    /// If the inputs cannot be planned, if the planner sends nothing for too long, or if the job is
    /// cancelled.
    pub fn inspect_inputs(
        &mut self,
        wanted: &InspectRequest,
        on_report: &mut dyn FnMut(InspectReport) -> ControlFlow<()>,
    ) -> Result<(), NodeError> {
        let result = self.inspect(wanted, on_report);
        // The run itself writes its spill files again.
        self.remove_spill()?;
        result
    }

    fn inspect(
        &mut self,
        wanted: &InspectRequest,
        on_report: &mut dyn FnMut(InspectReport) -> ControlFlow<()>,
    ) -> Result<(), NodeError> {
        let component = self.component.file.try_clone().map_err(NodeError::Component)?;
        let request = self.plan_request(&wanted.plan);
        let program = self.options.program.clone();
        let cancel = self.options.cancel.clone();
        let objects = &mut self.staged.objects;
        let failed = |e: std::io::Error| {
            NodeError::Inputs(format!("the inputs cannot be split into mini-batches: {e}"))
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let result = runtime.block_on(async {
            let (worker_events, _) = mpsc::channel(1);
            let (events, incoming) = mpsc::channel(4);
            // Dropping the pool kills the planner.
            let mut pool = Pool::new(program, component, worker_events);
            pool.plan(&request, events).map_err(failed)?;
            let answer = |answer| pool.answer(answer);
            let reads = PlannerReads::new(&request.sources);
            let planner = InspectionPlanner { incoming, answer: &answer, reads, objects };
            let view = WorkerView::new(&request.sources, wanted.since);
            let mut cancelled = cancel.watch();
            let was_cancelled = async { cancelled.wait_for(Option::is_some).await.is_ok() };
            tokio::select! {
                biased;
                true = was_cancelled => Err(NodeError::Cancelled(cancel.reason().unwrap_or_default())),
                result = follow(planner, view, wanted.patience, on_report) => result,
            }
        });
        // If a disk does not answer, we do not wait for it.
        runtime.shutdown_background();
        result
    }
}

/// Passes each part of the planner's plan to `on_report`, with the state of its files, until the plan ends.
async fn follow(
    mut planner: InspectionPlanner<'_>,
    view: WorkerView,
    patience: Duration,
    on_report: &mut dyn FnMut(InspectReport) -> ControlFlow<()>,
) -> Result<(), NodeError> {
    let late = |_| {
        NodeError::Inputs(format!(
            "comparing the inputs with the earlier run made no progress for {} s: check that they can be \
             read, or raise first_task_creation_timeout",
            patience.as_secs()
        ))
    };
    let view = Arc::new(view);
    loop {
        let report = match planner.next(patience).await.map_err(late)? {
            Some(FromPlanner::MiniBatches(batches)) => {
                let view = Arc::clone(&view);
                let inspection = tokio::task::spawn_blocking(move || view.inspect(batches));
                let inspected = tokio::time::timeout(patience, inspection).await.map_err(late)?;
                InspectReport::MiniBatches(inspected.map_err(|e| NodeError::Inputs(e.to_string()))?)
            }
            Some(FromPlanner::Finished) => {
                // The plan is complete, so `Break` would change nothing.
                let _ = on_report(InspectReport::Finished);
                return Ok(());
            }
            Some(FromPlanner::Failed(text)) => return Err(NodeError::Inputs(text)),
            Some(FromPlanner::Continues) => InspectReport::Continues,
            Some(FromPlanner::CannotContinue) => {
                let _ = on_report(InspectReport::CannotContinue);
                return Ok(());
            }
            Some(FromPlanner::Tables(tables)) => InspectReport::Tables(tables),
            Some(
                FromPlanner::Columns(_)
                | FromPlanner::Notice(_)
                | FromPlanner::Opening { .. }
                | FromPlanner::Closed
                | FromPlanner::Share(_)
                | FromPlanner::Position(_),
            ) => {
                continue;
            }
            None => return Err(NodeError::Inputs("the planner process failed".to_owned())),
        };
        if on_report(report).is_break() {
            return Ok(());
        }
    }
}

/// Reads the state of files as the workers did.
struct WorkerView {
    roots: Vec<OpenRoot>,
    since: Timestamp,
    now: Timestamp,
}

impl WorkerView {
    /// A view that reports the files that were changed after `since`.
    fn new(sources: &[Source], since: Timestamp) -> Self {
        Self {
            roots: sources.iter().map(OpenRoot::open_source).collect(),
            since,
            now: Timestamp::now(),
        }
    }

    fn inspect(&self, batches: Vec<MiniBatch>) -> Vec<InspectedMiniBatch> {
        let inspect = |batch: MiniBatch| {
            let version = |(source, file)| self.roots.get(source as usize)?.version_of(file);
            let found: Vec<_> = batch.files().map(version).collect();
            let stamp = content_stamp(batch.stamp, found.iter().copied());
            let changed = found.iter().flatten().find_map(|file| self.change(file));
            InspectedMiniBatch { batch, stamp, changed }
        };
        batches.into_iter().map(inspect).collect()
    }

    /// When a file was changed, if that is after `since`. A time in the future is ignored: a file server's
    /// clock may be fast.
    fn change(&self, file: &FileVersion) -> Option<Timestamp> {
        let nanos = i32::try_from(file.nanos).unwrap_or(0);
        let time = Timestamp::new(file.seconds, nanos).ok()?;
        (self.since < time && time <= self.now).then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MiniBatchId, MiniBatchWork};
    use crate::store::JobObjects;
    use jiff::SignedDuration;

    fn batch(stamp: u64) -> MiniBatch {
        let batch =
            MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Files(["0.txt".to_owned()].into()));
        MiniBatch { stamp, ..batch }
    }

    /// The reports for the leader if the planner sends these messages. `on_report` breaks after `most`
    /// reports.
    fn received(
        messages: Vec<FromPlanner>,
        most: usize,
    ) -> (Vec<InspectReport>, Result<(), String>) {
        let source = Source::new("texts", "/data".into());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut received = Vec::new();
        let result = runtime.block_on(async {
            let (events, incoming) = mpsc::channel(8);
            for message in messages {
                events.send(message).await.unwrap();
            }
            drop(events);
            let mut objects = JobObjects::default();
            let reads = PlannerReads::new(&[]);
            let planner =
                InspectionPlanner { incoming, answer: &drop, reads, objects: &mut objects };
            let view = WorkerView::new(&[source], Timestamp::UNIX_EPOCH);
            let mut on_report = |report| {
                received.push(report);
                if received.len() < most {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            follow(planner, view, Duration::from_secs(60), &mut on_report).await
        });
        (received, result.map_err(|error| error.to_string()))
    }

    #[test]
    fn a_plan_is_reported_with_file_stamps() {
        let messages = || {
            let notice = FromPlanner::Notice("large".to_owned());
            let batches = FromPlanner::MiniBatches(vec![batch(7)]);
            vec![FromPlanner::Tables(vec![]), notice, batches, FromPlanner::Finished]
        };
        // The file does not exist.
        let inspected = InspectedMiniBatch { batch: batch(7), stamp: 7, changed: None };
        let reports = [
            InspectReport::Tables(vec![]),
            InspectReport::MiniBatches(vec![inspected]),
            InspectReport::Finished,
        ];
        assert_eq!(received(messages(), 9), (reports.to_vec(), Ok(())));
        assert_eq!(received(messages(), 1), (reports[..1].to_vec(), Ok(())));
    }

    #[test]
    fn a_planner_that_fails_is_an_error() {
        let (_, result) = received(vec![FromPlanner::Failed("no such folder".into())], 9);
        assert_eq!(result, Err("no such folder".to_owned()));
        let (reports, result) = received(vec![FromPlanner::MiniBatches(vec![batch(1)])], 9);
        assert_eq!((reports.len(), result), (1, Err("the planner process failed".to_owned())));
    }

    /// A file that is newer than the job is reported (rule C25 in `docs/parallel-run-step.md`).
    #[test]
    fn a_file_newer_than_the_job_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("0.txt"), "a").unwrap();
        let file = std::fs::File::open(folder.path().join("0.txt")).unwrap();
        let source = Source::new("texts", folder.path().into());
        let now = Timestamp::now();
        let view = WorkerView::new(&[source], now - SignedDuration::from_secs(100));
        let change_at_age = |age: i64| {
            let time = now - SignedDuration::from_secs(age);
            file.set_modified(time.into()).unwrap();
            let [inspected] = view.inspect(vec![batch(7)]).try_into().unwrap();
            let stamp = content_stamp(7, [view.roots[0].version_of("0.txt")]);
            assert_eq!((inspected.stamp, inspected.batch), (stamp, batch(7)));
            inspected.changed.map(|changed| changed == time)
        };
        assert_eq!(change_at_age(200), None);
        assert_eq!(change_at_age(50), Some(true));
        assert_eq!(change_at_age(-60), None, "the time of a server whose clock is ahead");
    }
}
