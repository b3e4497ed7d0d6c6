//! Compares the package versions that a script asks for with those of its runtime.

use crate::model::printable;
use crate::runtimes::{Runtime, package_version, python_version};
use crate::spec::Requirement;

/// A line for each package of which the runtime has another major version, or for scikit-learn another minor
/// version: its pickles load only in close versions. `file`: the name of the requirements file.
pub(super) fn differences(
    file: &str,
    requirements: &[Requirement],
    runtime: Runtime,
) -> Vec<String> {
    let differs = |it: &Requirement| {
        let Requirement { package, version: asked } = it;
        let there = version_of(package, runtime)?;
        let parts = if matches!(&**package, "scikit-learn" | "python") { 2 } else { 1 };
        if beginning(asked, parts) == beginning(there, parts) {
            return None;
        }
        let meaning = match &**package {
            "scikit-learn" => {
                "; a pickled model of another version may not load, or compute something else: save it again"
            }
            _ => "",
        };
        let line = format!(
            "{file} asks for {package} {asked}, and the {runtime} runtime has {there}{meaning}"
        );
        Some(printable(&line).into_owned())
    };
    requirements.iter().filter_map(differs).collect()
}

fn version_of(package: &str, runtime: Runtime) -> Option<&'static str> {
    match package {
        "python" => python_version(runtime),
        _ => package_version(runtime, package),
    }
}

/// The first numbers of a version.
fn beginning(version: &str, parts: usize) -> Vec<&str> {
    version.split('.').filter(|part| !part.is_empty()).take(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_that_differs_is_reported() {
        let asked = [
            ("python", "3.8.5"),
            ("pandas", "1.5.3"),
            ("numpy", "2"),
            ("scikit-learn", "1.0.2"),
            ("pillow", "8.0"),
            ("charset-normalizer", "2.0"),
            ("lightgbm", "3.3"),
        ];
        let asked = asked.map(|(package, version)| Requirement {
            package: package.to_owned(),
            version: version.to_owned(),
        });
        let lines = |runtime| differences("conda.yml", &asked, runtime).join("\n");
        insta::assert_snapshot!(lines(Runtime::Science), @"
        conda.yml asks for python 3.8.5, and the science runtime has 3.15.0
        conda.yml asks for pandas 1.5.3, and the science runtime has 3.0.6
        conda.yml asks for scikit-learn 1.0.2, and the science runtime has 1.9.1; a pickled model of another version may not load, or compute something else: save it again
        conda.yml asks for pillow 8.0, and the science runtime has 13.0.0
        conda.yml asks for charset-normalizer 2.0, and the science runtime has 3.5.2
        ");
        insta::assert_snapshot!(lines(Runtime::Light), @"conda.yml asks for python 3.8.5, and the light runtime has 3.14.0");
    }
}
