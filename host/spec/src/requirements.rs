//! The packages that a Python script needs, from a requirements file of pip or a conda environment.

use super::error::ErrorReport;
use super::tree::{self, YamlNode, YamlValue};
use crate::model::package_name;

/// A package that a Python script needs in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The package's name on PyPI, in lower case, with `-` between words.
    pub package: String,
    /// The version, such as `1.5` or `1.5.3`.
    pub version: String,
}

/// Reads the packages that a file pins to one version, and skips other lines. `is_yaml`: whether the file is
/// a conda environment. `None` if the file should be a conda environment but is not valid YAML.
pub(super) fn parse_requirements(text: &str, is_yaml: bool) -> Option<Vec<Requirement>> {
    if !is_yaml {
        return Some(text.lines().filter_map(parse_line).collect());
    }
    let root = tree::parse(text, &ErrorReport::default())?;
    let mut found = Vec::new();
    add_conda_packages(&root, &mut found);
    Some(found)
}

/// Adds the packages of a conda environment: `dependencies` is a list of texts. It may contain a map whose
/// `pip` is another list.
fn add_conda_packages(root: &YamlNode, found: &mut Vec<Requirement>) {
    let YamlValue::Map(entries) = &root.value else { return };
    for entry in entries.iter().filter(|entry| matches!(&*entry.key, "dependencies" | "pip")) {
        let YamlValue::List(items) = &entry.node.value else { continue };
        for item in items {
            match &item.value {
                YamlValue::Scalar { text, .. } => found.extend(parse_line(text)),
                _ => add_conda_packages(item, found),
            }
        }
    }
}

/// Reads a line such as `pandas==1.5.3` or `pandas[excel] ~= 1.5 ; python_version > "3.8"`, or
/// `conda-forge::pandas=1.5.3=py38_0` from conda.
fn parse_line(line: &str) -> Option<Requirement> {
    let line = line.split('#').next().unwrap_or_default();
    let line = line.split(';').next().unwrap_or_default().trim();
    let line = line.rsplit_once("::").map_or(line, |(_, package)| package);
    let (package, rest) = package_name(line);
    let mut rest = rest.trim_start();
    if let Some(extras) = rest.strip_prefix('[') {
        rest = extras.split_once(']')?.1.trim_start();
    }
    let version = ["===", "==", "~=", "="].iter().find_map(|sign| rest.strip_prefix(sign))?;
    let version = version.trim_start();
    let end = version.find(|c: char| !c.is_ascii_alphanumeric() && !".+!".contains(c));
    let version = &version[..end.unwrap_or(version.len())];
    let is_version = version.starts_with(|c: char| c.is_ascii_digit());
    (is_version && !package.is_empty())
        .then(|| Requirement { package, version: version.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_yaml: bool) -> Vec<String> {
        let found = parse_requirements(text, is_yaml).unwrap();
        found.iter().map(|it| format!("{} {}", it.package, it.version)).collect()
    }

    #[test]
    fn versions_of_a_requirements_file() {
        let text = "# what score.py needs\n-r other.txt\n--index-url https://example.org/simple\n\
            pandas==1.5.3  # pinned\nScikit_Learn[alldeps] == 1.0 ; python_version < '3.9'\nnumpy~=1.21.0\n\
            requests>=2\nflask\ngit+https://example.org/x.git\nazureml-core===1.50.0 --hash=sha256:00\n==1\npillow==\n\
            root:x:0:0\nscipy==1.*\n";
        assert_eq!(
            read(text, false),
            ["pandas 1.5.3", "scikit-learn 1.0", "numpy 1.21.0", "azureml-core 1.50.0", "scipy 1."]
        );
        assert!(read("", false).is_empty());
    }

    #[test]
    fn versions_of_a_conda_environment() {
        let text = "name: x\nchannels: [conda-forge]\ndependencies:\n- python=3.8.5\n- conda-forge::pandas=1.2.4=py38_0\n- pip\n\
            - scipy>=1\n- pip:\n  - scikit-learn==0.24.2\n  - azureml-defaults\n";
        assert_eq!(read(text, true), ["python 3.8.5", "pandas 1.2.4", "scikit-learn 0.24.2"]);
        assert_eq!(
            read("dependencies: [python=3.8, {pip: [numpy==1.2]}]", true),
            ["python 3.8", "numpy 1.2"]
        );
        assert!(read("dependencies: 7", true).is_empty());
        assert_eq!(parse_requirements("a: [", true), None);
    }
}
