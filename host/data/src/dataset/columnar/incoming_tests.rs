use super::*;
use arrow::array::{DictionaryArray, Int64Array, StringArray};
use arrow::datatypes::Int32Type;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::io::Cursor;
use std::sync::Arc;

fn batch(first: i64, rows: i64) -> RecordBatch {
    let numbers: Int64Array = (first..first + rows).collect();
    let names: Vec<String> =
        (first..first + rows).map(|number| format!("n{}", number % 3)).collect();
    let names: DictionaryArray<Int32Type> = names.iter().map(String::as_str).collect();
    let texts: StringArray = (0..rows).map(|row| Some("x".repeat(row as usize % 7))).collect();
    RecordBatch::try_from_iter([
        ("number", Arc::new(numbers) as _),
        ("name", Arc::new(names) as _),
        ("text", Arc::new(texts) as _),
    ])
    .unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, batch(0, 0).schema_ref()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    bytes
}

/// The rows of each mini-batch. Each has at most `max_rows` rows. If that is 0, each is a whole record batch.
fn mini_batches(bytes: &[u8], max_rows: u64) -> Result<Vec<RecordBatch>, String> {
    let mut incoming = StreamBatches::new(bytes, NonZeroU64::new(max_rows));
    let mut found = Vec::new();
    let mut first = 0;
    loop {
        let rows = match incoming.next_rows() {
            Ok(Some(rows)) => rows,
            Ok(None) => return Ok(found),
            Err(error) => return Err(error.to_string()),
        };
        assert_eq!(rows.first, first);
        first += rows.count;
        let reader = StreamReader::try_new(Cursor::new(rows.table.to_vec()), None).unwrap();
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].num_rows() as u64, rows.count);
        found.extend(batches);
    }
}

#[test]
fn each_record_batch_is_a_mini_batch() {
    let batches = [batch(0, 5), batch(5, 0), batch(5, 2)];
    let found = mini_batches(&stream(&batches), 0).unwrap();
    assert_eq!(found, [batch(0, 5), batch(5, 2)]);
    assert_eq!(mini_batches(&stream(&[]), 0).unwrap(), [] as [RecordBatch; 0]);
}

#[test]
fn record_batches_are_cut() {
    let found = mini_batches(&stream(&[batch(0, 5), batch(5, 2)]), 2).unwrap();
    let rows: Vec<_> = found.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [2, 2, 1, 2]);
    let numbers = found.iter().flat_map(|batch| {
        let numbers = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        numbers.values().to_vec()
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn data_that_is_not_a_stream_is_refused() {
    let whole = stream(&[batch(0, 5)]);
    let describe = |bytes: &[u8]| mini_batches(bytes, 0).unwrap_err();
    let mut twice = whole[..whole.len() - 8].to_vec();
    twice.extend(&whole);
    let texts = [
        describe(b""),
        describe(b"id,name\n1,a\n"),
        describe(b"ARROW1\0\0abc"),
        describe(b"PAR1abc"),
        describe(&[0xff; 4]),
        describe(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        describe(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x7f, 1]),
        describe(&whole[..whole.len() - 8]),
        describe(&whole[..whole.len() - 30]),
        describe(&twice),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    is empty: an Arrow IPC stream has at least a schema
    is not an Arrow IPC stream: it begins with "id,n"; write it with pyarrow.ipc.new_stream
    is not an Arrow IPC stream: it is an Arrow file, and not a stream: write it with pyarrow.ipc.new_stream
    is not an Arrow IPC stream: it is a Parquet file: read it, and write its rows with pyarrow.ipc.new_stream
    is cut off after 0 rows: it ends without an end-of-stream mark, which a program writes when it closes the stream
    is not an Arrow IPC stream: it has no schema
    is broken: the metadata of a message claims 2130706432 bytes
    is cut off after 5 rows: it ends without an end-of-stream mark, which a program writes when it closes the stream
    is cut off after 0 rows: it ends without an end-of-stream mark, which a program writes when it closes the stream
    is broken: it has two schemas
    "#);
}

/// A broken byte causes an error at worst, and no panic.
#[test]
fn broken_bytes_are_errors() {
    let whole = stream(&[batch(0, 5), batch(5, 2)]);
    for at in 0..whole.len() {
        for value in [0, 0x7f, 0xff] {
            let mut broken = whole.clone();
            broken[at] = value;
            let mut incoming = StreamBatches::new(broken.as_slice(), NonZeroU64::new(3));
            while let Ok(Some(rows)) = incoming.next_rows() {
                assert!(rows.count > 0);
            }
        }
        assert!(mini_batches(&whole[..at], 0).is_err(), "cut after {at} bytes");
    }
}
