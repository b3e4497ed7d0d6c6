//! The Python packages that the tests install from PyPI.

use crate::{packed, root};
use std::fs;
use std::path::PathBuf;

/// The Python interpreter that can import the installed packages, such as onnxruntime and numpy. `make test`
/// or `make python-env` installs them.
pub fn python() -> PathBuf {
    if packed().is_some() {
        return "python3".into();
    }
    let python = root().join("target/venv/bin/python");
    assert!(python.exists(), "{} is missing; `make python-env` installs it", python.display());
    python
}

/// The ONNX Runtime library from its Python package, for `SANDMILL_ONNXRUNTIME`. `make test` or
/// `make python-env` installs it.
pub fn onnxruntime() -> PathBuf {
    if let Some(path) = std::env::var_os("SANDMILL_ONNXRUNTIME").filter(|_| packed().is_some()) {
        return path.into();
    }
    let pythons = fs::read_dir(root().join("target/venv/lib")).into_iter().flatten().flatten();
    let folders = pythons.map(|python| python.path().join("site-packages/onnxruntime/capi"));
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut files = files.map(|file| file.path());
    let library = files.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libonnxruntime.so")
    });
    library.unwrap_or_else(|| {
        panic!("target/venv has no onnxruntime; `make python-env` installs it there")
    })
}
