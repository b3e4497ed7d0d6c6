//! Runs a model in a loop with ONNX Runtime alone, without Sandmill.

use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::{TensorRef, ValueType};
use std::error::Error;
use std::time::Instant;

/// Runs the model on `images` images for each batch size. Uses the CPU, or with `gpu` a GPU. Prints a row as
/// in `benches/guests/infer`.
pub fn run(
    library: &str,
    model: &str,
    images: usize,
    batches: &str,
    gpu: bool,
) -> Result<(), Box<dyn Error>> {
    let environment = ort::init_from(library)?.with_telemetry(false).build()?;
    let mut builder = Session::builder(&environment)?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_memory_pattern(false)?
        .with_optimization_level(GraphOptimizationLevel::All)?;
    if gpu {
        let cuda = ort::ep::CUDA::default().build().error_on_failure();
        builder = builder.with_execution_providers([cuda])?;
    }
    let mut session = builder.commit_from_file(model)?;
    let input = session.inputs().first().ok_or("a model without inputs")?;
    let (name, ValueType::Tensor { shape, .. }) = (input.name().to_owned(), input.dtype()) else {
        return Err("no tensor".into());
    };
    let other_sizes = shape.iter().skip(1).map(|&size| usize::try_from(size));
    let mut dimensions = vec![1];
    dimensions.extend(other_sizes.collect::<Result<Vec<_>, _>>()?);
    let mut rows = Vec::new();
    for batch in batches.split(',') {
        dimensions[0] = batch.parse()?;
        let numbers = dimensions.iter().product::<usize>();
        let pixels: Vec<f32> = (0..numbers).map(|n| (n % 17) as f32 / 16.0).collect();
        let calls = (images / dimensions[0]).max(1);
        let mut start = Instant::now();
        // The first call only warms up.
        for call in 0..=calls {
            if call == 1 {
                start = Instant::now();
            }
            let tensor = TensorRef::from_array_view((dimensions.clone(), &*pixels))?;
            let outputs = session.run(ort::inputs![name.as_str() => tensor])?;
            for (_, output) in &outputs {
                if let Ok((_, numbers)) = output.try_extract_tensor::<f32>() {
                    std::hint::black_box(numbers.to_vec());
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64() / calls as f64;
        rows.push(format!("{batch} {seconds:e}"));
    }
    println!("{}", rows.join(";"));
    Ok(())
}
