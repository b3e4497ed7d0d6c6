//! Whether the inputs of a job are what they were: it is planned once in advance, and the
//! mini-batches that are done are compared with what they would be today.

use crate::cancel::Cancel;
use crate::dataset::{Found, Root, content_stamp};
use crate::journal::{Journal, JournalError};
use crate::model::{MiniBatch, MiniBatchId, Source, TableFormat, Work, hex};
use crate::node::{LonePlanner, Looks};
use crate::pool::Pool;
use crate::protocol::{FromPlanner, PlanRequest};
use crate::store::Objects;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
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

/// A digest of all mini-batches of a plan, in their order, but for those of files that could not be read: they
/// may be mended.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanDigest {
    /// Files that an earlier plan could not read, with the indices of their sources.
    again: HashSet<(u32, String)>,
    mini_batches: u64,
    stamps: Sha256,
    /// Digests of the first one, two, four, eight mini-batches and so on, to find the first that
    /// differs.
    marks: String,
}

impl PlanDigest {
    /// Of a plan where these files were not readable before.
    pub(super) fn new(again: &[(u32, String)]) -> Self {
        Self { again: again.iter().cloned().collect(), ..Self::default() }
    }

    fn counts(&self, batch: &MiniBatch) -> bool {
        let file = match &batch.work {
            Work::Unreadable(_) => return false,
            Work::Text(slice) => &slice.file,
            Work::Table(slice) => &slice.file,
            _ => return true,
        };
        self.again.is_empty() || !self.again.contains(&(batch.source, file.clone()))
    }

    /// Takes in the next mini-batches.
    pub(super) fn add(&mut self, batches: &[MiniBatch]) {
        for batch in batches {
            if !self.counts(batch) {
                continue;
            }
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
    /// When the job began.
    created: Timestamp,
    /// Files that an earlier plan could not read.
    again: Vec<(u32, String)>,
}

impl Known {
    /// What the journal says.
    pub(super) fn of(journal: &Journal) -> Result<Self, JournalError> {
        let stamps = journal.stamps()?.into_iter().collect();
        let (plan, tables) = (journal.noted(PLAN)?, journal.noted(TABLES)?);
        let again = journal.unreadable()?.into_iter().map(|bad| (bad.source, bad.file)).collect();
        Ok(Self { stamps, plan, tables, created: journal.job()?.created, again })
    }

    /// The same, where files may have been mended that could not be read.
    pub(super) fn but_unreadable(journal: &Journal) -> Result<Self, JournalError> {
        let mut known = Self::of(journal)?;
        let failures: HashSet<_> = journal.failures()?.into_iter().collect();
        let unreadable = journal.unreadable()?;
        for bad in unreadable.iter().filter(|bad| failures.contains(&bad.id)) {
            known.stamps.remove(&bad.id);
        }
        Ok(known)
    }

    /// [`PlanRequest::again`].
    pub(super) fn again(&self) -> Vec<(u32, String)> {
        self.again.clone()
    }

    /// Whether the plan had such a mini-batch, as far as is known.
    fn may_have(&self, id: MiniBatchId) -> bool {
        // Those of files that could not be read are not counted.
        let more = self.again.len() as u64;
        self.plan.as_deref().and_then(mini_batches).is_none_or(|count| id.0 < count + more)
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
pub(super) struct Planning<'a> {
    /// The `sandmill` binary.
    pub(super) program: PathBuf,
    /// What workers would be given; the planner has no use for it.
    pub(super) component: File,
    /// The inputs, and how they are cut.
    pub(super) request: PlanRequest,
    /// What the inputs are made of.
    pub(super) objects: &'a mut Objects,
    /// The longest that the planner may say nothing.
    pub(super) patience: Duration,
    /// Ends it early.
    pub(super) cancel: Cancel,
}

/// Plans the job, and compares. Does nothing if there is nothing to compare with.
pub(super) fn verify(planning: Planning<'_>, known: Known) -> Result<(), Mismatch> {
    if known.is_empty() {
        return Ok(());
    }
    let Planning { program, component, request, objects, patience, cancel } = planning;
    let failed = |e: std::io::Error| Mismatch::Failed(format!("the inputs cannot be cut: {e}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let result = runtime.block_on(async {
        let (worker_events, _) = mpsc::channel(1);
        let (events, says) = mpsc::channel(4);
        // Dropping the pool ends the planner.
        let mut pool = Pool::new(program, component, worker_events);
        pool.plan(&request, events).map_err(failed)?;
        let answer = |answer| pool.answer(answer);
        let looks = Looks::new(&request.sources);
        let planner = LonePlanner { says, answer: &answer, looks, objects };
        let mut cancelled = cancel.watch();
        let asked = async { cancelled.wait_for(Option::is_some).await.is_ok() };
        tokio::select! {
            biased;
            true = asked => Err(Mismatch::Cancelled(cancel.reason().unwrap_or_default())),
            result = compare(planner, Looker::new(request.sources), known, patience) => result,
        }
    });
    // Should a disk not answer, nobody waits for it.
    runtime.shutdown_background();
    result
}

async fn compare(
    mut planner: LonePlanner<'_>,
    looker: Looker,
    mut known: Known,
    patience: Duration,
) -> Result<(), Mismatch> {
    let late = |_| {
        Mismatch::Failed(format!(
            "nothing was heard for {} s of whether the inputs are what they were: see that they can \
             be read, or raise first_task_creation_timeout",
            patience.as_secs()
        ))
    };
    let looker = Arc::new(looker);
    let mut digest = PlanDigest::new(&known.again);
    loop {
        match planner.next(patience).await.map_err(late)? {
            Some(FromPlanner::MiniBatches(batches)) => {
                digest.add(&batches);
                let looker = Arc::clone(&looker);
                let look = move || looker.check(&batches, &mut known).map(|()| known);
                let looked = tokio::task::spawn_blocking(look);
                let looked = tokio::time::timeout(patience, looked).await.map_err(late)?;
                known = looked.map_err(|e| Mismatch::Failed(e.to_string()))??;
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
            Some(FromPlanner::Notice(_) | FromPlanner::Opening { .. } | FromPlanner::Closed) => {}
            None => return Err(Mismatch::Failed("the planner process broke down".to_owned())),
        }
    }
}

/// Looks at files as the workers did.
struct Looker {
    sources: Vec<Source>,
    roots: Vec<Root>,
    now: Timestamp,
}

impl Looker {
    fn new(sources: Vec<Source>) -> Self {
        let roots = sources.iter().map(Root::of).collect();
        Self { sources, roots, now: Timestamp::now() }
    }

    /// Whether mini-batches are what they were, which takes those that are `known` out of it.
    fn check(&self, batches: &[MiniBatch], known: &mut Known) -> Result<(), Mismatch> {
        for batch in batches {
            let look = |(source, file)| self.roots.get(source as usize)?.look_at(file);
            let found: Vec<_> = batch.files().map(look).collect();
            let done = known.stamps.remove(&batch.id);
            let how = match done {
                Some(was) if was == content_stamp(batch.stamp, found.iter().copied()) => continue,
                Some(was) if was != batch.stamp => "is not what it was when it was done",
                // Nobody says what its files were. Those changed since then are others.
                _ if known.may_have(batch.id) => {
                    let mut files = found.iter().flatten();
                    let Some(time) = files.find_map(|file| self.since(file, known.created)) else {
                        continue;
                    };
                    &format!(
                        "has a file that was changed at {time:.0}, after the job began ({:.0})",
                        known.created
                    )
                }
                _ => continue,
            };
            return Err(Mismatch::Changed(self.changed(batch, how)));
        }
        Ok(())
    }

    /// When a file was changed, if that was after `begin`. The clock of a file server may be ahead of
    /// ours.
    fn since(&self, file: &Found, begin: Timestamp) -> Option<Timestamp> {
        let nanos = i32::try_from(file.nanos).unwrap_or(0);
        let time = Timestamp::new(file.seconds, nanos).ok()?;
        (begin < time && time <= self.now).then_some(time)
    }

    fn changed(&self, batch: &MiniBatch, how: &str) -> String {
        let (id, location) = (batch.id, batch.location(&self.sources));
        let input = match self.sources.get(batch.source as usize) {
            Some(source) => format!("input '{}' changed: ", source.dataset),
            None => String::new(),
        };
        format!("{input}mini-batch {id} ({location}) {how}")
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
    let counts = (mini_batches(&was), mini_batches(&is));
    if was == is {
        Ok(())
    } else if counts.0 == counts.1 {
        let which = match first_difference(&was, &is) {
            (first, last) if first == last => format!("mini-batch {first}"),
            (first, last) => format!("one of the mini-batches {first} to {last}"),
        };
        Err(Mismatch::Changed(format!(
            "the inputs changed: {which}, which was not done yet, is not what it was"
        )))
    } else {
        let (was, is) = (counts.0.unwrap_or(0), counts.1.unwrap_or(0));
        Err(Mismatch::Changed(format!(
            "the inputs changed: there were {was} mini-batches, now {is}"
        )))
    }
}

/// How many mini-batches a plan has, by its note.
fn mini_batches(note: &str) -> Option<u64> {
    note.split(' ').next()?.parse().ok()
}

/// Among which mini-batches the first is that differs, by two notes of as many.
fn first_difference(was: &str, is: &str) -> (u64, u64) {
    let marks = |note: &'_ str| note.split(' ').skip(2).map(str::to_owned).collect::<Vec<_>>();
    let (was, is_marks) = (marks(was), marks(is));
    let same = was.iter().zip(&is_marks).take_while(|(was, is)| was == is).count();
    let count = mini_batches(is).unwrap_or(1);
    // So many marks are of the first 2^(same - 1) mini-batches.
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
            ..MiniBatch::new(MiniBatchId(id as u64), 0, Work::Files([format!("{id}.txt")].into()))
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
    ) -> Known {
        Known { stamps, plan, tables, created: Timestamp::now(), again: Vec::new() }
    }

    fn compared(known: Known, messages: Vec<FromPlanner>) -> Result<(), String> {
        let source = Source::new("texts", "/data".into());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let result = runtime.block_on(async {
            let (events, says) = mpsc::channel(8);
            for message in messages {
                events.send(message).await.unwrap();
            }
            drop(events);
            let looks = Looks::new(&[]);
            let mut objects = Objects::default();
            let planner = LonePlanner { says, answer: &drop, looks, objects: &mut objects };
            compare(planner, Looker::new(vec![source]), known, Duration::from_secs(60)).await
        });
        result.map_err(|mismatch| match mismatch {
            Mismatch::Changed(text) => format!("changed: {text}"),
            Mismatch::Failed(text) | Mismatch::Cancelled(text) => format!("failed: {text}"),
        })
    }

    fn with(done: &[(u64, u64)], was: Option<&[u64]>, is: &[u64]) -> Result<(), String> {
        let stamps = done.iter().map(|(id, stamp)| (MiniBatchId(*id), *stamp)).collect();
        let known = known(stamps, was.map(plan), Some(tables_note(&[]).1));
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

    /// C25: files that no worker reported on must be older than the job.
    #[test]
    fn files_of_what_is_not_done_must_not_change() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("0.txt"), "a").unwrap();
        let file = std::fs::File::open(folder.path().join("0.txt")).unwrap();
        let source = Source::new("texts", folder.path().into());
        let looker = Looker::new(vec![source]);
        let check = |done: Option<u64>, age: i64| {
            let created = looker.now - SignedDuration::from_secs(100);
            let time = looker.now - SignedDuration::from_secs(age);
            file.set_modified(time.into()).unwrap();
            let stamps = done.map(|stamp| (MiniBatchId(0), stamp)).into_iter().collect();
            let mut known = Known { created, ..known(stamps, None, None) };
            let result = looker.check(&batches(&[7]), &mut known);
            assert!(known.stamps.is_empty());
            result.map_err(|mismatch| format!("{mismatch:?}"))
        };
        for done in [None, Some(7)] {
            assert_eq!(check(done, 200), Ok(()));
            assert_eq!(check(done, -1), Ok(()), "the time of a server whose clock is ahead");
            let text = check(done, 50).unwrap_err();
            assert!(text.contains("mini-batch 0 (/inputs/texts/0.txt) has a file that"), "{text}");
        }
        let stamp = content_stamp(7, [looker.roots[0].look_at("0.txt")]);
        assert_eq!(check(Some(stamp), 50), Ok(()), "it was already so when it was done");
        assert_snapshot!(check(Some(stamp), 200).unwrap_err(), @r#"Changed("input 'texts' changed: mini-batch 0 (/inputs/texts/0.txt) is not what it was when it was done")"#);
    }

    /// What is not done yet decides how the columns of what is done are read.
    #[test]
    fn columns_must_be_what_they_were() {
        let format = |name: &str| TableFormat {
            columns: vec![Column { name: name.into(), kind: ColumnType::Int64 }],
            ..TableFormat::default()
        };
        let known = || {
            let stamps = HashMap::from([(MiniBatchId(0), 7)]);
            known(stamps, None, Some(tables_note(&[format("id")]).1))
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
        let known = || known(HashMap::new(), plan.clone(), None);
        let failed = vec![FromPlanner::Failed("no such folder".into())];
        assert_eq!(compared(known(), failed), Err("failed: no such folder".to_owned()));
        let broken = compared(known(), vec![FromPlanner::MiniBatches(batches(&[1]))]);
        assert_eq!(broken, Err("failed: the planner process broke down".to_owned()));
    }
}
