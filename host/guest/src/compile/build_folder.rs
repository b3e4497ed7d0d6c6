//! The folder in which cargo compiles guest crates.

use super::cache::{Cache, make_folder};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder below that for compiled code.
const GUESTS: &str = "guests";

/// Variables by which users say where cargo is to build.
const VARIABLES: [&str; 3] =
    ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"];

/// The folder that all guest crates of this user share; `None` where the user says where cargo is to build, or there is no
/// folder for it. `crate_folder`: absolute, or below the current folder. `variable` reads the environment.
pub(super) fn shared(
    crate_folder: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    if VARIABLES.iter().any(|name| variable(name).is_some()) {
        return None;
    }
    let crate_folder = std::path::absolute(crate_folder).ok()?;
    let home = variable("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let above = crate_folder.ancestors().map(|folder| folder.join(".cargo"));
    if above.chain(home).any(|folder| names_a_folder(&folder)) {
        return None;
    }
    let cache = Cache::default_folder()?;
    // Cargo would make it for all to read, and then it could not hold compiled code.
    make_folder(&cache).ok()?;
    Some(cache.join(GUESTS))
}

/// Whether cargo's configuration in this folder says where to build.
fn names_a_folder(folder: &Path) -> bool {
    ["config.toml", "config"].iter().any(|name| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        text.lines().any(|line| {
            let line = line.trim_start();
            !line.starts_with('#') && (line.contains("target-dir") || line.contains("build-dir"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiled code is loaded from no folder that others can write.
    #[test]
    fn the_cache_folder_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("home/.cache/sandmill");
        for _ in 0..2 {
            make_folder(&cache).unwrap();
            assert_eq!(cache.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        Cache::open(Some(&cache), &crate::compile::Compiler::here()).unwrap();
    }

    #[test]
    fn crates_share_a_folder_unless_the_user_names_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let variable =
            |set: &'static str| move |name: &str| (name == set).then(|| OsString::from("/nowhere"));
        let guest = path.join("work/guest");
        let Some(shared_folder) = shared(&guest, variable("HOME")) else {
            panic!("the machine that tests run on has a folder for its cache");
        };
        assert!(shared_folder.ends_with(GUESTS));
        assert_eq!(shared(&path.join("other"), variable("HOME")), Some(shared_folder));
        for name in VARIABLES {
            assert_eq!(shared(&guest, variable(name)), None, "{name}");
        }
        let config = path.join("work/.cargo/config.toml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(&config, "[build]\n# target-dir = \"x\"\njobs = 1\n").unwrap();
        assert!(shared(&guest, variable("HOME")).is_some());
        std::fs::write(&config, "[build]\ntarget-dir = \"x\"\n").unwrap();
        assert_eq!(shared(&guest, variable("HOME")), None);
    }
}
