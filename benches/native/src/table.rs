//! The table jobs read text or Parquet, and write a line with an id and a number for each row. The programs
//! of `benches/peers` also include this file, with other scoring functions.

use crate::process::{Output, panicked};
use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::{csv, json};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const MINI_BATCH_BYTES: u64 = 1 << 20;

/// The maximum number of rows that are decoded together. A mini-batch of the benchmark has slightly fewer
/// rows.
const BATCH_ROWS: usize = 12 * 1024;

/// A number of bytes that no line exceeds.
const MAX_LINE_BYTES: usize = 4096;

/// The two ways to print lines of ids and numbers. Both print the same bytes.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "each program of benches/peers uses only one")]
pub(crate) enum Printer {
    /// The CSV writer of arrow-rs.
    Arrow,
    /// A loop with itoa and ryu, which takes half of the time of arrow-rs.
    Loop,
}

/// Scores all rows of `file`, whose extension is `csv`, `jsonl` or `parquet`. Each thread calls `start`,
/// which returns a scoring function. This function takes a batch, and writes its scores to a vector.
pub(crate) fn run<F>(
    file: &Path,
    output: &Output,
    threads: usize,
    printer: Printer,
    start: impl Fn() -> io::Result<F> + Sync,
) -> io::Result<()>
where
    F: FnMut(&RecordBatch, &mut Vec<f64>) -> io::Result<()>,
{
    let kind = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let opened = File::open(file)?;
    if kind == "parquet" {
        let metadata = ArrowReaderMetadata::load(&opened, ArrowReaderOptions::new())?;
        let groups = metadata.metadata().num_row_groups();
        return on_threads(threads, groups, printer, start, |group, scorer| {
            // Each thread opens the file, because threads cannot share a file position.
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
                File::open(file)?,
                metadata.clone(),
            );
            let reader = reader.with_row_groups(vec![group]).with_batch_size(BATCH_ROWS).build()?;
            for table in reader {
                scorer.score(&table.map_err(io::Error::other)?)?;
            }
            scorer.append(output)
        });
    }
    let mini_batches = cut(&opened)?;
    let schema = schema();
    on_threads(threads, mini_batches.len(), printer, start, |index, scorer| {
        let range = &mini_batches[index];
        let mut bytes = std::mem::take(&mut scorer.bytes);
        bytes.resize((range.end - range.start) as usize, 0);
        opened.read_exact_at(&mut bytes, range.start)?;
        let decoded = match kind {
            "jsonl" => scorer.decode_json(&schema, &bytes),
            _ => scorer.decode_csv(&schema, index == 0, &bytes),
        };
        scorer.bytes = bytes;
        decoded.map_err(io::Error::other)?;
        scorer.append(output)
    })
}

/// The schema of the table: an id and ten floats.
pub(crate) fn schema() -> SchemaRef {
    let mut fields = vec![Field::new("id", DataType::Int64, true)];
    fields.extend((0..10).map(|n| Field::new(format!("f{n}"), DataType::Float64, true)));
    Arc::new(Schema::new(fields))
}

/// Calls `work` with the index of each mini-batch, on several threads. A thread that has finished a
/// mini-batch takes the next one.
fn on_threads<F>(
    threads: usize,
    count: usize,
    printer: Printer,
    start: impl Fn() -> io::Result<F> + Sync,
    work: impl Fn(usize, &mut Scorer<F>) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let run_thread = || -> io::Result<()> {
            let mut scorer = Scorer::new(start()?, printer);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok(());
                }
                work(index, &mut scorer)?;
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run_thread)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(panicked())))
    })
}

/// The scoring function of a thread, and its buffers.
struct Scorer<F> {
    compute: F,
    printer: Printer,
    bytes: Vec<u8>,
    numbers: Vec<f64>,
    /// The lines that are not yet written to the output.
    rows: Vec<u8>,
}

impl<F> Scorer<F> {
    fn new(compute: F, printer: Printer) -> Self {
        Self { compute, printer, bytes: Vec::new(), numbers: Vec::new(), rows: Vec::new() }
    }

    fn append(&mut self, output: &Output) -> io::Result<()> {
        output.append(&self.rows)?;
        self.rows.clear();
        Ok(())
    }
}

impl<F: FnMut(&RecordBatch, &mut Vec<f64>) -> io::Result<()>> Scorer<F> {
    fn decode_csv(
        &mut self,
        schema: &SchemaRef,
        has_header: bool,
        mut bytes: &[u8],
    ) -> Result<(), ArrowError> {
        let mut decoder = csv::ReaderBuilder::new(Arc::clone(schema))
            .with_header(has_header)
            .with_batch_size(BATCH_ROWS)
            .build_decoder();
        loop {
            let used = decoder.decode(bytes)?;
            bytes = &bytes[used..];
            if used == 0 || decoder.capacity() == 0 {
                let Some(table) = decoder.flush()? else { return Ok(()) };
                self.score(&table)?;
            }
        }
    }

    fn decode_json(&mut self, schema: &SchemaRef, mut bytes: &[u8]) -> Result<(), ArrowError> {
        let builder = json::ReaderBuilder::new(Arc::clone(schema)).with_batch_size(BATCH_ROWS);
        let mut decoder = builder.build_decoder()?;
        while !bytes.is_empty() {
            // When a batch is full, the decoder stops before the end of the bytes.
            let used = decoder.decode(bytes)?;
            bytes = &bytes[used..];
            if let Some(table) = decoder.flush()? {
                self.score(&table)?;
            }
        }
        Ok(())
    }

    /// Scores a batch, and appends a line with the id and the score of each row to `rows`.
    fn score(&mut self, table: &RecordBatch) -> io::Result<()> {
        (self.compute)(table, &mut self.numbers)?;
        match self.printer {
            Printer::Arrow => self.print_by_arrow(table.column(0)).map_err(io::Error::other)?,
            Printer::Loop => self.print(table.column(0).as_primitive::<Int64Type>().values()),
        }
        Ok(())
    }

    fn print_by_arrow(&mut self, ids: &ArrayRef) -> Result<(), ArrowError> {
        let next_numbers = Vec::with_capacity(self.numbers.capacity());
        let numbers = Float64Array::from(std::mem::replace(&mut self.numbers, next_numbers));
        let columns: [(_, ArrayRef); 2] = [("id", Arc::clone(ids)), ("number", Arc::new(numbers))];
        let writer = csv::WriterBuilder::new().with_header(false).with_delimiter(b' ');
        writer.build(&mut self.rows).write(&RecordBatch::try_from_iter(columns)?)
    }

    fn print(&mut self, ids: &[i64]) {
        let mut integer = itoa::Buffer::new();
        let mut float = ryu::Buffer::new();
        for (id, number) in ids.iter().zip(&self.numbers) {
            self.rows.extend_from_slice(integer.format(*id).as_bytes());
            self.rows.push(b' ');
            self.rows.extend_from_slice(float.format(*number).as_bytes());
            self.rows.push(b'\n');
        }
    }
}

/// Cuts the file into mini-batches: ranges of whole lines.
fn cut(file: &File) -> io::Result<Vec<Range<u64>>> {
    let size = file.metadata()?.len();
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut window = [0; MAX_LINE_BYTES];
    while start < size {
        let target = start + MINI_BATCH_BYTES;
        let mut end = size;
        if target < size {
            let count = file.read_at(&mut window, target)?;
            if let Some(newline) = window[..count].iter().position(|byte| *byte == b'\n') {
                end = target + newline as u64 + 1;
            }
        }
        ranges.push(start..end);
        start = end;
    }
    Ok(ranges)
}
