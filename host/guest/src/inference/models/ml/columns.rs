//! Operators that compute rows of numbers from rows of numbers.

use super::attributes::{floats, int, ints, text, texts};
use super::{Computation, OperatorRefusal, RowFunction, attribute};
use std::collections::HashMap;
use tract_onnx::pb::NodeProto;

/// `(x - offset) * scale`.
#[derive(Debug)]
struct Scaler {
    offset: Vec<f32>,
    scale: Vec<f32>,
}

pub(super) fn scaler(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    let offset = floats(node, "offset").to_vec();
    let scale = floats(node, "scale").to_vec();
    if offset.is_empty() || offset.len() != scale.len() {
        return Err(OperatorRefusal::Broken(format!(
            "has {} offsets and {} scales; it takes one offset and one scale for each column",
            offset.len(),
            scale.len()
        )));
    }
    Ok(Computation::Rows(Box::new(Scaler { offset, scale })))
}

impl RowFunction for Scaler {
    fn width(&self, columns: usize) -> usize {
        columns
    }

    fn takes(&self, columns: usize) -> bool {
        self.offset.len() == 1 || self.offset.len() == columns
    }

    fn row(&self, x: &[f32], y: &mut [f32]) {
        // A single offset and scale apply to all columns.
        let numbers = self.offset.iter().zip(&self.scale).cycle();
        for ((y, x), (offset, scale)) in y.iter_mut().zip(x).zip(numbers) {
            *y = (x - offset) * scale;
        }
    }
}

/// Divides each row by its norm.
#[derive(Debug)]
enum Normalizer {
    Max,
    L1,
    L2,
}

pub(super) fn normalizer(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    let norm = match text(node, "norm") {
        b"" | b"MAX" => Normalizer::Max,
        b"L1" => Normalizer::L1,
        b"L2" => Normalizer::L2,
        _ => {
            return Err(OperatorRefusal::Broken("has a norm other than MAX, L1 and L2".to_owned()));
        }
    };
    Ok(Computation::Rows(Box::new(norm)))
}

impl RowFunction for Normalizer {
    fn width(&self, columns: usize) -> usize {
        columns
    }

    fn takes(&self, _columns: usize) -> bool {
        true
    }

    fn row(&self, x: &[f32], y: &mut [f32]) {
        let norm = match self {
            // As in ONNX: the maximum of the values, not of their absolute values.
            Self::Max => x.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            Self::L1 => x.iter().map(|x| x.abs()).sum(),
            Self::L2 => x.iter().map(|x| x * x).sum::<f32>().sqrt(),
        };
        // A row of zeros stays unchanged.
        let norm = if norm == 0.0 { 1.0 } else { norm };
        for (y, x) in y.iter_mut().zip(x) {
            *y = x / norm;
        }
    }
}

/// Replaces missing numbers.
#[derive(Debug)]
struct Imputer {
    values: Vec<f32>,
    missing: f32,
}

pub(super) fn imputer(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    let values = floats(node, "imputed_value_floats").to_vec();
    if values.is_empty() {
        return Err(OperatorRefusal::Unsupported("of whole numbers"));
    }
    let missing = attribute(node, "replaced_value_float").map_or(0.0, |found| found.f);
    Ok(Computation::Rows(Box::new(Imputer { values, missing })))
}

impl RowFunction for Imputer {
    fn width(&self, columns: usize) -> usize {
        columns
    }

    fn takes(&self, columns: usize) -> bool {
        self.values.len() == 1 || self.values.len() == columns
    }

    fn row(&self, x: &[f32], y: &mut [f32]) {
        for ((y, x), value) in y.iter_mut().zip(x).zip(self.values.iter().cycle()) {
            let is_missing = *x == self.missing || (x.is_nan() && self.missing.is_nan());
            *y = if is_missing { *value } else { *x };
        }
    }
}

/// Turns each number into a row, with 1 in the column of the number's category and 0 in the other columns.
#[derive(Debug)]
pub(in super::super) struct OneHot {
    /// The column of each category.
    column_of: HashMap<i64, usize>,
    width: usize,
    /// Whether an unknown category gives a row of zeros instead of an error.
    zeros: bool,
}

pub(super) fn one_hot(node: &NodeProto) -> Result<Computation, OperatorRefusal> {
    if !texts(node, "cats_strings").is_empty() {
        return Err(OperatorRefusal::Unsupported("of categories that are texts"));
    }
    let categories = ints(node, "cats_int64s");
    let column_of: HashMap<i64, usize> =
        categories.iter().enumerate().map(|(column, category)| (*category, column)).collect();
    if categories.is_empty() || column_of.len() != categories.len() {
        return Err(OperatorRefusal::Broken(
            "has no categories, or has a category twice".to_owned(),
        ));
    }
    let zeros = int(node, "zeros").unwrap_or(1) != 0;
    Ok(Computation::OneHot(OneHot { column_of, width: categories.len(), zeros }))
}

impl OneHot {
    /// The number of columns of each row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Sets the category's column to 1 in `y`, a row of zeros. An unknown category leaves the row
    /// unchanged. Returns false if the category is unknown and this is an error (see `zeros`).
    pub(super) fn row(&self, category: i64, y: &mut [f32]) -> bool {
        match self.column_of.get(&category) {
            Some(column) => {
                y[*column] = 1.0;
                true
            }
            None => self.zeros,
        }
    }
}
