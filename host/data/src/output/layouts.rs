//! Columns whose values do not lie row by row: runs of one value, unions, and columns of nulls alone. How many
//! rows these say they have may have nothing to do with the bytes that they take, so nothing here is made for each row.

use arrow::array::{Array, ArrayRef, AsArray, RunArray, UnionArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;

/// Which rows of a column have no value.
pub(super) enum Nulls {
    Never,
    Always,
    Rows(NullBuffer),
    /// Those whose value, which lies elsewhere, is null.
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

/// A column in which each value stands for a number of rows.
#[derive(Clone, Copy)]
pub(super) enum Runs<'a> {
    Short(&'a RunArray<Int16Type>),
    Medium(&'a RunArray<Int32Type>),
    Long(&'a RunArray<Int64Type>),
}

impl<'a> Runs<'a> {
    /// Fails if the column is none of these.
    pub(super) fn of(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let runs = array.as_run_opt::<Int16Type>().map(Self::Short);
        let runs = runs.or_else(|| array.as_run_opt::<Int32Type>().map(Self::Medium));
        let runs = runs.or_else(|| array.as_run_opt::<Int64Type>().map(Self::Long));
        runs.ok_or_else(|| ArrowError::InvalidArgumentError("a column of runs is none".to_owned()))
    }

    /// One value for each run.
    pub(super) fn values(self) -> &'a ArrayRef {
        match self {
            Self::Short(runs) => runs.values(),
            Self::Medium(runs) => runs.values(),
            Self::Long(runs) => runs.values(),
        }
    }

    /// The row after the last one of a run. Beyond the column's end where the column is a part of another one.
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

    /// Where the value of a row lies among them.
    pub(super) fn place(self, row: usize) -> usize {
        match self {
            Self::Short(runs) => runs.get_physical_index(row),
            Self::Medium(runs) => runs.get_physical_index(row),
            Self::Long(runs) => runs.get_physical_index(row),
        }
    }
}

/// The columns of a union, of whatever is made of each.
pub(super) struct Variants<'a, T> {
    union: &'a UnionArray,
    columns: Vec<(i8, T)>,
}

impl<'a, T> Variants<'a, T> {
    /// Fails as `make` does.
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

    /// The column that has the row's value, and where in it.
    pub(super) fn get(&self, row: usize) -> Option<(&T, usize)> {
        let id = self.union.type_id(row);
        let found = self.columns.iter().find(|(known, _)| *known == id);
        found.map(|(_, column)| (column, self.union.value_offset(row)))
    }

    /// The same, to write it.
    pub(super) fn get_mut(&mut self, row: usize) -> Option<(&mut T, usize)> {
        let id = self.union.type_id(row);
        let found = self.columns.iter_mut().find(|(known, _)| *known == id);
        found.map(|(_, column)| (column, self.union.value_offset(row)))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.columns.iter().map(|(_, column)| column)
    }
}

/// Where the lists of a column begin and end among the values of all.
pub(super) enum Ends<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
    Fixed(usize),
    /// Beginnings and lengths.
    View(&'a [i32], &'a [i32]),
    LongView(&'a [i64], &'a [i64]),
}

impl Ends<'_> {
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
