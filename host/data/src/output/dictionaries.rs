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

/// The dictionaries of a file's columns, in the order of the columns, nested ones included.
#[derive(Debug, Default)]
pub(super) struct Dictionaries(Vec<Dictionary>);

/// All values of one column.
#[derive(Debug)]
struct Dictionary {
    converter: RowConverter,
    places: HashMap<Box<[u8]>, i32>,
    /// New values, in the order in which they were found.
    pieces: Vec<ArrayRef>,
    /// All values, once they are complete.
    values: Option<ArrayRef>,
}

impl Dictionaries {
    /// Whether any column has a dictionary, nested ones included.
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
            let pieces: Vec<&dyn Array> = dictionary.pieces.iter().map(AsRef::as_ref).collect();
            if !pieces.is_empty() {
                dictionary.values = Some(concat(&pieces)?);
            }
            dictionary.pieces = Vec::new();
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
                let dictionary = self.0.get_mut(next).ok_or_else(beyond)?;
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
        Ok(Self { converter, places: HashMap::new(), pieces: Vec::new(), values: None })
    }

    fn collect(&mut self, values: &ArrayRef) -> Result<(), ArrowError> {
        let rows = self.converter.convert_columns(&[Arc::clone(values)])?;
        let mut new = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if self.places.contains_key(row.as_ref()) {
                continue;
            }
            let place = i32::try_from(self.places.len()).map_err(|_| {
                ArrowError::InvalidArgumentError("a column has too many different values".into())
            })?;
            self.places.insert(row.as_ref().into(), place);
            new.push(index as u64);
        }
        if !new.is_empty() {
            self.pieces.push(take(values, &UInt64Array::from(new), None)?);
        }
        Ok(())
    }

    fn unify(&mut self, array: &ArrayRef) -> Result<ArrayData, ArrowError> {
        let given = array.as_dictionary_opt::<Int32Type>().ok_or_else(beyond)?;
        let rows = self.converter.convert_columns(&[Arc::clone(given.values())])?;
        let places: Option<Vec<i32>> =
            rows.iter().map(|row| self.places.get(row.as_ref()).copied()).collect();
        let places = places.ok_or_else(beyond)?;
        let keys = given.keys().iter().map(|key| {
            let place = key.map(|key| usize::try_from(key).ok().and_then(|key| places.get(key)));
            place.map(|place| place.copied().ok_or_else(beyond)).transpose()
        });
        let keys = keys.collect::<Result<Int32Array, ArrowError>>()?;
        let values = match &self.values {
            Some(values) => Arc::clone(values),
            None => new_empty_array(given.values().data_type()),
        };
        Ok(DictionaryArray::try_new(keys, values)?.into_data())
    }
}

fn beyond() -> ArrowError {
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

/// Replaces the dictionaries of an array, at any depth.
fn walk(
    data: ArrayData,
    take: &mut impl FnMut(ArrayData) -> Result<ArrayData, ArrowError>,
) -> Result<ArrayData, ArrowError> {
    if matches!(data.data_type(), DataType::Dictionary(..)) {
        return take(data);
    }
    if !has_dictionary(data.data_type()) {
        return Ok(data);
    }
    let children = data.child_data().iter().map(|child| walk(child.clone(), take));
    let children = children.collect::<Result<Vec<_>, _>>()?;
    data.into_builder().child_data(children).build()
}
