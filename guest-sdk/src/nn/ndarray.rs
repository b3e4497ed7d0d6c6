//! Conversions between tensors and arrays of the `ndarray` crate.

use super::{Element, NnError, Tensor};
use ndarray::{Array, ArrayD, ArrayViewD, Dimension, IxDyn, ShapeError};

/// Converts an array to a tensor. Does not copy the elements if the array is row-major and not a slice of a
/// larger array.
impl<T: Element, D: Dimension> From<Array<T, D>> for Tensor {
    fn from(array: Array<T, D>) -> Self {
        let shape = array.shape().to_vec();
        let count = array.len();
        let values = if array.is_standard_layout() {
            // A slice has the memory of the whole array. Move the elements of the slice to the front, and
            // drop the rest.
            let (mut values, offset) = array.into_raw_vec_and_offset();
            values.drain(..offset.unwrap_or(0));
            values.truncate(count);
            values
        } else {
            array.iter().copied().collect()
        };
        Tensor::of_array(shape, values)
    }
}

/// # Errors
/// The elements are of another type.
impl<T: Element> TryFrom<Tensor> for ArrayD<T> {
    type Error = NnError;

    fn try_from(tensor: Tensor) -> Result<Self, NnError> {
        let shape = IxDyn(tensor.shape());
        Array::from_shape_vec(shape, tensor.into_values::<T>()?).map_err(|error| misshapen(&error))
    }
}

impl Tensor {
    /// The elements as an array, without a copy.
    ///
    /// # Errors
    /// The elements are of another type.
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>, NnError> {
        ArrayViewD::from_shape(IxDyn(self.shape()), self.values::<T>()?)
            .map_err(|error| misshapen(&error))
    }
}

/// The error for a shape that `ndarray` refuses: one dimension is 0, so there are no elements, but the
/// product of the others is too large.
fn misshapen(error: &ShapeError) -> NnError {
    NnError::argument(format!("ndarray does not take the tensor's shape: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array, s};

    #[test]
    fn arrays_survive_a_round_trip() {
        let array = array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let address = array.as_ptr();
        let tensor = Tensor::from(array.clone());
        assert_eq!(tensor, Tensor::new([2, 3], vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
        assert_eq!(tensor.view::<f32>().unwrap(), array.view().into_dyn());
        let back: ArrayD<f32> = tensor.try_into().unwrap();
        assert_eq!(back, array.clone().into_dyn());
        // The memory is the same: the elements were not copied.
        assert_eq!(Tensor::from(array).values::<f32>().unwrap().as_ptr(), address);
    }

    #[test]
    fn other_layouts_are_copied_in_row_order() {
        let array = array![[1_i64, 2, 3], [4, 5, 6]];
        let turned = Tensor::from(array.clone().reversed_axes());
        assert_eq!(turned, Tensor::new([3, 2], vec![1_i64, 4, 2, 5, 3, 6]).unwrap());
        let last_row = array.slice_move(s![1.., ..]);
        assert_eq!(Tensor::from(last_row), Tensor::new([1, 3], vec![4_i64, 5, 6]).unwrap());
        let backwards = Tensor::from(array![1_u8, 2].slice_move(s![..;-1]));
        assert_eq!(backwards.values::<u8>().unwrap(), [2, 1]);
        assert_eq!(Tensor::from(Array2::<f32>::zeros((0, 4))).shape(), [0, 4]);
    }

    #[test]
    fn another_type_is_an_error() {
        let tensor = Tensor::new([1], vec![1.0_f32]).unwrap();
        let expected = "expected a tensor of u8, got f32 [1]";
        assert_eq!(tensor.view::<u8>().unwrap_err().to_string(), expected);
        assert_eq!(ArrayD::<u8>::try_from(tensor).unwrap_err().to_string(), expected);
    }
}
