//! The resource `tensor`, and how many bytes of tensors a guest may hold.

use super::bindings::wasi::nn::tensor::{self, Host, HostTensor};
use super::errors::Ended;
use super::view::View;
use crate::inference::{ErrorCode, InferenceError, OwnedTensor, TensorType, TensorView};
use crate::model::{ByteSize, FailureKind};
use crate::sandbox::error::TensorsFull;
use wasmtime::Result;
use wasmtime::component::Resource;

/// The bytes of tensors that a guest holds in the host, against `limits.tensors`.
pub(super) struct Allowance {
    limit: ByteSize,
    held: u64,
}

impl Allowance {
    pub(super) fn new(limit: ByteSize) -> Self {
        Self { limit, held: 0 }
    }

    /// Counts more bytes.
    ///
    /// # Errors
    /// They are too many, and are not counted then. `what`: what takes them.
    pub(super) fn take(&mut self, bytes: u64, what: &'static str) -> Result<(), TensorsFull> {
        match self.held.checked_add(bytes) {
            Some(held) if held <= self.limit.0 => {
                self.held = held;
                Ok(())
            }
            _ => {
                let (limit, held, more) = (self.limit, ByteSize(self.held), ByteSize(bytes));
                Err(TensorsFull { limit, held, what, more })
            }
        }
    }

    /// What is counted now.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Counts them no more.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }
}

/// A tensor that a guest holds.
#[expect(unreachable_pub, reason = "generated code exports it again")]
pub struct Tensor {
    dims: Vec<u32>,
    ty: TensorType,
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
    fn new(dims: Vec<u32>, ty: TensorType, bytes: Vec<u8>, allowance: &mut Allowance) -> Self {
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
    fn contents(&self) -> Result<(&[u32], &[u8]), Ended> {
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

impl Host for View<'_> {}

impl HostTensor for View<'_> {
    fn new(
        &mut self,
        dims: Vec<u32>,
        ty: tensor::TensorType,
        bytes: Vec<u8>,
    ) -> Result<Resource<Tensor>> {
        let tensor = Tensor::new(dims, ty.into(), bytes, &mut self.inference.allowance);
        Ok(self.table.push(tensor)?)
    }

    fn dimensions(&mut self, tensor: Resource<Tensor>) -> Result<Vec<u32>> {
        Ok(self.table.get(&tensor)?.contents()?.0.to_vec())
    }

    fn ty(&mut self, tensor: Resource<Tensor>) -> Result<tensor::TensorType> {
        Ok(self.table.get(&tensor)?.ty.into())
    }

    fn data(&mut self, tensor: Resource<Tensor>) -> Result<Vec<u8>> {
        Ok(self.table.get(&tensor)?.contents()?.1.to_vec())
    }

    fn drop(&mut self, tensor: Resource<Tensor>) -> Result<()> {
        let tensor = self.table.delete(tensor)?;
        self.inference.allowance.give_back(tensor.counted);
        Ok(())
    }
}

impl From<tensor::TensorType> for TensorType {
    fn from(ty: tensor::TensorType) -> Self {
        match ty {
            tensor::TensorType::Fp16 => Self::F16,
            tensor::TensorType::Fp32 => Self::F32,
            tensor::TensorType::Fp64 => Self::F64,
            tensor::TensorType::Bf16 => Self::Bf16,
            tensor::TensorType::U8 => Self::U8,
            tensor::TensorType::I32 => Self::I32,
            tensor::TensorType::I64 => Self::I64,
        }
    }
}

impl From<TensorType> for tensor::TensorType {
    fn from(ty: TensorType) -> Self {
        match ty {
            TensorType::F16 => Self::Fp16,
            TensorType::F32 => Self::Fp32,
            TensorType::F64 => Self::Fp64,
            TensorType::Bf16 => Self::Bf16,
            TensorType::U8 => Self::U8,
            TensorType::I32 => Self::I32,
            TensorType::I64 => Self::I64,
        }
    }
}
