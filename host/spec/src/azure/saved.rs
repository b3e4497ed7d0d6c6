//! Converts files that version 1 of Azure ML's SDK saved: the settings below `parallel_run_config` become
//! our own keys.

use super::nodes::SCHEMA_KEY;
use super::settings::asks_for_more_nodes;
use crate::error::ErrorReport;
use crate::keys;
use crate::model::nearest;
use crate::tree::{MapEntry, YamlNode, YamlValue, join};

/// The root key of a saved file.
pub(crate) const SAVED_SECTION: &str = "parallel_run_config";

/// Moves the settings of a saved file up to the root, and drops settings that have no meaning here, each
/// with a line for the user. Returns whether the file is a saved one. `None`, with an error, if the section
/// is not a map of settings.
pub(crate) fn flatten(root: &mut YamlNode, report: &ErrorReport) -> Option<bool> {
    let YamlValue::Map(entries) = &mut root.value else { return Some(false) };
    entries.retain(|entry| entry.key != SCHEMA_KEY);
    let Some(index) = entries.iter().position(|entry| entry.key == SAVED_SECTION) else {
        return Some(false);
    };
    let section = entries.remove(index).node;
    let YamlValue::Map(settings) = section.value else {
        let message = format!(
            "found {section}; expected the settings that ParallelRunConfig saves, as a map"
        );
        report.error(&section.origin, SAVED_SECTION, message);
        return None;
    };
    for setting in settings {
        if setting.key == "models" {
            // In a saved file, `models` lists names in Azure's registry. Our key `models` has
            // another meaning.
            if setting.node.value != YamlValue::Null {
                report.conversion(
                    "models: ignored, deprecated in Azure; to use models, write the key `models` beside the section",
                );
            }
        } else if let Some(beside) = entries.iter().find(|entry| entry.key == setting.key) {
            let message = "given both in and beside parallel_run_config; remove one of them";
            report.error(&beside.node.origin, &join(SAVED_SECTION, &setting.key), message);
        } else if is_wanted(&setting, report) {
            entries.push(setting);
        }
    }
    Some(true)
}

fn is_wanted(MapEntry { key, node }: &MapEntry, report: &ErrorReport) -> bool {
    // The SDK writes null for settings that were not set.
    if node.value == YamlValue::Null {
        return false;
    }
    if let Some((_, reason)) = keys::IGNORED.iter().find(|(name, _)| name == key) {
        report.conversion(format!("{key}: ignored, {reason}"));
        return false;
    }
    if key == "node_count" {
        return !asks_for_more_nodes(key, node, report);
    }
    // Keep a misspelt key here. It is reported with all other misspelt keys when the settings are read.
    if nearest(key, keys::top_level()).is_some() {
        return true;
    }
    report.conversion(format!("{key}: ignored, Sandmill has no such setting"));
    false
}
