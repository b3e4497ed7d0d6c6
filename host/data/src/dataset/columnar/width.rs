//! Estimates how much memory columns take at least.

use arrow::datatypes::{DataType, Field};

/// The minimum number of bytes that `rows` values of a column take in memory. Does not count the contents of
/// texts, byte strings and lists, because the field does not show their lengths.
pub(super) fn least_bytes(field: &Field, rows: u64) -> u64 {
    let bits = bits(field.data_type()).saturating_add(u64::from(field.is_nullable()));
    u64::try_from(u128::from(rows) * u128::from(bits) / 8).unwrap_or(u64::MAX)
}

/// The bits that one value takes at least.
fn bits(data_type: &DataType) -> u64 {
    use DataType::*;
    match data_type {
        Utf8 | Binary | List(_) | Map(..) => 32,
        LargeUtf8 | LargeBinary | LargeList(_) | ListView(_) => 64,
        Utf8View | BinaryView | LargeListView(_) => 128,
        FixedSizeBinary(width) => u64::try_from(*width).unwrap_or(0).saturating_mul(8),
        FixedSizeList(field, count) => {
            let count = u64::try_from(*count).unwrap_or(0);
            bits(field.data_type()).saturating_mul(count)
        }
        Struct(fields) => {
            fields.iter().fold(0, |sum, field| bits(field.data_type()).saturating_add(sum))
        }
        Dictionary(key, _) => bits(key),
        Boolean => 1,
        other => other.primitive_width().unwrap_or(0) as u64 * 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_take_their_width() {
        let field = |data_type| Field::new("a", data_type, false);
        let of = |data_type| least_bytes(&field(data_type), 1000);
        assert_eq!(of(DataType::Int64), 8000);
        assert_eq!(of(DataType::Boolean), 125);
        assert_eq!(of(DataType::Decimal128(10, 2)), 16000);
        assert_eq!(of(DataType::Null), 0);
        let pair = vec![field(DataType::Int32), field(DataType::Utf8)];
        let list = DataType::FixedSizeList(field(DataType::Struct(pair.into())).into(), 3);
        assert_eq!(of(list), 24_000);
        let dictionary = DataType::Dictionary(DataType::Int16.into(), DataType::Utf8.into());
        assert_eq!(of(dictionary), 2000);
        assert_eq!(least_bytes(&Field::new("a", DataType::Int64, true), u64::MAX), u64::MAX);
    }
}
