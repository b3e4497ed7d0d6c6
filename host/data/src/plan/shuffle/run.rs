//! The planner's side of a shuffle.

use super::codec::values;
use super::crew::{Crew, Helper, Idle, process_count};
use super::index::BucketGroups;
use super::message::{
    BUCKETS, InputSlice, NAMES_FILE, ShuffleLimits, ShuffleSetup, ShuffleTask, origins_name,
    text_name,
};
use super::runs::spill_error;
use crate::dataset::csv::OriginNames;
use crate::dataset::{DatasetError, Unpacker};
use crate::model::{MiniBatchWork, SliceSize, SpilledRows, TableFormat, TextSlice};
use crate::plan::PlanError;
use crate::plan::groups::{check_size, with_keys};
use crate::plan::input::PlanInput;
use crate::plan::mini_batch_digest::MiniBatchDigest;
use crate::plan::plan_writer::PlanWriter;
use crate::plan::text::{FoundSlice, each_slice};
use crate::protocol::PlanRequest;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The most slices in a task: small files are combined.
const TASK_SLICES: usize = 1000;

/// What a shuffle needs from the planner.
#[derive(Clone, Copy)]
pub(in crate::plan) struct ShuffleContext<'a> {
    /// The leader's request.
    pub(in crate::plan) request: &'a PlanRequest,
    /// Returns a process that has not received any task yet.
    pub(in crate::plan) start: &'a (dyn Fn() -> io::Result<Helper> + Sync),
    /// Limits on memory and on open files.
    pub(in crate::plan) bounds: ShuffleLimits,
}

/// Groups the rows of one input.
pub(in crate::plan) struct Shuffle<'a> {
    pub(in crate::plan) input: &'a PlanInput<'a>,
    pub(in crate::plan) format: &'a TableFormat,
    /// The indices of the key columns.
    pub(in crate::plan) columns: Vec<usize>,
    /// The input's number, which names its folder below the spill folder.
    pub(in crate::plan) number: u32,
    pub(in crate::plan) tools: ShuffleContext<'a>,
    /// Opens the input's files.
    pub(in crate::plan) unpacker: &'a Unpacker,
    /// Processes that wait between steps and inputs.
    pub(in crate::plan) idle: &'a Idle,
}

/// Makes the spill folder, or deletes what an earlier plan left in it. An existing folder is not replaced:
/// the wall around this process allows writing to the existing folder, not to a new folder with the same
/// name.
pub(in crate::plan) fn empty_spill(folder: &Path) -> Result<(), PlanError> {
    Ok(make_or_empty(folder).map_err(|error| spill_error(folder, &error))?)
}

fn make_or_empty(folder: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return std::fs::create_dir_all(folder);
        }
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Shuffle<'_> {
    /// Sends one mini-batch for each combination of the keys' values, in the order of the values.
    pub(in crate::plan) fn run(&self, writer: &mut PlanWriter<'_>) -> Result<(), PlanError> {
        let keys = &self.tools.request.partition_keys;
        writer.notice(format!(
            "all of input {} is read and its rows are grouped by {} before its first mini-batch",
            self.input.name(),
            keys.join(", "),
        ))?;
        let setup = self.setup();
        std::fs::create_dir_all(&setup.folder).map_err(|e| spill_error(&setup.folder, &e))?;
        let processes = process_count(self.tools.request);
        let crew = Crew { setup: &setup, start: self.tools.start, idle: self.idle, processes };
        let mut pieces = 0;
        crew.run(|give| self.scatter(&setup, writer, &mut pieces, give))?;
        crew.run(|give| {
            let mut buckets = 0..BUCKETS;
            buckets.try_for_each(|bucket| give(ShuffleTask::Gather { bucket, pieces }))
        })?;
        for number in 0..pieces {
            let path = setup.scattered(number);
            std::fs::remove_file(&path).map_err(|e| spill_error(&path, &e))?;
        }
        self.send_groups(&setup, writer)
    }

    fn setup(&self) -> ShuffleSetup {
        let path_keys = self.input.path.as_ref().map_or(0, |path| path.keys().count());
        ShuffleSetup {
            csv: self.input.csv().clone(),
            columns: self.format.columns.len() - path_keys,
            keys: self.columns.clone(),
            path: self.input.path.clone(),
            roots: self.input.sources.iter().map(|source| source.root.clone()).collect(),
            spill: self.tools.request.spill.clone(),
            folder: self.tools.request.spill.join(self.number.to_string()),
            bounds: self.tools.bounds,
        }
    }

    /// Passes the whole input to `give` as tasks, one for each piece, and counts the pieces in `pieces`.
    fn scatter(
        &self,
        setup: &ShuffleSetup,
        writer: &mut PlanWriter<'_>,
        pieces: &mut u64,
        give: &mut dyn FnMut(ShuffleTask) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        let first = self.input.first;
        let bounds = setup.bounds;
        let names_path = setup.names();
        let failed = |error: io::Error| PlanError::from(spill_error(&names_path, &error));
        let mut names = OriginNames::create(&names_path).map_err(failed)?;
        let mut pending: Vec<InputSlice> = Vec::new();
        let mut bytes = 0;
        let mut last_file = None;
        let mut give_piece = |slices: &mut Vec<InputSlice>| {
            *pieces += 1;
            give(ShuffleTask::Scatter { number: *pieces - 1, slices: std::mem::take(slices) })
        };
        let size = SliceSize::Bytes(bounds.task);
        each_slice(self.input, self.format, size, self.unpacker, writer, &mut |_, found| {
            let FoundSlice { source, slice, .. } = found;
            let file = match &last_file {
                Some((file, of_source, name)) if *of_source == source && *name == slice.file => {
                    *file
                }
                _ => {
                    let guest = &self.input.sources[(source - first) as usize].guest;
                    let file = names.add(&format!("{guest}/{}", slice.file)).map_err(failed)?;
                    last_file = Some((file, source, slice.file.clone()));
                    file
                }
            };
            bytes += slice.length;
            pending.push(InputSlice { root: source - first, file, slice });
            if bytes >= bounds.task || pending.len() >= TASK_SLICES {
                bytes = 0;
                give_piece(&mut pending)?;
            }
            Ok(())
        })?;
        if !pending.is_empty() {
            give_piece(&mut pending)?;
        }
        names.finish().map_err(failed)
    }

    /// Sends a mini-batch for each group.
    fn send_groups(
        &self,
        setup: &ShuffleSetup,
        writer: &mut PlanWriter<'_>,
    ) -> Result<(), PlanError> {
        let keys = &self.tools.request.partition_keys;
        let in_folder = |name: String| format!("{}/{name}", self.number);
        let mut groups = BucketGroups::open(setup)?;
        while let Some((group, bucket)) = groups.next_group()? {
            let Some(values) = values(&group.key) else {
                return Err(DatasetError("a group's key was lost".to_owned()).into());
            };
            check_size(self.input.name(), keys, &values, group.length)?;
            let text = TextSlice {
                file: in_folder(text_name(bucket)),
                offset: group.offset,
                length: group.length,
                first_line: 1,
                rows: group.rows,
                unpacked: None,
            };
            let work = MiniBatchWork::Rows(SpilledRows {
                text,
                origins: in_folder(origins_name(bucket)),
                origins_offset: group.origins_offset,
                origins_length: group.origins_length,
                names: in_folder(NAMES_FILE.to_owned()),
            });
            let mut stamp = MiniBatchDigest::new();
            stamp.add_digest(group.digest);
            writer.add_group(self.input.first, work, with_keys(keys, values), stamp)?;
        }
        Ok(())
    }
}
