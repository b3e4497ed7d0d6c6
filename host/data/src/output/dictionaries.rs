//! Combines the dictionaries of a column: each attempt has its own, but an Arrow file has only one for each
//! column.

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, UInt64Array,
    make_array, new_empty_array,
};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Int32Type, Schema};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use std::collections::HashMap;
use std::sync::Arc;

/// The dictionaries of a file's columns, in the order of the columns. Dictionaries in lists, maps and structs
/// are included.
#[derive(Debug, Default)]
pub(super) struct Dictionaries(Vec<Dictionary>);

/// All values of one column.
#[derive(Debug)]
struct Dictionary {
    converter: RowConverter,
    /// Maps each value, as `converter` encodes it, to its key.
    keys: HashMap<Box<[u8]>, i32>,
    /// New values, in the order in which they were found.
    new_values: Vec<ArrayRef>,
    /// All values, once they are complete.
    values: Option<ArrayRef>,
}

impl Dictionaries {
    /// Whether any column is a dictionary or contains one.
    pub(super) fn in_any(schema: &Schema) -> bool {
        schema.fields().iter().any(|field| has_dictionary(field.data_type()))
    }

    /// Adds the values of a batch.
    pub(super) fn collect(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let mut next = 0;
        for column in batch.columns() {
            walk(column.to_data(), &mut |data| {
                let array = make_array(data.clone());
                if self.0.len() == next {
                    self.0.push(Dictionary::new(array.as_any_dictionary().values().data_type())?);
                }
                self.0[next].collect(array.as_any_dictionary().values())?;
                next += 1;
                Ok(data)
            })?;
        }
        Ok(())
    }

    /// Completes the values, after all batches were collected.
    pub(super) fn close(&mut self) -> Result<(), ArrowError> {
        for dictionary in &mut self.0 {
            let new_values: Vec<&dyn Array> =
                dictionary.new_values.iter().map(AsRef::as_ref).collect();
            if !new_values.is_empty() {
                dictionary.values = Some(concat(&new_values)?);
            }
            dictionary.new_values = Vec::new();
        }
        Ok(())
    }

    /// The batch with these dictionaries instead of its own.
    pub(super) fn unify(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.0.is_empty() {
            return Ok(batch.clone());
        }
        let mut next = 0;
        let columns = batch.columns().iter().map(|column| {
            if !has_dictionary(column.data_type()) {
                return Ok(Arc::clone(column));
            }
            let data = walk(column.to_data(), &mut |data| {
                let dictionary = self.0.get_mut(next).ok_or_else(changed)?;
                next += 1;
                dictionary.unify(&make_array(data))
            })?;
            Ok(make_array(data))
        });
        RecordBatch::try_new(batch.schema(), columns.collect::<Result<_, ArrowError>>()?)
    }
}

impl Dictionary {
    fn new(kind: &DataType) -> Result<Self, ArrowError> {
        let converter = RowConverter::new(vec![SortField::new(kind.clone())])?;
        Ok(Self { converter, keys: HashMap::new(), new_values: Vec::new(), values: None })
    }

    fn collect(&mut self, values: &ArrayRef) -> Result<(), ArrowError> {
        let rows = self.converter.convert_columns(&[Arc::clone(values)])?;
        let mut new_indices = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if self.keys.contains_key(row.as_ref()) {
                continue;
            }
            let key = i32::try_from(self.keys.len()).map_err(|_| {
                ArrowError::InvalidArgumentError("a column has too many different values".into())
            })?;
            self.keys.insert(row.as_ref().into(), key);
            new_indices.push(index as u64);
        }
        if !new_indices.is_empty() {
            self.new_values.push(take(values, &UInt64Array::from(new_indices), None)?);
        }
        Ok(())
    }

    fn unify(&mut self, array: &ArrayRef) -> Result<ArrayData, ArrowError> {
        let given = array.as_dictionary_opt::<Int32Type>().ok_or_else(changed)?;
        let rows = self.converter.convert_columns(&[Arc::clone(given.values())])?;
        let new_keys: Option<Vec<i32>> =
            rows.iter().map(|row| self.keys.get(row.as_ref()).copied()).collect();
        let new_keys = new_keys.ok_or_else(changed)?;
        let keys = given.keys().iter().map(|key| {
            let key = key.map(|key| usize::try_from(key).ok().and_then(|key| new_keys.get(key)));
            key.map(|key| key.copied().ok_or_else(changed)).transpose()
        });
        let keys = keys.collect::<Result<Int32Array, ArrowError>>()?;
        let values = match &self.values {
            Some(values) => Arc::clone(values),
            None => new_empty_array(given.values().data_type()),
        };
        Ok(DictionaryArray::try_new(keys, values)?.into_data())
    }
}

/// The error if the second pass over the rows finds a value that the first pass did not find.
fn changed() -> ArrowError {
    ArrowError::InvalidArgumentError("a dictionary has changed".to_owned())
}

fn has_dictionary(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(..) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_dictionary(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        _ => false,
    }
}

/// Replaces each dictionary of an array, also in lists, maps and structs, with what `replace` returns.
fn walk(
    data: ArrayData,
    replace: &mut impl FnMut(ArrayData) -> Result<ArrayData, ArrowError>,
) -> Result<ArrayData, ArrowError> {
    if matches!(data.data_type(), DataType::Dictionary(..)) {
        return replace(data);
    }
    if !has_dictionary(data.data_type()) {
        return Ok(data);
    }
    let children = data.child_data().iter().map(|child| walk(child.clone(), replace));
    let children = children.collect::<Result<Vec<_>, _>>()?;
    data.into_builder().child_data(children).build()
}
