//! Tests of the cutter, the inference and the reader together.

use super::field::is_json;
use super::infer::infer_json;
use crate::dataset::csv::{Cutter, MAX_SLICE};
use crate::dataset::{DatasetError, TableReader, Unpacker, schema_bytes};
use crate::model::{FailedItem, SliceSize, Source, TableFormat, TableKind, TextSlice, UnknownKeys};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::reader::StreamReader;
use arrow::json::LineDelimitedWriter;
use insta::assert_snapshot;
use proptest::prelude::*;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use tempfile::TempDir;

pub(super) struct JsonFixture(TempDir);

impl JsonFixture {
    pub(super) fn new(text: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("t.jsonl"), text).unwrap();
        Self(folder)
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn infer(&self) -> (Schema, Vec<String>) {
        let source = Source::new("d", self.root().to_owned());
        let unpacker = Unpacker::new(self.root());
        let mut may_open = |_, _: &_, _: &mut _| Ok(true);
        let inferred: Result<_, DatasetError> =
            infer_json(&[source], false, &unpacker, &mut may_open);
        let inferred = inferred.unwrap();
        (inferred.schema, inferred.doubts)
    }

    fn slices(&self, size: SliceSize) -> Vec<TextSlice> {
        let mut cutter = Cutter::of_lines(size);
        let mut cut = cutter.open(self.root(), "t.jsonl".to_owned()).unwrap();
        std::iter::from_fn(|| cut.next_slice().unwrap()).collect()
    }

    /// All rows as JSON lines, and the refused lines.
    fn read(&self, schema: &Schema, size: SliceSize) -> (Vec<String>, Vec<FailedItem>) {
        let (rows, refused, _) = self.read_as(&format_of(schema), size);
        (rows, refused)
    }

    /// All rows as JSON lines, the refused lines, and the keys without a column.
    pub(super) fn read_as(
        &self,
        format: &TableFormat,
        size: SliceSize,
    ) -> (Vec<String>, Vec<FailedItem>, Vec<UnknownKeys>) {
        let mut reader = TableReader::new(format).unwrap();
        let mut rows = Vec::new();
        let mut refused = Vec::new();
        let mut unknown = Vec::new();
        for slice in self.slices(size) {
            let table = reader.read(self.root(), &slice, "t").unwrap();
            assert_eq!(table.rows + table.rejected_count, slice.rows);
            let lines = table.lines.locate(&(0..table.rows as usize).collect::<Vec<_>>());
            let mut lines: Vec<_> = lines.into_iter().filter_map(|(_, line)| line).collect();
            lines.extend(table.rejected.iter().filter_map(|item| item.line));
            lines.sort_unstable();
            assert_eq!(lines.len() as u64, slice.rows, "each row has its line");
            assert!(lines.is_sorted_by(|one, next| one < next), "{lines:?}");
            refused.extend(table.rejected);
            unknown.extend(table.unknown_keys);
            let mut stream = StreamReader::try_new(Cursor::new(table.ipc.to_vec()), None).unwrap();
            rows.extend(printed(&stream.next().unwrap().unwrap()));
        }
        (rows, refused, unknown)
    }

    fn describe(&self, schema: &Schema) -> String {
        self.describe_as(&format_of(schema))
    }

    pub(super) fn describe_as(&self, format: &TableFormat) -> String {
        let (rows, refused, _) = self.read_as(format, SliceSize::Bytes(MAX_SLICE));
        let refused = refused
            .iter()
            .map(|item| format!("line {}: {}", item.line.unwrap_or_default(), item.reason));
        rows.into_iter().chain(refused).collect::<Vec<_>>().join("\n")
    }
}

/// The format for columns that a job file names.
pub(super) fn format_of(schema: &Schema) -> TableFormat {
    let schema = schema_bytes(schema).unwrap();
    TableFormat { kind: TableKind::Jsonl, schema, ..TableFormat::default() }
}

/// The format for inferred columns.
pub(super) fn inferred(schema: &Schema) -> TableFormat {
    TableFormat { inferred: true, counts_unknown_keys: true, ..format_of(schema) }
}

fn printed(batch: &RecordBatch) -> Vec<String> {
    let mut text = Vec::new();
    let mut writer = LineDelimitedWriter::new(&mut text);
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn columns_are_inferred() {
    let file = JsonFixture::new(
        "\u{feff}{\"id\": 1, \"x\": 1, \"on\": true, \"tags\": [\"a\"], \"at\": {\"lat\": 1.5}}\r\n\
         {\"id\": 2, \"x\": 2.5, \"none\": null, \"tags\": [], \"at\": {\"lon\": 3}}\n\n\
         {\"id\": 3, \"mixed\": 1, \"big\": 9223372036854775808, \"deep\": [[{\"k\": [1]}]]}\r\
         {\"mixed\": \"a\", \"void\": {}, \"\\u00e9\": \"\\ud83d\\ude00 \\u0041\"}",
    );
    let (schema, doubts) = file.infer();
    let types: Vec<_> =
        schema.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect();
    assert_snapshot!(types.join("\n"), @r#"
    id Int64
    x Float64
    on Boolean
    tags List(Utf8)
    at Struct("lat": Float64, "lon": Int64)
    none Utf8
    mixed Utf8
    big UInt64
    deep List(List(Struct("k": List(Int64))))
    void Utf8
    é Utf8
    "#);
    assert_snapshot!(doubts.join("\n"), @"column 'mixed' is string, because it mixes texts, numbers or truth values: t.jsonl, about line 4");
    assert_snapshot!(file.describe(&schema), @r#"
    {"id":1,"x":1.0,"on":true,"tags":["a"],"at":{"lat":1.5}}
    {"id":2,"x":2.5,"tags":[],"at":{"lon":3}}
    {"id":3,"mixed":"1","big":9223372036854775808,"deep":[[{"k":[1]}]]}
    {"mixed":"a","void":"{}","é":"😀 A"}
    "#);
}

#[test]
fn values_that_fit_no_type_are_json() {
    let file =
        JsonFixture::new("{\"a\": [1]}\n{\"a\": 2}\n{\"a\": {\"b\" : 1.0}}\n{\"a\": null}\n");
    let (schema, doubts) = file.infer();
    assert_snapshot!(doubts.join("\n"), @"column 'a' is json (the text of each value is kept): it holds a plain value here, and another kind of value before: t.jsonl, about line 2");
    assert_snapshot!(file.describe(&schema), @r#"
    {"a":"[1]"}
    {"a":"2"}
    {"a":"{\"b\" : 1.0}"}
    {}
    "#);
    let deep =
        |levels: usize| format!("{{\"a\": {}1{}}}\n", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(JsonFixture::new(deep(16)).infer().0.fields().len(), 1);
    let (schema, doubts) = JsonFixture::new(deep(17)).infer();
    assert!(is_json(schema.field(0)), "{schema}");
    assert_snapshot!(doubts.join("\n"), @"column 'a' is json (the text of each value is kept): it has more than 16 levels: t.jsonl, about line 1");
    let file = JsonFixture::new(deep(100_000));
    assert_eq!(
        file.describe(&file.infer().0),
        deep(100_000).trim_end().replace(": ", ":\"").replace('}', "\"}")
    );
    let wide: Vec<_> = (0..10_001).map(|n| format!("\"k{n}\": 1")).collect();
    let (schema, doubts) = JsonFixture::new(format!("{{{}}}\n", wide.join(", "))).infer();
    assert_eq!(schema.fields().len(), 10_000);
    assert_snapshot!(doubts.join("\n"), @"column 'k10000' and the columns after it are left out: there are too many: t.jsonl, about line 1");
}

#[test]
fn lines_that_are_not_rows_are_refused() {
    let (schema, _) = JsonFixture::new(
        "{\"id\": 1, \"x\": 0.5, \"s\": \"a\", \"on\": true, \"l\": [1], \"o\": {\"k\": 1}}\n",
    )
    .infer();
    let text = b"{\"id\": 1}\n{\"id\": 1.5}\n{\"id\": 9223372036854775808}\n{\"id\": \"7\"}\n\
        {\"x\": 1e999}\n{\"x\": 01}\n{\"id\": 1.0, \"x\": 2, \"s\": 5, \"more\": 1}\n{\"on\": 1}\n\
        {\"l\": [1, \"a\"]}\n{\"l\": 1}\n{\"o\": {\"k\": []}}\n{\"o\": []}\n[1]\n12\n\"a\"\nnull\n   \n\
        {\"id\": 1\n\"x\": 2}\n{\"id\": 1} {\"id\": 2}\nid=1\n{\"s\": \"caf\xE9\"}\n{\"id\": }\n\
        {\"s\": \"a\0b\"}\n{'id': 1}\n{\"s\": \"\\ud800\"}\n{\"id\": 2}";
    assert_snapshot!(JsonFixture::new(text).describe(&schema), @r#"
    {"id":1}
    {"id":1,"x":2.0,"s":"5"}
    {"s":"a\u0000b"}
    {"id":2}
    line 2: column 'id': 1.5 is not a valid int64
    line 3: column 'id': 9223372036854775808 is not a valid int64
    line 4: column 'id': "7" is not a valid int64
    line 5: column 'x': 1e999 is not a valid float64
    line 6: is not JSON: invalid number at character 8
    line 8: column 'on': 1 is not a valid boolean
    line 9: column 'l[1]': "a" is not a valid int64
    line 10: column 'l': 1 is not a valid list
    line 11: column 'o.k': [] is not a valid int64
    line 12: column 'o': [] is not a valid object
    line 13: holds a list; each line must be an object, as in {"id": 1}
    line 14: holds a number; each line must be an object, as in {"id": 1}
    line 15: holds a text; each line must be an object, as in {"id": 1}
    line 16: holds null; each line must be an object, as in {"id": 1}
    line 17: holds blanks only; leave it empty, or write an object
    line 18: is not JSON: EOF while parsing an object at character 8
    line 19: is not JSON: trailing characters at character 4
    line 20: is not JSON: trailing characters at character 11
    line 21: is not JSON: expected value at character 1
    line 22: "{\"s\": \"caf�\"}" is not UTF-8
    line 23: is not JSON: expected value at character 8
    line 25: is not JSON: key must be a string at character 2
    line 26: is not JSON: unexpected end of hex escape at character 14
    "#);
    assert_snapshot!(JsonFixture::new("{\"a\": 1}\n{}\n").describe(&Schema::empty()), @"
    line 1: cannot be read: the table has no columns
    line 2: cannot be read: the table has no columns
    ");
}

#[test]
fn missing_and_extra_commas_are_refused() {
    let (schema, _) = JsonFixture::new("{\"a\": 1, \"b\": [1]}\n").infer();
    let text = "{\"a\": 1 \"b\": [2]}\n{\"a\": 1,, \"b\": [2]}\n{\"a\": 1, \"b\": [2 3]}\n\
        {\"a\": 1, \"b\": [2,]}\n{\"a\": 4, \"b\": [5, 6]}\n{\"a\": 1,}\n{,\"a\": 1}";
    assert_snapshot!(JsonFixture::new(text).describe(&schema), @r#"
    {"a":4,"b":[5,6]}
    line 1: is not JSON: expected `,` or `}` at character 9
    line 2: is not JSON: key must be a string at character 9
    line 3: is not JSON: expected `,` or `]` at character 18
    line 4: is not JSON: trailing comma at character 18
    line 6: is not JSON: trailing comma at character 9
    line 7: is not JSON: key must be a string at character 2
    "#);
}

#[test]
fn dates_and_times_are_not_truncated() {
    use arrow::datatypes::{Field, TimeUnit};
    let time = arrow::datatypes::DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let fields = [("day", arrow::datatypes::DataType::Date32), ("at", time)];
    let schema = Schema::new(fields.map(|(name, kind)| Field::new(name, kind, true)).to_vec());
    let text = "{\"day\": \"2026-11-22\", \"at\": \"2026-11-22T10:00:00.5+01:00\"}\n\
        {\"day\": 1, \"at\": 1000000}\n{\"day\": null, \"at\": 2e6}\n\
        {\"day\": 1.5}\n{\"at\": 0.5}\n{\"day\": 1e10}\n{\"at\": 1e300}\n{\"day\": true}\n\
        {\"day\": \"soon\"}\n{\"at\": []}\n{\"at\": \"now\"}";
    assert_snapshot!(JsonFixture::new(text).describe(&schema), @r#"
    {"day":"2026-11-22","at":"2026-11-22T09:00:00.500Z"}
    {"day":"1970-01-02","at":"1970-01-01T00:00:01Z"}
    {"at":"1970-01-01T00:00:02Z"}
    line 4: column 'day': 1.5 is not a valid date
    line 5: column 'at': 0.5 is not a valid timestamp
    line 6: column 'day': 1e10 is not a valid date
    line 7: column 'at': 1e300 is not a valid timestamp
    line 8: column 'day': true is not a valid date
    line 9: column 'day': "soon" is not a valid date
    line 10: column 'at': [] is not a valid timestamp
    line 11: column 'at': "now" is not a valid timestamp
    "#);
}

#[test]
fn sparse_rows_do_not_fill_the_memory() {
    let wide: Vec<_> = (0..10_000).map(|n| format!("\"k{n}\": 1")).collect();
    let file = JsonFixture::new(format!("{{{}}}\n{}", wide.join(", "), "{}\n".repeat(200_000)));
    let (schema, _) = file.infer();
    let mut reader = TableReader::new(&inferred(&schema)).unwrap();
    let slices = file.slices(SliceSize::Bytes(MAX_SLICE));
    assert_snapshot!(reader.read(file.root(), &slices[0], "t").unwrap_err(), @"t: 200001 rows of 10000 columns, most of them without values, take too much memory; list the columns that you need in columns, or choose a smaller mini_batch_size");
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => r#"\{"a": [0-9]{1,3}(, "b": "[a-z\\\\]{0,2}[{}\[\],é]{0,3}")?\}"#,
        1 => Just("{\"a\": \"\\\"\\n\"}".to_owned()),
        1 => "[{}\",a1 ]{0,5}",
        4 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\r".to_owned()),
    ];
    (any::<bool>(), prop::collection::vec(piece, 0..40)).prop_map(|(bom, pieces)| {
        format!("{}{}", if bom { "\u{feff}" } else { "" }, pieces.concat())
    })
}

proptest! {
    /// However a text is cut, the rows are the same, and as many as serde_json accepts.
    #[test]
    fn cutting_changes_nothing(text in text(), size in 1u64..60, by_rows in any::<bool>()) {
        let file = JsonFixture::new(&text);
        let columns = [("a", arrow::datatypes::DataType::Int64), ("b", arrow::datatypes::DataType::Utf8)];
        let fields = columns.map(|(name, kind)| arrow::datatypes::Field::new(name, kind, true));
        let schema = Schema::new(fields.to_vec());
        let size = if by_rows { SliceSize::Rows(size) } else { SliceSize::Bytes(size) };
        let (rows, refused) = file.read(&schema, size);
        let (uncut, uncut_refused) = file.read(&schema, SliceSize::Bytes(MAX_SLICE));
        prop_assert_eq!(&rows, &uncut);
        prop_assert_eq!(&refused, &uncut_refused);
        let lines = text.strip_prefix('\u{feff}').unwrap_or(&text).split(['\r', '\n']);
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        prop_assert_eq!(lines.len(), rows.len() + refused.len());
        let is_row = |line: &&&str| {
            let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line);
            object.is_ok_and(|object| {
                let a = object.get("a");
                let b = object.get("b");
                a.is_none_or(serde_json::Value::is_i64) && b.is_none_or(serde_json::Value::is_string)
            })
        };
        prop_assert_eq!(lines.iter().filter(is_row).count(), rows.len());
    }
}
