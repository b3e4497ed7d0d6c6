use super::super::bad_records::{RecordOrigins, read_by_records};
use super::super::scan::CsvScan;
use super::super::types::arrow_type;
use super::*;
use crate::model::{Column as NamedColumn, CsvFormat};
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use proptest::prelude::*;
use regex::Regex;

const KINDS: [ColumnType; 3] = [ColumnType::Int64, ColumnType::Float64, ColumnType::String];
const ALL_KINDS: [ColumnType; 6] = [
    ColumnType::Boolean,
    ColumnType::Int64,
    ColumnType::Float64,
    ColumnType::String,
    ColumnType::Date,
    ColumnType::Timestamp,
];

fn try_decoder(kinds: &[ColumnType], csv: CsvFormat) -> Option<PlainDecoder> {
    picking_decoder(kinds, csv, None)
}

fn picking_decoder(
    kinds: &[ColumnType],
    csv: CsvFormat,
    picked: Option<Vec<u32>>,
) -> Option<PlainDecoder> {
    let columns: Vec<_> = (0..)
        .zip(kinds)
        .map(|(n, kind)| NamedColumn { name: format!("c{n}"), kind: *kind })
        .collect();
    let fields: Vec<_> =
        columns.iter().map(|c| Field::new(&c.name, arrow_type(c.kind), true)).collect();
    let format = TableFormat { csv, columns, picked, ..TableFormat::default() };
    PlainDecoder::new(&format, &Arc::new(Schema::new(fields)))
}

/// A decoder of columns whose kinds were inferred.
fn exact(kinds: &[ColumnType]) -> PlainDecoder {
    PlainDecoder { exact: true, ..decoder(kinds) }
}

fn decoder(kinds: &[ColumnType]) -> PlainDecoder {
    try_decoder(kinds, CsvFormat::default()).unwrap()
}

/// The cells of a batch as text: nulls differ from empty texts, and floats have all their digits.
fn cells(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter();
    let columns: Vec<_> =
        columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect();
    (0..batch.num_rows()).map(row).collect()
}

fn by_arrow(decoder: &PlainDecoder, text: &str) -> Option<Vec<Vec<String>>> {
    let mut arrow = ReaderBuilder::new(Arc::clone(&decoder.schema))
        .with_delimiter(decoder.csv.delimiter)
        .with_batch_size(text.len() + 1);
    if !decoder.csv.null_values.is_empty() {
        let nulls = Regex::new(&format!("^(?:|{})$", decoder.csv.null_values.join("|"))).unwrap();
        arrow = arrow.with_null_regex(nulls);
    }
    let mut arrow = arrow.build_decoder();
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

/// Reads record by record. `None` if one does not fit.
fn by_records(decoder: &PlainDecoder, text: &str) -> Option<Vec<Vec<String>>> {
    let csv = CsvFormat {
        delimiter: decoder.csv.delimiter,
        null_values: decoder.csv.null_values.clone(),
        ..CsvFormat::default()
    };
    let column = |kind: &Option<ColumnType>| {
        let kind = kind.unwrap_or(ColumnType::String);
        NamedColumn { name: "c".to_owned(), kind }
    };
    let columns = decoder.kinds.iter().map(column).collect();
    let format = TableFormat { csv, columns, inferred: decoder.exact, ..TableFormat::default() };
    let wanted = |at: usize| decoder.kinds[at].is_some();
    let mut places = RecordOrigins::File { item: "t.csv", first_line: 1 };
    let (columns, misfits) = read_by_records(text.as_bytes(), &format, wanted, &mut places);
    (misfits.count == 0).then(|| cells(&table(columns, &decoder.schema).unwrap()))
}

/// Asserts that the fast path and `read_by_records` read the same, except that the fast path may refuse text with
/// quotes. Also asserts that `read_by_records` reads like arrow, except for stray quotes, and for times and numbers
/// that arrow rounds.
fn check(decoder: &mut PlainDecoder, text: &str) -> Result<(), TestCaseError> {
    let plain = decoder.decode(text, 1).map(|batch| cells(&batch));
    let expected = by_records(decoder, text);
    if plain.is_some() || !text.contains('"') {
        prop_assert_eq!(&plain, &expected, "{:?}", text);
    }
    let is_time =
        |kind: &Option<ColumnType>| matches!(kind, Some(ColumnType::Date | ColumnType::Timestamp));
    let arrow = by_arrow(decoder, text);
    let is_large = arrow.iter().flatten().flatten().any(|cell| cell.contains("inf"));
    if !(decoder.exact || decoder.kinds.iter().any(is_time) || is_large)
        && CsvScan::strays(text.as_bytes(), &decoder.csv).is_empty()
    {
        prop_assert_eq!(expected, arrow, "{:?}", text);
    }
    Ok(())
}

#[test]
fn usual_and_unusual_fields_are_read_as_arrow_reads_them() {
    let mut given = decoder(&KINDS);
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
        "1,.,a",
        "1,2\n",
        "1,2,3,4\n",
        "1,2\n3,4,5,6\n",
        "1.5,2,3",
        "9223372036854775808,1,a",
        "-,1,a",
        "1,-,a",
        "--1,1,a",
        "1,1.5.5,a",
        "1,2,3\n1,2,",
        "1,2,3\n1,2",
        "",
        "\n\r\n",
        "1,2,\0\n",
        "1,1e400,a\n1,1e-400,a\n1,-1E5,a\n1,1e+5,a\n1,5e,a",
        "\"1\",\"2.5\",\"x, \"\"y\"\"\n\"\n\"\",\"\",\"\"",
        "1,2,\"a\"b\n",
        "1,2,a\"b\"\n",
        "1,2,\"a\n",
        "1,2,\"a\nb,c\"\n\"a\",1,2\n",
    ] {
        check(&mut given, text).unwrap();
        check(&mut given, &text.repeat(99)).unwrap();
        check(&mut exact(&KINDS), &text.repeat(9)).unwrap();
    }
}

/// Asserts which tables take the fast path, because a test cannot measure speed.
#[test]
fn usual_tables_take_the_fast_path() {
    let mut decoder = decoder(&ALL_KINDS);
    let line = "TRUE,7,-1.5,\"one, \"\"two\"\"\",2026-11-21,2026-11-21T10:00:00.5Z\r\n";
    let batch = decoder.decode(&line.repeat(5000), 5000).unwrap();
    assert_eq!(batch.num_rows(), 5000);
    assert_eq!(cells(&batch)[4999][3], "one, \"two\"");
    assert_eq!(Some(cells(&batch)), by_arrow(&decoder, &line.repeat(5000)));
    assert!(decoder.decode("x,7,1,a,2026-11-21,2026-11-21T10:00:00Z\n", 1).is_none());
    assert!(decoder.decode("true,7,1,a,2026-11-31,2026-11-21T10:00:00Z\n", 1).is_none());
    assert!(decoder.decode("true,7,1,a,2026-11-21,2026-11-21T10:00:61Z\n", 1).is_none());
}

#[test]
fn codes_are_not_numbers_if_kinds_were_inferred() {
    for (kind, code, number) in [
        (ColumnType::Int64, "007", "7"),
        (ColumnType::Int64, "-0", "0"),
        (ColumnType::Int64, "+15", "15"),
        (ColumnType::Int64, "00000000000000000000001", "1"),
        (ColumnType::Float64, "007.5", "7.5"),
        (ColumnType::Float64, "-00.5", "-0.5"),
        (ColumnType::Float64, "+1.5", "1.5"),
        (ColumnType::Float64, "9007199254740993", "9007199254740992.0"),
        (ColumnType::Date, "2026-1-5", "2026-01-05"),
    ] {
        let table = |text: &str| format!("x,{text}\n").repeat(9);
        let kinds = [ColumnType::String, kind];
        assert!(exact(&kinds).decode(&table(code), 9).is_none(), "{code}");
        let given = decoder(&kinds).decode(&table(code), 9).unwrap();
        assert_eq!(cells(&given)[8][1], number);
        assert!(exact(&kinds).decode(&table(number), 9).is_some(), "{number}");
    }
}

#[test]
fn other_formats_do_not_take_the_fast_path() {
    let is_decoded = |csv| try_decoder(&[ColumnType::Int64], csv).is_some();
    assert!(is_decoded(CsvFormat::default()));
    assert!(!is_decoded(CsvFormat { delimiter: b'.', ..CsvFormat::default() }));
    let nulls = |null: &str| CsvFormat { null_values: vec![null.into()], ..CsvFormat::default() };
    assert!(is_decoded(nulls("NA")) && is_decoded(nulls("-")));
    assert!(!is_decoded(nulls("-1")) && !is_decoded(nulls("nan")) && !is_decoded(nulls("0")));
    assert!(try_decoder(&[], CsvFormat::default()).is_none());
}

#[test]
fn wide_tables_are_read() {
    let mut decoder = decoder(&[ColumnType::Int64; 5000]);
    let line: Vec<_> = (0..5000).map(|n| n.to_string()).collect();
    let line = line.join(",");
    let text = format!("{line}\n{line}\r\n{line}");
    let batch = decoder.decode(&text, 3).unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (3, 5000));
    assert_eq!(cells(&batch)[2][4999], "4999");
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[0-9.-]{1,20}",
        4 => "-?[0-9]{1,7}\\.[0-9]{1,8}",
        4 => "[0-9]{1,3}|[-+.eE é]|true|nan|NA|2026-11-2[0-9]",
        12 => Just(",".to_owned()),
        4 => "\n|\r\n|\r",
        1 => "\"|\"\"|\",\"|\"a, b\"|\"\n\"|\"-1.5\"",
    ]
}

proptest! {
    #[test]
    fn any_text_is_read_as_arrow_reads_it(
        kinds in prop::collection::vec(prop::sample::select(&ALL_KINDS), 1..5),
        pieces in prop::collection::vec(piece(), 0..30),
        // Repeats the text, so that it has more ends than are found at once, at any position of a block.
        times in prop_oneof![3 => Just(1), 1 => 2..400usize],
    ) {
        let null_values = vec!["NA".to_owned(), "-".to_owned()];
        let mut decoder = try_decoder(&kinds, CsvFormat { null_values, ..CsvFormat::default() }).unwrap();
        check(&mut decoder, &pieces.concat().repeat(times))?;
    }

    /// Records with the right number of fields: random text hardly ever has these.
    #[test]
    fn any_fields_are_read_as_arrow_reads_them(
        kinds in prop::collection::vec(prop::sample::select(&KINDS), 1..5),
        texts in prop::collection::vec(
            "-?[0-9]{0,19}|-?[0-9]{0,12}\\.[0-9]{0,18}|[a-zé ]{0,30}|\"[a,\n]{0,30}\"|", 1..40
        ),
        end in prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n"]),
    ) {
        let records: Vec<_> = texts.chunks_exact(kinds.len()).map(|record| record.join(",")).collect();
        let strings = vec![ColumnType::String; kinds.len()];
        check(&mut decoder(&strings), &records.join(end))?;
        for record in &records {
            check(&mut decoder(&kinds), &format!("{record}{end}{record}"))?;
        }
        let numbers: Vec<_> = texts.iter().filter(|text| text.parse::<f64>().is_ok()).collect();
        let numbers: String = numbers.iter().map(|number| format!("x,{number}{end}")).collect();
        check(&mut decoder(&[ColumnType::String, ColumnType::Float64]), &numbers)?;
    }

    /// Columns that the job does not need are checked like texts, but not filled.
    #[test]
    fn picked_columns_are_read_as_all_are(
        kinds in prop::collection::vec(prop::sample::select(&KINDS), 1..5),
        picked in prop::collection::btree_set(0..4_u32, 1..4),
        texts in prop::collection::vec("-?[0-9]{0,12}|[a-z]{0,9}|\"[a,\n]{0,9}\"|a?\"b|", 1..40),
    ) {
        let picked: Vec<u32> = picked.into_iter().filter(|&at| (at as usize) < kinds.len()).collect();
        let kind = |(at, kind): (usize, &ColumnType)| {
            if picked.contains(&(at as u32)) { *kind } else { ColumnType::String }
        };
        let kinds: Vec<_> = kinds.iter().enumerate().map(kind).collect();
        let mut some = picking_decoder(&kinds, CsvFormat::default(), Some(picked.clone())).unwrap();
        let text: String = texts.chunks_exact(kinds.len()).map(|it| it.join(",") + "\n").collect();
        let picked: Vec<_> = picked.iter().map(|&at| at as usize).collect();
        let of = |batch: Option<RecordBatch>| batch.map(|it| cells(&it.project(&picked).unwrap()));
        prop_assert_eq!(of(some.decode(&text, 1)), of(decoder(&kinds).decode(&text, 1)), "{:?}", text);
    }

    #[test]
    fn numbers_are_read_as_arrow_reads_them(
        number in "-?[0-9]{1,20}(\\.[0-9]{0,20})?|[0-9.eE+-]{1,24}|[0-9]{1,3}\\.?[0-9]{0,3}e-?[0-9]{1,3}",
        float in any::<f64>(),
        before in 0..20usize,
    ) {
        let mut floats = decoder(&[ColumnType::String, ColumnType::Float64]);
        let mut integers = decoder(&[ColumnType::String, ColumnType::Int64]);
        for number in [number, float.to_string(), format!("{float:e}")] {
            let text = format!("{},{number}\n", "x".repeat(before));
            check(&mut floats, &text)?;
            check(&mut integers, &text)?;
            check(&mut exact(&[ColumnType::String, ColumnType::Float64]), &text.repeat(9))?;
            check(&mut exact(&[ColumnType::String, ColumnType::Int64]), &text.repeat(9))?;
        }
    }
}
