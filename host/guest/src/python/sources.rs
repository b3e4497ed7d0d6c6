//! What a runtime is made of: Python files, which this program carries, and the contract.

use crate::model::hex;
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;

/// The version of componentize-py that makes the light runtime.
pub(super) const COMPONENTIZE_PY: &str = "0.25.1";

/// What pip is given: the version, and the digests of the wheels for Linux.
pub(super) const REQUIREMENTS: &str = include_str!("../../../../python/requirements-light.txt");

macro_rules! files {
    ($root:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../", $root, "/", $name)))),*]
    };
}

const RUNTIME: &[(&str, &str)] = files!("python/runtime":
    "light.py",
    "azureml/__init__.py",
    "azureml/core/__init__.py",
    "azureml/core/model.py",
    "azureml_user/__init__.py",
    "azureml_user/parallel_run/__init__.py",
    "sandmill/__init__.py",
    "sandmill/_arrow.py",
    "sandmill/_door.py",
    "sandmill/_flat.py",
    "sandmill/_results.py",
    "sandmill/_scan.py",
    "sandmill/_script.py",
    "sandmill/_table.py",
    "sandmill/models.py",
);

/// The file with the world, where the sources are written.
pub(super) const WORLD_FILE: &str = "light.wit";

/// The world of the light runtime.
const WORLD: &str = include_str!("../../../../python/light.wit");

/// The name of the light runtime's file. Another version of any of its sources is another name: a program never runs a
/// script with the runtime of another version.
pub(super) fn file_name() -> String {
    let mut hash = Sha256::new();
    for (name, text) in RUNTIME.iter().chain(WIT).chain(&[("", WORLD), ("", COMPONENTIZE_PY)]) {
        hash.update(name);
        hash.update([0]);
        hash.update(text);
        hash.update([0]);
    }
    let digest = hex(hash.finalize());
    format!("python-light-{}.wasm", &digest[..12])
}

/// Writes the sources below `folder`: `runtime` and `wit`.
///
/// # Errors
/// If they cannot be written.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    for (below, files) in [("runtime", RUNTIME), ("wit", WIT)] {
        for (name, text) in files {
            let path = folder.join(below).join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
            std::fs::write(path, text)?;
        }
    }
    std::fs::write(folder.join(WORLD_FILE), WORLD)
}

/// The contract: paths below its folder, and texts.
pub const WIT: &[(&str, &str)] = files!("wit":
    "entry.wit",
    "deps/cli.wit",
    "deps/clocks.wit",
    "deps/filesystem.wit",
    "deps/io.wit",
    "deps/nn.wit",
    "deps/random.wit",
    "deps/sockets.wit",
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use walkdir::WalkDir;

    /// A file that the program does not carry would be missed when it makes the runtime.
    #[test]
    fn all_sources_are_carried() {
        for (below, files) in [("python/runtime", RUNTIME), ("wit", WIT)] {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(below);
            let found = WalkDir::new(&folder).sort_by_file_name().into_iter().map(Result::unwrap);
            let found = found.filter(|entry| {
                entry.path().extension().is_some_and(|end| end == "py" || end == "wit")
            });
            let mut names: Vec<String> = found
                .map(|entry| entry.path().strip_prefix(&folder).unwrap().display().to_string())
                .collect();
            let mut carried: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            names.sort();
            carried.sort_unstable();
            assert_eq!(names, carried, "{below}");
        }
    }

    #[test]
    fn the_requirements_pin_the_version() {
        assert!(REQUIREMENTS.contains(&format!("componentize-py=={COMPONENTIZE_PY} ")));
    }
}
