//! Rows on their way to the output: formatting and part files on the worker's side, the one output
//! file and published files on the leader's. Imports `model` and `fail_point` only.
//!
//! - [`RowWriter`] turns what a guest returned into lines, or for an output with types into messages of
//!   an Arrow IPC stream (`batches`): `columns` says which type each column is written with, and `fit` brings its
//!   values to that. [`PartFile`] appends them to the worker's part file.
//! - [`common_columns`] finds the columns that tables have in common where some are null alone.
//! - [`finish()`] makes a Parquet or Arrow file of such a stream, which `appended` reads.
//! - `table_error` says why a table is not written, or such a file not made.
//! - [`Appender`] copies committed segments of part files into the output file, by offset; it never
//!   looks at what they hold.
//! - [`collect_files`] and [`clear_files`] empty the folder that a guest writes into, around what
//!   its `init` [`Kept`] there.
//! - [`check_files`], [`publish_files`] and [`discard_files`] deal with the files that a guest
//!   wrote; [`remove_tree`] and [`empty_folder`] remove whatever guests may have made.

mod appended;
mod appender;
mod batches;
mod cells;
mod collect;
mod columns;
mod common;
mod dictionaries;
mod error;
mod finish;
mod fit;
mod join;
mod json;
mod layouts;
mod members;
mod numbers;
mod part;
mod publish;
mod refusal;
mod remove;
mod rows;
mod sizes;
mod style;
mod table_error;
mod times;
mod transfer;

pub use appender::{Appender, Checker, checksum, verify};
pub use collect::{Kept, clear_files, collect_files};
pub use common::common_columns;
pub use error::OutputError;
pub use finish::finish;
pub use part::PartFile;
pub use publish::{Found, Rule, check_files, discard_files, list_files, publish_files, same_file};
pub use remove::{empty_folder, remove_tree};
pub use rows::RowWriter;
pub use table_error::{FinishError, ReadError, WriteError};

#[cfg(test)]
mod types_tests;
