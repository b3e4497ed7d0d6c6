//! Checks the time-outs of a job.

use super::defaults::Defaults;
use super::error::ErrorReport;
use super::raw::RawJob;
use crate::model::JobSettings;
use std::time::Duration;

/// The maximum of the computed time-out: about thirty years.
const MAX_SECONDS: f64 = 1e9;

/// The default for the longest time without progress (docs/parallel-run-step.md, Where the sources disagree).
/// It leaves time for every attempt at one mini-batch.
pub fn default_progress_timeout(attempts: u32, load: Duration, run: Duration) -> Duration {
    let seconds = f64::from(attempts) * (load + run).as_secs_f64() + 60.0;
    Duration::from_secs_f64(seconds.clamp(600.0, MAX_SECONDS))
}

/// Returns the longest time without progress. Also reports the time-outs in force.
pub(super) fn check(
    raw: &RawJob,
    settings: &JobSettings,
    defaults: &Defaults<'_>,
    report: &ErrorReport,
) -> Duration {
    let attempts = settings.run_max_try;
    let run = settings.run_invocation_timeout;
    let load = settings.task_overhead_timeout;
    let given = &raw.settings;
    defaults.note_seconds("run_invocation_timeout", &given.run_invocation_timeout, run);
    defaults.note_seconds("task_overhead_timeout", &given.task_overhead_timeout, load);
    let first_task = settings.first_task_creation_timeout;
    defaults.note_seconds(
        "first_task_creation_timeout",
        &given.first_task_creation_timeout,
        first_task,
    );
    let progress = match &raw.progress_update_timeout {
        Some(given) => given.value,
        None => {
            let default = default_progress_timeout(attempts, load, run);
            let run_timeout = report.name_in_file("run_invocation_timeout");
            let text = format!(
                "{} seconds, from attempts x (task_overhead_timeout + {run_timeout}) + 60 = {attempts} x ({} + \
                 {}) + 60, and at least 600",
                default.as_secs_f64(),
                load.as_secs_f64(),
                run.as_secs_f64(),
            );
            defaults.mention_as("progress_update_timeout", &text);
            default
        }
    };
    if progress < run {
        report.notice(format!(
            "progress_update_timeout ({} seconds) is below {} ({} seconds): one slow call of run can end the job",
            progress.as_secs_f64(),
            report.name_in_file("run_invocation_timeout"),
            run.as_secs_f64(),
        ));
    }
    progress
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A2, 1.12: max(600, attempts x (load + run) + 60).
    #[test]
    fn the_progress_time_out_gives_every_attempt_its_time() {
        let seconds = Duration::from_secs;
        assert_eq!(default_progress_timeout(3, seconds(600), seconds(60)), seconds(2040));
        assert_eq!(default_progress_timeout(1, seconds(1), seconds(1)), seconds(600));
        assert_eq!(
            default_progress_timeout(u32::MAX, seconds(259_200), seconds(259_200)),
            seconds(1_000_000_000)
        );
    }
}
