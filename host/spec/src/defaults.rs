//! The defaults of settings that a file leaves out, and the messages about those defaults.

use super::dialect::JobFileDialect;
use super::error::ErrorReport;
use super::keys::{self, Key, KeyKind};
use super::raw::{self, RawJob};
use super::scope::Located;
use super::tree;
use crate::model::ErrorThreshold;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

/// Returns a job file (YAML) with the defaults of these keys and of the keys below them.
pub(super) fn default_job(keys: &[Key], indent: &str) -> String {
    let mut text = String::new();
    for key in keys {
        if let KeyKind::Group(inner_keys) = key.kind {
            let inner = default_job(inner_keys, &format!("{indent}  "));
            if !inner.is_empty() {
                text.push_str(&format!("{indent}{}:\n{inner}", key.name));
            }
        } else if let Some(default) = key.default {
            text.push_str(&format!("{indent}{}: {default}\n", key.name));
        }
    }
    text
}

/// Reads the defaults from the table of keys, and applies the dialect's own defaults.
fn defaults(dialect: JobFileDialect) -> RawJob {
    let discarded = ErrorReport::default();
    let text = default_job(keys::JOB, "");
    let defaults = tree::parse(&text, &discarded).map(|root| raw::read(root, &discarded));
    let mut raw = defaults.flatten().unwrap_or_default();
    let set_true = |setting: &mut Located<bool>| setting.value = true;
    if dialect.is_azure() {
        raw.settings.pass_settings.iter_mut().for_each(set_true);
    }
    if dialect == JobFileDialect::Version2 {
        raw.settings
            .error_threshold
            .iter_mut()
            .for_each(|setting| setting.value = ErrorThreshold::Ignore);
    }
    raw
}

/// The defaults of the table of keys. For an Azure file, also reports which defaults were used.
pub(super) struct Defaults<'r> {
    pub(super) raw: &'static RawJob,
    pub(super) dialect: JobFileDialect,
    report: &'r ErrorReport,
}

impl<'r> Defaults<'r> {
    pub(super) fn new(dialect: JobFileDialect, report: &'r ErrorReport) -> Self {
        // The default job file is longer than most job files, so it is parsed only once.
        static OWN: LazyLock<RawJob> = LazyLock::new(|| defaults(JobFileDialect::Own));
        static SAVED: LazyLock<RawJob> = LazyLock::new(|| defaults(JobFileDialect::Saved));
        static VERSION_2: LazyLock<RawJob> = LazyLock::new(|| defaults(JobFileDialect::Version2));
        let raw = match dialect {
            JobFileDialect::Own => &OWN,
            JobFileDialect::Saved => &SAVED,
            JobFileDialect::Version2 | JobFileDialect::Deployment => &VERSION_2,
        };
        Self { raw, dialect, report }
    }

    /// Returns the job file's value, or else the default.
    pub(super) fn value_or_default<T: Clone>(
        &self,
        raw: &RawJob,
        field: impl Fn(&RawJob) -> &Option<Located<T>>,
    ) -> T {
        let setting = field(raw).as_ref().or(field(self.raw).as_ref());
        setting.expect("a test checks that the default of every key can be read").value.clone()
    }

    /// For an Azure file that leaves a setting out, reports the value that is used.
    pub(super) fn note<T>(&self, name: &str, given: &Option<Located<T>>, value: impl fmt::Display) {
        if given.is_none() {
            self.mention(name, &value.to_string());
        }
    }

    /// Like [`note`](Self::note), for a time in seconds.
    pub(super) fn note_seconds<T>(&self, name: &str, given: &Option<Located<T>>, value: Duration) {
        self.note(name, given, format_args!("{} seconds", value.as_secs_f64()));
    }

    /// For an Azure file, reports that it leaves a setting out, which value is used, and where the value is
    /// from.
    pub(super) fn mention(&self, name: &str, value: &str) {
        let version_2 = self.dialect.is_version_2();
        let source = match name {
            "mini_batch_size" if version_2 => "as in version 1; Azure's pages say 10 or 1",
            "process_count_per_node" if version_2 => "Azure's pages say this, or 1",
            "error_threshold" | "output_action" if version_2 => "as in Azure",
            "error_threshold" => {
                "Azure has no default for it; Sandmill ignores failures only if asked to"
            }
            "output_action" => "Azure has no default for it",
            "task_overhead_timeout" => "Azure's pages say 30 or 600",
            _ => "as in Azure",
        };
        self.mention_as(name, &format!("{value} ({source})"));
    }

    /// Like [`mention`](Self::mention), but `value` is the complete text after the colon.
    pub(super) fn mention_as(&self, name: &str, value: &str) {
        let file = match self.dialect {
            JobFileDialect::Own => return,
            JobFileDialect::Saved => "the saved file",
            JobFileDialect::Version2 | JobFileDialect::Deployment => "the file",
        };
        if !self.report.has_error_at(name) {
            let name = self.report.name_in_file(name);
            self.report.conversion(format!("{name} is not in {file}: {value}"));
        }
    }
}
