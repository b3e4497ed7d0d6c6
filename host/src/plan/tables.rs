//! Mini-batches of CSV tables: by size here, by keys in `keyed_tables`.

use super::groups::format_of;
use super::sender::Sender;
use super::shuffle::Tools;
use super::stamp::Stamp;
use super::{PlanError, columns, keyed_tables, refuse};
use crate::dataset::csv::{CutFile, Cutter, MAX_SLICE, check_names, infer_format};
use crate::dataset::{DatasetError, Listing};
use crate::model::{
    ByteSize, Column, ColumnType, CsvFormat, PartitionFormat, SliceSize, Source, TableFormat,
    TableInput, TextSlice, Work,
};
use crate::protocol::FromPlanner;
use std::fs::Metadata;

/// One input: its sources with the number of the first, and what the job file says of its tables.
pub(super) struct Input<'a> {
    pub(super) first: u32,
    pub(super) sources: &'a [Source],
    pub(super) csv: &'a CsvFormat,
    schema: Option<&'a [Column]>,
    /// Gives the last columns, from the files' paths.
    pub(super) path: Option<PartitionFormat>,
}

impl Input<'_> {
    /// The input's name.
    pub(super) fn name(&self) -> &str {
        &self.sources[0].dataset
    }
}

/// Puts sources of one dataset, which stand together, into one input. Fails if formats are missing
/// or cannot be read.
pub(super) fn group<'a>(
    sources: &'a [Source],
    tables: &'a [TableInput],
) -> Result<Vec<Input<'a>>, PlanError> {
    if tables.len() != sources.len() {
        let (tables, sources) = (tables.len(), sources.len());
        return refuse!("a plan for {sources} sources came with {tables} table formats");
    }
    let mut inputs = Vec::new();
    let mut first = 0;
    for sources in sources.chunk_by(|one, next| one.dataset == next.dataset) {
        let TableInput { csv, schema, .. } = &tables[first];
        let delimiter = csv.delimiter;
        if !delimiter.is_ascii() || matches!(delimiter, b'"' | b'\r' | b'\n' | 0) {
            return refuse!(
                "input '{}': {:?} cannot be the delimiter; use one ASCII character that is no \
                 quote or line end, such as ',', ';' or a tab",
                sources[0].dataset,
                char::from(delimiter),
            );
        }
        let index = first as u32;
        let path = format_of(&sources[0])?;
        inputs.push(Input { first: index, sources, csv, schema: schema.as_deref(), path });
        first += sources.len();
    }
    Ok(inputs)
}

/// Sends the formats of all sources, then the mini-batches of each: of that `size`, or by the
/// request's keys.
pub(super) fn plan_tables(
    inputs: &[Input<'_>],
    size: SliceSize,
    full_inference: bool,
    tools: Tools<'_>,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    if matches!(size, SliceSize::Bytes(0) | SliceSize::Rows(0)) {
        return refuse!("mini_batch_size must be at least 1 byte or row");
    }
    let mut notices = Vec::new();
    let formats: Vec<TableFormat> = inputs
        .iter()
        .map(|input| format(input, full_inference, &mut notices))
        .collect::<Result<_, PlanError>>()?;
    let per_source = inputs.iter().zip(&formats);
    let per_source =
        per_source.flat_map(|(input, format)| vec![format.clone(); input.sources.len()]);
    sender.send(FromPlanner::Tables(per_source.collect()))?;
    notices.into_iter().try_for_each(|notice| sender.send(FromPlanner::Notice(notice)))?;
    if !tools.request.partition_keys.is_empty() {
        return keyed_tables::plan(inputs, &formats, tools, sender);
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
        each_slice(input, format, size, sender, &mut |sender, found| {
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
    full_inference: bool,
    notices: &mut Vec<String>,
) -> Result<TableFormat, PlanError> {
    let mut format = match input.schema {
        Some(schema) => TableFormat {
            csv: input.csv.clone(),
            columns: schema.to_vec(),
            ..TableFormat::default()
        },
        None => {
            let inferred = infer_format(input.sources, input.csv, full_inference)?;
            notices.extend(columns::notices(input.name(), &inferred));
            inferred.format
        }
    };
    let Some(path) = &input.path else { return Ok(format) };
    for key in path.keys() {
        if format.columns.iter().any(|column| column.name == key) {
            return refuse!(
                "input '{}': partition_format '{path}' makes a column '{key}' of the files' paths, \
                 and the files have a column of that name; give the key another name",
                input.name(),
            );
        }
    }
    let keys = path.keys().map(|key| Column { name: key.to_owned(), kind: ColumnType::String });
    format.columns.extend(keys);
    Ok(format)
}

/// A slice that was found.
pub(super) struct Found<'a> {
    /// The index of its source.
    pub(super) source: u32,
    /// Where it lies.
    pub(super) slice: TextSlice,
    /// What its file is like.
    pub(super) metadata: &'a Metadata,
}

/// Hands all slices of an input to `take`, of that `size` each, in the order of the files. Fails
/// if a file cannot be read, has another header than the input, or lies at a path that does not
/// match the input's template.
pub(super) fn each_slice<'s>(
    input: &Input<'_>,
    format: &TableFormat,
    size: SliceSize,
    sender: &mut Sender<'s>,
    take: &mut dyn FnMut(&mut Sender<'s>, Found<'_>) -> Result<(), PlanError>,
) -> Result<(), PlanError> {
    let mut cutter = Cutter::new(input.csv, size);
    let mut headers = Headers::new(input, format);
    for (index, source) in (input.first..).zip(input.sources) {
        let mut listing = Listing::new(source)?;
        loop {
            let file = listing.next_file()?;
            for notice in listing.take_notices() {
                sender.notice(notice)?;
            }
            let Some(file) = file else { break };
            if let Some(path) = &input.path
                && path.folder_values(&file).is_none()
            {
                return refuse!(
                    "input '{}': the path {file} does not match partition_format '{path}', which \
                     has one folder for each level; move the file away, name the files by a glob \
                     that leaves it out, or change the template",
                    input.name(),
                );
            }
            let mut cut = cutter.open(&source.root, file)?;
            if !headers.check(&cut)? {
                sender
                    .notice(format!("{} is empty and gives no mini-batch", cut.path().display()))?;
                continue;
            }
            let metadata = cut.metadata()?;
            let mut rows = 0;
            while let Some(slice) = cut.next_slice()? {
                rows += slice.rows;
                take(sender, Found { source: index, slice, metadata: &metadata })?;
            }
            notice_end(&cut, rows, input.csv.header, sender)?;
        }
    }
    Ok(())
}

/// Tells what is odd about a file of so many rows.
fn notice_end(
    cut: &CutFile<'_>,
    rows: u64,
    header: bool,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    let path = cut.path().display();
    if rows == 0 {
        let what = if header { "holds a header and no rows" } else { "is empty" };
        sender.notice(format!("{path} {what} and gives no mini-batch"))?;
    }
    if cut.ends_quoted() {
        sender.notice(format!(
            "{path} ends within a quoted field; a quote may be missing, and everything behind the \
             one that opened the field was taken for its text"
        ))?;
    }
    Ok(())
}

/// Holds the headers of an input's files to its columns.
struct Headers<'a> {
    header: bool,
    /// The columns in the files.
    columns: &'a [Column],
    /// Bytes of the last good header: most files have the same.
    good: Option<Vec<u8>>,
    /// Whose columns they are; the first file's path unless the job file gives them.
    origin: Option<String>,
}

impl<'a> Headers<'a> {
    fn new(input: &Input<'_>, format: &'a TableFormat) -> Self {
        let given = "the schema in the job file".to_owned();
        let origin = input.schema.is_some().then_some(given);
        let keys = input.path.as_ref().map_or(0, |path| path.keys().count());
        let columns = &format.columns[..format.columns.len() - keys];
        Self { header: input.csv.header, columns, good: None, origin }
    }

    /// Whether the file has a header, where it should have one. Fails if it is another than the
    /// input's.
    fn check(&mut self, cut: &CutFile<'_>) -> Result<bool, DatasetError> {
        if !self.header || self.good.as_deref().is_some_and(|good| good == cut.header()) {
            return Ok(true);
        }
        let names = cut.names()?;
        if names.is_empty() {
            return Ok(false);
        }
        let origin = self.origin.get_or_insert_with(|| cut.path().display().to_string());
        let expected = self.columns.iter().map(|column| column.name.as_str());
        check_names(cut.path(), &names, expected, origin)?;
        self.good = Some(cut.header().to_vec());
        Ok(true)
    }
}
