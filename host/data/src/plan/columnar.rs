//! Mini-batches of Parquet and Arrow tables and of databases: by size, and by keys that are in the files'
//! paths.

use super::columns;
use super::groups::{GroupsByKey, check_size, positions, with_keys};
use super::input::{PlanInput, check_keys, picked_columns};
use super::mini_batch_digest::MiniBatchDigest;
use super::plan_writer::PlanWriter;
use super::share;
use super::text::each_file;
use super::{PlanError, err};
use crate::dataset::columnar::{
    InputColumns, Resolution, TypedTableFile, check, from_message, to_message,
};
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, FileVersion, foreign_file};
use crate::model::{MiniBatchWork, PartitionFormat, SliceSize, TableFormat, TableSlice};
use crate::protocol::FromPlanner;
use arrow::datatypes::{DataType, Field, Schema};
use std::path::Path;

/// The table format of an input: the columns in its files, then the columns that the files' paths make. The
/// columns in the files come from the first readable file or, with full inference, from all files. Fails if a
/// column that the job file names is missing, or if a column would occur twice.
pub(super) fn format(
    input: &PlanInput<'_>,
    notices: &mut Vec<FromPlanner>,
    writer: &mut PlanWriter<'_>,
) -> Result<TableFormat, PlanError> {
    let kind = input.table.kind;
    let query = &input.table.query;
    let mut columns = InputColumns::new(input.table.columns.as_deref());
    let mut resolution = Resolution::default();
    'sources: for (index, source) in (input.first..).zip(input.sources) {
        let mut listing = input.files(source)?;
        while let Some(file) = listing.next_file()? {
            if !input.may_open(index, &file, &mut listing, writer)? {
                continue;
            }
            let path = source.root.join(&file);
            // The planner reports what is wrong with a file when it cuts the file.
            let learned =
                TypedTableFile::open(kind, query.as_deref(), &path).and_then(|mut file| {
                    columns.learn(file.schema()?, &path.display().to_string())?;
                    // Ignore unreadable values here: the worker reports them when it reads their rows.
                    let wanted = input.table.columns.as_deref();
                    let _ = file.resolve_times(&mut resolution, wanted, input.infers_from_all);
                    Ok(file)
                });
            if let Ok(file) = learned
                && !input.infers_from_all
            {
                input.learned_file.replace(Some((path, file)));
                break 'sources;
            }
        }
    }
    let names: Vec<_> = columns.names().collect();
    check_keys(input, &names)?;
    if columns.are_known() {
        picked_columns(input, &names)?;
    }
    let schema = resolution.apply(&columns.schema());
    if columns.are_known() {
        notices.push(columns::columns_message(input.name(), &schema));
    }
    let keys = input.path.iter().flat_map(PartitionFormat::keys);
    let keys = keys.map(|key| Field::new(key, DataType::Utf8, true).into());
    let fields: Vec<_> = schema.fields().iter().cloned().chain(keys).collect();
    let schema = to_message(&Schema::new(fields))?;
    let path = input.path.clone();
    let query = query.clone();
    Ok(TableFormat { kind, schema, path, query, ..TableFormat::default() })
}

/// Sends the mini-batches of one input, each of this size.
pub(super) fn plan(
    input: &PlanInput<'_>,
    format: &TableFormat,
    size: SliceSize,
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    each_slice(input, format, size, writer, &mut |writer, source, slice, found| {
        let mut stamp = MiniBatchDigest::new();
        stamp.add_file(found);
        writer.add(source, MiniBatchWork::Table(slice), stamp)
    })
}

/// Sends one mini-batch for each combination of the keys' values in the input's paths. Fails if a key is not
/// in the paths, or if a group is larger than a worker can hold.
pub(super) fn plan_groups(
    input: &PlanInput<'_>,
    format: &TableFormat,
    keys: &[String],
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    struct ColumnarGroup {
        slices: Vec<(u32, TableSlice)>,
        bytes: u64,
        stamp: MiniBatchDigest,
    }
    let (path, positions) = keys_of_paths(input, keys)?;
    let mut groups: GroupsByKey<ColumnarGroup> = GroupsByKey::new();
    let size = SliceSize::Bytes(MAX_SLICE);
    each_slice(input, format, size, writer, &mut |_, source, slice, found| {
        let values = path.folder_values(&slice.file).unwrap_or_default();
        let values = positions.iter().filter_map(|&position| values.get(position));
        let values: Vec<_> = values.map(|value| value.clone().into_owned()).collect();
        let new = || ColumnarGroup { slices: Vec::new(), bytes: 0, stamp: MiniBatchDigest::new() };
        let group = groups.entry(values.clone()).or_insert_with(new);
        group.bytes = group.bytes.saturating_add(slice.bytes);
        check_size(input.name(), keys, &values, group.bytes)?;
        group.stamp.add_file(found);
        group.slices.push((source, slice));
        Ok(())
    })?;
    for (values, group) in groups {
        let work = MiniBatchWork::TableGroup(group.slices);
        writer.add_group(input.first, work, with_keys(keys, values), group.stamp)?;
    }
    Ok(())
}

/// The template of an input's paths, and the positions of the keys in the template. Fails if the template
/// lacks a key.
pub(super) fn keys_of_paths<'a>(
    input: &'a PlanInput<'_>,
    keys: &[String],
) -> Result<(&'a PartitionFormat, Vec<usize>), PlanError> {
    let found = input.path.as_ref().map(|path| (path, positions(path, keys)));
    let missing = match found {
        Some((path, Ok(positions))) => return Ok((path, positions)),
        Some((_, Err(key))) => Some(key),
        None => keys.first().map(String::as_str),
    };
    let kind = input.table.kind.name();
    err!(
        "input '{}': partition_keys names '{}', which is in no folder's name, and {kind} files are \
         grouped by their folders only; put the files into folders named {}=…/, or name the levels of \
         their folders with partition_format, or use format: csv, whose rows are grouped by any column",
        input.name(),
        missing.unwrap_or_default(),
        missing.unwrap_or("key"),
    )
}

/// Receives each slice, with the index of its source and the version of its file.
type TakeTableSlice<'t, 's> =
    dyn FnMut(&mut PlanWriter<'s>, u32, TableSlice, FileVersion) -> Result<(), PlanError> + 't;

/// Passes all slices of an input to `take`, in the order of the files. Each slice has the given size. A file
/// that cannot be read, or whose rows do not fit the table, becomes a mini-batch that fails.
fn each_slice<'s>(
    input: &PlanInput<'_>,
    format: &TableFormat,
    size: SliceSize,
    writer: &mut PlanWriter<'s>,
    take: &mut TakeTableSlice<'_, 's>,
) -> Result<(), PlanError> {
    let schema = from_message(&format.schema)?;
    let path_columns = format.path.as_ref().map_or(0, |path| path.keys().count());
    let file_columns = schema.fields().len().saturating_sub(path_columns);
    let table = Schema::new(schema.fields()[..file_columns].to_vec());
    // The file that the columns come from, for messages.
    let mut origin: Option<String> = None;
    each_file(input, writer, &mut |writer, index, file, _| {
        origin = origin.take().or_else(|| input.first_skipped.borrow().clone());
        let path = input.sources[(index - input.first) as usize].root.join(&file);
        if format.kind.is_database() && is_beside_database(&path) {
            return Ok(());
        }
        if is_marker(&path) {
            return Ok(
                writer.notice(format!("{} is empty and gives no mini-batch", path.display()))?
            );
        }
        let learned = input.learned_file.take();
        let learned = learned.filter(|(known, file)| *known == path && file.is_unchanged());
        let open = || TypedTableFile::open(format.kind, format.query.as_deref(), &path);
        let opened = learned.map_or_else(open, |(_, file)| Ok(file));
        let cut = opened.and_then(|mut opened| {
            let origin = origin.as_deref().unwrap_or("the table");
            check_columns(input, &*opened.schema_in(&table)?, &table, origin)?;
            Ok((opened.found(), opened.cut(&table, size, file.clone())?))
        });
        let (found, slices) = match cut {
            Ok(cut) => cut,
            Err(error) => {
                let foreign = foreign_file(&path, format.kind);
                let describe = |what: String| input.describe_foreign(&path, &what);
                let reason =
                    foreign.map_or_else(|| format!("{} {error}", path.display()), describe);
                return writer.add_bad(index, file, reason, MiniBatchDigest::new());
            }
        };
        origin.get_or_insert_with(|| path.display().to_string());
        let mut rows = 0;
        let bytes = share::bytes(&path);
        let slices: Vec<_> = slices.collect();
        let total = slices.iter().fold(0_u64, |sum, slice| sum.saturating_add(slice.rows));
        for mut slice in slices {
            let left = input.rows_left.get();
            if left == 0 {
                break;
            }
            slice.rows = slice.rows.min(left);
            input.subtract_used(slice.rows);
            rows += slice.rows;
            if let Some(share) = writer.share() {
                let done = u128::from(bytes) * u128::from(rows) / u128::from(total.max(1));
                share.reach(u64::try_from(done).unwrap_or(u64::MAX));
            }
            take(writer, index, slice, found)?;
        }
        if rows == 0 {
            writer.notice(format!("{} holds no rows and gives no mini-batch", path.display()))?;
        }
        Ok(())
    })
}

/// Fails if a file with these columns does not fit the table. With full inference, the planner has
/// already combined the columns of all files. The error then says why it could not combine this
/// file's columns with the others.
fn check_columns(
    input: &PlanInput<'_>,
    file: &Schema,
    table: &Schema,
    origin: &str,
) -> Result<(), DatasetError> {
    let wanted = input.table.columns.as_deref();
    check(file, table, wanted.is_none(), origin).map_err(|error| {
        let mut known = InputColumns::from_schema(table, wanted, origin);
        let learned = if input.infers_from_all { known.learn(file, origin) } else { Ok(()) };
        learned.err().unwrap_or(error)
    })
}

/// Whether the file is an empty marker, such as `_SUCCESS`, which programs leave next to the many files that
/// they write.
fn is_marker(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b"_") && path.metadata().is_ok_and(|metadata| metadata.len() == 0)
}

/// Whether the file is one that SQLite keeps next to a database that is open or was not closed.
fn is_beside_database(path: &Path) -> bool {
    let name = path.to_str().unwrap_or_default();
    let database = ["-wal", "-shm", "-journal"].iter().find_map(|end| name.strip_suffix(end));
    database.is_some_and(|database| Path::new(database).is_file())
}
