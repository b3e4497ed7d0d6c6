//! A file in a format whose columns have types: Parquet, Arrow or SQLite.

use super::columns::ColumnFit;
use super::cut::{FileSlices, SourcePart};
use super::file_reader::FileReader;
use super::resolution::Resolution;
use super::typed::{self, SelectedRows, TypedFile};
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, FileVersion, err};
use crate::model::{ByteSize, SliceSize, TableKind};
use arrow::datatypes::{Schema, SchemaRef};
use std::path::Path;

/// An open Parquet file, Arrow file or database. Opening reads only the metadata. Error messages continue a
/// sentence that begins with the file's name.
#[derive(Debug)]
pub struct TypedTableFile {
    reader: FileReader,
    /// The version of the file when it was opened.
    found: FileVersion,
    kind: TableKind,
    inner: Box<dyn TypedFile>,
}

impl TypedTableFile {
    /// Opens a file of this kind. `query` is the query for a database. Fails if the file cannot be read, or
    /// is of another kind.
    pub fn open(kind: TableKind, query: Option<&str>, path: &Path) -> Result<Self, DatasetError> {
        Self::from_reader(kind, query, path, FileReader::open(path)?)
    }

    /// Like [`Self::open`], for a file that is already open.
    pub(super) fn from_reader(
        kind: TableKind,
        query: Option<&str>,
        path: &Path,
        (reader, found): (FileReader, FileVersion),
    ) -> Result<Self, DatasetError> {
        if reader.length() == 0 {
            return err!("is empty, without even a schema; remove it, or write the file again");
        }
        let inner = typed::open(kind, query, path, reader.clone())?;
        Ok(Self { reader, found, kind, inner })
    }

    /// All columns. Fails if a database cannot be queried.
    pub fn schema(&mut self) -> Result<&SchemaRef, DatasetError> {
        self.inner.schema()
    }

    /// All columns of the file, with the types that `table` needs: its 96-bit times may be in
    /// microseconds.
    pub fn schema_in(&mut self, table: &Schema) -> Result<SchemaRef, DatasetError> {
        self.inner.schema_in(table)
    }

    /// Adds to `resolution` which units the 96-bit times of the `wanted` columns (`None`: all) need. Reads
    /// all rows if `all` is true, or else only the first ones. Fails if the values cannot be read.
    pub fn resolve_times(
        &mut self,
        resolution: &mut Resolution,
        wanted: Option<&[String]>,
        all: bool,
    ) -> Result<(), DatasetError> {
        self.inner.resolve_times(resolution, wanted, all)
    }

    /// The version of the file when it was opened.
    pub fn found(&self) -> FileVersion {
        self.found
    }

    /// The reader of the file's bytes.
    pub(super) fn reader(&self) -> &FileReader {
        &self.reader
    }

    /// Whether the open file is unchanged.
    pub fn is_unchanged(&self) -> bool {
        self.reader.current_version() == Some(self.found)
    }

    /// Cuts the rows into slices of this size. Only the bytes of `columns` count towards the size.
    /// Each slice refers to the file as `file`. All rows of a database are in one slice. Fails if a
    /// row is too large, or if a column cannot be read or does not fit `columns`.
    pub fn cut(
        &mut self,
        columns: &Schema,
        size: SliceSize,
        file: String,
    ) -> Result<FileSlices, DatasetError> {
        let schema = self.schema_in(columns)?;
        let needed = ColumnFit::new(&schema, columns, "the table")?.needed;
        let parts = self.inner.parts(&needed)?;
        let size = if self.kind.is_whole() { SliceSize::Bytes(MAX_SLICE) } else { size };
        let is_huge = |part: &&SourcePart| part.rows > 0 && part.bytes / part.rows > MAX_SLICE;
        if let Some(part) = parts.iter().find(is_huge) {
            return err!(
                "has rows of about {}, and a mini-batch takes at most {}, because a worker holds it in \
                 memory; leave long columns out with the key `columns`, or split the rows",
                ByteSize(part.bytes / part.rows),
                ByteSize(MAX_SLICE),
            );
        }
        let missing = columns.fields().len() - needed.len();
        let with_missing = |part: SourcePart| {
            // Columns that the file lacks are filled with nulls, which also take memory.
            let bytes = part.bytes.saturating_add(part.rows.saturating_mul(missing as u64));
            SourcePart { bytes, ..part }
        };
        Ok(FileSlices::new(file, parts.into_iter().map(with_missing).collect(), size))
    }

    /// Reads `rows` rows as a table with `columns`. Begins in part `part`, after its first `skip`
    /// rows. Also returns the indexes of the rows that are left out, counted from the first row
    /// read.
    pub(super) fn read(
        &mut self,
        (part, skip): (u64, u64),
        rows: u64,
        columns: &SchemaRef,
    ) -> Result<SelectedRows, DatasetError> {
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        self.inner.read(index(part), index(skip), index(rows), columns)
    }
}
