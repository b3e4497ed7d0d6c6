//! Where CUDA's libraries are.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Names the folders, and no others.
const GIVEN: &str = "SANDMILL_CUDA_LIBRARIES";
/// Where an image or an installation usually has them.
const USUAL: [&str; 3] =
    ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"];

/// The folders with CUDA's libraries that are there, absolute: those that `SANDMILL_CUDA_LIBRARIES` names
/// (divided by colons), else those of `LD_LIBRARY_PATH` and the usual ones. The folders that every
/// program finds are not among them. Never from a job file: what lies there runs in the worker process.
pub fn library_folders() -> Vec<PathBuf> {
    let given = env::var_os(GIVEN);
    let path = env::var_os("LD_LIBRARY_PATH");
    folders(given.as_deref(), path.as_deref(), Path::is_dir)
}

fn folders(
    given: Option<&OsStr>,
    path: Option<&OsStr>,
    there: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let named: Vec<PathBuf> = match given {
        Some(given) => env::split_paths(given).collect(),
        None => {
            let path = path.into_iter().flat_map(env::split_paths);
            path.chain(USUAL.iter().map(PathBuf::from)).collect()
        }
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in named {
        // What is relative means another folder in a worker.
        if folder.is_absolute() && there(&folder) && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_absolute_there_and_named_once() {
        let there = |path: &Path| path != Path::new("/gone");
        let of = |given: Option<&str>, path: Option<&str>| -> Vec<String> {
            let found = folders(given.map(OsStr::new), path.map(OsStr::new), there);
            found.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(of(Some("/a:lib::/gone:/b:/a"), Some("/c")), ["/a", "/b"]);
        assert_eq!(of(Some(""), Some("/c")), Vec::<String>::new());
        assert_eq!(of(None, Some("/c:/usr/local/cuda/lib64")).len(), 4);
        assert_eq!(of(None, None), USUAL);
    }
}
