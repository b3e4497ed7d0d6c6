//! Reads the file `parallel_run_step.settings.json` beside the entry script. This file says how
//! tables are written (docs/parallel-run-step.md A11).

use super::error::{ErrorReport, KeywordError, SettingOrigin};
use super::raw;
use super::settings_files::SettingsFiles;
use crate::model::Quoting;
use serde_json::{Map, Value};
use std::io;
use std::path::Path;

/// The name of the settings file.
pub(super) const FILE_NAME: &str = "parallel_run_step.settings.json";
/// The maximum size of a settings file, which has a few lines.
const MAX_BYTES: u64 = 64 << 10;

/// The contents of a settings file.
#[derive(Debug, Default)]
pub(super) struct TableSettings {
    /// The file's path, for messages.
    pub(super) file: String,
    pub(super) delimiter: Option<u8>,
    pub(super) header: Option<bool>,
    pub(super) index: Option<bool>,
    pub(super) null_value: Option<String>,
    pub(super) quoting: Option<Quoting>,
}

/// Reads the settings file in the folder, if the file exists. Adds a notice that the file is used.
pub(super) fn read(
    folder: &Path,
    files: &SettingsFiles,
    report: &ErrorReport,
) -> Option<TableSettings> {
    let path = folder.join(FILE_NAME);
    let file = path.display().to_string();
    let report_error =
        |message: String| report.error(&SettingOrigin::File, "", format!("{file}: {message}"));
    let bytes = match files.read(&path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        // `folder` is not a folder. The check of the entry script reports that.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return None,
        Err(error) => {
            report_error(format!("cannot be read: {error}"));
            return None;
        }
    };
    if bytes.len() as u64 > MAX_BYTES {
        report_error(String::from("is larger than 64 KB, which no settings file needs"));
        return None;
    }
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(root) => {
            let mut settings = TableSettings { file: file.clone(), ..TableSettings::default() };
            let mut used = Vec::new();
            for problem in settings.fill(&root, &mut used) {
                report_error(problem);
            }
            report.notice(match used.as_slice() {
                [] => format!("{file} does not say how rows are written"),
                used => format!("{file} is used: {}", used.join(", ")),
            });
            Some(settings)
        }
        Err(error) => {
            report_error(format!("not valid JSON: {error}"));
            None
        }
    }
}

impl TableSettings {
    /// Sets the keywords that are known, and returns all errors. Appends to `used` each keyword
    /// that was set.
    fn fill(&mut self, root: &Value, used: &mut Vec<String>) -> Vec<String> {
        let mut problems = Vec::new();
        let Some(root) = object(root, "the file", &mut problems) else { return problems };
        for (name, value) in root {
            if name != "append_row" {
                problems.push(format!("found {name:?}; only append_row is supported; remove it"));
                continue;
            }
            let Some(groups) = object(value, "append_row", &mut problems) else { continue };
            for (name, value) in groups {
                if name != "pandas.DataFrame.to_csv" {
                    problems.push(format!(
                        "append_row: found {name:?}; only pandas.DataFrame.to_csv is supported; \
                         remove it"
                    ));
                    continue;
                }
                let Some(keywords) = object(value, name, &mut problems) else { continue };
                for (keyword, value) in keywords {
                    match self.set(keyword, value) {
                        Ok(()) => used.push(format!("{keyword} {value}")),
                        Err(problem) => problems.push(format!("{name}: {problem}")),
                    }
                }
            }
        }
        problems
    }

    fn set(&mut self, keyword: &str, value: &Value) -> Result<(), KeywordError> {
        let expected = |expected| {
            let keyword = keyword.to_owned();
            let found = value.to_string();
            KeywordError::Value { keyword, found, expected }
        };
        match keyword {
            "sep" => {
                let delimiter = value.as_str().and_then(raw::delimiter);
                let form = "one ASCII character, such as \",\" or \" \"";
                self.delimiter = Some(delimiter.ok_or_else(|| expected(form))?);
            }
            "header" => {
                self.header = Some(value.as_bool().ok_or_else(|| expected("true or false"))?);
            }
            "index" => {
                self.index = Some(value.as_bool().ok_or_else(|| expected("true or false"))?);
            }
            "na_rep" => {
                let text = value.as_str().filter(|text| !text.contains(['\n', '\r', '\0']));
                let text = text.ok_or_else(|| expected("a text without line ends"))?;
                self.null_value = Some(text.to_owned());
            }
            "quoting" => {
                self.quoting = Some(match value.as_u64() {
                    Some(0) => Quoting::Minimal,
                    Some(1) => Quoting::All,
                    Some(2) => Quoting::Nonnumeric,
                    Some(3) => Quoting::None,
                    _ => {
                        let form = "0 (minimal), 1 (all), 2 (nonnumeric) or 3 (none)";
                        return Err(expected(form));
                    }
                });
            }
            _ => {
                return Err(KeywordError::Unknown { keyword: keyword.to_owned() });
            }
        }
        Ok(())
    }
}

fn object<'v>(
    value: &'v Value,
    name: &str,
    problems: &mut Vec<String>,
) -> Option<&'v Map<String, Value>> {
    let object = value.as_object();
    if object.is_none() {
        problems.push(format!(
            "{name}: expected {{\"append_row\": {{\"pandas.DataFrame.to_csv\": {{\"sep\": \",\"}}}}}}"
        ));
    }
    object
}
