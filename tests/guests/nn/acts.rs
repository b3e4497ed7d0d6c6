//! A hostile guest: runs the job's models through `wasi:nn` and `sandmill:entry/models`, without the SDK. The
//! name of the mini-batch's first file, `NNN-ACT.txt`, names the act. Some acts are harmless. A `good`
//! mini-batch returns a row: the file's name, and the output of the model `double` for 1, 2, 3 and 4.

mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package test:nn@1.0.0;

            world acts {
                include sandmill:entry/run-only@0.2.0;
                include sandmill:entry/inference@0.2.0;
            }
        "#,
        path: "../../wit",
        world: "test:nn/acts",
        generate_all,
    });
}

use bindings::exports::sandmill::entry::entry_run::Guest;
use bindings::sandmill::entry::models;
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};
use bindings::wasi::nn::errors;
use bindings::wasi::nn::graph::{self, ExecutionTarget, Graph, GraphEncoding};
use bindings::wasi::nn::tensor::{Tensor, TensorType};
use std::fs;
use std::mem::forget;

struct Component;

impl Guest for Component {
    fn run(batch: MiniBatch, _context: MiniBatchContext) -> Result<Results, String> {
        let MiniBatch::Files(files) = batch else { return Err("no files".into()) };
        let name = files[0].rsplit('/').next().unwrap_or_default().to_owned();
        let act = name.trim_end_matches(".txt").split_once('-').map_or("", |(_, act)| act);
        let result = match act {
            "good" => doubled()?,
            act => play(act, &files[0])?,
        };
        Ok(Results::Rows(vec![format!("{name} {result}")]))
    }
}

type ActResult = Result<String, String>;

fn error_text(error: errors::Error) -> String {
    format!("{:?}: {}", error.code(), error.data())
}

fn load(name: &str) -> Result<Graph, String> {
    graph::load_by_name(name).map_err(error_text)
}

/// Runs a model once, and returns the bytes of its last output.
fn compute(graph: &Graph, inputs: Vec<(&str, Tensor)>) -> Result<Vec<u8>, String> {
    let context = graph.init_execution_context().map_err(error_text)?;
    let inputs = inputs.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
    let mut outputs = context.compute(inputs).map_err(error_text)?;
    let (_, output) = outputs.pop().ok_or("no output")?;
    Ok(output.data())
}

fn floats(dims: &[u32], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::new(dims, TensorType::Fp32, &bytes)
}

fn numbers_text(bytes: &[u8]) -> String {
    let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

/// The output of the model `double` for 1, 2, 3 and 4.
fn doubled() -> ActResult {
    let output = compute(&load("double")?, vec![("x", floats(&[2, 2], &[1., 2., 3., 4.]))])?;
    Ok(numbers_text(&output))
}

fn play(act: &str, file: &str) -> ActResult {
    let numbers = || floats(&[2, 2], &[1., 2., 3., 4.]);
    let double = |inputs| compute(&load("double")?, inputs).map(|output| numbers_text(&output));
    match act {
        "describe" => Ok(describe_models()?),
        "unknown-model" => load("triple").map(|_| String::new()),
        "path-for-a-name" => load("../double/model.onnx").map(|_| String::new()),
        "unknown-input" => double(vec![("y", numbers())]),
        "input-twice" => double(vec![("x", numbers()), ("x", numbers())]),
        "no-input" => double(vec![]),
        "wrong-type" => double(vec![("x", Tensor::new(&[1, 1], TensorType::I64, &[0; 8]))]),
        "wrong-shape" => double(vec![("x", floats(&[4], &[1., 2., 3., 4.]))]),
        "wrong-bytes" => double(vec![("x", Tensor::new(&[2, 2], TensorType::Fp32, &[0; 15]))]),
        "trap" => {
            doubled()?;
            panic!("in the middle of it")
        }
        "many-tensors" => loop {
            forget(Tensor::new(&[1], TensorType::U8, &[0]));
        },
        "many-errors" => loop {
            forget(graph::load_by_name(&"x".repeat(1 << 20)));
        },
        "large-tensors" => {
            let bytes = vec![0; 64 << 20];
            let tensors: Vec<Tensor> =
                (0..5).map(|_| Tensor::new(&[16 << 20], TensorType::Fp32, &bytes)).collect();
            double(tensors.into_iter().rev().take(1).map(|tensor| ("x", tensor)).collect())
        }
        "many-in-turn" => {
            for _ in 0..20_000 {
                drop(Tensor::new(&[1], TensorType::U8, &[0]));
            }
            doubled()
        }
        // The file of the mini-batch is the model.
        "load-bytes" => {
            let bytes = fs::read(file).map_err(|error| error.to_string())?;
            let graph = graph::load(&[bytes], GraphEncoding::Onnx, ExecutionTarget::Cpu);
            let output = compute(&graph.map_err(error_text)?, vec![("x", numbers())])?;
            Ok(numbers_text(&output))
        }
        "load-bytes-for-a-gpu" => {
            let graph = graph::load(&[vec![0]], GraphEncoding::Onnx, ExecutionTarget::Gpu);
            graph.map(|_| String::new()).map_err(error_text)
        }
        "another-encoding" => {
            let graph = graph::load(&[vec![0]], GraphEncoding::Pytorch, ExecutionTarget::Cpu);
            graph.map(|_| String::new()).map_err(error_text)
        }
        // This model takes minutes on any backend.
        "without-end" => {
            const SIDE: u32 = 2048;
            let matrix = floats(&[SIDE, SIDE], &vec![0.5; (SIDE * SIDE) as usize]);
            compute(&load("slow")?, vec![("x", matrix)]).map(|output| output.len().to_string())
        }
        other => Err(format!("unknown act: {other}")),
    }
}

fn describe_models() -> ActResult {
    let mut text = models::names().join(" ");
    let model = models::describe("double")?;
    text += &format!("; {} on {} of {}", model.name, model.device, model.backend);
    for port in model.inputs.iter().chain(&model.outputs) {
        text += &format!("; {} {:?} {:?}", port.name, port.ty, port.shape);
    }
    Ok(text)
}

bindings::export!(Component with_types_in bindings);
