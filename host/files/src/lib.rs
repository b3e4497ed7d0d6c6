//! Bytes on a disk. No file here knows what rows or tables are.
//!
//! It uses `model`; every crate above may use it.
//!
//! - [`opening`]: opening and making what other people name;
//! - [`Found`], [`Root`] and [`content_stamp`]: what tells a file from what it was before;
//! - [`c_sources()`]: what the folder of an entry script in C holds;
//! - [`lock_holders`]: who has a lock on a file;
//! - [`Manifest`]: the list of a store's objects in a folder, which need not be on this disk yet;
//! - [`PartFile`]: a worker appends rows to it; [`Appender`] copies committed segments of part files into the output
//!   file, by offset;
//! - [`collect_files`] and [`clear_files`] empty the folder that a guest writes into, around what
//!   its `init` [`Kept`] there;
//! - [`publish`]: files that a guest wrote go to the output folder; [`remove_tree`] and [`empty_folder`] remove whatever
//!   guests may have made.

mod appender;
mod c_sources;
mod collect;
mod columns;
mod error;
mod found;
mod locks;
mod manifest;
pub mod opening;
mod part;
pub mod publish;
mod remove;
mod root;
mod transfer;

pub use appender::{Appender, Checker, checksum, verify};
pub use c_sources::{c_sources, is_cpp};
pub use collect::{Kept, clear_files, clear_others, collect_files};
pub use columns::common_columns;
pub use error::OutputError;
pub use found::{Found, content_stamp, short};
pub use locks::lock_holders;
pub use manifest::{Listed, Manifest, ManifestWriter, Object};
pub use part::PartFile;
pub use remove::{empty_folder, remove_tree};
pub use root::Root;
