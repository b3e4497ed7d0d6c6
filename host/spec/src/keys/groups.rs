//! The keys of inputs, side inputs, `output_format` and `python`.

use super::format::InputFormat;
use super::key::{BOOL_EXPECTED, COUNT, Key, KeyKind, NAME_EXPECTED, key};
use crate::model::{Compression, OutputKind, PythonRuntime};

/// The keys of one input.
pub(crate) const INPUT: &[Key] = &[
    key("name", KeyKind::Name, NAME_EXPECTED, "images", "The input's name, if inputs is a list.")
        .describe("", "required in the list form", "The input's name, in the list form. The entry script sees the input at `/inputs/<name>`."),
    key(
        "path",
        KeyKind::Text,
        "a file, a folder or a glob (e.g. data/*.png)",
        "data",
        "A file, a folder or a glob, on this machine or in a store (e.g. s3://bucket/folder/*.csv).",
    )
    .describe("", "required", "A file, a folder, or a glob: `data/*.png`, `data/**/*.csv`. Or an [address of a store](stores.md): `s3://bucket/in/*.csv`. Text that starts with `*` must be in quotes."),
    key(
        "paths",
        KeyKind::Scalars,
        "a list of files, folders and globs",
        "[data/*.csv, more]",
        "Several files, folders or globs.",
    )
    .describe("list of texts", "", "Several files, folders or globs, instead of `path`."),
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
    .describe("`NAME@VERSION` or `NAME`", "", "A [registered dataset](registry.md), instead of `path`. Without a version, the latest version."),
    key(
        "partition_format",
        KeyKind::Text,
        "a template of paths (e.g. {user}/{season}/{genre}.wav)",
        "\"{region}/{store}\"",
        "A template that names parts of the files' paths below the input's folder, for partition_keys. Each {name} stands for a part of one folder's or file's name.",
    )
    .describe("", "", "A template that names parts of the files' paths below the input's folder, for [partition keys](#partition-keys): `{user}/{season}/{genre}.wav`, `{region}/{store}`."),
    key(
        "format",
        KeyKind::Choice(|| InputFormat::all().into_iter().map(InputFormat::name).collect()),
        "files, csv, tsv, jsonl, parquet, arrow or sqlite",
        "csv",
        "files: the entry script gets the files' paths. Any other format: it gets tables, which are read from files of that format.",
    )
    .describe("", "`files`", "`files`: the entry script gets paths. Any other format: it gets tables. `tsv` is `csv` with tabs."),
    key(
        "delimiter",
        KeyKind::Text,
        "one ASCII character, such as \",\" or \";\", or tab",
        "\";\"",
        "The character between the fields of a CSV file. A comma unless given, or a tab for tsv.",
    )
    .describe("one ASCII character, or `tab`", "`,`", "The character between fields. For `csv` and `tsv` only."),
    key(
        "header",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether the first line of each CSV file has the names of the columns. true unless given.",
    )
    .describe("", "`true`", "Whether the first line of each file has the names of the columns. For `csv` and `tsv` only."),
    key(
        "null_values",
        KeyKind::Scalars,
        "a list of texts (e.g. [NA, \"-\"])",
        "[NA]",
        "Field texts that mean null, in addition to the empty field.",
    )
    .describe("list of texts", "`[]`", "Texts that mean null, in addition to the empty field. For `csv` and `tsv` only."),
    key(
        "quoted_newlines",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether a quoted field of a CSV file may contain line ends. If not, each line is a record, even if a quote is open at its end. true unless given.",
    )
    .describe("", "`true`", "Whether a field in quotes may contain line ends. With `false` each line is a record, even if a quote is open at its end. For `csv` and `tsv` only."),
    key(
        "quote",
        KeyKind::Text,
        "one ASCII character other than a letter, digit, blank, +, - or . (e.g. \"'\"), or none",
        "\"'\"",
        "The character around fields of a CSV file that contain delimiters or line ends. In such a field, a doubled quote stands for one quote. none: quotes are ordinary text. A double quote unless given.",
    )
    .describe("one ASCII character, or `none`", "`\"`", "The character around fields that contain delimiters or line ends. With `none`, quotes are ordinary text. For `csv` and `tsv` only."),
    key(
        "escape",
        KeyKind::Text,
        "one ASCII character other than a letter, digit, blank, +, - or . (e.g. '\\')",
        "'\\'",
        "The character that makes the next character of a CSV file ordinary text, in quotes or not. None unless given.",
    )
    .describe("one ASCII character", "none", "Makes the next character ordinary text (a delimiter, a quote or a line end), in quotes or not. For `csv` and `tsv` only."),
    key(
        "comment",
        KeyKind::Text,
        "one ASCII character other than a letter, digit, blank, +, - or . (e.g. \"#\")",
        "\"#\"",
        "Lines of a CSV file that begin with this character are skipped, unless they are in a quoted field. None unless given.",
    )
    .describe("one ASCII character", "none", "Lines that begin with this character are skipped, unless they are in a quoted field. For `csv` and `tsv` only."),
    key(
        "skip_lines",
        KeyKind::Integer { min: 0, max: COUNT },
        "a whole number of lines from 0 up (e.g. 3)",
        "3",
        "How many lines at the start of each CSV file, before the header, are skipped. 0 unless given.",
    )
    .describe("a number", "`0`", "How many lines at the start of each file, before the header, are skipped. For `csv` and `tsv` only."),
    key(
        "duplicate_names",
        KeyKind::Choice(|| vec!["refuse", "rename"]),
        "refuse or rename",
        "rename",
        "What happens to columns of a CSV file's header that have the same name. rename: they become name, name_1, name_2. refuse unless given.",
    )
    .describe("", "`refuse`", "What happens to columns of the header that have the same name. `rename`: they become `name`, `name_1`, `name_2`. For `csv` and `tsv` only."),
    key(
        "schema",
        KeyKind::Columns,
        "a map of column names to types, in the order of the file (e.g. id: int64)",
        "{id: int64, width: float64}",
        "Names and types of all columns of a CSV file, in the order of the file, or of the columns of a JSON lines file. Inferred unless given.",
    )
    .describe("map of names to types", "inferred", "All columns in the order of the file. Types: `boolean`, `int64`, `uint64`, `float64`, `string`, `date`, `timestamp`, and for `jsonl` also [`json`](#types-of-json-lines). For text formats only: files of other formats contain their schema."),
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
        "Types of some columns of a text table. The types of all other columns are inferred.",
    )
    .describe("map of names to types", "inferred", "Types of some columns, instead of `schema`, which has the types of all columns. For text formats only."),
    key(
        "take",
        KeyKind::Integer { min: 1, max: i64::MAX },
        "a whole number of rows, or of files, of at least 1 (e.g. 1000)",
        "1000",
        "Uses only this many rows of a table, or files, from the start. All unless given.",
    )
    .describe("a number", "all", "Uses only the first rows of a table, or the first files: this many, for example for a first try. Not with partition keys, and not for `sqlite`."),
    key(
        "hive",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "false",
        "Whether folders named key=value become columns of a table, after the table's other columns. Unless given: true if the first file is in such folders.",
    )
    .describe("", "`true` if the first file is in a folder named `key=value`", "Whether [folders named `key=value`](#columns-of-the-path) become columns of a table."),
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
        "The query for each SQLite database. The entry script gets the rows of the result as one mini-batch.",
    )
    .describe("a select statement", "", "The query for each SQLite database, instead of `table`."),
];

/// The keys of one side input.
pub(crate) const SIDE_INPUT: &[Key] = &[
    key(
        "name",
        KeyKind::Name,
        NAME_EXPECTED,
        "model",
        "The side input's name, if side_inputs is a list.",
    )
    .describe("", "required in the list form", "The side input's name, in the list form."),
    key("path", KeyKind::Text, "a path to a folder or a file", "weights", "A folder or a file, here or in a store.")
        .describe("path of a folder or a file", "required", "A folder or a file, here or [in a store](stores.md). The entry script sees the whole folder, or only the file, read-only."),
    key(
        "mount_path",
        KeyKind::Text,
        "an absolute path (e.g. /models/digits)",
        "/models/digits",
        "Where the entry script sees the folder. /side_inputs/<name> unless given.",
    )
    .describe("absolute path", "`/side_inputs/<name>`", "Where the entry script sees the folder. The path must not overlap `/inputs`, `/output`, `/logs`, `/source`, another side input or the folder of a model."),
];

/// The keys below `output_format`.
pub(crate) const OUTPUT_FORMAT: &[Key] = &[
    key(
        "type",
        KeyKind::Choice(|| OutputKind::ALL.map(OutputKind::name).to_vec()),
        "text, csv, jsonl, parquet or arrow",
        "csv",
        "text: rows unchanged, tables with a space between fields. csv: comma-separated values with a header. jsonl: one JSON value per line. parquet, arrow: a file of tables with their types, made at the end of the job. text unless given.",
    )
    .or("text")
    .describe("", "", "`text`: rows unchanged, tables with a space between fields, as ParallelRunStep writes them. `csv`: comma-separated values. `jsonl`: one JSON value per line. `parquet`, `arrow`: a file of tables with their types."),
    key(
        "compression",
        KeyKind::Choice(|| Compression::ALL.map(Compression::name).to_vec()),
        "none, gzip or zstd for lines of text; none, snappy, zstd, gzip or lz4 for parquet",
        "gzip",
        "How the output file is compressed. Lines of text: none unless given. Pages of Parquet files: snappy unless given. Arrow: none.",
    )
    .describe("`none`, `gzip`, `zstd`; for `parquet` also `snappy`, `lz4`", "`none`; `snappy` for `parquet`", "Text files are compressed as a whole. In Parquet files, each page is compressed. `arrow` allows only `none`."),
    key(
        "delimiter",
        KeyKind::Text,
        "one ASCII character, such as \",\" or \";\", or tab",
        "\";\"",
        "The character between the fields of a table. A space for text, a comma for csv.",
    )
    .describe("one ASCII character, or `tab`", "a space; a comma for `csv`", "The character between the fields of a table."),
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
        "Which fields of a table are in quotes. minimal: only fields that need quotes. nonnumeric: all except numbers. none: no field; an attempt that would need quotes fails. minimal unless given.",
    )
    .or("minimal")
    .describe("", "", "Which fields of a table are in quotes. `minimal`: only fields that could not be read back otherwise. `nonnumeric`: all except numbers. `none`: no field; an attempt that would need quotes fails."),
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
        "the path of a pip requirements file or of a conda environment (.yml, .yaml)",
        "requirements.txt",
        "The file with the packages that the script needs. Sandmill reports packages of which the runtime has another version.",
    )
    .describe("", "nothing", "The file with the packages that the script needs: a pip requirements file or a conda environment. Nothing is downloaded. Sandmill reports packages of which the runtime has another version, so that you know before a result differs."),
    key(
    "runtime",
    KeyKind::Choice(|| PythonRuntime::ALL.map(PythonRuntime::name).to_vec()),
    "auto, light or science",
    "science",
    "The runtime that runs the script. auto unless given: science if the input is a table or the script imports a package that only science has; else light.",
)
.describe("", "`auto`", "The runtime that runs the script. `light`: CPython with its standard library; `run` gets a table as a [`sandmill.Table`](entry-scripts.md#tables-in-python). `science`: CPython with numpy, pandas, scikit-learn and more; `run` gets a table as a pandas DataFrame. `auto`: `science` if the input is a table, or the script imports a package that only `science` has; else `light`."),
];
