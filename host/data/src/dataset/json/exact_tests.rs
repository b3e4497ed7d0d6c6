//! Tests that no digit and no value is lost between a file and its table.

use super::field::{field_of, is_json};
use super::tests::{JsonFixture, format_of, inferred};
use crate::dataset::csv::MAX_SLICE;
use crate::model::{Column, ColumnType, SliceSize, TableFormat};
use arrow::datatypes::{DataType, Field, Schema};
use insta::assert_snapshot;

const WHOLE: SliceSize = SliceSize::Bytes(MAX_SLICE);

/// The type of a column `a` with these values, as text, and the values that are read from it.
fn column(values: &[&str]) -> (String, Vec<String>) {
    let lines: Vec<_> = values.iter().map(|value| format!("{{\"a\":{value}}}\n")).collect();
    let file = JsonFixture::new(lines.concat());
    let (schema, _) = file.infer();
    let (rows, refused, unknown) = file.read_as(&inferred(&schema), WHOLE);
    assert!(refused.is_empty() && unknown.is_empty(), "{refused:?} {unknown:?}");
    let values = rows.iter().map(|row| match row.as_str() {
        "{}" => "null".to_owned(),
        row => row.strip_prefix("{\"a\":").unwrap().strip_suffix('}').unwrap().to_owned(),
    });
    (describe(schema.field(0)), values.collect())
}

fn describe(field: &Field) -> String {
    match field.data_type() {
        _ if is_json(field) => "json".to_owned(),
        DataType::List(item) => format!("[{}]", describe(item)),
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| format!("{} {}", field.name(), describe(field)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The types and values that DuckDB, polars and pandas give, except that we use text where they would round.
#[test]
fn numbers_keep_their_digits() {
    for (values, kind) in [
        (&["9007199254740993", "18446744073709551615"][..], "UInt64"),
        (&["1", "9223372036854775808", "null"], "UInt64"),
        (&["-9223372036854775808", "9223372036854775807"], "Int64"),
        (&["9007199254740992", "0.5"], "Float64"),
        (&["0.1", "0.30000000000000004", "5e-324", "1.7976931348623157e308"], "Float64"),
        (&["[1]", "[18446744073709551615,null]"], "[UInt64]"),
        (&["[{\"b\":18446744073709551615}]"], "[{b UInt64}]"),
        (&["{\"b\":[[9223372036854775808]]}"], "{b [[UInt64]]}"),
    ] {
        let (found, seen) = column(values);
        assert_eq!(found, kind, "{values:?}");
        let number = |text: &str| text.parse::<f64>().ok().filter(|_| found == "Float64");
        for (value, seen) in values.iter().zip(&seen) {
            assert!(
                value == seen || number(value).is_some_and(|it| Some(it) == number(seen)),
                "{value} {seen}"
            );
        }
    }
    // Values that no number type keeps become text.
    for values in [
        &["-1", "9223372036854775808"][..],
        &["18446744073709551616"],
        &["-9223372036854775809"],
        &["9007199254740993", "0.5"],
        &["0.5", "9007199254740993"],
        &["1", "0.1234567890123456789"],
        &["1e400"],
        &["1e-400"],
        &["9007199254740993.0"],
        &["1", "\"x\""],
        &["true", "1", "\"x\""],
    ] {
        let (found, seen) = column(values);
        let texts = values.iter().map(|value| format!("\"{}\"", value.trim_matches('"')));
        assert_eq!((found.as_str(), seen), ("Utf8", texts.collect::<Vec<_>>()), "{values:?}");
    }
    let nested = column(&["[{\"b\":[0.5]}]", "[{\"b\":[9007199254740993]}]"]);
    assert_eq!(nested.0, "[{b [Utf8]}]");
    assert_eq!(nested.1[1], "[{\"b\":[\"9007199254740993\"]}]");
    // JSON has one kind of number, so `-0` in a column of whole numbers becomes `0`.
    assert_eq!(column(&["1", "-0"]), ("Int64".to_owned(), vec!["1".to_owned(), "0".to_owned()]));
    assert_eq!(column(&["1", "1e3"]).0, "Float64");
    assert_eq!(column(&["-0.0"]), ("Float64".to_owned(), vec!["-0.0".to_owned()]));
}

#[test]
fn values_of_several_shapes_are_json() {
    for values in [
        &["{}", "null", "{}"][..],
        &["{}", "[]"],
        &["1", "[1]"],
        &["[1.0]", "[[0.0,1.0e0],[1]]"],
        &["[1,\"x\",{}]"],
        &["[{}]", "[]"],
        &["\"x\"", "{\"b\" : 18446744073709551616}", "true", "null"],
        &["[[[{}]]]"],
    ] {
        let (found, seen) = column(values);
        let texts = values.iter().map(|value| match *value {
            "null" => "null".to_owned(),
            value => serde_json::Value::from(value).to_string(),
        });
        assert_eq!((found.as_str(), seen), ("json", texts.collect::<Vec<_>>()), "{values:?}");
    }
    let (found, seen) = column(&["{\"b\":{},\"c\":[1],\"d\":1}", "{\"c\":{\"e\":1},\"d\":2}"]);
    assert_eq!(found, "{b json, c json, d Int64}");
    assert_eq!(seen[1], "{\"c\":\"{\\\"e\\\":1}\",\"d\":2}");
    assert_eq!(column(&["[{\"b\":1},{\"b\":[1]}]"]).0, "[{b json}]");
    // Nothing is known of these values.
    assert_eq!((column(&["null"]).0, column(&["[]"]).0), ("Utf8".to_owned(), "[Utf8]".to_owned()));
}

/// The objects of GeoJSON (RFC 7946).
#[test]
fn coordinates_of_several_depths_are_kept() {
    let file = JsonFixture::new(
        "{\"type\":\"Point\",\"coordinates\":[1.0,2.0]}\n\
         {\"type\":\"LineString\",\"coordinates\":[[0.0,0.0],[1.0,1.0]]}\n\
         {\"type\":\"GeometryCollection\",\"geometries\":[{\"type\":\"Point\",\"coordinates\":[7.0,8.0]}]}\n",
    );
    let (schema, doubts) = file.infer();
    assert_snapshot!(doubts.join("\n"), @"column 'coordinates' is json (the text of each value is kept): it holds a list here, and another kind of value before: t.jsonl, about line 2");
    assert_snapshot!(file.describe_as(&inferred(&schema)), @r#"
    {"type":"Point","coordinates":"[1.0,2.0]"}
    {"type":"LineString","coordinates":"[[0.0,0.0],[1.0,1.0]]"}
    {"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[7.0,8.0]}]}
    "#);
}

#[test]
fn the_final_type_of_a_column_is_reported() {
    let file = JsonFixture::new("{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":[]}\n{\"a\":true}\n");
    let (schema, doubts) = file.infer();
    assert!(is_json(schema.field(0)));
    assert_snapshot!(doubts.join("\n"), @"column 'a' is json (the text of each value is kept): it holds a list here, and another kind of value before: t.jsonl, about line 3");
}

#[test]
fn a_column_of_json_takes_any_value() {
    let columns = [("id", ColumnType::UInt64), ("j", ColumnType::Json), ("s", ColumnType::String)];
    let columns = columns.map(|(name, kind)| field_of(&Column { name: name.to_owned(), kind }));
    let file = JsonFixture::new(
        "{\"id\":1,\"j\":{\"a\" : [1e400, \"\\u00e9\\n\"]}}\n{\"id\":2,\"j\":null}\n{\"id\":3}\n\
         {\"id\":4,\"j\":\"text\",\"s\":\"x\"}\n{\"id\":18446744073709551615, \"j\": -0.10 }\n\
         {\"id\":6,\"j\":01}\n{\"id\":7,\"j\":[1,]}\n{\"id\":-8,\"j\":[]}\n{\"id\":9,\"j\":{},\"s\":[]}\n\
         {\"id\":10,\"j\":false,\"more\":1}\n",
    );
    assert_snapshot!(file.describe_as(&format_of(&Schema::new(columns.to_vec()))), @r#"
    {"id":1,"j":"{\"a\" : [1e400, \"\\u00e9\\n\"]}"}
    {"id":2}
    {"id":3}
    {"id":4,"j":"\"text\"","s":"x"}
    {"id":18446744073709551615,"j":"-0.10"}
    {"id":10,"j":"false"}
    line 6: is not JSON: invalid number at character 14
    line 7: is not JSON: trailing comma at character 16
    line 8: column 'id': -8 is not a valid uint64
    line 9: column 's': [] is not a valid string
    "#);
}

#[test]
fn values_after_the_sample_are_not_rounded() {
    let (schema, _) =
        JsonFixture::new("{\"i\":1,\"f\":0.5,\"l\":[0.5],\"u\":18446744073709551615}\n").infer();
    let file = JsonFixture::new(
        "{\"i\":9223372036854775808}\n{\"i\":9007199254740993.0}\n{\"i\":1.00000000000000000001}\n\
         {\"f\":9007199254740993}\n{\"f\":0.1234567890123456789}\n{\"f\":0.10000000000000001}\n\
         {\"l\":[1,9007199254740993]}\n{\"u\":-1}\n{\"u\":1e3}\n{\"f\":1e400}\n{\"i\":\"1\"}\n",
    );
    assert_snapshot!(file.describe_as(&inferred(&schema)), @r#"
    {"i":9007199254740993}
    {"f":0.1}
    {"u":1000}
    line 1: column 'i': 9223372036854775808 is not a valid int64
    line 3: column 'i': 1.00000000000000000001 is not a valid int64
    line 4: column 'f': 9007199254740993 would be rounded as float64; set schema_inference to full, or the column's type in schema: string keeps all digits, float64 rounds
    line 5: column 'f': 0.1234567890123456789 would be rounded as float64; set schema_inference to full, or the column's type in schema: string keeps all digits, float64 rounds
    line 7: column 'l[1]': 9007199254740993 would be rounded as float64; set schema_inference to full, or the column's type in schema: string keeps all digits, float64 rounds
    line 8: column 'u': -1 is not a valid uint64
    line 10: column 'f': 1e400 is not a valid float64
    line 11: column 'i': "1" is not a valid int64
    "#);
    // If the job file says float64, values are rounded to the nearest float.
    let columns = vec![Field::new("f", DataType::Float64, true)];
    let file = JsonFixture::new(
        "{\"f\":9007199254740993}\n{\"f\":0.1234567890123456789}\n{\"f\":1e400}\n",
    );
    assert_snapshot!(file.describe_as(&format_of(&Schema::new(columns))), @r#"
    {"f":9.007199254740992e15}
    {"f":0.12345678901234568}
    line 3: column 'f': 1e400 is not a valid float64
    "#);
}

#[test]
fn times_are_exact_or_refused() {
    let columns = [("day", ColumnType::Date), ("at", ColumnType::Timestamp)];
    let columns = columns.map(|(name, kind)| field_of(&Column { name: name.to_owned(), kind }));
    let file = JsonFixture::new(
        "{\"day\":\"1500-01-01\",\"at\":\"1500-01-01T00:00:00Z\"}\n{\"day\":\"+10000-01-01\"}\n\
         {\"at\":\"2026-11-22T10:00:00.123456000+05:30\"}\n{\"day\":\"2026-11-22T00:00:00.000Z\"}\n\
         {\"at\":\"9999-12-31T23:59:59.999999-01:00\"}\n{\"at\":\"2026-11-22T10:00:00.1234567\"}\n\
         {\"at\":\"10000-01-01T00:00:00Z\"}\n{\"day\":\"2026-11-22T23:30:00-05:00\"}\n\
         {\"day\":\"2026-11-22T10:00:00\"}\n{\"at\":\"2016-12-31T23:59:60Z\"}\n{\"at\":9223372036854775808}\n\
         {\"day\":2147483648}\n{\"at\":1.0000000000000000001}\n",
    );
    assert_snapshot!(file.describe_as(&format_of(&Schema::new(columns.to_vec()))), @r#"
    {"day":"1500-01-01","at":"1500-01-01T00:00:00Z"}
    {"day":"+10000-01-01"}
    {"at":"2026-11-22T04:30:00.123456Z"}
    {"day":"2026-11-22"}
    {"at":"+10000-01-01T00:59:59.999999Z"}
    line 6: column 'at': "2026-11-22T10:00:00.1234567" is not a valid timestamp
    line 7: column 'at': "10000-01-01T00:00:00Z" is not a valid timestamp
    line 8: column 'day': "2026-11-22T23:30:00-05:00" is not a valid date
    line 9: column 'day': "2026-11-22T10:00:00" is not a valid date
    line 10: column 'at': "2016-12-31T23:59:60Z" is not a valid timestamp
    line 11: column 'at': 9223372036854775808 is not a valid timestamp
    line 12: column 'day': 2147483648 is not a valid date
    line 13: column 'at': 1.0000000000000000001 is not a valid timestamp
    "#);
}

#[test]
fn keys_without_a_column_are_counted() {
    let found = |sample: &str, text: &str| {
        let (schema, _) = JsonFixture::new(sample).infer();
        let (rows, _, unknown) = JsonFixture::new(text).read_as(&inferred(&schema), WHOLE);
        let reported = unknown.iter().map(|keys| {
            format!(
                "{} of {}: {:?}, {} line {}",
                keys.records,
                rows.len(),
                keys.names,
                keys.item,
                keys.line
            )
        });
        reported.collect::<Vec<_>>().join("; ")
    };
    // Lines that are all alike, and lines that differ.
    assert_snapshot!(found("{\"a\":1}\n", "\n{\"a\":1,\"b\":2}\n{\"a\":2,\"b\":3}\n"), @r#"2 of 2: ["b"], t line 2"#);
    assert_snapshot!(found("{\"a\":1}\n", "{\"a\":1}\n{\"b\":1}\n{\"a\":\"x\",\"c\":1}\n{\"a\":2,\"b\":{}}\n"), @r#"2 of 3: ["b"], t line 2"#);
    // Inside objects and lists.
    assert_snapshot!(found("{\"a\":{\"x\":[{\"y\":1}]}}\n", "{\"a\":{\"x\":[]}}\n{\"a\":{\"x\":[{\"y\":1},{\"z\":1}],\"w\":0}}\n"), @r#"1 of 2: ["a.x.z", "a.w"], t line 2"#);
    assert_snapshot!(found("{\"a\":{}}\n", "{\"a\":{\"x\":[]}}\n{\"a\":{},\"b\":1}\n"), @r#"1 of 2: ["b"], t line 2"#);
    assert_eq!(
        found("{\"a\":{\"x\":1},\"b\":1}\n", "{\"b\":1}\n{\"a\":null}\n{\"a\":{\"x\":2}}\n"),
        ""
    );
    // Refused lines do not count, whether the remaining lines are alike or not.
    let refused = "{\"a\":1,\"b\":1}\nno\n";
    assert_snapshot!(found("{\"a\":1}\n", &format!("no\n{{\"a\":{{}},\"b\":1}}\n{refused}")), @r#"1 of 1: ["b"], t line 3"#);
    assert_snapshot!(found("{\"a\":1}\n", &format!("{{\"a\":[],\"c\":1}}\n{{\"a\":2}}\n\n{refused}")), @r#"1 of 2: ["b"], t line 4"#);
    assert_eq!(found("{\"a\":1}\n", "{\"a\":[],\"c\":1}\n{\"a\":2}\n"), "");
    // If the job file names the columns, other keys are not counted.
    let (schema, _) = JsonFixture::new("{\"a\":1}\n").infer();
    let (_, _, unknown) =
        JsonFixture::new("{\"a\":1,\"b\":1}\n").read_as(&format_of(&schema), WHOLE);
    assert!(unknown.is_empty());
    // Keys that the job drops are known: in lines that are all alike, and in others.
    let format = TableFormat { dropped: vec!["b".to_owned()], ..inferred(&schema) };
    for (text, expected) in [
        ("{\"a\":1,\"b\":1}\n{\"a\":2,\"b\":2}\n", ""),
        ("{\"a\":1,\"b\":1}\n{\"b\":{},\"a\":2}\n", ""),
        ("{\"a\":1,\"b\":1,\"c\":1}\n", "c"),
        ("{\"a\":1,\"b\":1}\n{\"c\":1}\n", "c"),
    ] {
        let (_, _, unknown) = JsonFixture::new(text).read_as(&format, WHOLE);
        let names: Vec<_> = unknown.iter().flat_map(|it| &it.names).map(String::as_str).collect();
        assert_eq!(names.join(" "), expected, "{text}");
    }
}
