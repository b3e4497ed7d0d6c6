//! Mini-batches of tables by partition keys. If all keys are in the files' paths, a mini-batch consists of
//! whole files. Otherwise the rows of all files are gathered first.

use super::groups::{GroupsByKey, check_size, positions, with_keys};
use super::input::PlanInput;
use super::mini_batch_digest::MiniBatchDigest;
use super::plan_writer::PlanWriter;
use super::shuffle::{Idle, Shuffle, ShuffleContext};
use super::text::{each_file, each_slice};
use super::{PlanError, columnar, err};
use crate::dataset::Unpacker;
use crate::dataset::csv::MAX_SLICE;
use crate::model::{
    MiniBatchWork, PartitionFormat, SliceSize, TableFormat, TableKind, TextSlice, count_u32,
};

/// Sends one mini-batch for each combination of the keys' values in an input. Each input is grouped
/// separately.
pub(super) fn plan(
    inputs: &[PlanInput<'_>],
    formats: &[TableFormat],
    tools: ShuffleContext<'_>,
    unpacker: &Unpacker,
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    let keys = &tools.request.partition_keys;
    // All inputs are checked before the first is read.
    for (input, format) in inputs.iter().zip(formats) {
        let are_in_path = |path| positions(path, keys).is_ok();
        match format.kind {
            kind if !kind.is_text() => drop(columnar::keys_of_paths(input, keys)?),
            _ if input.path.as_ref().is_some_and(are_in_path) => {}
            TableKind::Csv if are_columns_unknown(input, format) => {}
            _ => drop(key_columns(input, format, keys)?),
        }
    }
    let idle = Idle::default();
    for (number, (input, format)) in (0..).zip(inputs.iter().zip(formats)) {
        if !must_group(input, writer)? {
            continue;
        }
        if format.kind.is_text() {
            plan_texts((input, number), format, (tools, &idle), unpacker, writer)?;
        } else {
            columnar::plan_groups(input, format, keys, writer)?;
        }
        writer.course().end_groups();
    }
    Ok(())
}

/// Whether an earlier planner has not sent all groups of an input. Passes the input's files if it has. If it has sent some
/// groups, checks that the files are the same, before any of them is cut again.
fn must_group(input: &PlanInput<'_>, writer: &mut PlanWriter<'_>) -> Result<bool, PlanError> {
    let course = writer.course();
    if !course.is_before_target() {
        return Ok(true);
    }
    let sources = input.first..input.first + count_u32(input.sources.len());
    let has_stopped_here = course.stopped_in(&sources);
    if has_stopped_here {
        course.check_groups();
    }
    each_file(input, writer, &mut |_, _, _, _| Ok(()))?;
    if has_stopped_here {
        writer.course().cut_groups()?;
    }
    Ok(has_stopped_here)
}

/// Sends the groups of an input of texts. `number`: that of the input.
fn plan_texts(
    (input, number): (&PlanInput<'_>, u32),
    format: &TableFormat,
    (tools, idle): (ShuffleContext<'_>, &Idle),
    unpacker: &Unpacker,
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    let keys = &tools.request.partition_keys;
    match input.path.as_ref().map(|path| positions(path, keys)) {
        Some(Ok(positions)) => plan_folders(input, format, keys, &positions, unpacker, writer),
        _ if are_columns_unknown(input, format) => {
            let size = SliceSize::Bytes(MAX_SLICE);
            each_slice(input, format, size, unpacker, writer, &mut |_, _| Ok(()))
        }
        _ => {
            let columns = key_columns(input, format, keys)?;
            if tools.request.spill.as_os_str().is_empty() {
                return err!(
                    "rows cannot be grouped by key: there is no temporary folder for them"
                );
            }
            let shuffle = Shuffle { input, format, columns, number, tools, unpacker, idle };
            shuffle.run(writer)
        }
    }
}

/// Whether the columns are unknown because no file could be read. The reason for each file is reported when
/// the file is cut.
fn are_columns_unknown(input: &PlanInput<'_>, format: &TableFormat) -> bool {
    let path_columns = input.path.iter().flat_map(PartitionFormat::keys).count();
    format.kind == TableKind::Csv && format.columns.len() == path_columns
}

/// The indices of the key columns.
fn key_columns(
    input: &PlanInput<'_>,
    format: &TableFormat,
    keys: &[String],
) -> Result<Vec<usize>, PlanError> {
    if format.kind != TableKind::Csv {
        return err!(
            "input '{}' is of format {}, and partition_keys can name columns in the files only for \
             format: csv; name keys in the files' paths, or remove partition_keys",
            input.name(),
            format.kind.name(),
        );
    }
    let known = &format.columns;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(index) = known.iter().position(|column| column.name == *key) else {
            let names: Vec<_> = known.iter().map(|column| column.name.as_str()).collect();
            return err!(
                "input '{}' has no column '{key}', which partition_keys names; its columns are: {}",
                input.name(),
                names.join(", "),
            );
        };
        found.push(index);
    }
    Ok(found)
}

/// Makes one mini-batch of all files with the same values in their paths. The descriptors are kept in memory
/// until all files have been seen.
fn plan_folders(
    input: &PlanInput<'_>,
    format: &TableFormat,
    keys: &[String],
    positions: &[usize],
    unpacker: &Unpacker,
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    struct KeyGroup {
        slices: Vec<(u32, TextSlice)>,
        bytes: u64,
        stamp: MiniBatchDigest,
    }
    let Some(path) = &input.path else { return Ok(()) };
    let mut groups: GroupsByKey<KeyGroup> = GroupsByKey::new();
    each_slice(input, format, SliceSize::Bytes(MAX_SLICE), unpacker, writer, &mut |_, found| {
        let values = path.folder_values(&found.slice.file).unwrap_or_default();
        let values = positions.iter().filter_map(|&position| values.get(position));
        let values: Vec<_> = values.map(|value| value.clone().into_owned()).collect();
        let new = || KeyGroup { slices: Vec::new(), bytes: 0, stamp: MiniBatchDigest::new() };
        let group = groups.entry(values.clone()).or_insert_with(new);
        group.bytes += found.slice.length;
        check_size(input.name(), keys, &values, group.bytes)?;
        group.stamp.add_file(found.metadata.into());
        group.slices.push((found.source, found.slice));
        Ok(())
    })?;
    for (values, group) in groups {
        let work = MiniBatchWork::TextGroup(group.slices);
        writer.add_group(input.first, work, with_keys(keys, values), group.stamp)?;
    }
    Ok(())
}
