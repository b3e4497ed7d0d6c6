use super::*;
use crate::Results;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Date32Array, DictionaryArray, Float32Array, Int8Array, LargeStringArray, StringViewArray,
    UInt64Array,
};

fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn people() -> RecordBatch {
    table([
        ("id", vec![1_i64, 2, 3].into_column()),
        ("age", vec![Some(31.5), None, Some(60.0)].into_column()),
        ("name", vec![Some("Ann"), Some("Ben"), None].into_column()),
        ("member", vec![Some(true), None, Some(false)].into_column()),
    ])
}

fn error_text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn columns_are_read_as_values() {
    let people = people();
    assert_eq!(people.f64("id").unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(people.i64("id").unwrap(), [1, 2, 3]);
    assert_eq!(people.i64_or_null("id").unwrap(), [Some(1), Some(2), Some(3)]);
    assert_eq!(people.f64_or_null("age").unwrap(), [Some(31.5), None, Some(60.0)]);
    assert_eq!(people.text_or_null("name").unwrap(), [Some("Ann"), Some("Ben"), None]);
    assert_eq!(people.bool_or_null("member").unwrap(), [Some(true), None, Some(false)]);
    let first = people.slice(0, 1);
    assert_eq!(
        (first.text("name").unwrap(), first.bool("member").unwrap()),
        (vec!["Ann"], vec![true])
    );
    // A slice counts its own rows.
    assert_eq!(people.slice(2, 1).f64("age").unwrap(), [60.0]);
}

#[test]
fn all_number_types_are_read() {
    let numbers = table([
        ("a", Arc::new(Int8Array::from(vec![-1])) as ArrayRef),
        ("b", Arc::new(UInt64Array::from(vec![7])) as ArrayRef),
        ("c", Arc::new(Float32Array::from(vec![0.5])) as ArrayRef),
    ]);
    assert_eq!(numbers.f32_matrix(&["c", "a", "b"]).unwrap(), [0.5, -1.0, 7.0]);
    assert_eq!((numbers.i64("a").unwrap(), numbers.i64("b").unwrap()), (vec![-1], vec![7]));
}

#[test]
fn matrix_values_are_in_row_order() {
    let table = table([
        ("x", vec![1_i64, 2].into_column()),
        ("skipped", vec!["a", "b"].into_column()),
        ("y", vec![0.25_f64, 0.5].into_column()),
    ]);
    assert_eq!(table.f32_matrix(&["x", "y"]).unwrap(), [1.0, 0.25, 2.0, 0.5]);
    assert!(table.f32_matrix(&[]).unwrap().is_empty());
    assert!(error_text(table.f32_matrix(&["x", "skipped"])).starts_with("column skipped is text"));
}

#[test]
fn dictionaries_and_views_are_read_as_text() {
    let coded: DictionaryArray<Int8Type> =
        [Some("b"), None, Some("a"), Some("b")].into_iter().collect();
    let all_null: DictionaryArray<Int32Type> = [None::<&str>; 4].into_iter().collect();
    let names = ["b", "", "a", "b"];
    let table = table([
        ("coded", Arc::new(coded) as ArrayRef),
        ("all null", Arc::new(all_null) as ArrayRef),
        ("view", Arc::new(StringViewArray::from_iter_values(names)) as ArrayRef),
        ("large", Arc::new(LargeStringArray::from_iter_values(names)) as ArrayRef),
    ]);
    let expected = [Some("b"), None, Some("a"), Some("b")];
    assert_eq!(table.text_or_null("coded").unwrap(), expected);
    assert_eq!(table.text_or_null("all null").unwrap(), [None; 4]);
    assert_eq!(table.text("view").unwrap(), names);
    assert_eq!(table.text("large").unwrap(), names);
    assert!(error_text(table.text("coded")).contains("column coded, row 2 of the mini-batch"));
    assert!(error_text(table.text("all null")).contains("row 1 of the mini-batch"));
    assert_eq!(table.slice(2, 2).text("coded").unwrap(), ["a", "b"]);
    for column in ["coded", "all null"] {
        assert!(table.slice(0, 0).text(column).unwrap().is_empty(), "{column}");
    }
}

#[test]
fn a_dictionary_of_numbers_may_have_null_values() {
    let keys = Int8Array::from(vec![1, 0, 1]);
    let values = Arc::new(Int64Array::from(vec![None, Some(9)]));
    let coded = Arc::new(DictionaryArray::new(keys, values)) as ArrayRef;
    let table = table([("coded", coded)]);
    assert_eq!(table.i64_or_null("coded").unwrap(), [Some(9), None, Some(9)]);
    assert!(error_text(table.f64("coded")).contains("column coded, row 2 of the mini-batch"));
}

#[test]
fn errors_name_the_column_the_row_and_existing_columns() {
    let people = people();
    let existing = "the table has: id Int64, age Float64, name Utf8, member Boolean";
    assert_eq!(
        error_text(people.f64("Age")),
        "the table has no column Age; it has: id Int64, age Float64, name Utf8, member Boolean"
    );
    assert_eq!(
        error_text(people.f64("name")),
        format!("column name is text (Utf8); expected numbers; {existing}")
    );
    assert_eq!(
        error_text(people.f64_or_null("member")),
        format!("column member is booleans (Boolean); expected numbers; {existing}")
    );
    assert_eq!(
        error_text(people.i64("age")),
        format!("column age is floats (Float64); expected whole numbers; {existing}")
    );
    assert_eq!(
        error_text(people.bool("id")),
        format!("column id is whole numbers (Int64); expected booleans; {existing}")
    );
    assert_eq!(
        error_text(people.f64("age")),
        "column age, row 2 of the mini-batch (the first is row 1): null; f64_or_null takes nulls"
    );
    let days = table([("day", Arc::new(Date32Array::from(vec![1])) as ArrayRef)]);
    assert!(
        error_text(days.f64("day")).starts_with("column day is dates (Date32); expected numbers")
    );
}

#[test]
fn an_integer_outside_the_range_is_named() {
    let numbers = vec![None, Some(u64::MAX)];
    let table = table([("big", Arc::new(UInt64Array::from(numbers)) as ArrayRef)]);
    let expected = "column big, row 2 of the mini-batch (the first is row 1): the number is too \
                    large for i64; read the column with f64";
    assert_eq!(error_text(table.i64_or_null("big")), expected);
    assert!(table.f64_or_null("big").unwrap()[1] > Some(1.8e19));
}

#[test]
fn new_columns_are_appended_or_replace_old_ones() {
    let people = people();
    let scores = vec![Some(0.5), None, Some(1.0)];
    let age = vec![1_i32, 2, 3].into_column();
    let new = [("score", scores.clone().into_column()), ("age", age)];
    let Results::Table(table) = Results::with_columns(&people, new).unwrap() else { panic!() };
    let schema = table.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "age", "name", "member", "score"]);
    assert_eq!(table.i64("age").unwrap(), [1, 2, 3]);
    assert_eq!(table.f64_or_null("score").unwrap(), scores);
    assert_eq!(table.i64("id").unwrap(), [1, 2, 3]);
    assert_eq!(
        error_text(Results::with_columns(&people, [("score", vec![1.0])])),
        "the new column score has 1 values; expected 3, one for each row"
    );
    let empty = Results::with_columns(&people.slice(0, 0), [("score", Vec::<f64>::new())]);
    assert_eq!(empty.unwrap().succeeded(), 0);
}
