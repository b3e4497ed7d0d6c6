//! Tests that the fast path and arrow-json give the same tables.

use super::*;
use crate::dataset::json::decode::JsonDecoder;
use arrow::datatypes::{Field, Schema};
use proptest::prelude::*;

fn schema() -> SchemaRef {
    let kinds = [
        ("i", DataType::Int64),
        ("n", DataType::UInt64),
        ("f", DataType::Float64),
        ("b", DataType::Boolean),
        ("t", DataType::Utf8),
    ];
    let fields = kinds.map(|(name, kind)| Field::new(name, kind, true));
    Arc::new(Schema::new(fields.to_vec()))
}

fn plain_lines(exact: bool) -> PlainLines {
    PlainLines::new(&schema(), exact).unwrap()
}

fn plain(text: &str, exact: bool) -> Option<RecordBatch> {
    let rows = crate::dataset::json::FilledLines::new(text.as_bytes()).count();
    plain_lines(exact).decode(text.as_bytes(), rows)
}

fn by_arrow(text: &str, exact: bool) -> Option<RecordBatch> {
    let rows = crate::dataset::json::FilledLines::new(text.as_bytes()).count();
    JsonDecoder::new(schema(), exact, None).decode_with_arrow_json(text.as_bytes(), rows)
}

#[test]
fn lines_that_are_alike_are_read_fast() {
    for text in [
        "{\"i\":1,\"f\":0.5,\"b\":true,\"t\":\"x\"}\n{\"i\":-2,\"f\":1e300,\"b\":null,\"t\":\"\"}\n",
        "{\"i\": 1, \"f\": -0.25}\r\n\r\n{\"i\": 9223372036854775807, \"f\": 12}",
        "\n{ \"t\" : \"a, {b}: é\", \"i\":0}\r{ \"t\" : null, \"i\":null}",
        "{\"x\":\"unknown\",\"f\":0,\"y\":null}\n{\"x\":17,\"f\":-0.0,\"y\":false}\n",
        "{\"f\":1.7976931348623157}\n{\"f\":1234567890.123456789}\n{\"f\":3.0}\n",
        "{\"i\":1.0}\n{\"i\":2e3}\n",
        "{\"unknown\":1}\n",
        "{\"unknown\":1e999}\n",
        "{\"n\":18446744073709551615,\"t\":1}\n{\"n\":0,\"t\":1.50}\n{\"n\":null,\"t\":true}\n",
        "{\"i\":9007199254740993.0,\"f\":9007199254740992}\n",
    ] {
        for exact in [false, true] {
            let batch = plain(text, exact);
            let exact_misfit = exact && text.contains("1234567890.123456789");
            assert_eq!(batch.is_none(), exact_misfit, "{text:?} is plain");
            assert_eq!(batch, by_arrow(text, exact), "{text:?}");
        }
    }
}

#[test]
fn other_lines_are_left_to_arrow_json() {
    for text in [
        "",
        "{}\n",
        "[1]\n",
        "{\"i\":1}\n{\"f\":1}\n",
        "{\"i\":1}\n{\"i\":1,\"f\":1}\n",
        "{\"i\":1,\"f\":1}\n{\"f\":1,\"i\":1}\n",
        "{\"i\":1}\n{\"i\" :1}\n",
        "{\"i\":1,\"i\":2}\n",
        "{\"i\":01}\n",
        "{\"f\":1.}\n",
        "{\"f\":.5}\n",
        "{\"f\":-}\n",
        "{\"f\":}\n",
        "{\"f\":1e999}\n",
        "{\"i\":1.5}\n",
        "{\"i\":\"1\"}\n",
        "{\"b\":1}\n",
        "{\"t\":01}\n",
        "{\"t\":1.2.3}\n",
        "{\"t\":tru}\n",
        "{\"t\":{}}\n",
        "{\"n\":-1}\n",
        "{\"n\":18446744073709551616}\n",
        "{\"t\":\"a\\n\"}\n",
        "{\"t\":\"a\nb\"}\n",
        "{\"t\":\"a\u{1}\"}\n",
        "{\"t\":\"a\"b\"}\n",
        "{\"t\":\"a\" \"b\"}\n",
        "{\"t\":\"a}\n",
        "{\"i\":1}}\n",
        "{\"i\":1\n",
        "{\"i\":1} \n",
        " {\"i\":1}\n",
        "{\"i\":1}{\"i\":2}\n",
        "{\"i\":1},{\"i\":2}\n",
        "{\"i\":1,}\n",
        "{\"i\":1,\"x\":{}}\n",
        "{\"i\":1,\"x\":[1,2]}\n",
        "{\"i\":1,\"x\":nul}\n",
        "{\"i\":1,\"x\":01}\n",
        "{\"i\":1,\r\"f\":1}\n",
    ] {
        assert_eq!(plain(text, false), None, "{text:?}");
    }
    assert_eq!(plain("{\"f\":9007199254740993}\n", true), None, "rounded");
    assert_eq!(plain_lines(false).decode(b"{\"t\":\"\xff\"}\n", 1), None);
    let list = DataType::new_list(DataType::Int64, true);
    let nested = Arc::new(Schema::new(vec![Field::new("l", list, true)]));
    assert!(PlainLines::new(&nested, false).is_none());
    let json = Arc::new(Schema::new(vec![super::super::field::json_field("j")]));
    assert!(PlainLines::new(&json, false).is_none());
}

#[test]
fn keys_without_a_column_are_detected() {
    let mut lines = plain_lines(true);
    assert!(lines.decode(b"{\"x\":1,\"i\":2,\"y\":null}\n", 1).is_some());
    assert_eq!(lines.take_unknown(&[]), Some(vec!["x".to_owned(), "y".to_owned()]));
    assert!(lines.decode(b"{\"i\":2}\n", 1).is_some());
    assert_eq!(lines.take_unknown(&[]), None);
}

const NUMBER: &str = "-?[01]{1,2}([.][05]{0,2})?(e[+-]?[0-9]{1,3})?|-?[1-9][0-9]{0,21}|[1-9][0-9]{0,17}[.][0-9]{1,18}|null";

/// Values for the keys i, n, f, b, t and a key without a column. Most of the values fit.
fn values() -> impl Strategy<Value = [String; 6]> {
    let text = || "null|\"[a,}\u{1}é]{0,3}\"".boxed();
    let truth = "true|false|null|1".boxed();
    let plain = prop_oneof![text(), NUMBER.boxed()].boxed();
    [NUMBER.boxed(), NUMBER.boxed(), NUMBER.boxed(), truth, plain, text()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The fast path reads the lines that it accepts as arrow-json does.
    #[test]
    fn the_fast_path_agrees_with_arrow_json(
        keys in prop::sample::subsequence(vec![0_usize, 1, 2, 3, 4, 5], 1..=6).prop_shuffle(),
        lines in prop::collection::vec(values(), 1..4),
        end in prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n"]),
        space in prop::sample::select(vec!["", " "]),
        exact in any::<bool>(),
    ) {
        let mut text = String::new();
        for line in &lines {
            let names = ["i", "n", "f", "b", "t", "u"];
            let field = |&at: &usize| format!("\"{}\":{space}{}", names[at], line[at]);
            let fields: Vec<_> = keys.iter().map(field).collect();
            text += &format!("{{{}}}{end}", fields.join(&format!(",{space}")));
        }
        if let Some(batch) = plain(&text, exact) {
            prop_assert_eq!(Some(batch), by_arrow(&text, exact), "{:?}", text);
        }
    }
}
