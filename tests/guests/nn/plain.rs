//! An ordinary guest (not a hostile one): runs the model `double` through `wasi:nn`, without Sandmill's
//! interface `models`. Returns a row for each file: its name, and twice its number of bytes.

mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package test:nn@1.0.0;

            world plain {
                include sandmill:entry/run-only@0.2.0;
                include wasi:nn/ml@0.2.0-rc-2024-10-28;
            }
        "#,
        path: "../../wit",
        world: "test:nn/plain",
        generate_all,
    });
}

use bindings::exports::sandmill::entry::entry_run::Guest;
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};
use bindings::wasi::nn::tensor::{Tensor, TensorType};
use bindings::wasi::nn::{errors, graph};

struct Component;

impl Guest for Component {
    /// Runs the model once, for all files together.
    fn run(batch: MiniBatch, _context: MiniBatchContext) -> Result<Results, String> {
        let MiniBatch::Files(files) = batch else { return Err("no files".into()) };
        let mut bytes = Vec::new();
        for file in &files {
            let size = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
            // The model takes two numbers per row.
            bytes.extend((size as f32).to_le_bytes().repeat(2));
        }
        let error_text = |error: errors::Error| error.data();
        let graph = graph::load_by_name("double").map_err(error_text)?;
        let context = graph.init_execution_context().map_err(error_text)?;
        let tensor = Tensor::new(&[files.len() as u32, 2], TensorType::Fp32, &bytes);
        let outputs = context.compute(vec![("x".to_owned(), tensor)]).map_err(error_text)?;
        let (_, output) = &outputs[0];
        let doubled = output.data();
        let row = |(file, bytes): (&String, &[u8])| {
            let name = file.rsplit('/').next().unwrap_or_default();
            format!("{name} {}", f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        Ok(Results::Rows(files.iter().zip(doubled.chunks_exact(8)).map(row).collect()))
    }
}

bindings::export!(Component with_types_in bindings);
