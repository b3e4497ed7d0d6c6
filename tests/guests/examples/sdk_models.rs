//! Ordinary: uses the job's models through the SDK. Each model returns its input under another name. Rows
//! describe the models, say whether tensors of every type come back unchanged, and list refused calls.

use sandmill_guest::nn::{Bf16, Element, Error, F16, Model, Tensor, TensorType};
use sandmill_guest::nn::{ElementType, names};
use sandmill_guest::{EntryScript, Job, MiniBatchContext, Result, Results, Void};

struct Guest(Vec<Model>);

impl EntryScript for Guest {
    type Input = Void;

    fn init(_job: &Job) -> Result<Self> {
        let models: Result<Vec<Model>, Error> =
            names().iter().map(|name| Model::load(name)).collect();
        Ok(Guest(models?))
    }

    fn run(&mut self, (): (), _context: &MiniBatchContext) -> Result<Results> {
        let mut rows: Vec<String> = self.0.iter().map(described).collect();
        rows.extend(self.0.iter().map(|model| describe(comes_back(model))));
        rows.push(describe(Model::load("nothing").map(|model| model.name().to_owned())));
        rows.extend(refused(&Model::load("f32")?)?);
        Ok(Results::rows(rows))
    }
}

sandmill_guest::export!(Guest);

fn described(model: &Model) -> String {
    let ports = |ports: &[sandmill_guest::nn::Port]| -> Vec<String> {
        ports.iter().map(|port| format!("{} {port}", port.name)).collect()
    };
    let name = model.name();
    let device = model.device();
    let inputs = ports(model.inputs()).join(", ");
    let outputs = ports(model.outputs()).join(", ");
    format!("{name} on {device}: {inputs} -> {outputs}")
}

/// Runs a batch of three items of two elements.
fn comes_back(model: &Model) -> Result<String, Error> {
    let ElementType::Standard(ty) = &model.inputs()[0].ty else { return Ok("no tensors".into()) };
    match ty {
        TensorType::F16 => same(model, [0x3C00, 0xC000, 1, 0, 0x7BFF, 0x8000].map(F16)),
        TensorType::F32 => same(model, [1.5, -0.25, f32::MAX, f32::MIN_POSITIVE, 0.0, 3.0]),
        TensorType::F64 => same(model, [0.1, -0.2, f64::MAX, f64::MIN_POSITIVE, 0.0, 3.0]),
        TensorType::Bf16 => same(model, [0x3F80, 0xBF80, 1, 0, 0x7F7F, 0x8000].map(Bf16)),
        TensorType::U8 => same(model, [0_u8, 1, 127, 128, 254, 255]),
        TensorType::I32 => same(model, [0, 1, -1, i32::MIN, i32::MAX, 258]),
        TensorType::I64 => same(model, [0, 1, -1, i64::MIN, i64::MAX, 258]),
    }
}

fn same<T: Element>(model: &Model, values: [T; 6]) -> Result<String, Error> {
    let tensor = Tensor::new([3, 2], values.as_slice())?;
    let mut outputs = model.run(&[("x", &tensor)])?;
    let same = *outputs.get("y")? == tensor && outputs.at(0)?.rows::<T>()?.len() == 3;
    let count = outputs.take("y")?.into_values::<T>()?.len();
    Ok(format!("{}: {count} values, {}", T::TYPE, if same { "the same" } else { "others" }))
}

fn refused(model: &Model) -> Result<Vec<String>> {
    let tensor = |width: usize| Tensor::new([2, width], vec![1.0_f32; 2 * width]);
    let run =
        |inputs: &[(&str, Tensor)]| describe(model.run(inputs).map(|_| "computed".to_owned()));
    Ok(vec![
        run(&[("x", tensor(3)?)]),
        run(&[("z", tensor(2)?)]),
        run(&[("x", Tensor::new([2, 2], vec![1_i64; 4])?)]),
        describe(model.run(&[("x", tensor(2)?)])?.get("z").map(Tensor::to_string)),
    ])
}

fn describe(result: Result<String, Error>) -> String {
    result.unwrap_or_else(|error| format!("{}: {error}", error.code()))
}
