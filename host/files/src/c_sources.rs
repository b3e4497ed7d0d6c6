//! C and C++ sources in the folder of an entry script.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The C and C++ sources in a folder and in its `src`, sorted by path.
pub fn c_sources(folder: &Path) -> Vec<PathBuf> {
    let files = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = files(folder.to_owned()).chain(files(folder.join("src")));
    let is_source = |path: &PathBuf| ends_in(path, &["c"]) || is_cpp(path);
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_source).collect();
    sources.sort();
    sources
}

/// Whether a source is C++, by its name.
pub fn is_cpp(source: &Path) -> bool {
    ends_in(source, &["cc", "cpp", "cxx"])
}

fn ends_in(path: &Path, endings: &[&str]) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|end| endings.contains(&end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_found_in_the_folder_and_in_src() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.c", "a.cpp", "src/z.cc", "src/deep/no.c", "target/no.c", "no.h", "no.o"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = c_sources(folder.path());
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(folder.path()).unwrap()).collect();
        assert_eq!(names, ["a.cpp", "b.c", "src/z.cc"].map(Path::new));
    }
}
