//! Mini-batches of files, and void mini-batches.

use super::mini_batch_digest::MiniBatchDigest;
use super::plan_writer::PlanWriter;
use super::position::FileTurn;
use super::share::PlannedShare;
use super::{PlanError, err};
use crate::dataset::SourceListing;
use crate::model::{MiniBatchWork, Names, Source};
use crate::protocol::{FromPlanner, PlanPlace};

/// Sends mini-batches of `count` consecutive files of one source. The last mini-batch of a source may be
/// smaller.
pub(super) fn plan_files(
    sources: &[Source],
    count: u64,
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    if count == 0 {
        return err!("mini_batch_size must be at least 1 file");
    }
    writer.send(FromPlanner::Tables(Vec::new()))?;
    let listings =
        sources.iter().map(|source| (source, SourceListing::new(source).map_err(PlanError::from)));
    writer.report_share(PlannedShare::measure(listings, &|_| 1));
    let mut left = FilesLeft::default();
    for (index, source) in (0..).zip(sources) {
        left.begin(source);
        let mut listing = SourceListing::new(source)?;
        let mut group = Names::default();
        loop {
            let file = match left.count() {
                0 => None,
                _ => next_file(&mut listing, index, writer)?,
            };
            left.subtract_used(u64::from(file.is_some()));
            let is_end = file.is_none();
            if let Some(file) = file {
                if let Some(share) = writer.share() {
                    share.pass(1);
                }
                if writer.enter_file(index, &file, None)? == FileTurn::Skip {
                    continue;
                }
                group.push(&file);
            }
            if group.len() as u64 >= count || (is_end && !group.is_empty()) {
                writer.reach(PlanPlace::FileEnd);
                // The stamp omits the versions of the files: the worker adds them, because it opens the files
                // anyway.
                writer.add(
                    index,
                    MiniBatchWork::Files(std::mem::take(&mut group)),
                    MiniBatchDigest::new(),
                )?;
            }
            if is_end {
                break;
            }
        }
    }
    Ok(())
}

/// How many more files of an input the plan may use.
#[derive(Default)]
struct FilesLeft {
    input: Option<String>,
    count: Option<u64>,
}

impl FilesLeft {
    /// Begins the next source. If it belongs to another input than the previous source, the count starts
    /// again.
    fn begin(&mut self, source: &Source) {
        if self.input.as_ref() != Some(&source.dataset) {
            self.input = Some(source.dataset.clone());
            self.count = source.take;
        }
    }

    fn count(&self) -> u64 {
        self.count.unwrap_or(u64::MAX)
    }

    fn subtract_used(&mut self, files: u64) {
        self.count = self.count.map(|count| count.saturating_sub(files));
    }
}

/// Returns the listing's next file. First sends notices about what the listing left out, and adds a
/// failing mini-batch for each file that the listing could not return.
pub(super) fn next_file(
    listing: &mut SourceListing,
    source: u32,
    writer: &mut PlanWriter<'_>,
) -> Result<Option<String>, PlanError> {
    let file = listing.next_file()?;
    for notice in listing.take_notices() {
        writer.notice(notice)?;
    }
    for bad in listing.take_bad() {
        writer.add(source, MiniBatchWork::Unreadable(bad), MiniBatchDigest::new())?;
    }
    Ok(file)
}

/// Sends `count` mini-batches without data, but for those that an earlier planner has sent.
pub(super) fn plan_void(count: u64, writer: &mut PlanWriter<'_>) -> Result<(), PlanError> {
    writer.send(FromPlanner::Tables(Vec::new()))?;
    for _ in writer.skip_void()?..count {
        writer.add(0, MiniBatchWork::Void, MiniBatchDigest::new())?;
    }
    Ok(())
}
