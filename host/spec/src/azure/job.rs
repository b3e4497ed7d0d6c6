//! Converts a parallel job of a version 2 file into keys of our own.

use super::data::JobData;
use super::kind::DocumentKind;
use super::names;
use super::nodes::{SCHEMA_KEY, each_scalar, entry, entry_of, remove_key, scalar, text};
use super::settings::{AzureSettings, remove_group, report_unknown};
use super::text::{expand_groups, replace, split};
use crate::error::{ErrorReport, SettingOrigin};
use crate::job_file_location::JobFileLocation;
use crate::model::SliceSize;
use crate::tree::{MapEntry, YamlNode, YamlValue};

/// A job with this option needs no input data (docs/parallel-run-step.md C26).
const NO_DATA_OPTION: &str = "rank_mini_batch_count";

/// Converts a parallel job into a tree of our keys. Errors go to the report.
pub(crate) fn convert(
    job: YamlNode,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<YamlNode> {
    names::record_names(DocumentKind::Job, "", report);
    let origin = job.origin.clone();
    let YamlValue::Map(mut entries) = job.value else {
        report.error(&origin, "", format!("found {job}; expected the settings of a parallel job"));
        return None;
    };
    // A null value means that the setting was not set.
    entries.retain(|entry| entry.node.value != YamlValue::Null);
    for key in ["type", SCHEMA_KEY] {
        remove_key(&mut entries, key);
    }
    let mut task = remove_group(&mut entries, "task", report).unwrap_or_default();
    let append_row_to = remove_append_row_to(&mut task, &mut entries, report);
    drop_size_beside_keys(&mut entries, report);
    let is_size_in_bytes = is_size_in_bytes(&entries);
    let inputs = remove_key(&mut entries, "inputs");
    let input_data = remove_key(&mut entries, "input_data");
    let needs_no_data = entry_of(&entries, NO_DATA_OPTION).is_some()
        || task.iter().any(|entry| {
            entry.key == "program_arguments"
                && text(&entry.node).is_some_and(|text| text.contains(NO_DATA_OPTION))
        });
    let mut data = JobData::new(is_size_in_bytes);
    data.add_inputs(inputs, input_data.as_ref(), needs_no_data, location, report);
    let outputs = remove_key(&mut entries, "outputs");
    let output_data = remove_key(&mut entries, "output_data");
    data.add_outputs(outputs, append_row_to.as_ref(), output_data.as_ref(), report);
    for entry in entries.iter_mut().chain(&mut task) {
        if entry.key != "program_arguments" {
            let key = entry.key.clone();
            each_scalar(&mut entry.node, &mut |node| resolve(node, &data, &key, report));
        }
    }
    let mut settings = AzureSettings::new(std::mem::take(&mut data.entries), "", report);
    add_task(task, &data, &mut settings, location, report);
    if append_row_to.is_none() && entry_of(&entries, "output_action").is_none() {
        report.conversion(
            "task.append_row_to is not set: output_action is summary_only (as in Azure)",
        );
        settings.ours.push(entry("output_action", scalar("summary_only", &origin)));
    } else if let Some(node) = append_row_to {
        settings.ours.push(entry("output_action", scalar("append_row", &node.origin)));
    }
    settings.add_resources(&mut entries);
    settings.add_retries(&mut entries);
    entries.into_iter().for_each(|setting| settings.add(setting));
    Some(YamlNode { origin, value: YamlValue::Map(settings.into_keys()) })
}

/// Removes and returns the value of `append_row_to`, which names the output for rows. Some components have
/// this key beside their task instead of in it.
fn remove_append_row_to(
    task: &mut Vec<MapEntry>,
    entries: &mut Vec<MapEntry>,
    report: &ErrorReport,
) -> Option<YamlNode> {
    let in_task = remove_key(task, "append_row_to");
    match (in_task, remove_key(entries, "append_row_to")) {
        (Some(_), Some(beside)) => {
            report.error(
                &beside.origin,
                "append_row_to",
                "also given as task.append_row_to; remove it here",
            );
            None
        }
        (None, Some(beside)) => {
            report.conversion("append_row_to is read as task.append_row_to");
            Some(beside)
        }
        (in_task, None) => in_task,
    }
}

/// If a file has both `mini_batch_size` and `partition_keys`, Azure uses the keys
/// (docs/parallel-run-step.md, Where the sources disagree).
fn drop_size_beside_keys(entries: &mut Vec<MapEntry>, report: &ErrorReport) {
    if entry_of(entries, "partition_keys").is_some()
        && let Some(size) = remove_key(entries, "mini_batch_size")
    {
        let size = text(&size).unwrap_or_default();
        report.notice(format!(
            "mini_batch_size ({size}) is ignored, as in Azure: partition_keys make the mini-batches"
        ));
    }
}

/// Whether `mini_batch_size` is a number of bytes, which only tables can have.
fn is_size_in_bytes(entries: &[MapEntry]) -> bool {
    let size = entry_of(entries, "mini_batch_size").and_then(|entry| text(&entry.node));
    size.is_some_and(|size| {
        size.trim().parse::<u64>().is_err()
            && matches!(SliceSize::parse(size), Some(SliceSize::Bytes(_)))
    })
}

/// Replaces the references in this node, which belongs to the setting `key`.
fn resolve(node: &mut YamlNode, data: &JobData, key: &str, report: &ErrorReport) {
    if let YamlValue::Scalar { text, .. } = &mut node.value {
        *text = replace(text, |name| data.resolve(name, key, &node.origin, report));
    }
}

fn add_task(
    task: Vec<MapEntry>,
    data: &JobData,
    settings: &mut AzureSettings<'_>,
    location: &JobFileLocation,
    report: &ErrorReport,
) {
    for MapEntry { key, node } in task {
        match key.as_str() {
            "type" => {
                let kind = text(&node).unwrap_or_default().to_ascii_lowercase();
                if !matches!(kind.as_str(), "run_function" | "function" | "model") {
                    let message = format!("found {node}; expected run_function, function or model");
                    report.error(&node.origin, "task.type", message);
                }
            }
            "code" => settings.add_renamed("task.code", "source_directory", node),
            "entry_script" => settings.ours.push(entry("entry_script", node)),
            "program_arguments" => {
                if let Some(node) = split_arguments(node, data, report) {
                    settings.add_renamed("task.program_arguments", "arguments", node);
                }
            }
            "environment" => {
                settings.add_environment("task.environment", &node, location);
            }
            "model" => report.conversion("task.model: ignored, a model is a side input here"),
            "identity" => report.conversion("task.identity: ignored, the job runs as you"),
            _ => report_unknown(
                "task",
                &MapEntry { key, node },
                "type, code, entry_script, program_arguments, append_row_to, environment, model",
                report,
            ),
        }
    }
}

const ARGUMENTS_KEY: &str = "task.program_arguments";

/// Splits `program_arguments` into a list, unless it is a list already. An optional group, `$[[...]]`, is
/// kept if all inputs that it refers to have a value.
fn split_arguments(node: YamlNode, data: &JobData, report: &ErrorReport) -> Option<YamlNode> {
    let origin = node.origin.clone();
    let mut words = Vec::new();
    match node.value {
        YamlValue::Scalar { text, .. } => words.extend(split_line(&text, &origin, data, report)?),
        YamlValue::List(items) => {
            for item in items {
                match &item.value {
                    YamlValue::Scalar { text, .. } if text.contains("$[[") => {
                        words.extend(split_line(text, &item.origin, data, report)?);
                    }
                    _ => words.push(item),
                }
            }
        }
        value => return Some(YamlNode { origin, value }),
    }
    let mut node = YamlNode { origin, value: YamlValue::List(words) };
    each_scalar(&mut node, &mut |node| resolve(node, data, ARGUMENTS_KEY, report));
    Some(node)
}

fn split_line(
    line: &str,
    origin: &SettingOrigin,
    data: &JobData,
    report: &ErrorReport,
) -> Option<Vec<YamlNode>> {
    let words = expand_groups(line, |name| data.is_absent(name)).and_then(|line| split(&line));
    match words {
        Ok(words) => Some(words.into_iter().map(|word| scalar(word, origin)).collect()),
        Err(problem) => {
            report.error(origin, ARGUMENTS_KEY, problem.to_string());
            None
        }
    }
}
