//! Parquet and Arrow files, and databases as [`sqlite`](super::sqlite) reads them. `file` is a file of any of these
//! kinds, and `typed` what each kind must give; the first two are read through `at`: `parquet` reads
//! footers (`nesting` looks at them first) and row groups (`pages` keeps those of one that is cut, `numbers` takes numbers from them, by their `keys`,
//! and `decoder` goes on in them), `ipc`
//! Arrow files and streams (`messages` finds what is in them), and `incoming` takes a stream while it comes. `cut` makes slices of what they hold. `columns` says which columns an input
//! has, and how those of one file become them; `schema` writes that down, `width` tells how much memory
//! columns take. `reader` is the worker's side: a slice becomes Arrow IPC, once `compact`
//! has left behind what only other rows refer to. `guard` catches panics of the
//! readers, which are given hostile files.
//!
//! Footers are opened in `opened`: what the library would misread is read by `footer`, put right by `repair` and written
//! again, in the format of `thrift`. `counts` holds pages against the footer, and `page_flags` puts right what pages
//! of one old writer say of themselves. `stored` converts what the library would
//! wrap, `resolution` says in which unit, and `fitted` leaves out the rows that do not fit the table.
//!
//! A table's files need not be alike: a column that a file lacks is null there, and one whose type is
//! narrower is widened. A file that cannot become the table is named and left out.

mod at;
mod columns;
mod compact;
mod counts;
mod cut;
mod decoder;
mod file;
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

pub use columns::{Columns, check};
pub use cut::Cuts;
pub use file::TableFile;
pub use incoming::{Incoming, IncomingRows};
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
