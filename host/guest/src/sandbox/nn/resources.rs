//! What a guest holds of inference.

use super::allowance::Allowance;
use super::ended::Ended;
use crate::inference::{
    self, ErrorCode, InferenceError, LoadedModel, OwnedTensor, TensorType, TensorView,
};
use crate::model::FailureKind;
use crate::sandbox::error::TensorsFull;

/// The resource `error`. A guest may hold many: its text is short (see [`InferenceError::refused`]), and
/// takes no more than its length.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct NnError {
    pub(super) code: inference::ErrorCode,
    pub(super) text: Box<str>,
}

/// A model.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct Graph(pub(super) LoadedModel);

/// A model that computes. All those of a model are one: each computation stands for itself.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct Execution(pub(super) LoadedModel);

/// A tensor that a guest holds.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct Tensor {
    dims: Vec<u32>,
    pub(super) ty: TensorType,
    bytes: Vec<u8>,
    /// Why it cannot be used: making it could not fail, so that this is told when it is used.
    fault: Option<Fault>,
    /// What is counted for it.
    pub(super) counted: u64,
}

enum Fault {
    /// Its bytes are not those that its type and dimensions ask for.
    Mismatch(String),
    /// There was no room for it; its bytes are gone.
    NoRoom(TensorsFull),
}

/// What is counted for a tensor.
fn counted(dims: &[u32], bytes: &[u8]) -> u64 {
    (bytes.len() as u64).saturating_add(size_of_val(dims) as u64)
}

impl Tensor {
    /// A guest's tensor.
    pub(super) fn new(
        dims: Vec<u32>,
        ty: TensorType,
        bytes: Vec<u8>,
        allowance: &mut Allowance,
    ) -> Self {
        let counted = counted(&dims, &bytes);
        if let Err(error) = allowance.take(counted, "this tensor takes") {
            let fault = Some(Fault::NoRoom(error));
            return Self { dims: Vec::new(), ty, bytes: Vec::new(), fault, counted: 0 };
        }
        let fault = mismatch(&dims, ty, bytes.len()).map(Fault::Mismatch);
        Self { dims, ty, bytes, fault, counted }
    }

    /// An output, which is counted already.
    pub(super) fn of_output(output: OwnedTensor) -> (String, Self) {
        let counted = Self::room(&output);
        let OwnedTensor { name, ty, dims, bytes } = output;
        (name, Self { dims, ty, bytes, fault: None, counted })
    }

    /// What will be counted for an output.
    pub(super) fn room(output: &OwnedTensor) -> u64 {
        counted(&output.dims, &output.bytes)
    }

    /// The tensor as an input of this name.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(super) fn view<'a>(&'a self, name: &'a str) -> Result<TensorView<'a>, InferenceError> {
        match &self.fault {
            Some(Fault::Mismatch(text)) => {
                let text = format!("input {name:?}: {text}");
                Err(InferenceError::refused(ErrorCode::InvalidArgument, text))
            }
            Some(Fault::NoRoom(text)) => {
                let text = format!("input {name:?} was not kept when it was made: {text}");
                Err(InferenceError::refused(ErrorCode::TooLarge, text))
            }
            None => Ok(TensorView { name, ty: self.ty, dims: &self.dims, bytes: &self.bytes }),
        }
    }

    /// What is given to a guest that asks. It is told of a mismatch when it computes; a tensor that is
    /// not there cannot be told otherwise.
    pub(super) fn contents(&self) -> Result<(&[u32], &[u8]), Ended> {
        match &self.fault {
            Some(Fault::NoRoom(text)) => {
                let message = format!("the tensor could not be kept: {text}");
                Err(Ended { kind: FailureKind::OverLimit, message })
            }
            Some(Fault::Mismatch(_)) | None => Ok((&self.dims, &self.bytes)),
        }
    }
}

/// Dimensions of a tensor. No backend takes more.
const MOST_DIMENSIONS: usize = 64;

/// What is wrong with a tensor of so many bytes.
fn mismatch(dims: &[u32], ty: TensorType, found: usize) -> Option<String> {
    let rank = dims.len();
    if rank > MOST_DIMENSIONS {
        let text = format!("a tensor has at most {MOST_DIMENSIONS} dimensions, and got {rank}");
        return Some(text);
    }
    let elements = dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(u64::from(*dim)));
    match elements.and_then(|elements| elements.checked_mul(ty.size() as u64)) {
        Some(expected) if expected == found as u64 => None,
        Some(expected) => {
            Some(format!("{ty} {dims:?} takes {expected} bytes of data, and got {found}"))
        }
        None => Some(format!("{ty} {dims:?} is larger than any memory; got {found} bytes of data")),
    }
}
