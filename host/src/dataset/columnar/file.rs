//! A file of any kind that has types of its own.

use super::at::At;
use super::columns::Fit;
use super::cut::{Cuts, Part};
use super::guard::caught;
use super::ipc::ArrowFile;
use super::parquet::ParquetFile;
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::sqlite::{Database, Survey};
use crate::dataset::{DatasetError, Found, fail};
use crate::model::{ByteSize, SliceSize, TableKind};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{Schema, SchemaRef};
use std::path::Path;
use std::sync::Arc;

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
        let needed = Fit::new(self.schema()?, columns, "the table")?.needed;
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

    /// Rows from a part on, after so many of it, as a table with `columns`.
    pub(super) fn read(
        &mut self,
        place: (u64, u64),
        rows: u64,
        columns: &SchemaRef,
    ) -> Result<RecordBatch, DatasetError> {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (part, skip, rows) = (number(place.0), number(place.1), number(rows));
        let (fit, batches) = match &mut self.inner {
            Inner::Parquet(file) => {
                let fit = Fit::new(file.schema(), columns, "the table")?;
                let batches = caught(|| file.read(part, skip, rows, &fit.needed))?;
                (fit, batches)
            }
            Inner::Arrow(file) => {
                let fit = Fit::new(file.schema(), columns, "the table")?;
                let batches = caught(|| file.read(part, skip, rows, &fit.needed))?;
                (fit, batches)
            }
            Inner::Sqlite(database, _) => return caught(|| database.read(columns, rows as u64)),
        };
        let fitted = batches.iter().map(|batch| fitted(batch, &fit, columns));
        let fitted = fitted.collect::<Result<Vec<_>, _>>()?;
        let batch = match fitted.as_slice() {
            [only] => only.clone(),
            several => match concat_batches(columns, several) {
                Ok(batch) => batch,
                Err(error) => return fail!("cannot be put together: {error}"),
            },
        };
        if batch.num_rows() != rows {
            return fail!(
                "has changed since planning: {} rows are where {rows} were; run the job on files that \
                 nobody writes to",
                batch.num_rows(),
            );
        }
        Ok(batch)
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

/// A batch of the columns that were needed, as one of the table's.
fn fitted(
    batch: &RecordBatch,
    fit: &Fit,
    columns: &SchemaRef,
) -> Result<RecordBatch, DatasetError> {
    let rows = batch.num_rows();
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.fields().len());
    for (place, field) in fit.places.iter().zip(columns.fields()) {
        let found = place.and_then(|place| fit.needed.binary_search(&place).ok());
        let Some(array) = found.and_then(|at| batch.columns().get(at)) else {
            arrays.push(new_null_array(field.data_type(), rows));
            continue;
        };
        if !field.is_nullable() && array.null_count() > 0 {
            let may_have = found.is_some_and(|at| batch.schema_ref().field(at).is_nullable());
            if !may_have {
                return fail!(
                    "has nulls in column '{}', which says that it has none; write the file anew",
                    field.name(),
                );
            }
            return fail!(
                "has nulls in column '{}', where the first file has none and allows none; set \
                 schema_inference: full",
                field.name(),
            );
        }
        if array.data_type() == field.data_type() {
            arrays.push(Arc::clone(array));
            continue;
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        match cast_with_options(array, field.data_type(), &options) {
            Ok(array) => arrays.push(array),
            Err(error) => {
                return fail!(
                    "column '{}' cannot become {}: {error}",
                    field.name(),
                    field.data_type()
                );
            }
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    match RecordBatch::try_new_with_options(Arc::clone(columns), arrays, &options) {
        Ok(batch) => Ok(batch),
        Err(error) => fail!("cannot become a table: {error}"),
    }
}
