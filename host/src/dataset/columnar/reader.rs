//! The worker's side: from rows of a file to Arrow IPC.

use super::file::TableFile;
use super::schema::from_message;
use crate::dataset::csv::write_ipc;
use crate::dataset::{DatasetError, fail};
use crate::model::{PartitionFormat, TableFormat, TableKind, TableSlice};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::{can_cast_types, cast, concat_batches};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads rows of Parquet or Arrow files into Arrow IPC. Keeps the last file open, with what describes it,
/// and its buffer.
#[derive(Debug)]
pub struct RowReader {
    kind: TableKind,
    /// The columns of the files.
    data: SchemaRef,
    /// Gives the last columns, from the files' paths.
    path: Option<PartitionFormat>,
    /// All columns.
    schema: SchemaRef,
    opened: Option<(PathBuf, TableFile)>,
    ipc: Vec<u8>,
}

/// A mini-batch in memory.
#[derive(Debug)]
pub struct LoadedRows<'a> {
    /// An Arrow IPC stream: schema, dictionaries, one record batch, end.
    pub ipc: &'a [u8],
    /// Rows in it.
    pub rows: u64,
}

/// Rows of one file.
#[derive(Clone, Copy, Debug)]
pub struct RowPart<'a> {
    /// The input's folder.
    pub root: &'a Path,
    /// The rows of a file below it.
    pub slice: &'a TableSlice,
    /// The file's name in messages.
    pub item: &'a str,
}

impl RowReader {
    /// A reader for tables of one format. Fails if its columns cannot be read.
    pub fn new(format: &TableFormat) -> Result<Self, DatasetError> {
        let schema = Arc::new(from_message(&format.schema)?);
        let path = format.path.clone();
        let keys = path.as_ref().map_or(0, |path| path.keys().count());
        let Some(in_files) = schema.fields().len().checked_sub(keys) else {
            return fail!(
                "the table has {} columns and {keys} keys in its path",
                schema.fields().len()
            );
        };
        let data = Arc::new(Schema::new(schema.fields()[..in_files].to_vec()));
        Ok(Self { kind: format.kind, data, path, schema, opened: None, ipc: Vec::new() })
    }

    /// Reads rows of one or more files, in their order, into one table. Fails if a file cannot be read or
    /// decoded.
    pub fn read<'a>(
        &mut self,
        parts: impl Iterator<Item = RowPart<'a>>,
    ) -> Result<LoadedRows<'_>, DatasetError> {
        let mut batches = Vec::new();
        let mut label = "";
        for part in parts {
            let named = |DatasetError(what)| DatasetError(format!("{} {what}", part.item));
            let batch = self.load(part.root, part.slice).map_err(named)?;
            batches.push(self.with_path(batch, part.slice).map_err(named)?);
            label = part.item;
        }
        let batch = match batches.as_slice() {
            [only] => compact(only),
            several => match concat_batches(&self.schema, several) {
                Ok(batch) => compact(&batch),
                Err(error) => return fail!("{label} and others cannot be put together: {error}"),
            },
        };
        drop(batches);
        let rows = batch.num_rows() as u64;
        match write_ipc(&batch, &self.schema, &mut self.ipc) {
            Ok(()) => Ok(LoadedRows { ipc: &self.ipc, rows }),
            Err(error) => fail!("{label} cannot be written as Arrow data: {error}"),
        }
    }

    fn load(&mut self, root: &Path, slice: &TableSlice) -> Result<RecordBatch, DatasetError> {
        let path = root.join(&slice.file);
        let kept = self.opened.take();
        let mut file = match kept.filter(|(kept, file)| *kept == path && file.is_unchanged()) {
            Some((_, file)) => file,
            None => TableFile::open(self.kind, &path)?,
        };
        // A file that could not be read is opened anew the next time.
        let batch = file.read((slice.part, slice.skip), slice.rows, &self.data)?;
        self.opened = Some((path, file));
        Ok(batch)
    }

    /// The batch with the columns of its file's path.
    fn with_path(
        &self,
        batch: RecordBatch,
        slice: &TableSlice,
    ) -> Result<RecordBatch, DatasetError> {
        let Some(path) = &self.path else { return Ok(batch) };
        let Some(values) = path.folder_values(&slice.file) else {
            return fail!("lies at a path that does not match {path}");
        };
        let rows = batch.num_rows();
        let from_path = values.iter().map(|value| -> ArrayRef {
            let value = Some(value.as_ref()).filter(|value: &&str| !value.is_empty());
            Arc::new(StringArray::from_iter(std::iter::repeat_n(value, rows)))
        });
        let columns = batch.columns().iter().cloned().chain(from_path).collect();
        match RecordBatch::try_new(Arc::clone(&self.schema), columns) {
            Ok(batch) => Ok(batch),
            Err(error) => fail!("cannot get the columns of its path: {error}"),
        }
    }
}

/// The same rows without what only others need: a slice of views or of dictionary keys holds the texts of
/// all rows that it was cut from.
fn compact(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|array| compacted(array).unwrap_or(Arc::clone(array)));
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap_or_else(|_| batch.clone())
}

fn compacted(array: &ArrayRef) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View => Some(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Some(Arc::new(array.as_binary_view().gc())),
        DataType::Dictionary(_, values) => {
            let known = array.as_any_dictionary_opt()?.values().len();
            let both = can_cast_types(array.data_type(), values)
                && can_cast_types(values, array.data_type());
            if known <= array.len().saturating_mul(2) || !both {
                return None;
            }
            cast(array, values).and_then(|plain| cast(&plain, array.data_type())).ok()
        }
        _ => None,
    }
}
