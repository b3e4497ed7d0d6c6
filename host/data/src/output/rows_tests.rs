//! Tests of [`RowWriter`] in all output formats.

use super::*;
use crate::model::Quoting;
use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type};
use arrow::ipc::writer::StreamWriter;
use proptest::prelude::*;
use std::sync::Arc;

fn ipc(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    bytes
}

fn text_writer(limit: u64, keep: bool) -> RowWriter {
    RowWriter::new(limit, keep, &OutputFormat::default())
}

fn lines(ipc: &[u8]) -> String {
    let mut writer = text_writer(1 << 20, true);
    writer.table(ipc).unwrap();
    let text = String::from_utf8(writer.lines().to_vec()).unwrap();
    assert_eq!(text.is_empty(), writer.rows() == 0);
    text
}

/// Rule O1 in docs/parallel-run-step.md.
#[test]
fn text_rows_become_lines() {
    let mut writer = text_writer(100, true);
    for row in ["a b", "", "\"quoted\"", "ends\n", "ends too\r\n"] {
        writer.row(row);
    }
    assert_eq!(writer.lines(), b"a b\n\n\"quoted\"\nends\nends too\n");
    assert_eq!((writer.rows(), writer.problem()), (5, None));
    writer.row("one\ntwo");
    insta::assert_snapshot!(writer.problem().unwrap(), @"row 5 (counted from 0) of the results holds a line break, but a row is one line of the output: replace the line break, or return a table, whose fields may hold one");
    writer.clear();
    assert_eq!((writer.lines(), writer.rows()), (&b""[..], 0));
    writer.row(&"x".repeat(100));
    insta::assert_snapshot!(writer.problem().unwrap(), @"the returned rows make more text than limits.results allows (100 bytes): return less, or use smaller mini-batches, or raise the limit");
}

#[test]
fn a_row_of_a_table_has_a_limit() {
    let bytes = ipc(vec![("text", Arc::new(StringArray::from(vec!["short", "rather long"])))]);
    for (kind, fits) in [(OutputKind::Text, 14), (OutputKind::Csv, 12), (OutputKind::Jsonl, 23)] {
        let writer = |limit| {
            RowWriter::new(1000, true, &OutputFormat::default_for(kind))
                .with_max_row_size(ByteSize(limit))
        };
        let failure = writer(11).table(&bytes).unwrap_err();
        assert_eq!(failure.kind, FailureKind::OverLimit);
        assert!(failure.message.starts_with("limits.row allows 11 bytes for one row; row "));
        assert_eq!(writer(fits).table(&bytes), Ok(()), "{kind:?}");
    }
}

/// Rule O2 in docs/parallel-run-step.md.
#[test]
fn table_rows_become_lines_with_spaces() {
    let mut categories = StringDictionaryBuilder::<Int32Type>::new();
    categories.append_value("red hot");
    categories.append_null();
    categories.append_value("blue");
    let bytes = ipc(vec![
        ("id", Arc::new(Int64Array::from(vec![Some(-1), None, Some(3)]))),
        ("f", Arc::new(Float64Array::from(vec![1.0, 0.1, 1e-5]))),
        ("g", Arc::new(Float32Array::from(vec![Some(0.1), None, Some(1e20)]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("s", Arc::new(StringArray::from(vec!["plain", "with \"quote\"", "two\nlines"]))),
        ("d", Arc::new(Date32Array::from(vec![0, 1, 20_000]))),
        ("t", Arc::new(TimestampMicrosecondArray::from(vec![0, 1_500_000, -1]))),
        ("c", Arc::new(categories.finish())),
        ("u", Arc::new(UInt8Array::from(vec![0, 7, 255]))),
    ]);
    insta::assert_snapshot!(lines(&bytes), @r#"
    -1 1.0 0.1 True plain 1970-01-01 1970-01-01T00:00:00 "red hot" 0
     0.1  False "with ""quote""" 1970-01-02 1970-01-01T00:00:01.500  7
    3 1e-05 1e+20  "two
    lines" 2024-10-04 1969-12-31T23:59:59.999999 blue 255
    "#);
    let nulls = ipc(vec![("a", Arc::new(StringArray::from(vec![None, Some(""), Some("x")])))]);
    assert_eq!(lines(&nulls), "\"\"\n\"\"\nx\n");
    let none = ipc(vec![("a", Arc::new(Int64Array::from(Vec::<i64>::new())))]);
    assert_eq!(lines(&none), "");
}

#[test]
fn dropped_rows_are_counted() {
    let mut writer = text_writer(1 << 20, false);
    writer.row("a");
    writer.table(&ipc(vec![("a", Arc::new(Int64Array::from(vec![1, 2])))])).unwrap();
    assert_eq!((writer.rows(), writer.lines()), (3, &b""[..]));
}

#[test]
fn invalid_tables_are_refused() {
    let whole = ipc(vec![("a", Arc::new(Int64Array::from(vec![1, 2])))]);
    let error = |bytes: &[u8]| text_writer(1 << 20, true).table(bytes).unwrap_err().message;
    insta::assert_snapshot!(error(b""), @"run returned a table that is not a valid Arrow IPC stream: it holds no schema (it has 0 bytes)");
    insta::assert_snapshot!(error(&whole[..whole.len() - 12]), @"run returned a table that is not a valid Arrow IPC stream: it ends without an end-of-stream mark (it has 380 bytes)");
    let huge = ipc(vec![("n", Arc::new(NullArray::new(2 << 20)))]);
    insta::assert_snapshot!(error(&huge), @"the returned rows make more text than limits.results allows (1 MB): return less, or use smaller mini-batches, or raise the limit");
    assert!(error(b"a,b\n1,2\n").starts_with("run returned a table that is not a valid Arrow"));
}

fn table() -> Vec<u8> {
    ipc(vec![
        ("id", Arc::new(Int64Array::from(vec![Some(1), None]))),
        ("two words", Arc::new(StringArray::from(vec![Some("a, b"), Some("say \"hi\"")]))),
        ("f", Arc::new(Float64Array::from(vec![Some(0.5), None]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false)]))),
    ])
}

/// Header and lines of a table in a format.
fn formatted(ipc: &[u8], format: &OutputFormat) -> String {
    let mut writer = RowWriter::new(1 << 20, true, format);
    if let Err(failure) = writer.table(ipc) {
        assert_eq!(failure.kind, FailureKind::BadResults);
        return failure.message;
    }
    let header = writer.take_header().map(|header| header.text + "\n").unwrap_or_default();
    header + std::str::from_utf8(writer.lines()).unwrap()
}

fn csv(change: impl FnOnce(&mut OutputFormat)) -> OutputFormat {
    let mut format = OutputFormat::default_for(OutputKind::Csv);
    change(&mut format);
    format
}

/// Rule O2: as `DataFrame.to_csv(sep=" ", header=False, index=False)`. Rule O3: as `to_csv(index=False)`.
/// Rules A9 and A11: as `to_csv` with other keywords.
#[test]
fn tables_are_written_as_pandas_does() {
    let table = table();
    insta::assert_snapshot!(formatted(&table, &OutputFormat::default()), @r#"
    1 "a, b" 0.5 True
     "say ""hi"""  False
    "#);
    insta::assert_snapshot!(formatted(&table, &csv(|_| ())), @r#"
    id,two words,f,b
    1,"a, b",0.5,True
    ,"say ""hi""",,False
    "#);
    let all = csv(|format| (format.quoting, format.index) = (Quoting::All, true));
    insta::assert_snapshot!(formatted(&table, &all), @r#"
    "","id","two words","f","b"
    "0","1","a, b","0.5","True"
    "1","","say ""hi""","","False"
    "#);
    let nonnumeric = csv(|format| {
        format.quoting = Quoting::Nonnumeric;
        format.null = "NA".to_owned();
        format.delimiter = b';';
    });
    insta::assert_snapshot!(formatted(&table, &nonnumeric), @r#"
    "id";"two words";"f";"b"
    1;"a, b";0.5;True
    "NA";"say ""hi""";"NA";False
    "#);
    let mut spaced = OutputFormat::default();
    (spaced.header, spaced.index, spaced.null) = (true, true, "no value".to_owned());
    insta::assert_snapshot!(formatted(&table, &spaced), @r#"
     id "two words" f b
    0 1 "a, b" 0.5 True
    1 "no value" "say ""hi""" "no value" False
    "#);
    // A delimiter that occurs in numbers.
    let dotted = csv(|format| (format.delimiter, format.header) = (b'.', false));
    insta::assert_snapshot!(formatted(&table, &dotted), @r#"
    1.a, b."0.5".True
    ."say ""hi"""..False
    "#);
}

#[test]
fn fields_that_need_quotes_fail_without_quoting() {
    let none = csv(|format| format.quoting = Quoting::None);
    insta::assert_snapshot!(formatted(&table(), &none), @r#"row 0 (counted from 0), column "two words", of the results cannot be written without quotes, and output_format.quoting is none: choose another quoting or delimiter, or another value"#);
    let piped = csv(|format| (format.quoting, format.delimiter) = (Quoting::None, b'|'));
    insta::assert_snapshot!(formatted(&table(), &piped), @r#"row 1 (counted from 0), column "two words", of the results cannot be written without quotes, and output_format.quoting is none: choose another quoting or delimiter, or another value"#);
    let spaced = csv(|format| (format.quoting, format.delimiter) = (Quoting::None, b' '));
    insta::assert_snapshot!(formatted(&table(), &spaced), @r#"row 0 (counted from 0), column "two words", of the results cannot be written without quotes, and output_format.quoting is none: choose another quoting or delimiter, or another value"#);
    let empty = ipc(vec![("a", Arc::new(StringArray::from(vec!["x", ""])))]);
    insta::assert_snapshot!(formatted(&empty, &none), @r#"row 1 (counted from 0), column "a", of the results cannot be written without quotes, and output_format.quoting is none: choose another quoting or delimiter, or another value"#);
    let mut writer = RowWriter::new(1000, true, &none);
    writer.row("plain");
    assert_eq!(writer.lines(), b"plain\n");
    writer.row("a,b");
    insta::assert_snapshot!(writer.problem().unwrap(), @"row 1 (counted from 0) of the results cannot be written without quotes, and output_format.quoting is none: choose another quoting or delimiter, or another value");
}

#[test]
fn rows_of_text_take_the_format_of_the_file() {
    let written = |kind, rows: &[&str]| {
        let mut writer = RowWriter::new(1000, true, &OutputFormat::default_for(kind));
        rows.iter().for_each(|row| writer.row(row));
        assert_eq!((writer.problem(), writer.take_header()), (None, None));
        String::from_utf8(writer.lines().to_vec()).unwrap()
    };
    let rows = ["a b", "a,b", "say \"hi\"", "", " {\"a\": 1}\n", "[1, 2]", "{a}", "12", "null"];
    // O1: the rows are unchanged, quotes and all.
    assert_eq!(written(OutputKind::Text, &rows[..4]), "a b\na,b\nsay \"hi\"\n\n");
    assert_eq!(written(OutputKind::Csv, &rows[..4]), "a b\n\"a,b\"\n\"say \"\"hi\"\"\"\n\"\"\n");
    insta::assert_snapshot!(written(OutputKind::Jsonl, &rows), @r#"
    "a b"
    "a,b"
    "say \"hi\""
    ""
     {"a": 1}
    [1, 2]
    "{a}"
    "12"
    "null"
    "#);
}

/// `[1.0, null]` and `[]`.
fn lists() -> ArrayRef {
    Arc::new(ListArray::new(
        Arc::new(Field::new_list_field(DataType::Float64, true)),
        OffsetBuffer::from_lengths([2, 0]),
        Arc::new(Float64Array::from(vec![Some(1.0), None])),
        None,
    ))
}

/// Rule O6: values that do not fit into a cell are written as JSON, in quotes if needed.
#[test]
fn nested_values_become_json_text() {
    insta::assert_snapshot!(lines(&ipc(vec![("l", lists())])), @"
    [1.0,null]
    []
    ");
}

/// Rule O6: in JSON lines, nested values keep their structure.
#[test]
fn tables_as_json_lines() {
    let fields = vec![
        (
            Arc::new(Field::new("x", DataType::Int64, true)),
            Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("y", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec![Some("\u{1}\t\u{e9}"), None])) as ArrayRef,
        ),
    ];
    let table = ipc(vec![
        ("a \"b\"", Arc::new(Float64Array::from(vec![f64::NAN, 1e-5]))),
        ("inf", Arc::new(Float32Array::from(vec![f32::NEG_INFINITY, 1e20]))),
        ("ok", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("t", Arc::new(TimestampSecondArray::from(vec![0, 1]))),
        ("l", lists()),
        ("s", Arc::new(StructArray::from(fields))),
        ("n", Arc::new(NullArray::new(2))),
    ]);
    let format = OutputFormat::default_for(OutputKind::Jsonl);
    let text = formatted(&table, &format);
    insta::assert_snapshot!(text, @r#"
    {"a \"b\"":null,"inf":null,"ok":true,"t":"1970-01-01T00:00:00","l":[1.0,null],"s":{"x":1,"y":"\u0001\té"},"n":null}
    {"a \"b\"":1e-05,"inf":1e+20,"ok":null,"t":"1970-01-01T00:00:01","l":[],"s":{"x":2,"y":null},"n":null}
    "#);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let column = || -> ArrayRef { Arc::new(Int64Array::from(vec![7])) };
    let twice = ipc(vec![("a", column()), ("b", column()), ("a", column())]);
    insta::assert_snapshot!(formatted(&twice, &format), @r#"two columns of the returned table are called "a", and output_format.type is jsonl, where a row is an object: give them different names"#);
    let mut writer = RowWriter::new(20, true, &format);
    assert!(writer.table(&table).unwrap_err().message.contains("limits.results"));
}

/// Values are written alike, whether or not they are dictionary-encoded.
#[test]
fn dictionaries_are_written_as_their_values() {
    let keys = Int32Array::from(vec![Some(1), Some(0), None, Some(2)]);
    let coded = |values: ArrayRef| -> ArrayRef {
        Arc::new(DictionaryArray::<Int32Type>::new(keys.clone(), values))
    };
    let floats = coded(Arc::new(Float64Array::from(vec![Some(1e-5), Some(2.0), None])));
    let flags = coded(Arc::new(BooleanArray::from(vec![true, false, true])));
    let table = ipc(vec![("f", floats), ("b", flags)]);
    assert_eq!(formatted(&table, &csv(|_| ())), "f,b\n2.0,False\n1e-05,True\n,\n,True\n");
    let empty = DictionaryArray::<Int32Type>::new(
        Int32Array::from(vec![None::<i32>; 2]),
        Arc::new(arrow::array::PrimitiveArray::<Float64Type>::from(Vec::<f64>::new())),
    );
    assert_eq!(lines(&ipc(vec![("e", Arc::new(empty))])), "\"\"\n\"\"\n");
}

/// Two rows of maps: from texts to numbers, and from numbers to texts.
fn maps() -> [ArrayRef; 2] {
    let mut named = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    let mut numbered = MapBuilder::new(None, Int64Builder::new(), StringBuilder::new());
    for (key, value) in [("a \"b\"", Some(1)), ("c", None)] {
        named.keys().append_value(key);
        named.values().append_option(value);
        numbered.keys().append_value(key.len() as i64);
        numbered.values().append_option(value.map(|_| key));
    }
    named.append(true).unwrap();
    named.append(true).unwrap();
    numbered.append(true).unwrap();
    numbered.append(false).unwrap();
    [Arc::new(named.finish()), Arc::new(numbered.finish())]
}

/// Maps become arrays of pairs, as in pyarrow's `to_pylist`. If all keys are texts, they become objects.
#[test]
fn maps_lists_and_structures_are_json_in_a_field_too() {
    let [named, numbered] = maps();
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([
        Some(vec![Some(0.5), None]),
        Some(vec![Some(f64::NAN)]),
    ]));
    let field = Arc::new(Field::new("x", DataType::Int64, true));
    let pair = StructArray::from(vec![(field, Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef)]);
    let table =
        ipc(vec![("m", named), ("n", numbered), ("l", lists), ("s", Arc::new(pair) as ArrayRef)]);
    insta::assert_snapshot!(formatted(&table, &OutputFormat::default_for(OutputKind::Jsonl)), @r#"
    {"m":{"a \"b\"":1,"c":null},"n":[[5,"a \"b\""],[1,null]],"l":[0.5,null],"s":{"x":7}}
    {"m":{},"n":null,"l":[null],"s":{"x":8}}
    "#);
    insta::assert_snapshot!(formatted(&table, &csv(|_| ())), @r#"
    m,n,l,s
    "{""a \""b\"""":1,""c"":null}","[[5,""a \""b\""""],[1,null]]","[0.5,null]","{""x"":7}"
    {},,[null],"{""x"":8}"
    "#);
    insta::assert_snapshot!(lines(&table), @r#"
    "{""a \""b\"""":1,""c"":null}" "[[5,""a \""b\""""],[1,null]]" [0.5,null] "{""x"":7}"
    {}  [null] "{""x"":8}"
    "#);
    let mut writer = RowWriter::new(20, true, &csv(|_| ()));
    assert!(writer.table(&table).unwrap_err().message.contains("limits.results"));
}

/// A list of one row that refers to a long text many times.
#[test]
fn writing_a_huge_value_stops_at_the_limit() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["v".repeat(1 << 20)]));
    let keys = Int32Array::from(vec![0; 100_000]);
    let coded: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, values));
    let item = Arc::new(Field::new("item", coded.data_type().clone(), true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([coded.len()]);
    let list: ArrayRef = Arc::new(ListArray::new(item, offsets, coded, None));
    let table = ipc(vec![("l", list)]);
    for kind in [OutputKind::Csv, OutputKind::Jsonl, OutputKind::Text] {
        let mut writer = RowWriter::new(4 << 20, true, &OutputFormat::default_for(kind));
        let reported = writer.table(&table).unwrap_err().message;
        assert!(reported.contains("limits.results"), "{reported}");
        assert!(writer.lines().len() < 16 << 20);
    }
}

#[test]
fn values_without_a_text_form_are_reported() {
    let far: ArrayRef = Arc::new(Time32SecondArray::from(vec![0, 86_400]));
    let near: ArrayRef = Arc::new(Time32SecondArray::from(vec![0, 1]));
    let table = ipc(vec![("near", Arc::clone(&near)), ("far", Arc::clone(&far))]);
    insta::assert_snapshot!(formatted(&table, &csv(|_| ())), @r#"the returned table cannot be written as csv: in row 1 (counted from 0), column "far", of the type Time32(s), has no text (86400 s is not a time of day). Return another value or type, or set output_format.type to parquet or arrow"#);
    insta::assert_snapshot!(formatted(&table, &OutputFormat::default_for(OutputKind::Jsonl)), @r#"the returned table cannot be written as jsonl: in row 1 (counted from 0), column "far", of the type Time32(s), has no text (86400 s is not a time of day). Return another value or type, or set output_format.type to parquet or arrow"#);
    let field = Arc::new(Field::new("x", far.data_type().clone(), true));
    let inside: ArrayRef = Arc::new(StructArray::from(vec![(field, far)]));
    let table = ipc(vec![("near", near), ("s", inside)]);
    insta::assert_snapshot!(formatted(&table, &OutputFormat::default()), @r#"the returned table cannot be written as text: in row 1 (counted from 0), column "s", of the type Struct("x": Time32(s)), has no text (86400 s is not a time of day). Return another value or type, or set output_format.type to parquet or arrow"#);
    let zone = TimestampSecondArray::from(vec![0]).with_timezone("+25:00");
    insta::assert_snapshot!(formatted(&ipc(vec![("t", Arc::new(zone))]), &csv(|_| ())), @r#"the returned table cannot be written as csv: in row 0 (counted from 0), column "t", of the type Timestamp(s, "+25:00"), has no text ("+25:00" is not a time zone: write it as +01:00 or by its name). Return another value or type, or set output_format.type to parquet or arrow"#);
}

/// Numbers that JSON lacks become null at any depth, and are counted.
#[test]
fn numbers_that_json_cannot_represent_are_counted() {
    let floats = || Float64Array::from(vec![f64::NAN, 0.5, f64::NEG_INFINITY]);
    let item = Arc::new(Field::new_list_field(DataType::Float64, true));
    let lists =
        ListArray::new(item, OffsetBuffer::from_lengths([2, 0, 1]), Arc::new(floats()), None);
    let table = ipc(vec![("f", Arc::new(floats())), ("l", Arc::new(lists))]);
    for (kind, count) in [(OutputKind::Jsonl, 4), (OutputKind::Csv, 2), (OutputKind::Arrow, 0)] {
        let mut writer = RowWriter::new(1 << 20, true, &OutputFormat::default_for(kind));
        writer.table(&table).unwrap();
        assert_eq!(writer.lost(), count, "{kind:?}");
        writer.clear();
        assert_eq!(writer.lost(), 0);
    }
    insta::assert_snapshot!(formatted(&table, &OutputFormat::default_for(OutputKind::Jsonl)), @r#"
    {"f":null,"l":[null,0.5]}
    {"f":0.5,"l":[]}
    {"f":null,"l":[null]}
    "#);
}

#[test]
fn a_header_too_long_for_a_message_is_refused() {
    let name = "n".repeat(2 << 20);
    let wide = ipc(vec![(name.as_str(), Arc::new(Int64Array::from(vec![1])))]);
    insta::assert_snapshot!(formatted(&wide, &csv(|_| ())), @"the names of the table's columns make a header line of more than 1 MB: set output_format.header to false");
    assert_eq!(formatted(&wide, &csv(|format| format.header = false)), "1\n");
    // No line is written, so no header is needed.
    let mut counting = RowWriter::new(1000, false, &csv(|_| ()));
    counting.table(&table()).unwrap();
    assert_eq!((counting.take_header(), counting.rows()), (None, 2));
}

/// Parses lines as Python's csv reader does.
fn parse(text: &str, delimiter: char) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.push(chars.next().unwrap()),
            '"' => quoted = !quoted,
            c if c == delimiter && !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    rows
}

proptest! {
    #[test]
    fn fields_survive_quoting(
        rows in prop::collection::vec(prop::array::uniform3("[ \"\n\r,ab\\PC]{0,6}"), 1..20),
        delimiter in prop::sample::select(vec![' ', ',', ';', '\t', '|', '1']),
        quoting in prop::sample::select(vec![Quoting::Minimal, Quoting::All, Quoting::Nonnumeric]),
    ) {
        let column = |i: usize| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row[i].clone())))
        };
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
        let table = ipc(vec![("a", column(0)), ("b", column(1)), ("c", column(2)), ("n", numbers)]);
        let format = csv(|format| {
            (format.delimiter, format.quoting, format.header) = (delimiter as u8, quoting, false);
        });
        let numbered = rows.iter().enumerate();
        let expected: Vec<Vec<String>> =
            numbered.map(|(n, row)| row.iter().cloned().chain([n.to_string()]).collect()).collect();
        prop_assert_eq!(parse(&formatted(&table, &format), delimiter), expected);
        // The same in JSON lines.
        let lines = formatted(&table, &OutputFormat::default_for(OutputKind::Jsonl));
        for (line, row) in lines.lines().zip(&rows) {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            prop_assert_eq!([&object["a"], &object["b"], &object["c"]], row.each_ref());
        }
        prop_assert_eq!(lines.lines().count(), rows.len());
    }

    /// Lines that consist only of numbers are made by separate code, unless a line could be longer than
    /// `limits.row`.
    #[test]
    fn both_ways_to_write_number_lines_agree(
        rows in prop::collection::vec(any::<u64>(), 0..200), width in 1_usize..50,
    ) {
        let bits = || rows.iter().copied();
        let kinds: [ArrayRef; 4] = [
            Arc::new(Int64Array::from_iter_values(bits().map(u64::cast_signed))),
            Arc::new(Float64Array::from_iter_values(bits().map(f64::from_bits))),
            Arc::new(Float32Array::from_iter_values(bits().map(|bits| bits as f32 / 1e20))),
            Arc::new(UInt8Array::from_iter_values(bits().map(|bits| bits as u8))),
        ];
        let columns = kinds.iter().cycle().take(width);
        let table = ipc(columns.map(|column| ("n", column.clone())).collect());
        let [fast, slow] = [u64::MAX, 31 * width as u64 - 1].map(|limit| {
            let mut writer = text_writer(u64::MAX, true).with_max_row_size(ByteSize(limit));
            writer.table(&table).unwrap();
            String::from_utf8(writer.lines().to_vec()).unwrap()
        });
        prop_assert_eq!(&fast, &slow);
        prop_assert_eq!(fast.lines().count(), rows.len());
    }

    #[test]
    fn damaged_tables_are_an_error_or_rows(
        position in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0usize..40,
    ) {
        let mut bytes = ipc(vec![
            ("s", Arc::new(StringArray::from(vec!["a", "bb", "ccc"]))),
            ("n", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ]);
        let index = position.index(bytes.len());
        bytes[index] = byte;
        bytes.truncate(bytes.len() - cut);
        let _ = text_writer(1 << 20, true).table(&bytes);
    }
}
