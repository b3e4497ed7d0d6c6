//! Where the library of ONNX Runtime is looked for. Never in a job file: it is code that runs with the rights of a worker
//! before its wall stands.

use super::error::NamedError;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The option of the command line, and the variables, that say where it is. The first that is there counts.
const OPTION: &str = "--onnxruntime";
const VARIABLES: [&str; 2] = ["SANDMILL_ONNXRUNTIME", "ORT_DYLIB_PATH"];

/// Where the library lies in a folder that somebody names: in itself, in one of an unpacked release, in
/// the Python package, in a folder of Python packages.
const BELOW: [&str; 4] = ["", "lib", "capi", "onnxruntime/capi"];

/// Variables that say which environment of Python is active.
const ENVIRONMENTS: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// Where packages of Python and libraries of the machine lie.
const USUAL: [&str; 2] = ["/usr/local", "/usr"];

/// What keeps the library from telling its makers of each start, on a thread of its own. It is read when
/// the library starts, so that it must be in the environment of the process.
pub const NO_TELEMETRY: (&str, &str) = ("ORT_DISABLE_TELEMETRY", "1");

/// Where somebody says that the library is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLibrary {
    /// Who says so, for people: the option or a variable.
    pub by: &'static str,
    /// The library, or a folder that holds it.
    pub path: PathBuf,
}

impl NamedLibrary {
    /// What the command line says, else what the environment does: `SANDMILL_ONNXRUNTIME`, then
    /// `ORT_DYLIB_PATH`.
    pub fn given(option: Option<&Path>) -> Option<Self> {
        if let Some(path) = option {
            return Some(Self { by: OPTION, path: path.to_owned() });
        }
        VARIABLES.into_iter().find_map(|by| {
            let path = env::var_os(by).filter(|path| !path.is_empty())?;
            Some(Self { by, path: path.into() })
        })
    }

    /// The library that is found without being named: in the active environment of Python (`VIRTUAL_ENV`,
    /// `CONDA_PREFIX`), in that of the `python3` on the `PATH`, among the user's own packages, or in the usual places of
    /// the machine. Python is not run. A library that another user could have put there does not count. Not for jobs
    /// of strangers: these variables choose code that runs here.
    pub fn found() -> Option<Self> {
        let variable = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
        let active = ENVIRONMENTS.into_iter().filter_map(|by| Some((by, variable(by)?.into())));
        let python = variable("PATH").and_then(|path| {
            env::split_paths(&path)
                .filter(|folder| folder.is_absolute())
                .find(|folder| folder.join("python3").is_file())
        });
        let python = python.as_deref().and_then(Path::parent).map(Path::to_owned);
        let home = variable("HOME").map(|home| Path::new(&home).join(".local"));
        let usual = USUAL.into_iter().map(PathBuf::from);
        let others = python
            .map(|path| ("the python3 on the PATH", path))
            .into_iter()
            .chain(home.map(|path| ("the user's Python packages", path)))
            .chain(usual.map(|path| ("this machine's folder", path)));
        active.chain(others).find_map(|(by, path): (&'static str, PathBuf)| {
            let found = Self { by, path }.find().ok().filter(|file| is_own(file))?;
            Some(Self { by, path: found })
        })
    }

    /// Whether it was named on the command line, for this one job.
    pub fn by_option(&self) -> bool {
        self.by == OPTION
    }

    /// The library's file: absolute, without links, and UTF-8.
    ///
    /// # Errors
    /// For people: what is not there, and who named it.
    pub fn find(&self) -> Result<PathBuf, NamedError> {
        let by = self.by;
        let path = || self.path.clone();
        let real = self.path.canonicalize();
        let real = real.map_err(|source| NamedError::NotThere { by, path: path(), source })?;
        let file = if real.is_dir() { self.one_of(in_folder(&real))? } else { real };
        if file.to_str().is_none() {
            return Err(NamedError::NotUtf8 { by, path: path(), file });
        }
        Ok(file)
    }

    /// The only one of the libraries in the folder that is named.
    fn one_of(&self, found: Vec<PathBuf>) -> Result<PathBuf, NamedError> {
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

/// The libraries in a folder.
fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = BELOW.iter().map(|below| folder.join(below)).collect();
    // A virtual environment of Python, and the packages of a system.
    let pythons = fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
    let pythons =
        pythons.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python"));
    for python in pythons.map(|entry| entry.path()) {
        let packages = ["site-packages", "dist-packages"].map(|packages| python.join(packages));
        places.extend(packages.map(|packages| packages.join("onnxruntime/capi")));
    }
    let mut found = Vec::new();
    for entry in places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten() {
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

/// Whether a file is this user's or root's, and no other may write to it.
fn is_own(file: &Path) -> bool {
    let owners = [0, rustix::process::geteuid().as_raw()];
    file.metadata().is_ok_and(|it| owners.contains(&it.uid()) && it.mode() & 0o002 == 0)
}

/// `libonnxruntime.so`, `libonnxruntime.so.1.31.1`, `libonnxruntime.1.31.1.dylib`.
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
    fn files_and_folders_lead_to_the_library() {
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
        // Links of a release are the same library.
        let release = root.join("release/lib/libonnxruntime.so.1.31.1");
        fs::write(&release, "").unwrap();
        symlink("libonnxruntime.so.1.31.1", root.join("release/lib/libonnxruntime.so")).unwrap();
        assert_eq!(named(&root.join("release")).unwrap(), release);
    }

    #[test]
    fn what_is_not_there_is_told_with_who_named_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let told = |place: &str| {
            let error = named(&root.join(place)).unwrap_err().to_string();
            error.replace(root.to_str().unwrap(), "/d")
        };
        insta::assert_snapshot!(told("none"), @"SANDMILL_ONNXRUNTIME names /d/none: No such file or directory (os error 2)");
        insta::assert_snapshot!(told("."), @"SANDMILL_ONNXRUNTIME names /d/., a folder without libonnxruntime.so; name the library, the folder of the Python package onnxruntime, or one of Python packages (site-packages)");
        for name in ["libonnxruntime.so.1", "libonnxruntime.so.2"] {
            fs::write(root.join(name), "").unwrap();
        }
        insta::assert_snapshot!(told("."), @"SANDMILL_ONNXRUNTIME names /d/., a folder with /d/libonnxruntime.so.1 and /d/libonnxruntime.so.2; name one of them");
    }

    /// In a process of its own, as it sets what other tests may read.
    #[test]
    fn an_active_environment_is_found_by_itself() {
        const SET: &str = "SANDMILL_TEST_FOUND";
        if env::var_os(SET).is_some() {
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
            let test = "inference::named_library::tests::an_active_environment_is_found_by_itself";
            let mut again = std::process::Command::new(env::current_exe().unwrap());
            again.args([test, "--exact", "--nocapture"]).env_clear().env(SET, "1");
            let ran = again.envs(variables.iter().copied()).output().unwrap();
            assert!(ran.status.success());
            String::from_utf8(ran.stdout).unwrap()
        };
        let venv_root = root.join("venv");
        let home = root.join("home");
        let bin = root.join("python/bin");
        let told = |by: &str, library: &Path| format!("Some(({by:?}, {library:?}))");
        let all = [("VIRTUAL_ENV", &*venv_root), ("HOME", &*home), ("PATH", &*bin)];
        assert!(found(&all).contains(&told("VIRTUAL_ENV", &venv)));
        assert!(found(&all[1..]).contains(&told("the python3 on the PATH", &python)));
        assert!(found(&all[1..2]).contains(&told("the user's Python packages", &own)));
        // Anybody may have put it there.
        fs::set_permissions(&venv, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!found(&all[..1]).contains("VIRTUAL_ENV"));
    }

    #[test]
    fn the_command_line_comes_first() {
        let given = NamedLibrary::given(Some(Path::new("/x"))).unwrap();
        assert!(given.by_option() && given.path == Path::new("/x"), "{given:?}");
    }
}
