//! The one table of all keys of a job file: it drives reading, suggestions and the JSON schema.

use crate::model::{ColumnType, LoggingLevel, OutputAction};

/// A key of a job file.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// What is allowed, for the end of a sentence that starts with "expected".
    pub(super) expected: &'static str,
    /// One or two sentences for the schema.
    pub(super) description: &'static str,
    /// A value in YAML.
    pub(super) example: &'static str,
}

/// What a key's value is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// A name: 1-64 of `[a-z0-9_-]`, with or without a free first character.
    Name,
    /// A whole number.
    Integer { min: i64, max: i64 },
    /// Seconds, more than 0.
    Seconds { max: u32 },
    /// Bytes.
    Size,
    /// A number of files, or bytes.
    BatchSize,
    /// One of these, in any case.
    Choice(fn() -> Vec<&'static str>),
    /// `true` or `false`.
    Bool,
    /// A list of scalars, kept as written.
    Scalars,
    /// A map of scalars, kept as written.
    Variables,
    /// Names and types of columns, in order.
    Columns,
    /// A map with keys of its own.
    Group(&'static [Key]),
    /// A map of names to paths or groups, or a list of groups that have a name.
    Named(&'static [Key]),
}

pub(super) const NAME_EXPECTED: &str = "1 to 64 of a-z, 0-9, _ and -, starting with a letter or a \
                                        digit (e.g. nightly-digits)";

/// The longest that one call may take, in seconds: three days.
pub(super) const MAX_TIMEOUT: u32 = 259_200;
/// More workers than this have no names.
pub(super) const MAX_PROCESSES: i64 = 1000;

fn output_actions() -> Vec<&'static str> {
    OutputAction::ALL.map(OutputAction::name).to_vec()
}

fn logging_levels() -> Vec<&'static str> {
    LoggingLevel::ALL.map(LoggingLevel::name).to_vec()
}

/// Names of column types, in the order of the docs.
pub(super) fn column_types() -> Vec<&'static str> {
    ColumnType::ALL.map(ColumnType::name).to_vec()
}

const fn key(
    name: &'static str,
    kind: Kind,
    expected: &'static str,
    example: &'static str,
    description: &'static str,
) -> Key {
    Key { name, kind, expected, description, example }
}

const COUNT: i64 = u32::MAX as i64;

/// The top level, in the order of the docs.
pub(super) const JOB: &[Key] = &[
    key(
        "name",
        Kind::Name,
        NAME_EXPECTED,
        "nightly-digits",
        "The job's name. Names the job directory unless the command line does.",
    ),
    key(
        "description",
        Kind::Text,
        "a text",
        "Digits of the night shift",
        "For people. Has no effect.",
    ),
    key("tenant", Kind::Name, NAME_EXPECTED, "radiology", "On whose behalf the job runs."),
    key(
        "entry_script",
        Kind::Text,
        "a path to a component (.wasm), a core module (.wasm) or a guest crate's folder",
        "script.wasm",
        "The entry script: a WebAssembly component, a core module made for it, or a guest crate's folder, which is then built first. Relative to source_directory if that is given.",
    ),
    key(
        "entry_script_digest",
        Kind::Text,
        "sha256: and 64 hexadecimal digits",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "The SHA-256 that the component must have. The job does not start with another one.",
    ),
    key(
        "source_directory",
        Kind::Text,
        "a path to a folder",
        "source",
        "A folder that the entry script sees, read-only, at /source.",
    ),
    key(
        "inputs",
        Kind::Named(INPUT),
        "a map of names to paths (e.g. images: data/*.png)",
        "{images: data}",
        "What is cut into mini-batches. One or more, all of one format.",
    ),
    key(
        "side_inputs",
        Kind::Named(SIDE_INPUT),
        "a map of names to folders (e.g. model: weights)",
        "{model: weights}",
        "Folders that every worker sees whole, read-only, at /side_inputs/<name> or at a path of your choice. Their files are never split.",
    ),
    key(
        "output",
        Kind::Text,
        "a path to a folder",
        "results",
        "The folder for results. Made if it is not there. By default the folder output in the job directory.",
    ),
    key(
        "arguments",
        Kind::Scalars,
        "a list of texts and numbers (e.g. [--model, digits.bin])",
        "[\"--model\", \"${{side_inputs.model}}/digits.bin\"]",
        "The entry script's arguments. ${{inputs.x}}, ${{side_inputs.x}}, ${{output}} and ${{source}} stand for the paths that the entry script sees.",
    ),
    key(
        "environment_variables",
        Kind::Variables,
        "a map of names to texts (e.g. MODE: fast)",
        "{MODE: fast}",
        "The entry script's whole environment. References work as in arguments.",
    ),
    key(
        "mini_batch_size",
        Kind::BatchSize,
        "a whole number of files of at least 1 (e.g. 10); for CSV inputs a size (e.g. 1 MB)",
        "20",
        "How much one call of run gets: a number of files, or about so many bytes of a CSV file. 10 files or 1 MB unless given.",
    ),
    key(
        "process_count_per_node",
        Kind::Integer { min: 1, max: MAX_PROCESSES },
        "a whole number of workers from 1 to 1000 (e.g. 4)",
        "4",
        "Workers, each a process of its own. By default the number of processor cores.",
    ),
    key("node_count", Kind::Integer { min: 1, max: COUNT }, "1", "1", "Machines. Only 1 for now."),
    key(
        "output_action",
        Kind::Choice(output_actions),
        "append_row or summary_only",
        "append_row",
        "append_row: all rows go to one file. summary_only: rows are counted and dropped; the entry script writes files of its own.",
    ),
    key(
        "append_row_file_name",
        Kind::Text,
        "a file name (e.g. digits.txt)",
        "digits.txt",
        "The output file's name. No folders.",
    ),
    key(
        "error_threshold",
        Kind::Integer { min: -1, max: i64::MAX },
        "a whole number of items from 0 up, or -1 to ignore all failures",
        "10",
        "How many failed items the job bears over the whole input. -1: any number.",
    ),
    key(
        "run_max_try",
        Kind::Integer { min: 1, max: COUNT },
        "a whole number of attempts of at least 1 (e.g. 3)",
        "3",
        "Attempts at each mini-batch.",
    ),
    key(
        "run_invocation_timeout",
        Kind::Seconds { max: MAX_TIMEOUT },
        "seconds, more than 0 and at most 259200 (e.g. 60)",
        "120",
        "The longest that one call of run may take, in seconds. Then its worker is killed.",
    ),
    key(
        "logging_level",
        Kind::Choice(logging_levels),
        "WARNING, INFO or DEBUG",
        "INFO",
        "The least important level that is still logged.",
    ),
    key(
        "limits",
        Kind::Group(LIMITS),
        "a map with memory, fuel, read or results",
        "{memory: 512 MB}",
        "What one instance of the entry script may use.",
    ),
    key(
        "schema_inference",
        Kind::Choice(|| vec!["first", "full"]),
        "first or full",
        "full",
        "Whether types of CSV columns are inferred from the first part of the input or from all of it.",
    ),
    key(
        "rank_mini_batch_count",
        Kind::Integer { min: i64::MIN, max: COUNT },
        "a whole number (e.g. 8)",
        "8",
        "Above 0: run is called so many times without any data, and inputs are ignored.",
    ),
];

/// Below `limits`.
pub(super) const LIMITS: &[Key] = &[
    key(
        "memory",
        Kind::Size,
        "a size of at least 64 KB (e.g. 512 MB)",
        "512 MB",
        "All memories and tables of one instance together.",
    ),
    key(
        "fuel",
        Kind::Integer { min: 1, max: i64::MAX },
        "a whole number of at least 1 (e.g. 10000000000)",
        "10000000000",
        "Fuel for each single call of init, run and shutdown, about one for each WebAssembly instruction. Not measured unless given, which makes the entry script faster.",
    ),
    key(
        "read",
        Kind::Size,
        "a size of at least 1 byte (e.g. 512 MB)",
        "512 MB",
        "The largest file that the entry script can read in one call of the host.",
    ),
    key(
        "results",
        Kind::Size,
        "a size of at least 1 byte (e.g. 256 MB)",
        "256 MB",
        "Result bytes of one call of run.",
    ),
];

/// Of one input.
pub(super) const INPUT: &[Key] = &[
    key("name", Kind::Name, NAME_EXPECTED, "images", "The input's name, where inputs is a list."),
    key(
        "path",
        Kind::Text,
        "a file, a folder or a glob (e.g. data/*.png)",
        "data",
        "A file, a folder or a glob.",
    ),
    key(
        "paths",
        Kind::Scalars,
        "a list of files, folders and globs",
        "[data/*.csv, more]",
        "Several files, folders or globs.",
    ),
    key(
        "format",
        Kind::Choice(|| vec!["files", "csv"]),
        "files or csv",
        "csv",
        "files: the entry script gets the files' paths. csv: it gets tables.",
    ),
    key(
        "delimiter",
        Kind::Text,
        "one ASCII character, as \",\" or \";\", or tab",
        "\";\"",
        "What stands between the fields of a CSV file. A comma unless given.",
    ),
    key(
        "header",
        Kind::Bool,
        "true or false",
        "false",
        "Whether the first line of each CSV file holds the names of the columns. true unless given.",
    ),
    key(
        "null_values",
        Kind::Scalars,
        "a list of texts (e.g. [NA, \"-\"])",
        "[NA]",
        "Field texts that mean null, beside the empty field.",
    ),
    key(
        "schema",
        Kind::Columns,
        "a map of column names to types, in the order of the file (e.g. id: int64)",
        "{id: int64, width: float64}",
        "Names and types of all columns of a CSV file, in its order. Inferred unless given.",
    ),
];

/// Of one side input.
pub(super) const SIDE_INPUT: &[Key] = &[
    key(
        "name",
        Kind::Name,
        NAME_EXPECTED,
        "model",
        "The side input's name, where side_inputs is a list.",
    ),
    key("path", Kind::Text, "a path to a folder", "weights", "A folder."),
    key(
        "mount_path",
        Kind::Text,
        "an absolute path (e.g. /models/digits)",
        "/models/digits",
        "Where the entry script sees the folder. /side_inputs/<name> unless given.",
    ),
];

/// Keys that other descriptions of such a job have, and what they are called here.
pub(super) const RENAMED: &[(&str, &str)] = &[
    ("max_concurrency_per_instance", "process_count_per_node"),
    ("process_count", "process_count_per_node"),
    ("instance_count", "node_count"),
    ("code", "source_directory"),
    ("program_arguments", "arguments"),
    ("args", "arguments"),
    ("env", "environment_variables"),
    ("append_row_to", "append_row_file_name"),
    ("output_file_name", "append_row_file_name"),
    ("input_data", "inputs"),
    ("input", "inputs"),
    ("side_input", "side_inputs"),
    ("outputs", "output"),
    ("timeout", "run_invocation_timeout"),
    ("max_attempts", "run_max_try"),
    ("max_retries", "run_max_try (which also counts the first attempt)"),
    (
        "retry_settings",
        "run_max_try (which also counts the first attempt) and run_invocation_timeout",
    ),
    ("task", "entry_script, source_directory and arguments"),
    ("resources", "node_count"),
    ("memory", "limits.memory"),
    ("fuel", "limits.fuel"),
];

/// Settings of ParallelRunStep that Sandmill is to have, and does not have yet.
pub(super) const NOT_YET: &[&str] = &[
    "partition_keys",
    "allowed_failed_count",
    "allowed_failed_percent",
    "mini_batch_error_threshold",
    "task_overhead_timeout",
    "progress_update_timeout",
    "first_task_creation_timeout",
    "resource_monitor_interval",
    "profiling_module",
    "copy_logs_to_parent",
    "metrics_name_prefix",
    "push_metrics_to_parent",
    "append_row_dataframe_header",
    "allow_reuse",
    "is_deterministic",
    "strict_cardinality",
];

/// Settings of ParallelRunStep that mean nothing on a machine of one's own.
pub(super) const IGNORED: &[(&str, &str)] = &[
    ("environment", "an entry script is a component and brings all that it needs"),
    ("compute_target", "the job runs on this machine"),
    ("compute", "the job runs on this machine"),
    ("input_format", "each input says its own format"),
    ("models", "a model is a side input here"),
    ("tags", "for display in Azure only"),
    ("properties", "for display in Azure only"),
    ("display_name", "for display in Azure only"),
];

/// Every name that is known at the top level.
pub(super) fn top_level() -> impl Iterator<Item = &'static str> {
    JOB.iter().map(|key| key.name).chain(NOT_YET.iter().copied())
}

/// The known name that is nearest to an unknown one, if any is near.
pub(super) fn nearest<'k>(
    unknown: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    let wanted = unknown.trim().to_lowercase().replace('-', "_");
    // A third of the letters may differ: `mini_bach_size`, `intputs`, `outptu_action`.
    let most = (wanted.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_is_near() {
        let names = || JOB.iter().map(|key| key.name);
        assert_eq!(nearest("mini_bach_size", names()), Some("mini_batch_size"));
        assert_eq!(nearest("Mini-Batch-Size", names()), Some("mini_batch_size"));
        assert_eq!(nearest("intputs", names()), Some("inputs"));
        assert_eq!(nearest("colour", names()), None);
        assert_eq!(nearest("", names()), None);
    }

    #[test]
    fn no_name_stands_twice() {
        let mut all: Vec<&str> = JOB.iter().map(|key| key.name).collect();
        all.extend(RENAMED.iter().map(|(name, _)| *name));
        all.extend(NOT_YET);
        all.extend(IGNORED.iter().map(|(name, _)| *name));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
