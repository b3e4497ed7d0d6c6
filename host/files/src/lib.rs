//! Files on a disk. This crate does not know what rows or tables are.
//!
//! It uses only `model`. Every crate above it may use it.
//!
//! - [`opening`]: opening and making files and folders at paths that other users may change;
//! - [`FileVersion`], [`OpenRoot`] and [`content_stamp`]: detecting whether files have changed;
//! - [`c_sources()`]: the C and C++ sources in the folder of an entry script;
//! - [`lock_holders`]: which processes hold a lock on a file;
//! - [`Manifest`]: the list of a store's objects that belong in a folder, even if they are not
//!   fetched yet;
//! - [`PartFile`]: the file to which a worker appends rows; [`Appender`] copies committed segments of part
//!   files into the output file, by offset;
//! - [`collect_files`] and [`clear_files`] empty the folder that a guest writes into, except what its `init`
//!   made there ([`InitFiles`]);
//! - [`publish`]: moves guests' files into the output folder; [`remove_tree`] and [`empty_folder`]
//!   remove anything that guests may have made, and [`tree_bytes`] is its size.

mod appender;
mod c_sources;
mod collect;
mod columns;
mod error;
mod file_version;
mod locks;
mod manifest;
pub mod opening;
mod part;
pub mod publish;
mod range;
mod remove;
mod root;
mod transfer;

pub use appender::{Appender, Checker, checksum, verify};
pub use c_sources::{c_sources, is_cpp};
pub use collect::{InitFiles, clear_files, clear_others, collect_files};
pub use columns::common_columns;
pub use error::OutputError;
pub use file_version::{FileVersion, content_stamp, short};
pub use locks::lock_holders;
pub use manifest::{Manifest, ManifestObject, ManifestRecord, ManifestWriter};
pub use part::PartFile;
pub use range::read_range;
pub use remove::{empty_folder, remove_tree, tree_bytes};
pub use root::OpenRoot;
