//! An ordinary guest (not a hostile one): runs models through `wasi:nn`, without the SDK's `nn` module. Each
//! file contains the input tensors for one run of a model. The file's name begins with the model's name
//! (`NAME-ANYTHING.tensors`). The guest returns a row for each output, `FILE OUTPUT TYPE DIMENSIONS BYTES`,
//! or one row `FILE refused CODE: TEXT`.
//!
//! A file has one line for each tensor, `NAME TYPE DIMENSIONS BYTES`: dimensions separated by `x`, and bytes
//! as hexadecimal digits.

mod nn {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "inference",
        generate_all,
        // The SDK also has bindings of this world. The custom sections of the two must have different names.
        type_section_suffix: "of its own",
    });
}

use nn::wasi::nn::errors::Error as NnError;
use nn::wasi::nn::graph;
use nn::wasi::nn::tensor::{Tensor, TensorType};
use sandmill_guest::{EntryScript, Error, Files, Job, MiniBatchContext, Result, Results};
use std::fmt::Write;
use std::path::PathBuf;

/// The names of the tensor types in files and rows.
const TYPES: [(&str, TensorType); 7] = [
    ("f16", TensorType::Fp16),
    ("f32", TensorType::Fp32),
    ("f64", TensorType::Fp64),
    ("bf16", TensorType::Bf16),
    ("u8", TensorType::U8),
    ("i32", TensorType::I32),
    ("i64", TensorType::I64),
];

struct Guest;

impl EntryScript for Guest {
    type Input = Files;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Guest)
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        let mut rows = Vec::new();
        for file in files {
            let text = String::from_utf8_lossy(&sandmill_guest::read(file)?).into_owned();
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            rows.extend(rows_of(&name, &text)?);
        }
        Ok(Results::rows(rows))
    }
}

/// The rows of one file.
fn rows_of(file: &str, text: &str) -> Result<Vec<String>> {
    let inputs = text.lines().map(parse_tensor).collect::<Result<Vec<_>>>()?;
    let model = file.split_once('-').map_or(file, |(model, _)| model);
    Ok(match compute(model, inputs) {
        Ok(outputs) => {
            outputs.iter().map(|(name, tensor)| output_row(file, name, tensor)).collect()
        }
        Err(error) => {
            let text = error.data().replace('\n', " ");
            vec![format!("{file} refused {:?}: {text}", error.code())]
        }
    })
}

fn compute(
    model: &str,
    inputs: Vec<(String, Tensor)>,
) -> std::result::Result<Vec<(String, Tensor)>, NnError> {
    graph::load_by_name(model)?.init_execution_context()?.compute(inputs)
}

/// Parses a line of a file: a tensor with its name.
fn parse_tensor(line: &str) -> Result<(String, Tensor)> {
    let parts: Vec<&str> = line.split(' ').collect();
    let [name, ty, dimensions, bytes] = parts[..] else {
        return Err(Error::new(format!("no tensor: {line}")));
    };
    let ty = TYPES.iter().find(|known| known.0 == ty).ok_or_else(|| Error::new(ty))?.1;
    let parse_error = |error: std::num::ParseIntError| Error::new(format!("{name}: {error}"));
    let dimensions = dimensions.split('x').map(|size| size.parse().map_err(parse_error));
    let dimensions = dimensions.collect::<Result<Vec<u32>>>()?;
    let byte = |digit: usize| {
        u8::from_str_radix(bytes.get(digit..digit + 2).unwrap_or("?"), 16).map_err(parse_error)
    };
    let bytes = (0..bytes.len()).step_by(2).map(byte);
    let bytes = bytes.collect::<Result<Vec<u8>>>()?;
    Ok((name.to_owned(), Tensor::new(&dimensions, ty, &bytes)))
}

fn output_row(file: &str, name: &str, tensor: &Tensor) -> String {
    let ty = tensor.ty();
    let ty = TYPES.iter().find(|known| known.1 == ty).map_or("?", |known| known.0);
    let dimensions: Vec<String> = tensor.dimensions().iter().map(u32::to_string).collect();
    let mut row = format!("{file} {name} {ty} {} ", dimensions.join("x"));
    for byte in tensor.data() {
        // Writing to a string cannot fail.
        let _ = write!(row, "{byte:02x}");
    }
    row
}

sandmill_guest::export!(Guest);
