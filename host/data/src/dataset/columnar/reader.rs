//! Reads rows of a file or a database into Arrow IPC, in the worker.

use super::compact::compact;
use super::file::TypedTableFile;
use super::file_reader::FileReader;
use super::fitted::MisfitRows;
use super::schema::from_message;
use crate::dataset::{ArrowStream, DatasetError, err};
use crate::model::{
    AttemptReport, FailedItem, FailureKind, PartitionFormat, TableFormat, TableKind, TableSlice,
};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads rows of files with typed columns into Arrow IPC. Keeps the last file open, with its metadata.
#[derive(Debug)]
pub struct RowReader {
    kind: TableKind,
    /// The query for databases.
    query: Option<String>,
    /// The columns that come from the files' contents.
    file_schema: SchemaRef,
    /// The format of the files' paths. The last columns come from the paths.
    path: Option<PartitionFormat>,
    /// All columns: first those from the contents, then those from the path.
    schema: SchemaRef,
    /// The last file, with its path.
    opened: Option<(PathBuf, TypedTableFile)>,
    ipc: ArrowStream,
}

/// A mini-batch in memory.
#[derive(Debug)]
pub struct LoadedRows<'a> {
    /// A schema, dictionaries, one record batch and an end mark.
    pub ipc: &'a ArrowStream,
    /// The number of rows.
    pub rows: u64,
    /// Where the rows are in their files, in order.
    pub runs: Vec<RowRun>,
    /// How many rows were left out, because the table cannot hold one of their values.
    pub rejected_count: u64,
    /// The first of the rows that were left out.
    pub rejected: Vec<FailedItem>,
}

/// Rows that follow one another in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRun {
    /// The index of the [`RowPart`] that the rows come from.
    pub part: usize,
    /// The index in the file of the first row.
    pub first: u64,
    /// The number of rows.
    pub count: u64,
}

/// Why rows cannot be read, in words for the user.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// A file cannot be read. A retry may succeed.
    #[error(transparent)]
    Unread(DatasetError),
    /// The contents of a file cannot be decoded, or do not fit the table.
    #[error(transparent)]
    Broken(DatasetError),
}

impl RowError {
    /// The same error, with the name of the file before its text.
    fn with_name(self, item: &str) -> Self {
        let with_name = |DatasetError(text)| DatasetError(format!("{item} {text}"));
        match self {
            Self::Unread(error) => Self::Unread(with_name(error)),
            Self::Broken(error) => Self::Broken(with_name(error)),
        }
    }
}

/// Rows of one file.
#[derive(Clone, Copy, Debug)]
pub struct RowPart<'a> {
    /// The input's folder.
    pub root: &'a Path,
    /// The rows of a file in that folder.
    pub slice: &'a TableSlice,
    /// The file's name in messages.
    pub item: &'a str,
}

impl RowReader {
    /// A reader for tables of one format. Fails if the columns in the format cannot be read.
    pub fn new(format: &TableFormat) -> Result<Self, DatasetError> {
        let schema = Arc::new(from_message(&format.schema)?);
        let path = format.path.clone();
        let keys = path.as_ref().map_or(0, |path| path.keys().count());
        let Some(file_columns) = schema.fields().len().checked_sub(keys) else {
            return err!(
                "the table has {} columns and {keys} keys in its path",
                schema.fields().len()
            );
        };
        Ok(Self {
            kind: format.kind,
            query: format.query.clone(),
            file_schema: Arc::new(Schema::new(schema.fields()[..file_columns].to_vec())),
            path,
            schema,
            opened: None,
            ipc: ArrowStream::default(),
        })
    }

    /// Reads rows of one or more files, in that order, into one table.
    ///
    /// # Errors
    /// If a file cannot be read or decoded.
    pub fn read<'a>(
        &mut self,
        parts: impl Iterator<Item = RowPart<'a>>,
    ) -> Result<LoadedRows<'_>, RowError> {
        self.ipc.clear();
        let mut batches = Vec::new();
        let mut runs = Vec::new();
        let mut rejected_count = 0;
        let mut rejected = Vec::new();
        let mut last_item = "";
        for (index, part) in parts.enumerate() {
            let loaded = self.load(part.root, part.slice);
            let (batch, misfits) = loaded.map_err(|error| error.with_name(part.item))?;
            runs.extend(runs_between(index, part.slice, &misfits));
            rejected_count += misfits.len() as u64;
            let room = AttemptReport::MAX_FAILED_ITEMS - rejected.len();
            rejected.extend(failed_items(misfits, &part).take(room));
            let batch = self.with_path(batch, part.slice).map_err(RowError::Broken);
            batches.push(batch.map_err(|error| error.with_name(part.item))?);
            last_item = part.item;
        }
        let broken = |text: String| RowError::Broken(DatasetError(format!("{last_item} {text}")));
        let batch = match batches.as_slice() {
            [only] => compact(only),
            several => match concat_batches(&self.schema, several) {
                Ok(batch) => compact(&batch),
                Err(error) => {
                    return Err(broken(format!("and other files cannot be joined: {error}")));
                }
            },
        };
        drop(batches);
        let rows = batch.num_rows() as u64;
        match ArrowStream::from_batch(&batch, &self.schema) {
            Ok(stream) => {
                let ipc = self.ipc.replace(stream);
                Ok(LoadedRows { ipc, rows, runs, rejected_count, rejected })
            }
            Err(error) => Err(broken(format!("cannot be written as Arrow data: {error}"))),
        }
    }

    fn load(
        &mut self,
        root: &Path,
        slice: &TableSlice,
    ) -> Result<(RecordBatch, MisfitRows), RowError> {
        let path = root.join(&slice.file);
        let kept = self.opened.take();
        let kept = kept.filter(|(kept, file)| *kept == path && file.is_unchanged());
        let (reader, file) = match kept {
            Some((_, file)) => (file.reader().clone(), Ok(file)),
            None => {
                let opened = FileReader::open(&path).map_err(RowError::Unread)?;
                let reader = opened.0.clone();
                (
                    reader,
                    TypedTableFile::from_reader(self.kind, self.query.as_deref(), &path, opened),
                )
            }
        };
        let start = (slice.part, slice.skip);
        let read =
            file.and_then(|mut file| Ok((file.read(start, slice.rows, &self.file_schema)?, file)));
        // After an error the file is not kept: the next attempt opens it again.
        match read {
            Ok((loaded, file)) => {
                self.opened = Some((path, file));
                Ok(loaded)
            }
            Err(error) if reader.has_failed() => Err(RowError::Unread(error)),
            Err(error) => Err(RowError::Broken(error)),
        }
    }

    /// Adds to the batch the columns that come from the file's path.
    fn with_path(
        &self,
        batch: RecordBatch,
        slice: &TableSlice,
    ) -> Result<RecordBatch, DatasetError> {
        let Some(path) = &self.path else { return Ok(batch) };
        let Some(values) = path.folder_values(&slice.file) else {
            return err!("has a path that does not match {path}");
        };
        let rows = batch.num_rows();
        let from_path = values.iter().map(|value| -> ArrayRef {
            let value = Some(value.as_ref()).filter(|value: &&str| !value.is_empty());
            Arc::new(StringArray::from_iter(std::iter::repeat_n(value, rows)))
        });
        let columns = batch.columns().iter().cloned().chain(from_path).collect();
        match RecordBatch::try_new(Arc::clone(&self.schema), columns) {
            Ok(batch) => Ok(batch),
            Err(error) => err!("cannot get the columns from its path: {error}"),
        }
    }
}

/// The rows of a part between the rows that are left out.
fn runs_between(part: usize, slice: &TableSlice, misfits: &MisfitRows) -> Vec<RowRun> {
    let run_ends = misfits.keys().map(|&row| row as u64).chain([slice.rows]);
    let mut next = 0;
    let runs = run_ends.map(|end| {
        let run = RowRun { part, first: slice.first_row + next, count: end - next };
        next = end + 1;
        run
    });
    runs.filter(|run| run.count > 0).collect()
}

/// The rows that are left out and have a reason, in the form that reports need.
fn failed_items(misfits: MisfitRows, part: &RowPart<'_>) -> impl Iterator<Item = FailedItem> {
    let item = part.item.to_owned();
    let first = part.slice.first_row;
    misfits.into_iter().filter_map(move |(row, reason)| {
        let row = Some(first.saturating_add(row as u64).saturating_add(1));
        let item = item.clone();
        let kind = FailureKind::BadInput;
        Some(FailedItem { item, line: None, row, reason: reason?, kind })
    })
}
