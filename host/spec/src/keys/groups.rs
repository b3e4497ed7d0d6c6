//! The keys of the groups: what stands below a key of the top level.

use super::key::{BOOL_EXPECTED, Key, Kind, MAX_JOB_TIME, NAME_EXPECTED, key};
use crate::model::{Compression, OutputKind};

/// Below `limits`.
pub(crate) const LIMITS: &[Key] = &[
    key(
        "memory",
        Kind::Size,
        "a size of at least 64 KB (e.g. 512 MB)",
        "512 MB",
        "All memories and tables of one instance together.",
    ),
    key(
        "stack",
        Kind::Size,
        "a size from 64 KB to 64 MB (e.g. 1 MB)",
        "1 MB",
        "The stack of a call, in the entry script's own code.",
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
    key(
        "row",
        Kind::Size,
        "a size of at least 1 byte (e.g. 64 MB)",
        "64 MB",
        "Bytes of one row that run returns.",
    ),
    key(
        "logs",
        Kind::Size,
        "a size of at least 1 byte (e.g. 256 MB)",
        "256 MB",
        "Bytes that one call may write to stdout, stderr and the log together.",
    ),
    key(
        "output",
        Kind::Size,
        "a size of at least 1 byte (e.g. 16 GB)",
        "16 GB",
        "Bytes that one call may write below its output and log directories, and that each worker may leave in the log directory.",
    ),
    key(
        "files",
        Kind::Integer { min: 0, max: i64::MAX },
        "a whole number of files from 0 up (e.g. 10000)",
        "10000",
        "Files and folders that one call may make below its output and log directories.",
    ),
    key(
        "handles",
        Kind::Integer { min: 16, max: 1_000_000 },
        "a whole number from 16 to 1000000 (e.g. 10000)",
        "10000",
        "Files and other handles that an instance may have open at once.",
    ),
    key(
        "transfer",
        Kind::Size,
        "a size of at least 1 MB (e.g. 128 MB)",
        "128 MB",
        "Bytes that the entry script may hand over in one call of the host.",
    ),
    key(
        "models",
        Kind::Size,
        "a size of at least 1 MB (e.g. 1 GB)",
        "1 GB",
        "Bytes of model files that a worker may load, all together.",
    ),
    key(
        "tensors",
        Kind::Size,
        "a size of at least 1 MB (e.g. 256 MB)",
        "256 MB",
        "Bytes of tensors that the entry script may hold in the host at once.",
    ),
    key(
        "mini_batches",
        Kind::Integer { min: 1, max: i64::MAX },
        "a whole number of at least 1 (e.g. 1000000)",
        "1000000000",
        "Mini-batches of the job. Then the job fails.",
    ),
    key(
        "reports",
        Kind::Size,
        "a size of at least 1 MB (e.g. 10 GB)",
        "10 GB",
        "Bytes of all reports that have a line for each attempt or item. Lines beyond are left out, and counted.",
    ),
    key(
        "failures",
        Kind::Integer { min: 0, max: i64::MAX },
        "a whole number of failures from 0 up (e.g. 10000)",
        "10000",
        "Failures that are told in full. Later ones are told in short.",
    ),
    key(
        "job_time",
        Kind::Seconds { max: MAX_JOB_TIME },
        "seconds, more than 0 and at most 31536000 (e.g. 86400)",
        "86400",
        "The longest that one run of the job may last, in seconds, without what it waits for its turn. Then the job fails. As long as it likes unless given.",
    ),
];

/// Of one input.
pub(crate) const INPUT: &[Key] = &[
    key("name", Kind::Name, NAME_EXPECTED, "images", "The input's name, where inputs is a list."),
    key(
        "path",
        Kind::Text,
        "a file, a folder or a glob (e.g. data/*.png)",
        "data",
        "A file, a folder or a glob; here, or in a store, as in s3://bucket/folder/*.csv.",
    ),
    key(
        "paths",
        Kind::Scalars,
        "a list of files, folders and globs",
        "[data/*.csv, more]",
        "Several files, folders or globs.",
    ),
    key(
        "datastore",
        Kind::Name,
        NAME_EXPECTED,
        "nightly",
        "The store of the file of datastores in which path or paths lie.",
    ),
    key(
        "dataset",
        Kind::Text,
        "a registered name, and perhaps a version (e.g. images@3)",
        "images@3",
        "A dataset of the registry (sandmill dataset register) in the place of paths: NAME@VERSION, or NAME for the latest version.",
    ),
    key(
        "partition_format",
        Kind::Text,
        "a template of paths (e.g. {user}/{season}/{genre}.wav)",
        "\"{region}/{store}\"",
        "Names parts of the files' paths below the input's folder, for partition_keys. Each {name} stands for a part of one folder's or file's name.",
    ),
    key(
        "format",
        Kind::Choice(|| vec!["files", "csv", "tsv", "jsonl", "parquet", "arrow", "sqlite"]),
        "files, csv, tsv, jsonl, parquet, arrow or sqlite",
        "csv",
        "files: the entry script gets the files' paths. Any other: it gets tables, from files of that kind.",
    ),
    key(
        "delimiter",
        Kind::Text,
        "one ASCII character, as \",\" or \";\", or tab",
        "\";\"",
        "What stands between the fields of a CSV file. A comma unless given; a tab for tsv.",
    ),
    key(
        "header",
        Kind::Bool,
        BOOL_EXPECTED,
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
        "quoted_newlines",
        Kind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether a quoted field of a CSV file may hold line ends. If not, each line is a record, whatever quotes stand in it. true unless given.",
    ),
    key(
        "schema",
        Kind::Columns,
        "a map of column names to types, in the order of the file (e.g. id: int64)",
        "{id: int64, width: float64}",
        "Names and types of all columns of a CSV file, in its order, or of those of a file of JSON lines. Inferred unless given.",
    ),
    key(
        "columns",
        Kind::Texts,
        "a list of names of columns (e.g. [id, width])",
        "[id, width]",
        "Which columns of a table the entry script gets, in this order. All unless given.",
    ),
    key(
        "hive",
        Kind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether folders named key=value make columns of a table, behind its own. Unless given, they do where the first file lies in such folders.",
    ),
    key(
        "files",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "For format parquet only. Whether the files are meant as they are, also where they belong to a Delta, Iceberg, Hudi or Paimon table, whose log says which rows it has. Unless this is true, such a table is refused.",
    ),
    key(
        "table",
        Kind::Text,
        "the name of a table (e.g. orders)",
        "orders",
        "The table, or the view, of each SQLite database whose rows the entry script gets.",
    ),
    key(
        "query",
        Kind::Text,
        "a select statement (e.g. select id from orders)",
        "select id from orders",
        "What each SQLite database is asked: the rows of its result, which are one mini-batch, are what the entry script gets.",
    ),
];

/// Of one side input.
pub(crate) const SIDE_INPUT: &[Key] = &[
    key(
        "name",
        Kind::Name,
        NAME_EXPECTED,
        "model",
        "The side input's name, where side_inputs is a list.",
    ),
    key("path", Kind::Text, "a path to a folder", "weights", "A folder, here or in a store."),
    key(
        "mount_path",
        Kind::Text,
        "an absolute path (e.g. /models/digits)",
        "/models/digits",
        "Where the entry script sees the folder. /side_inputs/<name> unless given.",
    ),
];

/// Below `output_format`.
pub(crate) const OUTPUT_FORMAT: &[Key] = &[
    key(
        "type",
        Kind::Choice(|| OutputKind::ALL.map(OutputKind::name).to_vec()),
        "text, csv, jsonl, parquet or arrow",
        "csv",
        "text: rows as they are, tables with a space between fields. csv: comma-separated values with a header. jsonl: one JSON value a line. parquet, arrow: a file of tables with their types, made at the end of the job. text unless given.",
    ),
    key(
        "compression",
        Kind::Choice(|| Compression::ALL.map(Compression::name).to_vec()),
        "none, gzip or zstd for lines of text; none, snappy, zstd, gzip or lz4 for parquet",
        "gzip",
        "How the output file is compressed. Lines of text: none unless given. Parquet, inside of the file: snappy unless given. Arrow: none.",
    ),
    key(
        "delimiter",
        Kind::Text,
        "one ASCII character, as \",\" or \";\", or tab",
        "\";\"",
        "What stands between the fields of a table. A space for text, a comma for csv.",
    ),
    key(
        "header",
        Kind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether the names of a table's columns stand once at the top. false for text, true for csv.",
    ),
    key(
        "quoting",
        Kind::Choice(|| vec!["minimal", "all", "nonnumeric", "none"]),
        "minimal, all, nonnumeric or none",
        "all",
        "Which fields of a table stand in quotes: those that must, all, all that are no numbers, or none, which fails an attempt that would need some. minimal unless given.",
    ),
    key(
        "null_value",
        Kind::Text,
        "a text",
        "NA",
        "What is written for a null. Nothing unless given.",
    ),
];
