//! Compares the package versions that a script asks for with the versions in its runtime.

use crate::model::printable;
use crate::runtimes::{Runtime, package_version, python_version};
use crate::spec::Requirement;

/// A line for each package whose major version differs in the runtime. For Python and scikit-learn, the minor
/// version counts, too: pickles of scikit-learn load only in close versions. `file`: the name of the
/// requirements file.
pub(super) fn differences(
    file: &str,
    requirements: &[Requirement],
    runtime: Runtime,
) -> Vec<String> {
    let difference = |requirement: &Requirement| {
        let Requirement { package, version: asked } = requirement;
        let present = version_of(package, runtime)?;
        let parts = if matches!(&**package, "scikit-learn" | "python") { 2 } else { 1 };
        if first_parts(asked, parts) == first_parts(present, parts) {
            return None;
        }
        let consequence = match &**package {
            "scikit-learn" => {
                "; a model pickled with another version may not load, or may return other results: save it again"
            }
            _ => "",
        };
        let line = format!(
            "{file} asks for {package} {asked}, but the {runtime} runtime has {present}{consequence}"
        );
        Some(printable(&line).into_owned())
    };
    requirements.iter().filter_map(difference).collect()
}

fn version_of(package: &str, runtime: Runtime) -> Option<&'static str> {
    match package {
        "python" => python_version(runtime),
        _ => package_version(runtime, package),
    }
}

/// The first numbers of a version.
fn first_parts(version: &str, parts: usize) -> Vec<&str> {
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
        conda.yml asks for python 3.8.5, but the science runtime has 3.15.0
        conda.yml asks for pandas 1.5.3, but the science runtime has 3.0.6
        conda.yml asks for scikit-learn 1.0.2, but the science runtime has 1.9.1; a model pickled with another version may not load, or may return other results: save it again
        conda.yml asks for pillow 8.0, but the science runtime has 13.0.0
        conda.yml asks for charset-normalizer 2.0, but the science runtime has 3.5.2
        ");
        insta::assert_snapshot!(lines(Runtime::Light), @"conda.yml asks for python 3.8.5, but the light runtime has 3.14.0");
    }
}
