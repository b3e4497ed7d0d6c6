//! The packages that a Python script needs, from a requirements file of pip or a conda environment.

use super::error::ErrorReport;
use super::tree::{self, YamlNode, YamlValue};
use crate::model::package_name;

/// A package that a Python script needs, and the versions that the script accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The package's name on PyPI, in lower case, with `-` between words.
    pub package: String,
    /// The version, such as `1.5` or `1.5.3`.
    pub version: String,
    /// Which versions the script accepts.
    pub accepts: AcceptedVersions,
}

/// Which versions of a package a script accepts, compared with [`Requirement::version`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedVersions {
    /// This version, as in `==1.5`.
    This,
    /// Versions before it, as in `<2`.
    Before,
    /// This version and versions before it, as in `<=1.5`.
    UpTo,
    /// This version and later ones that differ from it in the last number, as in `~=1.5`.
    Compatible,
}

/// Reads the packages for which a file gives an exact version or an upper bound, and skips other lines.
/// `is_yaml`: whether the file is a conda environment. `None` if the file should be a conda environment but
/// is not valid YAML.
pub(super) fn parse_requirements(text: &str, is_yaml: bool) -> Option<Vec<Requirement>> {
    if !is_yaml {
        return Some(text.lines().flat_map(parse_line).collect());
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
fn parse_line(line: &str) -> Vec<Requirement> {
    let line = line.split('#').next().unwrap_or_default();
    let line = line.split(';').next().unwrap_or_default().trim();
    let line = line.rsplit_once("::").map_or(line, |(_, package)| package);
    let (package, rest) = package_name(line);
    let mut rest = rest.trim_start();
    if let Some(extras) = rest.strip_prefix('[') {
        rest = extras.split_once(']').map_or("", |(_, rest)| rest.trim_start());
    }
    // Conda's `|` separates alternatives.
    if package.is_empty() || rest.contains('|') {
        return Vec::new();
    }
    let bounds = rest.split(',').filter_map(parse_bound);
    let requirement =
        |(accepts, version)| Requirement { package: package.clone(), version, accepts };
    bounds.map(requirement).collect()
}

/// Reads a comparison sign and a version, such as `==1.5.3` or ` < 2`. `None` if the text gives
/// neither an exact version nor an upper bound.
fn parse_bound(text: &str) -> Option<(AcceptedVersions, String)> {
    use AcceptedVersions::{Before, Compatible, This, UpTo};
    let signs =
        [("===", This), ("==", This), ("~=", Compatible), ("=", This), ("<=", UpTo), ("<", Before)];
    let text = text.trim_start();
    let find = |(sign, accepts)| Some((accepts, text.strip_prefix(sign)?.trim_start()));
    let (accepts, version) = signs.into_iter().find_map(find)?;
    let end = version.find(|c: char| !c.is_ascii_alphanumeric() && !".+!".contains(c));
    let version = &version[..end.unwrap_or(version.len())];
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| (accepts, version.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_yaml: bool) -> Vec<String> {
        let found = parse_requirements(text, is_yaml).unwrap();
        let sign = |accepts| match accepts {
            AcceptedVersions::This => "",
            AcceptedVersions::Before => "<",
            AcceptedVersions::UpTo => "<=",
            AcceptedVersions::Compatible => "~=",
        };
        found
            .iter()
            .map(|it| format!("{} {}{}", it.package, sign(it.accepts), it.version))
            .collect()
    }

    #[test]
    fn versions_of_a_requirements_file() {
        let text = "# what score.py needs\n-r other.txt\n--index-url https://example.org/simple\n\
            pandas==1.5.3  # pinned\nScikit_Learn[alldeps] == 1.0 ; python_version < '3.9'\nnumpy~=1.21.0\n\
            requests>=2\nflask\ngit+https://example.org/x.git\nazureml-core===1.50.0 --hash=sha256:00\n==1\npillow==\n\
            root:x:0:0\nscipy==1.*\nlxml<5\nopenpyxl>=3,<=3.0.9\ntqdm >=4.1, < 5, ==4.2\nregex!=1\n";
        assert_eq!(
            read(text, false),
            [
                "pandas 1.5.3",
                "scikit-learn 1.0",
                "numpy ~=1.21.0",
                "azureml-core 1.50.0",
                "scipy 1.",
                "lxml <5",
                "openpyxl <=3.0.9",
                "tqdm <5",
                "tqdm 4.2"
            ]
        );
        assert!(read("", false).is_empty());
    }

    #[test]
    fn versions_of_a_conda_environment() {
        let text = "name: x\nchannels: [conda-forge]\ndependencies:\n- python=3.8.5\n- conda-forge::pandas=1.2.4=py38_0\n- pip\n\
            - scipy>=1\n- lxml=4|5\n- numpy >=1.18,<2.0\n- pip:\n  - scikit-learn==0.24.2\n  - azureml-defaults\n";
        assert_eq!(
            read(text, true),
            ["python 3.8.5", "pandas 1.2.4", "numpy <2.0", "scikit-learn 0.24.2"]
        );
        assert_eq!(
            read("dependencies: [python=3.8, {pip: [numpy==1.2]}]", true),
            ["python 3.8", "numpy 1.2"]
        );
        assert!(read("dependencies: 7", true).is_empty());
        assert_eq!(parse_requirements("a: [", true), None);
    }
}
