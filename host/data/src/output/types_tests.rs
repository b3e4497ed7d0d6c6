//! Writes every Arrow type in every output format. The table in docs/types.md is made by this test.

use crate::model::{Failure, OutputFormat, OutputKind};
use crate::output::{RowWriter, convert_appended_rows};
use arrow::array::*;
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::StreamWriter;
use half_of::f16;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

/// The type of half floats. Without a dependency on the crate `half`, this is the only way to name it.
mod half_of {
    use arrow::datatypes::{ArrowPrimitiveType, Float16Type};

    #[expect(non_camel_case_types, reason = "as its own crate calls it")]
    pub(super) type f16 = <Float16Type as ArrowPrimitiveType>::Native;
}

const LIMIT: u64 = 1 << 20;
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/types.md");
/// The lines before and after the table.
const MARKS: [&str; 2] = ["<!-- made by a test: begin -->\n", "<!-- made by a test: end -->\n"];
const AGAIN: &str = "docs/types.md does not match the code: regenerate it with \
                     SANDMILL_WRITE_DOCS=1 cargo test -p sandmill-data --lib output::types";

fn arc(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn item(array: &ArrayRef) -> FieldRef {
    Arc::new(Field::new_list_field(array.data_type().clone(), true))
}

/// Columns of one or a few values each, none of them null.
fn plain() -> Vec<ArrayRef> {
    let decimal = |text: &str, kind: DataType| {
        let texts = StringArray::from(vec![text]);
        arrow::compute::cast(&texts, &kind).unwrap()
    };
    vec![
        arc(NullArray::new(1)),
        arc(BooleanArray::from(vec![true])),
        arc(Int8Array::from(vec![-8])),
        arc(Int16Array::from(vec![-16])),
        arc(Int32Array::from(vec![-32])),
        arc(Int64Array::from(vec![i64::MIN])),
        arc(UInt8Array::from(vec![8])),
        arc(UInt16Array::from(vec![16])),
        arc(UInt32Array::from(vec![u32::MAX])),
        arc(UInt64Array::from(vec![u64::MAX])),
        arc(Float16Array::from(vec![f16::from_f32(0.5)])),
        arc(Float32Array::from(vec![0.1])),
        arc(Float64Array::from(vec![1e-5])),
        decimal("1234567.89", DataType::Decimal32(9, 2)),
        decimal("1234567.89", DataType::Decimal64(18, 2)),
        decimal("1234567.89", DataType::Decimal128(38, 2)),
        decimal("1234567.89", DataType::Decimal256(76, 2)),
        decimal("12300", DataType::Decimal128(5, -2)),
        arc(StringArray::from(vec!["text"])),
        arc(LargeStringArray::from(vec!["text"])),
        arc(StringViewArray::from(vec!["text"])),
        arc(BinaryArray::from(vec![&[0, 255][..]])),
        arc(LargeBinaryArray::from(vec![&[0, 255][..]])),
        arc(BinaryViewArray::from(vec![&[0, 255][..]])),
        arc(FixedSizeBinaryArray::try_from_iter([[0_u8, 255]].into_iter()).unwrap()),
    ]
}

fn times() -> Vec<ArrayRef> {
    // A time in the year 12023, beyond the range of nanoseconds.
    let far = 317_268_846_245;
    let zoned =
        |zone: &str| arc(TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone(zone));
    vec![
        arc(Date32Array::from(vec![20_000])),
        arc(Date64Array::from(vec![20_000 * 86_400_000])),
        arc(Time32SecondArray::from(vec![3661])),
        arc(Time32MillisecondArray::from(vec![3_661_500])),
        arc(Time64MicrosecondArray::from(vec![3_661_000_001])),
        arc(Time64NanosecondArray::from(vec![3_661_000_000_001])),
        arc(TimestampSecondArray::from(vec![far])),
        arc(TimestampMillisecondArray::from(vec![far * 1000])),
        arc(TimestampMicrosecondArray::from(vec![far * 1_000_000])),
        arc(TimestampNanosecondArray::from(vec![-1])),
        zoned("Europe/Berlin"),
        zoned("+02:00"),
        arc(DurationSecondArray::from(vec![-90])),
        arc(DurationMillisecondArray::from(vec![1500])),
        arc(DurationMicrosecondArray::from(vec![1500])),
        arc(DurationNanosecondArray::from(vec![1500])),
        arc(IntervalYearMonthArray::from(vec![14])),
        arc(IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, 1500)])),
        arc(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3)])),
    ]
}

fn nested() -> Vec<ArrayRef> {
    let numbers = || arc(Int64Array::from(vec![Some(1), None]));
    let offsets = || OffsetBuffer::from_lengths([2]);
    let structure = arc(StructArray::from(vec![
        (Arc::new(Field::new("n", DataType::Int64, true)), arc(Int64Array::from(vec![1]))),
        (Arc::new(Field::new("t", DataType::Utf8, true)), arc(StringArray::from(vec!["text"]))),
    ]));
    let map = |keys: ArrayRef| {
        let values = numbers();
        let fields = Fields::from(vec![
            Field::new("keys", keys.data_type().clone(), false),
            Field::new("values", DataType::Int64, true),
        ]);
        let pairs = StructArray::new(fields, vec![keys, values], None);
        let entries = Arc::new(Field::new("entries", pairs.data_type().clone(), false));
        arc(MapArray::new(entries, offsets(), pairs, None, false))
    };
    let runs = |rows| {
        let values = StringArray::from(vec!["text"]);
        arc(RunArray::<Int32Type>::try_new(&Int32Array::from(vec![rows]), &values).unwrap())
    };
    let words: ArrayRef = arc(["text"].into_iter().collect::<DictionaryArray<Int8Type>>());
    let coded = |values: ArrayRef| arc(DictionaryArray::new(Int32Array::from(vec![0]), values));
    let runs_in_list = runs(2);
    let list = |values: ArrayRef| arc(ListArray::new(item(&values), offsets(), values, None));
    let views = ScalarBuffer::from(vec![0]);
    let sizes = ScalarBuffer::from(vec![2]);
    let long = |numbers: [i64; 1]| ScalarBuffer::from(numbers.to_vec());
    vec![
        list(numbers()),
        arc(LargeListArray::new(
            item(&numbers()),
            OffsetBuffer::from_lengths([2]),
            numbers(),
            None,
        )),
        arc(ListViewArray::new(item(&numbers()), views, sizes, numbers(), None)),
        arc(LargeListViewArray::new(item(&numbers()), long([0]), long([2]), numbers(), None)),
        arc(FixedSizeListArray::new(item(&numbers()), 2, numbers(), None)),
        Arc::clone(&structure),
        map(arc(StringArray::from(vec!["a", "b"]))),
        map(arc(Int32Array::from(vec![1, 2]))),
        words,
        coded(arc(Date64Array::from(vec![0]))),
        coded(structure),
        runs(1),
        list(runs_in_list),
        list(arc(NullArray::new(2))),
        union(UnionMode::Sparse),
        union(UnionMode::Dense),
        arc(StructArray::new_empty_fields(1, None)),
    ]
}

fn union(mode: UnionMode) -> ArrayRef {
    let fields = [Field::new("n", DataType::Int64, true), Field::new("t", DataType::Utf8, true)];
    let fields = UnionFields::try_new([0, 1], fields).unwrap();
    let children = vec![arc(Int64Array::from(vec![7])), arc(StringArray::from(vec!["text"]))];
    let offsets = (mode == UnionMode::Dense).then(|| ScalarBuffer::from(vec![0]));
    arc(UnionArray::try_new(fields, ScalarBuffer::from(vec![0]), offsets, children).unwrap())
}

fn batch(field: Field, column: &ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::clone(column)]).unwrap()
}

fn ipc(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

/// The bytes that are appended for a table in a format, or why it is refused.
fn written(batch: &RecordBatch, format: &OutputFormat) -> Result<Vec<u8>, Failure> {
    let mut writer = RowWriter::new(LIMIT, true, format);
    writer.table(&ipc(batch)).and_then(|()| writer.seal())?;
    let header = writer.take_header().and_then(|header| header.bytes).unwrap_or_default();
    Ok([&header, writer.segment()].concat())
}

/// The lines of a table without a header.
fn lines(batch: &RecordBatch, kind: OutputKind) -> Result<String, Failure> {
    let mut format = OutputFormat::default_for(kind);
    format.header = false;
    written(batch, &format).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// The file that is made from a table.
fn made(batch: &RecordBatch, kind: OutputKind) -> Result<Vec<u8>, Failure> {
    let format = OutputFormat::default_for(kind);
    let appended = written(batch, &format)?;
    let mut file = tempfile::tempfile().unwrap();
    convert_appended_rows(Cursor::new(appended), &file, &format, batch.num_rows() as u64).unwrap();
    let mut made = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut made).unwrap();
    Ok(made)
}

/// The rows of a file. If `plain` is true, ignores the Arrow schema that a Parquet file carries.
fn read(made: Vec<u8>, kind: OutputKind, plain: bool) -> RecordBatch {
    let batches: Vec<RecordBatch> = if kind == OutputKind::Arrow {
        FileReader::try_new(Cursor::new(made), None).unwrap().map(Result::unwrap).collect()
    } else {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(plain);
        let bytes = bytes::Bytes::from(made);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options);
        builder.unwrap().build().unwrap().map(Result::unwrap).collect()
    };
    batches.into_iter().next().unwrap()
}

/// Formats a cell of a Markdown table.
fn cell(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn of_lines(batch: &RecordBatch, kind: OutputKind) -> String {
    match lines(batch, kind) {
        Ok(text) if text.trim_end() == "\"\"" => "an empty field".to_owned(),
        Ok(text) => {
            let value = text.trim_end();
            let value = value
                .strip_prefix("{\"c\":")
                .and_then(|value| value.strip_suffix('}'))
                .unwrap_or(value);
            cell(value)
        }
        Err(failure) => format!("refused: {}", failure.message),
    }
}

fn of_file(batch: &RecordBatch, kind: OutputKind) -> String {
    let given = batch.schema_ref().field(0).data_type();
    let made = match made(batch, kind) {
        Ok(made) => made,
        Err(failure) => {
            let why = failure.message.replace(&format!("the type {given}, which "), "a type that ");
            return format!("refused: {why}");
        }
    };
    let found = read(made.clone(), kind, false);
    // No value has changed.
    assert_eq!(lines(&found, OutputKind::Csv), lines(batch, OutputKind::Csv), "{given}");
    let found = found.schema_ref().field(0).data_type().clone();
    let mut text = match found == *given {
        true => "kept".to_owned(),
        false => format!("as {}", cell(&found.to_string())),
    };
    if kind == OutputKind::Parquet {
        let reported = read(made, kind, true).schema_ref().field(0).data_type().clone();
        if matches!(found, DataType::Interval(_)) {
            text.push_str("; other programs read Parquet's `INTERVAL`");
        } else if !alike(&reported, &found) {
            let _ = write!(text, "; other programs read {}", cell(&reported.to_string()));
        }
    }
    text
}

/// Whether types differ only in how Arrow stores the values.
fn alike(one: &DataType, other: &DataType) -> bool {
    fn shape(kind: &DataType) -> DataType {
        let field =
            |field: &FieldRef| Arc::new(Field::new(field.name(), shape(field.data_type()), true));
        let item =
            |field: &FieldRef| Arc::new(Field::new_list_field(shape(field.data_type()), true));
        match kind {
            DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
            DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
            DataType::Decimal256(p, s) if *p <= 38 => DataType::Decimal128(*p, *s),
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
                DataType::List(item(of))
            }
            DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
            DataType::Map(entries, _) => DataType::Map(field(entries), false),
            DataType::Dictionary(_, values) => shape(values),
            DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("UTC".into())),
            other => other.clone(),
        }
    }
    shape(one) == shape(other)
}

fn name(column: &ArrayRef) -> String {
    let kind = column.data_type().to_string();
    // The type as a reader needs it, without the names of its parts.
    let kind = kind.replace("\"entries\": non-null Struct(\"keys\": non-null ", "");
    kind.replace(", \"values\": Int64), unsorted", " to Int64")
}

fn table() -> String {
    let mut table = "| type | `csv`, `text` | `jsonl` | `parquet` | `arrow` |\n".to_owned();
    table.push_str("|---|---|---|---|---|\n");
    let mut row = |name: &str, batch: &RecordBatch| {
        let lines = [OutputKind::Csv, OutputKind::Jsonl].map(|kind| of_lines(batch, kind));
        let files = [OutputKind::Parquet, OutputKind::Arrow].map(|kind| of_file(batch, kind));
        let [csv, jsonl] = lines;
        let [parquet, arrow] = files;
        let _ = writeln!(table, "| {} | {csv} | {jsonl} | {parquet} | {arrow} |", cell(name));
    };
    for column in [plain(), times(), nested()].concat() {
        row(&name(&column), &batch(Field::new("c", column.data_type().clone(), true), &column));
    }
    let uuid = FixedSizeBinaryArray::try_from_iter([[7_u8; 16]].into_iter()).unwrap();
    let metadata = HashMap::from([("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())]);
    let field = Field::new("c", uuid.data_type().clone(), true).with_metadata(metadata);
    row("arrow.uuid, an extension type", &batch(field, &arc(uuid)));
    table
}

#[test]
fn the_table_in_the_docs_matches_the_code() {
    let text = std::fs::read_to_string(DOCS).unwrap_or_default();
    let table = table();
    let (before, rest) = text.split_once(MARKS[0]).expect(AGAIN);
    let (found, after) = rest.split_once(MARKS[1]).expect(AGAIN);
    if std::env::var_os("SANDMILL_WRITE_DOCS").is_some() {
        let [begin, end] = MARKS;
        std::fs::write(DOCS, format!("{before}{begin}\n{table}\n{end}{after}")).unwrap();
        return;
    }
    assert_eq!(found.trim(), table.trim(), "{AGAIN}");
}

/// Columns of one type each, with random bits as values.
fn any_values(bits: &[u64]) -> Vec<ArrayRef> {
    let long = || bits.iter().map(|bits| bits.cast_signed());
    let short = || long().map(|bits| bits as i32);
    let days = || long().map(|bits| bits / 86_400_000 * 86_400_000);
    let wide = || long().map(|bits| i128::from(bits) << (bits & 63));
    vec![
        arc(Date32Array::from_iter_values(short())),
        arc(Date64Array::from_iter_values(long())),
        arc(Date64Array::from_iter_values(days())),
        arc(TimestampSecondArray::from_iter_values(long())),
        arc(TimestampMillisecondArray::from_iter_values(long()).with_timezone("UTC")),
        arc(TimestampMicrosecondArray::from_iter_values(long())),
        arc(TimestampNanosecondArray::from_iter_values(long())),
        arc(Time32SecondArray::from_iter_values(short())),
        arc(Time64NanosecondArray::from_iter_values(long())),
        arc(DurationSecondArray::from_iter_values(long())),
        arc(DurationNanosecondArray::from_iter_values(long())),
        arc(IntervalYearMonthArray::from_iter_values(short())),
        arc(IntervalDayTimeArray::from_iter_values(
            short().map(|days| IntervalDayTime::new(days, days.rotate_left(9))),
        )),
        arc(IntervalMonthDayNanoArray::from_iter_values(
            long().map(|nanos| IntervalMonthDayNano::new(nanos as i32, (nanos >> 9) as i32, nanos)),
        )),
        arc(Decimal32Array::from_iter_values(short()).with_precision_and_scale(4, 2).unwrap()),
        arc(Decimal64Array::from_iter_values(long()).with_precision_and_scale(12, -3).unwrap()),
        arc(Decimal128Array::from_iter_values(wide()).with_precision_and_scale(9, 2).unwrap()),
        arc(Decimal128Array::from_iter_values(wide()).with_precision_and_scale(38, -2).unwrap()),
        arc(Decimal256Array::from_iter_values(wide().map(i256::from_i128))
            .with_precision_and_scale(60, 5)
            .unwrap()),
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    /// Every value is in the file unchanged, or the error names the row that cannot be written.
    #[test]
    fn no_value_changes_when_it_is_written(
        bits in proptest::collection::vec(proptest::prelude::any::<u64>(), 1..5), shift in 0..60_u32,
    ) {
        let bits: Vec<u64> = bits.iter().map(|bits| (bits.cast_signed() >> shift).cast_unsigned()).collect();
        for column in any_values(&bits) {
            let kind = column.data_type().clone();
            let given = batch(Field::new("c", kind.clone(), true), &column);
            for output in [OutputKind::Parquet, OutputKind::Arrow] {
                match made(&given, output) {
                    Err(Failure { message: why, .. }) => proptest::prop_assert!(
                        why.contains("in row ") || why.contains("which "), "{kind}: {why}"
                    ),
                    Ok(made) => {
                        let found = read(made, output, false);
                        let [found, given] = [&found, &given].map(|rows| lines(rows, OutputKind::Csv).ok());
                        proptest::prop_assert_eq!(found, given, "{} in {:?}", kind, output);
                    }
                }
            }
        }
    }
}
