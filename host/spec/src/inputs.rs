//! Checks the inputs of a job. All inputs of a job have the same kind, files or tables, and each kind has
//! its own rules.

use super::csv;
use super::defaults::Defaults;
use super::dialect::JobFileDialect;
use super::error::{ErrorReport, SettingOrigin};
use super::job_file_location::JobFileLocation;
use super::keys::InputFormat;
use super::partition;
use super::query;
use super::raw::{RawInput, RawJob, SchemaInference};
use super::registered::or_register;
use super::scope::Located;
use crate::model::{
    Address, ByteSize, Column, ColumnType, InputKind, JobInput, Limits, RegisteredKind, SliceSize,
    TableInput, TableKind, nearest,
};

/// The number of files in a mini-batch unless the job file says otherwise (docs/parallel-run-step.md C7).
const DEFAULT_MINI_BATCH_FILES: u64 = 10;
/// The number of bytes in a mini-batch of a table unless the job file says otherwise.
const DEFAULT_MINI_BATCH_BYTES: u64 = 1 << 20;
/// A size below this is probably a mistake.
const SMALL_MINI_BATCH_BYTES: u64 = 1 << 10;

/// Checks the inputs. Returns them, their kind, and the partition keys.
pub(super) fn check(
    raw: &RawJob,
    defaults: &Defaults<'_>,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> (Vec<JobInput>, InputKind, Vec<String>) {
    let count = defaults.value_or_default(raw, |raw| &raw.rank_mini_batch_count);
    if let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) {
        if raw.inputs.is_some() {
            report.notice("inputs are ignored: rank_mini_batch_count is above 0");
        }
        if raw.partition_keys.is_some() {
            report.notice("partition_keys are ignored: rank_mini_batch_count is above 0");
        }
        return (Vec::new(), InputKind::Void { count }, Vec::new());
    }
    let given = raw.inputs.as_ref().map_or(&[][..], |inputs| inputs.value.as_slice());
    if given.is_empty() && !report.has_error_at("inputs") && !report.has_error_at("input_data") {
        report_no_inputs(raw.inputs.as_ref(), defaults.dialect, report);
    }
    check_names(given, report);
    check_formats(given, report);
    let inputs = given.iter().map(|input| check_input(input, location, report)).collect();
    let has_tables = given.iter().any(|input| format_of(input) != InputFormat::Files);
    let kind = if has_tables {
        tables_kind(raw, given, defaults, report)
    } else if given.iter().any(|input| has_bad_format(input, report)) {
        // An input of an unknown format may be files or a table, so the meaning of a size is
        // unknown.
        InputKind::Files { mini_batch_files: DEFAULT_MINI_BATCH_FILES }
    } else {
        files_kind(raw, given, defaults, report)
    };
    (inputs, kind, partition::check(raw, given, report))
}

/// Refuses mini-batches that are too large for the memory of an entry script.
pub(super) fn check_memory(raw: &RawJob, kind: &InputKind, limits: &Limits, report: &ErrorReport) {
    let InputKind::Tables { mini_batch_size: SliceSize::Bytes(bytes), .. } = kind else { return };
    if let Some(size) = &raw.mini_batch_size
        && *bytes > limits.memory.0
    {
        let message = format!(
            "found {}, but the entry script must hold a whole mini-batch in {} of memory; \
             choose a smaller size, or raise limits.memory",
            ByteSize(*bytes),
            limits.memory,
        );
        size.blame(report, message);
    }
}

fn report_no_inputs(
    given: Option<&Located<Vec<RawInput>>>,
    dialect: JobFileDialect,
    report: &ErrorReport,
) {
    match given {
        Some(given) => given.blame(report, "found none; name at least one (e.g. images: data)"),
        None => {
            let advice = match dialect {
                JobFileDialect::Saved => {
                    "a saved parallel_run_config has no inputs: name at least one beside it (inputs: \
                     {images: data}), or"
                }
                JobFileDialect::Deployment => {
                    "in Azure, each call of the endpoint passes them: name them"
                }
                _ => "name at least one in the file (inputs: {images: data}), or",
            };
            let message = format!("missing; {advice} by --set inputs.images.path=data");
            report.error(&SettingOrigin::File, "inputs", message);
        }
    }
}

fn check_names(inputs: &[RawInput], report: &ErrorReport) {
    for (index, input) in inputs.iter().enumerate() {
        if inputs[..index].iter().any(|other| other.name.value == input.name.value) {
            let message = format!("found {:?} a second time; names must differ", input.name.value);
            input.name.blame(report, message);
        }
    }
}

fn format_of(input: &RawInput) -> InputFormat {
    input.format.as_ref().map_or(InputFormat::Files, |format| format.value)
}

fn check_formats(inputs: &[RawInput], report: &ErrorReport) {
    let mut known = inputs.iter().filter(|input| !has_bad_format(input, report));
    let Some(first) = known.next() else { return };
    let is_files = |input: &RawInput| format_of(input) == InputFormat::Files;
    for input in known.filter(|input| is_files(input) != is_files(first)) {
        let message = format!(
            "is of format {}, but input {} is of format {}; the inputs of a job must all be files, \
             or all tables",
            format_of(input).name(),
            first.name.value,
            format_of(first).name(),
        );
        let (origin, key) = match &input.format {
            Some(format) => (&format.origin, &format.key),
            None => (&input.name.origin, &input.key),
        };
        report.error(origin, key, message);
    }
}

/// Whether the given format is unknown. Further errors about such an input would be misleading.
fn has_bad_format(input: &RawInput, report: &ErrorReport) -> bool {
    input.format.is_none() && report.has_error_at(&format!("{}.format", input.key))
}

fn check_input(input: &RawInput, location: &JobFileLocation, report: &ErrorReport) -> JobInput {
    let paths =
        input.paths.iter().filter_map(|path| check_path(input, path, location, report)).collect();
    refuse_mixed_paths(input, report);
    if !has_bad_format(input, report) {
        check_keys(input, report);
    }
    if let Some(schema) = &input.schema {
        for (index, column) in schema.value.iter().enumerate() {
            if column.name.trim().is_empty() {
                schema.blame(report, format!("column {} has an empty name", index + 1));
            }
        }
    }
    csv::check(input, report);
    check_columns(input, report);
    check_schema(input, report);
    check_choices(input, report);
    query::check(input, report);
    if let (Some(hive), Some(_)) = (&input.hive, &input.partition_format)
        && hive.value
    {
        let message = "found together with partition_format, which already names the columns of the path; \
                       choose one, and remove the other";
        hive.blame(report, message);
    }
    let partition_format =
        input.partition_format.as_ref().and_then(|format| partition::template(format, report));
    let take = input.take.as_ref().map(|setting| setting.value);
    JobInput { name: input.name.value.clone(), paths, partition_format, take }
}

/// Refuses keys that have no meaning for the input's format.
fn check_keys(input: &RawInput, report: &ErrorReport) {
    let format = format_of(input);
    let kind = format.table();
    let is_csv = kind == Some(TableKind::Csv);
    let is_text = kind.is_some_and(TableKind::is_text);
    let is_database = kind.is_some_and(TableKind::is_database);
    let is_parquet = kind.is_some_and(TableKind::may_have_log);
    let csv_inputs = "inputs of format csv or tsv";
    let text_inputs = "inputs of format csv, tsv or jsonl";
    let tables = "tables";
    let databases = "inputs of format sqlite";
    let parquet_inputs = "inputs of format parquet";
    let keys = [
        (input.delimiter.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.header.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.null_values.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.quoted_newlines.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.quote.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.escape.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.comment.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.skip_lines.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.duplicate_names.as_ref().map(|it| (&it.origin, &it.key)), is_csv, csv_inputs),
        (input.schema.as_ref().map(|it| (&it.origin, &it.key)), is_text, text_inputs),
        (input.columns.as_ref().map(|it| (&it.origin, &it.key)), kind.is_some(), tables),
        (input.drop_columns.as_ref().map(|it| (&it.origin, &it.key)), is_text, text_inputs),
        (input.types.as_ref().map(|it| (&it.origin, &it.key)), is_text, text_inputs),
        (input.hive.as_ref().map(|it| (&it.origin, &it.key)), kind.is_some(), tables),
        (input.files.as_ref().map(|it| (&it.origin, &it.key)), is_parquet, parquet_inputs),
        (input.table.as_ref().map(|it| (&it.origin, &it.key)), is_database, databases),
        (input.query.as_ref().map(|it| (&it.origin, &it.key)), is_database, databases),
    ];
    for (key, _, formats) in keys.into_iter().filter(|(_, is_allowed, _)| !is_allowed) {
        let Some((origin, key)) = key else { continue };
        let remedy = match kind {
            None if formats == databases => "add format: sqlite, or remove this key",
            None if formats == parquet_inputs => "add format: parquet, or remove this key",
            None => "add its format (e.g. format: csv), or remove this key",
            Some(_) => "remove this key",
        };
        let message = format!(
            "is for {formats} only, and input {} is of format {}; {remedy}",
            input.name.value,
            format.name(),
        );
        report.error(origin, key, message);
    }
}

/// Refuses contradictory keys for the same columns or types.
fn check_choices(input: &RawInput, report: &ErrorReport) {
    if let (Some(dropped), Some(_)) = (&input.drop_columns, &input.columns) {
        dropped.blame(report, "found together with columns; choose one, and remove the other");
    }
    if let (Some(types), Some(_)) = (&input.types, &input.schema) {
        types.blame(
            report,
            "found together with schema, which has all types; write the types there",
        );
    }
    if let Some(take) = &input.take
        && format_of(input).table().is_some_and(TableKind::is_database)
    {
        take.blame(report, "is not for inputs of format sqlite; write a limit into its query");
    }
}

/// Refuses columns of type JSON in inputs of format csv or tsv: Sandmill does not parse JSON in such files.
fn check_schema(input: &RawInput, report: &ErrorReport) {
    let is_json = |column: &&Column| column.kind == ColumnType::Json;
    for schema in input.schema.iter().chain(&input.types) {
        let Some(column) = schema.value.iter().find(is_json) else { continue };
        if format_of(input).table() != Some(TableKind::Csv) {
            continue;
        }
        let message = format!(
            "column {:?} is json, which is for inputs of format jsonl only; write string, which gives the entry \
             script the field's text",
            column.name
        );
        schema.blame(report, message);
    }
}

/// Checks the requested columns against the schema, if there is one.
fn check_columns(input: &RawInput, report: &ErrorReport) {
    let Some(columns) = &input.columns else { return };
    if columns.value.is_empty() && !report.has_error_at(&columns.key) {
        columns
            .blame(report, "found an empty list; name at least one column, or leave the key out");
    }
    for (index, column) in columns.value.iter().enumerate() {
        if columns.value[..index].iter().any(|other| other.value == column.value) {
            column.blame(report, format!("found {:?} a second time; remove it", column.value));
            continue;
        }
        let Some(schema) = &input.schema else { continue };
        let mut known = schema.value.iter().map(|known| known.name.as_str());
        if !report.has_error_at(&schema.key) && !known.any(|name| name == column.value) {
            let known: Vec<_> = schema.value.iter().map(|known| known.name.as_str()).collect();
            let hint = match nearest(&column.value, known) {
                Some(name) => format!("; did you mean {name:?}?"),
                None => String::new(),
            };
            let message = format!("found {:?}, which is not in schema{hint}", column.value);
            column.blame(report, message);
        }
    }
}

/// Refuses inputs with paths both in a store and on this machine. Sandmill fetches either all paths
/// of an input or no path.
fn refuse_mixed_paths(input: &RawInput, report: &ErrorReport) {
    let is_remote = |path: &Located<String>| Address::looks_like_one(&path.value);
    let remote = input.paths.iter().filter(|path| is_remote(path)).count();
    if let Some(datastore) = &input.datastore {
        if let Some(path) = input.paths.iter().find(|path| is_remote(path)) {
            path.blame(
                report,
                "found an address together with datastore; write a path in that datastore",
            );
        }
        if datastore.value.trim().is_empty() || datastore.value.contains(['/', '@']) {
            let message = format!("found {:?}; expected the name of a datastore", datastore.value);
            datastore.blame(report, message);
        }
    } else if remote > 0 && remote < input.paths.len() {
        let message =
            "has paths on this machine beside addresses of stores; split it into two inputs";
        report.error(&input.name.origin, &input.key, message);
    }
}

fn check_path(
    input: &RawInput,
    path: &Located<String>,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<String> {
    let name = &input.name.value;
    let datastore = &input.datastore;
    let text = path.value.as_str();
    if text.trim().is_empty() || text.contains('\0') {
        path.blame(report, format!("found {text:?}; expected a file, a folder or a glob"));
        return None;
    }
    if text.contains("${{") {
        if report.has_error_at(&path.key) {
            return None;
        }
        let message = format!(
            "found the reference {text}, which names nothing on this machine; name a file, a \
             folder or a glob (--set inputs.{name}.path=...)"
        );
        path.blame(report, message);
        return None;
    }
    if text.starts_with("azureml:") {
        if report.has_error_at(&path.key) {
            return None;
        }
        let message = format!(
            "found {text:?}, which is in Azure; fetch it first, and name the files here by --set \
             inputs.{name}.path=...{}",
            or_register(RegisteredKind::Dataset, text)
        );
        path.blame(report, message);
        return None;
    }
    if Address::looks_like_one(text) {
        return match text.parse::<Address>() {
            Ok(address) => Some(address.to_string()),
            Err(error) => {
                path.blame(report, error.to_string());
                None
            }
        };
    }
    if let Some(datastore) = datastore {
        let name = datastore.value.trim();
        return Some(format!("datastore://{name}/{}", text.trim_start_matches('/')));
    }
    // `JobFileLocation` has checked that the folder is text, so the joined path is text as well.
    Some(location.resolve(text).to_string_lossy().into_owned())
}

fn files_kind(
    raw: &RawJob,
    inputs: &[RawInput],
    defaults: &Defaults<'_>,
    report: &ErrorReport,
) -> InputKind {
    if let Some(inference) = &raw.schema_inference
        && inference.value == SchemaInference::Full
        && !inputs.is_empty()
    {
        inference.blame(report, "is for tables only, and the inputs are of format files");
    }
    let Some(size) = &raw.mini_batch_size else {
        mention_size(raw, defaults, &format!("{DEFAULT_MINI_BATCH_FILES} files"));
        return InputKind::Files { mini_batch_files: DEFAULT_MINI_BATCH_FILES };
    };
    let files = size.value.trim().parse().ok().filter(|files| *files >= 1);
    if files.is_none() {
        let hint = size_hint(&size.value, inputs, defaults, report);
        let message = format!(
            "found {:?}; expected a whole number of files of at least 1 (e.g. 10){hint}",
            size.value
        );
        size.blame(report, message);
    }
    InputKind::Files { mini_batch_files: files.unwrap_or(DEFAULT_MINI_BATCH_FILES) }
}

/// Explains why files cannot have a mini-batch size in bytes or rows. Returns an empty text if the value is
/// not such a size.
fn size_hint(
    size: &str,
    inputs: &[RawInput],
    defaults: &Defaults<'_>,
    report: &ErrorReport,
) -> String {
    let Some(size) = SliceSize::parse(size) else { return String::new() };
    if let Some(file_list) = inputs.iter().find(|input| report.is_file_list(&input.name.value)) {
        let name = &file_list.name.value;
        return format!(
            "; sizes are for tables, and input {name} is an mltable without mode: direct, which is a list of files"
        );
    }
    let hint = match size {
        _ if defaults.dialect.is_version_2() => {
            "; sizes are for tables: an input is a table if it has mode: direct (type mltable) or a format \
             (e.g. format: csv)"
        }
        SliceSize::Bytes(_) => "; sizes are for tables, such as inputs of format csv",
        SliceSize::Rows(_) => "; rows are for tables, such as inputs of format csv",
    };
    hint.to_owned()
}

fn tables_kind(
    raw: &RawJob,
    inputs: &[RawInput],
    defaults: &Defaults<'_>,
    report: &ErrorReport,
) -> InputKind {
    let tables = inputs
        .iter()
        .map(|input| {
            let format = format_of(input);
            let names = |columns: &Located<Vec<Located<String>>>| {
                columns.value.iter().map(|column| column.value.clone()).collect()
            };
            TableInput {
                kind: format.table().unwrap_or_default(),
                csv: csv::options(input, format),
                schema: input.schema.as_ref().map(|setting| setting.value.clone()),
                columns: input.columns.as_ref().map(names),
                dropped: input.drop_columns.as_ref().map(names).unwrap_or_default(),
                types: input
                    .types
                    .as_ref()
                    .map(|setting| setting.value.clone())
                    .unwrap_or_default(),
                hive: input.hive.as_ref().map(|setting| setting.value),
                query: query::sqlite_query(input),
                files: input.files.as_ref().is_some_and(|setting| setting.value),
            }
        })
        .collect();
    query::note_size(raw, inputs, report);
    let inference =
        raw.schema_inference.as_ref().map_or(SchemaInference::First, |inference| inference.value);
    InputKind::Tables {
        mini_batch_size: slice_size(raw, defaults, report),
        inputs: tables,
        full_inference: inference == SchemaInference::Full,
    }
}

/// For an Azure file, adds a note that the default size is used. With partition keys, there is no note,
/// because the size has no effect.
fn mention_size(raw: &RawJob, defaults: &Defaults<'_>, size: &str) {
    if raw.partition_keys.is_none() {
        defaults.mention("mini_batch_size", size);
    }
}

fn slice_size(raw: &RawJob, defaults: &Defaults<'_>, report: &ErrorReport) -> SliceSize {
    let Some(given) = &raw.mini_batch_size else {
        mention_size(raw, defaults, &ByteSize(DEFAULT_MINI_BATCH_BYTES).to_string());
        return SliceSize::Bytes(DEFAULT_MINI_BATCH_BYTES);
    };
    let Some(size) = SliceSize::parse(&given.value) else {
        let message = format!(
            "found {:?}; expected a size of at least 1 byte (e.g. 1 MB) or a number of rows (e.g. \
             1000 rows), because the inputs are tables; {}",
            given.value,
            ByteSize::UNITS,
        );
        given.blame(report, message);
        return SliceSize::Bytes(DEFAULT_MINI_BATCH_BYTES);
    };
    if let SliceSize::Bytes(bytes) = size
        && bytes < SMALL_MINI_BATCH_BYTES
    {
        report.notice(format!(
            "mini_batch_size is {size}: for tables it is a number of bytes, and such a small number \
             makes many small mini-batches; for rows, write \"{}\"",
            SliceSize::Rows(bytes)
        ));
    }
    size
}
