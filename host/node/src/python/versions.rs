//! Compares the package versions that a script asks for with the versions in its runtime.

use crate::model::printable;
use crate::runtimes::{Runtime, package_version, python_version};
use crate::spec::{AcceptedVersions, Requirement};
use std::cmp::Ordering;

/// A line for each package whose version in the runtime is not what the script asks for. If it asks
/// for one version, only the major version must match. For Python and scikit-learn, the minor
/// version must match, too: pickles of scikit-learn load only in close versions. `file`: the name
/// of the requirements file.
pub(super) fn differences(
    file: &str,
    requirements: &[Requirement],
    runtime: Runtime,
) -> Vec<String> {
    let difference = |requirement: &Requirement| {
        let Requirement { package, version, accepts } = requirement;
        let present = version_of(package, runtime)?;
        let parts = if matches!(&**package, "scikit-learn" | "python") { 2 } else { 1 };
        let (is_accepted, words) = match accepts {
            AcceptedVersions::This => {
                (first_parts(version, parts) == first_parts(present, parts), " ")
            }
            AcceptedVersions::Before => (compare(present, version).is_lt(), ", a version before "),
            AcceptedVersions::UpTo => (compare(present, version).is_le(), ", at most version "),
            AcceptedVersions::Compatible => {
                let same = (version.split('.').count() - 1).clamp(1, parts);
                let is_same = first_parts(version, same) == first_parts(present, same);
                (is_same && compare(present, version).is_ge(), ", a version compatible with ")
            }
        };
        if is_accepted {
            return None;
        }
        let consequence = match &**package {
            "scikit-learn" => {
                "; a model pickled with another version may not load, or may return other results: save it again"
            }
            _ => "",
        };
        let line = format!(
            "{file} asks for {package}{words}{version}, but the {runtime} runtime has {present}{consequence}"
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

/// Compares two versions by their numbers. A missing number counts as 0.
fn compare(one: &str, other: &str) -> Ordering {
    let numbers = |version: &str| {
        let parts = version.split('.').map_while(|part| part.parse::<u64>().ok());
        let mut numbers: Vec<_> = parts.collect();
        numbers.resize(8, 0);
        numbers
    };
    numbers(one).cmp(&numbers(other))
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
        let bounds = [
            ("lxml", AcceptedVersions::Before, "5"),
            ("openpyxl", AcceptedVersions::UpTo, "3"),
            ("scipy", AcceptedVersions::Before, "99.1"),
            ("scikit-learn", AcceptedVersions::Compatible, "1.0"),
            ("numpy", AcceptedVersions::Compatible, "1.21.0"),
        ];
        let exact = asked.map(|(package, version)| (package, AcceptedVersions::This, version));
        let asked: Vec<_> = exact
            .into_iter()
            .chain(bounds)
            .map(|(package, accepts, version)| Requirement {
                package: package.to_owned(),
                version: version.to_owned(),
                accepts,
            })
            .collect();
        let lines = |runtime| differences("conda.yml", &asked, runtime).join("\n");
        insta::assert_snapshot!(lines(Runtime::Science), @"
        conda.yml asks for python 3.8.5, but the science runtime has 3.15.0
        conda.yml asks for pandas 1.5.3, but the science runtime has 3.0.6
        conda.yml asks for scikit-learn 1.0.2, but the science runtime has 1.9.1; a model pickled with another version may not load, or may return other results: save it again
        conda.yml asks for pillow 8.0, but the science runtime has 13.0.0
        conda.yml asks for charset-normalizer 2.0, but the science runtime has 3.5.2
        conda.yml asks for lxml, a version before 5, but the science runtime has 6.1.3
        conda.yml asks for openpyxl, at most version 3, but the science runtime has 3.1.5
        conda.yml asks for numpy, a version compatible with 1.21.0, but the science runtime has 2.5.2
        ");
        insta::assert_snapshot!(lines(Runtime::Light), @"conda.yml asks for python 3.8.5, but the light runtime has 3.14.0");
    }
}
