//! Times of named zones, for text.

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use std::sync::Arc;

/// The batch with its times in UTC where their zone has a name, such as `UTC` or `Europe/Berlin`: what
/// prints them knows offsets alone. None if there are none of these.
pub(super) fn in_utc(batch: &RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
    let schema = batch.schema_ref();
    let fields: Vec<_> = schema.fields().iter().map(field).collect();
    if fields.iter().all(Option::is_none) {
        return Ok(None);
    }
    let columns = batch.columns().iter().zip(&fields).map(|(column, field)| match field {
        Some(field) => cast(column, field.data_type()),
        None => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<Result<_, _>>()?;
    let all = fields.into_iter().zip(schema.fields());
    let all: Vec<FieldRef> = all.map(|(new, old)| new.unwrap_or_else(|| Arc::clone(old))).collect();
    RecordBatch::try_new(Arc::new(Schema::new(all)), columns).map(Some)
}

/// The field, if there is such a time in it.
fn field(field: &FieldRef) -> Option<FieldRef> {
    let kind = kind(field.data_type())?;
    Some(Arc::new(Field::clone(field).with_data_type(kind)))
}

fn kind(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Timestamp(unit, Some(zone)) if !zone.starts_with(['+', '-']) => {
            Some(DataType::Timestamp(*unit, Some("+00:00".into())))
        }
        DataType::Dictionary(keys, values) => {
            Some(DataType::Dictionary(keys.clone(), Box::new(kind(values)?)))
        }
        DataType::List(items) => field(items).map(DataType::List),
        DataType::LargeList(items) => field(items).map(DataType::LargeList),
        DataType::FixedSizeList(items, count) => {
            field(items).map(|items| DataType::FixedSizeList(items, *count))
        }
        DataType::Map(entries, sorted) => {
            field(entries).map(|entries| DataType::Map(entries, *sorted))
        }
        DataType::Struct(fields) => {
            let new: Vec<_> = fields.iter().map(field).collect();
            let all = new.iter().zip(fields);
            let all = all.map(|(new, old)| Arc::clone(new.as_ref().unwrap_or(old)));
            new.iter().any(Option::is_some).then(|| DataType::Struct(all.collect()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, ListArray, StructArray, TimestampMicrosecondArray};
    use arrow::util::display::array_value_to_string;

    #[test]
    fn zones_with_names_are_told_in_utc() {
        let times = |zone: &str| -> ArrayRef {
            let times = TimestampMicrosecondArray::from(vec![Some(1_500_000), None]);
            Arc::new(times.with_timezone(zone))
        };
        let nested = |zone: &str| -> ArrayRef {
            let times = times(zone);
            let item = Arc::new(Field::new("item", times.data_type().clone(), true));
            let offsets = arrow::buffer::OffsetBuffer::from_lengths([1, 1]);
            let list: ArrayRef = Arc::new(ListArray::new(item, offsets, times, None));
            let inner = Arc::new(Field::new("inner", list.data_type().clone(), true));
            Arc::new(StructArray::from(vec![(inner, list)]))
        };
        let columns = [times("UTC"), times("Europe/Berlin"), times("+02:00"), nested("UTC")];
        let names = ["a", "b", "c", "d"];
        let batch = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
        let told = in_utc(&batch).unwrap().unwrap();
        let text = |column: usize| array_value_to_string(told.column(column), 0).unwrap();
        assert_eq!(text(0), "1970-01-01T00:00:01.500Z");
        assert_eq!(text(1), text(0), "the same moment");
        assert_eq!(text(2), "1970-01-01T02:00:01.500+02:00");
        assert_eq!(text(3), "{inner: [1970-01-01T00:00:01.500Z]}");
        let DataType::Timestamp(_, zone) = told.column(1).data_type() else { panic!("a time") };
        assert_eq!(zone.as_deref(), Some("+00:00"));
        let plain: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1]));
        assert!(in_utc(&RecordBatch::try_from_iter([("a", plain)]).unwrap()).unwrap().is_none());
    }
}
