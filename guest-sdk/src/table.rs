//! Decodes Arrow IPC streams into tables, and encodes tables as streams.

// The component and the tests use these; a native library build has no stream to decode.
#![cfg_attr(
    not(any(test, target_arch = "wasm32")),
    expect(dead_code, reason = "only a component reads and writes streams")
)]

use crate::{Context, Result};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;

/// Decodes a stream. Does not copy a stream of one batch: the arrays refer to `bytes`.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<RecordBatch> {
    let mut decoder = StreamDecoder::new();
    let mut stream = bytes.into();
    let mut batches = Vec::with_capacity(1);
    while let Some(batch) = decoder.decode(&mut stream).context("decode the mini-batch's table")? {
        batches.push(batch);
    }
    decoder.finish().context("decode the mini-batch's table")?;
    if batches.len() == 1
        && let Some(batch) = batches.pop()
    {
        return Ok(batch);
    }
    let schema = decoder.schema().context("the mini-batch's table has no schema")?;
    arrow_select::concat::concat_batches(&schema, &batches)
        .context("join the batches of the mini-batch's table")
}

/// Encodes a table as a stream.
pub(crate) fn encode(table: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer =
        StreamWriter::try_new(Vec::with_capacity(estimated_size(table)), &table.schema())
            .context("encode the result table")?;
    writer.write(table).context("encode the result table")?;
    writer.into_inner().context("encode the result table")
}

/// Estimates the stream's size in bytes, so that the buffer does not grow: growing copies the bytes.
fn estimated_size(table: &RecordBatch) -> usize {
    let fixed = 1024;
    // 256 bytes for the column's name, its metadata, and the padding of up to three buffers.
    let column =
        |array: &dyn Array| 256 + array.to_data().get_slice_memory_size().unwrap_or_default();
    fixed + table.columns().iter().map(|array| column(array.as_ref())).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    fn table(rows: i64) -> RecordBatch {
        let id: ArrayRef = Arc::new((0..rows).collect::<Int64Array>());
        let name: ArrayRef =
            Arc::new((0..rows).map(|i| Some(format!("row {i}"))).collect::<StringArray>());
        RecordBatch::try_from_iter([("id", id), ("name", name)]).unwrap()
    }

    #[test]
    fn a_table_survives_a_round_trip() {
        for rows in [0, 1, 1000] {
            assert_eq!(decode(encode(&table(rows)).unwrap()).unwrap(), table(rows));
        }
    }

    #[test]
    fn the_guessed_size_is_enough() {
        for table in [table(0), table(5000).slice(7, 4000)] {
            let guess = estimated_size(&table);
            let encoded = encode(&table).unwrap().len();
            assert!(encoded <= guess && guess <= 2 * encoded + 2048, "{encoded} of {guess}");
        }
    }

    #[test]
    fn several_batches_become_one() {
        let whole = table(10);
        let mut writer = StreamWriter::try_new(Vec::new(), &whole.schema()).unwrap();
        writer.write(&whole.slice(0, 4)).unwrap();
        writer.write(&whole.slice(4, 6)).unwrap();
        assert_eq!(decode(writer.into_inner().unwrap()).unwrap(), whole);
    }

    #[test]
    fn a_stream_without_batches_is_an_empty_table() {
        let whole = table(0);
        let mut writer = StreamWriter::try_new(Vec::new(), &whole.schema()).unwrap();
        writer.finish().unwrap();
        assert_eq!(decode(writer.into_inner().unwrap()).unwrap(), whole);
    }

    #[test]
    fn broken_streams_are_errors() {
        assert!(decode(Vec::new()).is_err());
        assert!(decode(b"no arrow at all".to_vec()).is_err());
        let mut cut = encode(&table(100)).unwrap();
        cut.truncate(cut.len() / 2);
        assert!(decode(cut).is_err());
    }
}
