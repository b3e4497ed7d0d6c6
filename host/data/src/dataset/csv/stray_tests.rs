//! Tests that cut and read files with stray quotes.

use super::tests::{CsvFixture, csv, format, pieces, read};
use crate::model::{Column, ColumnType, CsvFormat, SliceSize, TableFormat};
use insta::assert_snapshot;
use proptest::prelude::*;

/// The rows, with a bar between fields, and why other records were refused. Asserts that the result does not
/// depend on how the text is cut.
fn describe_with(text: &str, csv: CsvFormat, columns: &[(&str, ColumnType)]) -> String {
    let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
    let format = format(csv, columns);
    let describe = |size: SliceSize| {
        let (rows, refused) = read(&files, &format, &files.cut(&format.csv, size));
        let rows = rows.iter().map(|row| {
            row.iter().map(|field| field.as_deref().unwrap_or("null")).collect::<Vec<_>>().join("|")
        });
        let refused =
            refused.iter().map(|item| format!("line {}: {}", item.line.unwrap(), item.reason));
        rows.chain(refused).collect::<Vec<_>>().join("\n")
    };
    let whole = describe(SliceSize::Bytes(1 << 20));
    for size in [SliceSize::Bytes(1), SliceSize::Bytes(9), SliceSize::Rows(1), SliceSize::Rows(2)] {
        assert_eq!(describe(size), whole, "{size}");
    }
    whole
}

const COLUMNS: [(&str, ColumnType); 2] = [("id", ColumnType::Int64), ("text", ColumnType::String)];

fn describe(text: &str) -> String {
    describe_with(text, csv(true), &COLUMNS)
}

#[test]
fn a_quote_that_never_closes_fails_its_line() {
    let text = "id,text\n1,a\n2,\"b\n3,c\n4,d\n";
    let expected = "1|a\n3|c\n4|d\nline 3: column 2 'text': \"\\\"b\" has no closing quote";
    assert_eq!(describe(text), expected);
    assert_eq!(describe(&text.replace('\n', "\r\n")), expected);
    assert_eq!(describe(&text.replace('\n', "\r")), expected);
    assert_eq!(describe(&format!("\u{feff}{text}")), expected);
    assert_eq!(describe(text.trim_end()), expected);
    let tabs = CsvFormat { delimiter: b'\t', ..csv(true) };
    assert_eq!(describe_with(&text.replace(',', "\t"), tabs, &COLUMNS), expected);
    assert_snapshot!(describe("id,text\n1,a\n2,\"b"), @r#"
    1|a
    line 3: column 2 'text': "\"b" has no closing quote
    "#);
    assert_snapshot!(describe("id,text\n\"1,a\n\n2,\"b\n3,\"\n"), @r#"
    2|b
    3,
    line 2: column 1 'id': "\"1,a" has no closing quote
    "#);
}

#[test]
fn text_after_a_closing_quote_fails_its_line() {
    assert_snapshot!(describe("id,text\n1,\"ab\"cd\n2,\"c\" \n3,5\" pipe\n\"4\"\"5,x\n\"6\"7,\"x\"y\n8,\"\"\"\"\n"), @r#"
    2|c 
    3|5" pipe
    8|"
    line 2: column 2 'text': "\"ab\"cd" has text after its closing quote
    line 5: column 1 'id': "\"4\"\"5,x" has no closing quote
    line 6: column 1 'id': "\"6\"7,\"x\"y" has text after its closing quote
    "#);
    // The first field ("two\nlines") is right. In the second field, the quote before `hi` ends the field too early.
    assert_snapshot!(describe_with("a,b\n\"two\nlines\",\"He said \"hi\" to\nme\"\nx,y\n", csv(true), &[
        ("a", ColumnType::String),
        ("b", ColumnType::String),
    ]), @r#"
    x|y
    line 2: column 2 'b': "\"He said \"hi\" to" has text after its closing quote
    line 4: 1 field, but the table has 2 columns
    "#);
}

#[test]
fn two_stray_quotes_hold_a_field_together_unless_lines_are_records() {
    let text = "id,text\n1,\"a\n2,b\n3,c\"\n4,\"d\"\n";
    assert_eq!(describe(text), "1|a\n2,b\n3,c\n4|d");
    let lines = CsvFormat { quoted_newlines: false, ..csv(true) };
    let expected = "2|b\n3|c\"\n4|d\nline 2: column 2 'text': \"\\\"a\" has no closing quote";
    assert_eq!(describe_with(text, lines.clone(), &COLUMNS), expected);
    assert_eq!(describe_with(&text.replace('\n', "\r\n"), lines.clone(), &COLUMNS), expected);
    // All quotes are right, but each line is a record nevertheless.
    let lines = describe_with("id,text\n1,\"a\n2\",\"b\"\n", lines, &COLUMNS);
    assert_snapshot!(lines, @r#"
    line 2: column 2 'text': "\"a" has no closing quote
    line 3: column 1 'id': "2\"" is not a valid int64
    "#);
}

#[test]
fn a_header_with_a_stray_quote_is_one_line() {
    for (header, names) in
        [("a,\"b\n", ["a", "b"]), ("a,\"b\"c\n", ["a", "bc"]), ("\"a\"x,b\n", ["ax", "b"])]
    {
        let text = format!("{header}1,2\n3,\"4\"\n");
        let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
        let inferred = files.infer(&csv(true), false).unwrap();
        assert_eq!(inferred, names.map(|name| (name.to_owned(), ColumnType::Int64)));
        let mut cutter = super::Cutter::new(&csv(true), SliceSize::Bytes(1));
        let cut = cutter.open(&files.root(), "t.csv".to_owned()).unwrap();
        assert!(cut.has_stray_header());
        assert_eq!(cut.header(), header.as_bytes());
        let reported =
            describe_with(&text, csv(true), &names.map(|name| (name, ColumnType::Int64)));
        assert_eq!(reported, "1|2\n3|4");
    }
}

#[test]
fn a_file_of_nothing_but_stray_quotes_has_columns() {
    let files = CsvFixture::new(&[("t.csv", b"1,\"a \"b\" c\"\n2,\"a \"b\" c\"\n")]);
    let columns = files.infer(&csv(false), false).unwrap();
    let names: Vec<_> = columns.iter().map(|column| column.0.as_str()).collect();
    assert_eq!(names, ["column_0", "column_1"]);
}

#[test]
fn joined_lines_are_detected() {
    let joined = |text: &str, columns| {
        let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
        let mut found = Vec::new();
        for size in [1, 10, 1 << 20] {
            let mut cutter = super::Cutter::new(&csv(true), SliceSize::Bytes(size));
            let mut cut = cutter.open(&files.root(), "t.csv".to_owned()).unwrap();
            cut.look_for_joined(columns);
            while cut.next_slice().unwrap().is_some() {}
            let (lines, count) = cut.joined();
            found.push((lines.to_vec(), count));
        }
        assert!(found.iter().all(|one| *one == found[0]));
        found.swap_remove(0)
    };
    assert_eq!(
        joined("id,text\n1,\"a\n2,b\n3,c\"\n4,\"d\"\n5,\"x\n6,y\"", 2),
        (vec![(2, 4), (6, 7)], 2)
    );
    assert_eq!(joined("id,text\n1,\"Dear all,\n\nit is late.\nYours\"\n", 2), (vec![], 0));
    assert_eq!(joined("text\n\"two\nlines\"\n", 1), (vec![], 0));
    let long = format!("id,text\n1,\"{}\"\n{}", "x,y\n".repeat(400_000), "2,\"p\nq\"\n".repeat(99));
    assert_eq!(joined(&long, 2), (vec![(2, 400_002)], 1));
}

#[test]
fn a_long_field_is_not_a_stray_quote() {
    let field = "some text, \"\"quoted\"\"\n".repeat(300_000);
    let text = format!("id,text\n1,\"{field}\"\n2,b\n");
    let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
    let format = format(csv(true), &COLUMNS);
    let (rows, refused) = read(&files, &format, &files.slices(&format.csv, 1 << 20));
    assert_eq!((rows.len(), refused), (2, Vec::new()));
    assert_eq!(rows[0][1].as_deref(), Some(field.replace("\"\"", "\"").as_str()));
}

#[test]
fn codes_after_the_sample_are_refused() {
    let text = format!(
        "n,x,d\n{}007,7,2026-01-02\n7,007.5,2026-01-02\n7,7,2026-1-2\n+7,7,\n",
        "1,0.5,2026-01-02\n".repeat(70_000)
    );
    let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
    let columns = files.infer(&csv(true), false).unwrap();
    let kinds = columns.iter().map(|column| column.1).collect::<Vec<_>>();
    assert_eq!(kinds, [ColumnType::Int64, ColumnType::Float64, ColumnType::Date]);
    let columns = columns.into_iter().map(|(name, kind)| Column { name, kind }).collect();
    let mut format =
        TableFormat { csv: csv(true), columns, inferred: true, ..TableFormat::default() };
    let slices = files.slices(&format.csv, 1 << 20);
    let (rows, refused) = read(&files, &format, &slices);
    assert_eq!(rows.len(), 70_000);
    let refused: Vec<_> =
        refused.iter().map(|it| format!("{}: {}", it.line.unwrap(), it.reason)).collect();
    assert_snapshot!(refused.join("\n"), @r#"
    70002: column 1 'n': "007" would not stay unchanged as int64; set the column's type in schema
    70003: column 2 'x': "007.5" would not stay unchanged as float64; set the column's type in schema
    70004: column 3 'd': "2026-1-2" would not stay unchanged as date; set the column's type in schema
    70005: column 1 'n': "+7" would not stay unchanged as int64; set the column's type in schema
    "#);
    format.inferred = false;
    let (rows, refused) = read(&files, &format, &slices);
    assert_eq!((rows.len(), refused), (70_004, Vec::new()));
    assert_eq!(rows[70_000][0].as_deref(), Some("7"));
}

#[test]
fn columns_of_codes_are_text() {
    use ColumnType::{Float64, Int64, String};
    for (values, kind) in [
        (&["01234", "00501"][..], String),
        (&["94105", "01234"], String),
        (&["+14155550100"], String),
        (&["1e5", "2e7"], String),
        (&["12345", "12E45"], String),
        (&["1.5", "2e9"], Float64),
        (&["2e9", "1.5"], Float64),
        (&["1.10", "2.50"], Float64),
        (&["1.5", "007"], String),
        (&["1.5", "007E5"], String),
        (&["12E400", "1.5"], String),
        (&["1.5", "12E400"], String),
        (&["1.5", "0.1234567890123456789"], String),
        (&["12345678901234567.89"], String),
        (&["9007199254740993.0", "1.5"], String),
        (&["9007199254740992.0", "1.5"], Float64),
        (&["-73.98215484619140625", "0.30000000000000004"], Float64),
        (&["1.5", "9007199254740993"], String),
        (&["9007199254740993", "1.5"], String),
        (&["9007199254740993"], Int64),
        (&["9007199254740992", "1.5"], Float64),
        (&["9223372036854775808"], String),
        (&["1", "-0"], Float64),
        (&["0", "-1"], Int64),
        (&["1", "0x10"], String),
        (&["2026-01-05", "2026-01-05T10:00:00.123456789"], String),
    ] {
        let text = format!("v\n{}\n", values.join("\n"));
        let files = CsvFixture::new(&[("t.csv", text.as_bytes())]);
        assert_eq!(files.infer(&csv(true), false).unwrap()[0].1, kind, "{values:?}");
        let bare = CsvFormat { header: false, ..csv(true) };
        let files = CsvFixture::new(&[("t.csv", &text.as_bytes()[2..])]);
        assert_eq!(files.infer(&bare, false).unwrap()[0].1, kind, "{values:?}");
    }
}

/// A table with stray quotes in random places.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let field =
        prop::sample::select(vec!["a", "12", "\"b\"", "\"c, d\"", "\"e\nf\"", "\"\"", "5\" pipe"]);
    let row = (prop::collection::vec(field, 2), prop::sample::select(vec!["\n", "\r\n", "\r"]));
    let strays = prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..4);
    (prop::collection::vec(row, 1..40), strays).prop_map(|(rows, strays)| {
        let mut text: String = rows.iter().map(|(row, end)| row.join(",") + end).collect();
        for (place, after_delimiter) in strays {
            let places: Vec<_> = match after_delimiter {
                true => text.match_indices(',').map(|(at, _)| at + 1).collect(),
                false => (0..text.len()).collect(),
            };
            if !places.is_empty() {
                text.insert(places[place.index(places.len())], '"');
            }
        }
        text.into_bytes()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A damaged file has the same records however it is cut. Without `quoted_newlines` it has a record for
    /// each line.
    #[test]
    fn cuts_do_not_change_damaged_files(
        text in prop_oneof![4 => damaged(), 1 => pieces()],
        size in 1u64..200,
        rows in 1u64..9,
        header in any::<bool>(),
        quoted_newlines in any::<bool>(),
    ) {
        use ColumnType::String;
        let files = CsvFixture::new(&[("t.csv", &text)]);
        let csv = CsvFormat { quoted_newlines, ..csv(header) };
        let format = format(csv, &[("a", String), ("b", String)]);
        let whole = read(&files, &format, &files.slices(&format.csv, 1 << 20));
        for size in [SliceSize::Bytes(size), SliceSize::Rows(rows)] {
            prop_assert_eq!(&read(&files, &format, &files.cut(&format.csv, size)), &whole);
        }
        if !quoted_newlines {
            let lines = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
            let lines = lines.split(|byte| matches!(byte, b'\n' | b'\r'));
            let lines = lines.filter(|line| !line.is_empty()).count();
            let count = whole.0.len() + whole.1.len();
            prop_assert_eq!(count, lines - usize::from(header && lines > 0));
        }
    }
}
