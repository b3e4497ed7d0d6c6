//! Why a step (a transformation of an `MLTable` file) is refused, as messages.

/// Why a step of an `MLTable` file is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepProblem {
    /// A wrong option of a step that reads files.
    #[error("{step}.{option}: {problem}")]
    Option { step: String, option: String, problem: Box<StepProblem> },
    #[error("has several steps that read files (read_...); keep one of them")]
    ReadTwice,
    /// An encoding that is not supported.
    #[error("found {found}; only utf8 and ascii can be read")]
    Encoding {
        /// The value, as the message shows it.
        found: String,
    },
    /// An unsupported kind of header.
    #[error(
        "found {found}; supported are all_files_same_headers, all_files_different_headers and no_header"
    )]
    Header {
        /// The value, as the message shows it.
        found: String,
    },
    /// Only the first of several files has a header.
    #[error(
        "found from_first_file, which is supported for tables of one file only; give every file a header, or no file"
    )]
    FirstHeader,
    /// A value that would change rows.
    #[error(
        "found {found}, which Sandmill does not support; remove it, or prepare the rows beforehand"
    )]
    Value {
        /// The value, as the message shows it.
        found: String,
    },
    #[error("is not supported; remove it")]
    UnknownOption,
    /// An invalid number of rows.
    #[error("take: found {found}; expected a whole number of rows of at least 1")]
    Take {
        /// The value, as the message shows it.
        found: String,
    },
    /// A value that does not name columns.
    #[error("{step}: found {found}; expected the name of a column, or a list of names")]
    Names {
        step: String,
        /// The value, as the message shows it.
        found: String,
    },
    /// A conversion without columns or type.
    #[error("convert_column_types: found {found}; expected columns and column_type")]
    Conversion {
        /// The value, as the message shows it.
        found: String,
    },
    #[error(
        "convert_column_types: found {found}; supported are int, float, string, boolean, datetime and stream_info"
    )]
    Type {
        /// The value, as the message shows it.
        found: String,
    },
    /// A type with options, such as formats of dates.
    #[error(
        "convert_column_types: {kind} has options, which Sandmill does not support; write {kind} without options if \
         the values are in the form of ISO 8601, or true and false; otherwise write string"
    )]
    TypeOptions { kind: String },
    /// A step that is only for text files is used in a table of Parquet files.
    #[error(
        "{step} is only for text files, and Parquet files define their own types; use keep_columns, or prepare the rows beforehand"
    )]
    WithParquet { step: &'static str },
    /// An unknown step.
    #[error(
        "the transformation {name:?} is not supported; supported are read_delimited, read_json_lines, \
         read_parquet, take, keep_columns, drop_columns and convert_column_types; without it, prepare the rows beforehand"
    )]
    Unknown {
        /// The step.
        name: String,
    },
}
