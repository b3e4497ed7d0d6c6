//! The table of the keys at the top level of a job file, in the order of the docs.

/// Calls the macro `$generate` with the table. The first word of a row says who uses the setting: `job` (the leader
/// and the node), `worker` (also the workers), or `composed` (`sandmill-spec` has separate code for it). The folder's
/// `mod.rs` explains the fields. A code after a field, such as `C25`, is a rule in docs/parallel-run-step.md.
#[macro_export]
macro_rules! job_keys {
    ($generate:ident) => {
        $generate! {
            /// Plain settings of the leader and the node. Each has the value of the job file, or its default.
            #[derive(Clone, Debug, PartialEq)]
            job JobSettings;
            /// Plain settings that workers use, too.
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            worker WorkerSettings;
            given GivenSettings below "";

            composed name => {
                kind: KeyKind::Name,
                unless_given: "the job file's name, with `-` for other characters",
                expected: NAME_EXPECTED,
                example: "nightly-digits",
                description: "The job's name. Names the job directory unless the command line does.",
                docs: "The job's name. A name is 1 to 64 of `a`-`z`, `0`-`9`, `_` and `-` and starts with a letter or a digit. Example: `nightly-digits`",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("the rows are the same under every name. But you cannot change it, because a job directory belongs to one job name"),
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            job description: String => {
                kind: KeyKind::Text,
                expected: "a text",
                example: "Digits of the night shift",
                description: "A text that describes the job. Its first line is in `logs/job_result.txt`.",
                prs: PrsNames::Key("`description`", "`description`"),
                rows: DecidesRows::Not("it is for people"),
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            job tenant: String => {
                kind: KeyKind::Name,
                default: "default",
                expected: NAME_EXPECTED,
                example: "radiology",
                description: "The customer or team that the job runs for.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("the rows are the same for every tenant"),
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            composed entry_script => {
                kind: KeyKind::Text,
                values: "path",
                unless_given: "required",
                expected: "a path to a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)",
                example: "script.wasm",
                description: "The entry script: a WebAssembly component, a core module made for it, a folder of a guest crate or of C sources (which Sandmill builds first), or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts). Relative to source_directory if that is given.",
                docs: "The program that the job runs: a component (`.wasm`); a core module (`.wasm`); the folder of a guest crate or of [C sources](entry-scripts.md#c-and-c), which Sandmill builds first; or a script in [Python](entry-scripts.md#python) (`.py`), JavaScript (`.js`, `.mjs`) or TypeScript (`.ts`). If `source_directory` is given, the path is relative to it.",
                prs: PrsNames::Key("`entry_script`", "`task.entry_script`"),
                rows: DecidesRows::Decide,
                ceiling: no "the policy's `roots` and `datastores` say which paths it may name",
            }
            composed entry_script_digest => {
                kind: KeyKind::Text,
                values: "`sha256:` and 64 hexadecimal digits, or the digits alone",
                expected: "sha256: and 64 hexadecimal digits",
                example: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                description: "The SHA-256 that the component must have. With another digest, the job does not start.",
                docs: "The SHA-256 that the file in `entry_script` must have (a component or a core module). For a guest crate, the SHA-256 of the component that Sandmill builds from the crate. `sandmill check` prints the SHA-256. Sandmill checks it before it compiles the file.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("the entry script itself is compared"),
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            composed source_directory => {
                kind: KeyKind::Text,
                values: "path of a folder",
                expected: "a path to a folder",
                example: "source",
                description: "A folder that the entry script sees, read-only, at /source.",
                docs: "A folder that the entry script sees, read-only, at `/source`.",
                prs: PrsNames::Key("`source_directory`", "`task.code`"),
                rows: DecidesRows::Decide,
                ceiling: no "the policy's `roots` and `datastores` say which paths it may name",
            }
            composed python => {
                kind: KeyKind::Group(PYTHON),
                values: "[python](#python)",
                unless_given: "see there",
                expected: "a map with runtime",
                example: "{runtime: light}",
                description: "How a Python script is run.",
                docs: "How Sandmill runs an entry script in Python (`.py`).",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("the component of the runtime is compared"),
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            composed inputs => {
                kind: KeyKind::Named(INPUT),
                values: "[inputs](#inputs)",
                unless_given: "required, unless `rank_mini_batch_count` is above 0",
                expected: "a map of names to paths (e.g. images: data/*.png)",
                example: "{images: data}",
                description: "What is cut into mini-batches. One or more, all of one format.",
                docs: "The data that Sandmill divides into mini-batches.",
                prs: PrsNames::Key("`inputs` of the step", "`input_data` and the input it names"),
                rows: DecidesRows::Decide,
                ceiling: no "the policy's `roots` and `datastores` say which paths it may name",
            }
            composed side_inputs => {
                kind: KeyKind::Named(SIDE_INPUT),
                values: "[side inputs](#side-inputs)",
                expected: "a map of names to folders (e.g. model: weights)",
                example: "{model: weights}",
                description: "Folders that every worker sees whole, read-only, at /side_inputs/<name> or at a path of your choice. Their files are never split.",
                docs: "Folders that every worker sees whole.",
                prs: PrsNames::Key("`side_inputs` of the step", "the other `inputs`"),
                rows: DecidesRows::Decide,
                ceiling: no "the policy's `roots` and `datastores` say which paths it may name",
            }
            composed models => {
                kind: KeyKind::Named(MODEL),
                values: "[models](#models)",
                expected: "a map of names to paths (e.g. digits: models/digits.onnx)",
                example: "{digits: digits.onnx}",
                description: "ONNX models that the entry script can load by name and run. It also sees each, read-only, in the folder /models/<name>.",
                docs: "ONNX models that the entry script loads by name and runs.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "the policy's `roots` and `datastores` say which paths it may name",
            }
            composed inference => {
                kind: KeyKind::Group(INFERENCE),
                values: "[inference](#inference)",
                unless_given: "see there",
                expected: "a map with allow_guest_models, threads or gpu_memory",
                example: "{threads: 2}",
                description: "What running models may use.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "its amounts have ceilings of their own",
            }
            composed output => {
                kind: KeyKind::Text,
                values: "path of a folder",
                unless_given: "`output` in the job directory",
                expected: "a path to a folder",
                example: "results",
                description: "The folder for results. Created if it does not exist. By default the folder output in the job directory.",
                docs: "The folder for results. Sandmill creates it if it does not exist. Only the owner of a job directory can read it: if other users must read the results, name a folder elsewhere.",
                prs: PrsNames::Setting("`output` of the step", "`outputs`"),
                rows: DecidesRows::Decide,
                ceiling: no "the policy's `roots` and `datastores` say which paths it may name",
            }
            composed job_store => {
                kind: KeyKind::Text,
                values: "path of a folder, or an address in a store",
                unless_given: "none: only the machine with the job directory can resume the job",
                expected: "a path to a folder, or an address in a store",
                example: "/shared/jobs",
                description: "A folder that several machines share, or a folder in a store (s3://bucket/jobs). The job's commit log is in it, so that another machine can resume the job.",
                docs: "A folder that several machines share, or a folder in a [store](stores.md). The job's [commit log](crash-safety.md#resume-on-another-machine) is in it, so that another machine can resume the job. You must then set `output`, too, to a folder that the machines share, or to an address in a store.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("it only says where the job records what is committed. But to resume a job that had this key, you must set it"),
                ceiling: no "the policy's `roots` and `datastores` say which paths it may name",
            }
            composed arguments => {
                kind: KeyKind::Scalars,
                values: "list of texts and numbers",
                unless_given: "`[]`",
                expected: "a list of texts and numbers (e.g. [--model, digits.bin])",
                example: "[\"--model\", \"${{side_inputs.model}}/digits.bin\"]",
                description: "The entry script's arguments. ${{inputs.x}}, ${{side_inputs.x}}, ${{models.x}}, ${{output}} and ${{source}} stand for the paths that the entry script sees.",
                docs: "The entry script's [arguments](#arguments-and-environment).",
                prs: PrsNames::Key("`arguments` of the step", "`task.program_arguments`, split as a shell does"),
                rows: DecidesRows::Decide,
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            job pass_settings: bool => {
                kind: KeyKind::Bool,
                default: "false",
                unless_given: "`false`; `true` for Azure's files",
                expected: BOOL_EXPECTED,
                example: "true",
                description: "Whether ParallelRunStep's own options, such as --mini_batch_size, are added after the arguments, with the job's settings. false unless given; true for Azure's files.",
                docs: "Whether Sandmill adds ParallelRunStep's own options [after the arguments](#settings-after-the-arguments).",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("entry scripts should not base rows on the settings that are passed on, so these may change"), // E11
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            composed environment_variables => {
                kind: KeyKind::Variables,
                values: "map of names to texts, numbers, truth values",
                unless_given: "`{}`",
                expected: "a map of names to texts (e.g. MODE: fast)",
                example: "{MODE: fast}",
                description: "The entry script's whole environment. References work as in arguments.",
                docs: "The entry script's whole [environment](#arguments-and-environment). Sandmill passes on nothing of its own environment.",
                prs: PrsNames::Key("`environment_variables`", "`environment_variables`"),
                rows: DecidesRows::Decide,
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            composed mini_batch_size => {
                kind: KeyKind::BatchSize,
                values: "number of files; for tables a size, or a number of rows",
                unless_given: "`10` files; `1 MB` for tables",
                expected: "a whole number of files of at least 1 (e.g. 10); for tables a size (e.g. 1 MB) or rows (e.g. 1000 rows)",
                example: "20",
                description: "How much one call of run gets: this many files, about this many bytes of a table, or exactly this many rows. 10 files or 1 MB unless given.",
                docs: "How much one call of `run` gets. For files, a number: this many files. For tables, a size: about this many bytes of one file. Or, as in `10000 rows`, a number of rows: exactly this many rows, but fewer at the end of a file. If this many rows would take more than 1 GB, these rows and the rest of the file fail. The message says how many rows would fit. A size must not be above `limits.memory`. If a mini-batch is larger than `limits.memory`, for example one of `10000 rows`, a note says so when Sandmill plans the mini-batch.",
                prs: PrsNames::Setting("`mini_batch_size`", "`mini_batch_size`, but not as a number of rows"),
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            composed partition_keys => {
                kind: KeyKind::Texts,
                expected: "a list of texts (e.g. [store, brand])",
                example: "[store]",
                description: "Makes one mini-batch of all items that have the same values of these keys, instead of cutting by size. For files, keys are those of each input's partition_format; for tables, those or columns.",
                docs: "The [keys](#partition-keys) by which Sandmill makes mini-batches, instead of by size. Not allowed together with `mini_batch_size`.",
                prs: PrsNames::Setting("`partition_keys`", "`partition_keys`, a list or its JSON text"),
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            composed process_count_per_node => {
                kind: KeyKind::Integer { min: 1, max: MAX_PROCESSES },
                unless_given: "`1` where there are GPUs, else the number of processor cores",
                expected: "a whole number of workers from 1 to 1000 (e.g. 4)",
                example: "4",
                description: "The number of workers. Each worker is a process. By default 1 where there are GPUs, else the number of processor cores.",
                docs: "The number of workers. Each worker is a process. For one worker per GPU, set this key to the number of GPUs.",
                prs: PrsNames::Setting("`process_count_per_node`", "`max_concurrency_per_instance`"),
                rows: DecidesRows::Not("it changes only which worker computes, how often, and for how long"), // C25
                ceiling: most { "a whole number from 1 to 1000", "4", "The most workers of one job." },
            }
            composed gpus => {
                kind: KeyKind::Integer { min: 0, max: MAX_PROCESSES },
                unless_given: "`AZ_BATCHAI_GPU_COUNT_FOUND` of Sandmill's own environment, else what [NVIDIA's driver reports](operators.md#gpus)",
                expected: "a whole number of GPUs from 0 to 1000 (e.g. 2)",
                example: "2",
                description: "The number of GPUs that workers get: one each, the lowest free one first. By default the number in the variable AZ_BATCHAI_GPU_COUNT_FOUND of Sandmill's own environment, else what NVIDIA's driver reports.",
                docs: "The number of GPUs for workers (also `sandmill run --gpus N`). A worker gets at most one: the free GPU with the lowest number. `CUDA_VISIBLE_DEVICES` names this GPU. If there are more workers than GPUs, the other workers get neither a GPU nor the variable. While the job runs, no other job on the machine uses its GPUs. If fewer GPUs are free, a notice says so, and the job continues with the free ones.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("it changes only which worker computes, how often, and for how long"), // C25
                ceiling: most { "a whole number from 0 to 1000", "0", "The most GPUs of one job." },
            }
            composed node_count => {
                kind: KeyKind::Integer { min: 1, max: COUNT },
                values: "1 to 1000",
                default: "1",
                expected: "a whole number of machines from 1 to 1000 (e.g. 4)",
                example: "1",
                description: "The number of machines. Without a broker, it must be 1. A job with a broker also needs job_store.",
                docs: "The number of machines. A number above 1 needs a broker, which connects machines (`sandmill run --broker URL`). Without a broker, a job runs on one machine. A job with a broker also needs `job_store`, and all its machines must share the folders of its data.",
                prs: PrsNames::Key("`node_count`", "`resources.instance_count`"),
                rows: DecidesRows::Not("it changes only which machine computes"),
                ceiling: no "it only says how many machines of the broker the job may use",
            }
            job allow_mixed_backends: bool => {
                kind: KeyKind::Bool,
                default: "false",
                expected: BOOL_EXPECTED,
                example: "true",
                description: "Whether machines may compute models with other libraries, versions or devices than each other.",
                docs: "Whether the [machines](nodes.md#backends-of-models) of one job may compute models with other libraries, versions or devices (also `sandmill run --allow-mixed`). The last digits of results may then depend on the machine. The events and the result of the job list such machines.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("it only says whether machines may differ, and the result records if they do"),
                ceiling: no "it only says whether machines may differ; each machine has its own policy",
            }
            worker output_action: OutputAction => {
                kind: KeyKind::Choice(|| OutputAction::ALL.map(OutputAction::name).to_vec()),
                default: "append_row",
                expected: "append_row or summary_only",
                example: "append_row",
                description: "`append_row`: all rows go to one file. `summary_only`: rows are counted and dropped; the entry script writes its results to files.",
                prs: PrsNames::Setting("`output_action`", "`append_row` if `task.append_row_to` is set, else `summary_only`"),
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            composed append_row_file_name => {
                kind: KeyKind::Text,
                values: "file name",
                default: "parallel_run_step.txt",
                expected: "a file name (e.g. digits.txt)",
                example: "digits.txt",
                description: "The name of the output file. With output_layout: parts, the name of the output folder. A name, not a path. Unless given, parallel_run_step with the file name extension of output_format.",
                docs: "The name of the output file. With `output_layout: parts`, the name of the folder that holds the parts. This folder is called `parallel_run_step` by default. The name must not contain any of `~ \" # % & * : < > ? / \\ { \\| }`. With `summary_only`, Sandmill ignores the key.",
                prs: PrsNames::Setting("`append_row_file_name`", "`task.append_row_to`, or the file name of the output's path"),
                rows: DecidesRows::Decide,
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            composed output_format => {
                kind: KeyKind::Group(OUTPUT_FORMAT),
                values: "[output format](#output-format)",
                unless_given: "as ParallelRunStep: text, a space between fields, no header",
                expected: "text, csv, jsonl, parquet or arrow, or a map with type, compression, delimiter, header, quoting or null_value",
                example: "{type: csv}",
                description: "How rows are written to the output file. A single word is the type. Unless given, rows are written as ParallelRunStep writes them: a space between the fields of a table, no header.",
                docs: "How Sandmill writes rows to the output file. `output_format: csv` is short for `output_format: {type: csv}`.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            composed append_row_dataframe_header => {
                kind: KeyKind::Bool,
                expected: BOOL_EXPECTED,
                example: "true",
                description: "ParallelRunStep's name for output_format.header.",
                docs: "ParallelRunStep's name for `output_format.header`. If you set both keys, their values must be equal.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it is another name of `output_format.header`, and rows depend on that key"),
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            composed output_layout => {
                kind: KeyKind::Choice(|| OutputLayout::ALL.map(OutputLayout::name).to_vec()),
                default: "file",
                expected: "file or parts",
                example: "parts",
                description: "file: all rows are in one file. parts: the output is a folder of files, one for each worker, part-process000 and so on, which appears when the job ends: for very large outputs, as no row is copied.",
                docs: "`file`: all rows are in one file. `parts`: the rows are in a [folder of files](#parts), with one file for each worker.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            job sample: Sample => {
                kind: KeyKind::Percent,
                default: "100",
                expected: "a number above 0 and up to 100, in percent (e.g. 1)",
                example: "1",
                description: "Which share of the mini-batches is run, in percent, for a first try. Mini-batches are chosen by their position in the input, so that each run chooses the same ones. The first is always chosen.",
                docs: "The share of the mini-batches that the job runs, in percent. It is meant for a first try. Sandmill chooses mini-batches by their position in the input, so that each run chooses the same ones. The first mini-batch is always chosen. `run --sample 1%` sets this key.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::DecideUnlessDefault,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            job ordered: bool => {
                kind: KeyKind::Bool,
                default: "false",
                expected: BOOL_EXPECTED,
                example: "true",
                description: "Whether the rows of the output file are in the order of the input. false unless given: in the order in which mini-batches end.",
                docs: "Whether the rows of the output are in the order of the input. Otherwise, they are in the order in which mini-batches end.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            composed join => {
                kind: KeyKind::ScalarsOrOne,
                values: "`input`, or a list of the input's columns",
                expected: "input, or a list of columns of the input (e.g. [id])",
                example: "input",
                description: "Puts columns of the input before the columns that run returns: all (input), or the named ones. For files, this is one column file with the path. run must return one row, or one outcome, for each item.",
                docs: "Puts columns of the input before the columns that `run` returns: all columns (`input`), or the listed ones. An input of files has one column, `file`, with the path that the entry script sees. If `run` returns rows of text, they become a column `value`. `run` must return one row for each item, in the order of the mini-batch. Instead of rows, it may return `outcomes`: for each item, its row or the reason why the item failed. Items with a failed outcome have no row.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            job output_files: OnConflict => {
                kind: KeyKind::Choice(|| OnConflict::ALL.map(OnConflict::name).to_vec()),
                default: "error",
                expected: "error, append or overwrite",
                example: "append",
                description: "What happens when two mini-batches write files of the same name: error fails the later attempt, append adds its file to the end of the existing one, overwrite replaces the existing one.",
                docs: "What happens when two mini-batches write files of the same name to the output folder. `error`: the later attempt fails. `append`: Sandmill adds the later file to the end of the existing file. `overwrite`: the later file replaces the existing file.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            job allow_reuse: bool => {
                kind: KeyKind::Bool,
                default: "true",
                expected: BOOL_EXPECTED,
                example: "false",
                description: "Whether the result of an earlier run in the same job directory is reused at once if nothing has changed. true unless given.",
                docs: "Whether Sandmill reuses the result of an earlier run in the same job directory, without running the job again, if nothing has changed.",
                prs: PrsNames::Key("`allow_reuse` of the step", "`is_deterministic`"),
                rows: DecidesRows::Not("it only says whether an earlier result is reused"),
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            job error_threshold: ErrorThreshold => {
                kind: KeyKind::Integer { min: -1, max: i64::MAX },
                default: "0",
                expected: "a whole number of items from 0 up, or -1 to ignore all failures",
                example: "10",
                description: "How many failed items the job tolerates over the whole input. -1: any number.",
                docs: "How many failed items the job tolerates over its whole input. `-1`: any number.",
                prs: PrsNames::Setting("`error_threshold`, no default (here `0`)", "`error_threshold`, `-1`"),
                rows: DecidesRows::Not("it only says when a job ends, and the journal has all rows that exist by then"), // C25
                ceiling: no "it only says when a job ends early, and the time-outs hold anyway",
            }
            job allowed_failed_count: ErrorThreshold => {
                kind: KeyKind::Integer { min: -1, max: i64::MAX },
                default: "-1",
                expected: "a whole number of mini-batches from 0 up, or -1 to ignore all failures",
                example: "5",
                description: "How many failed mini-batches the job tolerates over the whole input. -1: any number.",
                docs: "How many failed mini-batches the job tolerates over its whole input. `-1`: any number.",
                prs: PrsNames::Setting("`allowed_failed_count`", "`mini_batch_error_threshold`"),
                rows: DecidesRows::Not("it only says when a job ends, and the journal has all rows that exist by then"), // C25
                ceiling: no "it only says when a job ends early, and the time-outs hold anyway",
            }
            job allowed_failed_percent: AllowedPercent => {
                kind: KeyKind::Percent,
                default: "100",
                expected: "a number from 0 to 100",
                example: "12.5",
                description: "Which share of failed mini-batches the job tolerates, in percent. Checked once all mini-batches are known. 100: any.",
                docs: "The share of failed mini-batches that the job tolerates, in percent. Sandmill checks the share once it knows all mini-batches, and again at the end. `100`: any share.",
                prs: PrsNames::Setting("`allowed_failed_percent`", "`--allowed_failed_percent`"),
                rows: DecidesRows::Not("it only says when a job ends, and the journal has all rows that exist by then"), // C25
                ceiling: no "it only says when a job ends early, and the time-outs hold anyway",
            }
            worker strict_cardinality: bool => {
                kind: KeyKind::Bool,
                default: "false",
                expected: BOOL_EXPECTED,
                example: "true",
                description: "Whether an attempt fails if it returns fewer or more rows than it got items.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            job run_max_try: u32 => {
                kind: KeyKind::Integer { min: 1, max: COUNT },
                default: "3",
                expected: "a whole number of attempts of at least 1 (e.g. 3)",
                example: "3",
                description: "Attempts at each mini-batch.",
                prs: PrsNames::Setting("`run_max_try`", "`retry_settings.max_retries`, which is `run_max_try` - 1"),
                rows: DecidesRows::Not("it changes only which worker computes, how often, and for how long"), // C25
                ceiling: most { "a whole number of at least 1", "3", "The most attempts at one mini-batch." },
            }
            job run_invocation_timeout: Duration => {
                kind: KeyKind::Seconds { max: MAX_TIMEOUT },
                default: "60",
                expected: "seconds, more than 0 and at most 259200 (e.g. 60)",
                example: "120",
                description: "The longest that one call of run may take, in seconds. Then its worker is killed.",
                docs: "The longest that one call of `run` may take. Fractions such as `0.5` are allowed.",
                prs: PrsNames::Setting("`run_invocation_timeout`", "`retry_settings.timeout`"),
                rows: DecidesRows::Not("it changes only which worker computes, how often, and for how long"), // C25
                ceiling: most { TIMEOUT_CEILING, "600", "The longest time-out for a call of run." },
            }
            job task_overhead_timeout: Duration => {
                kind: KeyKind::Seconds { max: MAX_TIMEOUT },
                default: "600",
                expected: TIMEOUT_EXPECTED,
                example: "600",
                description: "The longest that loading a mini-batch and handing it to run may take, in seconds. Then its worker is killed.",
                docs: "The longest that loading a mini-batch and handing it to `run` may take.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it changes only which worker computes, how often, and for how long"), // C25
                ceiling: most { TIMEOUT_CEILING, "600", "The longest time-out for loading a mini-batch." },
            }
            composed progress_update_timeout => {
                kind: KeyKind::Seconds { max: MAX_TIMEOUT },
                unless_given: "`run_max_try` x (`task_overhead_timeout` + `run_invocation_timeout`) + 60, at least 600",
                expected: TIMEOUT_EXPECTED,
                example: "3600",
                description: "The longest time in which no mini-batch ends, in seconds. Then the job fails. By default run_max_try times (task_overhead_timeout + run_invocation_timeout) + 60 seconds, and at least 600.",
                docs: "If the job makes no progress for this long, it fails.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it changes only which worker computes, how often, and for how long"), // C25
                ceiling: most { TIMEOUT_CEILING, "600", "The longest time-out for a job without progress." },
            }
            job first_task_creation_timeout: Duration => {
                kind: KeyKind::Seconds { max: MAX_TIMEOUT },
                default: "600",
                expected: TIMEOUT_EXPECTED,
                example: "600",
                description: "The longest time until the first mini-batch exists, in seconds. Then the job fails.",
                docs: "If the first mini-batch does not exist after this time, the job fails.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it changes only which worker computes, how often, and for how long"), // C25
                ceiling: most { TIMEOUT_CEILING, "600", "The longest time-out for the first mini-batch." },
            }
            worker logging_level: LoggingLevel => {
                kind: KeyKind::Choice(|| LoggingLevel::ALL.map(LoggingLevel::name).to_vec()),
                default: "INFO",
                expected: "WARNING, INFO or DEBUG",
                example: "INFO",
                description: "The least important level that is still logged.",
                prs: PrsNames::Setting("`logging_level`", "`logging_level`"),
                rows: DecidesRows::Not("it changes only what is reported while the job runs"),
                ceiling: no "it only says what is recorded of the job, and the limits hold anyway",
            }
            job resource_monitor_interval: Option<Duration> => {
                kind: KeyKind::Interval { max: MAX_INTERVAL },
                default: "600",
                expected: "seconds from 0 (never) to 2147483647 (e.g. 600)",
                example: "60",
                description: "Seconds between measurements of what the machine and the workers use, for logs/perf. 0: never.",
                docs: "Sandmill measures what the machine and the workers use, and writes it to `logs/perf`. This is the number of seconds between two measurements. Fractions such as `0.5` are allowed. `0`: Sandmill does not measure.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it changes only what is reported while the job runs"),
                ceiling: no "it only says what is recorded of the job, and the limits hold anyway",
            }
            worker profiling_module: Option<Profiler> => {
                kind: KeyKind::Choice(|| Profiler::ALL.map(Profiler::name).to_vec()),
                expected: "cProfile, profile or guest",
                example: "guest",
                description: "Makes each worker write a profile of the entry script. For a Python script, cProfile and profile mean Python's profilers, and guest means Sandmill's own. For other scripts, all three mean Sandmill's own profiler.",
                docs: "Makes each worker write a profile of the entry script. For a Python script, `cProfile` and `profile` mean Python's profilers, and `guest` means Sandmill's own. For other scripts, all three mean Sandmill's own profiler.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it changes only what is reported while the job runs"),
                ceiling: no "it only says what is recorded of the job, and the limits hold anyway",
            }
            composed parent => {
                kind: KeyKind::Text,
                values: "path of a folder",
                expected: "a path to a folder",
                example: "jobs/nightly",
                description: "The folder of the job that this one is a part of.",
                docs: "The folder of the job that this job is a part of. Copies of this job's logs and metrics go to the folder `logs/<job name>` in `parent`. That folder belongs to this job alone. If it holds another job's copies, Sandmill refuses this job. Copies that an earlier version of Sandmill made do not say which job they belong to. If you resume a job of such a version, the old copies stay, new copies go to `logs/<job name>.<8 letters>`, and a notice says so. If you remove a job's directory, its next run counts as another job. So move the old copies out of `parent` before that run.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("it only says where finished files are copied"),
                ceiling: no "the policy's `roots` and `datastores` say which paths it may name",
            }
            composed copy_logs_to_parent => {
                kind: KeyKind::Bool,
                default: "false",
                expected: BOOL_EXPECTED,
                example: "true",
                description: "Whether `parent` gets a copy of this job's overview, progress and logs.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it only says what is copied to `parent`"),
                ceiling: no "it only says what is recorded of the job, and the limits hold anyway",
            }
            composed push_metrics_to_parent => {
                kind: KeyKind::Bool,
                default: "false",
                expected: BOOL_EXPECTED,
                example: "true",
                description: "Whether `parent` gets this job's metrics too.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it only says what is copied to `parent`"),
                ceiling: no "it only says what is recorded of the job, and the limits hold anyway",
            }
            job metrics_name_prefix: String => {
                kind: KeyKind::Text,
                expected: "a text",
                example: "digits_",
                description: "A prefix for the names of this job's metrics.",
                prs: PrsNames::Option,
                rows: DecidesRows::Not("it changes only what is reported while the job runs"),
                ceiling: no "it is only text, and the size of a job file is limited",
            }
            composed limits => {
                kind: KeyKind::Group(LIMITS),
                values: "[limits](#limits)",
                unless_given: "see there",
                expected: "a map with memory, stack, fuel and others",
                example: "{memory: 512 MB}",
                description: "What one instance of the entry script may use.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("what goes beyond a limit fails, and gives no rows"),
                ceiling: no "each limit has one of its own",
            }
            worker os_sandbox: OsSandbox => {
                kind: KeyKind::Choice(|| OsSandbox::ALL.map(OsSandbox::name).to_vec()),
                default: "required",
                expected: "required, best-effort or off",
                example: "best-effort",
                description: "The wall that the operating system builds around workers. required: if a layer is missing, the job does not start. best-effort: the job uses the layers that the machine has.",
                docs: "How the operating system isolates workers, in several layers. `required`: if a layer is missing, the job does not start. `best-effort`: the job uses the layers that the machine has. `off`: the job uses only the layers that are always available.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Not("an operation that a layer of the sandbox forbids fails, and gives no rows"), // C25
                ceiling: no "the policy sets a minimum, not a maximum",
            }
            worker deterministic: bool => {
                kind: KeyKind::Bool,
                default: "false",
                expected: BOOL_EXPECTED,
                example: "true",
                description: "Whether each attempt gets a fresh instance, and clocks and random numbers that depend only on its mini-batch, so that the same mini-batch gives the same bytes.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::DecideUnlessDefault,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            composed schema_inference => {
                kind: KeyKind::Choice(|| vec!["first", "full"]),
                default: "first",
                expected: "first or full",
                example: "full",
                description: "Whether columns of tables are inferred from the first part of the input or from all of it.",
                docs: "For tables only. `first`: tables of text formats get their types from the first part of the input (a megabyte of rows, in at most 100 files). Tables in [Parquet and Arrow](#parquet-and-arrow) have the columns of the first file. `full`: types and columns come from the whole input.",
                prs: PrsNames::Unknown,
                rows: DecidesRows::Decide,
                ceiling: no "it only says how inputs are read or rows are written; the limits apply in any case",
            }
            composed rank_mini_batch_count => {
                kind: KeyKind::Integer { min: i64::MIN, max: COUNT },
                default: "0",
                expected: "a whole number (e.g. 8)",
                example: "8",
                description: "Above 0: run is called this many times without any data, and inputs are ignored.",
                docs: "Above 0: Sandmill calls `run` this many times without data. It ignores `inputs`, and a notice says so.",
                prs: PrsNames::Option,
                rows: DecidesRows::Decide,
                ceiling: no "`limits.mini_batches` bounds it",
            }
        }
    };
}
