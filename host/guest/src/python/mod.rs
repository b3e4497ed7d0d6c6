//! Entry scripts in Python: the runtimes that load them are components, which are installed once for a machine.
//!
//! `sources` is what the runtimes are made of, `find` where they lie; `install` makes one, with `fetch` for what it needs of
//! PyPI, `light` and `science`.

mod fetch;
mod find;
mod install;
mod light;
mod science;
mod sources;

pub use find::{Installed, NoRuntime, Runtime, find};
pub use install::{InstallError, Installer};
pub use science::{LIBRARY, Prepare, Preparing, SOURCES, science_version};
