//! A file in any format whose columns have types.

use super::columns::ColumnFit;
use super::cut::{FileSlices, SourcePart};
use super::file_reader::FileReader;
use super::resolution::Resolution;
use super::typed::{self, SelectedRows, TypedFile};
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, FileVersion, fail};
use crate::model::{ByteSize, SliceSize, TableKind};
use arrow::datatypes::{Schema, SchemaRef};
use std::path::Path;

/// An open Parquet or Arrow file, of which only the metadata has been read, or a database. Error messages
/// continue a sentence that begins with the file's name.
#[derive(Debug)]
pub struct TypedTableFile {
    at: FileReader,
    found: FileVersion,
    kind: TableKind,
    inner: Box<dyn TypedFile>,
}

impl TypedTableFile {
    /// Opens a file of this kind. `query` is the query for a database. Fails if the file cannot be read, or
    /// is of another kind.
    pub fn open(kind: TableKind, query: Option<&str>, path: &Path) -> Result<Self, DatasetError> {
        let (at, found) = FileReader::open(path)?;
        Self::of(kind, query, path, (at, found))
    }

    /// Like `open`, for a file that is already open.
    pub(super) fn of(
        kind: TableKind,
        query: Option<&str>,
        path: &Path,
        (at, found): (FileReader, FileVersion),
    ) -> Result<Self, DatasetError> {
        if at.length() == 0 {
            return fail!("is empty, without even a schema; remove it, or write it anew");
        }
        let inner = typed::open(kind, query, path, at.clone())?;
        Ok(Self { at, found, kind, inner })
    }

    /// All columns. Fails if a database cannot be queried.
    pub fn schema(&mut self) -> Result<&SchemaRef, DatasetError> {
        self.inner.schema()
    }

    /// All columns, with the types that they have in a table: there, 96-bit times may be in microseconds.
    pub fn schema_in(&mut self, table: &Schema) -> Result<SchemaRef, DatasetError> {
        self.inner.schema_in(table)
    }

    /// Adds what the values of the `wanted` columns (`None`: all) show about their resolution, of `all` rows
    /// or of the first ones. Fails if they cannot be read.
    pub fn look_at_times(
        &mut self,
        resolution: &mut Resolution,
        wanted: Option<&[String]>,
        all: bool,
    ) -> Result<(), DatasetError> {
        self.inner.look_at_times(resolution, wanted, all)
    }

    /// The state of the file when it was opened.
    pub fn found(&self) -> FileVersion {
        self.found
    }

    /// The file itself.
    pub(super) fn at(&self) -> &FileReader {
        &self.at
    }

    /// Whether the open file is unchanged.
    pub fn is_unchanged(&self) -> bool {
        self.at.found() == Some(self.found)
    }

    /// Cuts the rows into slices of this size, counting only `columns`. The slices name the file `file`. A
    /// database is not cut. Fails if a row is too large, or if a column is in a form that cannot be read or
    /// does not fit `columns`.
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
            return fail!(
                "has rows of about {}, and a mini-batch takes at most {}, as a worker holds it in \
                 memory; leave long columns out with columns, or divide the rows",
                ByteSize(part.bytes / part.rows),
                ByteSize(MAX_SLICE),
            );
        }
        let nulls = columns.fields().len() - needed.len();
        let wider = |part: SourcePart| {
            // Columns that the file lacks are filled with nulls, which take memory, too.
            let bytes = part.bytes.saturating_add(part.rows.saturating_mul(nulls as u64));
            SourcePart { bytes, ..part }
        };
        Ok(FileSlices::new(file, parts.into_iter().map(wider).collect(), size))
    }

    /// Reads rows as a table with `columns`. `place` is a part, and the number of its rows to skip. Also
    /// returns which rows are left out, counted from 0.
    pub(super) fn read(
        &mut self,
        place: (u64, u64),
        rows: u64,
        columns: &SchemaRef,
    ) -> Result<SelectedRows, DatasetError> {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let part = number(place.0);
        let skip = number(place.1);
        let rows = number(rows);
        self.inner.read(part, skip, rows, columns)
    }
}
