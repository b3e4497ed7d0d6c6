use super::SpecFixture;
use super::version2::LEAST;
use crate::model::{Column, ColumnType, InputKind, TableInput, TableKind};
use std::fs;

fn with_table(table: &str, mode: &str) -> (SpecFixture, String) {
    let fixture = SpecFixture::new();
    fs::write(fixture.0.path().join("data/MLTable"), table).expect("a table file");
    let text = LEAST.replace(
        "type: uri_folder, path: data",
        &format!("type: mltable, mode: {mode}, path: data"),
    );
    (fixture, text)
}

/// Rule C30 in docs/parallel-run-step.md: an MLTable with mode `direct` is a table. With any other mode, it
/// is a list of files.
#[test]
fn table_files_say_how_text_is_read() {
    let table = "type: mltable\npaths:\n  - file: ./a.csv\n  - pattern: ./more/*.csv\ntransformations:\n\
                 \x20 - read_delimited: {delimiter: ';', encoding: utf8, header: no_header}\n";
    let (fixture, text) = with_table(table, "direct");
    let spec = fixture.load(&text, &[]).expect("a job");
    let InputKind::Tables { inputs, .. } = &spec.input_kind else {
        panic!("{:?}", spec.input_kind)
    };
    assert_eq!((inputs[0].csv.delimiter, inputs[0].csv.header), (b';', false));
    insta::assert_snapshot!(fixture.redact(&spec.inputs[0].paths.join("\n")), @"
    [dir]/data/a.csv
    [dir]/data/more/*.csv
    ");
    let (fixture, text) = with_table(table, "ro_mount");
    let spec = fixture.load(&text, &[]).expect("a job");
    assert_eq!(spec.input_kind, InputKind::Files { mini_batch_files: 10 });
    assert_eq!(spec.inputs[0].paths.len(), 2);
    // The user may name the data files instead of the table file.
    let spec = fixture.load(text.replace("ro_mount", "direct"), &[("inputs.d.path", "data/*.csv")]);
    assert!(matches!(spec.expect("a job").input_kind, InputKind::Tables { .. }));
}

/// C30: mistakes in an `MLTable` file.
#[test]
fn table_files_that_do_not_fit() {
    let error = |table: &str| {
        let (fixture, text) = with_table(table, "direct");
        fixture.load(&text, &[]).expect_err("it has errors")
    };
    insta::assert_snapshot!(error("paths: [{file: a.csv}]\ntransformations: [{filter: 'col(\"a\") > 1'}, {skip: 3}, {take: 0}, {keep_columns: {a: b}}]\n"), @r#"
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: the transformation "filter" is not supported; supported are read_delimited, read_json_lines, read_parquet, take, keep_columns, drop_columns and convert_column_types; without it, prepare the rows beforehand
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: the transformation "skip" is not supported; supported are read_delimited, read_json_lines, read_parquet, take, keep_columns, drop_columns and convert_column_types; without it, prepare the rows beforehand
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: take: found 0; expected a whole number of rows of at least 1
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: keep_columns: found a map; expected the name of a column, or a list of names
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: has no read_delimited, read_json_lines or read_parquet among its transformations, which a table with mode direct needs
    "#);
    insta::assert_snapshot!(error("paths: [{file: a.csv}]\n"), @"job.yaml:4: inputs.d.path: [dir]/data/MLTable: has no read_delimited, read_json_lines or read_parquet among its transformations, which a table with mode direct needs");
    insta::assert_snapshot!(error("paths: [{file: 'azureml://x'}]\ntransformations:\n  - read_delimited: {encoding: latin1, header: from_first_file, skip: 3}\n"), @r#"
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: read_delimited.encoding: found "latin1"; only utf8 and ascii can be read
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: read_delimited.skip: is not supported; remove it
    job.yaml:4: inputs.d.paths[0]: found "azureml://x", which is in Azure; fetch it first, and name the files here by --set inputs.d.path=...
    "#);
    insta::assert_snapshot!(error("paths: [{file: a.csv}, {file: b.csv}]\ntransformations:\n  - read_delimited: {header: from_first_file, empty_as_string: true, infer_column_types: false, include_path_column: true}\n  - read_json_lines: {invalid_lines: drop, delimiter: ','}\n"), @r#"
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: read_delimited.header: found from_first_file, which is supported for tables of one file only; give every file a header, or no file
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: read_delimited.empty_as_string: found true, which Sandmill does not support; remove it, or prepare the rows beforehand
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: read_delimited.infer_column_types: found false, which Sandmill does not support; remove it, or prepare the rows beforehand
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: read_delimited.include_path_column: found true, which Sandmill does not support; remove it, or prepare the rows beforehand
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: has several steps that read files (read_...); keep one of them
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: read_json_lines.invalid_lines: found "drop", which Sandmill does not support; remove it, or prepare the rows beforehand
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: read_json_lines.delimiter: is not supported; remove it
    "#);
    insta::assert_snapshot!(error("paths: [{file: a.csv}]\ntransformations:\n  - read_delimited\n  - convert_column_types: [{columns: a, column_type: int8}, {columns: b}]\n  - convert_column_types: [{columns: d, column_type: {datetime: {formats: ['%d/%m/%Y']}}}]\n  - convert_column_types: 5\n"), @r#"
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: convert_column_types: found "int8"; supported are int, float, string, boolean, datetime and stream_info
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: convert_column_types: datetime has options, which Sandmill does not support; write datetime without options if the values are in the form of ISO 8601, or true and false; otherwise write string
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: convert_column_types: found 5; expected columns and column_type
    "#);
    insta::assert_snapshot!(error("paths: [{file: a.parquet}]\ntransformations: [read_parquet, {drop_columns: a}, {convert_column_types: {columns: b, column_type: int}}]\n"), @"
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: drop_columns is only for text files, and Parquet files define their own types; use keep_columns, or prepare the rows beforehand
    job.yaml:4: inputs.d.path: [dir]/data/MLTable: convert_column_types is only for text files, and Parquet files define their own types; use keep_columns, or prepare the rows beforehand
    job.yaml:4: inputs.d.drop_columns: is for inputs of format csv, tsv or jsonl only, and input d is of format parquet; remove this key
    job.yaml:4: inputs.d.types: is for inputs of format csv, tsv or jsonl only, and input d is of format parquet; remove this key
    ");
    let (fixture, text) = with_table("", "direct");
    fs::remove_file(fixture.0.path().join("data/MLTable")).expect("the file");
    insta::assert_snapshot!(fixture.load(&text, &[]).expect_err("it has errors"), @"job.yaml:4: inputs.d.path: [dir]/data/MLTable: there is no such file; name the folder of an MLTable file, or the data files themselves");
}

/// The only table of a job with these transformations in its `MLTable`.
fn table(transformations: &str) -> (TableInput, Option<u64>) {
    let (fixture, text) = with_table(
        &format!("type: mltable\npaths:\n- file: ./a.csv\ntransformations:\n{transformations}"),
        "direct",
    );
    let spec = fixture.load(&text, &[]).expect("a job");
    let InputKind::Tables { mut inputs, .. } = spec.input_kind else {
        panic!("{:?}", spec.input_kind)
    };
    (inputs.remove(0), spec.inputs[0].take)
}

/// C30: a table as Azure's SDK saves it, with all defaults.
#[test]
fn tables_as_the_sdk_saves_them() {
    let csv = "- read_delimited:\n    delimiter: ','\n    empty_as_string: false\n    encoding: utf8\n    header: \
               all_files_same_headers\n    include_path_column: false\n    infer_column_types: true\n    partition_size: \
               20971520\n    path_column: Path\n    support_multi_line: false\n";
    assert_eq!(table(csv).0, TableInput::default());
    let json = "- read_json_lines:\n    encoding: utf8\n    include_path_column: false\n    invalid_lines: error\n    \
                partition_size: 20971520\n    path_column: Path\n";
    assert_eq!(table(json).0, TableInput { kind: TableKind::Jsonl, ..TableInput::default() });
    let parquet = TableInput { kind: TableKind::Parquet, ..TableInput::default() };
    assert_eq!(table("- read_parquet\n").0, parquet);
    assert_eq!(
        table("- read_parquet:\n    include_path_column: false\n    path_column: Path\n").0,
        parquet
    );
    assert_eq!(table("- read_delimited: {header: from_first_file}\n").0, TableInput::default());
    assert!(table("- read_delimited: {support_multi_line: true}\n").0.csv.quoted_newlines);
}

/// C30: supported transformations become settings of the input.
#[test]
fn steps_that_change_rows_are_carried_out() {
    let (found, take) = table(
        "- read_delimited\n- take: 20\n- take: 5\n- drop_columns: [a]\n- drop_columns: b\n- convert_column_types:\n  - \
         columns: zip\n    column_type: string\n  - columns: [x, y]\n    column_type: float\n- convert_column_types:\n  - \
         columns: [y]\n    column_type: int\n  - {columns: [t], column_type: datetime}\n  - {columns: ok, column_type: \
         boolean}\n",
    );
    assert_eq!(take, Some(5));
    assert_eq!(found.dropped, ["a", "b"]);
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    assert_eq!(
        found.types,
        [
            column("zip", ColumnType::String),
            column("x", ColumnType::Float64),
            column("y", ColumnType::Int64),
            column("t", ColumnType::Timestamp),
            column("ok", ColumnType::Boolean),
        ]
    );
    let (found, _) = table("- read_parquet\n- keep_columns: [a, b, c]\n- drop_columns: [b]\n");
    assert_eq!(found.columns.unwrap_or_default(), ["a", "c"]);
}

/// C30: `take` limits a list of files. A column of streams contains only their names.
#[test]
fn take_limits_a_list_of_files() {
    let (fixture, text) =
        with_table("paths: [{pattern: '*.txt'}]\ntransformations: [{take: 3}]\n", "ro_mount");
    let spec = fixture.load(&text, &[]).expect("a job");
    assert_eq!(spec.input_kind, InputKind::Files { mini_batch_files: 10 });
    assert_eq!(spec.inputs[0].take, Some(3));
    let stream = "paths: [{file: a.jsonl}]\ntransformations:\n- read_json_lines\n- convert_column_types:\n  - {columns: url, \
                  column_type: stream_info}\n";
    let (fixture, text) = with_table(stream, "direct");
    let spec = fixture.load(&text, &[]).expect("a job");
    insta::assert_snapshot!(spec.notices[1], @"inputs.d: column url is of type stream_info; the entry script gets the name of each stream as text");
}

/// Invalid combinations of our own settings that select rows and columns of a table.
#[test]
fn settings_of_parts_of_tables_that_do_not_fit() {
    let error = |input: &str, more: &str| {
        super::errors(&format!(
            "entry_script: script.wasm\ninputs:\n  a: {{path: data, {input}}}\n{more}"
        ))
    };
    insta::assert_snapshot!(error("format: csv, columns: [a], drop_columns: [b], schema: {a: int64}, types: {a: json}, take: 0", ""), @r#"
    job.yaml:3: inputs.a.take: found 0; expected a whole number of rows, or of files, of at least 1 (e.g. 1000)
    job.yaml:3: inputs.a.types: column "a" is json, which is for inputs of format jsonl only; write string, which gives the entry script the field's text
    job.yaml:3: inputs.a.drop_columns: found together with columns; choose one, and remove the other
    job.yaml:3: inputs.a.types: found together with schema, which has all types; write the types there
    "#);
    insta::assert_snapshot!(error("format: parquet, drop_columns: [b], types: {a: int}", ""), @r#"
    job.yaml:3: inputs.a.types.a: found "int"; expected one of boolean, int64, uint64, float64, string, date, timestamp, json; did you mean int64?
    job.yaml:3: inputs.a.drop_columns: is for inputs of format csv, tsv or jsonl only, and input a is of format parquet; remove this key
    job.yaml:3: inputs.a.types: is for inputs of format csv, tsv or jsonl only, and input a is of format parquet; remove this key
    "#);
    insta::assert_snapshot!(error("format: sqlite, table: t, take: 5", ""), @"job.yaml:3: inputs.a.take: is not for inputs of format sqlite; write a limit into its query");
    insta::assert_snapshot!(error("format: csv, take: 5", "partition_keys: [a]\n"), @"job.yaml:3: inputs.a.take: found together with partition_keys; choose one, and remove the other");
}
