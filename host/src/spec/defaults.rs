//! What holds where a file says nothing, and what is said of it.

use super::error::Report;
use super::load::DEFAULT_JOB;
use super::raw::{self, RawJob};
use super::scope::At;
use super::tree;
use crate::model::ErrorThreshold;
use std::time::Duration;

/// Whose form a job file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Ours.
    Own,
    /// A `parallel_run_config` as version 1 of Azure's SDK saves it.
    Saved,
    /// A parallel job of version 2, alone or in a pipeline.
    Version2,
}

impl Dialect {
    /// Whether the file was made for Azure.
    pub(super) fn is_azure(self) -> bool {
        self != Self::Own
    }
}

/// The defaults of `default-job.yaml`. For a file of Azure's, says which of them were taken.
pub(super) struct Defaults<'r> {
    raw: RawJob,
    pub(super) dialect: Dialect,
    report: &'r Report,
}

impl<'r> Defaults<'r> {
    pub(super) fn new(dialect: Dialect, report: &'r Report) -> Self {
        let silent = Report::default();
        let defaults = tree::parse(DEFAULT_JOB, &silent).map(|root| raw::read(root, &silent));
        let mut raw = defaults.flatten().unwrap_or_default();
        let azure = |at: &mut At<bool>| at.value = true;
        if dialect.is_azure() {
            raw.pass_settings.iter_mut().for_each(azure);
        }
        if dialect == Dialect::Version2 {
            raw.error_threshold.iter_mut().for_each(|at| at.value = ErrorThreshold::Ignore);
        }
        Self { raw, dialect, report }
    }

    /// The given value or the default. `name` is empty for what Azure does not know.
    pub(super) fn or<T: std::fmt::Display>(
        &self,
        name: &str,
        given: Option<At<T>>,
        default: impl FnOnce(&RawJob) -> Option<At<T>>,
    ) -> T {
        self.or_shown(name, given, default, ToString::to_string)
    }

    /// The same for seconds.
    pub(super) fn or_seconds(
        &self,
        name: &str,
        given: Option<At<Duration>>,
        default: impl FnOnce(&RawJob) -> Option<At<Duration>>,
    ) -> Duration {
        self.or_shown(name, given, default, |time| format!("{} seconds", time.as_secs_f64()))
    }

    /// The same for what does not print itself.
    pub(super) fn or_shown<T>(
        &self,
        name: &str,
        given: Option<At<T>>,
        default: impl FnOnce(&RawJob) -> Option<At<T>>,
        show: impl FnOnce(&T) -> String,
    ) -> T {
        if let Some(given) = given {
            return given.value;
        }
        let value = default(&self.raw)
            .expect("default-job.yaml gives every key that has a default, as a test holds")
            .value;
        self.mention(name, &show(&value));
        value
    }

    /// Says of a file of Azure's that it leaves a setting out.
    pub(super) fn mention(&self, name: &str, value: &str) {
        let version_2 = self.dialect == Dialect::Version2;
        let whose = match name {
            "mini_batch_size" if version_2 => "as in version 1; Azure's pages say 10 or 1",
            "process_count_per_node" if version_2 => "Azure's pages say that, or 1",
            "error_threshold" | "output_action" if version_2 => "as in Azure",
            "error_threshold" => "Azure has no default for it, and no failure is ignored unasked",
            "output_action" => "Azure has no default for it",
            "task_overhead_timeout" => "Azure's pages say 30 or 600",
            _ => "as in Azure",
        };
        self.mention_as(name, &format!("{value} ({whose})"));
    }

    /// The same, with words of the caller's.
    pub(super) fn mention_as(&self, name: &str, value: &str) {
        let file = match self.dialect {
            Dialect::Own => return,
            Dialect::Saved => "the saved file",
            Dialect::Version2 => "the file",
        };
        if !name.is_empty() && !self.report.blames(name) {
            self.report.notice(format!("{name} is not in {file}: {value}"));
        }
    }
}
