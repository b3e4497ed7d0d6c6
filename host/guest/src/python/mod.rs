//! Entry scripts in Python and JavaScript. A runtime is a component that loads scripts. It is installed once
//! per machine.
//!
//! `sources` has the sources of the runtimes, `find` finds installed runtimes, and `install` installs them.
//! `known_digest` remembers their digests.
//! `install` uses `fetch`, which downloads from PyPI, and `light`, `science` and `javascript`, which each
//! build a runtime. `vendor` installs packages next to a script.

mod error;
mod fetch;
mod find;
mod install;
mod javascript;
mod known_digest;
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
    LIBRARY, Prepare, PreparedInterpreter, SOURCES, describe, package_version, science_version,
};
pub use sources::python_version;
pub use vendor::{PACKAGES, Vendor, Vendored};
