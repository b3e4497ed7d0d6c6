//! Mini-batches by partition keys that are in the files' paths. All names of an input are kept in memory,
//! because a group is complete only when the last file has been seen.

use super::files::next_file;
use super::mini_batch_digest::MiniBatchDigest;
use super::plan_writer::PlanWriter;
use super::{PlanError, err};
use crate::dataset::SourceListing;
use crate::dataset::csv::MAX_SLICE;
use crate::model::{ByteSize, MiniBatchWork, Names, PartitionFormat, Source, count_u32};
use crate::protocol::FromPlanner;
use std::collections::BTreeMap;

/// The path template of a source; `None` if the source has none. Fails if the template is invalid.
pub(super) fn format_of(source: &Source) -> Result<Option<PartitionFormat>, PlanError> {
    let Some(text) = &source.partition_format else { return Ok(None) };
    match PartitionFormat::parse(text) {
        Ok(format) => Ok(Some(format)),
        Err(error) => {
            err!("input '{}': partition_format {error}", source.dataset)
        }
    }
}

/// The positions of the partition keys among a template's keys. The error is the first key that the template
/// lacks.
pub(super) fn positions<'a>(
    format: &PartitionFormat,
    keys: &'a [String],
) -> Result<Vec<usize>, &'a str> {
    let position =
        |key: &'a String| format.keys().position(|known| known == key).ok_or(key.as_str());
    keys.iter().map(position).collect()
}

/// Groups with their content, in the order of their keys' values.
pub(super) type GroupsByKey<T> = BTreeMap<Vec<String>, T>;

/// The partition keys with their values.
pub(super) fn with_keys(keys: &[String], values: Vec<String>) -> Vec<(String, String)> {
    keys.iter().cloned().zip(values).collect()
}

/// Refuses a group that is too large for a worker.
pub(super) fn check_size(
    input: &str,
    keys: &[String],
    values: &[String],
    bytes: u64,
) -> Result<(), PlanError> {
    if bytes <= MAX_SLICE {
        return Ok(());
    }
    let pairs: Vec<_> =
        keys.iter().zip(values).map(|(key, value)| format!("{key}={value}")).collect();
    err!(
        "input '{input}': the rows with {} take {} or more, and a mini-batch can take at most {}, \
         because a worker holds it in memory; add a key to partition_keys that divides these rows",
        pairs.join(", "),
        ByteSize(bytes),
        ByteSize(MAX_SLICE),
    )
}

/// Sends one mini-batch for each combination of the keys' values in an input's paths.
pub(super) fn plan_file_groups(
    sources: &[Source],
    keys: &[String],
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    writer.send(FromPlanner::Tables(Vec::new()))?;
    let mut first = 0;
    for input in sources.chunk_by(|one, next| one.dataset == next.dataset) {
        plan_input(first, input, keys, writer)?;
        first += count_u32(input.len());
    }
    Ok(())
}

fn plan_input(
    first: u32,
    sources: &[Source],
    keys: &[String],
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    let mut groups: GroupsByKey<Vec<(u32, Names)>> = GroupsByKey::new();
    for (index, source) in (first..).zip(sources) {
        let Some(format) = format_of(source)? else {
            return err!(
                "input '{}' has no partition_format, so its files cannot be grouped by \
                 partition_keys; add one, such as partition_format: '{}'",
                source.dataset,
                example(keys),
            );
        };
        let positions = match positions(&format, keys) {
            Ok(positions) => positions,
            Err(key) => {
                let known: Vec<_> = format.keys().collect();
                return err!(
                    "input '{}': partition_keys names '{key}', and partition_format '{format}' has \
                     the keys {}; use one of these, or add '{key}' to partition_format",
                    source.dataset,
                    known.join(", "),
                );
            }
        };
        let mut listing = SourceListing::new(source)?;
        while let Some(file) = next_file(&mut listing, index, writer)? {
            let Some(values) = format.values(&file) else {
                return err!(
                    "input '{}': the path {file} does not match partition_format '{format}'; move \
                     the file away, name the files with a glob that leaves it out, or change the \
                     template",
                    source.dataset,
                );
            };
            let values = positions.iter().map(|&position| values[position].to_owned()).collect();
            let parts = groups.entry(values).or_default();
            match parts.last_mut() {
                Some((last, files)) if *last == index => files.push(&file),
                _ => parts.push((index, Names::from([file]))),
            }
        }
    }
    send(first, groups, keys, writer)
}

fn send(
    first: u32,
    groups: GroupsByKey<Vec<(u32, Names)>>,
    keys: &[String],
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    for (values, mut parts) in groups {
        let (source, work) = match parts.len() {
            1 => {
                let (source, files) = parts.remove(0);
                (source, MiniBatchWork::Files(files))
            }
            _ => (first, MiniBatchWork::FileGroup(parts)),
        };
        writer.add_group(source, work, with_keys(keys, values), MiniBatchDigest::new())?;
    }
    Ok(())
}

/// An example of a template with these keys.
fn example(keys: &[String]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("{{{key}}}")).collect();
    format!("{}/{{file}}", keys.join("/"))
}
