//! Places from which another planner can continue a plan, and how a planner gets to such a place without reading the
//! files before it.

use super::PlanError;
use crate::dataset::{DatasetError, FileVersion, short};
use crate::model::{Sample, Source, TableInput};
use crate::protocol::{CutOptions, PlanPlace, PlanPosition, PlanRequest};
use sandmill_files::{Manifest, ManifestObject};
use sha2::{Digest, Sha256};
use std::io;
use std::ops::Range;

/// What the planner does with a file of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileTurn {
    /// Cut it from its beginning.
    Cut,
    /// Cut it from this place on, where an earlier planner has got to.
    CutFrom(PlanPlace),
    /// Leave it out, because an earlier planner has cut it.
    Skip,
}

/// Follows the files of the inputs, in order.
#[derive(Debug, Default)]
pub(super) struct PlanCourse {
    /// The digest of the files so far. `None` if no other planner could continue from here.
    files: Option<Sha256>,
    /// The last file, with the index of its source.
    last_file: (u32, String),
    /// How many mini-batches of the last file were made, including those of an earlier planner.
    of_file: u64,
    /// The place after the next mini-batch. `None` if it is in a table.
    next_place: Option<PlanPlace>,
    /// The place from which the plan continues. `None` if it has no such place, or has passed it.
    target: Option<PlanPosition>,
    /// How many mini-batches an earlier planner has made of the file that is cut again from its beginning.
    again: u64,
    /// How far the planner is with an input whose groups an earlier planner has begun to send.
    groups: GroupsAgain,
}

/// How a planner continues among the groups of an input. The groups come after all files of the input, and each group may
/// have rows of each file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GroupsAgain {
    /// It does not.
    #[default]
    No,
    /// It looks whether the files are the same.
    Checks,
    /// It cuts all files again.
    Cuts,
}

impl PlanCourse {
    /// The course of a new plan, or of one that continues. Reports positions if the request says so, and if the plan
    /// is one that can be continued.
    pub(super) fn new(request: &PlanRequest) -> Self {
        let is_followed = request.reports_positions || request.continue_from.is_some();
        let may_continue = is_followed && can_continue(request);
        Self {
            files: may_continue.then(Sha256::new),
            target: request.continue_from.clone(),
            ..Self::default()
        }
    }

    /// No other planner can continue after what comes next.
    pub(super) fn end_positions(&mut self) {
        self.files = None;
    }

    /// Goes to the next file. `version`: its state, if the planner opens it.
    ///
    /// # Errors
    /// If files have changed since an earlier planner has cut them.
    pub(super) fn enter(
        &mut self,
        source: u32,
        file: &str,
        version: Option<FileVersion>,
    ) -> Result<FileTurn, PlanError> {
        if self.groups == GroupsAgain::Cuts {
            return Ok(FileTurn::Cut);
        }
        let is_new = self.groups == GroupsAgain::Checks && self.target.is_none();
        if is_new {
            return Err(PlanError::CannotContinue);
        }
        self.next_place = None;
        self.of_file = 0;
        let Some(files) = &mut self.files else {
            return if self.target.is_some() {
                Err(PlanError::CannotContinue)
            } else {
                Ok(FileTurn::Cut)
            };
        };
        files.update(source.to_le_bytes());
        files.update((file.len() as u64).to_le_bytes());
        files.update(file);
        files.update(version.map_or([0; 24], |found| found.bytes()));
        self.last_file.0 = source;
        file.clone_into(&mut self.last_file.1);
        let Some(target) = &self.target else { return Ok(FileTurn::Cut) };
        if target.place == PlanPlace::PlanEnd
            || (target.source, target.file.as_str()) != (source, file)
        {
            return Ok(FileTurn::Skip);
        }
        let place = target.place;
        self.check_target()?;
        Ok(match place {
            PlanPlace::FileEnd | PlanPlace::PlanEnd => FileTurn::Skip,
            PlanPlace::Text { .. } => FileTurn::CutFrom(place),
            PlanPlace::Table { mini_batches } => {
                self.again = mini_batches;
                match self.groups {
                    GroupsAgain::Checks => FileTurn::Skip,
                    _ => FileTurn::CutFrom(place),
                }
            }
        })
    }

    /// Goes to the place from which a plan without files continues. Returns how many mini-batches are before it.
    pub(super) fn skip_void(&mut self) -> Result<u64, PlanError> {
        let Some(target) = &self.target else { return Ok(0) };
        let planned = target.mini_batches;
        if target.place != PlanPlace::PlanEnd {
            self.check_target()?;
        }
        Ok(planned)
    }

    /// Whether an earlier planner has sent some groups, or all, of the input with these sources, and none of a later
    /// input.
    pub(super) fn stopped_in(&self, sources: &Range<u32>) -> bool {
        let is_in = |target: &PlanPosition| sources.contains(&target.source);
        self.target
            .as_ref()
            .is_some_and(|target| target.place != PlanPlace::PlanEnd && is_in(target))
    }

    /// The files of the next input are entered to look whether they are the same as those of an earlier planner, which has
    /// sent groups of this input.
    pub(super) fn check_groups(&mut self) {
        self.groups = GroupsAgain::Checks;
    }

    /// All files of the input were entered. They are entered again to be cut.
    ///
    /// # Errors
    /// If they are not the same.
    pub(super) fn cut_groups(&mut self) -> Result<(), PlanError> {
        self.groups = GroupsAgain::Cuts;
        if self.target.is_some() { Err(PlanError::CannotContinue) } else { Ok(()) }
    }

    /// All groups of the input were sent.
    pub(super) fn end_groups(&mut self) {
        self.groups = GroupsAgain::No;
    }

    /// Whether a file can be unreadable now. It cannot if an earlier planner has read it.
    pub(super) fn may_be_unreadable(&self) -> bool {
        self.groups != GroupsAgain::Cuts
    }

    /// Passes the place from which the plan continues, if the files up to it are the same as before.
    fn check_target(&mut self) -> Result<(), PlanError> {
        let target = self.target.take().ok_or(PlanError::CannotContinue)?;
        let is_same =
            self.digest() == Some(target.files) && self.last_file == (target.source, target.file);
        if is_same { Ok(()) } else { Err(PlanError::CannotContinue) }
    }

    /// Whether the planner is before the place from which the plan continues.
    pub(super) fn is_before_target(&self) -> bool {
        self.target.is_some()
    }

    /// All files were passed. Returns whether the plan was complete before. Fails if it was not, and its place was not found.
    pub(super) fn end_files(&mut self) -> Result<bool, PlanError> {
        if self.target.is_none() {
            return Ok(false);
        }
        let is_end = self.target.as_ref().is_some_and(|target| target.place == PlanPlace::PlanEnd);
        self.check_target()?;
        if is_end { Ok(true) } else { Err(PlanError::CannotContinue) }
    }

    /// The next mini-batch ends here.
    pub(super) fn reach(&mut self, place: PlanPlace) {
        self.next_place = Some(place);
    }

    /// Notes a mini-batch, which is not before the target. Returns whether the plan does not have it yet.
    pub(super) fn add(&mut self) -> bool {
        self.of_file += 1;
        let is_new = self.again == 0;
        self.again = self.again.saturating_sub(1);
        is_new
    }

    /// The position after the last mini-batch, which is number `mini_batches`, counted from 1. `None` if no other planner can continue there.
    pub(super) fn position(&mut self, mini_batches: u64) -> Option<PlanPosition> {
        let place = self.next_place.take();
        let place = place.unwrap_or(PlanPlace::Table { mini_batches: self.of_file });
        self.at(mini_batches, place)
    }

    /// The position at the end of the plan.
    pub(super) fn end(&self, mini_batches: u64) -> Option<PlanPosition> {
        self.at(mini_batches, PlanPlace::PlanEnd)
    }

    fn at(&self, mini_batches: u64, place: PlanPlace) -> Option<PlanPosition> {
        let files = self.digest()?;
        let (source, file) = self.last_file.clone();
        Some(PlanPosition { mini_batches, source, file, place, files })
    }

    fn digest(&self) -> Option<u64> {
        self.files.clone().map(short)
    }
}

/// The states of a source's files. They do not depend on the machine.
pub(super) struct FileVersions {
    /// The list of the objects, if the source is in a store. An object that the planner leaves out may not be here.
    manifest: Option<Manifest>,
}

impl FileVersions {
    pub(super) fn new(source: &Source) -> Result<Self, PlanError> {
        let opened = Manifest::open_source(source);
        Ok(Self { manifest: opened.map_err(|error| unreadable_list(source, &error))? })
    }

    /// The state of a file of the source. `None` if it is unknown.
    pub(super) fn of(
        &mut self,
        source: &Source,
        file: &str,
    ) -> Result<Option<FileVersion>, PlanError> {
        let Some(manifest) = &mut self.manifest else {
            let found = source.root.join(file).metadata().ok();
            return Ok(found.map(|found| FileVersion::from(&found)));
        };
        let found = manifest.find(file).map_err(|error| unreadable_list(source, &error))?;
        // Not every file system keeps nanoseconds, which are the number of the version.
        let version = |ManifestObject { found, version }| FileVersion { nanos: version, ..found };
        Ok(found.and_then(Result::ok).map(version))
    }
}

fn unreadable_list(source: &Source, error: &io::Error) -> PlanError {
    let Source { dataset, .. } = source;
    let text = format!("input '{dataset}': the list of its objects cannot be read: {error}");
    PlanError::Input(DatasetError(text))
}

/// Whether another planner can continue such a plan. Grouped files, and rows from databases, are planned from the
/// beginning. So are grouped rows, unless the leader stores them.
fn can_continue(request: &PlanRequest) -> bool {
    let is_known = |table: &TableInput| !table.kind.is_database();
    let is_grouped = !request.partition_keys.is_empty();
    let kind_fits = match &request.cut {
        CutOptions::Files { .. } => !is_grouped,
        CutOptions::Tables { inputs, full_inference, .. } => {
            let is_stored = !is_grouped || request.stores_spill;
            is_stored && !full_inference && inputs.iter().all(is_known)
        }
        CutOptions::Void { .. } => true,
    };
    kind_fits
        && request.retried_files.is_empty()
        && request.sample == Sample::ALL
        && request.sources.iter().all(|source| source.take.is_none())
}
