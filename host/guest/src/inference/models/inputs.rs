//! Checks tensors against a model's inputs. The error messages are the same for every backend.

use super::error::short;
use super::{
    InferenceError, ModelDimension, ModelElementType, ModelFacts, ModelPort, ModelShape,
    NnErrorCode, TensorView,
};
use std::collections::HashMap;

/// Checks the given tensors, and returns them in the order of the model's inputs. If an input is a scalar,
/// its tensor may have the shape `[1]`; the result then has no dimensions.
///
/// # Errors
/// If an input is missing, unknown or given twice, or its type, shape or length is wrong. Also if `wasi:nn`
/// can represent none of the model's outputs.
pub(super) fn check<'a>(
    facts: &ModelFacts,
    given: &[TensorView<'a>],
) -> Result<Vec<TensorView<'a>>, InferenceError> {
    if !facts.outputs.iter().any(|port| matches!(port.ty, ModelElementType::Standard(_))) {
        let outputs = list_ports(&facts.outputs);
        return Err(InferenceError::refused(
            NnErrorCode::UnsupportedOperation,
            format!("tensors of wasi:nn can hold none of the model's outputs: {outputs}"),
        ));
    }
    for (index, view) in given.iter().enumerate() {
        if !facts.inputs.iter().any(|port| port.name == view.name) {
            let inputs = list_ports(&facts.inputs);
            return Err(invalid(format!(
                "there is no input {:?}; the model takes {inputs}",
                short(view.name)
            )));
        }
        if given[..index].iter().any(|other| other.name == view.name) {
            return Err(invalid(format!("input {:?} is given twice", view.name)));
        }
    }
    let mut sizes = HashMap::new();
    facts
        .inputs
        .iter()
        .map(|port| match given.iter().find(|view| view.name == port.name) {
            Some(view) => check_one(port, *view, &mut sizes),
            None => {
                let inputs = list_ports(&facts.inputs);
                Err(invalid(format!("input {:?} is missing; the model takes {inputs}", port.name)))
            }
        })
        .collect()
}

/// Checks one input. `sizes` has the size of each named dimension, and the name of the input that set the
/// size.
fn check_one<'a, 'f>(
    port: &'f ModelPort,
    mut view: TensorView<'a>,
    sizes: &mut HashMap<&'f str, (u32, &'f str)>,
) -> Result<TensorView<'a>, InferenceError> {
    let ModelPort { name, ty, shape } = port;
    let ModelElementType::Standard(ty) = ty else {
        return Err(InferenceError::refused(
            NnErrorCode::UnsupportedOperation,
            format!("input {name:?} is of type {ty}, which tensors of wasi:nn cannot have"),
        ));
    };
    let got = format!("got {} {}", view.ty, ModelShape(view.dims));
    let mismatch = || invalid(format!("input {name:?}: expected {port}, {got}"));
    if *ty != view.ty {
        return Err(mismatch());
    }
    if let Some(shape) = shape {
        if shape.is_empty() && view.dims == [1] {
            view.dims = &[];
        }
        let fits = |(dimension, size): (&ModelDimension, &u32)| !matches!(dimension, ModelDimension::Fixed(expected) if expected != size);
        if shape.len() != view.dims.len() || !shape.iter().zip(view.dims).all(fits) {
            return Err(mismatch());
        }
        for (dimension, size) in shape.iter().zip(view.dims) {
            let ModelDimension::Named(symbol) = dimension else { continue };
            let (expected, from) = *sizes.entry(symbol).or_insert((*size, name));
            if expected != *size {
                return Err(invalid(format!(
                    "input {name:?}: expected {port} with {symbol} = {expected} as in input {from:?}, {got}"
                )));
            }
        }
    }
    let elements =
        view.dims.iter().try_fold(1_usize, |product, size| product.checked_mul(*size as usize));
    let expected = elements.and_then(|elements| elements.checked_mul(ty.size()));
    if expected != Some(view.bytes.len()) {
        let expected = expected.map_or("at least 2^64".to_owned(), |bytes| bytes.to_string());
        let shape = ModelShape(view.dims);
        let bytes = view.bytes.len();
        return Err(invalid(format!(
            "input {name:?}: {ty} {shape} is {expected} bytes, got {bytes}"
        )));
    }
    Ok(view)
}

/// For example `"x" (f32 [N, 64]), "y" (i64 [N])`.
fn list_ports(ports: &[ModelPort]) -> String {
    if ports.is_empty() {
        return "none".to_owned();
    }
    let ports: Vec<String> = ports.iter().map(|port| format!("{:?} ({port})", port.name)).collect();
    ports.join(", ")
}

fn invalid(message: String) -> InferenceError {
    InferenceError::refused(NnErrorCode::InvalidArgument, message)
}
