//! The common case at several times the speed of arrow-csv: text without quotes, in columns of
//! numbers and text, where nothing but the empty field is null. What does not fit, or looks
//! unusual, is left to arrow-csv's own parsers, so that both read the same from the same bytes.

use crate::model::{ColumnType, TableFormat};
use arrow::array::{ArrayRef, Float64Builder, Int64Builder, RecordBatch, StringBuilder};
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{Float64Type, Int64Type, SchemaRef};
use memchr::{memchr, memchr3};
use std::sync::Arc;

/// Numbers of so many digits are whole numbers that a float holds exactly.
const EXACT_DIGITS: usize = 15;
/// Numbers of so many digits fit 64 bits with their sign.
const INTEGER_DIGITS: usize = 18;
/// Exact powers of ten, as far as [`EXACT_DIGITS`] needs them.
const POWERS: [f64; EXACT_DIGITS + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Decodes slices of one format.
#[derive(Debug)]
pub(super) struct PlainDecoder {
    schema: SchemaRef,
    delimiter: u8,
    kinds: Vec<ColumnType>,
}

impl PlainDecoder {
    /// None if tables of this format are not the common case.
    pub(super) fn new(format: &TableFormat, schema: &SchemaRef) -> Option<Self> {
        let delimiter = format.csv.delimiter;
        let plain = format.csv.null_values.is_empty()
            && matches!(delimiter, b',' | b';' | b'|' | b'\t' | b' ')
            && format.columns.iter().all(|column| Builder::knows(column.kind));
        let kinds = format.columns.iter().map(|column| column.kind).collect();
        plain.then(|| Self { schema: Arc::clone(schema), delimiter, kinds })
    }

    /// The table that arrow-csv would make of whole records, about `rows` of them. None if it would
    /// refuse them, or if there are quotes.
    pub(super) fn decode(&self, text: &str, rows: usize) -> Option<RecordBatch> {
        if memchr(b'"', text.as_bytes()).is_some() {
            return None;
        }
        let kinds = self.kinds.iter();
        let mut columns: Vec<Builder> = kinds.map(|kind| Builder::new(*kind, rows)).collect();
        let (last, before) = columns.split_last_mut()?;
        let mut fields = Fields { text, at: 0, delimiter: self.delimiter };
        while fields.begins_record() {
            for column in &mut *before {
                column.take(&mut fields)?;
                fields.pass_delimiter()?;
            }
            last.take(&mut fields)?;
            fields.pass_record_end()?;
        }
        let arrays = columns.into_iter().map(Builder::finish).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).ok()
    }
}

/// A column that is being filled.
enum Builder {
    Int64(Int64Builder),
    Float64(Float64Builder),
    String(StringBuilder),
}

impl Builder {
    fn knows(kind: ColumnType) -> bool {
        matches!(kind, ColumnType::Int64 | ColumnType::Float64 | ColumnType::String)
    }

    /// `kind` is one that it [`knows`](Self::knows); any other would be read as text.
    fn new(kind: ColumnType, rows: usize) -> Self {
        match kind {
            ColumnType::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            ColumnType::Float64 => Self::Float64(Float64Builder::with_capacity(rows)),
            _ => Self::String(StringBuilder::with_capacity(rows, rows.saturating_mul(8))),
        }
    }

    /// Takes the next field. None if the column does not accept it.
    #[inline]
    fn take(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        match self {
            Self::Int64(column) => match fields.short_integer() {
                Some(value) => column.append_value(value),
                None => column.append_option(fields.parsed::<Int64Type>()?),
            },
            Self::Float64(column) => match fields.short_decimal() {
                Some(value) => column.append_value(value),
                None => column.append_option(fields.parsed::<Float64Type>()?),
            },
            Self::String(column) => match fields.field()? {
                "" => column.append_null(),
                text => column.append_value(text),
            },
        }
        Some(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Int64(mut column) => Arc::new(column.finish()),
            Self::Float64(mut column) => Arc::new(column.finish()),
            Self::String(mut column) => Arc::new(column.finish()),
        }
    }
}

/// A walk over text without quotes, field by field.
struct Fields<'a> {
    text: &'a str,
    at: usize,
    delimiter: u8,
}

impl<'a> Fields<'a> {
    /// Passes blank lines. False at the end of the text.
    fn begins_record(&mut self) -> bool {
        while let Some(b'\n' | b'\r') = self.byte(self.at) {
            self.at += 1;
        }
        self.at < self.text.len()
    }

    /// None if the record has no more fields.
    #[inline]
    fn pass_delimiter(&mut self) -> Option<()> {
        (self.byte(self.at)? == self.delimiter).then(|| self.at += 1)
    }

    /// None if the record has more fields. The rest of a CRLF is passed as a blank line.
    #[inline]
    fn pass_record_end(&mut self) -> Option<()> {
        match self.byte(self.at) {
            None => Some(()),
            Some(b'\n' | b'\r') => {
                self.at += 1;
                Some(())
            }
            Some(_) => None,
        }
    }

    #[inline]
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    #[inline]
    fn ends_at(&self, at: usize) -> bool {
        self.byte(at).is_none_or(|byte| byte == self.delimiter || byte == b'\n' || byte == b'\r')
    }

    /// Passes the next field, whatever it holds.
    fn field(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..)?;
        let end = memchr3(self.delimiter, b'\n', b'\r', rest.as_bytes()).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end)
    }

    /// Passes the next field, as arrow-csv reads it; the inner None is a null.
    #[cold]
    fn parsed<T: Parser>(&mut self) -> Option<Option<T::Native>> {
        match self.field()? {
            "" => Some(None),
            field => T::parse(field).map(Some),
        }
    }

    /// Passes a whole number of a usual form; stays where it is at anything else.
    #[inline]
    fn short_integer(&mut self) -> Option<i64> {
        let negative = self.byte(self.at) == Some(b'-');
        let start = self.at + usize::from(negative);
        let (end, number) = self.digits(start, 0);
        if !(1..=INTEGER_DIGITS).contains(&(end - start)) || !self.ends_at(end) {
            return None;
        }
        self.at = end;
        let number = number.cast_signed();
        Some(if negative { -number } else { number })
    }

    /// Passes a decimal of a usual form and length; stays where it is at anything else. Both parts
    /// of the one division are exact, so its result is the nearest float, as from any good parser.
    #[inline]
    fn short_decimal(&mut self) -> Option<f64> {
        let negative = self.byte(self.at) == Some(b'-');
        let start = self.at + usize::from(negative);
        let (point, number) = self.digits(start, 0);
        let (mut end, mut number, mut digits, mut power) = (point, number, point - start, 1.0);
        if digits > 0 && self.byte(point) == Some(b'.') {
            (end, number) = self.digits(point + 1, number);
            let places = end - point - 1;
            digits += places;
            power = *POWERS.get(places).filter(|_| places > 0)?;
        }
        if !(1..=EXACT_DIGITS).contains(&digits) || !self.ends_at(end) {
            return None;
        }
        self.at = end;
        let number = number as f64 / power;
        Some(if negative { -number } else { number })
    }

    /// Where the digits that begin at `at` end, and the number that they make behind those of
    /// `number`. Of no use, but harmless, where there are more than 19 in all.
    #[inline]
    fn digits(&self, mut at: usize, mut number: u64) -> (usize, u64) {
        while let Some(byte @ b'0'..=b'9') = self.byte(at) {
            number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            at += 1;
        }
        (at, number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::arrow_type;
    use super::*;
    use crate::model::{Column, CsvFormat};
    use arrow::csv::ReaderBuilder;
    use arrow::datatypes::{Field, Schema};
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    use proptest::prelude::*;

    const KINDS: [ColumnType; 3] = [ColumnType::Int64, ColumnType::Float64, ColumnType::String];

    fn decoder(kinds: &[ColumnType]) -> PlainDecoder {
        let columns: Vec<_> = (0..)
            .zip(kinds)
            .map(|(n, kind)| Column { name: format!("c{n}"), kind: *kind })
            .collect();
        let fields: Vec<_> =
            columns.iter().map(|c| Field::new(&c.name, arrow_type(c.kind), true)).collect();
        let format = TableFormat { columns, ..TableFormat::default() };
        PlainDecoder::new(&format, &Arc::new(Schema::new(fields))).unwrap()
    }

    /// The batch as text, nulls told from empty texts; floats to the last bit.
    fn cells(batch: &RecordBatch) -> Vec<Vec<String>> {
        let options = FormatOptions::default().with_null("NULL");
        let cell = |column: &ArrayRef, row| {
            ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string()
        };
        let row = |row| batch.columns().iter().map(|column| cell(column, row)).collect();
        (0..batch.num_rows()).map(row).collect()
    }

    fn by_arrow(decoder: &PlainDecoder, text: &str) -> Option<Vec<Vec<String>>> {
        let mut arrow = ReaderBuilder::new(Arc::clone(&decoder.schema))
            .with_batch_size(text.len() + 1)
            .build_decoder();
        let mut at = 0;
        loop {
            let count = arrow.decode(&text.as_bytes()[at..]).ok()?;
            at += count;
            if count == 0 {
                break;
            }
        }
        Some(arrow.flush().ok()?.as_ref().map(cells).unwrap_or_default())
    }

    #[test]
    fn usual_and_unusual_fields_are_read_as_arrow_reads_them() {
        let kinds = decoder(&KINDS);
        for text in [
            "1,2.5,x\n-7,-0.25,y z\r\n\r\n,,\n",
            "9223372036854775807,1e300,é\r+5,.5,\" ",
            "000000000000000000000012,123456789012345678.5,a",
            "999999999999999999,999999999999999,a\n-999999999999999999,-0,a",
            " 1 , 1.5 ,  a ",
            "1,0.000000000000001,a\n1,0.1234567890123456,a\n1,123456789.1234567,a",
            "1,nan,a\n2,-inf,b",
            "1,1.,a",
            "1,-.5,a",
            "1,2\n",
            "1,2,3,4\n",
            "1.5,2,3",
            "9223372036854775808,1,a",
            "-,1,a",
            "1,-,a",
            "1,1.5.5,a",
            "1,2,3\n1,2,",
            "1,2,3\n1,2",
            "",
            "\n\r\n",
        ] {
            let plain = kinds.decode(text, 1).map(|batch| cells(&batch));
            let expected = by_arrow(&kinds, text).filter(|_| !text.contains('"'));
            assert_eq!(plain, expected, "{text:?}");
        }
    }

    #[test]
    fn other_formats_are_left_to_arrow() {
        let kind = |kind| vec![Column { name: "a".into(), kind }];
        let make = |csv: CsvFormat, columns| {
            let schema = Arc::new(Schema::empty());
            PlainDecoder::new(&TableFormat { csv, columns, ..TableFormat::default() }, &schema)
                .is_some()
        };
        assert!(make(CsvFormat::default(), kind(ColumnType::Int64)));
        assert!(!make(CsvFormat::default(), kind(ColumnType::Date)));
        let csv = CsvFormat { delimiter: b'.', ..CsvFormat::default() };
        assert!(!make(csv, kind(ColumnType::Int64)));
        let csv = CsvFormat { null_values: vec!["NA".into()], ..CsvFormat::default() };
        assert!(!make(csv, kind(ColumnType::Int64)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_arrow_reads_it(
            kinds in prop::collection::vec(prop::sample::select(&KINDS), 1..4),
            text in "([0-9]{1,3}|[-+.e é]|,|\n|\r\n|[0-9.-]{1,20}){0,30}",
        ) {
            let decoder = decoder(&kinds);
            let plain = decoder.decode(&text, 1).map(|batch| cells(&batch));
            prop_assert_eq!(plain, by_arrow(&decoder, &text));
        }

        #[test]
        fn decimals_are_read_as_arrow_reads_them(number in "-?[0-9]{1,9}(\\.[0-9]{1,9})?") {
            let decoder = decoder(&[ColumnType::Float64]);
            let batch = decoder.decode(&number, 1).unwrap();
            prop_assert_eq!(cells(&batch), by_arrow(&decoder, &number).unwrap());
        }
    }
}
