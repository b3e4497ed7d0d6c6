//! Mini-batches of files, and of nothing.

use super::sender::Sender;
use super::share::Share;
use super::stamp::Stamp;
use super::{PlanError, refuse};
use crate::dataset::Listing;
use crate::model::{Names, Source, Work};
use crate::protocol::FromPlanner;

/// Groups of `count` files that follow each other in one source; what is left at a source's end is
/// a smaller group.
pub(super) fn plan_files(
    sources: &[Source],
    count: u64,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    if count == 0 {
        return refuse!("mini_batch_size must be at least 1 file");
    }
    sender.send(FromPlanner::Tables(Vec::new()))?;
    let listings = sources.iter().map(|it| (it, Listing::new(it).map_err(PlanError::from)));
    sender.tell_share(Share::measure(listings, &|_| 1));
    let mut left = Left::default();
    for (index, source) in (0..).zip(sources) {
        left.begin(source);
        let mut listing = Listing::new(source)?;
        let mut group = Names::default();
        loop {
            let file = match left.count() {
                0 => None,
                _ => next_file(&mut listing, index, sender)?,
            };
            left.took(u64::from(file.is_some()));
            let ended = file.is_none();
            if let Some(file) = file {
                group.push(&file);
                if let Some(share) = sender.share() {
                    share.pass(1);
                }
            }
            if group.len() as u64 >= count || (ended && !group.is_empty()) {
                // What the files are, the worker says that opens them anyway.
                sender.add(index, Work::Files(std::mem::take(&mut group)), Stamp::new())?;
            }
            if ended {
                break;
            }
        }
    }
    Ok(())
}

/// How many files of an input are still to be taken.
#[derive(Default)]
struct Left {
    input: Option<String>,
    count: Option<u64>,
}

impl Left {
    /// A source begins, of the same input as the one before or of another.
    fn begin(&mut self, source: &Source) {
        if self.input.as_ref() != Some(&source.dataset) {
            self.input = Some(source.dataset.clone());
            self.count = source.take;
        }
    }

    fn count(&self) -> u64 {
        self.count.unwrap_or(u64::MAX)
    }

    fn took(&mut self, files: u64) {
        self.count = self.count.map(|count| count.saturating_sub(files));
    }
}

/// The listing's next file, after notices of what was left out on the way to it, and a mini-batch for each
/// file there that cannot be handed over, which fails with the reason.
pub(super) fn next_file(
    listing: &mut Listing,
    source: u32,
    sender: &mut Sender<'_>,
) -> Result<Option<String>, PlanError> {
    let file = listing.next_file()?;
    for notice in listing.take_notices() {
        sender.notice(notice)?;
    }
    for bad in listing.take_bad() {
        sender.add(source, Work::Unreadable(bad), Stamp::new())?;
    }
    Ok(file)
}

/// `count` mini-batches without data.
pub(super) fn plan_void(count: u64, sender: &mut Sender<'_>) -> Result<(), PlanError> {
    sender.send(FromPlanner::Tables(Vec::new()))?;
    for _ in 0..count {
        sender.add(0, Work::Void, Stamp::new())?;
    }
    Ok(())
}
