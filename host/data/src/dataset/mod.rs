//! Reads inputs:
//!
//! - [`resolve()`] and [`SourceListing`] determine what belongs to an input.
//! - [`csv`], [`json`] for JSON lines and [`columnar`] (with [`sqlite`]) cut tables; [`Unpacker`] unpacks
//!   packed files. The planner process uses all of them.
//! - [`TableReader`] and [`RowReader`] read a worker's part.
//! - [`FileVersion`] shows whether a file has changed.
//!
//! Of this crate, this module imports only `model` and `opening`. What belongs to an input is decided once,
//! while listing:
//!
//! - Names are UTF-8.
//! - Hidden files count, except in inputs of rows.
//! - Links to files inside the input's folder are followed. Links that lead out of it are refused.
//! - Links to folders are skipped with a notice.
//! - Any other entry is an error.

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

/// Decides whether a file may be read, and waits until it has been fetched. Receives the index of its source,
/// its path below that, and the listing of the files that follow.
pub type MayLook<'a, E> = dyn FnMut(u32, &str, &mut SourceListing) -> Result<bool, E> + 'a;

/// An input that cannot be used, in words for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DatasetError(pub String);

/// A [`DatasetError`] from a format string, as the error of a `Result`.
macro_rules! fail {
    ($($argument:tt)*) => {
        Err($crate::dataset::DatasetError(format!($($argument)*)))
    };
}
use fail;
