use super::{LEAST, SpecFixture, errors, job, job_with};
use crate::model::{
    Compression, Join, OnConflict, OutputFormat, OutputKind, OutputLayout, Quoting,
};
use std::fs;

const SETTINGS: &str = "parallel_run_step.settings.json";

/// Rules O2 and O3 in docs/parallel-run-step.md: by default, text has spaces between fields and no header,
/// and csv has commas and a header.
#[test]
fn formats_have_their_own_defaults() {
    let format = |text: &str| job(&format!("{LEAST}output_format: {text}\n")).output_format;
    assert_eq!(format("{}"), OutputFormat::default());
    assert_eq!(format("{type: csv}"), OutputFormat::default_for(OutputKind::Csv));
    assert_eq!(format("{type: jsonl}"), OutputFormat::default_for(OutputKind::Jsonl));
    assert_eq!(
        format("{type: csv, delimiter: \";\", header: false, quoting: all, null_value: NA}"),
        OutputFormat {
            kind: OutputKind::Csv,
            compression: Compression::None,
            delimiter: b';',
            header: false,
            quoting: Quoting::All,
            null: "NA".into(),
            index: false,
            join: None,
            layout: OutputLayout::File,
        }
    );
    let spec = job_with(LEAST, &[("ordered", "true"), ("output_files", "append")]);
    assert!(spec.settings.ordered);
    assert_eq!(spec.settings.output_files, OnConflict::Append);
}

#[test]
fn input_columns_are_joined() {
    let join = |text: &str| job(&format!("{LEAST}join: {text}\n")).output_format.join;
    assert_eq!(join("input"), Some(Join::Input));
    assert_eq!(join("[file]"), Some(Join::Columns(vec!["file".to_owned()])));
    assert_eq!(job(LEAST).output_format.join, None);
    for (text, message) in [
        ("all", "join: expected input (all columns of the input), or a list of columns"),
        ("[]", "join: found an empty list; name at least one column, or leave the key out"),
        ("[id]", "join: an input of files has only the column file; write join: input"),
        ("{a: b}", "expected input, or a list of columns of the input (e.g. [id])"),
    ] {
        let reported = errors(&format!("{LEAST}join: {text}\n"));
        assert!(reported.contains(message), "{reported}");
    }
}

#[test]
fn compressions_and_the_names_of_files() {
    let name = |text: &str| job(&format!("{LEAST}output_format: {text}\n")).append_row_file_name;
    let names = [
        "{type: parquet}",
        "{type: arrow}",
        "{type: csv, compression: gzip}",
        "{compression: ZSTD}",
        "csv",
        "JSONL",
        "parquet",
        "text",
    ];
    insta::assert_snapshot!(names.map(name).join("\n"), @"
    parallel_run_step.parquet
    parallel_run_step.arrow
    parallel_run_step.csv.gz
    parallel_run_step.txt.zst
    parallel_run_step.csv
    parallel_run_step.jsonl
    parallel_run_step.parquet
    parallel_run_step.txt
    ");
    let zipped = [("output_format.compression", "gzip")];
    let spec = job_with(&format!("{LEAST}output_format: jsonl\n"), &zipped);
    assert_eq!(spec.append_row_file_name, "parallel_run_step.jsonl.gz");
    assert_eq!(spec.earlier_file_name.as_deref(), Some("parallel_run_step.txt.gz"));
    assert_eq!(spec.output_format.kind, OutputKind::Jsonl);
    insta::assert_snapshot!(errors(&format!("{LEAST}output_format: exel\n")), @r#"job.yaml:3: output_format.type: found "exel"; expected text, csv, jsonl, parquet or arrow"#);
    let spec =
        job(&format!("{LEAST}append_row_file_name: mine\noutput_format: {{type: parquet}}\n"));
    assert_eq!(spec.append_row_file_name, "mine");
    assert_eq!(spec.output_format.compression, Compression::Snappy);
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}output_format: {{type: jsonl, compression: snappy}}\n"
    )), @"job.yaml:3: output_format.compression: found snappy, and output_format.type is jsonl, which allows none, gzip, zstd");
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}output_format: {{type: arrow, compression: lz4, header: true}}\n"
    )), @"
    job.yaml:3: output_format.compression: found lz4, and output_format.type is arrow, which allows none
    job.yaml:3: output_format.header: is for text and csv only, and output_format.type is arrow; remove it
    ");
}

#[test]
fn layouts_and_the_names_of_parts() {
    let names = |text: &str| {
        let spec = job(&format!("{LEAST}output_layout: Parts\noutput_format: {text}\n"));
        let ending = spec.output_format.part_ending().expect("it is in parts");
        assert_eq!(spec.output_format.appended("x"), "x");
        format!("{} {ending}", spec.append_row_file_name)
    };
    let all = [
        "{}",
        "{type: csv, compression: gzip}",
        "{type: jsonl, compression: zstd}",
        "{type: parquet, compression: zstd}",
        "{type: arrow}",
    ];
    insta::assert_snapshot!(all.map(names).join("\n"), @"
    parallel_run_step .txt
    parallel_run_step .csv.gz
    parallel_run_step .jsonl.zst
    parallel_run_step .parquet
    parallel_run_step .arrow
    ");
    assert_eq!(job(LEAST).output_format.part_ending(), None);
    let spec = job(&format!("{LEAST}output_layout: parts\nappend_row_file_name: mine.csv\n"));
    assert_eq!(spec.append_row_file_name, "mine.csv");
    insta::assert_snapshot!(errors(&format!("{LEAST}output_layout: parts\nordered: true\n")), @"job.yaml:4: ordered: with output_layout: parts each worker's rows are in its own file, in the order in which it made them, so the rows as a whole have no order; remove one of the two");
    insta::assert_snapshot!(errors(&format!("{LEAST}output_layout: folder\n")), @r#"job.yaml:3: output_layout: found "folder"; expected file or parts"#);
}

/// A9: the header may be given under ParallelRunStep's name, which must not contradict our key.
#[test]
fn the_header_by_its_other_name() {
    let header = |text: &str| job(&format!("{LEAST}{text}\n")).output_format.header;
    assert!(header("append_row_dataframe_header: true"));
    assert!(!header("append_row_dataframe_header: false\noutput_format: {type: csv}"));
    assert!(header("append_row_dataframe_header: true\noutput_format: {header: true}"));
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}append_row_dataframe_header: true\noutput_format: {{header: false}}\n"
    )), @"job.yaml:4: output_format.header: found false, but append_row_dataframe_header says true; make them the same, or remove one of them");
}

#[test]
fn formats_that_do_not_fit() {
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}output_format: {{type: jsonl, delimiter: tab, header: true, quoting: all, null_value: x}}\n"
    )), @"
    job.yaml:3: output_format.delimiter: is for text and csv only, and output_format.type is jsonl; remove it
    job.yaml:3: output_format.header: is for text and csv only, and output_format.type is jsonl; remove it
    job.yaml:3: output_format.quoting: is for text and csv only, and output_format.type is jsonl; remove it
    job.yaml:3: output_format.null_value: is for text and csv only, and output_format.type is jsonl; remove it
    ");
    insta::assert_snapshot!(errors(&format!("{LEAST}output_format: {{null_value: \"a\\nb\", colour: x}}\n")), @"
    job.yaml:3: output_format.colour: unknown key; the known keys are type, compression, delimiter, header, quoting, null_value
    job.yaml:3: output_format.null_value: found a line end or a NUL in it; each row is one line
    ");
    let spec = job(&format!(
        "{LEAST}output_action: summary_only\noutput_format: {{type: csv}}\nordered: true\n"
    ));
    insta::assert_snapshot!(spec.notices.join("\n"), @"
    output_format has no effect: output_action is summary_only
    ordered has no effect: output_action is summary_only
    ");
}

/// A11: the file beside the entry script says how tables are written.
#[test]
fn settings_beside_the_entry_script() {
    let fixture = SpecFixture::new();
    let write = |text: &str| {
        fs::write(fixture.0.path().join(SETTINGS), text).expect("a settings file");
    };
    write(
        r#"{"append_row": {"pandas.DataFrame.to_csv": {"sep": ",", "header": true, "index": true,
            "na_rep": "NA", "quoting": 2}}}"#,
    );
    let spec = fixture.load(LEAST, &[]).expect("a job");
    assert_eq!(
        spec.output_format,
        OutputFormat {
            kind: OutputKind::Text,
            compression: Compression::None,
            delimiter: b',',
            header: true,
            quoting: Quoting::Nonnumeric,
            null: "NA".into(),
            index: true,
            ..OutputFormat::default()
        }
    );
    insta::assert_snapshot!(fixture.redact(&spec.notices.join("\n")), @r#"[dir]/parallel_run_step.settings.json is used: header true, index true, na_rep "NA", quoting 2, sep ",""#);
    for (number, quoting) in
        [Quoting::Minimal, Quoting::All, Quoting::Nonnumeric, Quoting::None].iter().enumerate()
    {
        write(&format!(
            r#"{{"append_row": {{"pandas.DataFrame.to_csv": {{"quoting": {number}}}}}}}"#
        ));
        assert_eq!(fixture.load(LEAST, &[]).expect("a job").output_format.quoting, *quoting);
    }
    // The job file and the settings file must agree.
    write(r#"{"append_row": {"pandas.DataFrame.to_csv": {"sep": ",", "header": false}}}"#);
    let same = [("output_format", "{type: csv, delimiter: ',', header: false}")];
    assert!(!fixture.load(LEAST, &same).expect("a job").output_format.header);
    let other = "entry_script: script.wasm\ninputs: {images: data}\n\
                 output_format: {delimiter: tab, header: true}\n";
    insta::assert_snapshot!(fixture.load(other, &[]).expect_err("a contradiction"), @r"
    job.yaml:3: output_format.delimiter: found '\t', but [dir]/parallel_run_step.settings.json says ','; make them the same, or remove one of them
    job.yaml:3: output_format.header: found true, but [dir]/parallel_run_step.settings.json says false; make them the same, or remove one of them
    ");
    insta::assert_snapshot!(
        fixture.load(LEAST, &[("append_row_dataframe_header", "true")]).expect_err("a contradiction"),
        @"--set append_row_dataframe_header: found true, but [dir]/parallel_run_step.settings.json says false; make them the same, or remove one of them"
    );
    insta::assert_snapshot!(
        fixture.load(LEAST, &[("output_format.type", "jsonl")]).expect_err("a contradiction"),
        @"--set output_format.type: found jsonl, but [dir]/parallel_run_step.settings.json says how text is written; remove one of them"
    );
    assert!(fixture.load(LEAST, &[("output_action", "summary_only")]).is_ok());
}

/// A11: the settings file is in the source folder, if the job has one. Errors name the file.
#[test]
fn settings_that_do_not_fit() {
    let fixture = SpecFixture::new();
    let error = |text: &str| {
        fs::write(fixture.0.path().join("source").join(SETTINGS), text).expect("a settings file");
        let job = "entry_script: inner.wasm\nsource_directory: source\ninputs: {images: data}\n";
        fixture.load(job, &[]).expect_err("it has errors")
    };
    insta::assert_snapshot!(error("{\n  \"append_row\": {,}\n}"), @"job.yaml: [dir]/source/parallel_run_step.settings.json: not valid JSON: key must be a string at line 2 column 18");
    insta::assert_snapshot!(error("[]"), @r#"job.yaml: [dir]/source/parallel_run_step.settings.json: the file: expected {"append_row": {"pandas.DataFrame.to_csv": {"sep": ","}}}"#);
    insta::assert_snapshot!(error(r#"{"append_row": {"pandas.DataFrame.to_csv": {"sep": ";;",
        "header": ["a"], "index": 0, "na_rep": 5, "quoting": 4, "float_format": "%.2f"}}}"#), @r#"
    job.yaml: [dir]/source/parallel_run_step.settings.json: pandas.DataFrame.to_csv: found "float_format"; the supported keywords are sep, header, index, na_rep, quoting
    job.yaml: [dir]/source/parallel_run_step.settings.json: pandas.DataFrame.to_csv: header: found ["a"]; expected true or false
    job.yaml: [dir]/source/parallel_run_step.settings.json: pandas.DataFrame.to_csv: index: found 0; expected true or false
    job.yaml: [dir]/source/parallel_run_step.settings.json: pandas.DataFrame.to_csv: na_rep: found 5; expected a text without line ends
    job.yaml: [dir]/source/parallel_run_step.settings.json: pandas.DataFrame.to_csv: quoting: found 4; expected 0 (minimal), 1 (all), 2 (nonnumeric) or 3 (none)
    job.yaml: [dir]/source/parallel_run_step.settings.json: pandas.DataFrame.to_csv: sep: found ";;"; expected one ASCII character, such as "," or " "
    "#);
    insta::assert_snapshot!(error(r#"{"append_row": {"to_parquet": {}}, "other": 1}"#), @r#"
    job.yaml: [dir]/source/parallel_run_step.settings.json: append_row: found "to_parquet"; only pandas.DataFrame.to_csv is supported; remove it
    job.yaml: [dir]/source/parallel_run_step.settings.json: found "other"; only append_row is supported; remove it
    "#);
}
