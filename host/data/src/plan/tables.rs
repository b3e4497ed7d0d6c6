//! Mini-batches of tables: by size in this module, by keys in `keyed_tables`.

use super::columns;
use super::input::{PlanInput, check_keys, picked_columns};
use super::mini_batch_digest::MiniBatchDigest;
use super::plan_writer::PlanWriter;
use super::share::{self, PlannedShare};
use super::shuffle::{ShuffleContext, empty_spill};
use super::text::{FoundSlice, each_slice};
use super::{PlanError, columnar, err, keyed_tables};
use crate::dataset::csv::{MAX_SLICE, infer_format};
use crate::dataset::json::{field_of, infer_json};
use crate::dataset::{SourceListing, Unpacker, schema_bytes};
use crate::model::{
    ByteSize, Column, ColumnType, MiniBatchWork, PartitionFormat, SliceSize, TableFormat,
    TableKind, TextSlice, count_u32,
};
use crate::protocol::{FromPlanner, PlanPlace};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use std::sync::Arc;

/// Sends the table formats of all sources, then the mini-batches of each source. Mini-batches have the given
/// size, or are made by the request's partition keys.
pub(super) fn plan_tables(
    inputs: &[PlanInput<'_>],
    size: SliceSize,
    tools: ShuffleContext<'_>,
    writer: &mut PlanWriter<'_>,
) -> Result<(), PlanError> {
    if matches!(size, SliceSize::Bytes(0) | SliceSize::Rows(0)) {
        return err!("mini_batch_size must be at least 1 byte or row");
    }
    let spill = &tools.request.spill;
    if !spill.as_os_str().is_empty() {
        empty_spill(spill)?;
    }
    let unpacker = Unpacker::new(spill);
    let mut notices = Vec::new();
    let formats: Vec<TableFormat> = inputs
        .iter()
        .map(|input| format(input, &unpacker, &mut notices, writer))
        .collect::<Result<_, PlanError>>()?;
    let per_source = inputs.iter().zip(&formats);
    let per_source =
        per_source.flat_map(|(input, format)| vec![format.clone(); input.sources.len()]);
    writer.send(FromPlanner::Tables(per_source.collect()))?;
    notices.into_iter().try_for_each(|notice| writer.send(notice))?;
    if !tools.request.partition_keys.is_empty() {
        return keyed_tables::plan(inputs, &formats, tools, &unpacker, writer);
    }
    if let SliceSize::Bytes(bytes) = size
        && bytes > MAX_SLICE
    {
        writer.notice(format!(
            "mini_batch_size is {}; tables are cut at {}, because a worker holds a whole mini-batch \
             in memory",
            ByteSize(bytes),
            ByteSize(MAX_SLICE),
        ))?;
    }
    // Objects of a store are not fetched yet, so their size cannot be measured.
    if !tools.request.asks.are_answered() {
        let listings = inputs.iter().flat_map(|input| {
            input.sources.iter().map(move |source| (source, input.files(source)))
        });
        writer.report_share(PlannedShare::measure(listings, &share::bytes));
    }
    for (input, format) in inputs.iter().zip(&formats) {
        if !format.kind.is_text() {
            columnar::plan(input, format, size, writer)?;
            continue;
        }
        each_slice(input, format, size, &unpacker, writer, &mut |writer, found| {
            let mut stamp = MiniBatchDigest::new();
            stamp.add_file(found.metadata.into());
            let FoundSlice { slice: TextSlice { offset, length, .. }, lines, .. } = &found;
            let offset = offset.saturating_add(*length);
            writer.reach(PlanPlace::Text { offset, lines: *lines });
            writer.add(found.source, MiniBatchWork::Text(found.slice), stamp)
        })?;
    }
    Ok(())
}

/// The format of an input's tables: the columns in its files, then the columns that their paths make. Fails
/// if no format can be found, or if a column would occur twice.
fn format(
    input: &PlanInput<'_>,
    unpacker: &Unpacker,
    notices: &mut Vec<FromPlanner>,
    writer: &mut PlanWriter<'_>,
) -> Result<TableFormat, PlanError> {
    let format = match input.table.kind {
        TableKind::Csv => csv_format(input, unpacker, notices, writer)?,
        TableKind::Jsonl => json_format(input, unpacker, notices, writer)?,
        _ => columnar::format(input, notices, writer)?,
    };
    input.refuse_foreign()?;
    if let Some(path) = input.path.as_ref().filter(|_| input.is_hive) {
        let keys: Vec<_> = path.keys().collect();
        notices.push(FromPlanner::Notice(format!(
            "input {}: its folders' names make the last columns: {}; set hive to false if they \
             should not",
            input.name(),
            keys.join(", "),
        )));
    }
    Ok(format)
}

fn csv_format(
    input: &PlanInput<'_>,
    unpacker: &Unpacker,
    notices: &mut Vec<FromPlanner>,
    writer: &mut PlanWriter<'_>,
) -> Result<TableFormat, PlanError> {
    let mut format = match &input.table.schema {
        Some(schema) => TableFormat {
            csv: input.csv().clone(),
            columns: schema.clone(),
            ..TableFormat::default()
        },
        None => {
            let mut may_open = |index: u32, file: &str, listing: &mut SourceListing| {
                input.may_open(input.first + index, file, listing, writer)
            };
            let sources = input.sources;
            let infers_from_all = input.infers_from_all;
            let mut inferred =
                infer_format(sources, input.csv(), infers_from_all, unpacker, &mut may_open)?;
            let names: Vec<_> =
                inferred.format.columns.iter().map(|column| column.name.clone()).collect();
            for (index, kind) in given_types(input, &names)? {
                inferred.format.columns[index].kind = kind;
                inferred.doubts[index] = None;
            }
            notices.extend(columns::csv_notices(input.name(), &inferred));
            inferred.format
        }
    };
    let names: Vec<_> = format.columns.iter().map(|column| column.name.as_str()).collect();
    check_keys(input, &names)?;
    let keys = input.path.iter().flat_map(PartitionFormat::keys);
    let keys = keys.map(|key| Column { name: key.to_owned(), kind: ColumnType::String });
    let keys: Vec<_> = keys.collect();
    if let Some(mut picked) = picked_columns(input, &names)? {
        picked.extend((names.len()..).take(keys.len()));
        format.picked = Some(picked.into_iter().map(count_u32).collect());
    }
    format.columns.extend(keys);
    format.path = input.path.clone();
    Ok(format)
}

/// The types that the job file gives to some of the files' columns, with the indices of the columns. Fails if
/// it names a column that does not exist.
fn given_types(
    input: &PlanInput<'_>,
    names: &[String],
) -> Result<Vec<(usize, ColumnType)>, PlanError> {
    let mut types = Vec::new();
    for Column { name, kind } in input.table.types.iter().filter(|_| !names.is_empty()) {
        let Some(index) = names.iter().position(|known| known == name) else {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            return err!(
                "input '{}' has no column '{name}', which types names; {}",
                input.name(),
                columns::existing_columns(name, &names),
            );
        };
        types.push((index, *kind));
    }
    Ok(types)
}

fn json_format(
    input: &PlanInput<'_>,
    unpacker: &Unpacker,
    notices: &mut Vec<FromPlanner>,
    writer: &mut PlanWriter<'_>,
) -> Result<TableFormat, PlanError> {
    let schema = match &input.table.schema {
        Some(columns) => Schema::new(columns.iter().map(field_of).collect::<Vec<_>>()),
        None => {
            let mut may_open = |index: u32, file: &str, listing: &mut SourceListing| {
                input.may_open(input.first + index, file, listing, writer)
            };
            let mut inferred =
                infer_json(input.sources, input.infers_from_all, unpacker, &mut may_open)?;
            let mut fields: Vec<FieldRef> = inferred.schema.fields().iter().cloned().collect();
            let names: Vec<_> = fields.iter().map(|field| field.name().clone()).collect();
            for (index, kind) in given_types(input, &names)? {
                let name = names[index].clone();
                fields[index] = Arc::new(field_of(&Column { name, kind }));
            }
            inferred.schema = Schema::new(fields);
            notices.extend(columns::json_notices(input.name(), &inferred));
            inferred.schema
        }
    };
    let schema = guest_schema(input, &schema)?;
    let is_inferred = input.table.schema.is_none();
    Ok(TableFormat {
        kind: TableKind::Jsonl,
        schema: schema_bytes(&schema)?,
        inferred: is_inferred,
        // A job that names columns does not want other columns.
        counts_unknown_keys: is_inferred && input.table.columns.is_none(),
        dropped: input.table.dropped.clone(),
        path: input.path.clone(),
        ..TableFormat::default()
    })
}

/// The schema that the guest receives: the columns that the job file asks for, then the columns from the
/// path.
fn guest_schema(input: &PlanInput<'_>, in_files: &Schema) -> Result<Schema, PlanError> {
    let names: Vec<_> = in_files.fields().iter().map(|field| field.name().as_str()).collect();
    check_keys(input, &names)?;
    let mut fields: Vec<FieldRef> = match picked_columns(input, &names)? {
        None => in_files.fields().iter().cloned().collect(),
        Some(picked) => {
            picked.into_iter().map(|index| Arc::clone(&in_files.fields()[index])).collect()
        }
    };
    let keys = input.path.iter().flat_map(PartitionFormat::keys);
    fields.extend(keys.map(|key| Arc::new(Field::new(key, DataType::Utf8, true))));
    Ok(Schema::new(fields))
}
