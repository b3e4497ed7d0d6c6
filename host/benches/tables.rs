//! The code in which table jobs spend their time. Decoding and printing are compared with arrow-csv,
//! which they replace. `cargo bench --package sandmill` runs these benchmarks; `benches/run.py`
//! measures whole jobs.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "numbers of a benchmark are small"
)]

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::csv::{ReaderBuilder, WriterBuilder};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::StreamWriter;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sandmill::dataset::TableReader;
use sandmill::dataset::csv::Cutter;
use sandmill::model::{
    ByteSize, Column, ColumnType, CsvFormat, OutputFormat, SliceSize, TableFormat, TextSlice,
};
use sandmill::output::RowWriter;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

/// Rows of a mini-batch of about 1 MB.
const ROWS: usize = 10_000;

/// The n-th of a series of pseudo-random numbers below 2.1, in millionths.
fn random(n: usize) -> u64 {
    let mixed = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40 & 0x1f_ffff
}

/// An id and ten floats.
fn numbers() -> String {
    let mut text = String::new();
    for row in 0..ROWS {
        let _ = write!(text, "{row}");
        for column in 0..10 {
            let millionths = random(row * 10 + column);
            let sign = if millionths & 1 == 0 { "-" } else { "" };
            let whole = millionths / 1_000_000;
            let rest = millionths % 1_000_000;
            let _ = write!(text, ",{sign}{whole}.{rest:06}");
        }
        text.push('\n');
    }
    text
}

/// An id, a name that may be quoted, a day and a float with many digits.
fn mixed() -> String {
    let mut text = String::new();
    for row in 0..ROWS * 2 {
        let number = random(row);
        let name = if number.is_multiple_of(3) { "\"Mill, Sand\"" } else { "Sandmill" };
        let day = 1 + number % 28;
        let _ = writeln!(text, "{row},{name},2026-11-{day:02},{}", number as f64 / 7.0);
    }
    text
}

fn columns(kinds: &[ColumnType]) -> Vec<Column> {
    let columns = kinds.iter().enumerate();
    columns.map(|(n, &kind)| Column { name: format!("c{n}"), kind }).collect()
}

fn slice(text: &str) -> TextSlice {
    TextSlice {
        file: "table.csv".to_owned(),
        length: text.len() as u64,
        rows: text.lines().count() as u64,
        ..TextSlice::sample()
    }
}

/// Reading and decoding a mini-batch into Arrow IPC, against arrow-csv's decoding alone.
fn decode(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let csv = CsvFormat { header: false, ..CsvFormat::default() };
    let few = DataType::Utf8;
    let wide: Vec<_> =
        std::iter::once(ColumnType::Int64).chain([ColumnType::Float64; 10]).collect();
    let narrow = [ColumnType::Int64, ColumnType::String, ColumnType::Date, ColumnType::Float64];
    let arrow = |kind: &ColumnType| match kind {
        ColumnType::Int64 => DataType::Int64,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::Date => DataType::Date32,
        _ => few.clone(),
    };
    let mut group = criterion.benchmark_group("decode CSV");
    for (name, text, kinds) in [("numbers", numbers(), &wide[..]), ("mixed", mixed(), &narrow)] {
        std::fs::write(folder.path().join("table.csv"), &text).expect("a file");
        let columns = columns(kinds);
        let slice = slice(&text);
        let format = TableFormat { csv: csv.clone(), columns, ..TableFormat::default() };
        let mut reader = TableReader::new(&format).expect("a reader");
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("{name}, sandmill, file to IPC"), |bench| {
            bench.iter(|| {
                let table = reader.read(folder.path(), &slice, "table.csv").expect("a table");
                black_box(table.ipc.pieces().len())
            });
        });
        let fields: Vec<_> = kinds.iter().map(|kind| Field::new("c", arrow(kind), true)).collect();
        let mut decoder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
            .with_batch_size(slice.rows as usize + 1)
            .build_decoder();
        group.bench_function(format!("{name}, arrow-csv, text to batch"), |bench| {
            bench.iter(|| {
                let mut rest = text.as_bytes();
                while !rest.is_empty() {
                    rest = &rest[decoder.decode(rest).expect("proper CSV")..];
                }
                black_box(decoder.flush().expect("proper CSV"))
            });
        });
    }
}

/// Finding record ends, as the planner does.
fn scan(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut group = criterion.benchmark_group("boundary scan");
    for (name, text) in [("numbers", numbers()), ("quotes", mixed())] {
        let text = text.repeat(32);
        std::fs::write(folder.path().join("table.csv"), &text).expect("a file");
        let format = CsvFormat { header: false, ..CsvFormat::default() };
        let mut cutter = Cutter::new(&format, SliceSize::Bytes(1 << 20));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("{name}, reading included"), |bench| {
            bench.iter(|| {
                let file = cutter.open(Path::new(folder.path()), "table.csv".to_owned());
                let mut file = file.expect("a file");
                while let Some(slice) = file.next_slice().expect("proper CSV") {
                    black_box(slice.rows);
                }
            });
        });
    }
}

/// Printing a table that a guest returned, against arrow-csv's writer.
fn format(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("format");
    group.throughput(Throughput::Elements(ROWS as u64));
    let scores = |n| 1.0 / (1.0 + (random(n) as f64 / 2e5 - 5.0).exp());
    for (name, float) in
        [("scores", &scores as &dyn Fn(usize) -> f64), ("tiny", &|n| scores(n) * 1e-9)]
    {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(float)));
        let batch = RecordBatch::try_from_iter([("id", ids), ("probability", floats)]);
        let batch = batch.expect("columns of one length");
        let mut ipc = Vec::new();
        let mut writer = StreamWriter::try_new(&mut ipc, &batch.schema()).expect("a writer");
        writer.write(&batch).expect("a vector takes everything");
        writer.finish().expect("a vector takes everything");
        drop(writer);
        let rows = RowWriter::new(u64::MAX, true, &OutputFormat::default());
        let mut rows = rows.with_max_row_size(ByteSize(1 << 20));
        group.bench_function(format!("an id and {name}, sandmill, IPC to lines"), |bench| {
            bench.iter(|| {
                rows.clear();
                rows.table(&ipc).expect("a table");
                black_box(rows.lines().len())
            });
        });
        let mut lines = Vec::new();
        group.bench_function(format!("an id and {name}, arrow-csv, batch to lines"), |bench| {
            bench.iter(|| {
                lines.clear();
                let writer = WriterBuilder::new().with_header(false).with_delimiter(b' ');
                writer.build(&mut lines).write(&batch).expect("a vector takes everything");
                black_box(lines.len())
            });
        });
    }
}

criterion_group!(tables, decode, scan, format);
criterion_main!(tables);
