//! Makes the output file from the rows that were appended while the job ran. These rows form an
//! Arrow IPC stream. They are untrusted: at a job's end, the caller must be behind the process
//! wall.

use super::appended::Messages;
use super::columns::values_schema;
use super::dictionaries::Dictionaries;
use super::table_error::{AppendedRowsError, FinishError};
use crate::model::{Compression, OutputFormat, OutputKind};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic;
use parquet::file::properties::WriterProperties;
use std::io::{BufWriter, Read, Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes that are written at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// The most rows and bytes of a row group in a Parquet file. A row group is kept in memory until it is
/// written.
const MAX_ROW_GROUP: (usize, usize) = (1 << 20, 64 << 20);
/// The most rows and bytes of a record batch in an Arrow file. Smaller batches are combined, because a
/// mini-batch may have few rows.
const MAX_BATCH: (usize, usize) = (1 << 16, 16 << 20);

/// Writes the output file. `rows` is the expected number of rows. The number is checked because a truncated
/// stream may look complete.
///
/// # Errors
/// If the rows cannot be read, or the file cannot be written.
pub fn convert_appended_rows<S: Read + Seek, T: Write + Send>(
    source: S,
    target: T,
    format: &OutputFormat,
    rows: u64,
) -> Result<(), FinishError> {
    let make = AssertUnwindSafe(|| AppendedRows::new(source, format, rows)?.write(target));
    // As with a guest's table, a panic must not end the process: these bytes may come from a compromised
    // worker.
    let made = catch_unwind(make);
    made.unwrap_or(Err(FinishError::Read(AppendedRowsError::Contradiction)))
}

/// The appended rows, and how to write them into a file.
struct AppendedRows<'a, S> {
    source: S,
    format: &'a OutputFormat,
    rows: u64,
    schema: SchemaRef,
}

impl<'a, S: Read + Seek> AppendedRows<'a, S> {
    fn new(mut source: S, format: &'a OutputFormat, rows: u64) -> Result<Self, FinishError> {
        // If there is no schema, no attempt had rows or a table. The file then has the column for
        // rows of text.
        let schema = Messages::new(&mut source)?.schema()?;
        let schema = schema.unwrap_or_else(|| Arc::new(values_schema()));
        Ok(Self { source, format, rows, schema })
    }

    /// Passes the rows to `take`, batch by batch.
    fn for_each_batch(
        &mut self,
        mut take: impl FnMut(RecordBatch) -> Result<(), FinishError>,
    ) -> Result<(), FinishError> {
        let mut found = 0;
        Messages::new(&mut self.source)?.for_each_batch(&self.schema, |batch| {
            found += batch.num_rows() as u64;
            take(batch)
        })?;
        if found == self.rows {
            return Ok(());
        }
        let expected = self.rows;
        Err(FinishError::Read(AppendedRowsError::Rows { found, expected }))
    }

    fn write<T: Write + Send>(mut self, target: T) -> Result<(), FinishError> {
        let target = BufWriter::with_capacity(BUFFER_BYTES, target);
        if self.format.kind == OutputKind::Parquet {
            return self.write_parquet(target);
        }
        let mut dictionaries = Dictionaries::default();
        if Dictionaries::in_any(&self.schema) {
            self.for_each_batch(|batch| dictionaries.collect(&batch).map_err(FinishError::read))?;
            dictionaries.close().map_err(FinishError::write)?;
        }
        let schema = Arc::clone(&self.schema);
        let mut file = ArrowFileWriter::new(target, &schema)?;
        self.for_each_batch(|batch| {
            let batch = dictionaries.unify(&batch).map_err(FinishError::read)?;
            file.add(batch).map_err(FinishError::write)
        })?;
        file.finish().map_err(FinishError::write)
    }

    fn write_parquet(&mut self, target: impl Write + Send) -> Result<(), FinishError> {
        let (rows, bytes) = MAX_ROW_GROUP;
        let properties = WriterProperties::builder()
            .set_compression(parquet_compression(self.format.compression))
            .set_max_row_group_row_count(Some(rows))
            .set_max_row_group_bytes(Some(bytes))
            .build();
        let schema = Arc::clone(&self.schema);
        let mut writer = ArrowWriter::try_new(target, schema, Some(properties))?;
        self.for_each_batch(|batch| Ok(writer.write(&batch)?))?;
        writer.into_inner()?.flush()?;
        Ok(())
    }
}

fn parquet_compression(compression: Compression) -> basic::Compression {
    match compression {
        Compression::None => basic::Compression::UNCOMPRESSED,
        Compression::Snappy => basic::Compression::SNAPPY,
        Compression::Gzip => basic::Compression::GZIP(basic::GzipLevel::default()),
        Compression::Zstd => basic::Compression::ZSTD(basic::ZstdLevel::default()),
        Compression::Lz4 => basic::Compression::LZ4_RAW,
    }
}

/// Writes an Arrow IPC file, and combines small batches.
struct ArrowFileWriter<T: Write> {
    writer: FileWriter<T>,
    schema: SchemaRef,
    /// Batches that are not written yet, and how many rows and bytes they have.
    pending: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl<T: Write> ArrowFileWriter<T> {
    fn new(target: T, schema: &Schema) -> Result<Self, FinishError> {
        let writer = FileWriter::try_new(target, schema).map_err(FinishError::write)?;
        let schema = Arc::new(schema.clone());
        Ok(Self { writer, schema, pending: Vec::new(), rows: 0, bytes: 0 })
    }

    fn add(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        let rows = batch.num_rows();
        let bytes = batch.get_array_memory_size();
        if self.rows + rows > MAX_BATCH.0 || self.bytes.saturating_add(bytes) > MAX_BATCH.1 {
            self.flush()?;
        }
        self.rows += rows;
        self.bytes += bytes;
        self.pending.push(batch);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ArrowError> {
        let batch = match self.pending.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            several => concat_batches(&self.schema, several)?,
        };
        self.pending.clear();
        (self.rows, self.bytes) = (0, 0);
        self.writer.write(&batch)
    }

    fn finish(mut self) -> Result<(), ArrowError> {
        self.flush()?;
        self.writer.finish()?;
        self.writer.flush()
    }
}
