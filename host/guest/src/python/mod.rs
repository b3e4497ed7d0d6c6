//! Entry scripts in Python: the runtime that loads them is a component, which is installed once for a machine.
//!
//! `sources` is what the runtime is made of, `find` where it lies, and `install` makes it.

mod find;
mod install;
mod sources;

pub use find::{NoRuntime, clear_installed, find, installed, installed_folder};
pub use install::{InstallError, install};
pub use sources::WIT;
