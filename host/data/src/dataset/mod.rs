//! Reads inputs:
//!
//! - [`resolve()`] and [`SourceListing`] determine which files belong to an input.
//! - The planner process cuts tables into mini-batches with [`csv`], [`json`] (JSON lines) and
//!   [`columnar`] (with [`sqlite`]). [`Unpacker`] unpacks compressed files for the planner.
//! - A worker reads its part of a table with [`TableReader`] or [`RowReader`].
//! - [`FileVersion`] shows whether a file has changed.
//!
//! This module imports only `model` and `opening` from this crate. The listing decides which files
//! belong to an input, by these rules:
//!
//! - Names are UTF-8.
//! - Hidden files belong to an input. An input of rows leaves them out, unless its source names files
//!   or has a glob.
//! - Links to files inside the input's folder are followed. Links that lead out of the folder are
//!   refused.
//! - Links to folders are skipped with a notice.
//! - Any other entry (a FIFO, a socket, a device) is an error.

pub mod columnar;
pub mod csv;
mod error;
mod exact;
mod foreign;
pub mod json;
mod list;
mod pattern;
mod resolve;
mod schema;
pub mod sqlite;
mod stream;
mod table_log;
mod text;
mod text_columns;

pub use columnar::{IncomingRows, LoadedRows, RowError, RowPart, RowReader, RowRun, StreamBatches};
pub use csv::{OpenError, Unpacker};
pub use foreign::{foreign_file, foreign_start};
pub use list::SourceListing;
pub use pattern::Pattern;
pub use resolve::{reaches, resolve, resolve_with};
pub use sandmill_files::{
    FileVersion, Manifest, ManifestObject, ManifestRecord, ManifestWriter, OpenRoot, content_stamp,
    short,
};
pub use schema::{schema_bytes, schema_of};
pub use stream::ArrowStream;
pub use table_log::TableLog;
pub use text::{LoadedTable, RowLines, TablePart, TableReader};
pub use text_columns::text_columns;

/// Decides whether a file may be read, and waits until the file has been fetched. Receives the
/// index of the source, the file's path below the source's root, and the listing of the files that
/// follow.
pub type AskToOpen<'a, E> = dyn FnMut(u32, &str, &mut SourceListing) -> Result<bool, E> + 'a;

/// Why an input cannot be used, as a message for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DatasetError(pub String);

/// A [`DatasetError`] from a format string, as the error of a `Result`.
macro_rules! err {
    ($($argument:tt)*) => {
        Err($crate::dataset::DatasetError(format!($($argument)*)))
    };
}
use err;
