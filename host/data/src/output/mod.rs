//! Turns what a guest returned into the bytes of the output. The crate `sandmill-files` writes these bytes to
//! files; some of its names are re-exported here.
//!
//! - [`RowWriter`] turns results into lines, or for a typed output (Parquet or Arrow) into messages of an
//!   Arrow IPC stream (`batches`). For a typed output, `columns` chooses the type with which each column is
//!   written, and `fit` converts the values to that type. [`PartFile`] appends the bytes to the worker's part
//!   file.
//! - `common` finds one schema for several tables if some of their columns are all null.
//! - [`convert_appended_rows`] makes a Parquet or Arrow file from such a stream. `appended` reads the stream.
//! - `results` defines what a call of `run` receives, and the trait that takes what it returns.
//! - `table_error` has the errors for a table that cannot be written, or a file that cannot be made.

mod appended;
mod batches;
mod cells;
mod columns;
mod common;
mod convert;
mod dictionaries;
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

pub use convert::convert_appended_rows;
pub use results::{MiniBatchData, ResultSink};
pub use rows::RowWriter;
pub use sandmill_files::publish::{
    GuestEntry, PublishRule, check_files, discard_files, list_files, publish_files, same_file,
};
pub use sandmill_files::{
    Appender, Checker, InitFiles, OutputError, PartFile, checksum, clear_files, clear_others,
    collect_files, common_columns, empty_folder, remove_tree, verify,
};
pub use table_error::{AppendedRowsError, FinishError, WriteError};

#[cfg(test)]
mod types_tests;
