//! The table benchmark with arrow-udf. Each thread has an instance of the function's module, which
//! receives batches of ten columns as Arrow IPC, and returns batches of one column.
//!
//!     bench-arrow-udf FUNCTION.wasm THREADS FILE OUTPUT

#[path = "../../../native/src/process.rs"]
mod process;
#[path = "../../../native/src/table.rs"]
mod table;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow_udf_runtime::wasm::Runtime;
use process::{Output, keep_memory};
use std::error::Error;
use std::path::Path;
use std::{fs, io};
use table::Printer;

/// The indices of the ten columns of floats, which follow the id.
const FLOAT_COLUMNS: [usize; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

fn main() -> Result<(), Box<dyn Error>> {
    keep_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [function, threads, file, output] = &arguments[..] else {
        return Err("give a function, a number of threads, a file and an output file".into());
    };
    // arrow-udf does not cache compiled code, so it compiles in every run. The runtime makes an instance
    // for each concurrent call.
    let runtime = Runtime::new(&fs::read(function)?)?;
    let types = vec![DataType::Float64; FLOAT_COLUMNS.len()];
    let function = runtime.find_function("logistic", types, DataType::Float64)?;
    let score = |batch: &RecordBatch, numbers: &mut Vec<f64>| {
        let floats = batch.project(&FLOAT_COLUMNS).map_err(io::Error::other)?;
        let scored = runtime.call(&function, &floats).map_err(io::Error::other)?;
        numbers.clear();
        numbers.extend_from_slice(scored.column(0).as_primitive::<Float64Type>().values());
        Ok(())
    };
    let output = Output::create(output)?;
    table::run(Path::new(file), &output, threads.parse()?, Printer::Loop, || Ok(score))?;
    Ok(())
}
