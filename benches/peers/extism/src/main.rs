//! The table benchmark with Extism. Each thread has a plug-in, which receives the columns of a batch as
//! bytes, one after the other, and returns the numbers as bytes.
//!
//!     bench-extism PLUGIN.wasm THREADS FILE OUTPUT

#[path = "../../../native/src/process.rs"]
mod process;
#[path = "../../../native/src/table.rs"]
mod table;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Float64Type;
use extism::{CompiledPlugin, Manifest, Plugin, PluginBuilder, Wasm};
use process::{Output, keep_memory};
use std::error::Error;
use std::io;
use std::path::Path;
use table::Printer;

fn main() -> Result<(), Box<dyn Error>> {
    keep_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [plugin, threads, file, output] = &arguments[..] else {
        return Err("give a plug-in, a number of threads, a file and an output file".into());
    };
    // By default Extism caches compiled code in wasmtime's cache in the user's folder, so only the first
    // run compiles.
    let manifest = Manifest::new([Wasm::file(plugin)]);
    let compiled = PluginBuilder::new(manifest).with_wasi(true).compile()?;
    let start = || scorer(&compiled).map_err(io::Error::other);
    let output = Output::create(output)?;
    table::run(Path::new(file), &output, threads.parse()?, Printer::Loop, start)?;
    Ok(())
}

/// Starts a plug-in. Returns a scoring function that calls it, and reuses its buffers.
fn scorer(
    compiled: &CompiledPlugin,
) -> Result<impl FnMut(&RecordBatch, &mut Vec<f64>) -> io::Result<()>, extism::Error> {
    let mut plugin = Plugin::new_from_compiled(compiled)?;
    let mut input = Vec::new();
    Ok(move |batch: &RecordBatch, numbers: &mut Vec<f64>| {
        input.clear();
        for column in &batch.columns()[1..] {
            let floats = column.as_primitive::<Float64Type>().values();
            input.extend_from_slice(bytemuck::cast_slice(floats));
        }
        let scored: &[u8] = plugin.call("score", &input[..]).map_err(io::Error::other)?;
        numbers.resize(batch.num_rows(), 0.0);
        // The bytes in Extism's memory may not be aligned for floats.
        bytemuck::cast_slice_mut(numbers).copy_from_slice(scored);
        Ok(())
    })
}
