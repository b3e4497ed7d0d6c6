//! Mini-batches of CSV tables by partition keys: where all keys stand in the files' paths, of whole
//! files; else of rows that are gathered first.

use super::groups::{Groups, named, positions};
use super::sender::Sender;
use super::shuffle::{Idle, Shuffle, Tools, empty_spill};
use super::stamp::Stamp;
use super::tables::Input;
use super::text::each_slice;
use super::{PlanError, refuse};
use crate::dataset::csv::MAX_SLICE;
use crate::model::{ByteSize, SliceSize, TableFormat, TextSlice, Work};

/// One mini-batch for each combination of keys' values that an input has; each input is divided on
/// its own.
pub(super) fn plan(
    inputs: &[Input<'_>],
    formats: &[TableFormat],
    tools: Tools<'_>,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    let keys = &tools.request.partition_keys;
    // All are looked at before the first is read.
    for (input, format) in inputs.iter().zip(formats) {
        columns(input, format, keys)?;
    }
    let mut spill_is_empty = false;
    let idle = Idle::default();
    for (number, (input, format)) in (0..).zip(inputs.iter().zip(formats)) {
        match input.path.as_ref().map(|path| positions(path, keys)) {
            Some(Ok(positions)) => plan_folders(input, format, keys, &positions, sender)?,
            _ => {
                let columns = columns(input, format, keys)?;
                if !std::mem::replace(&mut spill_is_empty, true) {
                    empty_spill(&tools.request.spill)?;
                }
                Shuffle { input, format, columns, number, tools, idle: &idle }.run(sender)?;
            }
        }
    }
    Ok(())
}

/// Which columns the keys are.
fn columns(
    input: &Input<'_>,
    format: &TableFormat,
    keys: &[String],
) -> Result<Vec<usize>, PlanError> {
    let known = &format.columns;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(index) = known.iter().position(|column| column.name == *key) else {
            let names: Vec<_> = known.iter().map(|column| column.name.as_str()).collect();
            return refuse!(
                "input '{}' has no column '{key}', which partition_keys names; its columns are: {}",
                input.name(),
                names.join(", "),
            );
        };
        found.push(index);
    }
    Ok(found)
}

/// Files with the same values in their paths are one mini-batch. Their descriptors are held until
/// all files have been seen.
fn plan_folders(
    input: &Input<'_>,
    format: &TableFormat,
    keys: &[String],
    positions: &[usize],
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    struct Group {
        slices: Vec<(u32, TextSlice)>,
        bytes: u64,
        stamp: Stamp,
    }
    let Some(path) = &input.path else { return Ok(()) };
    let mut groups: Groups<Group> = Groups::new();
    each_slice(input, format, SliceSize::Bytes(MAX_SLICE), sender, &mut |_, found| {
        let values = path.folder_values(&found.slice.file).unwrap_or_default();
        let values = positions.iter().filter_map(|&at| values.get(at));
        let values: Vec<_> = values.map(|value| value.clone().into_owned()).collect();
        let new = || Group { slices: Vec::new(), bytes: 0, stamp: Stamp::new() };
        let group = groups.entry(values.clone()).or_insert_with(new);
        group.bytes += found.slice.length;
        check_size(input.name(), keys, &values, group.bytes)?;
        group.stamp.add_file(found.metadata.into());
        group.slices.push((found.source, found.slice));
        Ok(())
    })?;
    for (values, group) in groups {
        let work = Work::TextGroup(group.slices);
        sender.add_group(input.first, work, named(keys, values), group.stamp)?;
    }
    Ok(())
}

/// Refuses a group that no worker could hold.
pub(super) fn check_size(
    input: &str,
    keys: &[String],
    values: &[String],
    bytes: u64,
) -> Result<(), PlanError> {
    if bytes <= MAX_SLICE {
        return Ok(());
    }
    let pairs: Vec<_> = keys.iter().zip(values).map(|(k, v)| format!("{k}={v}")).collect();
    refuse!(
        "input '{input}': the rows with {} take {} or more, and a mini-batch can take at most {}, as \
         a worker holds it in memory; add a key to partition_keys that divides them",
        pairs.join(", "),
        ByteSize(bytes),
        ByteSize(MAX_SLICE),
    )
}
