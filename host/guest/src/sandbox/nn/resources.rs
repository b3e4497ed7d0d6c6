//! The resources of inference that a guest holds.

use super::allowance::Allowance;
use super::ended::CallEnd;
use crate::inference::{
    self, InferenceError, LoadedModel, NnErrorCode, NnTensorType, OwnedTensor, TensorView,
};
use crate::model::FailureKind;
use crate::sandbox::error::TensorsFull;

/// The resource `error`. A guest may hold many, so its text is short (see [`InferenceError::refused`]) and
/// allocated to its exact length.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct NnErrorResource {
    pub(super) code: inference::NnErrorCode,
    pub(super) text: Box<str>,
}

/// A model.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct Graph(pub(super) LoadedModel);

/// An execution context. It has no state besides its model, because computations are independent.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct Execution(pub(super) LoadedModel);

/// A tensor that a guest holds.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct GuestTensor {
    dims: Vec<u32>,
    pub(super) ty: NnTensorType,
    bytes: Vec<u8>,
    /// Why the tensor cannot be used. The function that makes a tensor cannot return an error, so the error
    /// is returned when the tensor is used.
    fault: Option<Fault>,
    /// The bytes that are counted for the tensor.
    pub(super) counted: u64,
}

enum Fault {
    /// The bytes do not match the type and the dimensions.
    Mismatch(String),
    /// The tensor exceeded the limit. Its bytes have been dropped.
    NoRoom(TensorsFull),
}

fn counted_bytes(dims: &[u32], bytes: &[u8]) -> u64 {
    (bytes.len() as u64).saturating_add(size_of_val(dims) as u64)
}

impl GuestTensor {
    /// A tensor that the guest makes.
    pub(super) fn new(
        dims: Vec<u32>,
        ty: NnTensorType,
        bytes: Vec<u8>,
        allowance: &mut Allowance,
    ) -> Self {
        let counted = counted_bytes(&dims, &bytes);
        if let Err(error) = allowance.charge(counted, "this tensor takes") {
            let fault = Some(Fault::NoRoom(error));
            return Self { dims: Vec::new(), ty, bytes: Vec::new(), fault, counted: 0 };
        }
        let fault = mismatch(&dims, ty, bytes.len()).map(Fault::Mismatch);
        Self { dims, ty, bytes, fault, counted }
    }

    /// The name and tensor of an output. The caller has counted the output.
    pub(super) fn of_output(output: OwnedTensor) -> (String, Self) {
        let counted = Self::output_bytes(&output);
        let OwnedTensor { name, ty, dims, bytes } = output;
        (name, Self { dims, ty, bytes, fault: None, counted })
    }

    /// The bytes that are counted for an output.
    pub(super) fn output_bytes(output: &OwnedTensor) -> u64 {
        counted_bytes(&output.dims, &output.bytes)
    }

    /// The tensor as the input `name`.
    ///
    /// # Errors
    /// If the tensor cannot be used.
    pub(super) fn view<'a>(&'a self, name: &'a str) -> Result<TensorView<'a>, InferenceError> {
        match &self.fault {
            Some(Fault::Mismatch(text)) => {
                let text = format!("input {name:?}: {text}");
                Err(InferenceError::refused(NnErrorCode::InvalidArgument, text))
            }
            Some(Fault::NoRoom(text)) => {
                let text =
                    format!("input {name:?} was dropped when the entry script created it: {text}");
                Err(InferenceError::refused(NnErrorCode::TooLarge, text))
            }
            None => Ok(TensorView { name, ty: self.ty, dims: &self.dims, bytes: &self.bytes }),
        }
    }

    /// The content for a guest that reads the tensor. If the bytes do not match the type, computing
    /// with the tensor reports that later. If Sandmill dropped the bytes, this function can report
    /// that only by ending the call.
    pub(super) fn contents(&self) -> Result<(&[u32], &[u8]), CallEnd> {
        match &self.fault {
            Some(Fault::NoRoom(text)) => {
                let message = format!("the tensor could not be kept: {text}");
                Err(CallEnd { kind: FailureKind::OverLimit, message })
            }
            Some(Fault::Mismatch(_)) | None => Ok((&self.dims, &self.bytes)),
        }
    }
}

/// The maximum number of a tensor's dimensions. No backend supports more.
const MAX_DIMENSIONS: usize = 64;

/// Why a tensor with this many bytes is inconsistent; `None` if it is consistent.
fn mismatch(dims: &[u32], ty: NnTensorType, found: usize) -> Option<String> {
    let rank = dims.len();
    if rank > MAX_DIMENSIONS {
        let text = format!("a tensor has at most {MAX_DIMENSIONS} dimensions, and got {rank}");
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
