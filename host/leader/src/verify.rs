//! Checks whether the inputs of a job have changed. The node plans the job again without running it, and
//! inspects its files. This module compares the new plan with what an earlier run recorded.

use crate::journal::{Journal, JournalError};
use crate::model::{MiniBatch, MiniBatchId, MiniBatchWork, Source, TableFormat, hex};
use crate::protocol::node::{InspectReport, InspectedMiniBatch};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};

/// The journal's key for the digest of a whole plan.
const PLAN_KEY: &str = "plan";
/// The journal's key for how tables are read. The journal records this, because the columns of
/// tables depend on all files, including files whose mini-batches are not done yet.
const TABLES_KEY: &str = "tables";

/// The journal's note on how tables are read: key and value.
pub(super) fn tables_note(tables: &[TableFormat]) -> (String, String) {
    // Plain data always serialises. If it did not, all such values would compare as equal.
    let bytes = postcard::to_stdvec(tables).unwrap_or_default();
    (TABLES_KEY.to_owned(), hex(Sha256::digest(bytes)))
}

/// A digest of all mini-batches of a plan, in order. It leaves out files that could not be read, because the
/// user may repair them.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanDigest {
    /// Files that an earlier run could not read, with the indices of their sources.
    unreadable: HashSet<(u32, String)>,
    mini_batches: u64,
    stamps: Sha256,
    /// Digests of the first one, two, four, eight mini-batches and so on. These help to find the first
    /// mini-batch that differs.
    prefix_digests: String,
}

impl PlanDigest {
    /// An empty digest. `unreadable` lists the files that an earlier run could not read.
    pub(super) fn new(unreadable: &[(u32, String)]) -> Self {
        Self { unreadable: unreadable.iter().cloned().collect(), ..Self::default() }
    }

    fn includes(&self, batch: &MiniBatch) -> bool {
        let file = match &batch.work {
            MiniBatchWork::Unreadable(_) => return false,
            MiniBatchWork::Text(slice) => &slice.file,
            MiniBatchWork::Table(slice) => &slice.file,
            _ => return true,
        };
        self.unreadable.is_empty() || !self.unreadable.contains(&(batch.source, file.clone()))
    }

    /// Adds the next mini-batches.
    pub(super) fn add<'a>(&mut self, batches: impl IntoIterator<Item = &'a MiniBatch>) {
        for batch in batches {
            if !self.includes(batch) {
                continue;
            }
            self.mini_batches += 1;
            self.stamps.update(batch.stamp.to_le_bytes());
            if self.mini_batches.is_power_of_two() {
                self.prefix_digests.push(' ');
                self.prefix_digests.extend(hex(self.stamps.clone().finalize()).get(..8));
            }
        }
    }

    /// The journal's note on a complete plan: key and value.
    pub(super) fn note(self) -> (String, String) {
        let value =
            format!("{} {}{}", self.mini_batches, hex(self.stamps.finalize()), self.prefix_digests);
        (PLAN_KEY.to_owned(), value)
    }
}

/// What an earlier run recorded about its plan.
#[derive(Clone, Debug)]
pub(super) struct RecordedPlan {
    /// The stamps of finished mini-batches.
    stamps: HashMap<MiniBatchId, u64>,
    /// [`PlanDigest::note`], if the plan was complete.
    plan: Option<String>,
    /// [`tables_note`], if the run recorded one.
    tables: Option<String>,
    /// When the job began.
    created: Timestamp,
    /// Files that the earlier run could not read, with the indices of their sources.
    unreadable: Vec<(u32, String)>,
}

impl RecordedPlan {
    /// Reads what the journal recorded.
    pub(super) fn read(journal: &Journal) -> Result<Self, JournalError> {
        let stamps = journal.stamps()?.into_iter().collect();
        let plan = journal.noted(PLAN_KEY)?;
        let tables = journal.noted(TABLES_KEY)?;
        let bad = journal.unreadable()?.into_iter();
        let unreadable = bad.map(|bad| (bad.source, bad.file)).collect();
        Ok(Self { stamps, plan, tables, created: journal.job()?.created, unreadable })
    }

    /// Like [`read`](Self::read), but without the mini-batches that failed because their files could not be
    /// read: the user may have repaired these files.
    pub(super) fn without_unreadable(journal: &Journal) -> Result<Self, JournalError> {
        let mut recorded = Self::read(journal)?;
        let failures: HashSet<_> = journal.failures()?.into_iter().collect();
        let unreadable = journal.unreadable()?;
        for bad in unreadable.iter().filter(|bad| failures.contains(&bad.id)) {
            recorded.stamps.remove(&bad.id);
        }
        Ok(recorded)
    }

    /// When the job began.
    pub(super) fn created(&self) -> Timestamp {
        self.created
    }

    /// Files that the earlier run could not read. See
    /// [`PlanOptions::retried_files`](crate::protocol::node::PlanOptions::retried_files).
    pub(super) fn unreadable(&self) -> Vec<(u32, String)> {
        self.unreadable.clone()
    }

    /// Whether the earlier plan had this mini-batch. Also true if this is unknown, because the
    /// earlier plan was not complete.
    fn may_have(&self, id: MiniBatchId) -> bool {
        // The count in the note does not include unreadable files.
        let unreadable = self.unreadable.len() as u64;
        self.plan
            .as_deref()
            .and_then(mini_batch_count)
            .is_none_or(|count| id.0 < count + unreadable)
    }

    /// Whether there is nothing to compare with.
    pub(super) fn is_empty(&self) -> bool {
        self.stamps.is_empty() && self.plan.is_none()
    }
}

/// The inputs have changed. Says what differs, in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InputsChanged(pub(super) String);

/// Compares today's plan with what an earlier run recorded.
pub(super) struct Comparison<'a> {
    sources: &'a [Source],
    recorded: RecordedPlan,
    digest: PlanDigest,
}

impl<'a> Comparison<'a> {
    /// A comparison that has not seen any of today's plan.
    pub(super) fn new(recorded: RecordedPlan, sources: &'a [Source]) -> Self {
        let digest = PlanDigest::new(&recorded.unreadable);
        Self { sources, recorded, digest }
    }

    /// Compares the next part of the plan.
    pub(super) fn compare(&mut self, report: InspectReport) -> Result<(), InputsChanged> {
        match report {
            InspectReport::MiniBatches(inspected) => {
                self.digest.add(inspected.iter().map(|inspected| &inspected.batch));
                inspected.iter().try_for_each(|inspected| self.check(inspected))
            }
            InspectReport::Tables(tables) => {
                if self.recorded.tables.take().is_some_and(|was| was != tables_note(&tables).1) {
                    return Err(InputsChanged(
                        "the inputs changed: their columns differ".to_owned(),
                    ));
                }
                Ok(())
            }
            InspectReport::Finished => self.complete(),
            InspectReport::Continues | InspectReport::CannotContinue => Ok(()),
        }
    }

    /// Checks that a mini-batch has not changed, and removes its stamp from `recorded`.
    fn check(&mut self, inspected: &InspectedMiniBatch) -> Result<(), InputsChanged> {
        let InspectedMiniBatch { batch, stamp, changed } = inspected;
        let change = match self.recorded.stamps.remove(&batch.id) {
            Some(was) if was == *stamp => return Ok(()),
            Some(was) if was != batch.stamp => "has changed since it was done",
            // The mini-batch has not ended, so no worker has reported what its files contained. All
            // that can be checked is whether a file was changed after the job began.
            _ if self.recorded.may_have(batch.id) => {
                let Some(time) = changed else { return Ok(()) };
                &format!(
                    "has a file that was changed at {time:.0}, after the job began ({:.0})",
                    self.recorded.created
                )
            }
            _ => return Ok(()),
        };
        Err(InputsChanged(self.describe(batch, change)))
    }

    /// Whether the rest of the plan does not matter, because nothing is left to compare it with.
    pub(super) fn is_settled(&self) -> bool {
        self.recorded.stamps.is_empty() && self.recorded.plan.is_none()
    }

    fn describe(&self, batch: &MiniBatch, change: &str) -> String {
        let id = batch.id;
        let location = batch.location(self.sources);
        let input = match self.sources.get(batch.source as usize) {
            Some(source) => format!("input '{}' changed: ", source.dataset),
            None => String::new(),
        };
        format!("{input}mini-batch {id} ({location}) {change}")
    }

    /// Called when the whole plan has been seen. A mini-batch that is still in `recorded` is missing from
    /// today's plan.
    fn complete(&mut self) -> Result<(), InputsChanged> {
        if let Some(id) = self.recorded.stamps.keys().min() {
            return Err(InputsChanged(format!(
                "the inputs changed: mini-batch {id}, which was done, is not among the current {} \
                 mini-batches",
                self.digest.mini_batches
            )));
        }
        let Some(was) = self.recorded.plan.take() else { return Ok(()) };
        let is = std::mem::take(&mut self.digest).note().1;
        let counts = (mini_batch_count(&was), mini_batch_count(&is));
        if was == is {
            Ok(())
        } else if counts.0 == counts.1 {
            let which = match first_difference(&was, &is) {
                (first, last) if first == last => format!("mini-batch {first}"),
                (first, last) => format!("one of the mini-batches {first} to {last}"),
            };
            Err(InputsChanged(format!(
                "the inputs changed: {which}, which was not done yet, has changed"
            )))
        } else {
            let was = counts.0.unwrap_or(0);
            let is = counts.1.unwrap_or(0);
            Err(InputsChanged(format!(
                "the inputs changed: there were {was} mini-batches, now {is}"
            )))
        }
    }
}

/// The number of mini-batches, from a plan's note.
fn mini_batch_count(note: &str) -> Option<u64> {
    note.split(' ').next()?.parse().ok()
}

/// The range of mini-batches that contains the first difference, from the notes of two plans of equal size.
fn first_difference(was: &str, is: &str) -> (u64, u64) {
    let prefix_digests =
        |note: &'_ str| note.split(' ').skip(2).map(str::to_owned).collect::<Vec<_>>();
    let was = prefix_digests(was);
    let digests = prefix_digests(is);
    let same = was.iter().zip(&digests).take_while(|(was, is)| was == is).count();
    let count = mini_batch_count(is).unwrap_or(1);
    // The first 2^(same - 1) mini-batches are equal.
    let first = same.checked_sub(1).map_or(0, |power| 1 << power);
    let last = if same == 0 { 0 } else { 2 * first - 1 };
    (first, last.min(count.saturating_sub(1)).max(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Column, ColumnType};
    use insta::assert_snapshot;
    use jiff::SignedDuration;

    fn batches(stamps: &[u64]) -> Vec<MiniBatch> {
        let batch = |(id, stamp): (usize, &u64)| MiniBatch {
            stamp: *stamp,
            ..MiniBatch::new(
                MiniBatchId(id as u64),
                0,
                MiniBatchWork::Files([format!("{id}.txt")].into()),
            )
        };
        stamps.iter().enumerate().map(batch).collect()
    }

    fn plan(stamps: &[u64]) -> String {
        let mut digest = PlanDigest::default();
        digest.add(&batches(stamps));
        digest.note().1
    }

    fn known(
        stamps: HashMap<MiniBatchId, u64>,
        plan: Option<String>,
        tables: Option<String>,
    ) -> RecordedPlan {
        RecordedPlan { stamps, plan, tables, created: Timestamp::now(), unreadable: Vec::new() }
    }

    /// What a node reports about files that do not exist.
    fn report(batches: Vec<MiniBatch>) -> InspectReport {
        let inspected =
            |batch: MiniBatch| InspectedMiniBatch { stamp: batch.stamp, batch, changed: None };
        InspectReport::MiniBatches(batches.into_iter().map(inspected).collect())
    }

    fn compared(known: RecordedPlan, messages: Vec<InspectReport>) -> Result<(), String> {
        let sources = [Source::new("texts", "/data".into())];
        let mut comparison = Comparison::new(known, &sources);
        let result = messages.into_iter().try_for_each(|report| comparison.compare(report));
        result.map_err(|InputsChanged(text)| format!("changed: {text}"))
    }

    fn with(done: &[(u64, u64)], was: Option<&[u64]>, is: &[u64]) -> Result<(), String> {
        let stamps = done.iter().map(|(id, stamp)| (MiniBatchId(*id), *stamp)).collect();
        let known = known(stamps, was.map(plan), Some(tables_note(&[]).1));
        let (first, second) = is.split_at(is.len() / 2);
        let mut later = batches(is).split_off(first.len());
        assert_eq!(later.len(), second.len());
        let messages = vec![
            InspectReport::Tables(vec![]),
            report(batches(first)),
            report(std::mem::take(&mut later)),
            InspectReport::Finished,
        ];
        compared(known, messages)
    }

    /// Rules C25 and W15 in docs/parallel-run-step.md.
    #[test]
    fn finished_mini_batches_must_be_unchanged() {
        assert_eq!(with(&[(0, 7), (2, 9)], None, &[7, 8, 9]), Ok(()));
        assert_eq!(with(&[(0, 7), (2, 9)], Some(&[7, 8, 9]), &[7, 8, 9]), Ok(()));
        // An incomplete plan may have grown.
        assert_eq!(with(&[(0, 7)], None, &[7, 8, 9, 10]), Ok(()));
        let text = |result: Result<(), String>| result.unwrap_err();
        assert_snapshot!(text(with(&[(0, 7), (2, 1)], None, &[7, 8, 9])), @"changed: input 'texts' changed: mini-batch 2 (/inputs/texts/2.txt) has changed since it was done");
        assert_snapshot!(text(with(&[(0, 7), (5, 1)], None, &[7, 8, 9])), @"changed: the inputs changed: mini-batch 5, which was done, is not among the current 3 mini-batches");
        assert_snapshot!(text(with(&[(0, 7)], Some(&[7, 8]), &[7, 8, 9])), @"changed: the inputs changed: there were 2 mini-batches, now 3");
        assert_snapshot!(text(with(&[(0, 7)], Some(&[7, 8, 9]), &[7, 8, 10])), @"changed: the inputs changed: mini-batch 2, which was not done yet, has changed");
        let was: Vec<u64> = (0..100).collect();
        for (changed, reported) in [
            (0, "mini-batch 0,"),
            (1, "mini-batch 1,"),
            (3, "one of the mini-batches 2 to 3,"),
            (63, "one of the mini-batches 32 to 63,"),
            (64, "one of the mini-batches 64 to 99,"),
        ] {
            let mut is = was.clone();
            is[changed] = 1000;
            let text = text(with(&[], Some(&was), &is));
            assert!(
                text.starts_with(&format!("changed: the inputs changed: {reported}")),
                "{text}"
            );
        }
    }

    /// C25: a file that no worker has reported on must be older than the job.
    #[test]
    fn files_of_unfinished_mini_batches_must_not_change() {
        let sources = [Source::new("texts", "/data".into())];
        let check = |done: Option<u64>, stamp: u64, is_younger: bool| {
            let stamps = done.map(|stamp| (MiniBatchId(0), stamp)).into_iter().collect();
            let known = known(stamps, None, None);
            let changed = is_younger.then_some(known.created + SignedDuration::from_secs(50));
            let [batch] = batches(&[7]).try_into().unwrap();
            let mut comparison = Comparison::new(known, &sources);
            let result = comparison.compare(InspectReport::MiniBatches(vec![InspectedMiniBatch {
                batch,
                stamp,
                changed,
            }]));
            assert!(comparison.recorded.stamps.is_empty());
            result.map_err(|InputsChanged(text)| text)
        };
        for done in [None, Some(7)] {
            assert_eq!(check(done, 99, false), Ok(()));
            let text = check(done, 99, true).unwrap_err();
            assert!(text.contains("mini-batch 0 (/inputs/texts/0.txt) has a file that"), "{text}");
        }
        assert_eq!(check(Some(99), 99, true), Ok(()), "it was already so when it was done");
        assert_snapshot!(check(Some(98), 99, false).unwrap_err(), @"input 'texts' changed: mini-batch 0 (/inputs/texts/0.txt) has changed since it was done");
    }

    /// Columns are read in the same way in all files. So a file that is not processed yet may decide how
    /// processed files were read.
    #[test]
    fn columns_must_be_unchanged() {
        let format = |name: &str| TableFormat {
            columns: vec![Column { name: name.into(), kind: ColumnType::Int64 }],
            ..TableFormat::default()
        };
        let known = || {
            let stamps = HashMap::from([(MiniBatchId(0), 7)]);
            known(stamps, None, Some(tables_note(&[format("id")]).1))
        };
        let messages = |name| {
            let tables = InspectReport::Tables(vec![format(name)]);
            vec![tables, report(batches(&[7])), InspectReport::Finished]
        };
        assert_eq!(compared(known(), messages("id")), Ok(()));
        let changed = "changed: the inputs changed: their columns differ";
        assert_eq!(compared(known(), messages("key")), Err(changed.to_owned()));
    }
}
