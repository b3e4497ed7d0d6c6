//! Runs a model in a loop on a GPU with tract alone, without Sandmill.

use std::error::Error;
use std::time::Instant;
use tract_cuda::utils::ensure_cuda_runtime_dependencies;
use tract_onnx::prelude::{
    Datum, Framework, InferenceFact, InferenceModelExt, IntoTensor, TDim, Tensor, TractResult, tvec,
};
use tract_onnx::tract_core::runtime::runtime_for_name;
use tract_onnx::tract_hir::infer::{Factoid, GenericFactoid};

/// Runs the model on `images` images for each batch size. Prints a row as in `benches/guests/infer`.
pub fn run(model: &str, images: usize, batches: &str) -> Result<(), Box<dyn Error>> {
    let rows = batches.split(',').map(|batch| Ok(row(model, images, batch.parse()?)?));
    let rows = rows.collect::<Result<Vec<String>, Box<dyn Error>>>()?;
    println!("{}", rows.join(";"));
    Ok(())
}

fn row(model: &str, images: usize, batch: usize) -> TractResult<String> {
    ensure_cuda_runtime_dependencies("CUDA")?;
    let mut model = tract_onnx::onnx().with_ignore_value_info(true).model_for_path(model)?;
    let input = model.input_fact(0)?.shape.clone();
    let fixed_size =
        |size: &GenericFactoid<TDim>| usize::try_from(size.concretize()?.to_i64().ok()?).ok();
    let other_sizes = input.dims().skip(1).filter_map(fixed_size);
    let dimensions: Vec<usize> = std::iter::once(batch).chain(other_sizes).collect();
    model.set_input_fact(0, InferenceFact::dt_shape(f32::datum_type(), &*dimensions))?;
    let runtime = runtime_for_name("cuda")?.ok_or_else(|| std::io::Error::other("no CUDA"))?;
    let runnable = runtime.prepare(model.into_typed()?)?;
    let numbers = dimensions.iter().product::<usize>();
    let pixels: Vec<f32> = (0..numbers).map(|n| (n % 17) as f32 / 16.0).collect();
    let calls = (images / batch).max(1);
    let mut start = Instant::now();
    // The first call only warms up.
    for call in 0..=calls {
        if call == 1 {
            start = Instant::now();
        }
        let tensor = Tensor::from_shape(&dimensions, &pixels)?;
        for output in runnable.run(tvec!(tensor.into()))? {
            std::hint::black_box(output.into_tensor().into_plain_ram()?.as_bytes().to_vec());
        }
    }
    Ok(format!("{batch} {:e}", start.elapsed().as_secs_f64() / calls as f64))
}
