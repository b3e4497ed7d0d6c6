//! Entry scripts in Python and JavaScript: the runtimes that load them are components, which are installed once for a machine.
//!
//! `sources` is what the runtimes are made of, `find` where they lie; `install` makes one, with `fetch` for what it needs of
//! PyPI, `light`, `science` and `javascript`.

mod error;
mod fetch;
mod find;
mod install;
mod javascript;
mod light;
mod runtime;
mod science;
mod sources;
mod vendor;

pub use error::InstallError;
pub use find::{
    InstallCommand, Installed, NoRuntime, clear_installed, find, installed, installed_folder,
};
pub use install::Installer;
pub use runtime::Runtime;
pub use science::{
    LIBRARY, Prepare, Preparing, SOURCES, describe, package_version, science_version,
};
pub use sources::python_version;
pub use vendor::{PACKAGES, Vendor, Vendored};
