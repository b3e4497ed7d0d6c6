//! The folders of CUDA's libraries.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The variable that names the folders. If it is set, only these folders are used.
const FOLDERS_VARIABLE: &str = "SANDMILL_CUDA_LIBRARIES";
/// The usual folders of an installation or a container image.
const USUAL_FOLDERS: [&str; 3] =
    ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"];

/// The existing folders with CUDA's libraries, as absolute paths. These are the folders in
/// `SANDMILL_CUDA_LIBRARIES` (separated by colons). Without that variable, they are the folders in
/// `LD_LIBRARY_PATH`, the usual folders, and the folders of the Python packages beside this ONNX Runtime
/// library. The system's default folders are not included. A job file cannot name such a
/// folder, because the worker process runs the libraries as native code.
pub fn library_folders(onnxruntime: Option<&Path>) -> Vec<PathBuf> {
    let given = env::var_os(FOLDERS_VARIABLE);
    let library_path = env::var_os("LD_LIBRARY_PATH");
    let packages = onnxruntime.map(packages_beside).unwrap_or_default();
    folders(given.as_deref(), library_path.as_deref(), packages, Path::is_dir)
}

/// The folders `site-packages/nvidia/*/lib` if the library is
/// `site-packages/onnxruntime/capi/libonnxruntime.so`. Empty if the library is elsewhere, because any user
/// could have put files beside it.
fn packages_beside(library: &Path) -> Vec<PathBuf> {
    let Some(packages) = library.ancestors().nth(3).filter(|packages| {
        let is_package = library.parent() == Some(&packages.join("onnxruntime/capi"));
        is_package && (packages.ends_with("site-packages") || packages.ends_with("dist-packages"))
    }) else {
        return Vec::new();
    };
    let entries = fs::read_dir(packages.join("nvidia")).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path().join("lib")).collect();
    folders.sort();
    folders
}

fn folders(
    given: Option<&OsStr>,
    library_path: Option<&OsStr>,
    packages: Vec<PathBuf>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let named: Vec<PathBuf> = match given {
        Some(given) => env::split_paths(given).collect(),
        None => {
            let library_path = library_path.into_iter().flat_map(env::split_paths);
            library_path.chain(USUAL_FOLDERS.iter().map(PathBuf::from)).chain(packages).collect()
        }
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in named {
        // A relative path would mean another folder in a worker.
        if folder.is_absolute() && exists(&folder) && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_absolute_existing_and_unique() {
        let exists = |path: &Path| path != Path::new("/gone");
        let of = |given: Option<&str>, path: Option<&str>| -> Vec<String> {
            let found = folders(given.map(OsStr::new), path.map(OsStr::new), Vec::new(), exists);
            found.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(of(Some("/a:lib::/gone:/b:/a"), Some("/c")), ["/a", "/b"]);
        assert_eq!(of(Some(""), Some("/c")), Vec::<String>::new());
        assert_eq!(of(None, Some("/c:/usr/local/cuda/lib64")).len(), 4);
        assert_eq!(of(None, None), USUAL_FOLDERS);
    }

    /// `pip install onnxruntime-gpu[cuda,cudnn]` suffices.
    #[test]
    fn cuda_libraries_of_python_packages_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("site-packages");
        for package in ["cudnn/lib", "cu13/lib", "cu13/include", "headers"] {
            fs::create_dir_all(site.join("nvidia").join(package)).unwrap();
            fs::create_dir_all(dir.path().join("nvidia").join(package)).unwrap();
        }
        let packages = packages_beside(&site.join("onnxruntime/capi/libonnxruntime.so.1"));
        let expected = ["cu13/lib", "cudnn/lib"].map(|below| site.join("nvidia").join(below));
        let exists = |path: &Path| path.starts_with(&site) && path.is_dir();
        assert_eq!(folders(None, None, packages.clone(), exists), expected);
        assert_eq!(folders(Some(OsStr::new("")), None, packages, exists), Vec::<PathBuf>::new());
        // A release that was unpacked, for example to a folder that every user can write.
        for release in
            ["onnxruntime-linux-x64-1/lib", "onnxruntime/capi", "site-packages/onnxruntime/lib"]
        {
            let library = dir.path().join(release).join("libonnxruntime.so.1");
            assert_eq!(packages_beside(&library), Vec::<PathBuf>::new(), "{release}");
        }
        assert_eq!(packages_beside(Path::new("/lib.so")), Vec::<PathBuf>::new());
    }
}
