//! Settings that are seconds.

use super::defaults::Defaults;
use super::error::Report;
use super::raw::RawJob;
use std::time::Duration;

/// How long things may take.
pub(super) struct Times {
    pub(super) run: Duration,
    pub(super) load: Duration,
    pub(super) progress: Duration,
    pub(super) first_task: Duration,
    /// Between two looks at the machine; none for never.
    pub(super) monitor: Option<Duration>,
}

/// No job waits longer, whatever its settings multiply to: about thirty years.
const LONGEST: f64 = 1e9;

/// The longest that nothing may move unless the job file says it (prs-semantics 1.12): time for every
/// attempt at one mini-batch.
pub fn default_progress_timeout(attempts: u32, load: Duration, run: Duration) -> Duration {
    let seconds = f64::from(attempts) * (load + run).as_secs_f64() + 60.0;
    Duration::from_secs_f64(seconds.clamp(600.0, LONGEST))
}

/// The time-outs and the monitor's interval, for a job with so many attempts.
pub(super) fn check(
    raw: &RawJob,
    attempts: u32,
    defaults: &Defaults<'_>,
    report: &Report,
) -> Times {
    let run =
        defaults.told_seconds("run_invocation_timeout", raw, |raw| &raw.run_invocation_timeout);
    let load =
        defaults.told_seconds("task_overhead_timeout", raw, |raw| &raw.task_overhead_timeout);
    let first_task = defaults
        .told_seconds("first_task_creation_timeout", raw, |raw| &raw.first_task_creation_timeout);
    let progress = match &raw.progress_update_timeout {
        Some(given) => given.value,
        None => {
            let default = default_progress_timeout(attempts, load, run);
            let words = format!(
                "{} seconds, from run_max_try x (task_overhead_timeout + run_invocation_timeout) \
                 + 60 = {attempts} x ({} + {}) + 60, and at least 600",
                default.as_secs_f64(),
                load.as_secs_f64(),
                run.as_secs_f64(),
            );
            defaults.mention_as("progress_update_timeout", &words);
            default
        }
    };
    if progress < run {
        report.notice(format!(
            "progress_update_timeout ({} seconds) is below run_invocation_timeout ({} seconds): one \
             slow call of run can end the job",
            progress.as_secs_f64(),
            run.as_secs_f64(),
        ));
    }
    let monitor = defaults.of(raw, |raw| &raw.resource_monitor_interval);
    Times { run, load, progress, first_task, monitor }
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
