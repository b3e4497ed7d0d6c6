//! Runs the job's model `model` in a loop: over `--images N` images, for each batch size of `--batches
//! A,B,C`. Returns one row. For each batch size, the row has the size and the seconds of one call of the
//! model. The seconds include making the tensors and reading the result.
//!
//! Calls `wasi:nn` directly and not through the SDK, so that only the calls to the host are measured.

mod nn {
    wit_bindgen::generate!({
        path: "../../../wit",
        world: "inference",
        generate_all,
        // The SDK has bindings of the same world, and the sections of both must have different names.
        type_section_suffix: "of its own",
    });
}

use nn::sandmill::entry::models::{self, Dimension};
use nn::wasi::nn::graph;
use nn::wasi::nn::tensor::{Tensor, TensorType};
use sandmill_guest::{Context, EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::PathBuf;
use std::time::Instant;

struct Infer {
    images: usize,
    batches: Vec<usize>,
}

impl EntryScript for Infer {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let images = job.argument("--images").context("--images is missing")?.parse()?;
        let batches = job.argument("--batches").context("--batches is missing")?;
        let batches = batches.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
        Ok(Infer { images, batches })
    }

    fn run(&mut self, _files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        let description = models::describe("model")?;
        let input = description.inputs.first().context("a model without inputs")?;
        let mut dimensions = vec![1];
        for dimension in input.shape.as_deref().unwrap_or_default().iter().skip(1) {
            match dimension {
                Dimension::Fixed(size) => dimensions.push(*size),
                _ => return Err("only the first dimension may vary".into()),
            }
        }
        let to_text = |error: nn::wasi::nn::errors::Error| error.data();
        let graph = graph::load_by_name("model").map_err(to_text)?;
        let context = graph.init_execution_context().map_err(to_text)?;
        let mut rows = Vec::new();
        for &batch in &self.batches {
            dimensions[0] = u32::try_from(batch)?;
            let numbers: u32 = dimensions.iter().product();
            let pixels: Vec<u8> =
                (0..numbers).flat_map(|n| ((n % 17) as f32 / 16.0).to_le_bytes()).collect();
            let calls = (self.images / batch).max(1);
            let mut start = Instant::now();
            // The first call only warms up.
            for call in 0..=calls {
                if call == 1 {
                    start = Instant::now();
                }
                let tensor = Tensor::new(&dimensions, TensorType::Fp32, &pixels);
                let outputs =
                    context.compute(vec![(input.name.clone(), tensor)]).map_err(to_text)?;
                for (_, tensor) in outputs {
                    std::hint::black_box(tensor.data());
                }
            }
            let seconds = start.elapsed().as_secs_f64() / calls as f64;
            rows.push(format!("{batch} {seconds:e}"));
        }
        Ok(Results::rows(vec![rows.join(";")]))
    }
}

sandmill_guest::export!(Infer);
