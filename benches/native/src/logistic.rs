//! The table job.

use crate::tally::panicked;
use crate::{Output, logistic_kernel};
use arrow::array::{AsArray, RecordBatch};
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Decoder;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use arrow::error::ArrowError;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Bytes in a mini-batch.
const MINI_BATCH: u64 = 1 << 20;

/// Rows decoded at once: those of one mini-batch of the benchmark's lines, or a little more.
const ROWS: usize = 12 * 1024;

/// More bytes than any line has.
const LONGEST_LINE: usize = 4096;

/// Scores all rows of `file`.
pub(crate) fn run(file: &Path, output: &Output, threads: usize) -> io::Result<()> {
    let file = File::open(file)?;
    let mini_batches = cut(&file)?;
    let mut fields = vec![Field::new("id", DataType::Int64, true)];
    fields.extend((0..10).map(|n| Field::new(format!("f{n}"), DataType::Float64, true)));
    let schema = Arc::new(Schema::new(fields));
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || -> io::Result<()> {
            let (mut bytes, mut rows, mut probabilities) = (Vec::new(), Vec::new(), Vec::new());
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(range) = mini_batches.get(at) else { return Ok(()) };
                bytes.resize((range.end - range.start) as usize, 0);
                file.read_exact_at(&mut bytes, range.start)?;
                let mut decoder = ReaderBuilder::new(Arc::clone(&schema))
                    .with_header(at == 0)
                    .with_batch_size(ROWS)
                    .build_decoder();
                decode_and_score(&mut decoder, &bytes, &mut probabilities, &mut rows)
                    .map_err(io::Error::other)?;
                output.append(&rows)?;
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(panicked())))
    })
}

/// Decodes the lines of a mini-batch and fills `rows` from them.
fn decode_and_score(
    decoder: &mut Decoder,
    mut bytes: &[u8],
    probabilities: &mut Vec<f64>,
    rows: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    rows.clear();
    loop {
        let used = decoder.decode(bytes)?;
        bytes = &bytes[used..];
        if used == 0 || decoder.capacity() == 0 {
            let Some(table) = decoder.flush()? else { return Ok(()) };
            score(&table, probabilities, rows);
        }
    }
}

/// Adds lines of id and probability to `rows`.
fn score(table: &RecordBatch, probabilities: &mut Vec<f64>, rows: &mut Vec<u8>) {
    let columns = table.columns()[1..].iter().map(|c| &**c.as_primitive::<Float64Type>().values());
    logistic_kernel::logistic(columns, table.num_rows(), probabilities);
    let ids = table.column(0).as_primitive::<Int64Type>().values();
    let (mut integer, mut float) = (itoa::Buffer::new(), ryu::Buffer::new());
    for (id, probability) in ids.iter().zip(probabilities.iter()) {
        rows.extend_from_slice(integer.format(*id).as_bytes());
        rows.push(b' ');
        rows.extend_from_slice(float.format(*probability).as_bytes());
        rows.push(b'\n');
    }
}

/// Ranges of whole lines near multiples of the mini-batch size.
fn cut(file: &File) -> io::Result<Vec<Range<u64>>> {
    let size = file.metadata()?.len();
    let (mut ranges, mut start) = (Vec::new(), 0);
    let mut window = [0; LONGEST_LINE];
    while start < size {
        let target = start + MINI_BATCH;
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
