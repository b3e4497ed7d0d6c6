//! Makes the output file from the rows that were appended while the job ran, an Arrow IPC stream. Its content
//! is untrusted: at a job's end, the caller must be behind the process wall.

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
const BUFFER: usize = 1 << 20;
/// The most rows and bytes of a row group, which is kept in memory until it is written.
const ROW_GROUP: (usize, usize) = (1 << 20, 64 << 20);
/// The most rows and bytes of a record batch in an Arrow file. Small batches are combined, because those of
/// mini-batches may be tiny.
const BATCH: (usize, usize) = (1 << 16, 16 << 20);

/// Writes the output file. `rows` is the number of rows that there must be: a truncated stream may look
/// complete.
///
/// # Errors
/// If the rows cannot be read, or the file cannot be written.
pub fn finish<S: Read + Seek, T: Write + Send>(
    source: S,
    target: T,
    format: &OutputFormat,
    rows: u64,
) -> Result<(), FinishError> {
    let make = AssertUnwindSafe(|| Finishing::new(source, format, rows)?.write(target));
    // As with a guest's table, a panic must not end the process: these bytes may come from a compromised
    // worker.
    let made = catch_unwind(make);
    made.unwrap_or(Err(FinishError::Read(AppendedRowsError::Contradiction)))
}

struct Finishing<'a, S> {
    source: S,
    format: &'a OutputFormat,
    rows: u64,
    schema: SchemaRef,
}

impl<'a, S: Read + Seek> Finishing<'a, S> {
    fn new(mut source: S, format: &'a OutputFormat, rows: u64) -> Result<Self, FinishError> {
        // Without a schema, no attempt had any columns.
        let schema = Messages::new(&mut source)?.schema()?;
        let schema = schema.unwrap_or_else(|| Arc::new(values_schema()));
        Ok(Self { source, format, rows, schema })
    }

    /// Passes on the rows, batch by batch.
    fn each(
        &mut self,
        mut take: impl FnMut(RecordBatch) -> Result<(), FinishError>,
    ) -> Result<(), FinishError> {
        let mut found = 0;
        Messages::new(&mut self.source)?.each(&self.schema, |batch| {
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
        let target = BufWriter::with_capacity(BUFFER, target);
        if self.format.kind == OutputKind::Parquet {
            return self.parquet(target);
        }
        let mut dictionaries = Dictionaries::default();
        if Dictionaries::in_any(&self.schema) {
            self.each(|batch| dictionaries.collect(&batch).map_err(FinishError::read))?;
            dictionaries.close().map_err(FinishError::write)?;
        }
        let schema = Arc::clone(&self.schema);
        let mut file = Whole::new(target, &schema)?;
        self.each(|batch| {
            let batch = dictionaries.unify(&batch).map_err(FinishError::read)?;
            file.add(batch).map_err(FinishError::write)
        })?;
        file.finish().map_err(FinishError::write)
    }

    fn parquet(&mut self, target: impl Write + Send) -> Result<(), FinishError> {
        let (rows, bytes) = ROW_GROUP;
        let properties = WriterProperties::builder()
            .set_compression(compression(self.format.compression))
            .set_max_row_group_row_count(Some(rows))
            .set_max_row_group_bytes(Some(bytes))
            .build();
        let schema = Arc::clone(&self.schema);
        let mut writer = ArrowWriter::try_new(target, schema, Some(properties))?;
        self.each(|batch| Ok(writer.write(&batch)?))?;
        writer.into_inner()?.flush()?;
        Ok(())
    }
}

fn compression(compression: Compression) -> basic::Compression {
    match compression {
        Compression::None => basic::Compression::UNCOMPRESSED,
        Compression::Snappy => basic::Compression::SNAPPY,
        Compression::Gzip => basic::Compression::GZIP(basic::GzipLevel::default()),
        Compression::Zstd => basic::Compression::ZSTD(basic::ZstdLevel::default()),
        Compression::Lz4 => basic::Compression::LZ4_RAW,
    }
}

/// Writes an Arrow IPC file, and combines tiny batches.
struct Whole<T: Write> {
    writer: FileWriter<T>,
    schema: SchemaRef,
    waiting: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl<T: Write> Whole<T> {
    fn new(target: T, schema: &Schema) -> Result<Self, FinishError> {
        let writer = FileWriter::try_new(target, schema).map_err(FinishError::write)?;
        let schema = Arc::new(schema.clone());
        Ok(Self { writer, schema, waiting: Vec::new(), rows: 0, bytes: 0 })
    }

    fn add(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        let rows = batch.num_rows();
        let bytes = batch.get_array_memory_size();
        if self.rows + rows > BATCH.0 || self.bytes.saturating_add(bytes) > BATCH.1 {
            self.flush()?;
        }
        self.rows += rows;
        self.bytes += bytes;
        self.waiting.push(batch);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ArrowError> {
        let batch = match self.waiting.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            several => concat_batches(&self.schema, several)?,
        };
        self.waiting.clear();
        (self.rows, self.bytes) = (0, 0);
        self.writer.write(&batch)
    }

    fn finish(mut self) -> Result<(), ArrowError> {
        self.flush()?;
        self.writer.finish()?;
        self.writer.flush()
    }
}
