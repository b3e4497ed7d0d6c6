//! The keys at the top level of a job file.

use super::groups::{INPUT, LIMITS, OUTPUT_FORMAT, SIDE_INPUT};
use super::key::{
    BOOL_EXPECTED, COUNT, Key, Kind, MAX_INTERVAL, MAX_PROCESSES, MAX_TIMEOUT, NAME_EXPECTED, key,
};
use super::models::{INFERENCE, MODEL};
use crate::model::{LoggingLevel, OnConflict, OsSandbox, OutputAction, OutputLayout};

fn output_actions() -> Vec<&'static str> {
    OutputAction::ALL.map(OutputAction::name).to_vec()
}

fn logging_levels() -> Vec<&'static str> {
    LoggingLevel::ALL.map(LoggingLevel::name).to_vec()
}

fn output_layouts() -> Vec<&'static str> {
    OutputLayout::ALL.map(OutputLayout::name).to_vec()
}

fn on_conflict() -> Vec<&'static str> {
    OnConflict::ALL.map(OnConflict::name).to_vec()
}

fn profilers() -> Vec<&'static str> {
    vec!["cProfile", "profile", "guest"]
}

const TIMEOUT_EXPECTED: &str = "seconds, more than 0 and at most 259200 (e.g. 600)";

/// The top level, in the order of the docs.
pub(crate) const JOB: &[Key] = &[
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
        "models",
        Kind::Named(MODEL),
        "a map of names to paths (e.g. digits: models/digits.onnx)",
        "{digits: digits.onnx}",
        "ONNX models that the entry script can load by name and compute with. It also sees each, read-only, in the folder /models/<name>.",
    ),
    key(
        "inference",
        Kind::Group(INFERENCE),
        "a map with allow_guest_models, threads or gpu_memory",
        "{threads: 2}",
        "What computing with models may use.",
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
        "The entry script's arguments. ${{inputs.x}}, ${{side_inputs.x}}, ${{models.x}}, ${{output}} and ${{source}} stand for the paths that the entry script sees.",
    ),
    key(
        "pass_settings",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether ParallelRunStep's own options, such as --mini_batch_size, stand behind the arguments, with the job's settings. false unless given; true for files of Azure's.",
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
        "a whole number of files of at least 1 (e.g. 10); for CSV inputs a size (e.g. 1 MB) or rows (e.g. 1000 rows)",
        "20",
        "How much one call of run gets: a number of files, about so many bytes of a CSV file, or exactly so many rows of it. 10 files or 1 MB unless given.",
    ),
    key(
        "partition_keys",
        Kind::Texts,
        "a list of texts (e.g. [store, brand])",
        "[store]",
        "Makes one mini-batch of all that has the same values of these keys, instead of cutting by size. For files, keys are those of each input's partition_format; for tables, those or columns.",
    ),
    key(
        "process_count_per_node",
        Kind::Integer { min: 1, max: MAX_PROCESSES },
        "a whole number of workers from 1 to 1000 (e.g. 4)",
        "4",
        "Workers, each a process of its own. By default 1 where there are GPUs, else the number of processor cores.",
    ),
    key(
        "gpus",
        Kind::Integer { min: 0, max: MAX_PROCESSES },
        "a whole number of GPUs from 0 to 1000 (e.g. 2)",
        "2",
        "GPUs that workers get, one each, the lowest free one first. By default the number in the variable AZ_BATCHAI_GPU_COUNT_FOUND of Sandmill's own environment, else what NVIDIA's driver tells.",
    ),
    key(
        "node_count",
        Kind::Integer { min: 1, max: COUNT },
        "1",
        "1",
        "Machines. Only 1: the cluster is this machine.",
    ),
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
        "The output file's name; with output_layout: parts, the folder's. No folders in it. Unless given, parallel_run_step with the ending of output_format.",
    ),
    key(
        "output_format",
        Kind::Group(OUTPUT_FORMAT),
        "a map with type, compression, delimiter, header, quoting or null_value",
        "{type: csv}",
        "How rows are written to the output file. As ParallelRunStep does unless given: a space between the fields of a table, no header.",
    ),
    key(
        "append_row_dataframe_header",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "ParallelRunStep's name for output_format.header.",
    ),
    key(
        "output_layout",
        Kind::Choice(output_layouts),
        "file or parts",
        "parts",
        "file: all rows stand in one file. parts: the output is a folder of files, one for each worker, part-process000 and so on, which appears when the job ends: for very large outputs, as no row is copied.",
    ),
    key(
        "ordered",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether the rows of the output file stand in the order of the input. false unless given: in the order in which mini-batches end.",
    ),
    key(
        "join",
        Kind::ScalarsOrOne,
        "input, or a list of columns of the input (e.g. [id])",
        "input",
        "Puts the input's columns, or those that are named, in front of each row's own: of tables their columns, of files a column file. Every item must have a row, or an outcome.",
    ),
    key(
        "output_files",
        Kind::Choice(on_conflict),
        "error, append or overwrite",
        "append",
        "What happens when two mini-batches write files of the same name: error fails the later attempt, append puts what it wrote behind what is there, overwrite replaces that.",
    ),
    key(
        "allow_reuse",
        Kind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether the result of an earlier run in the same job directory is taken at once where nothing has changed. true unless given.",
    ),
    key(
        "error_threshold",
        Kind::Integer { min: -1, max: i64::MAX },
        "a whole number of items from 0 up, or -1 to ignore all failures",
        "10",
        "How many failed items the job bears over the whole input. -1: any number.",
    ),
    key(
        "allowed_failed_count",
        Kind::Integer { min: -1, max: i64::MAX },
        "a whole number of mini-batches from 0 up, or -1 to ignore all failures",
        "5",
        "How many failed mini-batches the job bears over the whole input. -1: any number.",
    ),
    key(
        "allowed_failed_percent",
        Kind::Percent,
        "a number from 0 to 100",
        "12.5",
        "Which share of failed mini-batches the job bears, in percent. Looked at once all mini-batches are known. 100: any.",
    ),
    key(
        "strict_cardinality",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether an attempt fails that returns fewer or more rows than it got items.",
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
        "task_overhead_timeout",
        Kind::Seconds { max: MAX_TIMEOUT },
        TIMEOUT_EXPECTED,
        "600",
        "The longest that loading a mini-batch and handing it to run may take, in seconds. Then its worker is killed.",
    ),
    key(
        "progress_update_timeout",
        Kind::Seconds { max: MAX_TIMEOUT },
        TIMEOUT_EXPECTED,
        "3600",
        "The longest that no mini-batch may end, in seconds. Then the job fails. By default run_max_try times (task_overhead_timeout + run_invocation_timeout) + 60 seconds, and at least 600.",
    ),
    key(
        "first_task_creation_timeout",
        Kind::Seconds { max: MAX_TIMEOUT },
        TIMEOUT_EXPECTED,
        "600",
        "The longest until the first mini-batch is made, in seconds. Then the job fails.",
    ),
    key(
        "logging_level",
        Kind::Choice(logging_levels),
        "WARNING, INFO or DEBUG",
        "INFO",
        "The least important level that is still logged.",
    ),
    key(
        "resource_monitor_interval",
        Kind::Interval { max: MAX_INTERVAL },
        "seconds from 0 (never) to 2147483647 (e.g. 600)",
        "60",
        "Seconds between looks at what the machine and the workers use, for logs/perf. 0: never.",
    ),
    key(
        "profiling_module",
        Kind::Choice(profilers),
        "cProfile, profile or guest",
        "guest",
        "Makes each worker write a profile of the entry script. All words mean the same: the first two are those of Azure.",
    ),
    key(
        "parent",
        Kind::Text,
        "a path to a folder",
        "jobs/nightly",
        "The folder of the job that this one is a part of.",
    ),
    key(
        "copy_logs_to_parent",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether parent gets a copy of this job's overview, progress and logs.",
    ),
    key(
        "push_metrics_to_parent",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether parent gets this job's metrics too.",
    ),
    key(
        "metrics_name_prefix",
        Kind::Text,
        "a text",
        "digits_",
        "Stands before the names of this job's metrics.",
    ),
    key(
        "limits",
        Kind::Group(LIMITS),
        "a map with memory, stack, fuel and others",
        "{memory: 512 MB}",
        "What one instance of the entry script may use.",
    ),
    key(
        "os_sandbox",
        Kind::Choice(|| OsSandbox::ALL.map(OsSandbox::name).to_vec()),
        "required, best-effort or off",
        "best-effort",
        "The wall that the operating system builds around workers: required stops the job where a layer is missing, best-effort takes what the machine has.",
    ),
    key(
        "deterministic",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether each attempt gets a fresh instance, and clocks and random numbers that follow from its mini-batch, so that the same mini-batch gives the same bytes.",
    ),
    key(
        "schema_inference",
        Kind::Choice(|| vec!["first", "full"]),
        "first or full",
        "full",
        "Whether columns of tables are inferred from the first part of the input or from all of it.",
    ),
    key(
        "rank_mini_batch_count",
        Kind::Integer { min: i64::MIN, max: COUNT },
        "a whole number (e.g. 8)",
        "8",
        "Above 0: run is called so many times without any data, and inputs are ignored.",
    ),
];
