//! The size of a table's values if each value is written out.

use super::layouts::RunEndColumn;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{ArrowNativeType, DataType};

/// The bytes of all values. Values that share one buffer, such as those of a dictionary, are counted for each
/// row. Each row counts for at least one byte.
pub(super) fn size(array: &dyn Array) -> u64 {
    let rows = array.len() as u64;
    let bytes = match array.data_type() {
        DataType::Dictionary(..) => return dictionary_size(array).max(rows),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).sum(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            part_size(list.values(), offsets[0].as_usize(), offsets[list.len()].as_usize())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            part_size(list.values(), offsets[0].as_usize(), offsets[list.len()].as_usize())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            let entries: &dyn Array = map.entries();
            part_size(entries, offsets[0].as_usize(), offsets[map.len()].as_usize())
        }
        DataType::RunEndEncoded(..) => runs_size(array),
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            let lists = list.value_offsets().iter().zip(list.value_sizes());
            let sizes = lists
                .map(|(from, count)| view_size(list.values(), from.as_usize(), count.as_usize()));
            sizes.fold(0, u64::saturating_add)
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            let lists = list.value_offsets().iter().zip(list.value_sizes());
            let sizes = lists
                .map(|(from, count)| view_size(list.values(), from.as_usize(), count.as_usize()));
            sizes.fold(0, u64::saturating_add)
        }
        DataType::FixedSizeList(..) => size(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| size(column)).sum(),
        // An array whose size cannot be computed is invalid.
        _ => array.to_data().get_slice_memory_size().map_or(u64::MAX, |size| size as u64),
    };
    bytes.max(rows)
}

fn part_size(values: &dyn Array, from: usize, to: usize) -> u64 {
    size(values.slice(from, to.saturating_sub(from)).as_ref())
}

fn view_size(values: &dyn Array, from: usize, count: usize) -> u64 {
    // The offset of an empty list may be anything.
    if count == 0 { 0 } else { size(values.slice(from, count).as_ref()) }
}

fn runs_size(array: &dyn Array) -> u64 {
    let Ok(runs) = RunEndColumn::from_array(array) else { return u64::MAX };
    let mut sum = 0_u64;
    let mut row = 0;
    while row < array.len() {
        let run = runs.run_of(row);
        let next = runs.end(run).clamp(row + 1, array.len());
        let value_size = size(runs.values().slice(run, 1).as_ref());
        sum = sum.saturating_add(value_size.saturating_mul((next - row) as u64));
        row = next;
    }
    sum
}

fn dictionary_size(array: &dyn Array) -> u64 {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    if values.is_empty() {
        return 0;
    }
    let sizes: Vec<u64> =
        (0..values.len()).map(|index| size(values.slice(index, 1).as_ref())).collect();
    let keys = dictionary.normalized_keys();
    let used_keys = keys.iter().enumerate().filter(|(row, _)| !array.is_null(*row));
    used_keys.fold(0, |sum, (_, key)| sum.saturating_add(sizes.get(*key).copied().unwrap_or(0)))
}
