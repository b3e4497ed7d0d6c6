//! Installs pure Python packages next to a script, with the user's own pip. No other part of Sandmill
//! downloads them.

use super::error::InstallError;
use super::fetch::{python, run, tool};
use super::science::science_packages;
use crate::model::package_name;
use crate::opening::ScratchFolder;
use sandmill_files::remove_tree;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The folder of a script's packages, next to the script.
pub const PACKAGES: &str = "python_packages";

/// A file in the folder of packages. It lists the packages of the science runtime that the installed packages
/// need. If it exists, Sandmill may replace the folder.
const MANIFEST: &str = "sandmill.json";

/// A Python program that makes empty wheels. They stand for the packages of the science runtime, so that pip
/// does not download these packages.
const EMPTY_WHEELS_PROGRAM: &str = include_str!("../../../../python/vendor.py");

/// A Python program that runs pip without running code of packages.
const PIP_PROGRAM: &str = include_str!("../../../../python/vendor_pip.py");

/// Packages to install next to a script.
pub struct Vendor<'a> {
    /// The packages, for example `rich` or `rich==13.7`.
    pub packages: &'a [String],
    /// A requirements file.
    pub requirements: Option<&'a Path>,
    /// The script's folder.
    pub folder: &'a Path,
    /// A folder with wheels; if it is given, nothing is downloaded.
    pub from: Option<&'a Path>,
}

/// The packages that are now next to the script.
#[derive(Debug)]
pub struct Vendored {
    /// The folder. `None` if there is nothing to install.
    pub folder: Option<PathBuf>,
    /// The packages in it, with their versions.
    pub packages: Vec<String>,
    /// Packages that the user requested, but that the science runtime already has.
    pub left_out: Vec<String>,
    /// Packages of the science runtime that the installed packages need.
    pub needs: Vec<String>,
}

impl Vendor<'_> {
    /// Downloads the packages and their dependencies. Replaces the packages of an earlier call. `say`
    /// receives lines about slow steps.
    ///
    /// # Errors
    /// If a package has native code or cannot be downloaded, or the disk is full.
    pub fn vendor(&self, say: &mut dyn FnMut(&str)) -> Result<Vendored, InstallError> {
        let folder = std::path::absolute(self.folder).map_err(InstallError::write(self.folder))?;
        let target = folder.join(PACKAGES);
        if target.exists() && !target.join(MANIFEST).is_file() {
            return Err(InstallError::NotOurs { folder: target });
        }
        let (requested, left_out) = self.requested()?;
        if requested.is_empty() && !target.exists() {
            return Ok(Vendored { folder: None, packages: vec![], left_out, needs: vec![] });
        }
        let scratch = folder.join(format!(".{PACKAGES}-{}", std::process::id()));
        let scratch = ScratchFolder::at(scratch.clone()).map_err(InstallError::write(&scratch))?;
        let packages_folder = scratch.path().join("packages");
        std::fs::create_dir(&packages_folder).map_err(InstallError::write(&packages_folder))?;
        if !requested.is_empty() {
            say("fetching pure-Python packages");
            self.fetch(&requested, scratch.path(), &packages_folder)?;
        }
        let needs = remove_empty_wheels(&packages_folder)?;
        let packages = installed(&packages_folder)?;
        let manifest = packages_folder.join(MANIFEST);
        let text = serde_json::json!({ "needs": needs }).to_string() + "\n";
        std::fs::write(&manifest, text).map_err(InstallError::write(&manifest))?;
        remove_tree(&target).map_err(InstallError::write(&target))?;
        std::fs::rename(&packages_folder, &target).map_err(InstallError::write(&target))?;
        Ok(Vendored { folder: Some(target), packages, left_out, needs })
    }

    /// Splits the packages that the user requested: packages for pip, and packages that the science runtime
    /// has.
    fn requested(&self) -> Result<(Vec<String>, Vec<String>), InstallError> {
        let mut lines = self.packages.to_vec();
        if let Some(file) = self.requirements {
            let text = std::fs::read_to_string(file)
                .map_err(|source| InstallError::Read { path: file.to_owned(), source })?;
            lines.extend(text.lines().map(str::to_owned));
        }
        let clean = |line: &String| line.split(" #").next().unwrap_or_default().trim().to_owned();
        let lines = lines.iter().map(clean);
        let lines: Vec<_> =
            lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        // Paths and addresses are refused, because pip would build them: that would run untrusted code
        // outside of the sandbox.
        let is_plain = |line: &String| {
            line.starts_with(|c: char| c.is_ascii_alphanumeric())
                && !line.contains(['@', '/', '\\'])
        };
        if let Some(other) = lines.iter().find(|line| !is_plain(line)) {
            return Err(InstallError::NotPackage { line: other.clone() });
        }
        let in_runtime: BTreeSet<String> = science_packages().map(|(package, _)| package).collect();
        Ok(lines
            .into_iter()
            .partition(|line| line.contains('[') || !in_runtime.contains(&package_name(line).0)))
    }

    fn fetch(
        &self,
        requested: &[String],
        scratch: &Path,
        packages_folder: &Path,
    ) -> Result<(), InstallError> {
        let python = python()?;
        let pins: Vec<String> =
            science_packages().map(|(package, version)| format!("{package}=={version}")).collect();
        let wheels = scratch.join("wheels");
        std::fs::create_dir(&wheels).map_err(InstallError::write(&wheels))?;
        run(tool(&python, scratch)?.args(["-c", EMPTY_WHEELS_PROGRAM]).arg(&wheels).args(&pins))?;
        let constraints = scratch.join("constraints.txt");
        std::fs::write(&constraints, pins.join("\n")).map_err(InstallError::write(&constraints))?;
        let mut fetch = tool(&python, scratch)?;
        fetch.args(["-c", PIP_PROGRAM, "install", "--quiet", "--disable-pip-version-check"]);
        fetch.args(["--only-binary", ":all:", "--platform", "any", "--implementation", "py"]);
        fetch.args(["--abi", "none", "--python-version", "3.14", "--no-compile", "--target"]);
        fetch
            .arg(packages_folder)
            .arg("--find-links")
            .arg(&wheels)
            .arg("--constraint")
            .arg(&constraints);
        if let Some(from) = self.from {
            let from = std::path::absolute(from).map_err(InstallError::write(from))?;
            fetch.arg("--no-index").arg("--find-links").arg(from);
        }
        run(fetch.args(requested)).map_err(|error| match error {
            InstallError::Failed { command, output } => match package_without_wheel(&output) {
                Some(package) => InstallError::NotPure { package },
                None => InstallError::Failed { command, output },
            },
            other => other,
        })
    }
}

/// Returns the package for which pip found no wheel, according to pip's output. `None` if pip could not reach
/// the network, or failed for another reason.
fn package_without_wheel(output: &str) -> Option<String> {
    if output.contains("onnection") || output.contains("Max retries") {
        return None;
    }
    let (_, after) = output.rsplit_once("No matching distribution found for ")?;
    Some(after.split_whitespace().next()?.to_owned())
}

/// Removes the empty wheels that pip installed. Returns their packages.
fn remove_empty_wheels(packages_folder: &Path) -> Result<Vec<String>, InstallError> {
    let mut needs = Vec::new();
    for (package, version) in science_packages() {
        let info =
            packages_folder.join(format!("{}-{version}.dist-info", package.replace('-', "_")));
        if info.is_dir() {
            remove_tree(&info).map_err(InstallError::write(&info))?;
            needs.push(package);
        }
    }
    Ok(needs)
}

/// Lists the packages in a folder, with their versions. Removes the packages' programs. Fails if a package
/// has native code.
fn installed(packages_folder: &Path) -> Result<Vec<String>, InstallError> {
    let programs = packages_folder.join("bin");
    remove_tree(&programs).map_err(InstallError::write(&programs))?;
    let mut packages = Vec::new();
    for entry in
        WalkDir::new(packages_folder).sort_by_file_name().into_iter().filter_map(Result::ok)
    {
        let name = entry.file_name().to_string_lossy();
        if entry.file_type().is_file() && (name.ends_with(".so") || name.contains(".so.")) {
            let first =
                entry.path().strip_prefix(packages_folder).unwrap_or(entry.path()).iter().next();
            let package = first.unwrap_or_default().to_string_lossy().into_owned();
            return Err(InstallError::NotPure { package });
        }
        if let Some(info) = name.strip_suffix(".dist-info").filter(|_| entry.depth() == 1) {
            packages.push(info.replacen('-', " ", 1));
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pip_errors_about_native_packages_are_recognised() {
        let output = "ERROR: Could not find a version that satisfies the requirement lightgbm (from versions: none)\n\
                    ERROR: No matching distribution found for lightgbm\n";
        assert_eq!(package_without_wheel(output).as_deref(), Some("lightgbm"));
        assert_eq!(package_without_wheel(&format!("Max retries exceeded\n{output}")), None);
    }

    #[test]
    fn packages_of_the_runtime_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("requirements.txt");
        std::fs::write(&file, "# all\npandas==1.5.3\nPyYAML  # text\nrich\n\n").unwrap();
        let vendor = Vendor {
            packages: &["scikit_learn".to_owned()],
            requirements: Some(&file),
            folder: dir.path(),
            from: None,
        };
        let (requested, left_out) = vendor.requested().unwrap();
        assert_eq!(requested, ["rich"]);
        assert_eq!(left_out, ["scikit_learn", "pandas==1.5.3", "PyYAML"]);
        std::fs::write(&file, "-r other.txt\n").unwrap();
        assert!(vendor.requested().unwrap_err().to_string().contains("-r other.txt"));
    }
}
