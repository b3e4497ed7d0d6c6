//! Tables of text, CSV and JSON lines: `reader` turns slices of their files into Arrow by [`csv`](super::csv) and
//! [`json`](super::json); `lines` tells where a row stands in its file.

mod lines;
mod reader;

pub use lines::RowLines;
pub use reader::{LoadedTable, TablePart, TableReader};
