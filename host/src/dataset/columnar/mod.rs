//! Parquet and Arrow files. `file` is a file of either kind, and is read through `at`: `parquet` reads
//! footers (`nesting` looks at them first) and row groups (`pages` keeps those of one that is cut), `ipc`
//! Arrow files and streams. `cut` makes slices of what they hold. `columns` says which columns an input
//! has, and how those of one file become them; `schema` writes that down, `width` tells how much memory
//! columns take. `reader` is the worker's side: a slice becomes Arrow IPC. `guard` catches panics of the
//! readers, which are given hostile files.
//!
//! A table's files need not be alike: a column that a file lacks is null there, and one whose type is
//! narrower is widened. A file that cannot become the table is named and left out.

mod at;
mod columns;
mod cut;
mod file;
mod guard;
mod ipc;
mod nesting;
mod pages;
mod parquet;
mod reader;
mod schema;
mod width;

pub use columns::{Columns, check};
pub use cut::Cuts;
pub use file::TableFile;
pub use reader::{LoadedRows, RowPart, RowReader};
pub use schema::{from_message, to_message};

#[cfg(test)]
mod tests;
