//! Columns whose values are not stored row by row: run-end encoded columns, unions, and columns that are all
//! null. The number of rows that such a column claims may be unrelated to the bytes that it takes, so nothing
//! here is allocated per row.

use arrow::array::{Array, ArrayRef, AsArray, RunArray, UnionArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;

/// Which rows of a column are null.
pub(super) enum Nulls {
    Never,
    Always,
    Rows(NullBuffer),
    /// Rows whose value, which is stored elsewhere, is null.
    OfValues,
}

impl Nulls {
    pub(super) fn of(array: &dyn Array) -> Self {
        match array.data_type() {
            DataType::Null => Self::Always,
            DataType::RunEndEncoded(..) | DataType::Union(..) => Self::OfValues,
            _ => match array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
                Some(nulls) => Self::Rows(nulls),
                None => Self::Never,
            },
        }
    }
}

/// A run-end encoded column: each value stands for a number of rows.
#[derive(Clone, Copy)]
pub(super) enum RunEndColumn<'a> {
    Short(&'a RunArray<Int16Type>),
    Medium(&'a RunArray<Int32Type>),
    Long(&'a RunArray<Int64Type>),
}

impl<'a> RunEndColumn<'a> {
    /// Fails if the column is not run-end encoded.
    pub(super) fn of(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let runs = array.as_run_opt::<Int16Type>().map(Self::Short);
        let runs = runs.or_else(|| array.as_run_opt::<Int32Type>().map(Self::Medium));
        let runs = runs.or_else(|| array.as_run_opt::<Int64Type>().map(Self::Long));
        runs.ok_or_else(|| {
            ArrowError::InvalidArgumentError("a column is not run-end encoded".to_owned())
        })
    }

    /// The values, one for each run.
    pub(super) fn values(self) -> &'a ArrayRef {
        match self {
            Self::Short(runs) => runs.values(),
            Self::Medium(runs) => runs.values(),
            Self::Long(runs) => runs.values(),
        }
    }

    /// The row after the last row of a run. It may be past the column's end if the column is a slice of
    /// another one.
    pub(super) fn end(self, place: usize) -> usize {
        let (ends, offset) = match self {
            Self::Short(runs) => {
                (runs.run_ends().values().get(place).map(|end| end.as_usize()), runs.offset())
            }
            Self::Medium(runs) => {
                (runs.run_ends().values().get(place).map(|end| end.as_usize()), runs.offset())
            }
            Self::Long(runs) => {
                (runs.run_ends().values().get(place).map(|end| end.as_usize()), runs.offset())
            }
        };
        ends.map_or(0, |end| end.saturating_sub(offset))
    }

    /// The index of a row's value among them.
    pub(super) fn place(self, row: usize) -> usize {
        match self {
            Self::Short(runs) => runs.get_physical_index(row),
            Self::Medium(runs) => runs.get_physical_index(row),
            Self::Long(runs) => runs.get_physical_index(row),
        }
    }
}

/// The columns of a union, each as a value made from it.
pub(super) struct UnionColumns<'a, T> {
    union: &'a UnionArray,
    columns: Vec<(i8, T)>,
}

impl<'a, T> UnionColumns<'a, T> {
    /// Fails if `make` fails.
    pub(super) fn of(
        union: &'a UnionArray,
        mut make: impl FnMut(&'a ArrayRef) -> Result<T, ArrowError>,
    ) -> Result<Self, ArrowError> {
        let DataType::Union(fields, _) = union.data_type() else {
            return Ok(Self { union, columns: Vec::new() });
        };
        let columns = fields.iter().map(|(id, _)| Ok((id, make(union.child(id))?)));
        Ok(Self { union, columns: columns.collect::<Result<_, ArrowError>>()? })
    }

    /// The column that has the row's value, and the index in it.
    pub(super) fn get(&self, row: usize) -> Option<(&T, usize)> {
        let id = self.union.type_id(row);
        let found = self.columns.iter().find(|(known, _)| *known == id);
        found.map(|(_, column)| (column, self.union.value_offset(row)))
    }

    /// As [`Self::get`], but mutable, for writing.
    pub(super) fn get_mut(&mut self, row: usize) -> Option<(&mut T, usize)> {
        let id = self.union.type_id(row);
        let found = self.columns.iter_mut().find(|(known, _)| *known == id);
        found.map(|(_, column)| (column, self.union.value_offset(row)))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.columns.iter().map(|(_, column)| column)
    }
}

/// Where each list of a column begins and ends among the values of all lists.
pub(super) enum ListEnds<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
    Fixed(usize),
    /// Offsets and lengths.
    View(&'a [i32], &'a [i32]),
    LongView(&'a [i64], &'a [i64]),
}

impl ListEnds<'_> {
    pub(super) fn of(&self, row: usize) -> std::ops::Range<usize> {
        match self {
            Self::Short(ends) => ends[row].as_usize()..ends[row + 1].as_usize(),
            Self::Long(ends) => ends[row].as_usize()..ends[row + 1].as_usize(),
            Self::Fixed(length) => row * length..(row + 1) * length,
            Self::View(begin, length) => {
                begin[row].as_usize()..begin[row].as_usize() + length[row].as_usize()
            }
            Self::LongView(begin, length) => {
                begin[row].as_usize()..begin[row].as_usize() + length[row].as_usize()
            }
        }
    }
}
