//! The models of a native test: functions that the test passes instead of ONNX files.

use crate::nn::{Description, Dimension, ElementType, ErrorCode, NnError, Port, Tensor, Tensors};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The function that a test passes for a model.
type Compute = dyn Fn(&Tensors) -> Result<Vec<(String, Tensor)>, NnError> + Send + Sync;

thread_local! {
    static MODELS: RefCell<TestModels> = const { RefCell::new(TestModels(BTreeMap::new())) };
}

/// The models of a test, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestModels(BTreeMap<String, ModelHandle>);

impl TestModels {
    pub(crate) fn add(&mut self, description: Description, compute: Box<Compute>) {
        let name = description.name.clone();
        self.0.insert(name, ModelHandle(Arc::new(FakeModel { description, compute })));
    }

    /// Makes these models available to the entry script on this thread.
    pub(crate) fn install(&self) {
        MODELS.set(self.clone());
    }
}

pub(crate) fn names() -> Vec<String> {
    MODELS.with_borrow(|models| models.0.keys().cloned().collect())
}

/// A loaded model.
#[derive(Clone, Debug)]
pub(crate) struct ModelHandle(Arc<FakeModel>);

struct FakeModel {
    description: Description,
    compute: Box<Compute>,
}

impl fmt::Debug for FakeModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeModel").field("description", &self.description).finish_non_exhaustive()
    }
}

impl ModelHandle {
    pub(crate) fn load(name: &str) -> Result<(Description, Self), NnError> {
        let found = MODELS.with_borrow(|models| models.0.get(name).cloned());
        let loaded = found.ok_or_else(|| {
            let existing = match names().as_slice() {
                [] => "the test has no models".to_owned(),
                names => format!("the test's models are {names:?}"),
            };
            NnError::new(
                ErrorCode::NotFound,
                format!("there is no model {name:?}; {existing}; add one with TestHost::model"),
            )
        })?;
        Ok((loaded.0.description.clone(), loaded))
    }

    pub(crate) fn run(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, NnError> {
        self.check(inputs)?;
        let owned = inputs.iter().map(|(name, tensor)| ((*name).to_owned(), (*tensor).clone()));
        (self.0.compute)(&Tensors::new("input", owned.collect()))
    }

    /// Checks the inputs against the description, in the same order and with the same messages as a host.
    /// Accepts all inputs if the description has no inputs.
    fn check(&self, inputs: &[(&str, &Tensor)]) -> Result<(), NnError> {
        let ports = &self.0.description.inputs;
        if ports.is_empty() {
            return Ok(());
        }
        for (index, (name, _)) in inputs.iter().enumerate() {
            if ports.iter().all(|port| port.name != *name) {
                let ports = listed(ports);
                return Err(NnError::argument(format!(
                    "there is no input {name:?}; the model takes {ports}"
                )));
            }
            if inputs[..index].iter().any(|(other, _)| other == name) {
                return Err(NnError::argument(format!("input {name:?} is given twice")));
            }
        }
        let mut sizes = BTreeMap::new();
        for port in ports {
            let Some((_, tensor)) = inputs.iter().find(|(name, _)| *name == port.name) else {
                let name = &port.name;
                let ports = listed(ports);
                return Err(NnError::argument(format!(
                    "input {name:?} is missing; the model takes {ports}"
                )));
            };
            check_fit(port, tensor, &mut sizes)?;
        }
        Ok(())
    }
}

/// Lists inputs, for example `"x" (f32 [N, 64]), "y" (i64 [N])`.
fn listed(ports: &[Port]) -> String {
    let ports: Vec<String> = ports.iter().map(|port| format!("{:?} ({port})", port.name)).collect();
    ports.join(", ")
}

/// Checks that a tensor fits an input. `sizes` has the size of each named dimension, and the input that set
/// the size: all inputs must agree.
fn check_fit<'a>(
    port: &'a Port,
    tensor: &Tensor,
    sizes: &mut BTreeMap<&'a str, (usize, &'a str)>,
) -> Result<(), NnError> {
    let Port { name, ty, shape } = port;
    let misfit = |with: &str| {
        NnError::argument(format!("input {name:?}: expected {port}{with}, got {tensor}"))
    };
    if *ty != ElementType::Standard(tensor.ty()) {
        return Err(misfit(""));
    }
    let Some(shape) = shape else { return Ok(()) };
    // An input without dimensions also accepts the shape `[1]`.
    let found = if shape.is_empty() && tensor.shape() == [1] { &[] } else { tensor.shape() };
    if shape.len() != found.len() {
        return Err(misfit(""));
    }
    for (dimension, size) in shape.iter().zip(found) {
        match dimension {
            Dimension::Fixed(expected) if usize::try_from(*expected) != Ok(*size) => {
                return Err(misfit(""));
            }
            Dimension::Named(symbol) => {
                let (expected, from) = *sizes.entry(symbol).or_insert((*size, name));
                if expected != *size {
                    return Err(misfit(&format!(
                        " with {symbol} = {expected} as in input {from:?}"
                    )));
                }
            }
            Dimension::Fixed(_) | Dimension::Unknown => (),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::nn::{Description, ErrorCode, Model, Tensor};
    use crate::test::TestHost;
    use crate::{EntryScript, Job, MiniBatchContext, Result, Results, Void};

    struct Doubles(Model);

    impl EntryScript for Doubles {
        type Input = Void;

        fn init(job: &Job) -> Result<Self> {
            Ok(Doubles(Model::load(job.argument("--model").unwrap_or("double"))?))
        }

        fn run(&mut self, (): (), _context: &MiniBatchContext) -> Result<Results> {
            let x = Tensor::new([2, 2], vec![1.0_f32, 2.0, 3.0, 4.0])?;
            let outputs = self.0.run(&[("x", &x)])?;
            Ok(Results::rows(outputs.at(0)?.rows::<f32>()?.map(|row| format!("{row:?}"))))
        }
    }

    fn host() -> TestHost {
        let double = Description::new("double")
            .input::<f32>("x", &["N", "2"])
            .input::<i64>("y", &["N", "?"])
            .output::<f32>("doubled", &["N", "2"]);
        TestHost::new().model("other", |_| Ok(Vec::<(&str, _)>::new())).model(double, |inputs| {
            let x = inputs.get("x")?.clone();
            let doubled: Vec<f32> = x.values::<f32>()?.iter().map(|x| 2.0 * x).collect();
            Ok(vec![("doubled", Tensor::new(x.shape(), doubled)?)])
        })
    }

    #[test]
    fn a_function_replaces_a_model() {
        let double = |inputs: &crate::nn::Tensors| {
            let x = inputs.get("x")?;
            let doubled: Vec<f32> = x.values::<f32>()?.iter().map(|x| 2.0 * x).collect();
            Ok(vec![("doubled", Tensor::new(x.shape(), doubled)?)])
        };
        let mut script = TestHost::new().model("double", double).init::<Doubles>().unwrap();
        assert_eq!(script.run_void().unwrap(), Results::rows(["[2.0, 4.0]", "[6.0, 8.0]"]));
        assert_eq!((script.0.backend(), script.0.device()), ("test", "cpu"));
    }

    #[test]
    fn a_missing_model_error_lists_the_existing_models() {
        let error = host().arguments(["--model", "doble"]).init::<Doubles>().err().unwrap();
        assert_eq!(
            error.to_string(),
            "there is no model \"doble\"; the test's models are [\"double\", \"other\"]; \
             add one with TestHost::model"
        );
        let error = TestHost::new().init::<Doubles>().err().unwrap().to_string();
        assert!(error.contains("the test has no models"), "{error}");
        assert_eq!(Model::load("x").unwrap_err().code(), ErrorCode::NotFound);
        assert!(crate::nn::names().is_empty());
    }

    #[test]
    fn inputs_are_checked_against_the_description() {
        let script = host().init::<Doubles>().unwrap();
        let model = &script.0;
        assert_eq!(crate::nn::names(), ["double", "other"]);
        assert_eq!(model.outputs()[0].to_string(), "f32 [N, 2]");
        let x =
            |rows, columns| Tensor::new([rows, columns], vec![1.0_f32; rows * columns]).unwrap();
        let y = |rows| Tensor::new([rows, 1], vec![1_i64; rows]).unwrap();
        let error_text = |inputs: &[(&str, Tensor)]| model.run(inputs).unwrap_err().to_string();
        assert!(model.run(&[("y", y(3)), ("x", x(3, 2))]).is_ok());
        assert_eq!(
            error_text(&[("x", x(3, 2))]),
            r#"input "y" is missing; the model takes "x" (f32 [N, 2]), "y" (i64 [N, ?])"#
        );
        assert_eq!(
            error_text(&[("x", x(3, 4)), ("y", y(3))]),
            r#"input "x": expected f32 [N, 2], got f32 [3, 4]"#
        );
        assert_eq!(
            error_text(&[("x", y(3)), ("y", y(3))]),
            r#"input "x": expected f32 [N, 2], got i64 [3, 1]"#
        );
        // Both inputs must have the same N.
        assert_eq!(
            error_text(&[("x", x(3, 2)), ("y", y(4))]),
            r#"input "y": expected i64 [N, ?] with N = 3 as in input "x", got i64 [4, 1]"#
        );
        assert_eq!(error_text(&[("x", x(1, 2)), ("x", x(1, 2))]), r#"input "x" is given twice"#);
        assert_eq!(
            error_text(&[("x", x(1, 2)), ("y", y(1)), ("z", y(1))]),
            r#"there is no input "z"; the model takes "x" (f32 [N, 2]), "y" (i64 [N, ?])"#
        );
    }
}
