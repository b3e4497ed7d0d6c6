//! Appends ParallelRunStep's own options to the arguments (docs/parallel-run-step.md E11), because scripts
//! that were written for ParallelRunStep may read these options.

use super::job::JobSpec;
use super::raw::RawJob;
use crate::model::{InputKind, OutputAction, SliceSize};

/// Appends each option that is not already among the arguments. Thresholds for mini-batches are passed only
/// if the job file sets them.
pub(super) fn append(spec: &mut JobSpec, raw: &RawJob) {
    let mut options = vec![("logging_level", spec.worker.logging_level.to_string())];
    match &spec.input_kind {
        _ if !spec.partition_keys.is_empty() => {
            let keys = spec.partition_keys.clone();
            options.push(("partition_keys", serde_json::Value::from(keys).to_string()));
        }
        InputKind::Files { mini_batch_files } => {
            options.push(("mini_batch_size", mini_batch_files.to_string()));
        }
        InputKind::Tables { mini_batch_size, .. } => {
            let size = match mini_batch_size {
                SliceSize::Bytes(bytes) => bytes.to_string(),
                SliceSize::Rows(_) => mini_batch_size.to_string(),
            };
            options.push(("mini_batch_size", size));
        }
        InputKind::Void { .. } => {}
    }
    options.push(("error_threshold", spec.settings.error_threshold.to_string()));
    if raw.settings.allowed_failed_count.is_some() {
        options.push(("allowed_failed_count", spec.settings.allowed_failed_count.to_string()));
    }
    if raw.settings.allowed_failed_percent.is_some() {
        options.push(("allowed_failed_percent", spec.settings.allowed_failed_percent.to_string()));
    }
    options.push((
        "run_invocation_timeout",
        spec.settings.run_invocation_timeout.as_secs_f64().to_string(),
    ));
    options.push(("run_max_try", spec.settings.run_max_try.to_string()));
    options.push(("output_action", spec.worker.output_action.to_string()));
    if spec.worker.output_action == OutputAction::AppendRow {
        options.push(("append_row_file_name", spec.append_row_file_name.clone()));
    }
    options.push(("process_count_per_node", spec.process_count.to_string()));
    for (name, value) in options {
        let is_given = spec.arguments.iter().any(|argument| {
            let option = argument.strip_prefix("--").unwrap_or_default();
            option.split('=').next() == Some(name)
        });
        if !is_given {
            spec.arguments.extend([format!("--{name}"), value]);
        }
    }
}
