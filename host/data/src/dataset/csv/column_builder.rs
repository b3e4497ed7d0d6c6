//! Fills columns from text whose field ends are known.

use super::field_splitter::FoundEnds;
use super::tally::is_terminator;
use arrow::array::{BooleanArray, BooleanBufferBuilder, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, ArrowPrimitiveType};

/// Some records of a text, and where their fields end.
#[derive(Clone, Copy, Debug)]
pub(in crate::dataset) struct FieldedRecords<'a> {
    pub(in crate::dataset) text: &'a str,
    /// The end before the first field, then the ends of all fields of the records, and possibly
    /// more ends.
    ends: &'a [u32],
    pub(in crate::dataset) count: usize,
    /// The number of fields in each record.
    fields: usize,
    delimiter: u8,
}

impl<'a> FieldedRecords<'a> {
    /// The records whose ends were all found, with this many fields each.
    pub(in crate::dataset) fn new(
        text: &'a str,
        found: &'a FoundEnds,
        fields: usize,
        delimiter: u8,
    ) -> Self {
        Self { text, ends: found.ends(), count: found.count / fields, fields, delimiter }
    }

    /// Calls `take` with the start and the end of each field of a column. Returns `None` if `take` or
    /// [`Self::bounds`] does.
    #[inline(always)]
    pub(in crate::dataset) fn each(
        &self,
        column: usize,
        mut take: impl FnMut(usize, usize) -> Option<()>,
    ) -> Option<()> {
        for record in 0..self.count {
            let (start, end) = self.bounds(column, record)?;
            take(start, end)?;
        }
        Some(())
    }

    /// Where a record's field starts and ends. `None` if the record has more or fewer fields than it should.
    #[inline(always)]
    pub(in crate::dataset) fn bounds(
        &self,
        column: usize,
        record: usize,
    ) -> Option<(usize, usize)> {
        let text = self.text.as_bytes();
        let at = record * self.fields + column;
        let &[before, end] = self.ends.get(at..at + 2)?.first_chunk()?;
        let mut start = before.wrapping_add(1) as usize;
        let end = end as usize;
        // Every end is the position of a delimiter or the end of a record.
        let is_last = column + 1 == self.fields;
        if (text.get(end) == Some(&self.delimiter)) == is_last {
            return None;
        }
        if column == 0 {
            while text.get(start).is_some_and(|byte| is_terminator(*byte)) {
                start += 1;
            }
        }
        Some((start, end))
    }
}

/// The values of a column whose type has a fixed width, and the rows that are null.
#[derive(Debug)]
pub(in crate::dataset) struct FixedValues<T> {
    values: Vec<T>,
    nulls: Vec<usize>,
}

impl<T: Copy + Default> FixedValues<T> {
    /// Reserves room for `rows` values.
    pub(in crate::dataset) fn new(rows: usize) -> Self {
        Self { values: Vec::with_capacity(rows), nulls: Vec::new() }
    }

    /// Adds `count` empty values, which the caller fills.
    #[inline(always)]
    pub(in crate::dataset) fn add_empty(&mut self, count: usize) -> ValueBuffer<'_, T> {
        let row = self.values.len();
        self.values.resize(row + count, T::default());
        ValueBuffer { values: &mut self.values, nulls: &mut self.nulls, row }
    }

    /// Which rows have values. `None` if all rows have.
    fn null_buffer(&self) -> Option<NullBuffer> {
        if self.nulls.is_empty() {
            return None;
        }
        let mut present = BooleanBufferBuilder::new(self.values.len());
        present.append_n(self.values.len(), true);
        self.nulls.iter().for_each(|&row| present.set_bit(row, false));
        Some(NullBuffer::new(present.finish()))
    }

    /// The finished column. `None` does not occur: values and nulls have the same length.
    pub(in crate::dataset) fn array<A: ArrowPrimitiveType<Native = T>>(
        self,
    ) -> Option<PrimitiveArray<A>>
    where
        T: ArrowNativeType,
    {
        let nulls = self.null_buffer();
        PrimitiveArray::try_new(self.values.into(), nulls).ok()
    }
}

impl FixedValues<bool> {
    /// The finished column.
    pub(in crate::dataset) fn booleans(self) -> BooleanArray {
        let nulls = self.null_buffer();
        BooleanArray::new(self.values.into(), nulls)
    }
}

/// Empty values of a column, which are filled one after the other.
#[derive(Debug)]
pub(in crate::dataset) struct ValueBuffer<'v, T> {
    values: &'v mut [T],
    nulls: &'v mut Vec<usize>,
    /// The row of the next value.
    row: usize,
}

impl<T> ValueBuffer<'_, T> {
    /// Fills the next value; `None` is null. Returns `None` if no empty value is left.
    #[inline(always)]
    pub(in crate::dataset) fn push(&mut self, value: Option<T>) -> Option<()> {
        match value {
            Some(value) => *self.values.get_mut(self.row)? = value,
            None => self.nulls.push(self.row),
        }
        self.row += 1;
        Some(())
    }

    /// Fills the next values. Returns `None` if there are too few empty ones.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(in crate::dataset) fn push_all<const N: usize>(&mut self, values: [T; N]) -> Option<()> {
        *self.values.get_mut(self.row..)?.first_chunk_mut()? = values;
        self.row += N;
        Some(())
    }
}
