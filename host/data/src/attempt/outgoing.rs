//! The results of mini-batches as one Arrow IPC stream, for a program that reads it while it is written.

use crate::model::{Failure, FailureKind, Limits, OutputFormat, OutputHeader, OutputKind};
use crate::output::RowWriter;
use arrow::array::{ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::io::{self, Cursor, Write};
use std::sync::Arc;

/// The marker at the end of an Arrow IPC stream.
const END_MARKER: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Writes one record batch for each mini-batch, all with the columns of the first.
pub struct Outgoing<W> {
    to: W,
    /// The writer, and the columns of all batches. The writer keeps its bytes until [`flush`](Self::flush).
    stream: Option<(StreamWriter<Vec<u8>>, SchemaRef)>,
}

impl<W: Write> Outgoing<W> {
    /// The writer for what `run` returns.
    pub fn rows(limits: &Limits) -> RowWriter {
        let format = OutputFormat::default_for(OutputKind::Arrow);
        RowWriter::new(limits.results.0, true, &format).with_max_row_size(limits.row)
    }

    /// A stream into `to`. Nothing is written yet.
    pub fn new(to: W) -> Self {
        Self { to, stream: None }
    }

    /// Writes the results of a mini-batch to the stream. `header` comes from its
    /// [`AttemptTally`](super::AttemptTally).
    ///
    /// # Errors
    /// If the columns differ from those of the first mini-batch.
    pub fn write_results(
        &mut self,
        rows: &RowWriter,
        header: Option<&OutputHeader>,
    ) -> Result<(), Failure> {
        let batch = result_batch(rows.segment(), header).map_err(|error| write_failure(&error))?;
        let (stream, schema) = match &mut self.stream {
            Some(begun) => begun,
            none => {
                none.insert(begin_stream(&batch.schema()).map_err(|error| write_failure(&error))?)
            }
        };
        let batch = fitted(batch, schema)?;
        stream.write(&batch).map_err(|error| write_failure(&error))
    }

    /// Writes the bytes that the stream's writer has kept so far.
    ///
    /// # Errors
    /// If the stream cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some((stream, _)) = &mut self.stream {
            let bytes = std::mem::take(stream.get_mut());
            self.to.write_all(&bytes)?;
        }
        self.to.flush()
    }

    /// Ends the stream. If there was no mini-batch, the stream has no columns.
    ///
    /// # Errors
    /// If the stream cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        let (stream, _) = match &mut self.stream {
            Some(begun) => begun,
            none => {
                none.insert(begin_stream(&Arc::new(Schema::empty())).map_err(io::Error::other)?)
            }
        };
        stream.finish().map_err(io::Error::other)?;
        self.flush()
    }
}

fn begin_stream(schema: &SchemaRef) -> Result<(StreamWriter<Vec<u8>>, SchemaRef), ArrowError> {
    Ok((StreamWriter::try_new(Vec::new(), schema)?, Arc::clone(schema)))
}

/// What a mini-batch returned, in one record batch.
fn result_batch(segment: &[u8], header: Option<&OutputHeader>) -> Result<RecordBatch, ArrowError> {
    let Some(header) = header else { return Ok(no_rows()) };
    let stream = match (&header.open_columns, &header.bytes) {
        // If some columns are all null, `open_columns` is a complete stream. A segment that has rows is then
        // also a complete stream.
        (Some(columns), _) if segment.is_empty() => columns.clone(),
        (Some(_), _) => segment.to_vec(),
        (None, bytes) => [bytes.as_deref().unwrap_or_default(), segment, &END_MARKER].concat(),
    };
    let reader = StreamReader::try_new(Cursor::new(stream), None)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([batch]) => Ok(batch),
        Err(batches) => concat_batches(&schema, &batches),
    }
}

/// An empty list of rows of text.
fn no_rows() -> RecordBatch {
    let texts = Arc::new(StringArray::from(Vec::<&str>::new())) as ArrayRef;
    let schema = Schema::new(vec![Field::new("value", DataType::Utf8, true)]);
    RecordBatch::try_new(Arc::new(schema.clone()), vec![texts])
        .unwrap_or_else(|_| RecordBatch::new_empty(Arc::new(schema)))
}

/// Converts the rows to the wanted columns. A column of the type `Null` becomes nulls of the wanted type.
fn fitted(batch: RecordBatch, wanted: &SchemaRef) -> Result<RecordBatch, Failure> {
    let given = batch.schema();
    if given.fields() == wanted.fields() {
        return Ok(batch);
    }
    let columns = given.fields().len();
    if columns != wanted.fields().len() {
        let message = format!(
            "run returned {}, and {} for the first mini-batch: return the same columns each time",
            columns_text(&given),
            columns_text(wanted)
        );
        return Err(Failure::new(FailureKind::BadResults, message));
    }
    let mut arrays = Vec::with_capacity(columns);
    for (index, (field, wanted)) in given.fields().iter().zip(wanted.fields()).enumerate() {
        let is_same = field.name() == wanted.name();
        arrays.push(if is_same && field.data_type() == wanted.data_type() {
            Arc::clone(batch.column(index))
        } else if is_same && field.data_type() == &DataType::Null {
            new_null_array(wanted.data_type(), batch.num_rows())
        } else {
            return Err(other_column(field, wanted));
        });
    }
    RecordBatch::try_new(Arc::clone(wanted), arrays).map_err(|error| write_failure(&error))
}

fn other_column(field: &Field, wanted: &Field) -> Failure {
    let hint = match wanted.data_type() {
        DataType::Null => {
            " In the first mini-batch, this column has only nulls: give it a type there, too."
        }
        _ => "",
    };
    let message = format!(
        "run returned a column {:?} of the type {}, where the first mini-batch has {:?} of the type {}: \
         return the same columns each time.{hint}",
        field.name(),
        field.data_type(),
        wanted.name(),
        wanted.data_type(),
    );
    Failure::new(FailureKind::BadResults, message)
}

fn columns_text(schema: &Schema) -> String {
    let names = schema.fields().iter().map(|field| format!("{:?}", field.name()));
    format!("the columns {}", names.collect::<Vec<_>>().join(", "))
}

fn write_failure(error: &ArrowError) -> Failure {
    Failure::new(FailureKind::HostFault, format!("what run returned cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::{LoadedMiniBatch, RowSink};
    use super::*;
    use crate::output::{MiniBatchData, ResultSink};
    use arrow::array::{Int64Array, NullArray};

    fn table(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        );
        let batch = batch.unwrap();
        let mut stream = StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
        stream.write(&batch.slice(0, 1)).unwrap();
        stream.write(&batch.slice(1, batch.num_rows() - 1)).unwrap();
        stream.into_inner().unwrap()
    }

    /// Returns the record batches written from the results of these functions.
    fn taken(returned: &[&dyn Fn(&mut RowSink<'_>)]) -> Result<Vec<RecordBatch>, Failure> {
        let mut written = Vec::new();
        let mut rows = Outgoing::<Vec<u8>>::rows(&Limits::default());
        let mut outgoing = Outgoing::new(&mut written);
        for fill in returned {
            let mut sink = RowSink::new(&mut rows, false);
            fill(&mut sink);
            let tally =
                sink.into_tally(LoadedMiniBatch::new(MiniBatchData::Table(&[]), "stdin", 2))?;
            outgoing.write_results(&rows, tally.header.as_ref())?;
            outgoing.flush().unwrap();
        }
        outgoing.finish().unwrap();
        let reader = StreamReader::try_new(Cursor::new(written), None).unwrap();
        Ok(reader.map(Result::unwrap).collect())
    }

    fn numbers(values: Vec<i64>) -> ArrayRef {
        Arc::new(Int64Array::from(values))
    }

    #[test]
    fn each_mini_batch_gives_one_record_batch() {
        let two = table(vec![("a", numbers(vec![1, 2]))]);
        let nulls = table(vec![("a", Arc::new(NullArray::new(2)) as ArrayRef)]);
        let found = taken(&[
            &|sink| sink.table(&two).unwrap(),
            &|sink| sink.table(&nulls).unwrap(),
            &|sink| (0..2).for_each(|_| sink.table(&two).unwrap()),
        ]);
        let found = found.unwrap();
        assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2, 4]);
        assert_eq!(found[1].column(0).null_count(), 2);
    }

    #[test]
    fn rows_of_text_become_one_column() {
        let found = taken(&[&|_| (), &|sink| {
            sink.row("a");
            sink.row("b\nc");
        }]);
        let found = found.unwrap();
        assert_eq!(found[0].num_rows(), 0);
        let texts = found[1].column_by_name("value").unwrap();
        assert_eq!(**texts, StringArray::from(vec!["a", "b\nc"]));
        assert_eq!(taken(&[]).unwrap(), []);
    }

    #[test]
    fn columns_that_differ_from_the_first_are_refused() {
        let first = table(vec![("a", numbers(vec![1, 2]))]);
        let nulls = table(vec![("a", Arc::new(NullArray::new(2)) as ArrayRef)]);
        let wide = table(vec![("a", numbers(vec![1, 2])), ("b", numbers(vec![1, 2]))]);
        let describe = |one: &[u8], two: &[u8]| {
            taken(&[&|sink| sink.table(one).unwrap(), &|sink| sink.table(two).unwrap()])
                .unwrap_err()
                .message
        };
        let text = taken(&[&|sink| sink.table(&first).unwrap(), &|sink| sink.row("x")]);
        let texts = [describe(&first, &wide), describe(&nulls, &first), text.unwrap_err().message];
        insta::assert_snapshot!(texts.join("\n"), @r#"
        run returned the columns "a", "b", and the columns "a" for the first mini-batch: return the same columns each time
        run returned a column "a" of the type Int64, where the first mini-batch has "a" of the type Null: return the same columns each time. In the first mini-batch, this column has only nulls: give it a type there, too.
        run returned a column "value" of the type Utf8, where the first mini-batch has "a" of the type Int64: return the same columns each time.
        "#);
    }
}
