//! The root of a job file as written, its inputs and its output.

use super::models::{self, RawInference, RawModel};
use super::values::{choice, delimiter, digest, mark, mark_or_none};
use crate::error::{ErrorReport, SettingOrigin};
use crate::given_settings::{self, GivenLimits, GivenSettings};
use crate::keys::{self, InputFormat};
use crate::model::{
    Column, ColumnType, Compression, OutputKind, OutputLayout, PythonRuntime, Quoting, nearest,
};
use crate::scope::{Located, UnreadNames, Variables};
use crate::tree::{YamlNode, YamlValue};
use std::time::Duration;

/// All settings of a job file. `None` if the file does not have the key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawJob {
    /// The settings in the tables of `sandmill-model`.
    pub(crate) settings: GivenSettings,
    pub(crate) limits: GivenLimits,
    pub(crate) name: Option<Located<String>>,
    pub(crate) entry_script: Option<Located<String>>,
    pub(crate) entry_script_digest: Option<Located<String>>,
    pub(crate) source_directory: Option<Located<String>>,
    pub(crate) inputs: Option<Located<Vec<RawInput>>>,
    pub(crate) side_inputs: Option<Located<Vec<RawSideInput>>>,
    pub(crate) models: Option<Located<Vec<RawModel>>>,
    pub(crate) inference: RawInference,
    pub(crate) python: RawPython,
    pub(crate) output: Option<Located<String>>,
    pub(crate) job_store: Option<Located<String>>,
    pub(crate) arguments: Option<Located<Vec<Located<String>>>>,
    pub(crate) environment_variables: Option<Located<Variables>>,
    pub(crate) mini_batch_size: Option<Located<String>>,
    pub(crate) process_count_per_node: Option<Located<u32>>,
    pub(crate) node_count: Option<Located<u32>>,
    pub(crate) append_row_file_name: Option<Located<String>>,
    pub(crate) partition_keys: Option<Located<Vec<Located<String>>>>,
    pub(crate) gpus: Option<Located<u32>>,
    pub(crate) output_format: RawOutputFormat,
    pub(crate) append_row_dataframe_header: Option<Located<bool>>,
    pub(crate) output_layout: Option<Located<OutputLayout>>,
    /// The names, and whether a single name was given instead of a list.
    pub(crate) join: Option<Located<(Vec<String>, bool)>>,
    pub(crate) progress_update_timeout: Option<Located<Duration>>,
    pub(crate) parent: Option<Located<String>>,
    pub(crate) copy_logs_to_parent: Option<Located<bool>>,
    pub(crate) push_metrics_to_parent: Option<Located<bool>>,
    pub(crate) schema_inference: Option<Located<SchemaInference>>,
    pub(crate) rank_mini_batch_count: Option<Located<i64>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawPython {
    pub(crate) runtime: Option<Located<PythonRuntime>>,
    pub(crate) requirements: Option<Located<String>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawOutputFormat {
    pub(crate) kind: Option<Located<OutputKind>>,
    pub(crate) compression: Option<Located<Compression>>,
    pub(crate) delimiter: Option<Located<u8>>,
    pub(crate) header: Option<Located<bool>>,
    pub(crate) quoting: Option<Located<Quoting>>,
    pub(crate) null_value: Option<Located<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawInput {
    /// The key path of the input.
    pub(crate) key: String,
    pub(crate) name: Located<String>,
    pub(crate) paths: Vec<Located<String>>,
    pub(crate) datastore: Option<Located<String>>,
    /// A registered name, instead of paths.
    pub(crate) dataset: Option<Located<String>>,
    pub(crate) partition_format: Option<Located<String>>,
    pub(crate) format: Option<Located<InputFormat>>,
    pub(crate) delimiter: Option<Located<u8>>,
    pub(crate) header: Option<Located<bool>>,
    pub(crate) null_values: Option<Located<Vec<String>>>,
    pub(crate) schema: Option<Located<Vec<Column>>>,
    pub(crate) columns: Option<Located<Vec<Located<String>>>>,
    pub(crate) drop_columns: Option<Located<Vec<Located<String>>>>,
    pub(crate) types: Option<Located<Vec<Column>>>,
    pub(crate) take: Option<Located<u64>>,
    pub(crate) quoted_newlines: Option<Located<bool>>,
    /// The inner `None` means that quotes are part of the text.
    pub(crate) quote: Option<Located<Option<u8>>>,
    pub(crate) escape: Option<Located<u8>>,
    pub(crate) comment: Option<Located<u8>>,
    pub(crate) skip_lines: Option<Located<u32>>,
    /// Whether duplicate names are renamed.
    pub(crate) duplicate_names: Option<Located<bool>>,
    pub(crate) hive: Option<Located<bool>>,
    pub(crate) files: Option<Located<bool>>,
    pub(crate) table: Option<Located<String>>,
    pub(crate) query: Option<Located<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawSideInput {
    pub(crate) name: Located<String>,
    pub(crate) path: Located<String>,
    pub(crate) mount_path: Option<Located<String>>,
    /// The only file of the side input, if the path is a folder that a submitter has uploaded it to.
    pub(crate) uploaded_file: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaInference {
    First,
    Full,
}

impl RawJob {
    /// Where the address with this key was written. The key is one that `JobSpec::addresses` returns.
    pub(crate) fn origin_of_address(&self, key: &str) -> Option<&SettingOrigin> {
        let mut inputs = self.inputs.iter().flat_map(|inputs| &inputs.value);
        let input = inputs.find(|input| key == format!("inputs.{}.path", input.name.value));
        let sides = self.side_inputs.iter().flat_map(|sides| &sides.value);
        let models = self.models.iter().flat_map(|models| &models.value);
        let paths = sides.map(|side| &side.path).chain(models.map(|model| &model.path));
        let places = [&self.output, &self.job_store].into_iter().flatten();
        let other = paths.chain(places).find(|setting| setting.key == key);
        input.map(|input| &input.name.origin).or(other.map(|setting| &setting.origin))
    }
}

/// Reads the root of a tree. `None` if the root is not a map of settings.
pub(crate) fn read(root: YamlNode, report: &ErrorReport) -> Option<RawJob> {
    let entries = match root.value {
        YamlValue::Map(entries) => entries,
        other => {
            // The message may go to another machine, and the file may be a key or a password.
            let found = if matches!(other, YamlValue::List(_)) { "a list" } else { "one value" };
            let message = format!(
                "found {found}; expected a map of settings (e.g. entry_script: script.wasm)"
            );
            report.error(&root.origin, "", message);
            return None;
        }
    };
    let mut job = UnreadNames::new(String::new(), SettingOrigin::File, entries, keys::JOB, report);
    let raw = RawJob {
        settings: GivenSettings::read(&mut job),
        limits: given_settings::limits(&mut job, GivenLimits::read),
        name: job.setting("name"),
        entry_script: job.text("entry_script"),
        entry_script_digest: job.parsed_by("entry_script_digest", digest),
        source_directory: job.text("source_directory"),
        inputs: inputs(&mut job, report),
        side_inputs: side_inputs(&mut job, report),
        models: models::read(&mut job, report),
        inference: models::read_inference(&mut job),
        python: python(&mut job),
        output: job.text("output"),
        job_store: job.text("job_store"),
        arguments: job.scalars("arguments"),
        environment_variables: job.variables("environment_variables"),
        mini_batch_size: job.text("mini_batch_size"),
        process_count_per_node: job.setting("process_count_per_node"),
        node_count: job.setting("node_count"),
        append_row_file_name: job.text("append_row_file_name"),
        partition_keys: job.texts("partition_keys"),
        gpus: job.setting("gpus"),
        output_format: output_format(&mut job),
        append_row_dataframe_header: job.bool("append_row_dataframe_header"),
        output_layout: job.parsed_by("output_layout", |_, text| {
            choice(text, &OutputLayout::ALL.map(|layout| (layout.name(), layout)))
        }),
        join: job.scalars_or_one("join"),
        progress_update_timeout: job.setting("progress_update_timeout"),
        parent: job.text("parent"),
        copy_logs_to_parent: job.bool("copy_logs_to_parent"),
        push_metrics_to_parent: job.bool("push_metrics_to_parent"),
        schema_inference: job.parsed_by("schema_inference", |_, text| {
            choice(text, &[("first", SchemaInference::First), ("full", SchemaInference::Full)])
        }),
        rank_mini_batch_count: job.setting("rank_mini_batch_count"),
    };
    job.report_unread();
    Some(raw)
}

fn python(job: &mut UnreadNames<'_>) -> RawPython {
    let Some(mut group) = job.group("python") else { return RawPython::default() };
    let runtime = group.parsed_by("runtime", |_, text| {
        choice(text, &PythonRuntime::ALL.map(|runtime| (runtime.name(), runtime)))
    });
    let requirements = group.text("requirements");
    group.report_unread();
    RawPython { runtime, requirements }
}

fn output_format(job: &mut UnreadNames<'_>) -> RawOutputFormat {
    let Some(mut format) = job.group_or("output_format", Some("type")) else {
        return RawOutputFormat::default();
    };
    let raw = RawOutputFormat {
        kind: format.parsed_by("type", |_, text| {
            choice(text, &OutputKind::ALL.map(|kind| (kind.name(), kind)))
        }),
        compression: format.parsed_by("compression", |_, text| {
            choice(text, &Compression::ALL.map(|compression| (compression.name(), compression)))
        }),
        delimiter: format.parsed_by("delimiter", |_, text| delimiter(text)),
        header: format.bool("header"),
        quoting: format.parsed_by("quoting", |_, text| {
            let choices = [
                ("minimal", Quoting::Minimal),
                ("all", Quoting::All),
                ("nonnumeric", Quoting::Nonnumeric),
                ("none", Quoting::None),
            ];
            choice(text, &choices)
        }),
        null_value: format.text("null_value"),
    };
    format.report_unread();
    raw
}

fn inputs(job: &mut UnreadNames<'_>, report: &ErrorReport) -> Option<Located<Vec<RawInput>>> {
    let groups = job.named("inputs")?;
    Some(groups.map(|groups| {
        groups.into_iter().filter_map(|(name, scope)| input(name, scope, report)).collect()
    }))
}

fn input(
    name: Located<String>,
    mut input: UnreadNames<'_>,
    report: &ErrorReport,
) -> Option<RawInput> {
    let raw = RawInput {
        key: input.path.clone(),
        paths: paths(&mut input, report),
        datastore: input.text("datastore"),
        dataset: input.text("dataset"),
        partition_format: input.text("partition_format"),
        format: input.parsed_by("format", |_, text| {
            let is_name = |name: &str| name.eq_ignore_ascii_case(text.trim());
            InputFormat::all().into_iter().find(|format| is_name(format.name()))
        }),
        delimiter: input.parsed_by("delimiter", |_, text| delimiter(text)),
        header: input.bool("header"),
        null_values: input.scalars("null_values").map(|values| {
            values.map(|values| values.into_iter().map(|value| value.value).collect())
        }),
        schema: columns("schema", &mut input, report),
        columns: input.texts("columns"),
        drop_columns: input.texts("drop_columns"),
        types: columns("types", &mut input, report),
        take: input.parsed_by("take", |_, text| text.trim().parse().ok().filter(|it| *it > 0)),
        quoted_newlines: input.bool("quoted_newlines"),
        quote: input.parsed_by("quote", |_, text| mark_or_none(text)),
        escape: input.parsed_by("escape", |_, text| mark(text)),
        comment: input.parsed_by("comment", |_, text| mark(text)),
        skip_lines: input.parsed_by("skip_lines", |_, text| text.trim().parse().ok()),
        duplicate_names: input.parsed_by("duplicate_names", |_, text| {
            choice(text, &[("refuse", false), ("rename", true)])
        }),
        hive: input.bool("hive"),
        files: input.bool("files"),
        table: input.text("table"),
        query: input.text("query"),
        name,
    };
    input.report_unread();
    check_name(&raw.name, report).then_some(raw)
}

fn paths(input: &mut UnreadNames<'_>, report: &ErrorReport) -> Vec<Located<String>> {
    let found: Vec<&str> =
        ["path", "paths", "dataset"].into_iter().filter(|key| input.has(key)).collect();
    match found[..] {
        [] => {
            let message = "has no path; set path to a file, a folder or a glob, or dataset \
                           to a registered name";
            report.error(&input.origin, &input.path, message);
        }
        [_] => {}
        _ => {
            let message = format!("found {}; write only one of them", found.join(" and "));
            report.error(&input.origin, &input.path, message);
        }
    }
    let single = input.text("path");
    let several = input.scalars("paths");
    if let Some(several) = &several
        && several.value.is_empty()
        && !report.has_error_at(&several.key)
    {
        several.blame(report, "found an empty list; name at least one file, folder or glob");
    }
    single.into_iter().chain(several.into_iter().flat_map(|several| several.value)).collect()
}

fn columns(
    key: &str,
    input: &mut UnreadNames<'_>,
    report: &ErrorReport,
) -> Option<Located<Vec<Column>>> {
    let columns = input.variables(key)?;
    if columns.value.is_empty() {
        columns.blame(report, "found an empty map; name columns, or leave the key out");
    }
    Some(columns.map(|columns| {
        columns.into_iter().filter_map(|(name, text)| column(name, &text, report)).collect()
    }))
}

fn column(name: String, text: &Located<String>, report: &ErrorReport) -> Option<Column> {
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

/// The column type that a name from another program stands for.
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

fn side_inputs(
    job: &mut UnreadNames<'_>,
    report: &ErrorReport,
) -> Option<Located<Vec<RawSideInput>>> {
    let groups = job.named("side_inputs")?;
    Some(groups.map(|groups| {
        groups.into_iter().filter_map(|(name, scope)| side_input(name, scope, report)).collect()
    }))
}

fn side_input(
    name: Located<String>,
    mut scope: UnreadNames<'_>,
    report: &ErrorReport,
) -> Option<RawSideInput> {
    if !scope.has("path") {
        report.error(&scope.origin, &scope.path, "has no path; set path to a folder or a file");
    }
    let path = scope.text("path");
    let mount_path = scope.text("mount_path");
    scope.report_unread();
    let is_name_valid = check_name(&name, report);
    let path = path?;
    is_name_valid.then_some(RawSideInput { name, path, mount_path, uploaded_file: None })
}

/// Whether a name is valid. If not, adds an error.
fn check_name(name: &Located<String>, report: &ErrorReport) -> bool {
    let is_valid = keys::is_name(&name.value);
    if !is_valid {
        let message = format!("found the name {:?}; expected {}", name.value, keys::NAME_EXPECTED);
        name.blame(report, message);
    }
    is_valid
}
