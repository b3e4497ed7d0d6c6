//! The worker's side: turns a slice of a file into Arrow IPC.

use super::lines::{LineOrigin, LineSlice, RowLines};
use crate::dataset::csv::{
    Misfits, Origins, PlainDecoder, RecordOrigins, arrow_type, count_lines, read_by_records,
    read_slice, table,
};
use crate::dataset::json::{FilledLines, JsonDecoder, UnknownKeyRecords};
use crate::dataset::{ArrowStream, DatasetError, err, schema_of};
use crate::model::{
    ColumnType, FailedItem, PartitionFormat, SpilledRows, TableFormat, TableKind, TextSlice,
    UnknownKeys,
};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use std::path::Path;
use std::sync::Arc;

/// Reads parts of CSV and JSON lines files into Arrow IPC. Reuses its buffers for the next mini-batch.
#[derive(Debug)]
pub struct TableReader {
    /// The format, with only the columns that are in the files.
    format: TableFormat,
    data_schema: SchemaRef,
    /// The format of the files' paths. The last columns come from the paths.
    path: Option<PartitionFormat>,
    /// All columns. `picked` has the indexes of the columns that the guest receives. It is `None` if the
    /// guest receives all.
    all: SchemaRef,
    picked: Option<Vec<usize>>,
    /// The columns that the guest receives.
    schema: SchemaRef,
    /// The decoder of JSON lines. `None` for CSV.
    json: Option<JsonDecoder>,
    /// The fast path, for slices of simple text.
    plain: Option<PlainDecoder>,
    text: Vec<u8>,
    kept: Vec<u8>,
    /// The records of the current mini-batch that have keys without a column.
    unknown_keys: Option<UnknownKeys>,
    ipc: ArrowStream,
}

/// A mini-batch in memory.
#[derive(Debug)]
pub struct LoadedTable<'a> {
    /// A schema, one record batch and an end mark.
    pub ipc: &'a ArrowStream,
    /// The number of rows.
    pub rows: u64,
    /// How many records did not fit the schema. This is exact even if `rejected` lacks some of
    /// them.
    pub rejected_count: u64,
    /// The first of these records, with file and line: at most
    /// [`AttemptReport::MAX_FAILED_ITEMS`](crate::model::AttemptReport::MAX_FAILED_ITEMS).
    pub rejected: Vec<FailedItem>,
    /// Records of JSON lines that have keys without a column. `None` if there are none, or if they are not
    /// counted.
    pub unknown_keys: Option<UnknownKeys>,
    /// Finds the rows in their files.
    pub lines: RowLines<'a>,
}

/// One of the slices of a mini-batch.
#[derive(Clone, Copy, Debug)]
pub struct TablePart<'a> {
    /// The input's folder.
    pub root: &'a Path,
    /// The slice of a file in that folder.
    pub slice: &'a TextSlice,
    /// The file's name in messages.
    pub item: &'a str,
}

impl TableReader {
    /// A reader for tables of one format. Fails if columns are missing.
    pub fn new(format: &TableFormat) -> Result<Self, DatasetError> {
        Self::with_path(format, format.path.clone())
    }

    /// A reader for gathered rows: all columns are in one text. Otherwise like [`Self::new`].
    pub fn for_rows(format: &TableFormat) -> Result<Self, DatasetError> {
        // The text has the dialect of gathered rows, whatever the dialect of the files was.
        let csv = format.csv.gathered();
        Self::with_path(&TableFormat { csv, ..format.clone() }, None)
    }

    fn with_path(
        format: &TableFormat,
        path: Option<PartitionFormat>,
    ) -> Result<Self, DatasetError> {
        let mut columns = format.columns.clone();
        let picked: Option<Vec<usize>> =
            format.picked.as_ref().map(|picked| picked.iter().map(|&at| at as usize).collect());
        if let Some(picked) = &picked {
            let mut is_picked = vec![false; columns.len()];
            picked.iter().filter_map(|&at| is_picked.get_mut(at).map(|is| *is = true)).count();
            // A column that the job does not need accepts any value.
            let others = columns.iter_mut().zip(is_picked).filter(|(_, is_picked)| !is_picked);
            others.for_each(|(column, _)| column.kind = ColumnType::String);
        }
        let is_json = format.kind == TableKind::Jsonl;
        let fields: Vec<FieldRef> = match is_json {
            true => schema_of(&format.schema)?.fields().iter().cloned().collect(),
            false => columns
                .iter()
                .map(|column| Field::new(&column.name, arrow_type(column.kind), true).into())
                .collect(),
        };
        let keys = path.as_ref().map_or(0, |path| path.keys().count());
        let Some(in_files) = fields.len().checked_sub(keys) else {
            return err!("the table has {} columns and {keys} keys in its path", fields.len());
        };
        let data_schema = Arc::new(Schema::new(fields[..in_files].to_vec()));
        columns.truncate(in_files);
        let format = TableFormat { columns, ..format.clone() };
        let all = Arc::new(Schema::new(fields));
        let schema = match &picked {
            None => Arc::clone(&all),
            Some(picked) => match all.project(picked) {
                Ok(schema) => Arc::new(schema),
                Err(error) => return err!("the table's columns cannot be chosen: {error}"),
            },
        };
        Ok(Self {
            json: is_json.then(|| {
                let schema = Arc::clone(&data_schema);
                let known = format.counts_unknown_keys.then_some(&*format.dropped);
                JsonDecoder::new(schema, format.inferred, known)
            }),
            plain: PlainDecoder::new(&format, &data_schema),
            format,
            data_schema,
            path,
            all,
            picked,
            schema,
            text: Vec::new(),
            kept: Vec::new(),
            unknown_keys: None,
            ipc: ArrowStream::default(),
        })
    }

    /// The schema of all tables that this reader returns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Reads a slice of a file below `root`. `item` is the file's name in messages. Leaves out and names the
    /// records that do not fit the schema. Fails if the file cannot be read, or has changed since planning.
    pub fn read(
        &mut self,
        root: &Path,
        slice: &TextSlice,
        item: &str,
    ) -> Result<LoadedTable<'_>, DatasetError> {
        self.read_group(std::iter::once(TablePart { root, slice, item }), item)
    }

    /// Reads slices of several files, in order, into one table. Otherwise like [`Self::read`]. `label` is the
    /// name of all files together.
    pub fn read_group<'a>(
        &mut self,
        parts: impl Iterator<Item = TablePart<'a>>,
        label: &str,
    ) -> Result<LoadedTable<'_>, DatasetError> {
        self.ipc.clear();
        self.unknown_keys = None;
        let mut batches = Vec::new();
        let mut misfits = Misfits::default();
        let mut origins = Vec::new();
        for part in parts {
            let (batch, more) = self.load(part)?;
            origins.push(LineSlice {
                root: part.root.to_owned(),
                slice: part.slice.clone(),
                item: part.item.to_owned(),
                rows: batch.num_rows(),
            });
            batches.push(batch);
            misfits.append(more);
        }
        let batch = match batches.as_slice() {
            [only] => only.clone(),
            several => match concat_batches(&self.schema, several) {
                Ok(batch) => batch,
                Err(error) => return err!("{label}: cannot be put together: {error}"),
            },
        };
        drop(batches);
        self.make_loaded_table(&batch, misfits, LineOrigin::Parts(origins), label)
    }

    /// Reads rows that were gathered from many files. All columns are in their text. Otherwise like
    /// [`Self::read`]. `root` is the folder with the files of the gathered rows, and `label` is the name of
    /// the rows together.
    pub fn read_rows(
        &mut self,
        root: &Path,
        rows: &SpilledRows,
        label: &str,
    ) -> Result<LoadedTable<'_>, DatasetError> {
        self.ipc.clear();
        let places = RecordOrigins::Files(Origins::new(root, rows, label));
        let part = TablePart { root, slice: &rows.text, item: label };
        let (batch, misfits) = self.load_text(part, places)?;
        let batch = self.project(batch, label)?;
        let all_fit = misfits.count == 0;
        let origin = LineOrigin::Spilled { root: root.to_owned(), rows: rows.clone(), all_fit };
        self.make_loaded_table(&batch, misfits, origin, label)
    }

    fn make_loaded_table(
        &mut self,
        batch: &RecordBatch,
        misfits: Misfits,
        origin: LineOrigin,
        label: &str,
    ) -> Result<LoadedTable<'_>, DatasetError> {
        let rows = batch.num_rows() as u64;
        match ArrowStream::from_batch(batch, &self.schema) {
            Ok(stream) => Ok(LoadedTable {
                ipc: self.ipc.replace(stream),
                rows,
                rejected_count: misfits.count,
                rejected: misfits.named,
                unknown_keys: self.unknown_keys.take(),
                lines: RowLines {
                    format: &self.format,
                    json: self.json.as_ref().map(JsonDecoder::schema),
                    origin,
                    label: label.to_owned(),
                },
            }),
            Err(error) => err!("{label}: cannot be written as Arrow data: {error}"),
        }
    }

    /// Loads a slice of one file, with the columns of its path.
    fn load(&mut self, part: TablePart<'_>) -> Result<(RecordBatch, Misfits), DatasetError> {
        let places = RecordOrigins::File { item: part.item, first_line: part.slice.first_line };
        let (batch, misfits) = self.load_text(part, places)?;
        let Some(path) = &self.path else {
            return Ok((self.project(batch, part.item)?, misfits));
        };
        let Some(values) = path.folder_values(&part.slice.file) else {
            return err!("{}: the path does not match {path}", part.item);
        };
        let rows = batch.num_rows();
        let from_path = values.iter().map(|value| -> ArrayRef {
            let value = Some(value.as_ref()).filter(|value| !value.is_empty());
            Arc::new(StringArray::from_iter(std::iter::repeat_n(value, rows)))
        });
        let columns = batch.columns().iter().cloned().chain(from_path).collect();
        match RecordBatch::try_new(Arc::clone(&self.all), columns) {
            Ok(batch) => Ok((self.project(batch, part.item)?, misfits)),
            Err(error) => err!("{}: the columns of its path cannot be added: {error}", part.item),
        }
    }

    /// Keeps only the columns that the guest receives.
    fn project(&self, batch: RecordBatch, label: &str) -> Result<RecordBatch, DatasetError> {
        let Some(picked) = &self.picked else { return Ok(batch) };
        match batch.project(picked) {
            Ok(batch) => Ok(batch),
            Err(error) => err!("{label}: its columns cannot be chosen: {error}"),
        }
    }

    fn load_text(
        &mut self,
        part: TablePart<'_>,
        places: RecordOrigins<'_>,
    ) -> Result<(RecordBatch, Misfits), DatasetError> {
        let TablePart { root, slice, item } = part;
        if self.format.columns.is_empty() && self.json.is_none() {
            return err!("{item}: the table has no columns");
        }
        let mut text = std::mem::take(&mut self.text);
        let loaded = read_slice(root, slice, &mut text)
            .and_then(|bytes| self.decode(bytes, slice.rows, item, places));
        self.text = text;
        let (batch, misfits) = loaded?;
        let rows = batch.num_rows() as u64;
        if rows + misfits.count != slice.rows {
            return err!(
                "{item} has changed since planning: the part from line {} on held {} records and \
                 now holds {}; run the job on files that no program writes to",
                slice.first_line,
                slice.rows,
                rows + misfits.count,
            );
        }
        Ok((batch, misfits))
    }

    fn decode(
        &mut self,
        text: &[u8],
        rows: u64,
        item: &str,
        mut places: RecordOrigins<'_>,
    ) -> Result<(RecordBatch, Misfits), DatasetError> {
        if self.json.is_some() {
            return self.decode_json(text, rows, item, places);
        }
        if let Ok(valid) = std::str::from_utf8(text) {
            let count = usize::try_from(rows).unwrap_or(usize::MAX).min(text.len());
            let plain = self.plain.as_mut().and_then(|plain| plain.decode(valid, count));
            // The fast path may have read several lines as one field with line ends, although each
            // line is a record.
            if let Some(batch) = plain.filter(|batch| batch.num_rows() as u64 == rows) {
                return Ok((batch, Misfits::default()));
            }
        }
        let picked = self.picked.as_ref();
        let is_wanted = |index: usize| picked.is_none_or(|picked| picked.contains(&index));
        let (columns, misfits) = read_by_records(text, &self.format, is_wanted, &mut places);
        match table(columns, &self.data_schema) {
            Some(batch) => Ok((batch, misfits)),
            None => err!("{item}: its columns are not those of the table"),
        }
    }

    fn decode_json(
        &mut self,
        text: &[u8],
        rows: u64,
        item: &str,
        mut places: RecordOrigins<'_>,
    ) -> Result<(RecordBatch, Misfits), DatasetError> {
        let Some(json) = &mut self.json else { return err!("{item}: is not JSON") };
        json.check_size(text, rows, item)?;
        let first_line = places.first_line();
        let mut misfits = Misfits::default();
        // The offsets of the kept lines, if some lines are refused.
        let mut starts = Vec::new();
        let batch = match json.decode(text, rows) {
            Some(batch) => batch,
            None => {
                let mut counted = 0;
                self.kept.clear();
                for (start, line) in FilledLines::new(text) {
                    match json.misfit(line) {
                        Some(reason) => {
                            misfits.refuse(text, start, reason, &mut places, &mut counted);
                        }
                        None => {
                            self.kept.extend_from_slice(line);
                            self.kept.push(b'\n');
                            starts.push(start);
                            misfits.kept += 1;
                        }
                    }
                }
                match json.decode(&self.kept, misfits.kept) {
                    Some(batch) => batch,
                    None if misfits.kept == 0 => {
                        RecordBatch::new_empty(Arc::clone(&self.data_schema))
                    }
                    None => err!("{item}: its lines can be decoded one by one, and not together")?,
                }
            }
        };
        let unknown = match misfits.count {
            0 => json.unknown_keys(text),
            _ => json.unknown_keys(&self.kept).map(|unknown| {
                let start = starts[FilledLines::new(&self.kept[..unknown.start]).count()];
                UnknownKeyRecords { start, ..unknown }
            }),
        };
        if let Some(UnknownKeyRecords { records, names, start }) = unknown {
            let line = first_line + count_lines(&text[..start], b'\n');
            let more = UnknownKeys { records, names, item: item.to_owned(), line };
            match &mut self.unknown_keys {
                Some(known) => known.add(&more),
                None => self.unknown_keys = Some(more),
            }
        }
        Ok((batch, misfits))
    }
}
