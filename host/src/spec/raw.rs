//! A job file as written: every setting typed, optional, and with its place. Nothing is checked
//! against the machine or against other settings yet.

use super::error::{Origin, Report};
use super::keys;
use super::scope::{At, Scope, Variables};
use super::tree::{Node, Value};
use crate::model::{ByteSize, Column, ColumnType, ErrorThreshold, LoggingLevel, OutputAction};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RawJob {
    pub(super) name: Option<At<String>>,
    pub(super) tenant: Option<At<String>>,
    pub(super) entry_script: Option<At<String>>,
    pub(super) entry_script_digest: Option<At<String>>,
    pub(super) source_directory: Option<At<String>>,
    pub(super) inputs: Option<At<Vec<RawInput>>>,
    pub(super) side_inputs: Option<At<Vec<RawSideInput>>>,
    pub(super) output: Option<At<String>>,
    pub(super) arguments: Option<At<Vec<At<String>>>>,
    pub(super) environment_variables: Option<At<Variables>>,
    pub(super) mini_batch_size: Option<At<String>>,
    pub(super) process_count_per_node: Option<At<u32>>,
    pub(super) node_count: Option<At<u32>>,
    pub(super) output_action: Option<At<OutputAction>>,
    pub(super) append_row_file_name: Option<At<String>>,
    pub(super) error_threshold: Option<At<ErrorThreshold>>,
    pub(super) run_max_try: Option<At<u32>>,
    pub(super) run_invocation_timeout: Option<At<Duration>>,
    pub(super) logging_level: Option<At<LoggingLevel>>,
    pub(super) limits: RawLimits,
    pub(super) schema_inference: Option<At<SchemaInference>>,
    pub(super) rank_mini_batch_count: Option<At<i64>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RawLimits {
    pub(super) memory: Option<At<ByteSize>>,
    pub(super) fuel: Option<At<u64>>,
    pub(super) read: Option<At<ByteSize>>,
    pub(super) results: Option<At<ByteSize>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawInput {
    /// The path of the input itself.
    pub(super) key: String,
    pub(super) name: At<String>,
    pub(super) paths: Vec<At<String>>,
    pub(super) format: Option<At<Format>>,
    pub(super) delimiter: Option<At<u8>>,
    pub(super) header: Option<At<bool>>,
    pub(super) null_values: Option<At<Vec<String>>>,
    pub(super) schema: Option<At<Vec<Column>>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawSideInput {
    pub(super) name: At<String>,
    pub(super) path: At<String>,
    pub(super) mount_path: Option<At<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Files,
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaInference {
    First,
    Full,
}

/// Reads the root of a tree. None if it holds no settings at all.
pub(super) fn read(root: Node, report: &Report) -> Option<RawJob> {
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
        limits: limits(&mut job),
        schema_inference: job.parsed_by("schema_inference", |_, text| {
            choice(text, &[("first", SchemaInference::First), ("full", SchemaInference::Full)])
        }),
        rank_mini_batch_count: job.parsed("rank_mini_batch_count"),
    };
    job.finish();
    Some(raw)
}

fn limits(job: &mut Scope<'_>) -> RawLimits {
    let Some(mut limits) = job.group("limits") else { return RawLimits::default() };
    let at_least = |least: u64| {
        move |_: &keys::Key, text: &str| -> Option<ByteSize> {
            text.parse().ok().filter(|size: &ByteSize| size.0 >= least)
        }
    };
    let raw = RawLimits {
        // Less than one page of memory holds no guest at all.
        memory: limits.parsed_by("memory", at_least(64 << 10)),
        fuel: limits.parsed("fuel"),
        read: limits.parsed_by("read", at_least(1)),
        results: limits.parsed_by("results", at_least(1)),
    };
    limits.finish();
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
        format: input.parsed_by("format", |_, text| {
            choice(text, &[("files", Format::Files), ("csv", Format::Csv)])
        }),
        delimiter: input.parsed_by("delimiter", delimiter),
        header: input
            .parsed_by("header", |_, text| choice(text, &[("true", true), ("false", false)])),
        null_values: input.scalars("null_values").map(|values| {
            values.map(|values| values.into_iter().map(|value| value.value).collect())
        }),
        schema: columns(&mut input, report),
        name,
    };
    input.finish();
    check_name(&raw.name, report).then_some(raw)
}

fn paths(input: &mut Scope<'_>, report: &Report) -> Vec<At<String>> {
    let (has_path, has_paths) = (input.has("path"), input.has("paths"));
    if has_path == has_paths {
        let message = if has_path {
            "found path and paths; write one of them"
        } else {
            "has no path; write path: with a file, a folder or a glob"
        };
        report.error(&input.origin, &input.path, message);
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
        other => keys::nearest(other, keys::column_types())?,
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

fn name(_: &keys::Key, text: &str) -> Option<String> {
    is_name(text).then(|| text.to_owned())
}

/// Whether a text is fit for a folder's name on any machine: see [`keys::NAME_EXPECTED`].
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'))
        && text.bytes().next().is_some_and(plain)
}

/// The digits alone, in lower case.
fn digest(_: &keys::Key, text: &str) -> Option<String> {
    let text = text.trim();
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let fits = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then(|| digits.to_ascii_lowercase())
}

fn seconds(_: &keys::Key, text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    if !(seconds > 0.0 && seconds <= f64::from(keys::MAX_TIMEOUT)) {
        return None;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}

fn delimiter(_: &keys::Key, text: &str) -> Option<u8> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Some(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Some(*byte),
        _ => None,
    }
}

fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Option<T> {
    choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim())).map(|(_, value)| *value)
}
