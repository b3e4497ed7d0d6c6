//! Measures how much of the inputs is planned. From this, the leader estimates how long the rest of a job
//! takes while the plan is still incomplete. A plan often stays incomplete for long, because the leader takes
//! it only as fast as the workers need it.

use super::PlanError;
use crate::dataset::SourceListing;
use crate::model::Source;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The most time to measure the inputs before the first mini-batch is cut. If this takes longer, there is no
/// estimate.
const MAX_MEASURING_TIME: Duration = Duration::from_millis(100);

/// The share of the inputs that is planned.
#[derive(Debug)]
pub(super) struct PlannedShare {
    /// The weight of all files.
    total: u64,
    /// The weight of the files that were cut completely.
    finished: u64,
    /// The weight of the planned part of the file that is being cut.
    within: u64,
    /// The progress that was reported last, in thousandths.
    reported: u16,
}

impl PlannedShare {
    /// Calls `weight` for each file of the sources, and adds up the results. Returns `None` if that takes too
    /// long, or if only a part of the inputs is taken.
    pub(super) fn measure<'a>(
        sources: impl Iterator<Item = (&'a Source, Result<SourceListing, PlanError>)>,
        weight: &dyn Fn(&Path) -> u64,
    ) -> Option<Self> {
        let began = Instant::now();
        let mut total = 0_u64;
        for (source, listing) in sources {
            // An error of an input is reported when the planner cuts it.
            let mut listing = listing.ok().filter(|_| source.take.is_none())?;
            while let Some(file) = listing.next_file().ok()? {
                total = total.saturating_add(weight(&source.root.join(file)));
                if began.elapsed() > MAX_MEASURING_TIME {
                    return None;
                }
            }
        }
        (total > 0).then_some(Self { total, finished: 0, within: 0, reported: 0 })
    }

    /// Records how much of the current file is planned.
    pub(super) fn reach(&mut self, within: u64) {
        self.within = within;
    }

    /// Records that the current file was cut.
    pub(super) fn pass(&mut self, weight: u64) {
        self.finished = self.finished.saturating_add(weight);
        self.within = 0;
    }

    /// The progress in thousandths, to be reported now; `None` if it has not increased since the last report.
    pub(super) fn unreported(&mut self) -> Option<u16> {
        let planned = u128::from(self.finished.saturating_add(self.within).min(self.total));
        let share = u16::try_from(planned * 1000 / u128::from(self.total)).unwrap_or(1000);
        (share > self.reported).then(|| {
            self.reported = share;
            share
        })
    }
}

/// The weight of a file of tables: its bytes.
pub(super) fn bytes(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_reported_only_when_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a", 100), ("b", 300)] {
            fs::write(folder.path().join(name), vec![0; bytes]).unwrap();
        }
        let mut source = Source::new("in", folder.path().to_owned());
        let measure = |source: &Source| {
            let listing = SourceListing::new(source).map_err(PlanError::from);
            PlannedShare::measure(std::iter::once((source, listing)), &bytes)
        };
        let mut share = measure(&source).unwrap();
        assert_eq!(share.unreported(), None);
        share.reach(50);
        assert_eq!((share.unreported(), share.unreported()), (Some(125), None));
        share.pass(100);
        share.reach(75);
        assert_eq!(share.unreported(), Some(437));
        // A file that has grown must not count for more than the whole.
        share.pass(3000);
        assert_eq!(share.unreported(), Some(1000));
        source.take = Some(1);
        assert!(measure(&source).is_none(), "only a part is taken");
    }
}
