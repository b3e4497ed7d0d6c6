//! The languages of scripts, and the runtimes for Python scripts.

use std::path::Path;

/// The language of a script. A runtime (a component that contains the interpreter) loads the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptLanguage {
    /// `.py`.
    Python,
    /// JavaScript and TypeScript: `.js`, `.mjs`, `.cjs`, `.ts`, `.mts`.
    JavaScript,
}

impl ScriptLanguage {
    /// The language of a file, by its name. `None` if it is not a script.
    pub fn from_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "py" => Some(Self::Python),
            "js" | "mjs" | "cjs" | "ts" | "mts" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

/// The runtime for a Python script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PythonRuntime {
    /// The runtime that suits the job.
    #[default]
    Auto,
    /// CPython with its standard library.
    Light,
    /// CPython with numpy, pandas, scikit-learn and more.
    Science,
}

impl PythonRuntime {
    /// All runtimes.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Science];

    /// The name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Science => "science",
        }
    }
}

/// Splits a line of a requirements file into the name of the package and the rest of the line. The name is in
/// the normal form of PyPI: in lower case, with `-` between words.
pub fn package_name(line: &str) -> (String, &str) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let (name, rest) = line.split_at(line.find(|c| !is_name(c)).unwrap_or(line.len()));
    (name.to_ascii_lowercase().replace(['_', '.'], "-"), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_known_by_their_names() {
        for line in ["Rich", "rich==13.7", "rich[all] >= 1", "rich;python_version<'4'", "rich~=1"] {
            assert_eq!(package_name(line).0, "rich", "{line}");
        }
        assert_eq!(package_name("Zope.Interface_x").0, "zope-interface-x");
    }
}
