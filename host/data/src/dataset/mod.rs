//! Inputs: what belongs to them ([`resolve()`], [`Listing`]), how tables are cut ([`csv`], [`json`] for
//! JSON lines, with [`Unpacker`] for packed files, and [`columnar`], which takes in [`sqlite`]; the planner process uses all of
//! them), how a worker reads its part ([`TableReader`], [`RowReader`]) and what tells a file from what it
//! was before ([`Found`]). Imports `model` only.
//!
//! What belongs to an input is decided once, while listing: names are UTF-8, hidden files count (but for rows),
//! links are followed to files inside the input's folder and refused where they lead out of it,
//! linked folders are skipped with a notice, and anything that is neither file, folder nor link is
//! an error.

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

pub use columnar::{Incoming, IncomingRows, LoadedRows, RowError, RowPart, RowReader, RowRun};
pub use csv::{OpenError, Unpacker};
pub use foreign::{foreign_file, foreign_start};
pub use list::Listing;
pub use pattern::Pattern;
pub use resolve::{reaches, resolve, resolve_with};
pub use sandmill_files::{
    Found, Listed, Manifest, ManifestWriter, Object, Root, content_stamp, short,
};
pub use schema::{schema_bytes, schema_of};
pub use stream::Stream;
pub use table_log::TableLog;
pub use text::{LoadedTable, RowLines, TablePart, TableReader};
pub use text_columns::text_columns;

/// Whether a file may be looked into, once it is here. Gets the index of its source, its path below that, and the
/// listing of those that follow.
pub type MayLook<'a, E> = dyn FnMut(u32, &str, &mut Listing) -> Result<bool, E> + 'a;

/// An input that cannot be used, in words for people.
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
