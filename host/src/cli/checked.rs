//! The result of `sandmill check`, for people and for programs.

use crate::compile::{AcceptedKind, ComponentNames, ImportVerdict, judge_import};
use crate::model::ScriptLanguage;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

/// The result. The names of the fields are those of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct CheckedScript {
    version: u32,
    kind: FileKind,
    /// The path of the component or the script.
    pub(super) path: PathBuf,
    /// The size of the component.
    pub(super) bytes: Option<u64>,
    /// The hash of the component, in hex.
    pub(super) sha256: Option<String>,
    /// For a script: the runtime that runs it; null if no runtime can.
    pub(super) runtime: Option<String>,
    /// The kind of input that the entry script takes; null if it does not say.
    pub(super) takes: Option<AcceptedKind>,
    /// The exports, in the order of the file.
    exports: Vec<String>,
    /// The imports, in the order of the file.
    imports: Vec<CheckedImport>,
    /// The functions that the host can call; empty if the contract is not kept.
    pub(super) functions: Vec<String>,
    /// Hints, which are not problems.
    pub(super) notes: Vec<String>,
    /// Why the file cannot be used as an entry script.
    pub(super) problems: Vec<String>,
    /// The outcome of the run; null if the entry script was not run.
    pub(super) run: Option<RunOutcome>,
    /// Whether there are no problems and, if the entry script was run, nothing failed.
    good: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileKind {
    Component,
    PythonScript,
    #[serde(rename = "javascript")]
    JavaScript,
}

impl FileKind {
    /// The kind of a script.
    pub(super) fn from_script(path: &Path) -> Self {
        match ScriptLanguage::from_path(path) {
            Some(ScriptLanguage::JavaScript) => Self::JavaScript,
            _ => Self::PythonScript,
        }
    }
}

#[derive(Debug, Serialize)]
struct CheckedImport {
    name: String,
    /// What the import gives access to; null if it is refused.
    gives: Option<&'static str>,
    /// Why the import is refused; null if it is allowed.
    refused: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct RunOutcome {
    /// Whether nothing failed.
    pub(super) good: bool,
    /// What was returned, or what failed, in words.
    pub(super) reported: String,
    #[serde(flatten)]
    pub(super) written: CapturedOutput,
}

/// What the entry script printed and logged.
#[derive(Debug, Serialize)]
pub(super) struct CapturedOutput {
    /// The start of the standard output.
    pub(super) stdout: String,
    /// The start of the standard error.
    pub(super) stderr: String,
    /// The start of the log.
    pub(super) log: String,
}

impl CheckedScript {
    pub(super) fn new(kind: FileKind, path: PathBuf) -> Self {
        Self {
            version: VERSION,
            kind,
            path,
            bytes: None,
            sha256: None,
            runtime: None,
            takes: None,
            exports: Vec::new(),
            imports: Vec::new(),
            functions: Vec::new(),
            notes: Vec::new(),
            problems: Vec::new(),
            run: None,
            good: true,
        }
    }

    /// Notes what a component exports and imports. A refused import is a problem.
    pub(super) fn describe(&mut self, names: &ComponentNames) {
        self.exports.clone_from(&names.exports);
        for name in &names.imports {
            let (gives, refused) = match judge_import(name) {
                ImportVerdict::Granted(what) => (Some(what), None),
                ImportVerdict::Refused(why) => (None, Some(why)),
            };
            self.problems.extend(refused.as_ref().map(|why| format!("it imports {name}: {why}")));
            self.imports.push(CheckedImport { name: name.clone(), gives, refused });
        }
    }

    pub(super) fn has_refused_imports(&self) -> bool {
        self.imports.iter().any(|import| import.refused.is_some())
    }

    /// The result with its final verdict (`good`).
    pub(super) fn with_verdict(mut self) -> Self {
        self.good = self.problems.is_empty() && self.run.as_ref().is_none_or(|run| run.good);
        self
    }

    /// Whether there are no problems and, if the entry script was run, nothing failed.
    pub(super) fn is_good(&self) -> bool {
        self.good
    }

    /// The result for people, on several lines.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let path = self.path.display();
        if self.kind != FileKind::Component {
            let runtime = self.runtime.as_ref().map(|name| format!(", for the {name} runtime"));
            let _ = writeln!(text, "{path}{}", runtime.unwrap_or_default());
            self.notes.iter().for_each(|note| {
                let _ = writeln!(text, "note: {note}");
            });
            self.problems.iter().for_each(|why| {
                let _ = writeln!(text, "{why}");
            });
            text.push_str(match self.problems.is_empty() {
                true => "It can be run: all modules that it imports are available.\n",
                false => "It cannot be run.\n",
            });
        } else {
            if let Some(bytes) = self.bytes {
                let _ = writeln!(text, "{path}, {bytes} bytes");
            }
            if let Some(digest) = &self.sha256 {
                let _ = writeln!(text, "sha256:{digest}");
            }
            if let Some(takes) = self.takes {
                let _ = writeln!(text, "Takes: {takes}");
            }
            self.write_names(&mut text);
            if !self.functions.is_empty() {
                let _ = writeln!(text, "Functions: {}", self.functions.join(", "));
            }
            self.write_verdict(&mut text);
        }
        if let Some(run) = &self.run {
            let _ = write!(text, "{}{}", run.reported, run.written);
        }
        text
    }

    fn write_verdict(&self, text: &mut String) {
        if self.problems.is_empty() {
            text.push_str("It keeps the contract.\n");
        } else if self.has_refused_imports() {
            // The reasons are in the list of imports above.
            text.push_str("It does not keep the contract: it has refused imports.\n");
        } else {
            let _ = writeln!(text, "It does not keep the contract:\n{}", self.problems.join("\n"));
        }
    }

    /// The exports, and the imports grouped by what they give access to.
    fn write_names(&self, text: &mut String) {
        text.push_str("Exports:\n");
        for export in &self.exports {
            let _ = writeln!(text, "  {export}");
        }
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for CheckedImport { name, gives, refused } in &self.imports {
            let refused = refused.as_deref().unwrap_or_default();
            let what = gives.map_or_else(|| format!("REFUSED: {refused}"), str::to_owned);
            match groups.iter_mut().find(|(group, _)| *group == what) {
                Some((_, imports)) => imports.push(name),
                None => groups.push((what, vec![name])),
            }
        }
        text.push_str("Imports, and what they give it:\n");
        for (what, imports) in groups {
            let _ = writeln!(text, "  {what}\n    {}", imports.join("\n    "));
        }
    }
}

impl fmt::Display for CapturedOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stdout, stderr, log } = self;
        for (name, written) in [("stdout", stdout), ("stderr", stderr), ("log", log)] {
            if !written.is_empty() {
                writeln!(f, "{name}:\n  {}", written.replace('\n', "\n  "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{read_names, testing};

    fn checked() -> CheckedScript {
        let component = testing::component(
            "run-only",
            r#"(import "sandmill:entry/host@0.2.0" "read" (func (param i32 i32 i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
            RUN (i32.const 0))"#,
        );
        let mut names = read_names(&component).expect("reads");
        names.imports.push("wasi:nn/graph@0.2.0-rc-2024-10-28".into());
        names.imports.push("wasi:nn/graph@0.2.0-rc-2024-08-19".into());
        let mut checked = CheckedScript::new(FileKind::Component, "x.wasm".into());
        checked.describe(&names);
        checked.with_verdict()
    }

    #[cfg(feature = "inference")]
    #[test]
    fn imports_are_grouped_by_what_they_give() {
        insta::assert_snapshot!(checked().text(), @"
        Exports:
          sandmill:entry/entry-run@0.2.0
        Imports, and what they give it:
          the worker's name and folders, the log, and reading whole files
            sandmill:entry/host@0.2.0
          types only
            sandmill:entry/types@0.2.0
          ending itself
            wasi:cli/exit@0.2.12
          reading and writing what the other imports give
            wasi:io/error@0.2.12
            wasi:io/streams@0.2.12
          writing to its log files
            wasi:cli/stderr@0.2.12
          running the job's models
            wasi:nn/graph@0.2.0-rc-2024-10-28
          REFUSED: it is wasi:nn 0.2.0-rc-2024-08-19, and this Sandmill grants only wasi:nn 0.2.0-rc-2024-10-28, as versions of this draft are incompatible: build with bindings of that version, which is in the contract's wit/ folder
            wasi:nn/graph@0.2.0-rc-2024-08-19
        It does not keep the contract: it has refused imports.
        ");
    }

    #[test]
    fn the_json_has_the_same_facts() {
        let mut checked = checked();
        checked.imports.truncate(2);
        checked.problems = vec!["it exports no `run`".to_owned()];
        checked.run = Some(RunOutcome {
            good: false,
            reported: "run failed: no\n".to_owned(),
            written: CapturedOutput {
                stdout: String::new(),
                stderr: "two\nlines".to_owned(),
                log: String::new(),
            },
        });
        insta::assert_snapshot!(serde_json::to_string_pretty(&checked).unwrap(), @r#"
        {
          "version": 1,
          "kind": "component",
          "path": "x.wasm",
          "bytes": null,
          "sha256": null,
          "runtime": null,
          "takes": null,
          "exports": [
            "sandmill:entry/entry-run@0.2.0"
          ],
          "imports": [
            {
              "name": "sandmill:entry/host@0.2.0",
              "gives": "the worker's name and folders, the log, and reading whole files",
              "refused": null
            },
            {
              "name": "sandmill:entry/types@0.2.0",
              "gives": "types only",
              "refused": null
            }
          ],
          "functions": [],
          "notes": [],
          "problems": [
            "it exports no `run`"
          ],
          "run": {
            "good": false,
            "reported": "run failed: no\n",
            "stdout": "",
            "stderr": "two\nlines",
            "log": ""
          },
          "good": false
        }
        "#);
    }
}
