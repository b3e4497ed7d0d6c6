//! The interface `wasi:nn/tensor`: making and reading tensors.

use super::bindings::wasi::nn::tensor::{self, Host, HostTensor};
use super::resources::GuestTensor;
use super::view::View;
use crate::inference::NnTensorType;
use wasmtime::Result;
use wasmtime::component::Resource;

impl Host for View<'_> {}

impl HostTensor for View<'_> {
    fn new(
        &mut self,
        dims: Vec<u32>,
        ty: tensor::TensorType,
        bytes: Vec<u8>,
    ) -> Result<Resource<GuestTensor>> {
        let tensor = GuestTensor::new(dims, ty.into(), bytes, &mut self.inference.allowance);
        Ok(self.table.push(tensor)?)
    }

    fn dimensions(&mut self, tensor: Resource<GuestTensor>) -> Result<Vec<u32>> {
        Ok(self.table.get(&tensor)?.contents()?.0.to_vec())
    }

    fn ty(&mut self, tensor: Resource<GuestTensor>) -> Result<tensor::TensorType> {
        Ok(self.table.get(&tensor)?.ty.into())
    }

    fn data(&mut self, tensor: Resource<GuestTensor>) -> Result<Vec<u8>> {
        Ok(self.table.get(&tensor)?.contents()?.1.to_vec())
    }

    fn drop(&mut self, tensor: Resource<GuestTensor>) -> Result<()> {
        let tensor = self.table.delete(tensor)?;
        self.inference.allowance.give_back(tensor.counted);
        Ok(())
    }
}

impl From<tensor::TensorType> for NnTensorType {
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

impl From<NnTensorType> for tensor::TensorType {
    fn from(ty: NnTensorType) -> Self {
        match ty {
            NnTensorType::F16 => Self::Fp16,
            NnTensorType::F32 => Self::Fp32,
            NnTensorType::F64 => Self::Fp64,
            NnTensorType::Bf16 => Self::Bf16,
            NnTensorType::U8 => Self::U8,
            NnTensorType::I32 => Self::I32,
            NnTensorType::I64 => Self::I64,
        }
    }
}
