//! Whether the inputs of a job are what they were: it is planned once in advance, and the
//! mini-batches that are done are compared with what they would be today.

use super::cancel::Cancel;
use crate::journal::{Journal, JournalError};
use crate::model::{MiniBatch, MiniBatchId, Source, TableFormat};
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
/// The journal's key for how tables are read: their columns follow from all files, also from those
/// whose mini-batches are not done yet.
const TABLES: &str = "tables";

/// Key and value for the journal, once it is known how tables are read.
pub(super) fn tables_note(tables: &[TableFormat]) -> (String, String) {
    // Plain data always serialises; were it not so, all would be as one.
    let bytes = postcard::to_stdvec(tables).unwrap_or_default();
    (TABLES.to_owned(), hex(Sha256::digest(bytes)))
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A digest of all mini-batches of a plan, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanDigest {
    mini_batches: u64,
    stamps: Sha256,
    /// Digests of the first one, two, four, eight mini-batches and so on, to find the first that
    /// differs.
    marks: String,
}

impl PlanDigest {
    /// Takes in the next mini-batches.
    pub(super) fn add(&mut self, batches: &[MiniBatch]) {
        for batch in batches {
            self.mini_batches += 1;
            self.stamps.update(batch.stamp.to_le_bytes());
            if self.mini_batches.is_power_of_two() {
                self.marks.push(' ');
                self.marks.extend(hex(self.stamps.clone().finalize()).get(..8));
            }
        }
    }

    /// Key and value for the journal, once the plan is complete.
    pub(super) fn note(self) -> (String, String) {
        let value = format!("{} {}{}", self.mini_batches, hex(self.stamps.finalize()), self.marks);
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
    /// [`tables_note`], if anything is done.
    tables: Option<String>,
}

impl Known {
    /// What the journal says.
    pub(super) fn of(journal: &Journal) -> Result<Self, JournalError> {
        let stamps = journal.stamps()?.into_iter().collect();
        Ok(Self { stamps, plan: journal.noted(PLAN)?, tables: journal.noted(TABLES)? })
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
    /// Somebody asked for the end, for this reason.
    Cancelled(String),
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
    /// Ends it early.
    pub(super) cancel: Cancel,
}

/// Plans the job, and compares. Does nothing if there is nothing to compare with.
pub(super) fn verify(planning: Planning, known: Known) -> Result<(), Mismatch> {
    if known.is_empty() {
        return Ok(());
    }
    let Planning { program, component, request, patience, cancel } = planning;
    let failed = |e: std::io::Error| Mismatch::Failed(format!("the inputs cannot be cut: {e}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let (worker_events, _) = mpsc::channel(1);
        let (events, planner) = mpsc::channel(4);
        // Dropping the pool ends the planner.
        let mut pool = Pool::new(program, component, worker_events);
        pool.plan(&request, events).map_err(failed)?;
        let mut cancelled = cancel.watch();
        let asked = async { cancelled.wait_for(Option::is_some).await.is_ok() };
        tokio::select! {
            biased;
            true = asked => Err(Mismatch::Cancelled(cancel.reason().unwrap_or_default())),
            result = compare(planner, &request.sources, known, patience) => result,
        }
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
            Some(FromPlanner::Tables(tables)) => {
                if known.tables.take().is_some_and(|was| was != tables_note(&tables).1) {
                    return Err(Mismatch::Changed(
                        "the inputs changed: their columns are not what they were".to_owned(),
                    ));
                }
            }
            Some(FromPlanner::Notice(_)) => {}
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
        let which = match first_difference(&was, &is) {
            (first, last) if first == last => format!("mini-batch {first}"),
            (first, last) => format!("one of the mini-batches {first} to {last}"),
        };
        Err(Mismatch::Changed(format!(
            "the inputs changed: {which}, which was not done yet, is not what it was"
        )))
    } else {
        let (was, is) = (count(&was), count(&is));
        Err(Mismatch::Changed(format!(
            "the inputs changed: there were {was} mini-batches, now {is}"
        )))
    }
}

/// Among which mini-batches the first is that differs, by two notes of as many.
fn first_difference(was: &str, is: &str) -> (u64, u64) {
    let marks = |note: &'_ str| note.split(' ').skip(2).map(str::to_owned).collect::<Vec<_>>();
    let (was, is_marks) = (marks(was), marks(is));
    let same = was.iter().zip(&is_marks).take_while(|(was, is)| was == is).count();
    let count: u64 = is.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(1);
    // So many marks are of the first 2^(same - 1) mini-batches.
    let first = same.checked_sub(1).map_or(0, |power| 1 << power);
    let last = if same == 0 { 0 } else { 2 * first - 1 };
    (first, last.min(count.saturating_sub(1)).max(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Column, ColumnType, CsvFormat, Work};
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
            Mismatch::Failed(text) | Mismatch::Cancelled(text) => format!("failed: {text}"),
        })
    }

    fn with(done: &[(u64, u64)], was: Option<&[u64]>, is: &[u64]) -> Result<(), String> {
        let stamps = done.iter().map(|(id, stamp)| (MiniBatchId(*id), *stamp)).collect();
        let known = Known { stamps, plan: was.map(plan), tables: Some(tables_note(&[]).1) };
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
        assert_snapshot!(text(with(&[(0, 7)], Some(&[7, 8, 9]), &[7, 8, 10])), @"changed: the inputs changed: mini-batch 2, which was not done yet, is not what it was");
        let was: Vec<u64> = (0..100).collect();
        for (changed, told) in [
            (0, "mini-batch 0,"),
            (1, "mini-batch 1,"),
            (3, "one of the mini-batches 2 to 3,"),
            (63, "one of the mini-batches 32 to 63,"),
            (64, "one of the mini-batches 64 to 99,"),
        ] {
            let mut is = was.clone();
            is[changed] = 1000;
            let text = text(with(&[], Some(&was), &is));
            assert!(text.starts_with(&format!("changed: the inputs changed: {told}")), "{text}");
        }
    }

    /// What is not done yet decides how the columns of what is done are read.
    #[test]
    fn columns_must_be_what_they_were() {
        let format = |name: &str| TableFormat {
            csv: CsvFormat::default(),
            columns: vec![Column { name: name.into(), kind: ColumnType::Int64 }],
        };
        let known = || {
            let stamps = HashMap::from([(MiniBatchId(0), 7)]);
            Known { stamps, plan: None, tables: Some(tables_note(&[format("id")]).1) }
        };
        let messages = |name| {
            let tables = FromPlanner::Tables(vec![format(name)]);
            vec![tables, FromPlanner::MiniBatches(batches(&[7])), FromPlanner::Finished]
        };
        assert_eq!(compared(known(), messages("id")), Ok(()));
        let changed = "changed: the inputs changed: their columns are not what they were";
        assert_eq!(compared(known(), messages("key")), Err(changed.to_owned()));
    }

    #[test]
    fn a_planner_that_cannot_plan_is_no_change() {
        let plan = Some(plan(&[1]));
        let known = || Known { stamps: HashMap::new(), plan: plan.clone(), tables: None };
        let failed = vec![FromPlanner::Failed("no such folder".into())];
        assert_eq!(compared(known(), failed), Err("failed: no such folder".to_owned()));
        let broken = compared(known(), vec![FromPlanner::MiniBatches(batches(&[1]))]);
        assert_eq!(broken, Err("failed: the planner process broke down".to_owned()));
    }
}
