//! Puts the input's columns in front of what a guest returned for its rows.

use super::columns::VALUE_COLUMN;
use super::json;
use super::table_error::JoinError;
use crate::model::Join;
use arrow::array::{ArrayRef, RecordBatch, StringArray, StringBuilder, UInt64Array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use std::io::Cursor;
use std::sync::Arc;

/// The input of one attempt, and which of its rows have results.
#[derive(Debug)]
pub(super) struct JoinedRows {
    /// The columns to put in front, for all items of the input.
    input: RecordBatch,
    /// Whether the results are outcomes, one for each item.
    has_outcomes: bool,
    /// The index of the item that the next row of text belongs to.
    next: usize,
    texts: StringBuilder,
    /// The index of the item that each text belongs to.
    items: Vec<u64>,
    /// The number of rows so far, if the results are a table.
    rows: usize,
}

impl JoinedRows {
    /// The input of a mini-batch of files.
    pub(super) fn files(names: &[String]) -> Self {
        let names = StringArray::from_iter_values(names);
        let schema = Arc::new(Schema::new(vec![Field::new(Join::FILE, DataType::Utf8, true)]));
        // A single column always makes a valid batch.
        let input = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(names)]);
        Self::new(input.unwrap_or_else(|_| RecordBatch::new_empty(schema)))
    }

    /// The input of a mini-batch with a table, as the guest received it.
    ///
    /// # Errors
    /// If the table is damaged, or lacks a column that the job names.
    pub(super) fn table(ipc: &[u8], wanted: &Join) -> Result<Self, JoinError> {
        let read = || -> Result<RecordBatch, ArrowError> {
            let reader = StreamReader::try_new(Cursor::new(ipc), None)?;
            let schema = reader.schema();
            let batches = reader.collect::<Result<Vec<_>, _>>()?;
            concat_batches(&schema, &batches)
        };
        let input = read().map_err(JoinError::Unreadable)?;
        let Join::Columns(names) = wanted else { return Ok(Self::new(input)) };
        let schema = input.schema();
        let indices = names.iter().map(|name| {
            schema.index_of(name).map_err(|_| {
                let known: Vec<_> = schema
                    .fields()
                    .iter()
                    .take(20)
                    .map(|field| format!("{:?}", field.name()))
                    .collect();
                let more = schema.fields().len() > known.len();
                JoinError::NoColumn { name: name.clone(), known, more }
            })
        });
        let indices = indices.collect::<Result<Vec<_>, _>>()?;
        Ok(Self::new(input.project(&indices)?))
    }

    fn new(input: RecordBatch) -> Self {
        let texts = StringBuilder::new();
        let items = Vec::new();
        Self { input, has_outcomes: false, next: 0, texts, items, rows: 0 }
    }

    /// Records that the results are outcomes, one for each item.
    pub(super) fn outcomes(&mut self) {
        self.has_outcomes = true;
    }

    /// Adds a row of text for the next item. Returns how many bytes all texts so far have together,
    /// or `u64::MAX` if they are too long for Arrow.
    pub(super) fn text(&mut self, row: &str) -> u64 {
        let size = self.texts.values_slice().len().saturating_add(row.len());
        // Arrow's offsets into the texts have 31 bits.
        if i32::try_from(size).is_err() {
            return u64::MAX;
        }
        self.texts.append_value(row);
        self.items.push(self.next as u64);
        self.next += 1;
        size as u64
    }

    /// Records that the item has failed and has no row.
    pub(super) fn failed(&mut self, index: usize) {
        self.next = index + 1;
    }

    /// All rows of text, joined; `None` if there were none.
    pub(super) fn finish_texts(&mut self) -> Result<Option<RecordBatch>, Unjoined> {
        if self.items.is_empty() {
            return Ok(None);
        }
        let items = self.input.num_rows();
        if self.next > items || (!self.has_outcomes && self.items.len() != items) {
            return Err(self.wrong_row_count(self.items.len()));
        }
        let rows = UInt64Array::from(std::mem::take(&mut self.items));
        let columns = self.input.columns().iter().map(|column| take(column, &rows, None));
        let input = RecordBatch::try_new(self.input.schema(), columns.collect::<Result<_, _>>()?)?;
        let texts: ArrayRef = Arc::new(self.texts.finish());
        let value = Schema::new(vec![Field::new(VALUE_COLUMN, DataType::Utf8, true)]);
        if self.input.schema_ref().index_of(VALUE_COLUMN).is_ok() {
            return Err(Unjoined::Refused(format!(
                "rows of text become a column {VALUE_COLUMN:?}, and the input has a column of that name: \
                 list the columns to join in `join`, without {VALUE_COLUMN:?}, or return a table"
            )));
        }
        self.join_columns(&input, &RecordBatch::try_new(Arc::new(value), vec![texts])?).map(Some)
    }

    /// The next rows of a table, joined.
    pub(super) fn batch(&mut self, batch: &RecordBatch) -> Result<RecordBatch, Unjoined> {
        let from = self.rows;
        let count = batch.num_rows();
        self.rows += count;
        if self.rows > self.input.num_rows() {
            return Err(self.wrong_row_count(self.rows));
        }
        self.join_columns(&self.input.slice(from, count), batch)
    }

    /// Checks at the end of a table that it has as many rows as the input: otherwise it is unclear which row
    /// belongs to which item.
    pub(super) fn finish_table(&self) -> Result<(), Unjoined> {
        if self.rows == self.input.num_rows() {
            Ok(())
        } else {
            Err(self.wrong_row_count(self.rows))
        }
    }

    /// The schema of a table after joining.
    pub(super) fn schema(&self, table: &Schema) -> Result<SchemaRef, Unjoined> {
        let fields = self.input.schema_ref().fields().iter().chain(table.fields());
        let schema = Schema::new(fields.cloned().collect::<Vec<_>>());
        if let Some(name) = json::duplicate_name(schema.fields()) {
            return Err(Unjoined::Refused(format!(
                "the returned rows have a column {name:?}, and join puts the input's column of that name \
                 before them: give the returned column another name, or list the columns to join in \
                 `join`, without {name:?}"
            )));
        }
        Ok(Arc::new(schema))
    }

    fn join_columns(
        &self,
        input: &RecordBatch,
        batch: &RecordBatch,
    ) -> Result<RecordBatch, Unjoined> {
        let columns = input.columns().iter().chain(batch.columns()).cloned().collect();
        Ok(RecordBatch::try_new(self.schema(batch.schema_ref())?, columns)?)
    }

    fn wrong_row_count(&self, rows: usize) -> Unjoined {
        let items = self.input.num_rows();
        let row = if rows == 1 { "row" } else { "rows" };
        let item = if items == 1 { "item" } else { "items" };
        Unjoined::Refused(format!(
            "run returned {rows} {row} for {items} {item}, and join needs one row for each item: return one \
             row for each item, return outcomes (they say which items have no row), or remove join"
        ))
    }
}

/// Why rows cannot be joined.
pub(super) enum Unjoined {
    /// The message for the user.
    Refused(String),
    /// Arrow cannot make a table of the columns.
    Arrow(ArrowError),
}

impl From<ArrowError> for Unjoined {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Join, OutputFormat, OutputHeader, OutputKind};
    use crate::output::RowWriter;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
    use arrow::compute::cast;
    use arrow::datatypes::DataType;
    use arrow::ipc::writer::StreamWriter;
    use std::sync::Arc;

    fn stream(batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    fn input() -> Vec<u8> {
        let ids = Arc::new(Int64Array::from(vec![7, 8, 9]));
        let names = Arc::new(StringArray::from(vec![Some("a"), None, Some("c, d")]));
        stream(&[RecordBatch::try_from_iter([("id", ids as _), ("name", names as _)]).unwrap()])
    }

    fn scores(name: &str, values: Vec<i64>) -> RecordBatch {
        let values = Arc::new(Int64Array::from(values));
        RecordBatch::try_from_iter([(name, values as _)]).unwrap()
    }

    /// Header and lines, or the error.
    fn csv(join: Join, fill: impl FnOnce(&mut RowWriter) -> String) -> String {
        let format =
            OutputFormat { join: Some(join), ..OutputFormat::default_for(OutputKind::Csv) };
        let mut writer = RowWriter::new(1000, true, &format);
        if let Err(failure) = writer.join_table(&[input().into()]) {
            return failure.message;
        }
        let refused = fill(&mut writer);
        if !refused.is_empty() {
            return refused;
        }
        if let Some(failure) = writer.problem() {
            return failure.message;
        }
        if let Err(failure) = writer.seal() {
            return failure.message;
        }
        let header =
            writer.take_header().map_or(String::new(), |OutputHeader { text, .. }| text + "\n");
        assert_eq!(
            writer.segment().iter().filter(|byte| **byte == b'\n').count() as u64,
            writer.rows()
        );
        header + std::str::from_utf8(writer.segment()).unwrap()
    }

    fn table(writer: &mut RowWriter, batches: &[RecordBatch]) -> String {
        writer.table(&stream(batches)).err().map(|failure| failure.message).unwrap_or_default()
    }

    fn texts(writer: &mut RowWriter, rows: &[&str]) -> String {
        rows.iter().for_each(|row| writer.row(row));
        String::new()
    }

    #[test]
    fn input_columns_come_first() {
        let both = [scores("score", vec![1]), scores("score", vec![2, 3])];
        insta::assert_snapshot!(csv(Join::Input, |writer| table(writer, &both)), @r#"
        id,name,score
        7,a,1
        8,,2
        9,"c, d",3
        "#);
        let ids = Join::Columns(vec!["id".to_owned()]);
        insta::assert_snapshot!(csv(ids, |writer| texts(writer, &["x", "y\n", "z z"])), @"
        id,value
        7,x
        8,y
        9,z z
        ");
        let some = csv(Join::Input, |writer| {
            writer.outcomes();
            writer.failed(0);
            writer.row("of b");
            writer.failed(2);
            String::new()
        });
        insta::assert_snapshot!(some, @"
        id,name,value
        8,,of b
        ");
        assert_eq!(csv(Join::Input, |_| String::new()), "");
    }

    /// The input's values are written like values that a guest returns, whatever their type.
    #[test]
    fn input_values_are_written_like_results() {
        let far = TimestampSecondArray::from(vec![253_402_300_800, -62_167_219_201]);
        let kind = DataType::Decimal128(5, -2);
        let money = cast(&StringArray::from(vec!["12300", "-500"]), &kind).unwrap();
        let columns = [("far", Arc::new(far) as ArrayRef), ("money", money)];
        let input = stream(&[RecordBatch::try_from_iter(columns).unwrap()]);
        let written = |kind| {
            let format =
                OutputFormat { join: Some(Join::Input), ..OutputFormat::default_for(kind) };
            let mut writer = RowWriter::new(1000, true, &format);
            writer.join_table(&[input.as_slice().into()]).unwrap();
            writer.table(&stream(&[scores("score", vec![1, 2])])).unwrap();
            writer.seal().unwrap();
            (writer.take_header().unwrap().text, writer.segment().to_vec())
        };
        let (header, lines) = written(OutputKind::Csv);
        insta::assert_snapshot!(header + "\n" + std::str::from_utf8(&lines).unwrap(), @"
        far,money,score
        +10000-01-01T00:00:00,12300,1
        -0001-12-31T23:59:59,-500,2
        ");
        insta::assert_snapshot!(written(OutputKind::Parquet).0, @r#"
        "far" Timestamp(ms)
        "money" Decimal32(7, 0)
        "score" Int64
        "#);
    }

    #[test]
    fn rows_that_cannot_be_joined_are_refused() {
        let short = csv(Join::Input, |writer| texts(writer, &["x"]));
        insta::assert_snapshot!(short, @"run returned 1 row for 3 items, and join needs one row for each item: return one row for each item, return outcomes (they say which items have no row), or remove join");
        for values in [vec![1, 2], vec![1, 2, 3, 4]] {
            let reported = csv(Join::Input, |writer| table(writer, &[scores("score", values)]));
            assert!(reported.contains(" for 3 items, and join needs"), "{reported}");
        }
        let reported = csv(Join::Input, |writer| table(writer, &[scores("id", vec![1, 2, 3])]));
        insta::assert_snapshot!(reported, @r#"the returned rows have a column "id", and join puts the input's column of that name before them: give the returned column another name, or list the columns to join in `join`, without "id""#);
        let values = Join::Columns(vec!["id".to_owned()]);
        let with_value_column = |join: &Join, fill: &dyn Fn(&mut RowWriter) -> String| {
            let format = OutputFormat {
                join: Some(join.clone()),
                ..OutputFormat::default_for(OutputKind::Csv)
            };
            let mut writer = RowWriter::new(1000, true, &format);
            let ids = Arc::new(Int64Array::from(vec![7, 8]));
            let both = [("id", Arc::clone(&ids) as _), ("value", ids as _)];
            let input = stream(&[RecordBatch::try_from_iter(both).unwrap()]);
            writer.join_table(&[input.into()]).unwrap();
            let refused = fill(&mut writer);
            let sealed = writer.seal().err().map(|failure| failure.message);
            let text = String::from_utf8(writer.segment().to_vec()).unwrap();
            if refused.is_empty() { sealed.unwrap_or(text) } else { refused }
        };
        let some_texts = |writer: &mut RowWriter| texts(writer, &["x", "y"]);
        insta::assert_snapshot!(with_value_column(&Join::Input, &some_texts), @r#"rows of text become a column "value", and the input has a column of that name: list the columns to join in `join`, without "value", or return a table"#);
        assert_eq!(with_value_column(&values, &some_texts), "7,x\n8,y\n");
        let some_values = |writer: &mut RowWriter| table(writer, &[scores("value", vec![1, 2])]);
        assert!(with_value_column(&Join::Input, &some_values).contains("column \"value\""));
        assert_eq!(with_value_column(&values, &some_values), "7,1\n8,2\n");
        let missing = Join::Columns(vec!["key".to_owned()]);
        insta::assert_snapshot!(csv(missing, |_| String::new()), @r#"join names the column "key", which the input does not have; it has "id", "name""#);
    }
}
