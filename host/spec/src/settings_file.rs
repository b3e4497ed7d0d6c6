//! `parallel_run_step.settings.json` beside the entry script, which says how tables are written
//! (docs/parallel-run-step.md A11).

use super::error::{ErrorReport, KeywordError, SettingOrigin};
use super::{raw, small_file};
use crate::model::Quoting;
use serde_json::{Map, Value};
use std::io;
use std::path::Path;

pub(super) const NAME: &str = "parallel_run_step.settings.json";
/// The maximum size. Such a file has a few lines.
const MAX_BYTES: u64 = 64 << 10;

/// The contents of such a file.
#[derive(Debug, Default)]
pub(super) struct TableSettings {
    /// Its path, for messages.
    pub(super) file: String,
    pub(super) delimiter: Option<u8>,
    pub(super) header: Option<bool>,
    pub(super) index: Option<bool>,
    pub(super) null_value: Option<String>,
    pub(super) quoting: Option<Quoting>,
}

/// Reads the file in the folder, if it exists. Reports that it is used.
pub(super) fn read(folder: &Path, report: &ErrorReport) -> Option<TableSettings> {
    let path = folder.join(NAME);
    let file = path.display().to_string();
    let fail =
        |message: String| report.error(&SettingOrigin::File, "", format!("{file}: {message}"));
    let bytes = match small_file::read(&path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        // The folder is not a folder. The check of the entry script reports that.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return None,
        Err(error) => {
            fail(format!("cannot be read: {error}"));
            return None;
        }
    };
    if bytes.len() as u64 > MAX_BYTES {
        fail(String::from("is larger than 64 KB, which no such file needs"));
        return None;
    }
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(root) => {
            let mut settings = TableSettings { file: file.clone(), ..TableSettings::default() };
            let mut used = Vec::new();
            for problem in settings.fill(&root, &mut used) {
                fail(problem);
            }
            report.notice(match used.as_slice() {
                [] => format!("{file} does not say how rows are written"),
                used => format!("{file} is used: {}", used.join(", ")),
            });
            Some(settings)
        }
        Err(error) => {
            fail(format!("not valid JSON: {error}"));
            None
        }
    }
}

impl TableSettings {
    /// Sets the known keys, and returns all errors.
    fn fill(&mut self, root: &Value, used: &mut Vec<String>) -> Vec<String> {
        let mut problems = Vec::new();
        let Some(root) = object(root, "the file", &mut problems) else { return problems };
        for (name, value) in root {
            if name != "append_row" {
                problems.push(format!("found {name:?}; only append_row is supported, remove it"));
                continue;
            }
            let Some(groups) = object(value, "append_row", &mut problems) else { continue };
            for (name, value) in groups {
                if name != "pandas.DataFrame.to_csv" {
                    problems.push(format!(
                        "append_row: found {name:?}; only pandas.DataFrame.to_csv is supported, \
                         remove it"
                    ));
                    continue;
                }
                let Some(keywords) = object(value, name, &mut problems) else { continue };
                for (keyword, value) in keywords {
                    match self.take(keyword, value) {
                        Ok(()) => used.push(format!("{keyword} {value}")),
                        Err(problem) => problems.push(format!("{name}: {problem}")),
                    }
                }
            }
        }
        problems
    }

    fn take(&mut self, keyword: &str, value: &Value) -> Result<(), KeywordError> {
        let expected = |expected| {
            let keyword = keyword.to_owned();
            let found = value.to_string();
            KeywordError::Value { keyword, found, expected }
        };
        match keyword {
            "sep" => {
                let delimiter = value.as_str().and_then(raw::delimiter);
                let what = "one ASCII character, as \",\" or \" \"";
                self.delimiter = Some(delimiter.ok_or_else(|| expected(what))?);
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
                        let what = "0 (minimal), 1 (all), 2 (nonnumeric) or 3 (none)";
                        return Err(expected(what));
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
