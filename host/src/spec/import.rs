//! Files that the Azure SDK saved: the settings below `parallel_run_config` become ours.

use super::error::Report;
use super::keys;
use super::tree::{Entry, Node, Value, join};

/// The root key of a saved file.
pub(super) const SECTION: &str = "parallel_run_config";

/// Names the schema for an editor; says nothing of the job.
pub(super) const SCHEMA_KEY: &str = "$schema";

/// What to do with a job file of version 2, none of whose keys stand where ours do.
const VERSION_2: &str = "this is a parallel job of version 2 of Azure's SDK, which cannot be read \
    yet. Write a job file instead: name the component in entry_script and each input by \
    inputs.NAME.path; arguments, mini_batch_size, logging_level and environment_variables keep \
    their names; max_concurrency_per_instance is process_count_per_node, retry_settings are \
    run_max_try and run_invocation_timeout";

/// Whether only a job file of version 2 has this.
fn is_version_2(entry: &Entry) -> bool {
    match (entry.key.as_str(), &entry.node.value) {
        ("type", Value::Scalar { text, .. }) => text == "parallel",
        ("task", Value::Map(_)) => true,
        _ => false,
    }
}

/// Moves the settings of a saved file up to the root, and drops those that mean nothing here, with
/// a notice each. Returns whether it was such a file; none if it holds no settings.
pub(super) fn flatten(root: &mut Node, report: &Report) -> Option<bool> {
    let Value::Map(entries) = &mut root.value else { return Some(false) };
    if let Some(sign) = entries.iter().find(|entry| is_version_2(entry)) {
        report.error(&sign.node.origin, &sign.key, VERSION_2);
        return None;
    }
    entries.retain(|entry| entry.key != SCHEMA_KEY);
    let Some(index) = entries.iter().position(|entry| entry.key == SECTION) else {
        return Some(false);
    };
    let section = entries.remove(index).node;
    let Value::Map(settings) = section.value else {
        let message = format!(
            "found {section}; expected the settings that ParallelRunConfig saves, as a map"
        );
        report.error(&section.origin, SECTION, message);
        return None;
    };
    for setting in settings {
        if let Some(beside) = entries.iter().find(|entry| entry.key == setting.key) {
            // Both could be meant.
            let message = "given below parallel_run_config and beside it; remove one of them";
            report.error(&beside.node.origin, &join(SECTION, &setting.key), message);
        } else if is_wanted(&setting, report) {
            entries.push(setting);
        }
    }
    Some(true)
}

fn is_wanted(Entry { key, node }: &Entry, report: &Report) -> bool {
    // The SDK writes null for what was not set.
    if node.value == Value::Null {
        return false;
    }
    if let Some((_, reason)) = keys::IGNORED.iter().find(|(name, _)| name == key) {
        report.notice(format!("{key}: ignored, {reason}"));
        return false;
    }
    if key == "node_count" {
        return match node_count(node) {
            Some(count) if count > 1 => {
                report.notice(format!(
                    "node_count: the file asks for {count} nodes; the job runs on this one"
                ));
                false
            }
            _ => true,
        };
    }
    // What is misspelt is found, with all other misspelt keys, when the settings are read.
    if keys::nearest(key, keys::top_level()).is_some() {
        return true;
    }
    report.notice(format!("{key}: ignored, Sandmill knows no such setting"));
    false
}

fn node_count(node: &Node) -> Option<u32> {
    match &node.value {
        Value::Scalar { text, .. } => text.trim().parse().ok(),
        _ => None,
    }
}
