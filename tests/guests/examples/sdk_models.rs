//! An ordinary guest (not a hostile one): runs the job's models through the SDK. Each model returns its input
//! as its output. The rows describe the models, say whether a tensor of each model's type comes back
//! unchanged, and list the errors of invalid calls.

use sandmill_guest::nn::{Bf16, Element, F16, Model, NnError, Tensor, TensorType};
use sandmill_guest::nn::{ElementType, names};
use sandmill_guest::{EntryScript, Job, MiniBatchContext, Result, Results, Void};

struct Guest(Vec<Model>);

impl EntryScript for Guest {
    type Input = Void;

    fn init(_job: &Job) -> Result<Self> {
        let models: Result<Vec<Model>, NnError> =
            names().iter().map(|name| Model::load(name)).collect();
        Ok(Guest(models?))
    }

    fn run(&mut self, (): (), _context: &MiniBatchContext) -> Result<Results> {
        let mut rows: Vec<String> = self.0.iter().map(model_row).collect();
        rows.extend(self.0.iter().map(|model| value_or_error(round_trip(model))));
        rows.push(value_or_error(Model::load("nothing").map(|model| model.name().to_owned())));
        rows.extend(invalid_calls(&Model::load("f32")?)?);
        Ok(Results::rows(rows))
    }
}

sandmill_guest::export!(Guest);

fn model_row(model: &Model) -> String {
    let ports = |ports: &[sandmill_guest::nn::Port]| -> Vec<String> {
        ports.iter().map(|port| format!("{} {port}", port.name)).collect()
    };
    let name = model.name();
    let device = model.device();
    let inputs = ports(model.inputs()).join(", ");
    let outputs = ports(model.outputs()).join(", ");
    format!("{name} on {device}: {inputs} -> {outputs}")
}

/// Runs a model on a tensor of its own element type, with extreme values.
fn round_trip(model: &Model) -> Result<String, NnError> {
    let ElementType::Standard(ty) = &model.inputs()[0].ty else { return Ok("no tensors".into()) };
    match ty {
        TensorType::F16 => run_and_compare(model, [0x3C00, 0xC000, 1, 0, 0x7BFF, 0x8000].map(F16)),
        TensorType::F32 => {
            run_and_compare(model, [1.5, -0.25, f32::MAX, f32::MIN_POSITIVE, 0.0, 3.0])
        }
        TensorType::F64 => {
            run_and_compare(model, [0.1, -0.2, f64::MAX, f64::MIN_POSITIVE, 0.0, 3.0])
        }
        TensorType::Bf16 => {
            run_and_compare(model, [0x3F80, 0xBF80, 1, 0, 0x7F7F, 0x8000].map(Bf16))
        }
        TensorType::U8 => run_and_compare(model, [0_u8, 1, 127, 128, 254, 255]),
        TensorType::I32 => run_and_compare(model, [0, 1, -1, i32::MIN, i32::MAX, 258]),
        TensorType::I64 => run_and_compare(model, [0, 1, -1, i64::MIN, i64::MAX, 258]),
    }
}

/// Runs a model on three items of two elements, and compares the output with the input.
fn run_and_compare<T: Element>(model: &Model, values: [T; 6]) -> Result<String, NnError> {
    let tensor = Tensor::new([3, 2], values.as_slice())?;
    let mut outputs = model.run(&[("x", &tensor)])?;
    let is_same = *outputs.get("y")? == tensor && outputs.at(0)?.rows::<T>()?.len() == 3;
    let count = outputs.take("y")?.into_values::<T>()?.len();
    Ok(format!("{}: {count} values, {}", T::TYPE, if is_same { "the same" } else { "others" }))
}

fn invalid_calls(model: &Model) -> Result<Vec<String>> {
    let tensor = |width: usize| Tensor::new([2, width], vec![1.0_f32; 2 * width]);
    let run = |inputs: &[(&str, Tensor)]| {
        value_or_error(model.run(inputs).map(|_| "computed".to_owned()))
    };
    Ok(vec![
        run(&[("x", tensor(3)?)]),
        run(&[("z", tensor(2)?)]),
        run(&[("x", Tensor::new([2, 2], vec![1_i64; 4])?)]),
        value_or_error(model.run(&[("x", tensor(2)?)])?.get("z").map(Tensor::to_string)),
    ])
}

fn value_or_error(result: Result<String, NnError>) -> String {
    result.unwrap_or_else(|error| format!("{}: {error}", error.code()))
}
