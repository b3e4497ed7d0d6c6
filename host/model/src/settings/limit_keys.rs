//! The table of the keys below `limits` in a job file, in the order of the docs.

/// Calls the macro `$generate` with the table. Its rows are like those of [`job_keys`](crate::job_keys). A
/// `worker` limit bounds one instance of the entry script. A `job` limit bounds how much the leader uses for
/// the job.
#[macro_export]
macro_rules! limit_keys {
    ($generate:ident) => {
        $generate! {
            /// Limits on what one job may cost the leader: time, and space on the disk. They never shorten
            /// the journal or the output.
            #[derive(Clone, Debug, PartialEq, Eq)]
            job JobLimits;
            /// The limits of one instance. If an entry script exceeds a limit, its failure names the limit.
            ///
            /// The defaults suit an interpreter such as Python with its libraries: tens of megabytes of code,
            /// and some hundred megabytes of memory.
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            worker Limits;
            given GivenLimits below "limits.";

            worker memory: ByteSize => {
                kind: KeyKind::Size { min: 64 << 10, max: u64::MAX },
                default: "1 GB",
                expected: "a size of at least 64 KB (e.g. 512 MB)",
                example: "512 MB",
                description: "The memory of one instance: all its WebAssembly memories and tables together.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/limits.rs", by "each_limit_has_its_failure",
            }
            worker stack: ByteSize => {
                kind: KeyKind::Size { min: 64 << 10, max: 64 << 20 },
                default: "1 MB",
                expected: "a size from 64 KB to 64 MB (e.g. 1 MB)",
                example: "1 MB",
                description: "The stack that the entry script's code may use in one call.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/program.rs", by "the_stack_has_the_size_that_the_job_sets",
            }
            worker fuel: Option<u64> => {
                kind: KeyKind::Integer { min: 1, max: i64::MAX },
                unless_given: "not measured",
                expected: "a whole number of at least 1 (e.g. 10000000000)",
                example: "10000000000",
                description: "The fuel of each call of init, run and shutdown: about one for each WebAssembly instruction. Not measured unless given, because measuring makes the entry script slower.",
                docs: "The fuel that each call of `init`, `run` or `shutdown` may use. One WebAssembly instruction uses about one unit of fuel. Measuring makes the entry script slower.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/program.rs", by "each_limit_has_its_failure",
            }
            worker read: ByteSize => {
                kind: KeyKind::Size { min: 1, max: u64::MAX },
                default: "512 MB",
                expected: "a size of at least 1 byte (e.g. 512 MB)",
                example: "512 MB",
                description: "The largest file that the entry script can read with one call to the host.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/whole_file.rs", by "each_limit_has_its_failure",
            }
            worker results: ByteSize => {
                kind: KeyKind::Size { min: 1, max: u64::MAX },
                default: "256 MB",
                expected: "a size of at least 1 byte (e.g. 256 MB)",
                example: "256 MB",
                description: "The most bytes that one call of `run` may return.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/instance.rs", by "each_limit_has_its_failure",
            }
            worker row: ByteSize => {
                kind: KeyKind::Size { min: 1, max: u64::MAX },
                default: "64 MB",
                expected: "a size of at least 1 byte (e.g. 64 MB)",
                example: "64 MB",
                description: "The most bytes of one row that `run` returns.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/instance.rs", by "each_limit_has_its_failure",
            }
            worker logs: ByteSize => {
                kind: KeyKind::Size { min: 1, max: u64::MAX },
                default: "256 MB",
                expected: "a size of at least 1 byte (e.g. 256 MB)",
                example: "256 MB",
                description: "Bytes that one call may write to stdout, stderr and the log together.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/sink.rs", by "floods_of_logs",
            }
            worker output: ByteSize => {
                kind: KeyKind::Size { min: 1, max: u64::MAX },
                default: "16 GB",
                expected: "a size of at least 1 byte (e.g. 16 GB)",
                example: "16 GB",
                description: "Bytes that one call may write below its output and log directories, and that each worker may leave in the log directory.",
                docs: "Bytes that one call may write below its output and log directories. Also the number of bytes that each worker may leave in the log directory (see below). Within one call, bytes that are written twice count twice, and holes in files count as written. Removing a file does not reduce the count.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/quota.rs", by "one_file_that_fills_the_disk",
            }
            worker files: u64 => {
                kind: KeyKind::Integer { min: 0, max: i64::MAX },
                default: "10000",
                expected: "a whole number of files from 0 up (e.g. 10000)",
                example: "10000",
                description: "Files and folders that one call may make below its output and log directories.",
                docs: "Files and folders that one call may make below its output and log directories, including those that the call removes again. Also the number of files and folders that each worker may leave in the log directory.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/quota.rs", by "a_million_files",
            }
            worker handles: u64 => {
                kind: KeyKind::Integer { min: 16, max: 1_000_000 },
                default: "10000",
                expected: "a whole number from 16 to 1000000 (e.g. 10000)",
                example: "10000",
                description: "Files and other handles that an instance may have open at once.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/program.rs", by "more_handles_than_allowed",
            }
            worker transfer: ByteSize => {
                kind: KeyKind::Size { min: 1 << 20, max: u64::MAX },
                default: "128 MB",
                expected: "a size of at least 1 MB (e.g. 128 MB)",
                example: "128 MB",
                description: "Bytes that the entry script may hand over with one call to the host.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/program.rs", by "a_call_transfers_no_more_than_allowed",
            }
            worker models: ByteSize => {
                kind: KeyKind::Size { min: 1 << 20, max: u64::MAX },
                default: "1 GB",
                expected: "a size of at least 1 MB (e.g. 1 GB)",
                example: "1 GB",
                description: "Bytes of model files that a worker may load, all together.",
                docs: "Bytes of all model files together that a worker may load. If a model in the job file is larger, Sandmill refuses the job, and the message says which limit the model needs.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/inference/models/registry.rs", by "all_models_together_share_one_limit",
            }
            worker tensors: ByteSize => {
                kind: KeyKind::Size { min: 1 << 20, max: u64::MAX },
                default: "256 MB",
                expected: "a size of at least 1 MB (e.g. 256 MB)",
                example: "256 MB",
                description: "Bytes of tensors that the entry script may hold in the host at once.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/guest/src/sandbox/nn/allowance.rs", by "wrong_calls_get_errors_and_harm_no_other_mini_batch",
            }
            job mini_batches: u64 => {
                kind: KeyKind::Integer { min: 1, max: i64::MAX },
                default: "1000000000",
                expected: "a whole number of at least 1 (e.g. 1000000)",
                example: "1000000000",
                description: "The most mini-batches of the job. A job with more fails.",
                docs: "The most mini-batches that the job may have. The job fails as soon as more mini-batches than this are planned (exit code 42). Sandmill refuses a larger `rank_mini_batch_count` (exit code 2).",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/leader/src/machine/job/limits.rs", by "a_job_with_too_many_mini_batches_fails",
            }
            job reports: ByteSize => {
                kind: KeyKind::Size { min: 1 << 20, max: u64::MAX },
                default: "10 GB",
                expected: "a size of at least 1 MB (e.g. 10 GB)",
                example: "10 GB",
                description: "Bytes of all reports that have a line for each attempt or item. Further lines are left out, and counted.",
                docs: "The most bytes, in total, of the [reports](log-tree.md) that have a line for each attempt or item. Sandmill leaves out further lines, and the result says how many. The same limit, with a separate count, applies to the printed and logged output of workers that have ended. If the files of a worker no longer fit when it ends, Sandmill keeps only the first 4 KB of each of these files.",
                rows: DecidesRows::Not("it limits reports and texts only"),
                ceiling: most same,
                enforced: "host/report/src/budget.rs", by "reports_of_failures_are_bounded",
            }
            job failures: u64 => {
                kind: KeyKind::Integer { min: 0, max: i64::MAX },
                default: "10000",
                expected: "a whole number of failures from 0 up (e.g. 10000)",
                example: "10000",
                description: "How many failures are reported in full. The texts of later failures are shortened.",
                rows: DecidesRows::Not("it limits reports and texts only"),
                ceiling: most same,
                enforced: "host/leader/src/machine/job/limits.rs", by "reports_of_failures_are_bounded",
            }
            job copies: ByteSize => {
                kind: KeyKind::Size { min: 0, max: u64::MAX },
                default: "16 GB",
                expected: "a size (e.g. 16 GB)",
                example: "16 GB",
                description: "Bytes of side inputs that are copied into the job directory: single files on another file system or of another user. A job with more does not start.",
                docs: "Bytes of side inputs that Sandmill may copy into the job directory. It copies a side input that is a single file if the file is on another file system or belongs to another user. A job that needs more copies does not start (exit code 2).",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/node/src/single_file.rs", by "the_total_size_of_copies_is_limited",
            }
            job job_time: Option<Duration> => {
                kind: KeyKind::Seconds { max: MAX_JOB_TIME },
                unless_given: "no limit",
                expected: "seconds, more than 0 and at most 31536000 (e.g. 86400)",
                example: "86400",
                description: "The longest that one run of the job may last, in seconds, not counting the wait for its turn. Then the job fails. No limit unless given.",
                docs: "The longest that one run of the job may last. The wait for [its turn](operators.md#machine-wide-caps) does not count. After this time, the job fails (exit code 42, `ended by: job_time`). Committed results are kept, and `sandmill resume` continues from there.",
                rows: LIMIT_ROWS,
                ceiling: most same,
                enforced: "host/leader/src/machine/job/limits.rs", by "a_job_ends_at_its_time_limit",
            }

        }
    };
}
