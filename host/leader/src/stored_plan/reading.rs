//! Reads the plan of a run from the job's store.

use super::super::stored_spill::NeededSpill;
use super::object::{PlanDamage, PlanObject};
use crate::protocol::node::PlanOptions;
use crate::protocol::{PlanPlace, PlanPosition};
use sandmill_commit_log::{LogError, LogStore, RecordSeries};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use tokio::sync::mpsc;

/// The folder of the plan, in that of the run.
const FOLDER: &str = "plan";
/// How many objects are read at the same time. They are also the most that a reader has in memory.
const READ_AT_ONCE: usize = 8;

/// The plan of a run in the job's store.
#[derive(Clone, Debug)]
pub(in super::super) struct StoredPlan {
    pub(super) series: RecordSeries,
    store: Arc<dyn LogStore>,
    /// The id of the run.
    run: String,
}

/// Why a part of a plan cannot be used. The text is a clause.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum StoredPlanError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("part {number} of the plan in the job store cannot be used: {damage}")]
    Damaged { number: u64, damage: PlanDamage },
    #[error("part {0} of the plan is no longer in the job store")]
    Missing(u64),
}

/// The beginning of a plan, of inputs that have not changed since.
#[derive(Clone, Debug)]
pub(in super::super) struct KnownPlan {
    pub(in super::super) stored: StoredPlan,
    /// The number of its objects.
    pub(in super::super) objects: u64,
    /// Where it ends.
    pub(in super::super) position: PlanPosition,
}

/// What a leader does with the plan in the store.
#[derive(Debug)]
pub(in super::super) struct PlanUse {
    pub(in super::super) stored: StoredPlan,
    /// What an earlier leader has planned.
    pub(in super::super) known: Option<KnownPlan>,
    /// The number of the first object that this leader writes. `None` if it writes none.
    pub(in super::super) next: Option<u64>,
}

impl PlanUse {
    /// For a run that begins.
    pub(in super::super) fn begin(stored: StoredPlan) -> Self {
        Self { stored, known: None, next: Some(0) }
    }

    /// For a run that continues. Another object of the next number may exist: damaged, of another version, or after a
    /// gap. Then the rest of the plan is not saved.
    pub(in super::super) fn resume(stored: StoredPlan, known: Option<KnownPlan>) -> Self {
        let next = known.as_ref().map_or(0, |known| known.objects);
        let is_last = stored.series.numbers().is_ok_and(|found| found.len() as u64 == next);
        let is_complete =
            known.as_ref().is_some_and(|known| known.position.place == PlanPlace::PlanEnd);
        Self { stored, known, next: (is_last && !is_complete).then_some(next) }
    }

    /// How the planner continues.
    pub(in super::super) fn options(&self) -> PlanOptions {
        PlanOptions {
            reports_positions: self.next.is_some(),
            continue_from: self.known.as_ref().map(|known| known.position.clone()),
            ..PlanOptions::default()
        }
    }
}

impl StoredPlan {
    /// The plan of the run with this id. `store` is the store of its job.
    pub(in super::super) fn new(store: &Arc<dyn LogStore>, run: &str) -> Self {
        let series = RecordSeries::new(store, run, FOLDER);
        Self { series, store: store.clone(), run: run.to_owned() }
    }

    /// Whether the store has what mini-batches of the plan read of the planner's files.
    pub(in super::super) fn has(&self, needed: &NeededSpill) -> std::io::Result<bool> {
        needed.are_stored(&*self.store, &self.run)
    }

    /// The number of objects before the first gap.
    pub(in super::super) fn objects(&self) -> Result<u64, StoredPlanError> {
        let numbers = self.series.numbers()?;
        let before_gap = (0..).zip(&numbers).take_while(|(number, found)| number == *found);
        Ok(before_gap.count() as u64)
    }

    /// Reads the first `objects` objects, in order. The last item is the first error.
    pub(in super::super) fn read(&self, objects: u64) -> PlanReader<'_> {
        PlanReader { plan: self, next: 0, objects, planned: 0, read: VecDeque::new() }
    }

    fn read_object(&self, number: u64) -> Result<Vec<u8>, StoredPlanError> {
        let record = self.series.read(number)?;
        Ok(record.ok_or(StoredPlanError::Missing(number))?.payload)
    }
}

/// Reads objects of a plan in order, several at the same time.
pub(in super::super) struct PlanReader<'a> {
    plan: &'a StoredPlan,
    /// The number of the next object that is not in `read`.
    next: u64,
    objects: u64,
    /// The mini-batches of the objects that were returned.
    planned: u64,
    read: VecDeque<(u64, Result<Vec<u8>, StoredPlanError>)>,
}

impl PlanReader<'_> {
    fn read_more(&mut self) {
        let numbers: Vec<u64> = (self.next..self.objects).take(READ_AT_ONCE).collect();
        self.next += numbers.len() as u64;
        let plan = self.plan;
        thread::scope(|scope| {
            let spawn = |number| {
                let read = move || plan.read_object(number);
                (number, thread::Builder::new().spawn_scoped(scope, read))
            };
            let threads: Vec<_> = numbers.into_iter().map(spawn).collect();
            for (number, thread) in threads {
                let read = match thread {
                    Ok(thread) => thread.join().unwrap_or(Err(StoredPlanError::Missing(number))),
                    // There are no more threads.
                    Err(_) => plan.read_object(number),
                };
                self.read.push_back((number, read));
            }
        });
    }
}

impl Iterator for PlanReader<'_> {
    type Item = Result<PlanObject, StoredPlanError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.is_empty() {
            self.read_more();
        }
        let (number, read) = self.read.pop_front()?;
        let object = read.and_then(|bytes| {
            let decoded = PlanObject::decode(&bytes, self.planned);
            decoded.map_err(|damage| StoredPlanError::Damaged { number, damage })
        });
        match &object {
            Ok(object) => self.planned = object.position.mini_batches,
            Err(_) => {
                self.read.clear();
                self.objects = 0;
            }
        }
        Some(object)
    }
}

/// A thread that reads a known plan for the running job. It reads ahead by a few objects.
#[derive(Debug)]
pub(in super::super) struct PlanFeed(mpsc::Receiver<Result<PlanObject, StoredPlanError>>);

impl PlanFeed {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(in super::super) fn start(known: KnownPlan) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(1);
        let feed = move || {
            for object in known.stored.read(known.objects) {
                // If this fails, the job has ended.
                if sender.blocking_send(object).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("known-plan".to_owned()).spawn(feed)?;
        Ok(Self(receiver))
    }

    /// The next object. `None` after the last one.
    pub(in super::super) async fn next(&mut self) -> Option<Result<PlanObject, StoredPlanError>> {
        self.0.recv().await
    }
}
