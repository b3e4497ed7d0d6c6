//! The reasons why a step of a table file is not carried out, as messages.

/// Why a step of a table file is not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepProblem {
    /// An option of a step that reads.
    #[error("{step}.{option}: {problem}")]
    Option {
        /// The step.
        step: String,
        /// The option.
        option: String,
        /// What is wrong with it.
        problem: Box<StepProblem>,
    },
    /// Several steps read files.
    #[error("has several steps that read; leave one of them")]
    ReadTwice,
    /// An encoding that is not supported.
    #[error("found {found}; only utf8 and ascii can be read")]
    Encoding {
        /// The value, for people.
        found: String,
    },
    /// An unsupported kind of header.
    #[error(
        "found {found}; supported are all_files_same_headers, all_files_different_headers and no_header"
    )]
    Header {
        /// The value, for people.
        found: String,
    },
    /// A header only in the first of several files.
    #[error(
        "found from_first_file, which is supported for tables of one file only; give each file its header, or none"
    )]
    FirstHeader,
    /// A value that would change rows.
    #[error(
        "found {found}, which is not carried out here; remove it, or prepare the rows beforehand"
    )]
    Value {
        /// The value, for people.
        found: String,
    },
    /// An unknown option.
    #[error("is not known here; remove it")]
    UnknownOption,
    /// An invalid number of rows.
    #[error("take: found {found}; expected a whole number of rows of at least 1")]
    Take {
        /// The value, for people.
        found: String,
    },
    /// The names of columns are missing.
    #[error("{step}: found {found}; expected the name of a column, or a list of names")]
    Names {
        /// The step.
        step: String,
        /// The value, for people.
        found: String,
    },
    /// A conversion without columns or type.
    #[error("convert_column_types: found {found}; expected columns and column_type")]
    Conversion {
        /// The value, for people.
        found: String,
    },
    /// An unsupported type.
    #[error(
        "convert_column_types: found {found}; supported are int, float, string, boolean, datetime and stream_info"
    )]
    Type {
        /// The value, for people.
        found: String,
    },
    /// A type with options, such as formats of dates.
    #[error(
        "convert_column_types: {kind} has options, which are not carried out here; write {kind} alone where the values \
         are those of ISO 8601, or true and false, else string"
    )]
    TypeOptions {
        /// The type.
        kind: String,
    },
    /// A step that is only for tables of text.
    #[error(
        "{step} is for tables of text, and read_parquet has types of its own; use keep_columns, or prepare the rows beforehand"
    )]
    OfParquet {
        /// The step.
        step: &'static str,
    },
    /// An unknown step.
    #[error(
        "the transformation {name:?} is not carried out here; supported are read_delimited, read_json_lines, \
         read_parquet, take, keep_columns, drop_columns and convert_column_types: prepare the rows beforehand"
    )]
    Unknown {
        /// The step.
        name: String,
    },
}
