//! Names from other systems that are not keys here, and our keys for them.

use super::job::JOB;

/// Keys of similar systems, and their names here.
pub(crate) const RENAMED: &[(&str, &str)] = &[
    ("max_concurrency_per_instance", "process_count_per_node"),
    ("process_count", "process_count_per_node"),
    ("instance_count", "node_count"),
    ("code", "source_directory"),
    ("code_configuration", "source_directory and entry_script"),
    ("scoring_script", "entry_script"),
    ("program_arguments", "arguments"),
    ("args", "arguments"),
    ("env", "environment_variables"),
    ("append_row_to", "append_row_file_name"),
    ("output_file_name", "append_row_file_name"),
    ("input_data", "inputs"),
    ("input", "inputs"),
    ("side_input", "side_inputs"),
    ("model", "models"),
    ("outputs", "output"),
    ("timeout", "run_invocation_timeout"),
    ("max_attempts", "run_max_try"),
    ("max_tries", "run_max_try"),
    ("max_retries", "run_max_try (which also counts the first attempt)"),
    ("retries", "run_max_try (which also counts the first attempt)"),
    (
        "retry_settings",
        "run_max_try (which also counts the first attempt) and run_invocation_timeout",
    ),
    ("task", "entry_script, source_directory and arguments"),
    ("resources", "node_count"),
    ("memory", "limits.memory"),
    ("fuel", "limits.fuel"),
    ("header", "output_format.header"),
    ("gpu_count", "gpus"),
    ("failed_threshold", "error_threshold"),
];

/// Other names for our keys. A job file may use them, and Sandmill adds a notice.
pub(crate) const ALIASES: &[(&str, &str)] =
    &[("mini_batch_error_threshold", "allowed_failed_count"), ("is_deterministic", "allow_reuse")];

/// Why a job needs no environment, unlike in Azure.
pub(crate) const NO_ENVIRONMENT: &str =
    "an entry script is a component and contains everything that it needs";

/// Settings of ParallelRunStep that have no meaning on a single machine.
pub(crate) const IGNORED: &[(&str, &str)] = &[
    ("environment", NO_ENVIRONMENT),
    ("compute_target", "the job runs on this machine"),
    ("compute", "the job runs on this machine"),
    ("input_format", "deprecated in Azure: each input has its own format"),
    ("add_parallel_run_step_dependencies", "an entry script contains everything that it needs"),
    ("tags", "for display in Azure only"),
    ("properties", "for display in Azure only"),
    ("display_name", "for display in Azure only"),
];

/// Every name that is known at the top level.
pub(crate) fn top_level() -> impl Iterator<Item = &'static str> {
    JOB.iter().map(|key| key.name).chain(ALIASES.iter().map(|(name, _)| *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_occurs_twice() {
        let mut names: Vec<&str> = JOB.iter().map(|key| key.name).collect();
        names.extend(RENAMED.iter().map(|(name, _)| *name));
        names.extend(ALIASES.iter().map(|(name, _)| *name));
        names.extend(IGNORED.iter().map(|(name, _)| *name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
