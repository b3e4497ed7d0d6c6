//! Rows on their way to the output, as a worker formats them. They go to the files of `sandmill-files`, whose
//! names are imported here too.
//!
//! - [`RowWriter`] turns what a guest returned into lines, or for a typed output into messages of an Arrow
//!   IPC stream (`batches`): `columns` chooses the type with which each column is written, and `fit` converts
//!   its values to that type. [`PartFile`] appends them to the worker's part file.
//! - `common` finds columns that fit several tables if some of their columns are all null.
//! - [`finish()`] makes a Parquet or Arrow file from such a stream, which `appended` reads.
//! - `results` defines what a call of `run` receives, and the trait that takes what it returns.
//! - `table_error` has the errors for a table that cannot be written, or a file that cannot be made.

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
    GuestEntry, PublishRule, check_files, discard_files, list_files, publish_files, same_file,
};
pub use sandmill_files::{
    Appender, Checker, InitFiles, OutputError, PartFile, checksum, clear_files, clear_others,
    collect_files, common_columns, empty_folder, remove_tree, verify,
};
pub use table_error::{AppendedRowsError, FinishError, WriteError};

#[cfg(test)]
mod types_tests;
