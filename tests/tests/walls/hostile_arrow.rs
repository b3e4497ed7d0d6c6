//! Guests that return invalid tables, or tables that become far larger as text.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use arrow::array::{
    ArrayRef, DictionaryArray, Int8Array, Int32Array, Int64Array, ListArray, NullArray,
    RecordBatch, RunArray, StringArray, UnionArray, new_empty_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Field, Int8Type, UnionFields};
use arrow::ipc::root_as_message;
use arrow::ipc::writer::StreamWriter;
use sandmill_tests::{Fate, TestJob, guest, play_with, python};
use std::process::Command;
use std::sync::Arc;

/// An Arrow stream with one column.
fn stream(column: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("column", column)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn texts() -> Vec<u8> {
    stream(Arc::new(StringArray::from(vec!["aaa", "bbb", "ccc"])))
}

/// Replaces the only occurrence of the bytes `old` with `new`.
fn replace_only(mut stream: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    let starts: Vec<usize> =
        (0..stream.len()).filter(|start| stream[*start..].starts_with(old)).collect();
    assert_eq!(starts.len(), 1, "{old:?} does not occur exactly once");
    stream[starts[0]..starts[0] + new.len()].copy_from_slice(new);
    stream
}

/// The bytes of numbers in a buffer of 32-bit integers.
fn le_bytes(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A stream of three texts, with these offsets instead of the right offsets.
fn with_offsets(new: [i32; 4]) -> Vec<u8> {
    replace_only(texts(), &le_bytes(&[0, 3, 6, 9]), &le_bytes(&new))
}

/// The continuation marker, with which each message begins. The length of the message follows.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The messages of a stream, each with its body. The last one is the end-of-stream mark.
fn messages(stream: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    let mut rest = stream;
    while let Some((head, length)) = rest.get(..8).map(|head| head.split_at(4)) {
        assert_eq!(head, CONTINUATION);
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let body = match length {
            0 => 0,
            _ => {
                let message = root_as_message(&rest[8..8 + length]).unwrap();
                usize::try_from(message.bodyLength()).unwrap()
            }
        };
        let (message, after) = rest.split_at(8 + length + body);
        messages.push(message);
        rest = after;
    }
    messages
}

/// A dictionary with a text of this many bytes, and this many rows that all refer to that text.
fn dictionary(bytes: usize, rows: usize) -> Vec<u8> {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["short".to_owned(), "v".repeat(bytes)]));
    let keys = Int8Array::from(vec![1; rows]);
    stream(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).unwrap()))
}

/// A dictionary column whose keys point far outside the dictionary.
fn wild_keys() -> Vec<u8> {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["aa", "bb", "cc", "dd"]));
    let keys = Int32Array::from(vec![3, 1, 2]);
    let stream = stream(Arc::new(DictionaryArray::try_new(keys, values).unwrap()));
    replace_only(stream, &le_bytes(&[3, 1, 2]), &le_bytes(&[i32::MAX, -5, 4]))
}

/// An empty column of lists, nested this deep.
fn nested(depth: usize) -> Vec<u8> {
    let inside = (0..depth).fold(DataType::Int32, |inside, _| {
        DataType::List(Arc::new(Field::new("item", inside, true)))
    });
    stream(new_empty_array(&inside))
}

/// A list column whose offsets point outside its values.
fn wild_list() -> Vec<u8> {
    let list = ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>([
        Some(vec![Some(11), Some(12), Some(13)]),
        Some(vec![Some(14), Some(15)]),
    ]);
    replace_only(stream(Arc::new(list)), &le_bytes(&[0, 3, 5]), &le_bytes(&[0, 3, i32::MAX]))
}

/// A union column with type ids that the union does not have.
fn wild_union() -> Vec<u8> {
    let numbers = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let texts = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let fields = UnionFields::try_new(
        [71, 72],
        [Field::new("number", DataType::Int32, true), Field::new("text", DataType::Utf8, true)],
    )
    .unwrap();
    let type_ids = ScalarBuffer::from(vec![71_i8, 72, 71]);
    let union = UnionArray::try_new(fields, type_ids, None, vec![numbers, texts]).unwrap();
    replace_only(stream(Arc::new(union)), &[71, 72, 71], &[99, 99, 99])
}

/// The invalid or far too large table that the guest returns for this act.
fn table(act: &str) -> Vec<u8> {
    let cut = |mut stream: Vec<u8>, length: usize| {
        stream.truncate(length);
        stream
    };
    let keyed = || dictionary(10, 3);
    match act {
        "nothing" => Vec::new(),
        "noise" => {
            (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
        }
        "cut-in-schema" => cut(texts(), 40),
        "cut-in-rows" => cut(texts(), texts().len() - 40),
        "no-end" => cut(texts(), texts().len() - 8),
        "negative-length" => {
            replace_only(texts(), &texts()[..8], &[0xff, 0xff, 0xff, 0xff, 0xfb, 0xff, 0xff, 0xff])
        }
        "offsets-outside" => with_offsets([0, 3, 6, i32::MAX]),
        "offsets-negative" => with_offsets([0, -3, 6, 9]),
        "offsets-falling" => with_offsets([0, 9, 3, 6]),
        "no-utf-8" => replace_only(texts(), b"aaabbbccc", &[0xff; 9]),
        "split-character" => replace_only(texts(), b"aaabbbccc", "aa\u{e4}bbccc".as_bytes()),
        "rows-without-schema" => messages(&texts())[1..].concat(),
        "schema-twice" => [messages(&texts())[0], &texts()].concat(),
        "dictionary-missing" => [messages(&keyed())[0], messages(&keyed())[2]].concat(),
        "dictionary-bomb" => dictionary(1 << 20, 100_000),
        "dictionary-keys" => wild_keys(),
        "nulls-bomb" => stream(Arc::new(NullArray::new(1 << 40))),
        "runs-bomb" => {
            let ends = Int64Array::from(vec![1 << 40]);
            let values = StringArray::from(vec!["again and again"]);
            stream(Arc::new(RunArray::try_new(&ends, &values).unwrap()))
        }
        "nested" => nested(200),
        "list-offsets" => wild_list(),
        "union-kinds" => wild_union(),
        other => panic!("{other}: there is no such act"),
    }
}

fn acts() -> [(&'static str, Fate); 21] {
    let invalid = || Fate::Fails("run returned a table that is not a valid Arrow IPC stream: ");
    let large = || Fate::Fails("limits.results allows");
    [
        ("nothing", invalid()),
        ("noise", invalid()),
        ("cut-in-schema", invalid()),
        ("cut-in-rows", invalid()),
        ("no-end", invalid()),
        ("negative-length", invalid()),
        ("offsets-outside", invalid()),
        ("offsets-negative", invalid()),
        ("offsets-falling", invalid()),
        ("no-utf-8", invalid()),
        ("split-character", invalid()),
        ("rows-without-schema", invalid()),
        ("schema-twice", invalid()),
        ("dictionary-missing", invalid()),
        ("dictionary-bomb", large()),
        ("dictionary-keys", invalid()),
        ("nulls-bomb", large()),
        ("runs-bomb", large()),
        ("nested", invalid()),
        ("list-offsets", invalid()),
        ("union-kinds", invalid()),
    ]
}

const SETTINGS: &str = "limits: {results: 16 MB}\nprocess_count_per_node: 1";

#[test]
fn invalid_or_far_too_large_tables() {
    let guest = guest("hostile_returns_file");
    play_with(&guest, SETTINGS, &acts(), |_, name| name.to_owned(), table);
}

/// Also in jobs with Parquet or Arrow as output, each act fails only its own mini-batch. The output
/// remains readable.
#[test]
fn invalid_tables_in_typed_outputs() {
    for (kind, read) in [("parquet", "pq.read_table"), ("arrow", "feather.read_table")] {
        let mut job = TestJob::new(&guest("hostile_returns_file"))
            .yaml("inputs: {texts: in}\nmini_batch_size: 1\nrun_max_try: 1\nerror_threshold: -1")
            .yaml(SETTINGS)
            .yaml(&format!("output_format: {{type: {kind}}}"));
        for (index, (act, _)) in acts().iter().enumerate() {
            job = job.file(&format!("in/{index:03}-0-good.txt"), "");
            job = job.file(&format!("in/{index:03}-1-{act}.txt"), table(act));
        }
        let ran = job.run(&[]);
        ran.exits_with(0);
        let reasons = ran.reasons();
        for (index, (act, fate)) in acts().iter().enumerate() {
            let Fate::Fails(words) = fate else { continue };
            let reason = reasons.get(&(2 * index + 1)).map(String::as_str).unwrap_or_default();
            assert!(reason.contains(words), "{act} as {kind}: {reason:?}\n{ran}");
        }
        assert_eq!(reasons.len(), acts().len(), "{ran}");
        let code = format!(
            "import sys, pyarrow.parquet as pq, pyarrow.feather as feather\n\
             print(len(set({read}(sys.argv[1])['value'].to_pylist())))"
        );
        let path = ran.dir().join(format!("job/output/parallel_run_step.{kind}"));
        let output = Command::new(python()).arg("-c").arg(code).arg(path).output().unwrap();
        let count = String::from_utf8_lossy(&output.stdout);
        assert_eq!(count.trim(), acts().len().to_string(), "{output:?}\n{ran}");
    }
}
