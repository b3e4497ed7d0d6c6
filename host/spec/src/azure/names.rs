//! The names of our keys in version 2 files.

use super::kind::DocumentKind;
use crate::error::ErrorReport;
use crate::tree::join;

/// Our keys, and their names in a parallel job.
const JOB_NAMES: [(&str, &str); 13] = [
    ("source_directory", "task.code"),
    ("entry_script", "task.entry_script"),
    ("arguments", "task.program_arguments"),
    ("append_row_file_name", "task.append_row_to"),
    ("output_action", "task.append_row_to"),
    ("node_count", "resources.instance_count"),
    ("process_count_per_node", "max_concurrency_per_instance"),
    ("run_max_try", "retry_settings.max_retries"),
    ("run_invocation_timeout", "retry_settings.timeout"),
    ("allowed_failed_count", "mini_batch_error_threshold"),
    ("allow_reuse", "is_deterministic"),
    ("side_inputs", "inputs"),
    ("output", "outputs"),
];

/// Our keys, and their names in a deployment.
const DEPLOYMENT_NAMES: [(&str, &str); 3] = [
    ("source_directory", "code_configuration.code"),
    ("entry_script", "code_configuration.scoring_script"),
    ("node_count", "resources.instance_count"),
];

/// Our keys, and their names in a deployment's settings.
const DEPLOYMENT_SETTING_NAMES: [(&str, &str); 9] = [
    ("mini_batch_size", "mini_batch_size"),
    ("process_count_per_node", "max_concurrency_per_instance"),
    ("error_threshold", "error_threshold"),
    ("logging_level", "logging_level"),
    ("output_action", "output_action"),
    ("append_row_file_name", "output_file_name"),
    ("run_max_try", "retry_settings.max_retries"),
    ("run_invocation_timeout", "retry_settings.timeout"),
    ("environment_variables", "environment_variables"),
];

/// First parts of keys that occur in Azure's parallel jobs but not in our own job files.
const JOB_KEYS: [&str; 8] = [
    "task",
    "resources",
    "retry_settings",
    "max_concurrency_per_instance",
    "outputs",
    "input_data",
    "output_data",
    "instance_count",
];
/// First parts of keys that occur in deployments but not in our own job files.
const DEPLOYMENT_KEYS: [&str; 6] =
    ["model", "code_configuration", "resources", "retry_settings", "settings", "output_file_name"];

/// Records the names of our keys in a file of this kind. `parent_key`: the key below which a deployment has
/// its settings. Empty for the top level.
pub(super) fn record_names(kind: DocumentKind, parent_key: &str, report: &ErrorReport) {
    match kind {
        DocumentKind::Other => {}
        DocumentKind::Job => {
            JOB_NAMES.iter().for_each(|(ours, theirs)| report.record_name(ours, theirs));
        }
        DocumentKind::Deployment => {
            DEPLOYMENT_NAMES.iter().for_each(|(ours, theirs)| report.record_name(ours, theirs));
            for (ours, theirs) in DEPLOYMENT_SETTING_NAMES {
                report.record_name(ours, &join(parent_key, theirs));
            }
        }
    }
}

/// Whether a key of `--set` is a key of the Azure file, before the conversion to our keys.
pub(crate) fn is_azure_key(kind: DocumentKind, key: &str) -> bool {
    let first = key.split(['.', '[']).next().unwrap_or_default();
    let known = match kind {
        DocumentKind::Other => return false,
        DocumentKind::Job => &JOB_KEYS[..],
        DocumentKind::Deployment => &DEPLOYMENT_KEYS[..],
    };
    first == "inputs" || known.contains(&first)
}
