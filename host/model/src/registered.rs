//! Registered datasets and models: inputs and models of jobs that have a name and versions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What can be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegisteredKind {
    /// Paths of an input.
    Dataset,
    /// An ONNX file, or a folder with an ONNX file.
    Model,
}

impl RegisteredKind {
    /// The word for this kind, in job files and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Dataset => "dataset",
            Self::Model => "model",
        }
    }
}

/// The rule for the names of datasets and models, for the end of a sentence that starts with "expected".
pub const REGISTERED_NAME_EXPECTED: &str = "1 to 64 letters of a-z and A-Z, digits, _, - and ., \
                                            starting with a letter or a digit (e.g. digits)";

/// Whether a text can be the name of a dataset or a model: see [`REGISTERED_NAME_EXPECTED`].
pub fn is_registered_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A registered name with a version: `NAME@3`. `NAME` or `NAME@latest` means the latest version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredName {
    /// The name.
    pub name: String,
    /// The version, from 1. `None` for the latest.
    pub version: Option<u64>,
}

/// Error: a text is not the name of a registered dataset or model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {0:?}; expected a registered name, optionally with a version: digits@3, digits or \
     digits@latest"
)]
pub struct ParseRegisteredNameError(String);

impl FromStr for RegisteredName {
    type Err = ParseRegisteredNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseRegisteredNameError(text.to_owned());
        let (name, version) = match text.trim().split_once('@') {
            None => (text.trim(), None),
            Some((name, "latest")) => (name, None),
            Some((name, version)) => (name, Some(parse_version(version).ok_or_else(wrong)?)),
        };
        if !is_registered_name(name) {
            return Err(wrong());
        }
        Ok(Self { name: name.to_owned(), version })
    }
}

/// Reads a version: only digits, whereas `parse` would also accept a sign. SQLite cannot store numbers above
/// `i64::MAX`.
fn parse_version(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && (1..=i64::MAX as u64).contains(&number)).then_some(number)
}

impl RegisteredName {
    /// Reads a name of Azure: `azureml:NAME:3`, `azureml:NAME@latest`. `None` if the text is not such a name,
    /// or if it cannot be the name of a dataset or a model here.
    pub fn of_azure(text: &str) -> Option<Self> {
        let named = text.trim().strip_prefix("azureml:")?;
        match named.rsplit_once(':') {
            Some((name, version)) => format!("{name}@{version}").parse().ok(),
            // Azure requires a version or a label, so a name alone is a mistake.
            None if named.contains('@') => named.parse().ok(),
            None => None,
        }
    }
}

impl fmt::Display for RegisteredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => write!(f, "{}@latest", self.name),
        }
    }
}

/// One version of a registered dataset or model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// The version, from 1. If versions were removed, their numbers are not used again.
    pub version: u64,
    /// Absolute paths on this machine, or paths in the datastore. A model has one path.
    pub paths: Vec<String>,
    /// The datastore of the paths, if they are not on this machine.
    pub datastore: Option<String>,
    /// For a model: the SHA-256 of its ONNX file, in hexadecimal.
    pub digest: Option<String>,
    /// For a model that is a folder: the SHA-256 over all its contents.
    pub folder_digest: Option<String>,
    /// A description for users.
    pub description: Option<String>,
    /// When it was registered.
    pub registered: Timestamp,
    /// Who registered it: the name or the ID of a user.
    pub by: String,
    /// A summary of the files when they were registered. `None` for files in a datastore.
    pub held: Option<RegisteredContent>,
}

impl Registered {
    /// Returns `NAME@VERSION`.
    pub fn title(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// A summary of files when they were registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredContent {
    /// The number of files.
    pub files: u64,
    /// The total of their bytes.
    pub bytes: u64,
    /// The time of the latest change. `None` if there are no files.
    pub newest: Option<Timestamp>,
}

/// The version that was the latest when a job began. If the job is resumed, it uses the same version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest {
    /// Whether it is a dataset or a model.
    pub kind: RegisteredKind,
    /// Its name.
    pub name: String,
    /// The version.
    pub version: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_read() {
        let name = |text: &str| text.parse::<RegisteredName>();
        for (text, shown) in [
            ("digits", "digits@latest"),
            (" Res.Net_18-x@latest ", "Res.Net_18-x@latest"),
            ("a@3", "a@3"),
            ("a@007", "a@7"),
        ] {
            assert_eq!(name(text).unwrap().to_string(), shown);
        }
        let long = "x".repeat(65);
        for text in [
            "",
            "@3",
            "a@",
            "a@0",
            "a@+1",
            "a@-1",
            "a@1.0",
            "a@9223372036854775808",
            "a b",
            "../a",
            &long,
        ] {
            assert!(name(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(name("a@Latest").unwrap_err(), @r#"found "a@Latest"; expected a registered name, optionally with a version: digits@3, digits or digits@latest"#);
    }

    #[test]
    fn azures_names_are_read() {
        let name = |text: &str| RegisteredName::of_azure(text).map(|name| name.to_string());
        assert_eq!(name("azureml:images:3").as_deref(), Some("images@3"));
        assert_eq!(name("azureml:images@latest").as_deref(), Some("images@latest"));
        for other in [
            "images:3",
            "azureml:images",
            "azureml:images:2024-01-01",
            "azureml://datastores/a/paths/b",
            "azureml://registries/r/data/images/versions/3",
            "azureml:a:b:3",
        ] {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
