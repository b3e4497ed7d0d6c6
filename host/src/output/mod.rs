//! Rows on their way to the output: formatting and part files on the worker's side, the one output
//! file and published files on the leader's. Imports `model` and `fail_point` only.
//!
//! - [`RowWriter`] turns what a guest returned into lines, or for an output with types into messages of
//!   an Arrow IPC stream (`batches`, `columns`); [`PartFile`] appends them to the worker's part file.
//! - [`finish()`] makes a Parquet or Arrow file of such a stream.
//! - [`Appender`] copies committed segments of part files into the output file, by offset; it never
//!   looks at what they hold.
//! - [`collect_files`] and [`clear_files`] empty the folder that a guest writes into, around what
//!   its `init` [`Kept`] there.
//! - [`check_files`], [`publish_files`] and [`discard_files`] deal with the files that a guest
//!   wrote; [`remove_tree`] and [`empty_folder`] remove whatever guests may have made.

mod appender;
mod batches;
mod cells;
mod collect;
mod columns;
mod dictionaries;
mod error;
mod finish;
mod join;
mod json;
mod members;
mod numbers;
mod part;
mod publish;
mod refusal;
mod remove;
mod rows;
mod style;
mod transfer;
mod zones;

pub use appender::{Appender, Checker, checksum, verify};
pub use collect::{Kept, clear_files, collect_files};
pub use error::OutputError;
pub use finish::finish;
pub use part::PartFile;
pub use publish::{Found, Rule, check_files, discard_files, list_files, publish_files, same_file};
pub use remove::{empty_folder, remove_tree};
pub use rows::RowWriter;
