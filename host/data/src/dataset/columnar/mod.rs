//! Reads files whose columns have types: Parquet, Arrow, and SQLite databases (with
//! [`sqlite`](super::sqlite)).
//!
//! - `file` is a file in any of these formats. `typed` has the trait that each format implements.
//!   `file_reader` reads the bytes of Parquet and Arrow files.
//! - `columns` determines the columns of an input, and how the columns of one file become the
//!   input's columns. `schema` serializes columns for the workers. `width` estimates the memory of
//!   columns. `fitted` leaves out rows that do not fit the table.
//! - `cut` cuts the rows of a file into slices.
//! - `reader` turns a slice into Arrow IPC, in the worker. Before that, `compact` drops the data that only
//!   other rows refer to.
//! - `guard` catches panics of the readers, because files may be hostile.
//!
//! Parquet:
//!
//! - `opened` opens a file and checks its footer. `nesting` limits the depth of the footer's
//!   columns. If the `parquet` crate would misread the footer, `footer` parses it, `repair`
//!   corrects it, and `footer` serializes it. `thrift` has the encoding of footers.
//! - `parquet` reads row groups. If a row group is cut into slices, `pages` keeps the current pages, and
//!   `decoder` continues in them. `numbers` reads columns of numbers directly from pages. For that, `keys`
//!   reads dictionary keys.
//! - `counts` compares the counts of values in pages with the footer. `page_flags` corrects the page headers
//!   of one old writer.
//! - `stored` converts 96-bit times and intervals, because the `parquet` crate would convert them
//!   wrongly. `resolution` chooses the unit of 96-bit times.
//!
//! Arrow: `ipc` reads files and streams, and `messages` finds their messages. `incoming` reads a stream while
//! another program writes it.
//!
//! The files of a table need not have the same columns. If a file lacks a column, the column is
//! null in the file's rows. If a file's column has a narrower type, its values are cast to the
//! wider type. A file that cannot become the table is reported and left out.

mod columns;
mod compact;
mod counts;
mod cut;
mod decoder;
mod file;
mod file_reader;
mod fitted;
mod footer;
mod guard;
mod incoming;
mod ipc;
mod keys;
mod messages;
mod nesting;
mod numbers;
mod opened;
mod page_flags;
#[cfg(test)]
mod page_flags_tests;
mod pages;
mod parquet;
mod reader;
mod repair;
mod resolution;
mod schema;
mod stored;
mod thrift;
mod typed;
mod width;

pub use columns::{InputColumns, check};
pub use cut::FileSlices;
pub use file::TypedTableFile;
pub use incoming::{IncomingRows, StreamBatches};
pub use reader::{LoadedRows, RowError, RowPart, RowReader, RowRun};
pub use resolution::Resolution;
pub use schema::{from_message, to_message};

#[cfg(test)]
mod counts_tests;
#[cfg(test)]
mod repair_tests;
#[cfg(test)]
mod stored_tests;
#[cfg(test)]
mod tests;
