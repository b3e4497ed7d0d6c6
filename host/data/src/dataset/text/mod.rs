//! Reads tables of text: CSV and JSON lines. `reader` turns slices of their files into Arrow with
//! [`csv`](super::csv) and [`json`](super::json). `lines` finds the line of a row in its file.

mod lines;
mod reader;

pub use lines::RowLines;
pub use reader::{LoadedTable, TablePart, TableReader};
