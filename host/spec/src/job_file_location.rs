//! Where a job file is. Relative paths in the file are resolved from there.

use super::error::{ErrorReport, FileError, SettingOrigin};
use super::fetched_script::FetchedScript;
use super::policy::{FolderUse, OperatorPolicy};
use super::settings_files::SettingsFiles;
use std::path::{Path, PathBuf};

/// The folder and the name of a job file, and the policy for the paths in it.
pub(super) struct JobFileLocation {
    /// The policy that limits which files may be read.
    pub(super) policy: OperatorPolicy,
    /// The file's folder. Absolute.
    pub(super) folder: PathBuf,
    /// The file's name without the extension.
    stem: String,
    /// The file as the user named it.
    shown: String,
    /// The other files that the job file refers to.
    pub(super) files: SettingsFiles,
    /// What was fetched from the job's store.
    pub(super) fetched: FetchedScript,
}

impl JobFileLocation {
    /// Finds the folder of the file.
    ///
    /// # Errors
    /// If the current folder is unknown, or the folder's path is not text.
    pub(super) fn find(file: &Path, policy: &OperatorPolicy) -> Result<Self, FileError> {
        let absolute = std::path::absolute(file).map_err(FileError::NoCurrentFolder)?;
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        if folder.to_str().is_none() {
            return Err(FileError::FolderNotUtf8);
        }
        let stem = absolute.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let policy = policy.clone();
        let shown = file.display().to_string();
        let stem = stem.unwrap_or_default();
        let files = SettingsFiles::here();
        let fetched = FetchedScript::default();
        Ok(Self { policy, folder, stem, shown, files, fetched })
    }

    /// The place of a job file that another machine has read.
    pub(super) fn given(self, files: SettingsFiles, fetched: FetchedScript) -> Self {
        Self { files, fetched, ..self }
    }

    /// Whether a settings file may be read. If not, adds an error to the report. As for [`OperatorPolicy::allows`].
    pub(super) fn allows(
        &self,
        folder_use: FolderUse,
        key: &str,
        file: &Path,
        origin: &SettingOrigin,
        report: &ErrorReport,
    ) -> bool {
        self.files.are_given() || self.policy.allows(folder_use, key, file, origin, report)
    }

    /// Where a setting was written, for messages: `job.yaml:12`.
    pub(super) fn file_and_line(&self, origin: &SettingOrigin) -> String {
        match origin {
            SettingOrigin::Line(line) => format!("{}:{line}", self.shown),
            SettingOrigin::In(file, line) => format!("{file}:{line}"),
            SettingOrigin::File => self.shown.clone(),
            SettingOrigin::Set(key) => format!("--set {key}"),
        }
    }

    /// Makes a path in the job file absolute.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        let joined = self.folder.join(path);
        // This removes `./` and the like. It fails only for an empty path, but the path is never empty
        // because it starts with the folder.
        std::path::absolute(&joined).unwrap_or(joined)
    }

    /// Makes a valid job name from the file's name.
    pub(super) fn job_name(&self) -> String {
        fit_name(&self.stem)
    }
}

/// Changes a text to a valid name.
pub(super) fn fit_name(text: &str) -> String {
    let fitted: String = text
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(64)
        .collect();
    if fitted.is_empty() { String::from("job") } else { fitted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names_are_made_to_fit() {
        let location = |file: &str| {
            JobFileLocation::find(Path::new(file), &OperatorPolicy::default()).expect("a location")
        };
        for (file, name) in [
            ("/a/digits.yaml", "digits"),
            ("/a/My Job (2).yaml", "my-job--2-"),
            ("/a/-_x.yaml", "x"),
            ("/a/\u{e4}\u{f6}.yaml", "job"),
            ("/a/b.c.yaml", "b-c"),
        ] {
            assert_eq!(location(file).job_name(), name);
        }
        let long = format!("/a/{}.yaml", "x".repeat(100));
        assert_eq!(location(&long).job_name().len(), 64);
    }
}
