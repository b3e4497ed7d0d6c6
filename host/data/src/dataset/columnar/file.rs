//! A file of any kind that has types of its own.

use super::at::At;
use super::columns::Fit;
use super::cut::{Cuts, Part};
use super::fitted::{Misfits, fitted};
use super::guard::caught;
use super::ipc::ArrowFile;
use super::parquet::ParquetFile;
use super::resolution::Resolution;
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::sqlite::{Database, Survey};
use crate::dataset::{DatasetError, Found, fail};
use crate::model::{ByteSize, SliceSize, TableKind};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use std::path::Path;

/// An open Parquet or Arrow file, of which only what describes it has been read, or a database. All it says
/// of what is wrong with the file goes on from the file's name.
#[derive(Debug)]
pub struct TableFile {
    at: At,
    found: Found,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Parquet(Box<ParquetFile>),
    Arrow(Box<ArrowFile>),
    /// With what its result is like, once that was asked for.
    Sqlite(Box<Database>, Option<Survey>),
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
        let opened = at.clone();
        let inner = caught(|| match kind {
            TableKind::Parquet => {
                ParquetFile::open(opened).map(|file| Inner::Parquet(Box::new(file)))
            }
            TableKind::Arrow => ArrowFile::open(opened).map(|file| Inner::Arrow(Box::new(file))),
            TableKind::Sqlite => {
                let database = Database::open(path, query.unwrap_or_default())?;
                Ok(Inner::Sqlite(Box::new(database), None))
            }
            TableKind::Csv | TableKind::Jsonl => fail!("is text; {} is not read so", kind.name()),
        })?;
        Ok(Self { at, found, inner })
    }

    /// All its columns. Fails if a database cannot be queried.
    pub fn schema(&mut self) -> Result<&SchemaRef, DatasetError> {
        match &mut self.inner {
            Inner::Parquet(file) => Ok(file.schema()),
            Inner::Arrow(file) => Ok(file.schema()),
            Inner::Sqlite(database, survey) => Ok(&surveyed(database, survey)?.schema),
        }
    }

    /// All its columns, as they become those of a table: times of 96 bits may be in microseconds there.
    pub fn schema_in(&mut self, table: &Schema) -> Result<SchemaRef, DatasetError> {
        match &self.inner {
            Inner::Parquet(file) => Ok(file.schema_in(table)),
            _ => self.schema().cloned(),
        }
    }

    /// Adds what the values of the `wanted` columns (none for all) tell of their resolution, of `all` rows or of the
    /// first. Fails if they cannot be read.
    pub fn look_at_times(
        &mut self,
        resolution: &mut Resolution,
        wanted: Option<&[String]>,
        all: bool,
    ) -> Result<(), DatasetError> {
        match &mut self.inner {
            Inner::Parquet(file) => caught(|| resolution.look(file, wanted, all)),
            _ => Ok(()),
        }
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
        let inner = &mut self.inner;
        let (parts, size) = caught(|| match inner {
            Inner::Parquet(file) => Ok((file.parts(&needed)?, size)),
            Inner::Arrow(file) => Ok((file.parts(&needed)?, size)),
            Inner::Sqlite(database, survey) => {
                let &mut Survey { rows, bytes, .. } = surveyed(database, survey)?;
                Ok((vec![Part { rows, bytes, ..Part::default() }], SliceSize::Bytes(MAX_SLICE)))
            }
        })?;
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
    ) -> Result<(RecordBatch, Misfits), DatasetError> {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (part, skip, rows) = (number(place.0), number(place.1), number(rows));
        let (schema, fit, batches) = match &mut self.inner {
            Inner::Parquet(file) => {
                let schema = file.schema_in(columns);
                let fit = Fit::new(&schema, columns, "the table")?;
                let batches = caught(|| file.read(part, skip, rows, &fit.needed))?;
                (schema, fit, batches)
            }
            Inner::Arrow(file) => {
                let schema = SchemaRef::clone(file.schema());
                let fit = Fit::new(&schema, columns, "the table")?;
                let batches = caught(|| file.read(part, skip, rows, &fit.needed))?;
                (schema, fit, batches)
            }
            Inner::Sqlite(database, _) => {
                let batch = caught(|| database.read(columns, rows as u64))?;
                return Ok((batch, Misfits::new()));
            }
        };
        let mut found = 0;
        let mut table = Vec::with_capacity(batches.len());
        let mut misfits = Misfits::new();
        for batch in &batches {
            let (fit_batch, here) = caught(|| fitted(batch, &schema, &fit, columns))?;
            table.push(fit_batch);
            misfits.extend(here.into_iter().map(|(row, reason)| (found + row, reason)));
            found += batch.num_rows();
        }
        if found != rows {
            return fail!(
                "has changed since planning: {found} rows are where {rows} were; run the job on files that \
                 nobody writes to"
            );
        }
        let batch = match table.as_slice() {
            [only] => only.clone(),
            several => match concat_batches(columns, several) {
                Ok(batch) => batch,
                Err(error) => return fail!("cannot be put together: {error}"),
            },
        };
        Ok((batch, misfits))
    }
}

/// What the result of a database is like, which is found out once.
fn surveyed<'s>(
    database: &mut Database,
    survey: &'s mut Option<Survey>,
) -> Result<&'s mut Survey, DatasetError> {
    let known = match survey.take() {
        Some(known) => known,
        None => caught(|| database.survey())?,
    };
    Ok(survey.insert(known))
}
