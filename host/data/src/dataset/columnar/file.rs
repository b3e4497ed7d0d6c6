//! A file of any kind that has types of its own.

use super::at::At;
use super::columns::Fit;
use super::cut::{Cuts, Part};
use super::resolution::Resolution;
use super::typed::{self, Rows, TypedFile};
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, Found, fail};
use crate::model::{ByteSize, SliceSize, TableKind};
use arrow::datatypes::{Schema, SchemaRef};
use std::path::Path;

/// An open Parquet or Arrow file, of which only what describes it has been read, or a database. All it says
/// of what is wrong with the file goes on from the file's name.
#[derive(Debug)]
pub struct TableFile {
    at: At,
    found: Found,
    kind: TableKind,
    inner: Box<dyn TypedFile>,
}

impl TableFile {
    /// Opens a file of that kind; a database is asked that query. Fails if it cannot be read, or is no such
    /// file.
    pub fn open(kind: TableKind, query: Option<&str>, path: &Path) -> Result<Self, DatasetError> {
        let (at, found) = At::open(path)?;
        Self::of(kind, query, path, (at, found))
    }

    /// The same of a file that is open.
    pub(super) fn of(
        kind: TableKind,
        query: Option<&str>,
        path: &Path,
        (at, found): (At, Found),
    ) -> Result<Self, DatasetError> {
        if at.length() == 0 {
            return fail!("is empty, without as much as a schema; remove it, or write it anew");
        }
        let inner = typed::open(kind, query, path, at.clone())?;
        Ok(Self { at, found, kind, inner })
    }

    /// All its columns. Fails if a database cannot be queried.
    pub fn schema(&mut self) -> Result<&SchemaRef, DatasetError> {
        self.inner.schema()
    }

    /// All its columns, as they become those of a table: times of 96 bits may be in microseconds there.
    pub fn schema_in(&mut self, table: &Schema) -> Result<SchemaRef, DatasetError> {
        self.inner.schema_in(table)
    }

    /// Adds what the values of the `wanted` columns (none for all) tell of their resolution, of `all` rows or of the
    /// first. Fails if they cannot be read.
    pub fn look_at_times(
        &mut self,
        resolution: &mut Resolution,
        wanted: Option<&[String]>,
        all: bool,
    ) -> Result<(), DatasetError> {
        self.inner.look_at_times(resolution, wanted, all)
    }

    /// What the file was like when it was opened.
    pub fn found(&self) -> Found {
        self.found
    }

    /// The file itself.
    pub(super) fn at(&self) -> &At {
        &self.at
    }

    /// Whether the open file is as it was.
    pub fn is_unchanged(&self) -> bool {
        self.at.found() == Some(self.found)
    }

    /// Cuts its rows into slices of that size, counted in `columns`, and gives them the name `file`; those of
    /// a database are not cut. Fails if a column is in a form that cannot be read, or does not fit `columns`.
    pub fn cut(
        &mut self,
        columns: &Schema,
        size: SliceSize,
        file: String,
    ) -> Result<Cuts, DatasetError> {
        let schema = self.schema_in(columns)?;
        let needed = Fit::new(&schema, columns, "the table")?.needed;
        let parts = self.inner.parts(&needed)?;
        let size = if self.kind.is_whole() { SliceSize::Bytes(MAX_SLICE) } else { size };
        let is_huge = |part: &&Part| part.rows > 0 && part.bytes / part.rows > MAX_SLICE;
        if let Some(part) = parts.iter().find(is_huge) {
            return fail!(
                "has rows of about {}, and a mini-batch takes at most {}, as a worker holds it in \
                 memory; leave long columns out with columns, or divide the rows",
                ByteSize(part.bytes / part.rows),
                ByteSize(MAX_SLICE),
            );
        }
        let nulls = columns.fields().len() - needed.len();
        let wider = |part: Part| {
            // Columns that the file lacks are made.
            let bytes = part.bytes.saturating_add(part.rows.saturating_mul(nulls as u64));
            Part { bytes, ..part }
        };
        Ok(Cuts::new(file, parts.into_iter().map(wider).collect(), size))
    }

    /// Rows from a part on, after so many of it, as a table with `columns`, and which of them have no part in it,
    /// counted from 0.
    pub(super) fn read(
        &mut self,
        place: (u64, u64),
        rows: u64,
        columns: &SchemaRef,
    ) -> Result<Rows, DatasetError> {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let part = number(place.0);
        let skip = number(place.1);
        let rows = number(rows);
        self.inner.read(part, skip, rows, columns)
    }
}
