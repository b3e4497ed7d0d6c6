//! Version 2: a parallel job becomes keys of our own.

use super::data::Data;
use super::nodes::{each_scalar, entry, scalar, take, text};
use super::text::{replace, split};
use crate::error::Report;
use crate::keys;
use crate::place::{Place, fit_name};
use crate::tree::{Entry, Node, Value, join};
use std::collections::HashSet;

/// Keys that have another name here. The first name is where it stands in the file.
const RENAMED: [(&str, &str); 3] = [
    ("max_concurrency_per_instance", "process_count_per_node"),
    ("mini_batch_error_threshold", "allowed_failed_count"),
    ("is_deterministic", "allow_reuse"),
];

/// What says nothing of a job on this machine, and is no key of ours either.
const IGNORED: [(&str, &str); 5] = [
    ("experiment_name", "for display in Azure only"),
    ("identity", "the job runs as you"),
    ("queue_settings", "the job runs on this machine"),
    ("services", "there are none on this machine"),
    ("version", "for Azure's registry only"),
];

/// Of `resources`.
const IGNORED_RESOURCES: [(&str, &str); 6] = [
    ("instance_type", "the job runs on this machine"),
    ("docker_args", "there are no containers here; limits bound an entry script"),
    ("shm_size", "there are no containers here; limits.memory bounds an entry script"),
    ("locations", "the job runs on this machine"),
    ("max_instance_count", "the job runs on this machine"),
    ("properties", "for Azure's machines only"),
];

/// A job that has this needs no data (prs-semantics C26).
const VOID: &str = "rank_mini_batch_count";

/// Turns a parallel job into a tree of our keys. What is wrong goes to the report.
pub(crate) fn convert(job: Node, place: &Place, report: &Report) -> Option<Node> {
    let origin = job.origin.clone();
    let Value::Map(mut entries) = job.value else {
        report.error(&origin, "", format!("found {job}; expected the settings of a parallel job"));
        return None;
    };
    // Null stands for what was not set.
    entries.retain(|entry| entry.node.value != Value::Null);
    for key in ["type", super::SCHEMA_KEY] {
        take(&mut entries, key);
    }
    if let Some(component) = take(&mut entries, "component") {
        let message = "names a component of Azure's, which cannot be read here; write its task and \
                       its settings into the job itself";
        report.error(&component.origin, "component", message);
        return None;
    }
    let mut task = group(&mut entries, "task", report).unwrap_or_default();
    let append_row_to = take(&mut task, "append_row_to");
    let mut data = Data::default();
    let inputs = take(&mut entries, "inputs");
    let input_data = take(&mut entries, "input_data");
    let is_void = has(&entries, VOID)
        || task.iter().any(|entry| {
            entry.key == "program_arguments"
                && text(&entry.node).is_some_and(|text| text.contains(VOID))
        });
    data.add_inputs(inputs, input_data.as_ref(), is_void, place, report);
    let outputs = take(&mut entries, "outputs");
    data.add_outputs(outputs, append_row_to.as_ref(), report);
    for entry in entries.iter_mut().chain(&mut task) {
        if entry.key != "program_arguments" {
            each_scalar(&mut entry.node, &mut |node| resolve(node, &data));
        }
    }
    let mut ours = std::mem::take(&mut data.entries);
    add_task(task, &data, &mut ours, report);
    if append_row_to.is_none() && !has(&entries, "output_action") {
        report.notice("task.append_row_to is not set: output_action is summary_only (as in Azure)");
        ours.push(entry("output_action", scalar("summary_only", &origin)));
    } else if let Some(node) = append_row_to {
        ours.push(entry("output_action", scalar("append_row", &node.origin)));
    }
    add_resources(&mut entries, &mut ours, report);
    add_retries(&mut entries, &mut ours, report);
    for setting in entries {
        add_setting(setting, &mut ours, report);
    }
    refuse_doubles(&mut ours, report);
    Some(Node { origin, value: Value::Map(ours) })
}

/// A file may say a setting in Azure's words and in ours, but not in both.
fn refuse_doubles(ours: &mut Vec<Entry>, report: &Report) {
    let mut seen = HashSet::new();
    ours.retain(|entry| {
        let is_new = seen.insert(entry.key.clone());
        if !is_new {
            let message = "given twice, the other time by Azure's name for it; remove one";
            report.error(&entry.node.origin, &entry.key, message);
        }
        is_new
    });
}

fn has(entries: &[Entry], key: &str) -> bool {
    entries.iter().any(|entry| entry.key == key)
}

fn resolve(node: &mut Node, data: &Data) {
    if let Value::Scalar { text, .. } = &mut node.value {
        *text = replace(text, |name| data.resolve(name));
    }
}

/// Takes a map out.
fn group(entries: &mut Vec<Entry>, key: &str, report: &Report) -> Option<Vec<Entry>> {
    let node = take(entries, key)?;
    match node.value {
        Value::Map(mut inner) => {
            inner.retain(|entry| entry.node.value != Value::Null);
            Some(inner)
        }
        _ => {
            report.error(&node.origin, key, format!("found {node}; expected a map"));
            None
        }
    }
}

fn renamed(theirs: &str, ours: &str, report: &Report) {
    report.notice(format!("{theirs} is taken for {ours}"));
}

/// Reports what a group has and should not have.
fn unknown(group: &str, found: &Entry, known: &str, report: &Report) {
    let message = format!("unknown key; the known ones are {known}");
    report.error(&found.node.origin, &join(group, &found.key), message);
}

fn add_task(task: Vec<Entry>, data: &Data, ours: &mut Vec<Entry>, report: &Report) {
    for Entry { key, node } in task {
        match key.as_str() {
            "type" => {
                let kind = text(&node).unwrap_or_default().to_ascii_lowercase();
                if !matches!(kind.as_str(), "run_function" | "function" | "model") {
                    let message = format!("found {node}; expected run_function, function or model");
                    report.error(&node.origin, "task.type", message);
                }
            }
            "code" => {
                renamed("task.code", "source_directory", report);
                ours.push(entry("source_directory", node));
            }
            "entry_script" => ours.push(entry("entry_script", node)),
            "program_arguments" => {
                renamed("task.program_arguments", "arguments", report);
                ours.extend(arguments(node, data, report).map(|node| entry("arguments", node)));
            }
            "environment" => report.notice(
                "task.environment: ignored, an entry script is a component and brings all that it \
                 needs",
            ),
            "model" => report.notice("task.model: ignored, a model is a side input here"),
            "identity" => report.notice("task.identity: ignored, the job runs as you"),
            _ => unknown(
                "task",
                &Entry { key, node },
                "type, code, entry_script, program_arguments, append_row_to, environment, model",
                report,
            ),
        }
    }
}

/// A command line as a list; a list stays what it is.
fn arguments(mut node: Node, data: &Data, report: &Report) -> Option<Node> {
    if let Value::Scalar { text, .. } = &node.value {
        match split(text) {
            Ok(words) => {
                let items = words.into_iter().map(|word| scalar(word, &node.origin)).collect();
                node.value = Value::List(items);
            }
            Err(problem) => {
                report.error(&node.origin, "task.program_arguments", problem.to_string());
                return None;
            }
        }
    }
    each_scalar(&mut node, &mut |node| resolve(node, data));
    Some(node)
}

fn add_resources(entries: &mut Vec<Entry>, ours: &mut Vec<Entry>, report: &Report) {
    let alone = take(entries, "instance_count");
    let has_resources = has(entries, "resources");
    let resources = group(entries, "resources", report).unwrap_or_default();
    if let Some(alone) = alone {
        if has_resources {
            let message = "given together with resources; write resources.instance_count alone";
            report.error(&alone.origin, "instance_count", message);
        } else {
            add_nodes("instance_count", alone, ours, report);
        }
    }
    for resource in resources {
        let ignored = IGNORED_RESOURCES.iter().find(|(name, _)| *name == resource.key);
        if resource.key == "instance_count" {
            add_nodes("resources.instance_count", resource.node, ours, report);
        } else if let Some((name, reason)) = ignored {
            report.notice(format!("resources.{name}: ignored, {reason}"));
        } else {
            let known = "instance_count, instance_type, docker_args, shm_size, locations, \
                         max_instance_count, properties";
            unknown("resources", &resource, known, report);
        }
    }
}

/// Whether the file asks for more nodes than the one that there is: the job runs on that then, which is
/// told. Any other number goes on to be judged as our own.
pub(super) fn are_more_nodes(key: &str, node: &Node, report: &Report) -> bool {
    let count = text(node).and_then(|text| text.trim().parse::<u32>().ok());
    let Some(count) = count.filter(|count| *count > 1) else { return false };
    report.notice(format!(
        "{key}: the file asks for {count} nodes; the job runs on this one, with \
         process_count_per_node workers in all"
    ));
    true
}

fn add_nodes(key: &str, node: Node, ours: &mut Vec<Entry>, report: &Report) {
    if !are_more_nodes(key, &node, report) {
        ours.push(entry("node_count", node));
    }
}

fn add_retries(entries: &mut Vec<Entry>, ours: &mut Vec<Entry>, report: &Report) {
    for setting in group(entries, "retry_settings", report).unwrap_or_default() {
        match setting.key.as_str() {
            "timeout" => {
                renamed("retry_settings.timeout", "run_invocation_timeout", report);
                ours.push(entry("run_invocation_timeout", setting.node));
            }
            "max_retries" => {
                let retries = text(&setting.node).and_then(|text| text.trim().parse::<u32>().ok());
                let Some(tries) = retries.and_then(|retries| retries.checked_add(1)) else {
                    let message = format!(
                        "found {}; expected a whole number of retries from 0 up, after the first \
                         attempt",
                        setting.node
                    );
                    report.error(&setting.node.origin, "retry_settings.max_retries", message);
                    continue;
                };
                report.notice(format!(
                    "retry_settings.max_retries {} is run_max_try {tries}: the first attempt \
                     counts, too",
                    tries - 1
                ));
                ours.push(entry("run_max_try", scalar(tries.to_string(), &setting.node.origin)));
            }
            _ => unknown("retry_settings", &setting, "max_retries, timeout", report),
        }
    }
}

/// A setting of the top level.
fn add_setting(setting: Entry, ours: &mut Vec<Entry>, report: &Report) {
    let Entry { key, mut node } = setting;
    let ignored = IGNORED.iter().chain(keys::IGNORED).find(|(name, _)| *name == key);
    if let Some((name, reason)) = ignored {
        report.notice(format!("{name}: ignored, {reason}"));
        return;
    }
    if let Some((theirs, name)) = RENAMED.iter().find(|(theirs, _)| *theirs == key) {
        renamed(theirs, name, report);
        ours.push(entry(name, node));
        return;
    }
    match key.as_str() {
        "name" => {
            if let Some(name) = text(&node) {
                let fitted = fit_name(name);
                if fitted != name {
                    report.notice(format!("name {name:?} is {fitted} here"));
                }
                node = scalar(fitted, &node.origin);
            }
        }
        "partition_keys" => node = key_list(node, report),
        _ => {}
    }
    ours.push(Entry { key, node });
}

/// The keys of a JSON text, which is how a pipeline's input gives them (prs-semantics C8).
fn key_list(node: Node, report: &Report) -> Node {
    let Some(text) = text(&node) else { return node };
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(keys) => {
            let items = keys.into_iter().map(|key| scalar(key, &node.origin)).collect();
            Node { origin: node.origin.clone(), value: Value::List(items) }
        }
        Err(_) => {
            let message = format!(
                "found {node}; expected a list of texts, or a JSON text of one, as in \
                 '[\"store\", \"brand\"]'"
            );
            report.error(&node.origin, "partition_keys", message);
            // The error is said; an empty list would only be said once more.
            Node { origin: node.origin.clone(), value: Value::List(Vec::new()) }
        }
    }
}
