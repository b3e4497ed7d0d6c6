//! The folder in which cargo compiles guest crates.

use super::cache::{Cache, make_folder};
use super::tidy::{FileCount, clear_folder, measure_folder};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The name of this folder, which is below the folder for compiled code.
const GUESTS_FOLDER: &str = "guests";

/// Environment variables with which users choose cargo's build folder.
const BUILD_FOLDER_VARIABLES: [&str; 3] =
    ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"];

/// The depth of cargo's lock files below the build folder: `TARGET/PROFILE/`.
const LOCK_DEPTH: u32 = 2;
/// The prefix of the names of cargo's lock files.
const LOCK_PREFIX: &str = ".cargo-";

/// Measures the compiled dependencies that guest crates share. `cache_dir` is the folder for compiled code.
///
/// # Errors
/// If the folder cannot be read.
pub fn built_guests(cache_dir: &Path) -> io::Result<FileCount> {
    measure_folder(&guests_folder(cache_dir))
}

/// The folder for the compiled dependencies that guest crates share. It is below `cache_dir`, the
/// folder for compiled code.
#[must_use]
pub fn guests_folder(cache_dir: &Path) -> PathBuf {
    cache_dir.join(GUESTS_FOLDER)
}

/// Removes the shared dependencies, unless a build is using them. Returns the number and size of
/// the removed files, and whether a build was using the dependencies.
///
/// # Errors
/// If the folder cannot be read, or a file in it cannot be removed.
pub fn clear_built_guests(cache_dir: &Path) -> io::Result<(FileCount, bool)> {
    let folder = guests_folder(cache_dir);
    // Hold the locks until everything is removed. A build that starts before then waits.
    match try_cargo_locks(&folder, LOCK_DEPTH)? {
        Some(_held) => Ok((clear_folder(&folder)?, false)),
        None => Ok((FileCount::default(), true)),
    }
}

/// Acquires cargo's locks below a folder. `None` if another process holds one.
fn try_cargo_locks(folder: &Path, depth: u32) -> io::Result<Option<Vec<File>>> {
    let mut held = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(held)),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 {
            let Some(more) = try_cargo_locks(&entry.path(), depth - 1)? else { return Ok(None) };
            held.extend(more);
        } else if kind.is_file()
            && entry.file_name().as_encoded_bytes().starts_with(LOCK_PREFIX.as_bytes())
        {
            let file = File::open(entry.path())?;
            match file.try_lock() {
                Ok(()) => held.push(file),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
    Ok(Some(held))
}

/// The build folder that all guest crates of this user share. `None` if the user has configured a build
/// folder, or if no cache folder can be used. `crate_folder` is absolute or relative to the current folder.
/// `cache_dir` is the folder for compiled code, if it is not the default one. `variable` reads the
/// environment.
pub(super) fn shared(
    crate_folder: &Path,
    cache_dir: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    if BUILD_FOLDER_VARIABLES.iter().any(|name| variable(name).is_some()) {
        return None;
    }
    let crate_folder = std::path::absolute(crate_folder).ok()?;
    let home = variable("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let above = crate_folder.ancestors().map(|folder| folder.join(".cargo"));
    if above.chain(home).any(|folder| sets_build_folder(&folder)) {
        return None;
    }
    let cache = cache_dir.map(Path::to_owned).or_else(Cache::default_folder)?;
    let cache = std::path::absolute(cache).ok()?;
    // Create the folder here. Cargo would make it readable for all users, and the cache of compiled code
    // would then refuse it.
    make_folder(&cache).ok()?;
    Some(guests_folder(&cache))
}

/// Whether cargo's configuration in this folder sets a build folder.
fn sets_build_folder(folder: &Path) -> bool {
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

    /// The cache refuses a folder that other users can access.
    #[test]
    fn only_the_owner_can_access_the_cache_folder() {
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
        let Some(shared_folder) = shared(&guest, None, variable("HOME")) else {
            panic!("the machine that tests run on has a folder for its cache");
        };
        assert!(shared_folder.ends_with(GUESTS_FOLDER));
        assert_eq!(shared(&path.join("other"), None, variable("HOME")), Some(shared_folder));
        let named = path.join("named");
        assert_eq!(shared(&guest, Some(&named), variable("HOME")), Some(named.join(GUESTS_FOLDER)));
        for name in BUILD_FOLDER_VARIABLES {
            assert_eq!(shared(&guest, Some(&named), variable(name)), None, "{name}");
        }
        let config = path.join("work/.cargo/config.toml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(&config, "[build]\n# target-dir = \"x\"\njobs = 1\n").unwrap();
        assert!(shared(&guest, None, variable("HOME")).is_some());
        std::fs::write(&config, "[build]\ntarget-dir = \"x\"\n").unwrap();
        assert_eq!(shared(&guest, None, variable("HOME")), None);
    }

    #[test]
    fn a_running_build_keeps_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path();
        assert_eq!(built_guests(cache).unwrap(), FileCount::default());
        assert_eq!(clear_built_guests(cache).unwrap(), (FileCount::default(), false));
        let profile = cache.join(GUESTS_FOLDER).join("wasm32-wasip2/release");
        std::fs::create_dir_all(profile.join("deps")).unwrap();
        let lock = profile.join(".cargo-lock");
        std::fs::write(&lock, "").unwrap();
        std::fs::write(profile.join("deps/a.rlib"), [0; 10]).unwrap();
        std::fs::hard_link(profile.join("deps/a.rlib"), profile.join("a.rlib")).unwrap();
        let expected = FileCount { files: 2, bytes: 10 };
        assert_eq!(built_guests(cache).unwrap(), expected);
        let build = File::open(&lock).unwrap();
        build.lock().unwrap();
        assert_eq!(clear_built_guests(cache).unwrap(), (FileCount::default(), true));
        drop(build);
        assert_eq!(clear_built_guests(cache).unwrap(), (expected, false));
        assert!(cache.is_dir() && !cache.join(GUESTS_FOLDER).exists());
    }
}
