//! The settings that the state machine enforces, and the notices about them at the job's start.

use super::machine::RetryPolicy;
use crate::spec::{JobSpec, default_progress_timeout};
use std::fmt::Write as _;
use std::time::Duration;

/// The policy of the job's state machine. `gpus` is empty, because only the node knows its GPUs. `node_count`: see
/// [`RetryPolicy::node_count`].
pub(super) fn policy(spec: &JobSpec, node_count: Option<u32>) -> RetryPolicy {
    RetryPolicy {
        workers: spec.process_count,
        node_count,
        max_try: spec.settings.run_max_try,
        error_threshold: spec.settings.error_threshold,
        run_timeout: spec.settings.run_invocation_timeout,
        load_timeout: spec.settings.task_overhead_timeout,
        allowed_failed_count: spec.settings.allowed_failed_count,
        allowed_failed_percent: spec.settings.allowed_failed_percent,
        first_task_timeout: spec.settings.first_task_creation_timeout,
        progress_timeout: spec.progress_update_timeout,
        gpus: Vec::new(),
        output_action: spec.worker.output_action,
        limits: spec.job_limits.clone(),
    }
}

/// The notice for a job whose leader runs as root.
pub const RUNS_AS_ROOT: &str = "runs as root: a job's processes may read every file that their wall does \
    not hide, and code that breaks the wall could do anything; run untrusted jobs as a user without \
    privileges";

/// The notices about what is in force for a job. Leaves out a notice that `notices` already contains.
pub(super) fn in_force(spec: &JobSpec, notices: &[String]) -> Vec<String> {
    let is_root = rustix::process::geteuid().is_root();
    let adds_root_notice = is_root && !notices.iter().any(|notice| notice == RUNS_AS_ROOT);
    let root_notice = adds_root_notice.then(|| RUNS_AS_ROOT.to_owned());
    std::iter::once(time_outs(spec)).chain(root_notice).collect()
}

/// Lists the time-outs in force, and shows how the default of `progress_update_timeout` was computed
/// (docs/parallel-run-step.md, Where the sources disagree).
fn time_outs(spec: &JobSpec) -> String {
    let run = spec.settings.run_invocation_timeout;
    let load = spec.settings.task_overhead_timeout;
    let progress = spec.progress_update_timeout;
    let attempts = spec.settings.run_max_try;
    let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
    let mut text = String::from("time-outs:");
    for (name, time) in [
        ("run_invocation_timeout", run),
        ("task_overhead_timeout", load),
        ("first_task_creation_timeout", spec.settings.first_task_creation_timeout),
        ("progress_update_timeout", progress),
    ] {
        let _ = write!(text, " {name} {},", seconds(time));
    }
    text.pop();
    if progress == default_progress_timeout(attempts, load, run) {
        let load = load.as_secs_f64();
        let run = run.as_secs_f64();
        let _ = write!(
            text,
            " (run_max_try x (task_overhead_timeout + run_invocation_timeout) + 60 = {attempts} x \
             ({load} + {run}) + 60, and at least 600)"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Section 1.12 of docs/parallel-run-step.md: the time-outs are reported at the start, with the formula.
    #[test]
    fn time_outs_in_force_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path().join("job.yaml");
        for (name, text) in [
            ("entry.wasm", ""),
            ("a.txt", ""),
            ("job.yaml", "entry_script: entry.wasm\ninputs: {texts: a.txt}\n"),
        ] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let describe = |overrides: &[(&str, &str)]| {
            time_outs(&crate::spec::load_plain(&job, &pairs(overrides)).unwrap())
        };
        insta::assert_snapshot!(describe(&[]), @"time-outs: run_invocation_timeout 60 s, task_overhead_timeout 600 s, first_task_creation_timeout 600 s, progress_update_timeout 2040 s (run_max_try x (task_overhead_timeout + run_invocation_timeout) + 60 = 3 x (600 + 60) + 60, and at least 600)");
        let given =
            describe(&[("progress_update_timeout", "90"), ("run_invocation_timeout", "1.5")]);
        insta::assert_snapshot!(given, @"time-outs: run_invocation_timeout 1.5 s, task_overhead_timeout 600 s, first_task_creation_timeout 600 s, progress_update_timeout 90 s");
        // The notice about root appears only once.
        let spec = crate::spec::load_plain(&job, &[]).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(in_force(&spec, &[]).len(), 1 + usize::from(is_root));
        assert_eq!(in_force(&spec, &[RUNS_AS_ROOT.to_owned()]).len(), 1);
    }
}
