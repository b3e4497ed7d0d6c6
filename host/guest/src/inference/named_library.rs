//! Finds the library of ONNX Runtime. A job file cannot name the library, because the library's code runs
//! with a worker's rights before the worker's wall exists.

use super::error::NamedError;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The command-line option that names the library.
const OPTION: &str = "--onnxruntime";
/// The environment variables that name the library if the option does not. The first variable that
/// is set applies.
const VARIABLES: [&str; 2] = ["SANDMILL_ONNXRUNTIME", "ORT_DYLIB_PATH"];

/// The subfolders that may contain the library if the user names a folder. In this order, the user may name
/// the library's own folder, an unpacked release, the Python package, or a folder of Python packages.
const SUBFOLDERS: [&str; 4] = ["", "lib", "capi", "onnxruntime/capi"];

/// The variables that name the active Python environment.
const PYTHON_ENVIRONMENTS: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// The usual places of Python packages and libraries on a machine.
const USUAL_FOLDERS: [&str; 2] = ["/usr/local", "/usr"];

/// An environment variable and its value, which stop the library from sending telemetry. Otherwise the
/// library starts a thread for telemetry at each start. The library reads the variable when it starts, so the
/// process must already have the variable.
pub const NO_TELEMETRY: (&str, &str) = ("ORT_DISABLE_TELEMETRY", "1");

/// A path that leads to the library, and who named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLibrary {
    /// What named or found the path, for messages: an option, a variable, or `the python3 on the PATH`.
    pub by: &'static str,
    /// The library, or a folder that contains it.
    pub path: PathBuf,
}

impl NamedLibrary {
    /// The path of the command-line option, else of `SANDMILL_ONNXRUNTIME`, else of `ORT_DYLIB_PATH`.
    pub fn given(option: Option<&Path>) -> Option<Self> {
        if let Some(path) = option {
            return Some(Self { by: OPTION, path: path.to_owned() });
        }
        VARIABLES.into_iter().find_map(|by| {
            let path = env::var_os(by).filter(|path| !path.is_empty())?;
            Some(Self { by, path: path.into() })
        })
    }

    /// Finds a library that the user has not named: in the active Python environment (`VIRTUAL_ENV`,
    /// `CONDA_PREFIX`), in the environment of the first `python3` on the `PATH`, among the user's own
    /// packages, or in the machine's usual folders. Does not run Python. Skips a library that belongs to
    /// another user or is writable for all. Not for jobs of untrusted users: these variables choose code that
    /// runs in this process.
    pub fn found() -> Option<Self> {
        let variable = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
        let active =
            PYTHON_ENVIRONMENTS.into_iter().filter_map(|by| Some((by, variable(by)?.into())));
        let python = variable("PATH").and_then(|path| {
            env::split_paths(&path)
                .filter(|folder| folder.is_absolute())
                .find(|folder| folder.join("python3").is_file())
        });
        let python = python.as_deref().and_then(Path::parent).map(Path::to_owned);
        let home = variable("HOME").map(|home| Path::new(&home).join(".local"));
        let usual = USUAL_FOLDERS.into_iter().map(PathBuf::from);
        let others = python
            .map(|path| ("the python3 on the PATH", path))
            .into_iter()
            .chain(home.map(|path| ("the user's Python packages", path)))
            .chain(usual.map(|path| ("this machine's folder", path)));
        active.chain(others).find_map(|(by, path): (&'static str, PathBuf)| {
            let found = Self { by, path }.find().ok().filter(|file| is_trusted(file))?;
            Some(Self { by, path: found })
        })
    }

    /// Whether the command line named the library, for this job only.
    pub fn by_option(&self) -> bool {
        self.by == OPTION
    }

    /// The path of the library's file: absolute, without symbolic links, and UTF-8.
    ///
    /// # Errors
    /// If the library cannot be found. The error names the path, and the option or variable that named it.
    pub fn find(&self) -> Result<PathBuf, NamedError> {
        let by = self.by;
        let path = || self.path.clone();
        let real = self.path.canonicalize();
        let real = real.map_err(|source| NamedError::NotThere { by, path: path(), source })?;
        let file = if real.is_dir() { self.only_one(libraries_in(&real))? } else { real };
        if file.to_str().is_none() {
            return Err(NamedError::NotUtf8 { by, path: path(), file });
        }
        Ok(file)
    }

    /// The only library in the named folder.
    fn only_one(&self, found: Vec<PathBuf>) -> Result<PathBuf, NamedError> {
        let by = self.by;
        let path = || self.path.clone();
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(NamedError::Without { by, path: path() }),
            (Some(first), Some(second)) => {
                Err(NamedError::Several { by, path: path(), first, second })
            }
        }
    }
}

fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = SUBFOLDERS.iter().map(|below| folder.join(below)).collect();
    // The packages of a virtual environment or of the system's Python.
    let pythons = fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
    let pythons =
        pythons.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python"));
    for python in pythons.map(|entry| entry.path()) {
        let packages = ["site-packages", "dist-packages"].map(|packages| python.join(packages));
        folders.extend(packages.map(|packages| packages.join("onnxruntime/capi")));
    }
    let mut found = Vec::new();
    for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
        if is_library(&entry.file_name())
            && let Ok(real) = entry.path().canonicalize()
        {
            found.push(real);
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Whether a file belongs to this user or root, and is not writable for all.
fn is_trusted(file: &Path) -> bool {
    let owners = [0, rustix::process::geteuid().as_raw()];
    file.metadata().is_ok_and(|found| owners.contains(&found.uid()) && found.mode() & 0o002 == 0)
}

/// Whether the name is like `libonnxruntime.so`, `libonnxruntime.so.1.31.1` or `libonnxruntime.1.31.1.dylib`.
fn is_library(name: &OsStr) -> bool {
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("libonnxruntime.")) else {
        return false;
    };
    rest == "so" || rest.starts_with("so.") || rest.ends_with("dylib")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn named(path: &Path) -> Result<PathBuf, NamedError> {
        NamedLibrary { by: "SANDMILL_ONNXRUNTIME", path: path.to_owned() }.find()
    }

    #[test]
    fn the_library_is_found_in_named_folders() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["venv/lib/python3.11/site-packages/onnxruntime/capi", "release/lib"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let package = root.join("venv/lib/python3.11/site-packages/onnxruntime");
        let library = package.join("capi/libonnxruntime.so.1.31.1");
        for name in ["libonnxruntime.so.1.31.1", "libonnxruntime_providers_shared.so"] {
            fs::write(package.join("capi").join(name), "").unwrap();
        }
        for place in ["venv", "venv/lib/python3.11/site-packages"] {
            assert_eq!(named(&root.join(place)).unwrap(), library, "{place}");
        }
        for place in [&package, &package.join("capi"), &library] {
            assert_eq!(named(place).unwrap(), library, "{place:?}");
        }
        // A release's symbolic links lead to the same library.
        let release = root.join("release/lib/libonnxruntime.so.1.31.1");
        fs::write(&release, "").unwrap();
        symlink("libonnxruntime.so.1.31.1", root.join("release/lib/libonnxruntime.so")).unwrap();
        assert_eq!(named(&root.join("release")).unwrap(), release);
    }

    #[test]
    fn errors_name_the_option_or_variable() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let describe = |place: &str| {
            let error = named(&root.join(place)).unwrap_err().to_string();
            error.replace(root.to_str().unwrap(), "/d")
        };
        insta::assert_snapshot!(describe("none"), @"SANDMILL_ONNXRUNTIME names /d/none: No such file or directory (os error 2)");
        insta::assert_snapshot!(describe("."), @"SANDMILL_ONNXRUNTIME names /d/., a folder without libonnxruntime.so; name the library, the folder of the Python package onnxruntime, or a folder of Python packages (site-packages)");
        for name in ["libonnxruntime.so.1", "libonnxruntime.so.2"] {
            fs::write(root.join(name), "").unwrap();
        }
        insta::assert_snapshot!(describe("."), @"SANDMILL_ONNXRUNTIME names /d/., a folder with /d/libonnxruntime.so.1 and /d/libonnxruntime.so.2; name one of them");
    }

    /// Runs in its own process, because it sets variables that other tests may read.
    #[test]
    fn an_active_environment_is_found_automatically() {
        const IS_CHILD: &str = "SANDMILL_TEST_FOUND";
        if env::var_os(IS_CHILD).is_some() {
            println!("{:?}", NamedLibrary::found().map(|named| (named.by, named.path)));
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let library = |prefix: &str, packages: &str| {
            let capi = root.join(prefix).join("lib/python3.12").join(packages);
            let capi = capi.join("onnxruntime/capi");
            fs::create_dir_all(&capi).unwrap();
            fs::write(capi.join("libonnxruntime.so.1.31.1"), "").unwrap();
            capi.join("libonnxruntime.so.1.31.1")
        };
        let venv = library("venv", "site-packages");
        let own = library("home/.local", "dist-packages");
        let python = library("python", "site-packages");
        fs::create_dir(root.join("python/bin")).unwrap();
        fs::write(root.join("python/bin/python3"), "").unwrap();
        let found = |variables: &[(&str, &Path)]| {
            let test =
                "inference::named_library::tests::an_active_environment_is_found_automatically";
            let mut again = std::process::Command::new(env::current_exe().unwrap());
            again.args([test, "--exact", "--nocapture"]).env_clear().env(IS_CHILD, "1");
            let ran = again.envs(variables.iter().copied()).output().unwrap();
            assert!(ran.status.success());
            String::from_utf8(ran.stdout).unwrap()
        };
        let venv_root = root.join("venv");
        let home = root.join("home");
        let bin = root.join("python/bin");
        let describe = |by: &str, library: &Path| format!("Some(({by:?}, {library:?}))");
        let variables = [("VIRTUAL_ENV", &*venv_root), ("HOME", &*home), ("PATH", &*bin)];
        assert!(found(&variables).contains(&describe("VIRTUAL_ENV", &venv)));
        assert!(found(&variables[1..]).contains(&describe("the python3 on the PATH", &python)));
        assert!(found(&variables[1..2]).contains(&describe("the user's Python packages", &own)));
        // Another user may have put it there.
        fs::set_permissions(&venv, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!found(&variables[..1]).contains("VIRTUAL_ENV"));
    }

    #[test]
    fn the_command_line_takes_precedence() {
        let given = NamedLibrary::given(Some(Path::new("/x"))).unwrap();
        assert!(given.by_option() && given.path == Path::new("/x"), "{given:?}");
    }
}
