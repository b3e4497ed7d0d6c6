//! Columns whose values are not stored row by row: run-end encoded columns, unions, and columns
//! that are all null. Such a column may claim any number of rows but take few bytes, so this module
//! allocates nothing per row.

use arrow::array::{Array, ArrayRef, AsArray, RunArray, UnionArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;

/// Which rows of a column are null.
pub(super) enum Nulls {
    Never,
    Always,
    Rows(NullBuffer),
    /// The column itself marks no row as null. A row is null if its value is null in the columns that hold the
    /// values.
    InValues,
}

impl Nulls {
    pub(super) fn from_array(array: &dyn Array) -> Self {
        match array.data_type() {
            DataType::Null => Self::Always,
            DataType::RunEndEncoded(..) | DataType::Union(..) => Self::InValues,
            _ => match array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
                Some(nulls) => Self::Rows(nulls),
                None => Self::Never,
            },
        }
    }
}

/// A run-end encoded column: each of its values applies to a run of consecutive rows.
#[derive(Clone, Copy)]
pub(super) enum RunEndColumn<'a> {
    Short(&'a RunArray<Int16Type>),
    Medium(&'a RunArray<Int32Type>),
    Long(&'a RunArray<Int64Type>),
}

impl<'a> RunEndColumn<'a> {
    /// Fails if the column is not run-end encoded.
    pub(super) fn from_array(array: &'a dyn Array) -> Result<Self, ArrowError> {
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
    /// another column.
    pub(super) fn end(self, run: usize) -> usize {
        let (end, offset) = match self {
            Self::Short(runs) => {
                (runs.run_ends().values().get(run).map(|end| end.as_usize()), runs.offset())
            }
            Self::Medium(runs) => {
                (runs.run_ends().values().get(run).map(|end| end.as_usize()), runs.offset())
            }
            Self::Long(runs) => {
                (runs.run_ends().values().get(run).map(|end| end.as_usize()), runs.offset())
            }
        };
        end.map_or(0, |end| end.saturating_sub(offset))
    }

    /// The run that a row belongs to, which is also the index of the row's value.
    pub(super) fn run_of(self, row: usize) -> usize {
        match self {
            Self::Short(runs) => runs.get_physical_index(row),
            Self::Medium(runs) => runs.get_physical_index(row),
            Self::Long(runs) => runs.get_physical_index(row),
        }
    }
}

/// The columns of a union, each converted to a `T`.
pub(super) struct UnionColumns<'a, T> {
    union: &'a UnionArray,
    /// The type ID of each column, and the column.
    columns: Vec<(i8, T)>,
}

impl<'a, T> UnionColumns<'a, T> {
    /// `make` converts a column. Fails if `make` fails.
    pub(super) fn from_array(
        union: &'a UnionArray,
        mut make: impl FnMut(&'a ArrayRef) -> Result<T, ArrowError>,
    ) -> Result<Self, ArrowError> {
        let DataType::Union(fields, _) = union.data_type() else {
            return Ok(Self { union, columns: Vec::new() });
        };
        let columns = fields.iter().map(|(id, _)| Ok((id, make(union.child(id))?)));
        Ok(Self { union, columns: columns.collect::<Result<_, ArrowError>>()? })
    }

    /// The column that has the row's value, and the value's index in that column.
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

    pub(super) fn columns(&self) -> impl Iterator<Item = &T> {
        self.columns.iter().map(|(_, column)| column)
    }
}

/// Which of the values of a list column belong to each list.
pub(super) enum ListOffsets<'a> {
    /// The offset at which each list begins; the list ends where the next list begins.
    Short(&'a [i32]),
    Long(&'a [i64]),
    /// The length of every list.
    Fixed(usize),
    /// Offsets and lengths.
    View(&'a [i32], &'a [i32]),
    LongView(&'a [i64], &'a [i64]),
}

impl ListOffsets<'_> {
    /// The indices of the values of a row's list.
    pub(super) fn range(&self, row: usize) -> std::ops::Range<usize> {
        match self {
            Self::Short(offsets) => offsets[row].as_usize()..offsets[row + 1].as_usize(),
            Self::Long(offsets) => offsets[row].as_usize()..offsets[row + 1].as_usize(),
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
