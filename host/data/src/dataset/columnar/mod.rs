//! Reads Parquet and Arrow files, and databases with the help of [`sqlite`](super::sqlite).
//!
//! - `file` is a file of any of these kinds, and `typed` is what each kind must implement. Parquet and Arrow
//!   files are read through `file_reader`.
//! - `columns` determines the columns of an input, and how the columns of one file become them. `schema`
//!   writes them as a message. `width` estimates their memory. `fitted` leaves out the rows that do not fit
//!   the table.
//! - `cut` cuts the rows of a file into slices.
//! - `reader` is the worker's side: it turns a slice into Arrow IPC. Before that, `compact` drops the data
//!   that only other rows refer to.
//! - `guard` catches panics of the readers, because files may be hostile.
//!
//! Parquet:
//!
//! - `opened` opens a file and checks its footer. If the library would misread the footer, `footer` parses
//!   it, `repair` corrects it, and `thrift` writes it in its format. `nesting` first limits the depth of
//!   columns.
//! - `parquet` reads row groups. `pages` keeps the pages of a row group that is cut, `numbers` reads columns
//!   of numbers directly from them (with `keys` for dictionaries), and `decoder` continues in them.
//! - `counts` compares pages with the footer. `page_flags` corrects the headers of pages of one old writer.
//! - `stored` converts values that the library would wrap, and `resolution` chooses their unit.
//!
//! Arrow: `ipc` reads files and streams, and `messages` finds what is in them. `incoming` reads a stream
//! while another program writes it.
//!
//! The files of a table need not have the same columns: a column that a file lacks is null, and one with a
//! narrower type is widened. A file that cannot become the table is reported and left out.

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
