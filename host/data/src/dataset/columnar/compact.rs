//! Makes a slice of a table independent of the rest of the table: drops the data that only other rows need.
//! Without this, a slice of a view or dictionary array still refers to the texts of all rows of the original
//! array. This is also true inside lists and structs.

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatch, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{can_cast_types, cast};
use arrow::datatypes::{DataType, FieldRef};
use std::sync::Arc;

/// The same rows, with only the data that they refer to.
pub(super) fn compact(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|array| compacted(array).unwrap_or(Arc::clone(array)));
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap_or_else(|_| batch.clone())
}

/// The same values, with only the data that they refer to. `None` if the array can stay unchanged.
fn compacted(array: &ArrayRef) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View => Some(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Some(Arc::new(array.as_binary_view().gc())),
        DataType::Dictionary(_, values) => {
            let value_count = array.as_any_dictionary_opt()?.values().len();
            let can_be_cast = can_cast_types(array.data_type(), values)
                && can_cast_types(values, array.data_type());
            if value_count <= array.len().saturating_mul(2) || !can_be_cast {
                return None;
            }
            cast(array, values).and_then(|plain| cast(&plain, array.data_type())).ok()
        }
        DataType::Struct(_) => Some(Arc::new(structure(array.as_struct())?)),
        DataType::List(item) => list(array.as_list::<i32>(), item),
        DataType::LargeList(item) => list(array.as_list::<i64>(), item),
        DataType::FixedSizeList(item, length) => {
            let lists = array.as_fixed_size_list();
            let items = compacted(lists.values())?;
            let item = Arc::clone(item);
            let nulls = lists.nulls().cloned();
            let lists = FixedSizeListArray::try_new(item, *length, items, nulls).ok()?;
            (lists.len() == array.len()).then(|| Arc::new(lists) as ArrayRef)
        }
        DataType::Map(entries, sorted) => {
            let maps = array.as_map();
            let (offsets, from, to) = rebased(maps.offsets());
            let inner = structure(&maps.entries().slice(from, to - from))?;
            let field = Arc::clone(entries);
            let nulls = maps.nulls().cloned();
            Some(Arc::new(MapArray::try_new(field, offsets, inner, nulls, *sorted).ok()?))
        }
        _ => None,
    }
}

fn structure(array: &StructArray) -> Option<StructArray> {
    let new: Vec<_> = array.columns().iter().map(compacted).collect();
    if new.iter().all(Option::is_none) {
        return None;
    }
    let both = new.into_iter().zip(array.columns());
    let columns = both.map(|(new, old)| new.unwrap_or_else(|| Arc::clone(old))).collect();
    StructArray::try_new(array.fields().clone(), columns, array.nulls().cloned()).ok()
}

fn list<O: OffsetSizeTrait>(lists: &GenericListArray<O>, item: &FieldRef) -> Option<ArrayRef> {
    let (offsets, from, to) = rebased(lists.offsets());
    let items = compacted(&lists.values().slice(from, to - from))?;
    let item = Arc::clone(item);
    let nulls = lists.nulls().cloned();
    Some(Arc::new(GenericListArray::try_new(item, offsets, items, nulls).ok()?))
}

/// The offsets, shifted so that the first is zero, and where the items begin and end.
fn rebased<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let first = offsets.first();
    let last = offsets.last();
    (OffsetBuffer::from_lengths(offsets.lengths()), first.as_usize(), last.as_usize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::types::Int32Type;
    use arrow::array::{DictionaryArray, Int32Array, ListBuilder, StringViewBuilder};
    use arrow::datatypes::Field;

    /// Many long texts, as a dictionary array and as a view array.
    fn texts(count: usize) -> (ArrayRef, ArrayRef) {
        let texts: Vec<_> = (0..count).map(|n| format!("a text of some length, {n:05}")).collect();
        let dictionary: DictionaryArray<Int32Type> = texts.iter().map(String::as_str).collect();
        let views: arrow::array::StringViewArray =
            texts.iter().map(|text| Some(text.as_str())).collect();
        (Arc::new(dictionary), Arc::new(views))
    }

    /// The array inside lists, lists of a fixed size, structs and maps.
    fn nested(array: &ArrayRef) -> Vec<ArrayRef> {
        let item: FieldRef = Field::new("item", array.data_type().clone(), true).into();
        let offsets = OffsetBuffer::from_lengths(vec![2; array.len() / 2]);
        let lists =
            GenericListArray::new(Arc::clone(&item), offsets.clone(), Arc::clone(array), None);
        let fixed = FixedSizeListArray::new(item, 2, Arc::clone(array), None);
        let inner = vec![Field::new("x", array.data_type().clone(), true)];
        let structure = StructArray::new(inner.into(), vec![Arc::clone(array)], None);
        let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(0..array.len() as i32));
        let fields = vec![
            Field::new("keys", DataType::Int32, false),
            Field::new("values", array.data_type().clone(), true),
        ];
        let entries = StructArray::new(fields.into(), vec![keys, Arc::clone(array)], None);
        let field = Field::new("entries", entries.data_type().clone(), false).into();
        let maps = MapArray::new(field, offsets, entries, None, false);
        vec![Arc::new(lists), Arc::new(fixed), Arc::new(structure), Arc::new(maps)]
    }

    #[test]
    fn slices_hold_only_the_data_they_refer_to() {
        let (dictionary, views) = texts(2000);
        for array in [&dictionary, &views] {
            let mut arrays = nested(array);
            arrays.push(Arc::clone(array));
            for whole in arrays {
                let slice = whole.slice(300, 7);
                let small = compacted(&slice).expect("it is compacted");
                assert_eq!(&small, &slice, "{}", whole.data_type());
                let before = slice.get_buffer_memory_size();
                let after = small.get_buffer_memory_size();
                assert!(after * 5 < before, "{}: {before} and {after}", whole.data_type());
            }
        }
    }

    #[test]
    fn small_arrays_stay_unchanged() {
        let mut lists = ListBuilder::new(Int32Array::builder(4));
        lists.append_value([Some(1), None]);
        let lists: ArrayRef = Arc::new(lists.finish());
        assert!(compacted(&lists).is_none());
        let mut views = ListBuilder::new(StringViewBuilder::new());
        views.append_null();
        views.append_value([Some("short")]);
        let views: ArrayRef = Arc::new(views.finish());
        assert_eq!(&compacted(&views).unwrap(), &views);
    }
}
