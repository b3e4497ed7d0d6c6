//! The root of a job file as written, its inputs and its output.

use super::limits::{self, RawLimits};
use super::models::{self, RawInference, RawModel};
use super::values::{choice, delimiter, digest, interval, is_name, name, seconds};
use crate::error::{Origin, Report};
use crate::keys;
use crate::model::{
    AllowedPercent, Column, ColumnType, Compression, ErrorThreshold, LoggingLevel, OnConflict,
    OsSandbox, OutputAction, OutputKind, OutputLayout, Quoting, TableKind, nearest,
};
use crate::scope::{At, Scope, Variables};
use crate::tree::{Node, Value};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawJob {
    pub(crate) name: Option<At<String>>,
    pub(crate) tenant: Option<At<String>>,
    pub(crate) entry_script: Option<At<String>>,
    pub(crate) entry_script_digest: Option<At<String>>,
    pub(crate) source_directory: Option<At<String>>,
    pub(crate) inputs: Option<At<Vec<RawInput>>>,
    pub(crate) side_inputs: Option<At<Vec<RawSideInput>>>,
    pub(crate) models: Option<At<Vec<RawModel>>>,
    pub(crate) inference: RawInference,
    pub(crate) output: Option<At<String>>,
    pub(crate) arguments: Option<At<Vec<At<String>>>>,
    pub(crate) environment_variables: Option<At<Variables>>,
    pub(crate) mini_batch_size: Option<At<String>>,
    pub(crate) process_count_per_node: Option<At<u32>>,
    pub(crate) node_count: Option<At<u32>>,
    pub(crate) output_action: Option<At<OutputAction>>,
    pub(crate) append_row_file_name: Option<At<String>>,
    pub(crate) error_threshold: Option<At<ErrorThreshold>>,
    pub(crate) run_max_try: Option<At<u32>>,
    pub(crate) run_invocation_timeout: Option<At<Duration>>,
    pub(crate) logging_level: Option<At<LoggingLevel>>,
    pub(crate) pass_settings: Option<At<bool>>,
    pub(crate) partition_keys: Option<At<Vec<At<String>>>>,
    pub(crate) gpus: Option<At<u32>>,
    pub(crate) output_format: RawOutputFormat,
    pub(crate) append_row_dataframe_header: Option<At<bool>>,
    pub(crate) output_layout: Option<At<OutputLayout>>,
    pub(crate) ordered: Option<At<bool>>,
    /// Names, and whether there is one that stands alone.
    pub(crate) join: Option<At<(Vec<String>, bool)>>,
    pub(crate) output_files: Option<At<OnConflict>>,
    pub(crate) allow_reuse: Option<At<bool>>,
    pub(crate) allowed_failed_count: Option<At<ErrorThreshold>>,
    pub(crate) allowed_failed_percent: Option<At<AllowedPercent>>,
    pub(crate) strict_cardinality: Option<At<bool>>,
    pub(crate) task_overhead_timeout: Option<At<Duration>>,
    pub(crate) progress_update_timeout: Option<At<Duration>>,
    pub(crate) first_task_creation_timeout: Option<At<Duration>>,
    /// None for never.
    pub(crate) resource_monitor_interval: Option<At<Option<Duration>>>,
    pub(crate) profiling_module: Option<At<String>>,
    pub(crate) parent: Option<At<String>>,
    pub(crate) copy_logs_to_parent: Option<At<bool>>,
    pub(crate) push_metrics_to_parent: Option<At<bool>>,
    pub(crate) metrics_name_prefix: Option<At<String>>,
    pub(crate) limits: RawLimits,
    pub(crate) os_sandbox: Option<At<OsSandbox>>,
    pub(crate) deterministic: Option<At<bool>>,
    pub(crate) schema_inference: Option<At<SchemaInference>>,
    pub(crate) rank_mini_batch_count: Option<At<i64>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawOutputFormat {
    pub(crate) kind: Option<At<OutputKind>>,
    pub(crate) compression: Option<At<Compression>>,
    pub(crate) delimiter: Option<At<u8>>,
    pub(crate) header: Option<At<bool>>,
    pub(crate) quoting: Option<At<Quoting>>,
    pub(crate) null_value: Option<At<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawInput {
    /// The path of the input itself.
    pub(crate) key: String,
    pub(crate) name: At<String>,
    pub(crate) paths: Vec<At<String>>,
    pub(crate) datastore: Option<At<String>>,
    /// A registered name, in the place of paths.
    pub(crate) dataset: Option<At<String>>,
    pub(crate) partition_format: Option<At<String>>,
    pub(crate) format: Option<At<Format>>,
    pub(crate) delimiter: Option<At<u8>>,
    pub(crate) header: Option<At<bool>>,
    pub(crate) null_values: Option<At<Vec<String>>>,
    pub(crate) schema: Option<At<Vec<Column>>>,
    pub(crate) columns: Option<At<Vec<At<String>>>>,
    pub(crate) quoted_newlines: Option<At<bool>>,
    pub(crate) hive: Option<At<bool>>,
    pub(crate) files: Option<At<bool>>,
    /// A table's name.
    pub(crate) table: Option<At<String>>,
    pub(crate) query: Option<At<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawSideInput {
    pub(crate) name: At<String>,
    pub(crate) path: At<String>,
    pub(crate) mount_path: Option<At<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Files,
    Csv,
    /// CSV with tabs.
    Tsv,
    Jsonl,
    Parquet,
    Arrow,
    Sqlite,
}

impl Format {
    pub(crate) const ALL: [(&str, Self); 7] = [
        ("files", Self::Files),
        ("csv", Self::Csv),
        ("tsv", Self::Tsv),
        ("jsonl", Self::Jsonl),
        ("parquet", Self::Parquet),
        ("arrow", Self::Arrow),
        ("sqlite", Self::Sqlite),
    ];

    /// Its name in a job file.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// What its tables are; none for files.
    pub(crate) fn table(self) -> Option<TableKind> {
        match self {
            Self::Files => None,
            Self::Csv | Self::Tsv => Some(TableKind::Csv),
            Self::Jsonl => Some(TableKind::Jsonl),
            Self::Parquet => Some(TableKind::Parquet),
            Self::Arrow => Some(TableKind::Arrow),
            Self::Sqlite => Some(TableKind::Sqlite),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaInference {
    First,
    Full,
}

/// Reads the root of a tree. None if it holds no settings at all.
pub(crate) fn read(root: Node, report: &Report) -> Option<RawJob> {
    let entries = match root.value {
        Value::Map(entries) => entries,
        _ => {
            let message = format!(
                "found {root}; expected a map of settings (e.g. entry_script: script.wasm)"
            );
            report.error(&root.origin, "", message);
            return None;
        }
    };
    let mut job = Scope::new(String::new(), Origin::File, entries, keys::JOB, report);
    // Only for people, but it must be a text.
    let _ = job.text("description");
    let raw = RawJob {
        name: job.parsed_by("name", name),
        tenant: job.parsed_by("tenant", name),
        entry_script: job.text("entry_script"),
        entry_script_digest: job.parsed_by("entry_script_digest", digest),
        source_directory: job.text("source_directory"),
        inputs: inputs(&mut job, report),
        side_inputs: side_inputs(&mut job, report),
        models: models::read(&mut job, report),
        inference: models::read_inference(&mut job),
        output: job.text("output"),
        arguments: job.scalars("arguments"),
        environment_variables: job.variables("environment_variables"),
        mini_batch_size: job.text("mini_batch_size"),
        process_count_per_node: job.parsed("process_count_per_node"),
        node_count: job.parsed("node_count"),
        output_action: job.parsed("output_action"),
        append_row_file_name: job.text("append_row_file_name"),
        error_threshold: job.parsed("error_threshold"),
        run_max_try: job.parsed("run_max_try"),
        run_invocation_timeout: job.parsed_by("run_invocation_timeout", seconds),
        logging_level: job.parsed("logging_level"),
        pass_settings: job.bool("pass_settings"),
        partition_keys: job.texts("partition_keys"),
        gpus: job.parsed("gpus"),
        output_format: output_format(&mut job),
        append_row_dataframe_header: job.bool("append_row_dataframe_header"),
        output_layout: job.parsed_by("output_layout", |_, text| {
            choice(text, &OutputLayout::ALL.map(|layout| (layout.name(), layout)))
        }),
        ordered: job.bool("ordered"),
        join: job.scalars_or_one("join"),
        output_files: job.parsed_by("output_files", |_, text| {
            choice(text, &OnConflict::ALL.map(|way| (way.name(), way)))
        }),
        allow_reuse: job.bool("allow_reuse"),
        allowed_failed_count: job.parsed("allowed_failed_count"),
        allowed_failed_percent: job.explained("allowed_failed_percent"),
        strict_cardinality: job.bool("strict_cardinality"),
        task_overhead_timeout: job.parsed_by("task_overhead_timeout", seconds),
        progress_update_timeout: job.parsed_by("progress_update_timeout", seconds),
        first_task_creation_timeout: job.parsed_by("first_task_creation_timeout", seconds),
        resource_monitor_interval: job.parsed_by("resource_monitor_interval", interval),
        profiling_module: job.parsed_by("profiling_module", |key, text| {
            let keys::Kind::Choice(names) = key.kind else { return None };
            let given = text.trim();
            names().into_iter().find(|name| name.eq_ignore_ascii_case(given)).map(str::to_owned)
        }),
        parent: job.text("parent"),
        copy_logs_to_parent: job.bool("copy_logs_to_parent"),
        push_metrics_to_parent: job.bool("push_metrics_to_parent"),
        metrics_name_prefix: job.text("metrics_name_prefix"),
        limits: limits::read(&mut job),
        os_sandbox: job.parsed_by("os_sandbox", |_, text| {
            choice(text, &OsSandbox::ALL.map(|mode| (mode.name(), mode)))
        }),
        deterministic: job.bool("deterministic"),
        schema_inference: job.parsed_by("schema_inference", |_, text| {
            choice(text, &[("first", SchemaInference::First), ("full", SchemaInference::Full)])
        }),
        rank_mini_batch_count: job.parsed("rank_mini_batch_count"),
    };
    job.finish();
    Some(raw)
}

fn output_format(job: &mut Scope<'_>) -> RawOutputFormat {
    let Some(mut format) = job.group("output_format") else { return RawOutputFormat::default() };
    let raw = RawOutputFormat {
        kind: format.parsed_by("type", |_, text| {
            choice(text, &OutputKind::ALL.map(|kind| (kind.name(), kind)))
        }),
        compression: format.parsed_by("compression", |_, text| {
            choice(text, &Compression::ALL.map(|way| (way.name(), way)))
        }),
        delimiter: format.parsed_by("delimiter", |_, text| delimiter(text)),
        header: format.bool("header"),
        quoting: format.parsed_by("quoting", |_, text| {
            let ways = [
                ("minimal", Quoting::Minimal),
                ("all", Quoting::All),
                ("nonnumeric", Quoting::Nonnumeric),
                ("none", Quoting::None),
            ];
            choice(text, &ways)
        }),
        null_value: format.text("null_value"),
    };
    format.finish();
    raw
}

fn inputs(job: &mut Scope<'_>, report: &Report) -> Option<At<Vec<RawInput>>> {
    let groups = job.named("inputs")?;
    Some(groups.map(|groups| {
        groups.into_iter().filter_map(|(name, scope)| input(name, scope, report)).collect()
    }))
}

fn input(name: At<String>, mut input: Scope<'_>, report: &Report) -> Option<RawInput> {
    let raw = RawInput {
        key: input.path.clone(),
        paths: paths(&mut input, report),
        datastore: input.text("datastore"),
        dataset: input.text("dataset"),
        partition_format: input.text("partition_format"),
        format: input.parsed_by("format", |_, text| choice(text, &Format::ALL)),
        delimiter: input.parsed_by("delimiter", |_, text| delimiter(text)),
        header: input.bool("header"),
        null_values: input.scalars("null_values").map(|values| {
            values.map(|values| values.into_iter().map(|value| value.value).collect())
        }),
        schema: columns(&mut input, report),
        columns: input.texts("columns"),
        quoted_newlines: input.bool("quoted_newlines"),
        hive: input.bool("hive"),
        files: input.bool("files"),
        table: input.text("table"),
        query: input.text("query"),
        name,
    };
    input.finish();
    check_name(&raw.name, report).then_some(raw)
}

fn paths(input: &mut Scope<'_>, report: &Report) -> Vec<At<String>> {
    let found: Vec<&str> =
        ["path", "paths", "dataset"].into_iter().filter(|key| input.has(key)).collect();
    match found[..] {
        [] => {
            let message = "has no path; write path: with a file, a folder or a glob, or dataset: \
                           with a registered name";
            report.error(&input.origin, &input.path, message);
        }
        [_] => {}
        _ => {
            let message = format!("found {}; write one of them", found.join(" and "));
            report.error(&input.origin, &input.path, message);
        }
    }
    let one = input.text("path");
    let many = input.scalars("paths");
    if let Some(many) = &many
        && many.value.is_empty()
        && !report.blames(&many.key)
    {
        many.blame(report, "found an empty list; name at least one file, folder or glob");
    }
    one.into_iter().chain(many.into_iter().flat_map(|many| many.value)).collect()
}

fn columns(input: &mut Scope<'_>, report: &Report) -> Option<At<Vec<Column>>> {
    let columns = input.variables("schema")?;
    if columns.value.is_empty() {
        columns.blame(report, "found an empty map; name all columns, or leave the key out");
    }
    Some(columns.map(|columns| {
        columns.into_iter().filter_map(|(name, text)| column(name, &text, report)).collect()
    }))
}

fn column(name: String, text: &At<String>, report: &Report) -> Option<Column> {
    match text.value.parse::<ColumnType>() {
        Ok(kind) => Some(Column { name, kind }),
        Err(_) => {
            let names = keys::column_types();
            let hint = column_type_hint(&text.value)
                .map(|name| format!("; did you mean {name}?"))
                .unwrap_or_default();
            let message =
                format!("found {:?}; expected one of {}{hint}", text.value, names.join(", "));
            text.blame(report, message);
            None
        }
    }
}

/// The type that is meant by what other programs call it.
fn column_type_hint(text: &str) -> Option<&'static str> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "int" | "integer" | "long" | "bigint" | "int32" => "int64",
        "float" | "double" | "number" | "real" | "float32" => "float64",
        "str" | "text" | "varchar" | "utf8" | "object" => "string",
        "bool" => "boolean",
        "datetime" | "time" => "timestamp",
        "date32" => "date",
        other => nearest(other, keys::column_types())?,
    })
}

fn side_inputs(job: &mut Scope<'_>, report: &Report) -> Option<At<Vec<RawSideInput>>> {
    let groups = job.named("side_inputs")?;
    Some(groups.map(|groups| {
        groups.into_iter().filter_map(|(name, scope)| side_input(name, scope, report)).collect()
    }))
}

fn side_input(name: At<String>, mut scope: Scope<'_>, report: &Report) -> Option<RawSideInput> {
    if !scope.has("path") {
        report.error(&scope.origin, &scope.path, "has no path; write path: with a folder");
    }
    let path = scope.text("path");
    let mount_path = scope.text("mount_path");
    scope.finish();
    let name_fits = check_name(&name, report);
    let path = path?;
    name_fits.then_some(RawSideInput { name, path, mount_path })
}

fn check_name(name: &At<String>, report: &Report) -> bool {
    let fits = is_name(&name.value);
    if !fits {
        let message = format!("found the name {:?}; expected {}", name.value, keys::NAME_EXPECTED);
        name.blame(report, message);
    }
    fits
}
