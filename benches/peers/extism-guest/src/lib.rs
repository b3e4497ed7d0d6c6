//! The logistic regression as a plug-in for Extism. Takes ten columns of floats as bytes, and returns one
//! column.

use extism_pdk::{FnResult, plugin_fn};

#[path = "../../../kernels/logistic.rs"]
mod kernel;

#[plugin_fn]
pub fn score(input: Vec<u8>) -> FnResult<Vec<u8>> {
    let floats: &[f64] = bytemuck::cast_slice(&input);
    let rows = floats.len() / kernel::WEIGHTS.len();
    let mut numbers = Vec::new();
    kernel::logistic(floats.chunks_exact(rows), rows, &mut numbers);
    Ok(bytemuck::cast_slice(&numbers).to_vec())
}
