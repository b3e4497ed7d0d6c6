//! The native side of the benchmarks. Uses the same libraries, arithmetic and mini-batches as Sandmill, on
//! the threads of one process without a sandbox. Also generates the data.
//!
//!     bench-native make-files FOLDER COUNT
//!     bench-native make-table FILE ROWS
//!     bench-native tally FOLDER OUTPUT THREADS
//!     bench-native convert FROM.csv TO.jsonl|TO.parquet ROWS
//!     bench-native logistic|perceptron FILE OUTPUT THREADS arrow|loop
//!     bench-native infer LIBRARY MODEL IMAGES BATCH,BATCH.. cpu|gpu
//!     bench-native infer-tract MODEL IMAGES BATCH,BATCH..
//!
//! The last command needs a GPU and the feature `tract`.

mod convert;
mod generate;
mod infer;
#[cfg(feature = "tract")]
mod infer_tract;
#[path = "../../kernels/logistic.rs"]
mod logistic_kernel;
#[path = "../../kernels/perceptron.rs"]
mod perceptron_kernel;
mod process;
mod table;
mod tally;
#[path = "../../kernels/tally.rs"]
mod tally_kernel;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Float64Type;
use process::{Output, keep_memory};
use std::error::Error;
use std::io;
use std::path::Path;
use table::Printer;

fn main() -> Result<(), Box<dyn Error>> {
    keep_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["make-files", folder, count] => generate::files(Path::new(folder), count.parse()?)?,
        ["make-table", file, rows] => generate::table(Path::new(file), rows.parse()?)?,
        ["tally", folder, output, threads] => {
            tally::run(Path::new(folder), &Output::create(output)?, threads.parse()?)?;
        }
        ["convert", from, to, rows] => {
            convert::convert(Path::new(from), Path::new(to), rows.parse()?)?;
        }
        ["logistic", file, output, threads, printer] => {
            let score = || {
                Ok(on_columns(|columns, rows, numbers| {
                    logistic_kernel::logistic(columns.iter().copied(), rows, numbers);
                }))
            };
            score_table(file, output, threads, printer, score)?;
        }
        ["perceptron", file, output, threads, printer] => {
            let score = || Ok(on_columns(perceptron_kernel::perceptron));
            score_table(file, output, threads, printer, score)?;
        }
        ["infer", library, model, images, batches, device] => {
            infer::run(library, model, images.parse()?, batches, device == "gpu")?;
        }
        #[cfg(feature = "tract")]
        ["infer-tract", model, images, batches] => {
            infer_tract::run(model, images.parse()?, batches)?;
        }
        _ => return Err("see the head of main.rs for the commands".into()),
    }
    Ok(())
}

fn score_table<F>(
    file: &str,
    output: &str,
    threads: &str,
    printer: &str,
    score: impl Fn() -> io::Result<F> + Sync,
) -> Result<(), Box<dyn Error>>
where
    F: FnMut(&RecordBatch, &mut Vec<f64>) -> io::Result<()>,
{
    let printer = match printer {
        "arrow" => Printer::Arrow,
        "loop" => Printer::Loop,
        _ => return Err("rows are printed by `arrow` or in a `loop`".into()),
    };
    let output = Output::create(output)?;
    Ok(table::run(Path::new(file), &output, threads.parse()?, printer, score)?)
}

/// Makes a scoring function that passes the columns after the id to a kernel.
fn on_columns(
    kernel: impl Fn(&[&[f64]], usize, &mut Vec<f64>),
) -> impl FnMut(&RecordBatch, &mut Vec<f64>) -> io::Result<()> {
    move |batch, numbers| {
        let columns = batch.columns()[1..].iter();
        let columns = columns.map(|column| &**column.as_primitive::<Float64Type>().values());
        let columns: Vec<&[f64]> = columns.collect();
        kernel(&columns, batch.num_rows(), numbers);
        Ok(())
    }
}
