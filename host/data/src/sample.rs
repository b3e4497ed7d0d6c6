//! Sample tables as Arrow IPC streams. With them, `sandmill check --kit` tests the table library of a
//! language. Also shows the rows of a returned table as text.

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::fmt::Write as _;
use std::sync::Arc;

/// The most rows that a returned table may have.
const MAX_ROWS: usize = 1000;

/// A table with every type that CSV columns can have, each with nulls, in two record batches. The column
/// `long` has no nulls.
///
/// # Errors
/// If Arrow cannot make the table.
pub fn types() -> Result<Vec<u8>, ArrowError> {
    let whole = types_batch()?;
    stream(&[whole.slice(0, 2), whole.slice(2, 2)])
}

/// The columns of [`types`] without rows.
///
/// # Errors
/// If Arrow cannot make the table.
pub fn empty() -> Result<Vec<u8>, ArrowError> {
    stream(&[types_batch()?.slice(0, 0)])
}

/// A column of integers with a null. Floats of 64 bits cannot hold all of these integers.
///
/// # Errors
/// If Arrow cannot make the table.
pub fn integers() -> Result<Vec<u8>, ArrowError> {
    let values = vec![Some(i64::MIN), None, Some((1 << 53) + 1), Some(i64::MAX)];
    let column: ArrayRef = Arc::new(Int64Array::from(values));
    stream(&[RecordBatch::try_from_iter_with_nullable([("int", column, true)])?])
}

/// 65 columns of integers with two rows.
///
/// # Errors
/// If Arrow cannot make the table.
pub fn wide() -> Result<Vec<u8>, ArrowError> {
    let column = |index: i64| -> ArrayRef {
        Arc::new(Int64Array::from(vec![Some(index), (index != 64).then_some(-index)]))
    };
    let columns = (0..65).map(|index| (format!("c{index}"), column(index), true));
    stream(&[RecordBatch::try_from_iter_with_nullable(columns)?])
}

fn types_batch() -> Result<RecordBatch, ArrowError> {
    let texts = vec![Some("plain"), Some(""), None, Some("Grüße, 世界 🌍")];
    let times = vec![Some(0), None, Some(-1), Some(1_700_000_000_123_456)];
    let columns: [(&str, ArrayRef); 7] = [
        ("int", Arc::new(Int64Array::from(vec![Some(-7), None, Some(0), Some(1_000_000)]))),
        ("long", Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX]))),
        ("float", Arc::new(Float64Array::from(vec![Some(0.1), Some(-1e300), None, Some(2.5)]))),
        ("text", Arc::new(StringArray::from(texts))),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
        ("date", Arc::new(Date32Array::from(vec![Some(0), Some(-1), None, Some(20_000)]))),
        ("time", Arc::new(TimestampMicrosecondArray::from(times).with_timezone("+00:00"))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
}

fn stream(batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut ipc = Vec::new();
    let Some(first) = batches.first() else { return Ok(ipc) };
    let mut writer = StreamWriter::try_new(&mut ipc, &first.schema())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()?;
    drop(writer);
    Ok(ipc)
}

/// Returns a line with the columns' names, then the rows of a stream, each as `NAME=VALUE NAME=VALUE`. Nulls
/// appear as `null`, and texts in quotes.
///
/// # Errors
/// If the stream cannot be read. The error is the reason, for the user.
pub fn rows(ipc: &[u8]) -> Result<Vec<String>, String> {
    let reader = StreamReader::try_new(ipc, None).map_err(|error| error.to_string())?;
    let schema = reader.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut lines = vec![names.join(" ")];
    for batch in reader {
        let batch = batch.map_err(|error| error.to_string())?;
        // The first line has the names.
        if lines.len() - 1 + batch.num_rows() > MAX_ROWS {
            return Err(format!("it has more than {MAX_ROWS} rows"));
        }
        lines.extend(batch_lines(&batch).map_err(|error| error.to_string())?);
    }
    Ok(lines)
}

fn batch_lines(batch: &RecordBatch) -> Result<Vec<String>, ArrowError> {
    let options = FormatOptions::default().with_null("null");
    let schema = batch.schema();
    let mut lines = vec![String::new(); batch.num_rows()];
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let column = with_offset(column)?;
        let formatter = ArrayFormatter::try_new(&column, &options)?;
        let is_text = field.data_type().is_string();
        for (row, line) in lines.iter_mut().enumerate() {
            let value = formatter.value(row).try_to_string()?;
            let value = if is_text && column.is_valid(row) { format!("{value:?}") } else { value };
            let gap = if line.is_empty() { "" } else { " " };
            let _ = write!(line, "{gap}{}={value}", field.name());
        }
    }
    Ok(lines)
}

/// Replaces the time zone `UTC` by `+00:00`. A language may return either, and Arrow's formatter knows only
/// offsets.
fn with_offset(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Timestamp(unit, Some(zone)) if zone.eq_ignore_ascii_case("UTC") => {
            cast(column, &DataType::Timestamp(*unit, Some("+00:00".into())))
        }
        _ => Ok(Arc::clone(column)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shown_as_text() {
        let ipc = types().expect("it is made");
        insta::assert_snapshot!(rows(&ipc).expect("it is read").join("\n"), @r#"
        int long float text bool date time
        int=-7 long=-9223372036854775808 float=0.1 text="plain" bool=true date=1970-01-01 time=1970-01-01T00:00:00Z
        int=null long=-1 float=-1e300 text="" bool=false date=1969-12-31 time=null
        int=0 long=0 float=null text=null bool=null date=null time=1969-12-31T23:59:59.999999Z
        int=1000000 long=9223372036854775807 float=2.5 text="Grüße, 世界 🌍" bool=true date=2024-10-04 time=2023-11-14T22:13:20.123456Z
        "#);
        assert_eq!(rows(&empty().expect("it is made")).expect("it is read").len(), 1);
        assert_eq!(rows(&wide().expect("it is made")).expect("it is read").len(), 3);
    }

    #[test]
    fn times_in_utc_are_shown_alike() {
        let shown = |zone: &str| {
            let column: ArrayRef =
                Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone(zone));
            let batch = RecordBatch::try_from_iter([("time", column)]).expect("it is made");
            rows(&stream(&[batch]).expect("it is written"))
        };
        assert_eq!(shown("UTC"), shown("+00:00"));
        assert_ne!(shown("+01:00"), shown("+00:00"));
    }

    #[test]
    fn invalid_streams_are_refused() {
        assert!(rows(b"no").is_err());
    }
}
