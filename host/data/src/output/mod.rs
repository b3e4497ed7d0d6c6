//! Rows on their way to the output, as a worker formats them. The files that they go to are those of `sandmill-files`,
//! whose names are here too.
//!
//! - [`RowWriter`] turns what a guest returned into lines, or for an output with types into messages of
//!   an Arrow IPC stream (`batches`): `columns` says which type each column is written with, and `fit` brings its
//!   values to that. [`PartFile`] appends them to the worker's part file.
//! - `common` finds the columns that tables have in common where some are null alone.
//! - [`finish()`] makes a Parquet or Arrow file of such a stream, which `appended` reads.
//! - `results` says what a call of `run` is given, and who takes what it returns.
//! - `table_error` says why a table is not written, or such a file not made.

mod appended;
mod batches;
mod cells;
mod columns;
mod common;
mod dictionaries;
mod finish;
mod fit;
mod join;
mod json;
mod layouts;
mod lines;
mod members;
mod numbers;
mod refusal;
mod results;
mod rows;
mod sizes;
mod style;
mod table_error;
mod times;

pub use finish::finish;
pub use results::{MiniBatchData, ResultSink};
pub use rows::RowWriter;
pub use sandmill_files::publish::{
    Found, Rule, check_files, discard_files, list_files, publish_files, same_file,
};
pub use sandmill_files::{
    Appender, Checker, Kept, OutputError, PartFile, checksum, clear_files, clear_others,
    collect_files, common_columns, empty_folder, remove_tree, verify,
};
pub use table_error::{FinishError, ReadError, WriteError};

#[cfg(test)]
mod types_tests;
