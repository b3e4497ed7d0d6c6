//! Converts columns of a table to Rust values, and Rust values to columns.

use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow_schema::{DataType, Schema};
use std::sync::Arc;

/// Reads a table's columns by name. Each method accepts all Arrow types of its kind, including dictionaries
/// and views.
///
/// Each method fails if the column is missing or of another kind. The methods without `or_null` also fail at
/// a null. The error names the column. It also names the row with the null, or the columns that exist.
///
/// ```
/// use sandmill_guest::arrow_array::{Int64Array, RecordBatch};
/// use sandmill_guest::{Columns, Result, Results};
///
/// fn score(table: &RecordBatch) -> Result<Results> {
///     let score: Vec<f64> = table.f64("age")?.iter().map(|age| age / 100.0).collect();
///     Results::with_columns(table, [("score", score)])
/// }
/// # use std::sync::Arc;
/// # let age = Arc::new(Int64Array::from(vec![25, 50])) as _;
/// # let table = RecordBatch::try_from_iter([("age", age)])?;
/// # let Results::Table(table) = score(&table)? else { unreachable!() };
/// # assert_eq!(table.f64("score")?, [0.25, 0.5]);
/// # assert_eq!(table.i64("age")?, [25, 50]);
/// # Ok::<(), sandmill_guest::Error>(())
/// ```
pub trait Columns {
    /// A column of integers or floats. Integers beyond 2^53 are rounded.
    fn f64(&self, column: &str) -> Result<Vec<f64>>;

    /// Like [`f64`](Columns::f64), with `None` for a null.
    fn f64_or_null(&self, column: &str) -> Result<Vec<Option<f64>>>;

    /// A column of integers. Fails for floats, and for integers beyond the range of `i64`.
    fn i64(&self, column: &str) -> Result<Vec<i64>>;

    /// Like [`i64`](Columns::i64), with `None` for a null.
    fn i64_or_null(&self, column: &str) -> Result<Vec<Option<i64>>>;

    /// A column of booleans.
    fn bool(&self, column: &str) -> Result<Vec<bool>>;

    /// Like [`bool`](Columns::bool), with `None` for a null.
    fn bool_or_null(&self, column: &str) -> Result<Vec<Option<bool>>>;

    /// A column of text. The text is not copied.
    fn text(&self, column: &str) -> Result<Vec<&str>>;

    /// Like [`text`](Columns::text), with `None` for a null.
    fn text_or_null(&self, column: &str) -> Result<Vec<Option<&str>>>;

    /// The values of several columns of integers or floats, row by row. They are the values of a tensor
    /// `[rows, columns]`, the usual input of a model.
    fn f32_matrix(&self, columns: &[&str]) -> Result<Vec<f32>>;
}

impl Columns for RecordBatch {
    fn f64(&self, column: &str) -> Result<Vec<f64>> {
        ColumnParts::find(self, column)?.values("numbers", "f64", floats)
    }

    fn f64_or_null(&self, column: &str) -> Result<Vec<Option<f64>>> {
        ColumnParts::find(self, column)?.values_or_null("numbers", floats)
    }

    fn i64(&self, column: &str) -> Result<Vec<i64>> {
        let column = ColumnParts::find(self, column)?;
        column.fitting(column.values("whole numbers", "i64", integers)?.into_iter())
    }

    fn i64_or_null(&self, column: &str) -> Result<Vec<Option<i64>>> {
        let column = ColumnParts::find(self, column)?;
        let values = column.values_or_null("whole numbers", integers)?.into_iter();
        // A null (`None`) fits. `Some(None)` is a value that does not fit.
        let fitting = column.fitting(values.clone().map(|value| value.unwrap_or(Some(0))))?;
        Ok(values.zip(fitting).map(|(value, fitting)| value.map(|_| fitting)).collect())
    }

    fn bool(&self, column: &str) -> Result<Vec<bool>> {
        ColumnParts::find(self, column)?.values("booleans", "bool", booleans)
    }

    fn bool_or_null(&self, column: &str) -> Result<Vec<Option<bool>>> {
        ColumnParts::find(self, column)?.values_or_null("booleans", booleans)
    }

    fn text(&self, column: &str) -> Result<Vec<&str>> {
        ColumnParts::find(self, column)?.values("text", "text", texts)
    }

    fn text_or_null(&self, column: &str) -> Result<Vec<Option<&str>>> {
        ColumnParts::find(self, column)?.values_or_null("text", texts)
    }

    fn f32_matrix(&self, columns: &[&str]) -> Result<Vec<f32>> {
        let columns = columns.iter().map(|name| self.f64(name)).collect::<Result<Vec<_>>>()?;
        let mut matrix = Vec::with_capacity(self.num_rows() * columns.len());
        for row in 0..self.num_rows() {
            #[expect(clippy::cast_possible_truncation, reason = "the caller asks for f32")]
            matrix.extend(columns.iter().map(|column| column[row] as f32));
        }
        Ok(matrix)
    }
}

/// A column. A dictionary is split into values and keys.
struct ColumnParts<'a> {
    table: &'a RecordBatch,
    name: &'a str,
    array: &'a dyn Array,
    values: &'a dyn Array,
    /// For a dictionary: the index of each row's value.
    keys: Option<Vec<usize>>,
}

impl<'a> ColumnParts<'a> {
    fn find(table: &'a RecordBatch, name: &str) -> Result<Self> {
        let schema = table.schema_ref();
        let Some((index, field)) = schema.fields().find(name) else {
            return Err(Error::new(format!(
                "the table has no column {name}; it has: {}",
                described(schema)
            )));
        };
        let array = table.column(index).as_ref();
        let (values, keys) = match array.as_any_dictionary_opt() {
            None => (array, None),
            // All rows are null, so no key is used.
            Some(dictionary) if dictionary.values().is_empty() => {
                (dictionary.values().as_ref(), Some(vec![0; dictionary.len()]))
            }
            Some(dictionary) => (dictionary.values().as_ref(), Some(dictionary.normalized_keys())),
        };
        Ok(ColumnParts { table, name: field.name(), array, values, keys })
    }

    fn values<T: Copy>(
        &self,
        expected: &str,
        method: &str,
        read: impl Fn(&'a dyn Array) -> Option<Vec<T>>,
    ) -> Result<Vec<T>> {
        if let Some(nulls) = self.array.logical_nulls()
            && let Some(row) = nulls.iter().position(|valid| !valid)
            // If the column is also of the wrong kind, the error names the kind.
            && self.read(expected, &read).is_ok()
        {
            let position = self.position(row);
            return Err(Error::new(format!("{position}: null; {method}_or_null takes nulls")));
        }
        let values = self.read(expected, &read)?;
        Ok(match &self.keys {
            Some(keys) => keys.iter().map(|key| values[*key]).collect(),
            None => values,
        })
    }

    fn values_or_null<T: Copy>(
        &self,
        expected: &str,
        read: impl Fn(&'a dyn Array) -> Option<Vec<T>>,
    ) -> Result<Vec<Option<T>>> {
        let values = self.read(expected, &read)?;
        let nulls = self.array.logical_nulls();
        let value = |row| {
            let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            valid.then(|| values[self.keys.as_ref().map_or(row, |keys| keys[row])])
        };
        Ok((0..self.array.len()).map(value).collect())
    }

    fn read<T>(
        &self,
        expected: &str,
        read: &impl Fn(&'a dyn Array) -> Option<Vec<T>>,
    ) -> Result<Vec<T>> {
        read(self.values).ok_or_else(|| {
            let kind = self.array.data_type();
            Error::new(format!(
                "column {} is {} ({kind}); expected {expected}; the table has: {}",
                self.name,
                kind_name(kind),
                described(self.table.schema_ref())
            ))
        })
    }

    /// Unwraps the integers. Fails at `None`, which is an integer outside the range of `i64`.
    fn fitting(&self, values: impl Iterator<Item = Option<i64>>) -> Result<Vec<i64>> {
        let fit = |(row, value): (usize, Option<i64>)| {
            value.ok_or_else(|| {
                let position = self.position(row);
                Error::new(format!(
                    "{position}: the number is too large for i64; read the column with f64"
                ))
            })
        };
        values.enumerate().map(fit).collect()
    }

    /// The column and row, for an error.
    fn position(&self, row: usize) -> String {
        format!("column {}, row {} of the mini-batch (the first is row 1)", self.name, row + 1)
    }
}

fn floats(array: &dyn Array) -> Option<Vec<f64>> {
    fn converted<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<Vec<f64>>
    where
        T::Native: Into<f64>,
    {
        let array = array.as_primitive_opt::<T>()?;
        Some(array.values().iter().map(|value| (*value).into()).collect())
    }
    #[expect(clippy::cast_precision_loss, reason = "documented")]
    match array.data_type() {
        DataType::Int8 => converted::<Int8Type>(array),
        DataType::Int16 => converted::<Int16Type>(array),
        DataType::Int32 => converted::<Int32Type>(array),
        DataType::Int64 => {
            Some(array.as_primitive::<Int64Type>().values().iter().map(|v| *v as f64).collect())
        }
        DataType::UInt8 => converted::<UInt8Type>(array),
        DataType::UInt16 => converted::<UInt16Type>(array),
        DataType::UInt32 => converted::<UInt32Type>(array),
        DataType::UInt64 => {
            Some(array.as_primitive::<UInt64Type>().values().iter().map(|v| *v as f64).collect())
        }
        DataType::Float16 => converted::<Float16Type>(array),
        DataType::Float32 => converted::<Float32Type>(array),
        DataType::Float64 => converted::<Float64Type>(array),
        _ => None,
    }
}

fn integers(array: &dyn Array) -> Option<Vec<Option<i64>>> {
    fn converted<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<Vec<Option<i64>>>
    where
        T::Native: TryInto<i64>,
    {
        let array = array.as_primitive_opt::<T>()?;
        Some(array.values().iter().map(|value| (*value).try_into().ok()).collect())
    }
    match array.data_type() {
        DataType::Int8 => converted::<Int8Type>(array),
        DataType::Int16 => converted::<Int16Type>(array),
        DataType::Int32 => converted::<Int32Type>(array),
        DataType::Int64 => converted::<Int64Type>(array),
        DataType::UInt8 => converted::<UInt8Type>(array),
        DataType::UInt16 => converted::<UInt16Type>(array),
        DataType::UInt32 => converted::<UInt32Type>(array),
        DataType::UInt64 => converted::<UInt64Type>(array),
        _ => None,
    }
}

fn booleans(array: &dyn Array) -> Option<Vec<bool>> {
    array.as_boolean_opt().map(|array| array.values().iter().collect())
}

fn texts(array: &dyn Array) -> Option<Vec<&str>> {
    // The bytes of a null need not be text.
    match array.data_type() {
        DataType::Utf8 => {
            Some(array.as_string::<i32>().iter().map(Option::unwrap_or_default).collect())
        }
        DataType::LargeUtf8 => {
            Some(array.as_string::<i64>().iter().map(Option::unwrap_or_default).collect())
        }
        DataType::Utf8View => {
            Some(array.as_string_view().iter().map(Option::unwrap_or_default).collect())
        }
        _ => None,
    }
}

/// Names the kind of the values for an error.
fn kind_name(kind: &DataType) -> &'static str {
    match kind {
        DataType::Dictionary(_, values) => kind_name(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Boolean => "booleans",
        DataType::Date32 | DataType::Date64 => "dates",
        DataType::Timestamp(..) => "timestamps",
        DataType::Null => "nulls only",
        kind if kind.is_integer() => "whole numbers",
        kind if kind.is_floating() => "floats",
        kind if kind.is_numeric() => "decimals",
        _ => "of another type",
    }
}

fn described(schema: &Schema) -> String {
    let fields = schema.fields().iter();
    let fields: Vec<_> = fields.map(|f| format!("{} {}", f.name(), f.data_type())).collect();
    if fields.is_empty() { "no columns".to_owned() } else { fields.join(", ") }
}

/// Values that can become a column of a table: a `Vec` of values, a `Vec` of `Option`s if there are nulls,
/// or an Arrow array as `ArrayRef`.
pub trait IntoColumn {
    /// Converts the values to a column.
    fn into_column(self) -> ArrayRef;
}

impl IntoColumn for ArrayRef {
    fn into_column(self) -> ArrayRef {
        self
    }
}

macro_rules! columns {
    ($($value:ty => $array:ty),* $(,)?) => {$(
        impl IntoColumn for Vec<$value> {
            fn into_column(self) -> ArrayRef {
                Arc::new(<$array>::from(self))
            }
        }

        impl IntoColumn for Vec<Option<$value>> {
            fn into_column(self) -> ArrayRef {
                Arc::new(<$array>::from(self))
            }
        }
    )*};
}

columns! {
    f32 => Float32Array,
    f64 => Float64Array,
    i32 => Int32Array,
    i64 => Int64Array,
    bool => BooleanArray,
    String => StringArray,
    &str => StringArray,
}

/// The table with columns added. A new column replaces one of the same name.
pub(crate) fn with_columns<N: Into<String>, C: IntoColumn>(
    table: &RecordBatch,
    new: impl IntoIterator<Item = (N, C)>,
) -> Result<RecordBatch> {
    let rows = table.num_rows();
    let mut fields = table.schema_ref().fields().to_vec();
    let mut columns = table.columns().to_vec();
    for (name, column) in new {
        let (name, column) = (name.into(), column.into_column());
        if column.len() != rows {
            let found = column.len();
            return Err(Error::new(format!(
                "the new column {name} has {found} values; expected {rows}, one for each row"
            )));
        }
        let field = arrow_schema::Field::new(&name, column.data_type().clone(), true).into();
        match fields.iter().position(|field| *field.name() == name) {
            Some(index) => (fields[index], columns[index]) = (field, column),
            None => {
                fields.push(field);
                columns.push(column);
            }
        }
    }
    let schema = Schema::new_with_metadata(fields, table.schema_ref().metadata().clone());
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
}

#[cfg(test)]
mod tests;
