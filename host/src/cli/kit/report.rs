//! The result of the conformance kit, for people and for programs.

use super::checks::CheckSpec;
use super::plan::{CheckFailure, CheckVerdict};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

/// The result. The names of the fields are those of the JSON.
#[derive(Debug, Serialize)]
pub(in super::super) struct KitReport {
    version: u32,
    /// The path of the component or the script.
    path: PathBuf,
    checks: Vec<KitCheck>,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Whether nothing failed.
    good: bool,
}

#[derive(Debug, Serialize)]
struct KitCheck {
    name: &'static str,
    /// The items of the WIT that the check covers.
    #[serde(rename = "holds")]
    covers: &'static str,
    result: CheckOutcome,
    /// What was wrong, or why the check was skipped; null if it passed.
    words: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckOutcome {
    Passed,
    Failed,
    Skipped,
}

impl KitReport {
    pub(super) fn new(path: PathBuf) -> Self {
        let checks = Vec::new();
        Self { version: VERSION, path, checks, passed: 0, failed: 0, skipped: 0, good: true }
    }

    pub(super) fn add(&mut self, name: &'static str, covers: &'static str, verdict: CheckVerdict) {
        let (result, words) = match verdict {
            Ok(()) => (CheckOutcome::Passed, None),
            Err(CheckFailure::Failed(words)) => (CheckOutcome::Failed, Some(words)),
            Err(CheckFailure::Skipped(words)) => (CheckOutcome::Skipped, Some(words)),
        };
        match result {
            CheckOutcome::Passed => self.passed += 1,
            CheckOutcome::Failed => self.failed += 1,
            CheckOutcome::Skipped => self.skipped += 1,
        }
        self.good = self.failed == 0;
        self.checks.push(KitCheck { name, covers, result, words });
    }

    /// Notes that these checks were skipped, with the reason.
    pub(super) fn skip<'a>(&mut self, checks: impl IntoIterator<Item = &'a CheckSpec>, why: &str) {
        for check in checks {
            self.add(check.name, check.covers, Err(CheckFailure::Skipped(why.to_owned())));
        }
    }

    /// Whether nothing failed.
    pub(in super::super) fn is_good(&self) -> bool {
        self.good
    }

    /// The result for people, on several lines.
    pub(in super::super) fn text(&self) -> String {
        let mut text = String::new();
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        for KitCheck { name, covers, result, words } in &self.checks {
            let result = match result {
                CheckOutcome::Passed => "passed ",
                CheckOutcome::Failed => "FAILED ",
                CheckOutcome::Skipped => "skipped",
            };
            let _ = writeln!(text, "{result}  {name:width$}  {covers}");
            if let Some(words) = words {
                let _ = writeln!(text, "         {}", words.replace('\n', "\n         "));
            }
        }
        let Self { passed, failed, skipped, .. } = self;
        let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped");
        text
    }
}
