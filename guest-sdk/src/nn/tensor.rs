//! Tensors.

use super::element::Values;
use super::{Element, NnError, TensorType};
use std::fmt;

/// Numbers of one type in a shape, in row-major order.
///
/// ```
/// use sandmill_guest::nn::Tensor;
///
/// let tensor = Tensor::new([2, 3], vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(tensor.shape(), [2, 3]);
/// assert_eq!(tensor.values::<f32>()?[3], 4.0);
/// assert_eq!(
///     tensor.values::<i64>().unwrap_err().to_string(),
///     "expected a tensor of i64, got f32 [2, 3]"
/// );
/// # Ok::<(), sandmill_guest::nn::NnError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    values: Values,
}

impl Tensor {
    /// A tensor of this shape. `[]` is the shape of a single number.
    ///
    /// # Errors
    /// The number of values does not fit the shape.
    pub fn new<T: Element>(
        shape: impl Into<Vec<usize>>,
        values: impl Into<Vec<T>>,
    ) -> Result<Self, NnError> {
        Self::from_values(shape.into(), T::store(values.into()))
    }

    pub(crate) fn from_values(shape: Vec<usize>, values: Values) -> Result<Self, NnError> {
        let found = values.len();
        if count(&shape) == Some(found) {
            return Ok(Tensor { shape, values });
        }
        let ty = values.ty();
        let named = ShownShape(&shape);
        Err(NnError::argument(match count(&shape) {
            Some(wanted) => format!("a tensor {ty} {named} has {wanted} values, got {found}"),
            None => format!("a tensor {ty} {named} is larger than any memory, got {found} values"),
        }))
    }

    /// A tensor whose shape is known to fit the number of values.
    #[cfg(feature = "ndarray")]
    pub(super) fn of_array<T: Element>(shape: Vec<usize>, values: Vec<T>) -> Self {
        Tensor { shape, values: T::store(values) }
    }

    /// Joins items of one shape to one tensor, so that one call of a model runs a whole mini-batch. The first
    /// dimension of the tensor is the number of items.
    ///
    /// ```
    /// # use sandmill_guest::nn::Tensor;
    /// let images = [vec![0.0_f32; 64], vec![1.0; 64]];
    /// assert_eq!(Tensor::stack([8, 8], &images)?.shape(), [2, 8, 8]);
    /// # Ok::<(), sandmill_guest::nn::NnError>(())
    /// ```
    ///
    /// # Errors
    /// The number of values in an item does not fit the shape. The error names the first such item.
    pub fn stack<T: Element, I: AsRef<[T]>>(
        item: impl Into<Vec<usize>>,
        items: impl IntoIterator<Item = I>,
    ) -> Result<Self, NnError> {
        let mut shape = item.into();
        let mut values = Vec::<T>::new();
        let mut number = 0;
        for item in items {
            let item = item.as_ref();
            if count(&shape) != Some(item.len()) {
                let named = ShownShape(&shape);
                let found = item.len();
                return Err(NnError::argument(format!(
                    "item {number} has {found} values, which is not the shape {named}"
                )));
            }
            values.extend_from_slice(item);
            number += 1;
        }
        shape.insert(0, number);
        Self::new(shape, values)
    }

    /// The size of each dimension, the outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the elements.
    pub fn ty(&self) -> TensorType {
        self.values.ty()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, row-major.
    ///
    /// # Errors
    /// The elements are of another type.
    pub fn values<T: Element>(&self) -> Result<&[T], NnError> {
        T::view(&self.values).ok_or_else(|| self.misfit::<T>())
    }

    /// Moves the elements, row-major, out of the tensor.
    ///
    /// # Errors
    /// The elements are of another type.
    pub fn into_values<T: Element>(self) -> Result<Vec<T>, NnError> {
        let misfit = self.misfit::<T>();
        T::from_values(self.values).ok_or(misfit)
    }

    /// A slice for each index of the first dimension. If the first dimension is the number of items in a
    /// mini-batch, each slice has the values of one item.
    ///
    /// ```
    /// # use sandmill_guest::nn::Tensor;
    /// let scores = Tensor::new([2, 3], vec![0.1_f32, 0.7, 0.2, 0.8, 0.1, 0.1])?;
    /// let sums: Vec<f32> = scores.rows::<f32>()?.map(|row| row.iter().sum()).collect();
    /// assert_eq!(sums.len(), 2);
    /// # Ok::<(), sandmill_guest::nn::NnError>(())
    /// ```
    ///
    /// A tensor without dimensions is one row.
    ///
    /// # Errors
    /// The elements are of another type.
    pub fn rows<T: Element>(
        &self,
    ) -> Result<impl ExactSizeIterator<Item = &[T]> + DoubleEndedIterator + Clone, NnError> {
        let values = self.values::<T>()?;
        let (number, width) = match self.shape.split_first() {
            Some((first, rest)) => (*first, rest.iter().product()),
            None => (1, 1),
        };
        // A row may have width 0, for which `chunks` would panic.
        Ok((0..number).map(move |row| &values[row * width..(row + 1) * width]))
    }

    #[cfg(target_arch = "wasm32")]
    pub(crate) fn stored(&self) -> &Values {
        &self.values
    }

    /// The error for elements of another type.
    fn misfit<T: Element>(&self) -> NnError {
        NnError::argument(format!("expected a tensor of {}, got {self}", T::TYPE))
    }
}

/// Writes for example `f32 [20, 64]`.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ty(), ShownShape(&self.shape))
    }
}

/// The number of elements. `None` if it does not fit in a `usize`.
fn count(shape: &[usize]) -> Option<usize> {
    // If a dimension is 0, there are no elements, even if the product of the other dimensions overflows.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size))
}

/// Writes a shape, for example `[20, 64]`.
struct ShownShape<'a>(&'a [usize]);

impl fmt::Display for ShownShape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Named tensors in order: the inputs or the outputs of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensors {
    /// `output` or `input`, for errors.
    role: &'static str,
    named: Vec<(String, Tensor)>,
}

impl Tensors {
    pub(crate) fn new(role: &'static str, named: Vec<(String, Tensor)>) -> Self {
        Tensors { role, named }
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// There is no tensor of this name. The error lists the names that exist.
    pub fn get(&self, name: &str) -> Result<&Tensor, NnError> {
        match self.named.iter().find(|(other, _)| other == name) {
            Some((_, tensor)) => Ok(tensor),
            None => Err(self.missing(&format!("{name:?}"))),
        }
    }

    /// The tensor with this index, counted from 0.
    ///
    /// # Errors
    /// There is no tensor with this index.
    pub fn at(&self, index: usize) -> Result<&Tensor, NnError> {
        match self.named.get(index) {
            Some((_, tensor)) => Ok(tensor),
            None => Err(self.missing(&format!("number {index} (counted from 0)"))),
        }
    }

    /// Removes and returns the tensor of this name.
    ///
    /// # Errors
    /// There is no tensor of this name. The error lists the names that exist.
    pub fn take(&mut self, name: &str) -> Result<Tensor, NnError> {
        match self.named.iter().position(|(other, _)| other == name) {
            Some(index) => Ok(self.named.remove(index).1),
            None => Err(self.missing(&format!("{name:?}"))),
        }
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Names and tensors, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Tensor)> {
        self.named.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    fn missing(&self, wanted: &str) -> NnError {
        let existing: Vec<String> =
            self.iter().map(|(name, tensor)| format!("{name:?} ({tensor})")).collect();
        let existing = if existing.is_empty() { "none".to_owned() } else { existing.join(", ") };
        NnError::argument(format!("there is no {} {wanted}; there is: {existing}", self.role))
    }
}

impl IntoIterator for Tensors {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.named.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bf16, F16};
    use super::*;

    #[track_caller]
    fn keeps<T: Element>(values: &[T]) {
        let tensor = Tensor::new([values.len()], values).unwrap();
        assert_eq!(tensor.ty(), T::TYPE);
        assert_eq!(tensor.values::<T>().unwrap(), values);
        assert_eq!(tensor.into_values::<T>().unwrap(), values);
    }

    #[test]
    fn all_seven_types_are_kept() {
        keeps(&[F16(1), F16(2)]);
        keeps(&[0.5_f32]);
        keeps(&[0.5_f64]);
        keeps(&[Bf16(1)]);
        keeps(&[1_u8, 2]);
        keeps(&[-1_i32]);
        keeps(&[i64::MIN]);
    }

    #[test]
    fn shape_and_values_must_agree() {
        let error_text =
            |shape: Vec<usize>| Tensor::new(shape, vec![0_u8; 6]).unwrap_err().to_string();
        assert_eq!(error_text(vec![2, 4]), "a tensor u8 [2, 4] has 8 values, got 6");
        assert_eq!(error_text(vec![]), "a tensor u8 [] has 1 values, got 6");
        assert_eq!(
            error_text(vec![usize::MAX, 2]),
            format!("a tensor u8 [{}, 2] is larger than any memory, got 6 values", usize::MAX)
        );
        assert!(Tensor::new([usize::MAX, usize::MAX, 0], Vec::<f32>::new()).is_ok());
        let stacked = Tensor::stack([2, 2], [vec![0_i32; 4], vec![0; 3]]).unwrap_err();
        assert_eq!(stacked.to_string(), "item 1 has 3 values, which is not the shape [2, 2]");
        assert_eq!(stacked.code(), super::super::ErrorCode::InvalidArgument);
    }

    #[test]
    fn rows_are_those_of_the_first_dimension() {
        let rows = |shape: &[usize], values: &[u8]| -> Vec<Vec<u8>> {
            let tensor = Tensor::new(shape, values).unwrap();
            tensor.rows::<u8>().unwrap().map(<[u8]>::to_vec).collect()
        };
        assert_eq!(rows(&[2, 1, 2], &[1, 2, 3, 4]), [[1, 2], [3, 4]]);
        assert_eq!(rows(&[2], &[1, 2]), [[1], [2]]);
        assert_eq!(rows(&[], &[7]), [[7]]);
        assert_eq!(rows(&[2, 0], &[]), [[0_u8; 0]; 2]);
        assert!(rows(&[0, 2], &[]).is_empty());
        let tensor = Tensor::new([1], vec![1.0_f64]).unwrap();
        assert!(tensor.rows::<f32>().is_err());
        assert!(tensor.into_values::<f32>().is_err());
    }

    #[test]
    fn a_missing_name_error_lists_the_existing_names() {
        let label = Tensor::new([2], vec![1_i64, 2]).unwrap();
        let mut outputs = Tensors::new("output", vec![("label".to_owned(), label.clone())]);
        assert_eq!(outputs.get("label"), Ok(&label));
        assert_eq!(outputs.at(0), Ok(&label));
        let error = outputs.get("scores").unwrap_err().to_string();
        assert_eq!(error, r#"there is no output "scores"; there is: "label" (i64 [2])"#);
        let error = outputs.at(1).unwrap_err().to_string();
        assert!(error.starts_with("there is no output number 1 (counted from 0); "), "{error}");
        assert_eq!(outputs.take("label"), Ok(label));
        assert_eq!(
            outputs.take("label").unwrap_err().to_string(),
            r#"there is no output "label"; there is: none"#
        );
    }
}
