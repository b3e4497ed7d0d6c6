//! The keys of the groups, which are below a key of the top level.

use super::format::InputFormat;
use super::key::{BOOL_EXPECTED, COUNT, Key, KeyKind, NAME_EXPECTED, key};
use crate::model::{Compression, OutputKind, PythonRuntime};

/// The keys of one input.
pub(crate) const INPUT: &[Key] = &[
    key("name", KeyKind::Name, NAME_EXPECTED, "images", "The input's name, where inputs is a list.")
        .describe("", "required there", "The input's name, in the list form. The entry script sees the input at `/inputs/<name>`."),
    key(
        "path",
        KeyKind::Text,
        "a file, a folder or a glob (e.g. data/*.png)",
        "data",
        "A file, a folder or a glob; here, or in a store, as in s3://bucket/folder/*.csv.",
    )
    .describe("", "required", "A file, a folder, or a glob: `data/*.png`, `data/**/*.csv`. Or an [address of a store](stores.md): `s3://bucket/in/*.csv`. Text that starts with `*` must be in quotes."),
    key(
        "paths",
        KeyKind::Scalars,
        "a list of files, folders and globs",
        "[data/*.csv, more]",
        "Several files, folders or globs.",
    )
    .describe("list of texts", "", "Several of them, instead of `path`."),
    key(
        "datastore",
        KeyKind::Name,
        NAME_EXPECTED,
        "nightly",
        "The store, from the file of datastores, that holds path or paths.",
    )
    .describe("", "", "The [store](stores.md) that holds `path` or `paths`."),
    key(
        "dataset",
        KeyKind::Text,
        "a registered name, optionally with a version (e.g. images@3)",
        "images@3",
        "A dataset of the registry (sandmill dataset register) instead of paths: NAME@VERSION, or NAME for the latest version.",
    )
    .describe("`NAME@VERSION` or `NAME`", "", "A [registered dataset](registry.md), instead of `path`; without a version its latest one."),
    key(
        "partition_format",
        KeyKind::Text,
        "a template of paths (e.g. {user}/{season}/{genre}.wav)",
        "\"{region}/{store}\"",
        "Names parts of the files' paths below the input's folder, for partition_keys. Each {name} stands for a part of one folder's or file's name.",
    )
    .describe("", "", "Names parts of the files' paths below the input's folder, for [partition keys](#partition-keys): `{user}/{season}/{genre}.wav`, `{region}/{store}`."),
    key(
        "format",
        KeyKind::Choice(|| InputFormat::all().into_iter().map(InputFormat::name).collect()),
        "files, csv, tsv, jsonl, parquet, arrow or sqlite",
        "csv",
        "files: the entry script gets the files' paths. Any other: it gets tables, from files of that kind.",
    )
    .describe("", "`files`", "`files`: the entry script gets paths. Any other: it gets tables. `tsv` is `csv` with tabs."),
    key(
        "delimiter",
        KeyKind::Text,
        "one ASCII character, as \",\" or \";\", or tab",
        "\";\"",
        "What separates the fields of a CSV file. A comma unless given; a tab for tsv.",
    )
    .describe("one ASCII character, or `tab`", "`,`", "What separates fields. For `csv` and `tsv` only."),
    key(
        "header",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether the first line of each CSV file holds the names of the columns. true unless given.",
    )
    .describe("", "`true`", "Whether the first line of each file holds the names of the columns. For `csv` and `tsv` only."),
    key(
        "null_values",
        KeyKind::Scalars,
        "a list of texts (e.g. [NA, \"-\"])",
        "[NA]",
        "Field texts that mean null, beside the empty field.",
    )
    .describe("list of texts", "`[]`", "Texts that mean null, beside the empty field. For `csv` and `tsv` only."),
    key(
        "quoted_newlines",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether a quoted field of a CSV file may hold line ends. If not, each line is a record, whatever quotes it has. true unless given.",
    )
    .describe("", "`true`", "Whether a field in quotes may hold line ends. With `false` each line is a record, whatever quotes it has. For `csv` and `tsv` only."),
    key(
        "quote",
        KeyKind::Text,
        "one ASCII character other than a letter, digit, blank, +, - or . (e.g. \"'\"), or none",
        "\"'\"",
        "What surrounds fields of a CSV file that hold delimiters or line ends; a doubled one within is one of its text. none: quotes are text. A double quote unless given.",
    )
    .describe("one ASCII character, or `none`", "`\"`", "What surrounds fields that hold delimiters or line ends. With `none` quotes are text like any other. For `csv` and `tsv` only."),
    key(
        "escape",
        KeyKind::Text,
        "one ASCII character other than a letter, digit, blank, +, - or . (e.g. '\\')",
        "'\\'",
        "Makes text of the character after it in a CSV file, in quotes or not. None unless given.",
    )
    .describe("one ASCII character", "none", "Makes text of the character after it, be it a delimiter, a quote or a line end, in quotes or not. For `csv` and `tsv` only."),
    key(
        "comment",
        KeyKind::Text,
        "one ASCII character other than a letter, digit, blank, +, - or . (e.g. \"#\")",
        "\"#\"",
        "Lines of a CSV file that begin with it are not read, unless they are in a quoted field. None unless given.",
    )
    .describe("one ASCII character", "none", "Lines that begin with it are not read, unless they are in a quoted field. For `csv` and `tsv` only."),
    key(
        "skip_lines",
        KeyKind::Integer { min: 0, max: COUNT },
        "a whole number of lines from 0 up (e.g. 3)",
        "3",
        "How many lines at the start of each CSV file, before its header, are not read. 0 unless given.",
    )
    .describe("a number", "`0`", "How many lines at the start of each file, before its header, are not read. For `csv` and `tsv` only."),
    key(
        "duplicate_names",
        KeyKind::Choice(|| vec!["refuse", "rename"]),
        "refuse or rename",
        "rename",
        "What happens to columns of a CSV file's header that have the same name. rename: they become name, name_1, name_2. refuse unless given.",
    )
    .describe("", "`refuse`", "What happens to a header with columns of the same name. `rename` makes `name`, `name_1`, `name_2` of them. For `csv` and `tsv` only."),
    key(
        "schema",
        KeyKind::Columns,
        "a map of column names to types, in the order of the file (e.g. id: int64)",
        "{id: int64, width: float64}",
        "Names and types of all columns of a CSV file, in its order, or of those of a file of JSON lines. Inferred unless given.",
    )
    .describe("map of names to types", "inferred", "All columns in the order of the file. Types: `boolean`, `int64`, `uint64`, `float64`, `string`, `date`, `timestamp`, and for `jsonl` also [`json`](#types-of-json-lines). For text formats only: the others have a schema of their own."),
    key(
        "columns",
        KeyKind::Texts,
        "a list of names of columns (e.g. [id, width])",
        "[id, width]",
        "Which columns of a table the entry script gets, in this order. All unless given.",
    )
    .describe("list of names", "all", "Which columns of a table the entry script gets, in this order."),
    key(
        "drop_columns",
        KeyKind::Texts,
        "a list of names of columns (e.g. [comment])",
        "[comment]",
        "Which columns of a text table the entry script does not get. None unless given.",
    )
    .describe("list of names", "none", "Which columns the entry script does not get, instead of `columns`. For text formats only."),
    key(
        "types",
        KeyKind::Columns,
        "a map of column names to types (e.g. zip: string)",
        "{zip: string}",
        "Types of some columns of a text table, where those of the others are inferred.",
    )
    .describe("map of names to types", "inferred", "Types of some columns, instead of `schema`, which has all of them. For text formats only."),
    key(
        "take",
        KeyKind::Integer { min: 1, max: i64::MAX },
        "a whole number of rows, or of files, of at least 1 (e.g. 1000)",
        "1000",
        "Takes only so many rows of a table, or files, from the first. All unless given.",
    )
    .describe("a number", "all", "Takes only so many rows of a table, or files, from the first: for a first try, say. Not with partition keys, and not for `sqlite`."),
    key(
        "hive",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether folders named key=value make columns of a table, after its own. Unless given, they do if the first file is in such folders.",
    )
    .describe("", "as found", "Whether [folders named `key=value`](#columns-of-the-path) make columns of a table."),
    key(
        "files",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "For format parquet only. Whether the files are read directly, even if they belong to a Delta, Iceberg, Hudi or Paimon table, whose log says which rows it has. Unless this is true, such a table is refused.",
    )
    .describe("", "`false`", "Whether Parquet files are read directly, even if they belong to a [table with a log](#delta-iceberg-hudi-and-paimon-tables). For `parquet` only."),
    key(
        "table",
        KeyKind::Text,
        "the name of a table (e.g. orders)",
        "orders",
        "The table, or the view, of each SQLite database whose rows the entry script gets.",
    )
    .describe("", "", "The table or view of each [SQLite database](#sqlite-databases) whose rows are read."),
    key(
        "query",
        KeyKind::Text,
        "a select statement (e.g. select id from orders)",
        "select id from orders",
        "What each SQLite database is asked: the rows of its result, which are one mini-batch, are what the entry script gets.",
    )
    .describe("a select statement", "", "What each SQLite database is asked, instead of `table`."),
];

/// The keys of one side input.
pub(crate) const SIDE_INPUT: &[Key] = &[
    key(
        "name",
        KeyKind::Name,
        NAME_EXPECTED,
        "model",
        "The side input's name, where side_inputs is a list.",
    )
    .describe("", "required there", "The side input's name, in the list form."),
    key("path", KeyKind::Text, "a path to a folder", "weights", "A folder, here or in a store.")
        .describe("path of a folder", "required", "A folder, here or [in a store](stores.md), shown whole and read-only. A single file is refused, since its folder would be shown with it: put it into a folder of its own."),
    key(
        "mount_path",
        KeyKind::Text,
        "an absolute path (e.g. /models/digits)",
        "/models/digits",
        "Where the entry script sees the folder. /side_inputs/<name> unless given.",
    )
    .describe("absolute path", "`/side_inputs/<name>`", "Where the entry script sees it. Not in `/inputs`, `/output`, `/logs` or `/source`, and not in another side input or the folder of a model."),
];

/// The keys below `output_format`.
pub(crate) const OUTPUT_FORMAT: &[Key] = &[
    key(
        "type",
        KeyKind::Choice(|| OutputKind::ALL.map(OutputKind::name).to_vec()),
        "text, csv, jsonl, parquet or arrow",
        "csv",
        "text: rows unchanged, tables with a space between fields. csv: comma-separated values with a header. jsonl: one JSON value a line. parquet, arrow: a file of tables with their types, made at the end of the job. text unless given.",
    )
    .or("text")
    .describe("", "", "`text`: rows unchanged, tables with a space between fields, as ParallelRunStep writes them. `csv`: comma-separated values. `jsonl`: one JSON value a line. `parquet`, `arrow`: a file of tables with their types."),
    key(
        "compression",
        KeyKind::Choice(|| Compression::ALL.map(Compression::name).to_vec()),
        "none, gzip or zstd for lines of text; none, snappy, zstd, gzip or lz4 for parquet",
        "gzip",
        "How the output file is compressed. Lines of text: none unless given. Parquet, inside of the file: snappy unless given. Arrow: none.",
    )
    .describe("`none`, `gzip`, `zstd`; for `parquet` also `snappy`, `lz4`", "`none`; `snappy` for `parquet`", "Lines of text are compressed as a whole, Parquet inside of the file. `arrow` takes `none`."),
    key(
        "delimiter",
        KeyKind::Text,
        "one ASCII character, as \",\" or \";\", or tab",
        "\";\"",
        "What separates the fields of a table. A space for text, a comma for csv.",
    )
    .describe("one ASCII character, or `tab`", "a space; a comma for `csv`", "What separates the fields of a table."),
    key(
        "header",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether the names of a table's columns are written once at the top. false for text, true for csv.",
    )
    .describe("", "`false`; `true` for `csv`", "Whether the names of a table's columns are written once at the top."),
    key(
        "quoting",
        KeyKind::Choice(|| vec!["minimal", "all", "nonnumeric", "none"]),
        "minimal, all, nonnumeric or none",
        "all",
        "Which fields of a table are in quotes: those that must be, all, all except numbers, or none, which fails an attempt that would need quotes. minimal unless given.",
    )
    .or("minimal")
    .describe("", "", "Which fields of a table are in quotes: those that could not be read back otherwise, all, all except numbers, or none, which fails an attempt that would need quotes."),
    key(
        "null_value",
        KeyKind::Text,
        "a text",
        "NA",
        "What is written for a null. Nothing unless given.",
    )
    .describe("", "nothing", "What is written for a null."),
];

/// The keys below `python`.
pub(crate) const PYTHON: &[Key] = &[
    key(
        "requirements",
        KeyKind::Text,
        "the path of a requirements file of pip's, or of a conda environment (.yml, .yaml)",
        "requirements.txt",
        "The file with the packages that the script asks for. A package of which the runtime has another version is noted.",
    )
    .describe("", "nothing", "The file with the packages that the script asks for: a requirements file of pip's, or a conda environment. Nothing is downloaded. A package of which the runtime has another version is noted, so that you know before a result differs."),
    key(
    "runtime",
    KeyKind::Choice(|| PythonRuntime::ALL.map(PythonRuntime::name).to_vec()),
    "auto, light or science",
    "science",
    "The runtime that runs the script. auto unless given: science if the input is a table or the script imports what science has, light otherwise.",
)
.describe("", "`auto`", "The runtime that runs the script. `light`: CPython with its standard library; `run` gets a table as a [`sandmill.Table`](entry-scripts.md#tables-in-python). `science`: CPython with numpy, pandas, scikit-learn and more; `run` gets a table as a pandas DataFrame. `auto`: `science` if the input is a table, or the script imports what only `science` has; else `light`."),
];
