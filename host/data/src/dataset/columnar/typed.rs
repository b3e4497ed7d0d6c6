//! The trait that each format with typed columns must implement: [`TypedFile`]. [`open`] chooses the format.

use super::columns::ColumnFit;
use super::cut::SourcePart;
use super::file_reader::FileReader;
use super::fitted::{MisfitRows, fitted};
use super::guard::caught;
use super::ipc::ArrowFile;
use super::parquet::ParquetFile;
use super::resolution::Resolution;
use crate::dataset::sqlite::{Database, QuerySummary};
use crate::dataset::{DatasetError, err};
use crate::model::TableKind;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use std::fmt::Debug;
use std::path::Path;

/// Rows of a file as a table, and the rows that are left out, counted from 0.
pub(super) type SelectedRows = (RecordBatch, MisfitRows);

/// An open file in a format with typed columns. Opening reads only the metadata. Error messages continue a
/// sentence that begins with the file's name. Implementations call readers that may panic through [`caught`].
pub(super) trait TypedFile: Debug + Send {
    /// All columns. Fails if they cannot be determined.
    fn schema(&mut self) -> Result<&SchemaRef, DatasetError>;

    /// All columns, with the types that they have in this table.
    fn schema_in(&mut self, _table: &Schema) -> Result<SchemaRef, DatasetError> {
        self.schema().cloned()
    }

    /// Adds to `resolution` which units the times of the `wanted` columns (`None`: all) need. Reads all rows
    /// if `all` is true, or else only the first ones. Does nothing unless the format has times whose type
    /// does not state their unit.
    fn resolve_times(
        &mut self,
        _resolution: &mut Resolution,
        _wanted: Option<&[String]>,
        _all: bool,
    ) -> Result<(), DatasetError> {
        Ok(())
    }

    /// The parts in which the rows can be read, with the size of the `needed` columns.
    fn parts(&mut self, needed: &[usize]) -> Result<Vec<SourcePart>, DatasetError>;

    /// Reads `rows` rows as a table. Begins in this part, after its first `skip` rows. Fails if the file has
    /// fewer rows.
    fn read(
        &mut self,
        part: usize,
        skip: usize,
        rows: usize,
        table: &SchemaRef,
    ) -> Result<SelectedRows, DatasetError>;
}

/// Opens a file of this kind. `query` is the query for a database. Fails if the file cannot be read, or is of
/// another kind.
pub(super) fn open(
    kind: TableKind,
    query: Option<&str>,
    path: &Path,
    reader: FileReader,
) -> Result<Box<dyn TypedFile>, DatasetError> {
    caught(|| {
        Ok(match kind {
            TableKind::Parquet => Box::new(ParquetFile::open(reader)?) as Box<dyn TypedFile>,
            TableKind::Arrow => Box::new(ArrowFile::open(reader)?),
            TableKind::Sqlite => {
                let database = Database::open(path, query.unwrap_or_default())?;
                Box::new(QueriedDatabase { database, summary: None })
            }
            TableKind::Csv | TableKind::Jsonl => {
                return err!("is text; {} files are not opened this way", kind.name());
            }
        })
    })
}

impl TypedFile for ParquetFile {
    fn schema(&mut self) -> Result<&SchemaRef, DatasetError> {
        Ok(ParquetFile::schema(self))
    }

    fn schema_in(&mut self, table: &Schema) -> Result<SchemaRef, DatasetError> {
        Ok(ParquetFile::schema_in(self, table))
    }

    fn resolve_times(
        &mut self,
        resolution: &mut Resolution,
        wanted: Option<&[String]>,
        all: bool,
    ) -> Result<(), DatasetError> {
        caught(|| resolution.learn(self, wanted, all))
    }

    fn parts(&mut self, needed: &[usize]) -> Result<Vec<SourcePart>, DatasetError> {
        caught(|| ParquetFile::parts(self, needed))
    }

    fn read(
        &mut self,
        part: usize,
        skip: usize,
        rows: usize,
        table: &SchemaRef,
    ) -> Result<SelectedRows, DatasetError> {
        let schema = ParquetFile::schema_in(self, table);
        as_table(&schema, table, rows, |needed| ParquetFile::read(self, part, skip, rows, needed))
    }
}

impl TypedFile for ArrowFile {
    fn schema(&mut self) -> Result<&SchemaRef, DatasetError> {
        Ok(ArrowFile::schema(self))
    }

    fn parts(&mut self, needed: &[usize]) -> Result<Vec<SourcePart>, DatasetError> {
        caught(|| ArrowFile::parts(self, needed))
    }

    fn read(
        &mut self,
        part: usize,
        skip: usize,
        rows: usize,
        table: &SchemaRef,
    ) -> Result<SelectedRows, DatasetError> {
        let schema = SchemaRef::clone(ArrowFile::schema(self));
        as_table(&schema, table, rows, |needed| ArrowFile::read(self, part, skip, rows, needed))
    }
}

/// A database with its query. The result is one part.
#[derive(Debug)]
struct QueriedDatabase {
    database: Database,
    /// The columns and the size of the result. `None` until they are needed.
    summary: Option<QuerySummary>,
}

impl QueriedDatabase {
    fn summary(&mut self) -> Result<&mut QuerySummary, DatasetError> {
        let summary = match self.summary.take() {
            Some(summary) => summary,
            None => caught(|| self.database.survey())?,
        };
        Ok(self.summary.insert(summary))
    }
}

impl TypedFile for QueriedDatabase {
    fn schema(&mut self) -> Result<&SchemaRef, DatasetError> {
        Ok(&self.summary()?.schema)
    }

    fn parts(&mut self, _needed: &[usize]) -> Result<Vec<SourcePart>, DatasetError> {
        let &mut QuerySummary { rows, bytes, .. } = self.summary()?;
        Ok(vec![SourcePart { rows, bytes, ..SourcePart::default() }])
    }

    fn read(
        &mut self,
        _part: usize,
        _skip: usize,
        rows: usize,
        table: &SchemaRef,
    ) -> Result<SelectedRows, DatasetError> {
        Ok((caught(|| self.database.read(table, rows as u64))?, MisfitRows::new()))
    }
}

/// Reads rows of a file with this schema as a table. `read` receives the columns that the table needs, and
/// returns the rows. Fails if `read` returns another number of rows than `rows`.
fn as_table(
    schema: &SchemaRef,
    table: &SchemaRef,
    rows: usize,
    read: impl FnOnce(&[usize]) -> Result<Vec<RecordBatch>, DatasetError>,
) -> Result<SelectedRows, DatasetError> {
    let fit = ColumnFit::new(schema, table, "the table")?;
    let batches = caught(|| read(&fit.needed))?;
    let mut found = 0;
    let mut converted = Vec::with_capacity(batches.len());
    let mut misfits = MisfitRows::new();
    for batch in &batches {
        let (fit_batch, batch_misfits) = caught(|| fitted(batch, schema, &fit, table))?;
        converted.push(fit_batch);
        misfits.extend(batch_misfits.into_iter().map(|(row, reason)| (found + row, reason)));
        found += batch.num_rows();
    }
    if found != rows {
        return err!(
            "has changed since planning: it gives {found} rows instead of {rows}; run the job on files that \
             no program writes to"
        );
    }
    let batch = match converted.as_slice() {
        [only] => only.clone(),
        several => match concat_batches(table, several) {
            Ok(batch) => batch,
            Err(error) => return err!("has record batches that cannot be joined: {error}"),
        },
    };
    Ok((batch, misfits))
}
