//! Checks that the weights of a model match their description, and counts their bytes.

use super::{InferenceError, ModelShape, NnErrorCode, onnx_facts};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};
use tract_onnx::pb::tensor_proto::{DataLocation, DataType};
use tract_onnx::pb::{AttributeProto, ModelProto, SparseTensorProto, TensorProto};

/// The sizes of a model's weights in memory, in bytes.
pub(super) struct Weights<'a> {
    /// The folder that may contain other files of the model; `None` for a model from bytes.
    folder: Option<&'a Path>,
    /// The size of the weights in the model's own file.
    pub(super) inside_bytes: u64,
    /// The size of the weights in separate files.
    pub(super) separate_bytes: u64,
    /// The separate files, as the model names them: paths relative to its folder.
    pub(super) separate_files: BTreeSet<String>,
}

impl<'a> Weights<'a> {
    /// No weights yet.
    pub(super) fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, inside_bytes: 0, separate_bytes: 0, separate_files: BTreeSet::new() }
    }

    /// Checks and counts all tensors of a model.
    ///
    /// # Errors
    /// If a tensor's data does not match its description, or is in a forbidden place.
    pub(super) fn add_all(&mut self, proto: &ModelProto) -> Result<(), InferenceError> {
        for graph in onnx_facts::graphs(proto) {
            graph.initializer.iter().try_for_each(|tensor| self.add(tensor))?;
            graph.sparse_initializer.iter().try_for_each(|tensor| self.add_sparse(tensor))?;
        }
        for AttributeProto { t, tensors, sparse_tensor, sparse_tensors, .. } in
            onnx_facts::nodes(proto).flat_map(|node| &node.attribute)
        {
            t.iter().chain(tensors).try_for_each(|tensor| self.add(tensor))?;
            let mut sparse = sparse_tensor.iter().chain(sparse_tensors);
            sparse.try_for_each(|tensor| self.add_sparse(tensor))?;
        }
        Ok(())
    }

    fn add(&mut self, tensor: &TensorProto) -> Result<(), InferenceError> {
        let name = &tensor.name;
        let elements = element_count(name, &tensor.dims)?;
        let external = tensor.data_location == Some(DataLocation::External as i32);
        if external {
            refuse_ambiguous(tensor)?;
        }
        let Ok(ty) = DataType::try_from(tensor.data_type) else {
            // The type is from a newer ONNX version. The weight cannot take more than its raw data.
            self.inside_bytes = self.inside_bytes.saturating_add(tensor.raw_data.len() as u64);
            return Ok(());
        };
        let bytes = raw_bytes(elements, ty).ok_or_else(|| too_large(name, &tensor.dims))?;
        if external {
            self.add_external(tensor, bytes)?;
            self.separate_bytes = self.separate_bytes.saturating_add(bytes);
            return Ok(());
        }
        let (expected, found, unit) = if tensor.raw_data.is_empty() {
            let (expected, found) = value_counts(tensor, elements, ty);
            (expected, found, "values")
        } else {
            (bytes, tensor.raw_data.len() as u64, "bytes")
        };
        if expected != found {
            let ty = ty.as_str_name().to_ascii_lowercase();
            let shape = ModelShape(&tensor.dims);
            return Err(invalid_model(format!(
                "its weight {name:?} is {ty} {shape}, which takes {expected} {unit}; it has {found}"
            )));
        }
        self.inside_bytes = self.inside_bytes.saturating_add(bytes);
        Ok(())
    }

    fn add_sparse(&mut self, tensor: &SparseTensorProto) -> Result<(), InferenceError> {
        let name = tensor.values.as_ref().map_or("", |values| values.name.as_str());
        tensor.values.iter().chain(&tensor.indices).try_for_each(|part| self.add(part))?;
        // Backends convert a sparse tensor to a dense one.
        let elements = element_count(name, &tensor.dims)?;
        let ty =
            tensor.values.as_ref().and_then(|values| DataType::try_from(values.data_type).ok());
        let bytes = raw_bytes(elements, ty.unwrap_or(DataType::Double));
        let bytes = bytes.ok_or_else(|| too_large(name, &tensor.dims))?;
        self.inside_bytes = self.inside_bytes.saturating_add(bytes);
        Ok(())
    }

    /// Checks a weight in another file of the model's folder. `bytes` is the size that the weight's
    /// description implies.
    fn add_external(&mut self, tensor: &TensorProto, bytes: u64) -> Result<(), InferenceError> {
        let name = &tensor.name;
        let entry = |key: &str| tensor.external_data.iter().find(|entry| entry.key == key);
        let location = entry("location").map_or("", |entry| entry.value.as_str());
        let prefix = format!("its weight {name:?} is in another file, {location:?}");
        let Some(folder) = self.folder else {
            return Err(invalid_model(format!(
                "{prefix}, and a model from bytes has no other files"
            )));
        };
        let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let outside =
            || invalid_model(format!("{prefix}, which is not a file of the model's folder"));
        if location.is_empty() || !Path::new(location).components().all(is_below) {
            return Err(outside());
        }
        let unreadable = |error: std::io::Error| {
            invalid_model(format!(
                "{prefix}, which cannot be read ({error}); if it is next to the model's file, write \
                 the folder as the model's path"
            ))
        };
        let folder = folder.canonicalize().map_err(unreadable)?;
        let file = folder.join(location).canonicalize().map_err(unreadable)?;
        let metadata = fs::metadata(&file).map_err(unreadable)?;
        if !file.starts_with(&folder) || !metadata.is_file() {
            return Err(outside());
        }
        let number = |key: &str, default: u64| match entry(key) {
            Some(entry) => entry.value.parse().map_err(|_| {
                invalid_model(format!("{prefix}, whose {key} is not a number: {:?}", entry.value))
            }),
            None => Ok(default),
        };
        let (offset, length): (u64, u64) = (number("offset", 0)?, number("length", bytes)?);
        let end = offset.checked_add(length);
        if length != bytes || end.is_none_or(|end| end > metadata.len()) {
            return Err(invalid_model(format!(
                "{prefix}, at offset {offset} with a length of {length} bytes; the weight takes {bytes}, \
                 and the file has {}",
                metadata.len()
            )));
        }
        self.separate_files.insert(location.to_owned());
        Ok(())
    }
}

/// Refuses a weight with contradictory descriptions, because backends differ in which of them they read.
fn refuse_ambiguous(tensor: &TensorProto) -> Result<(), InferenceError> {
    let TensorProto { name, external_data, .. } = tensor;
    let has_values = !tensor.raw_data.is_empty()
        || !tensor.float_data.is_empty()
        || !tensor.double_data.is_empty()
        || !tensor.int32_data.is_empty()
        || !tensor.int64_data.is_empty()
        || !tensor.uint64_data.is_empty()
        || !tensor.string_data.is_empty();
    if has_values {
        return Err(invalid_model(format!(
            "its weight {name:?} refers to another file, but also contains values"
        )));
    }
    if DataType::try_from(tensor.data_type).is_err() {
        return Err(invalid_model(format!(
            "its weight {name:?} is in another file, and its type ({}) is not known",
            tensor.data_type
        )));
    }
    for (index, entry) in external_data.iter().enumerate() {
        if external_data[..index].iter().any(|other| other.key == entry.key) {
            let key = &entry.key;
            return Err(invalid_model(format!(
                "its weight {name:?} is in another file, and has {key:?} twice"
            )));
        }
    }
    Ok(())
}

/// The product of the dimensions.
fn element_count(name: &str, dims: &[i64]) -> Result<u64, InferenceError> {
    if let Some(negative) = dims.iter().find(|size| **size < 0) {
        return Err(invalid_model(format!("its weight {name:?} has a dimension of {negative}")));
    }
    let product =
        dims.iter().try_fold(1_u64, |product, size| product.checked_mul(size.unsigned_abs()));
    product.ok_or_else(|| too_large(name, dims))
}

fn too_large(name: &str, dims: &[i64]) -> InferenceError {
    let shape = ModelShape(dims);
    invalid_model(format!(
        "its weight {name:?} has the dimensions {shape}, more than any memory holds"
    ))
}

/// The size of the elements as raw data, in bytes. For strings, this is a lower bound. `None` if it exceeds
/// 64 bits.
fn raw_bytes(elements: u64, ty: DataType) -> Option<u64> {
    let size = match ty {
        DataType::Uint4 | DataType::Int4 | DataType::Float4e2m1 => {
            return Some(elements.div_ceil(2));
        }
        DataType::Undefined
        | DataType::Uint8
        | DataType::Int8
        | DataType::Bool
        | DataType::Float8e4m3fn
        | DataType::Float8e4m3fnuz
        | DataType::Float8e5m2
        | DataType::Float8e5m2fnuz => 1,
        DataType::Uint16 | DataType::Int16 | DataType::Float16 | DataType::Bfloat16 => 2,
        DataType::Float | DataType::Int32 | DataType::Uint32 => 4,
        DataType::Int64 | DataType::Uint64 | DataType::Double | DataType::Complex64 => 8,
        DataType::Complex128 | DataType::String => 16,
    };
    elements.checked_mul(size)
}

/// The number of values that a tensor needs in the list for its type, and the number that it has.
fn value_counts(tensor: &TensorProto, elements: u64, ty: DataType) -> (u64, u64) {
    let (expected, found) = match ty {
        DataType::Float => (elements, tensor.float_data.len()),
        DataType::Complex64 => (elements.saturating_mul(2), tensor.float_data.len()),
        DataType::Double => (elements, tensor.double_data.len()),
        DataType::Complex128 => (elements.saturating_mul(2), tensor.double_data.len()),
        DataType::Int64 => (elements, tensor.int64_data.len()),
        DataType::Uint32 | DataType::Uint64 => (elements, tensor.uint64_data.len()),
        DataType::String => (elements, tensor.string_data.len()),
        DataType::Uint4 | DataType::Int4 | DataType::Float4e2m1 => {
            (elements.div_ceil(2), tensor.int32_data.len())
        }
        _ => (elements, tensor.int32_data.len()),
    };
    (expected, found as u64)
}

fn invalid_model(message: String) -> InferenceError {
    InferenceError::refused(NnErrorCode::InvalidEncoding, message)
}
