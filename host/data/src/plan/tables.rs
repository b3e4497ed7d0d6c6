//! Mini-batches of tables: by size here, by keys in `keyed_tables`.

use super::columns;
use super::groups::format_of;
use super::sender::Sender;
use super::shuffle::{Tools, empty_spill};
use super::stamp::Stamp;
use super::text::each_slice;
use super::{PlanError, columnar, keyed_tables, refuse};
use crate::dataset::columnar::TableFile;
use crate::dataset::csv::{MAX_SLICE, infer_format};
use crate::dataset::json::{field_of, infer_json};
use crate::dataset::{Listing, Unpacker, schema_bytes, wait_for};
use crate::model::{
    BadFile, ByteSize, Column, ColumnType, CsvFormat, PartitionFormat, SliceSize, Source,
    TableFormat, TableInput, TableKind, Work,
};
use crate::protocol::{FromPlanner, PlanRequest};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

/// Files that are named in advance, at most: as many as are fetched at once.
const AHEAD: usize = 16;

/// One input: its sources with the number of the first, and what the job file says of its tables.
pub(super) struct Input<'a> {
    pub(super) first: u32,
    pub(super) sources: &'a [Source],
    pub(super) table: &'a TableInput,
    /// What was asked for.
    pub(super) request: &'a PlanRequest,
    /// Whether all its files say what its columns are, or only what comes first.
    pub(super) full: bool,
    /// Gives the last columns, from the files' paths.
    pub(super) path: Option<PartitionFormat>,
    /// Whether that is of folders as Hive makes them, as found and not as written in the job file.
    pub(super) is_hive: bool,
    /// The first source's listing, where it was begun to find such folders.
    pub(super) begun: RefCell<Option<Listing>>,
    /// The file that its columns were learned from, where it is open still: as a rule it is cut next.
    pub(super) learned: RefCell<Option<(PathBuf, TableFile)>>,
}

impl Input<'_> {
    /// The input's name.
    pub(super) fn name(&self) -> &str {
        &self.sources[0].dataset
    }

    /// The files of one of its sources.
    pub(super) fn files(&self, source: &Source) -> Result<Listing, PlanError> {
        listing(source, self.table)
    }

    /// Why a file is not to be looked into, if it is not.
    pub(super) fn deadly(&self, source: u32, file: &str) -> Option<&str> {
        let mut deadly = self.request.deadly.iter();
        let bad = deadly.find(|(index, bad)| *index == source && bad.file == file);
        bad.map(|(_, bad)| bad.reason.as_str())
    }

    /// Whether a file may be looked into, once it is here.
    pub(super) fn may_open(
        &self,
        source: u32,
        file: &str,
        listing: &mut Listing,
        sender: &mut Sender<'_>,
    ) -> Result<bool, PlanError> {
        if self.deadly(source, file).is_some() {
            return Ok(false);
        }
        // The first part of an input may end with any file.
        let next = if self.full { self.following(listing) } else { Vec::new() };
        Ok(self.open(source, file, next, sender)?.is_none())
    }

    /// The files that a listing has next, if somebody brings them in advance.
    pub(super) fn following(&self, listing: &mut Listing) -> Vec<String> {
        if !self.request.asks {
            return Vec::new();
        }
        listing.look_ahead(AHEAD);
        listing.ahead().take(AHEAD).map(str::to_owned).collect()
    }

    /// Names a file that is looked into next, where somebody wants to know, and waits for as long as it is an
    /// object on its way. Returns why it cannot be had from its store, if it cannot. `next` are those that follow.
    pub(super) fn open(
        &self,
        source: u32,
        file: &str,
        next: Vec<String>,
        sender: &mut Sender<'_>,
    ) -> Result<Option<BadFile>, PlanError> {
        if (self.request.tells_files || self.request.asks)
            && let Some(bad) = sender.opening(source, file, next)?
        {
            return Ok(Some(bad));
        }
        Ok(wait_for(&self.sources[(source - self.first) as usize].root.join(file), file))
    }

    /// The dialect, of CSV.
    pub(super) fn csv(&self) -> &CsvFormat {
        &self.table.csv
    }
}

/// Puts sources of one dataset, which stand together, into one input. Fails if formats are missing
/// or cannot be read, or if there are no folders to make columns of and the job file says so.
pub(super) fn group<'a>(
    request: &'a PlanRequest,
    tables: &'a [TableInput],
    full: bool,
) -> Result<Vec<Input<'a>>, PlanError> {
    let sources = &request.sources;
    if tables.len() != sources.len() {
        let (tables, sources) = (tables.len(), sources.len());
        return refuse!("a plan for {sources} sources came with {tables} table formats");
    }
    let mut inputs = Vec::new();
    let mut first = 0;
    for sources in sources.chunk_by(|one, next| one.dataset == next.dataset) {
        let table = &tables[first];
        let delimiter = table.csv.delimiter;
        if !delimiter.is_ascii() || matches!(delimiter, b'"' | b'\r' | b'\n' | 0) {
            return refuse!(
                "input '{}': {:?} cannot be the delimiter; use one ASCII character that is no \
                 quote or line end, such as ',', ';' or a tab",
                sources[0].dataset,
                char::from(delimiter),
            );
        }
        let named = format_of(&sources[0])?;
        let (found, begun) = match named {
            None if table.hive != Some(false) => hive(&sources[0], table)?,
            _ => (None, None),
        };
        let (is_hive, begun) = (found.is_some(), RefCell::new(begun));
        let (path, index) = (named.or(found), first as u32);
        let learned = RefCell::default();
        let input =
            Input { first: index, sources, table, request, full, path, is_hive, begun, learned };
        inputs.push(input);
        first += sources.len();
    }
    Ok(inputs)
}

/// The files of a source of tables. Those of tables with a log are refused, unless the input says that they are meant.
fn listing(source: &Source, table: &TableInput) -> Result<Listing, PlanError> {
    let listing = Listing::of_rows(source)?;
    let may_have_log = table.kind == TableKind::Parquet && !table.files;
    Ok(if may_have_log { listing.refusing_tables() } else { listing })
}

/// The template of the folders that the source's first file lies in, if they are named `key=value`, and
/// the listing that stands before that file. Fails if there are none and the job file says so.
fn hive(
    source: &Source,
    table: &TableInput,
) -> Result<(Option<PartitionFormat>, Option<Listing>), PlanError> {
    let mut listing = listing(source, table)?;
    let first = listing.peek_file()?.unwrap_or_default();
    let found = PartitionFormat::hive(first);
    if found.is_none() && table.hive == Some(true) && !first.is_empty() {
        return refuse!(
            "input '{}': hive is true, and its first file, {first}, does not lie in folders named \
             key=value below {}; name the folder above those as the input's path, or remove the key",
            source.dataset,
            source.root.display(),
        );
    }
    Ok((found, Some(listing)))
}

/// Sends the formats of all sources, then the mini-batches of each: of that `size`, or by the
/// request's keys.
pub(super) fn plan_tables(
    inputs: &[Input<'_>],
    size: SliceSize,
    tools: Tools<'_>,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    if matches!(size, SliceSize::Bytes(0) | SliceSize::Rows(0)) {
        return refuse!("mini_batch_size must be at least 1 byte or row");
    }
    let spill = &tools.request.spill;
    if !spill.as_os_str().is_empty() {
        empty_spill(spill)?;
    }
    let unpacker = Unpacker::new(spill);
    let mut notices = Vec::new();
    let formats: Vec<TableFormat> = inputs
        .iter()
        .map(|input| format(input, &unpacker, &mut notices, sender))
        .collect::<Result<_, PlanError>>()?;
    let per_source = inputs.iter().zip(&formats);
    let per_source =
        per_source.flat_map(|(input, format)| vec![format.clone(); input.sources.len()]);
    sender.send(FromPlanner::Tables(per_source.collect()))?;
    notices.into_iter().try_for_each(|notice| sender.send(FromPlanner::Notice(notice)))?;
    if !tools.request.partition_keys.is_empty() {
        return keyed_tables::plan(inputs, &formats, tools, &unpacker, sender);
    }
    if let SliceSize::Bytes(bytes) = size
        && bytes > MAX_SLICE
    {
        sender.notice(format!(
            "mini_batch_size is {}; tables are cut at {}, as a worker holds a whole mini-batch in \
             memory",
            ByteSize(bytes),
            ByteSize(MAX_SLICE),
        ))?;
    }
    for (input, format) in inputs.iter().zip(&formats) {
        if !format.kind.is_text() {
            columnar::plan(input, format, size, sender)?;
            continue;
        }
        each_slice(input, format, size, &unpacker, sender, &mut |sender, found| {
            let mut stamp = Stamp::new();
            stamp.add_file(found.metadata.into());
            sender.add(found.source, Work::Text(found.slice), stamp)
        })?;
    }
    Ok(())
}

/// The columns in the input's files, then those of their paths. Fails if a file cannot be read, or
/// if a column would be there twice.
fn format(
    input: &Input<'_>,
    unpacker: &Unpacker,
    notices: &mut Vec<String>,
    sender: &mut Sender<'_>,
) -> Result<TableFormat, PlanError> {
    let format = match input.table.kind {
        TableKind::Csv => csv_format(input, unpacker, notices, sender)?,
        TableKind::Jsonl => json_format(input, unpacker, notices, sender)?,
        TableKind::Parquet | TableKind::Arrow | TableKind::Sqlite => {
            columnar::format(input, notices, sender)?
        }
    };
    if let Some(path) = input.path.as_ref().filter(|_| input.is_hive) {
        let keys: Vec<_> = path.keys().collect();
        notices.push(format!(
            "input {}: its folders' names make the last columns: {}; set hive to false where they \
             should not",
            input.name(),
            keys.join(", "),
        ));
    }
    Ok(format)
}

/// The format of a CSV input.
fn csv_format(
    input: &Input<'_>,
    unpacker: &Unpacker,
    notices: &mut Vec<String>,
    sender: &mut Sender<'_>,
) -> Result<TableFormat, PlanError> {
    let mut format = match &input.table.schema {
        Some(schema) => TableFormat {
            csv: input.csv().clone(),
            columns: schema.clone(),
            ..TableFormat::default()
        },
        None => {
            let mut may_open = |index: u32, file: &str, listing: &mut Listing| {
                input.may_open(input.first + index, file, listing, sender)
            };
            let (sources, full) = (input.sources, input.full);
            let inferred = infer_format(sources, input.csv(), full, unpacker, &mut may_open)?;
            notices.extend(columns::notices(input.name(), &inferred));
            inferred.format
        }
    };
    let names: Vec<_> = format.columns.iter().map(|column| column.name.as_str()).collect();
    check_keys(input, &names)?;
    let keys = input.path.iter().flat_map(PartitionFormat::keys);
    let keys = keys.map(|key| Column { name: key.to_owned(), kind: ColumnType::String });
    let keys: Vec<_> = keys.collect();
    if let Some(mut picked) = pick(input, &names)? {
        picked.extend((names.len()..).take(keys.len()));
        format.picked = Some(picked.into_iter().map(|index| index as u32).collect());
    }
    format.columns.extend(keys);
    format.path = input.path.clone();
    Ok(format)
}

/// The format of an input of JSON lines.
fn json_format(
    input: &Input<'_>,
    unpacker: &Unpacker,
    notices: &mut Vec<String>,
    sender: &mut Sender<'_>,
) -> Result<TableFormat, PlanError> {
    let schema = match &input.table.schema {
        Some(columns) => Schema::new(columns.iter().map(field_of).collect::<Vec<_>>()),
        None => {
            let mut may_open = |index: u32, file: &str, listing: &mut Listing| {
                input.may_open(input.first + index, file, listing, sender)
            };
            let inferred = infer_json(input.sources, input.full, unpacker, &mut may_open)?;
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
        // A job that names columns wants no others.
        counts_unknown_keys: is_inferred && input.table.columns.is_none(),
        path: input.path.clone(),
        ..TableFormat::default()
    })
}

/// What the guest gets of files with these columns: those that the job file asks for, and behind them
/// those of the path.
pub(super) fn guest_schema(input: &Input<'_>, in_files: &Schema) -> Result<Schema, PlanError> {
    let names: Vec<_> = in_files.fields().iter().map(|field| field.name().as_str()).collect();
    check_keys(input, &names)?;
    let mut fields: Vec<FieldRef> = match pick(input, &names)? {
        None => in_files.fields().iter().cloned().collect(),
        Some(picked) => {
            picked.into_iter().map(|index| Arc::clone(&in_files.fields()[index])).collect()
        }
    };
    let keys = input.path.iter().flat_map(PartitionFormat::keys);
    fields.extend(keys.map(|key| Arc::new(Field::new(key, DataType::Utf8, true))));
    Ok(Schema::new(fields))
}

/// Refuses an input whose files have a column that their paths give, too. `names` are the columns
/// in the files.
pub(super) fn check_keys(input: &Input<'_>, names: &[&str]) -> Result<(), PlanError> {
    let Some(path) = &input.path else { return Ok(()) };
    let Some(twice) = path.keys().find(|key| names.contains(key)) else { return Ok(()) };
    if input.is_hive {
        return refuse!(
            "input '{}': the folders '{path}' make a column '{twice}', and the files have a column of \
             that name; set hive to false to take that of the files",
            input.name(),
        );
    }
    refuse!(
        "input '{}': partition_format '{path}' makes a column '{twice}' of the files' paths, and the \
         files have a column of that name; give the key another name",
        input.name(),
    )
}

/// Which of the columns in the files, called `names`, the job file asks for, in its order; none for
/// all of them, and where no file has told any. Fails if it asks for one that is not there.
pub(super) fn pick(input: &Input<'_>, names: &[&str]) -> Result<Option<Vec<usize>>, PlanError> {
    let wanted = input.table.columns.as_ref().filter(|_| !names.is_empty());
    let Some(wanted) = wanted else { return Ok(None) };
    let mut picked = Vec::with_capacity(wanted.len());
    for name in wanted {
        if let Some(index) = names.iter().position(|known| known == name) {
            picked.push(index);
            continue;
        }
        if input.path.iter().flat_map(PartitionFormat::keys).any(|key| key == name) {
            return refuse!(
                "input '{}': columns names '{name}', which comes from the files' paths; such columns \
                 stand behind the others in any case: leave it out of the list",
                input.name(),
            );
        }
        return refuse!(
            "input '{}' has no column '{name}', which columns names; {}",
            input.name(),
            columns::known(name, names),
        );
    }
    Ok(Some(picked))
}
