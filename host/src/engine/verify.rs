//! Whether the inputs of a job are what they were: it is planned once in advance, and the
//! mini-batches that are done are compared with what they would be today.

use crate::journal::{Journal, JournalError};
use crate::model::{MiniBatch, MiniBatchId, Source};
use crate::pool::Pool;
use crate::protocol::{FromPlanner, PlanRequest};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

/// The journal's key for the digest of a whole plan.
const PLAN: &str = "plan";

/// A digest of all mini-batches of a plan, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanDigest {
    mini_batches: u64,
    stamps: Sha256,
}

impl PlanDigest {
    /// Takes in the next mini-batches.
    pub(super) fn add(&mut self, batches: &[MiniBatch]) {
        self.mini_batches += batches.len() as u64;
        for batch in batches {
            self.stamps.update(batch.stamp.to_le_bytes());
        }
    }

    /// Key and value for the journal, once the plan is complete.
    pub(super) fn note(self) -> (String, String) {
        let mut value = format!("{} ", self.mini_batches);
        for byte in self.stamps.finalize() {
            let _ = write!(value, "{byte:02x}");
        }
        (PLAN.to_owned(), value)
    }
}

/// What an earlier run knows of its plan.
#[derive(Debug)]
pub(super) struct Known {
    /// The mini-batches that ended.
    stamps: HashMap<MiniBatchId, u64>,
    /// [`PlanDigest::note`], if the plan was complete.
    plan: Option<String>,
}

impl Known {
    /// What the journal says.
    pub(super) fn of(journal: &Journal) -> Result<Self, JournalError> {
        let stamps = journal.stamps()?.into_iter().collect();
        Ok(Self { stamps, plan: journal.noted(PLAN)? })
    }

    fn is_empty(&self) -> bool {
        self.stamps.is_empty() && self.plan.is_none()
    }
}

/// Why a plan is not what it was, or cannot be had.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// What differs, in words.
    Changed(String),
    /// The inputs cannot be planned, in words, complete.
    Failed(String),
}

/// How to plan.
pub(super) struct Planning {
    /// The `sandmill` binary.
    pub(super) program: PathBuf,
    /// What workers would be given; the planner has no use for it.
    pub(super) component: File,
    /// The inputs, and how they are cut.
    pub(super) request: PlanRequest,
    /// The longest that the planner may say nothing.
    pub(super) patience: Duration,
}

/// Plans the job, and compares. Does nothing if there is nothing to compare with.
pub(super) fn verify(planning: Planning, known: Known) -> Result<(), Mismatch> {
    if known.is_empty() {
        return Ok(());
    }
    let Planning { program, component, request, patience } = planning;
    let failed = |e: std::io::Error| Mismatch::Failed(format!("the inputs cannot be cut: {e}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let (worker_events, _) = mpsc::channel(1);
        let (events, planner) = mpsc::channel(4);
        // Dropping the pool ends the planner.
        let mut pool = Pool::new(program, component, worker_events);
        pool.plan(&request, events).map_err(failed)?;
        compare(planner, &request.sources, known, patience).await
    })
}

async fn compare(
    mut planner: mpsc::Receiver<FromPlanner>,
    sources: &[Source],
    mut known: Known,
    patience: Duration,
) -> Result<(), Mismatch> {
    let mut digest = PlanDigest::default();
    loop {
        let Ok(message) = tokio::time::timeout(patience, planner.recv()).await else {
            let text = format!(
                "the planner has said nothing for {} s while it looked whether the inputs are \
                 what they were: see that they can be read, or raise first_task_creation_timeout",
                patience.as_secs()
            );
            return Err(Mismatch::Failed(text));
        };
        match message {
            Some(FromPlanner::MiniBatches(batches)) => {
                for batch in &batches {
                    if known.stamps.remove(&batch.id).is_some_and(|stamp| stamp != batch.stamp) {
                        return Err(Mismatch::Changed(not_the_same(batch, sources)));
                    }
                }
                digest.add(&batches);
            }
            Some(FromPlanner::Finished) => return complete(known, digest),
            Some(FromPlanner::Failed(text)) => return Err(Mismatch::Failed(text)),
            Some(FromPlanner::Tables(_) | FromPlanner::Notice(_)) => {}
            None => return Err(Mismatch::Failed("the planner process broke down".to_owned())),
        }
    }
}

fn not_the_same(batch: &MiniBatch, sources: &[Source]) -> String {
    let location = batch.location(sources);
    let id = batch.id;
    match sources.get(batch.source as usize) {
        Some(source) => format!(
            "input '{}' changed: mini-batch {id} ({location}) is not what it was when it was done",
            source.dataset
        ),
        None => format!("mini-batch {id} ({location}) is not what it was when it was done"),
    }
}

/// All of the plan was seen, and what was done is in it as it was, unless it is still in `known`.
fn complete(known: Known, digest: PlanDigest) -> Result<(), Mismatch> {
    if let Some(id) = known.stamps.keys().min() {
        return Err(Mismatch::Changed(format!(
            "the inputs changed: mini-batch {id}, which was done, is not among today's {}",
            digest.mini_batches
        )));
    }
    let Some(was) = known.plan else { return Ok(()) };
    let is = digest.note().1;
    let count = |note: &str| note.split(' ').next().unwrap_or_default().to_owned();
    if was == is {
        Ok(())
    } else if count(&was) == count(&is) {
        Err(Mismatch::Changed(
            "the inputs changed: mini-batches that were not done yet are not what they were"
                .to_owned(),
        ))
    } else {
        let (was, is) = (count(&was), count(&is));
        Err(Mismatch::Changed(format!(
            "the inputs changed: there were {was} mini-batches, now {is}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Work;
    use insta::assert_snapshot;

    fn batches(stamps: &[u64]) -> Vec<MiniBatch> {
        let batch = |(id, stamp): (usize, &u64)| MiniBatch {
            stamp: *stamp,
            ..MiniBatch::new(MiniBatchId(id as u64), 0, Work::Files(vec![format!("{id}.txt")]))
        };
        stamps.iter().enumerate().map(batch).collect()
    }

    fn plan(stamps: &[u64]) -> String {
        let mut digest = PlanDigest::default();
        digest.add(&batches(stamps));
        digest.note().1
    }

    fn compared(known: Known, messages: Vec<FromPlanner>) -> Result<(), String> {
        let source = Source {
            dataset: "texts".into(),
            root: "/data".into(),
            guest: "/inputs/texts".into(),
            pattern: None,
            partition_format: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let result = runtime.block_on(async {
            let (events, planner) = mpsc::channel(8);
            for message in messages {
                events.send(message).await.unwrap();
            }
            drop(events);
            compare(planner, &[source], known, Duration::from_secs(60)).await
        });
        result.map_err(|mismatch| match mismatch {
            Mismatch::Changed(text) => format!("changed: {text}"),
            Mismatch::Failed(text) => format!("failed: {text}"),
        })
    }

    fn with(done: &[(u64, u64)], was: Option<&[u64]>, is: &[u64]) -> Result<(), String> {
        let stamps = done.iter().map(|(id, stamp)| (MiniBatchId(*id), *stamp)).collect();
        let known = Known { stamps, plan: was.map(plan) };
        let (first, second) = is.split_at(is.len() / 2);
        let mut later = batches(is).split_off(first.len());
        assert_eq!(later.len(), second.len());
        let messages = vec![
            FromPlanner::Tables(vec![]),
            FromPlanner::MiniBatches(batches(first)),
            FromPlanner::MiniBatches(std::mem::take(&mut later)),
            FromPlanner::Finished,
        ];
        compared(known, messages)
    }

    /// C25, W15.
    #[test]
    fn what_was_done_must_be_the_same_today() {
        assert_eq!(with(&[(0, 7), (2, 9)], None, &[7, 8, 9]), Ok(()));
        assert_eq!(with(&[(0, 7), (2, 9)], Some(&[7, 8, 9]), &[7, 8, 9]), Ok(()));
        // As long as the plan was not complete, more may come.
        assert_eq!(with(&[(0, 7)], None, &[7, 8, 9, 10]), Ok(()));
        let text = |result: Result<(), String>| result.unwrap_err();
        assert_snapshot!(text(with(&[(0, 7), (2, 1)], None, &[7, 8, 9])), @"changed: input 'texts' changed: mini-batch 2 (/inputs/texts/2.txt) is not what it was when it was done");
        assert_snapshot!(text(with(&[(0, 7), (5, 1)], None, &[7, 8, 9])), @"changed: the inputs changed: mini-batch 5, which was done, is not among today's 3");
        assert_snapshot!(text(with(&[(0, 7)], Some(&[7, 8]), &[7, 8, 9])), @"changed: the inputs changed: there were 2 mini-batches, now 3");
        assert_snapshot!(text(with(&[(0, 7)], Some(&[7, 8, 9]), &[7, 8, 10])), @"changed: the inputs changed: mini-batches that were not done yet are not what they were");
    }

    #[test]
    fn a_planner_that_cannot_plan_is_no_change() {
        let known = || Known { stamps: HashMap::new(), plan: Some(plan(&[1])) };
        let failed = vec![FromPlanner::Failed("no such folder".into())];
        assert_eq!(compared(known(), failed), Err("failed: no such folder".to_owned()));
        let broken = compared(known(), vec![FromPlanner::MiniBatches(batches(&[1]))]);
        assert_eq!(broken, Err("failed: the planner process broke down".to_owned()));
    }
}
