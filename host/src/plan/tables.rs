//! Mini-batches of CSV tables.

use super::columns;
use super::sender::Sender;
use super::{PlanError, refuse};
use crate::dataset::csv::{CutFile, Cutter, MAX_SLICE, check_names, infer_format};
use crate::dataset::{DatasetError, Listing};
use crate::model::{ByteSize, Column, CsvFormat, Source, TableFormat, Work};
use crate::protocol::FromPlanner;

/// One input: its sources with the number of the first, and what the job file says of its tables.
pub(super) struct TableInput<'a> {
    first: u32,
    sources: &'a [Source],
    csv: &'a CsvFormat,
    columns: Option<&'a [Column]>,
}

/// Puts sources of one dataset, which stand together, into one input. Fails if formats are missing
/// or cannot be read.
pub(super) fn group<'a>(
    sources: &'a [Source],
    formats: &'a [(CsvFormat, Option<Vec<Column>>)],
) -> Result<Vec<TableInput<'a>>, PlanError> {
    if formats.len() != sources.len() {
        let (formats, sources) = (formats.len(), sources.len());
        return refuse!("a plan for {sources} sources came with {formats} table formats");
    }
    let mut inputs = Vec::new();
    let mut first = 0;
    for sources in sources.chunk_by(|one, next| one.dataset == next.dataset) {
        let (csv, columns) = &formats[first];
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
        inputs.push(TableInput { first: index, sources, csv, columns: columns.as_deref() });
        first += sources.len();
    }
    Ok(inputs)
}

/// Sends the formats of all sources, then the slices of each.
pub(super) fn plan_tables(
    inputs: &[TableInput<'_>],
    bytes: u64,
    full_inference: bool,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    if bytes == 0 {
        return refuse!("mini_batch_size must be at least 1 byte");
    }
    let mut notices = Vec::new();
    let formats: Vec<TableFormat> = inputs
        .iter()
        .map(|input| match input.columns {
            Some(columns) => Ok(TableFormat { csv: input.csv.clone(), columns: columns.to_vec() }),
            None => {
                let inferred = infer_format(input.sources, input.csv, full_inference)?;
                notices.extend(columns::notices(&input.sources[0].dataset, &inferred));
                Ok(inferred.format)
            }
        })
        .collect::<Result<_, DatasetError>>()?;
    let per_source = inputs.iter().zip(&formats);
    let per_source =
        per_source.flat_map(|(input, format)| vec![format.clone(); input.sources.len()]);
    sender.send(FromPlanner::Tables(per_source.collect()))?;
    notices.into_iter().try_for_each(|notice| sender.send(FromPlanner::Notice(notice)))?;
    if bytes > MAX_SLICE {
        sender.notice(format!(
            "mini_batch_size is {}; tables are cut at {}, as a worker holds a whole mini-batch in \
             memory",
            ByteSize(bytes),
            ByteSize(MAX_SLICE),
        ))?;
    }
    for (input, format) in inputs.iter().zip(&formats) {
        plan_input(input, format, bytes, sender)?;
    }
    Ok(())
}

fn plan_input(
    input: &TableInput<'_>,
    format: &TableFormat,
    bytes: u64,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    let mut cutter = Cutter::new(input.csv, bytes);
    let mut headers = Headers::new(input, format);
    for (index, source) in (input.first..).zip(input.sources) {
        let mut listing = Listing::new(source)?;
        loop {
            let file = listing.next_file()?;
            for notice in listing.take_notices() {
                sender.notice(notice)?;
            }
            let Some(file) = file else { break };
            let mut cut = cutter.open(&source.root, file)?;
            if !headers.check(&cut)? {
                sender
                    .notice(format!("{} is empty and gives no mini-batch", cut.path().display()))?;
                continue;
            }
            plan_file(&mut cut, index, input.csv.header, sender)?;
        }
    }
    Ok(())
}

fn plan_file(
    cut: &mut CutFile<'_>,
    source: u32,
    header: bool,
    sender: &mut Sender<'_>,
) -> Result<(), PlanError> {
    let mut rows = 0;
    while let Some(slice) = cut.next_slice()? {
        rows += slice.rows;
        sender.add(source, Work::Csv(slice))?;
    }
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
    format: &'a TableFormat,
    /// Bytes of the last good header: most files have the same.
    good: Option<Vec<u8>>,
    /// Whose columns they are; the first file's path unless the job file gives them.
    origin: Option<String>,
}

impl<'a> Headers<'a> {
    fn new(input: &TableInput<'_>, format: &'a TableFormat) -> Self {
        let given = "the schema in the job file".to_owned();
        let origin = input.columns.is_some().then_some(given);
        Self { header: input.csv.header, format, good: None, origin }
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
        let expected = self.format.columns.iter().map(|column| column.name.as_str());
        check_names(cut.path(), &names, expected, origin)?;
        self.good = Some(cut.header().to_vec());
        Ok(true)
    }
}
