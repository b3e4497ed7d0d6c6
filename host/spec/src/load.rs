//! The way from a file's bytes to a checked job.

use super::dialect::Dialect;
use super::error::{Origin, Report, SpecErrors};
use super::job::JobSpec;
use super::machine::Machine;
use super::place::Place;
use super::policy::OperatorPolicy;
use super::reading::read;
use super::registered::Registrations;
use super::tree::{self, Node};
use super::{azure, check, limits, options, overrides, parent, raw, registered};
use std::path::Path;

/// The override that names the job of a pipeline; no key of a job file.
const JOB: &str = "job";

/// What a job file is read with.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// What the machine's operator lets a job ask for. A default that is above a ceiling is lowered, with a notice.
    pub policy: &'a OperatorPolicy,
    /// Finds registered datasets and models by their names.
    pub registrations: &'a dyn Registrations,
    /// The machine that the job runs on.
    pub machine: &'a Machine,
}

/// Reads and checks a job file. `overrides` are pairs of a key's path and a value in YAML, as
/// `("limits.memory", "512MB")`; later ones win. The pair `("job", name)` picks a job of a pipeline
/// file. Relative paths in both mean the job file's folder.
///
/// # Errors
/// All that is wrong, at once: syntax, unknown keys, values, what the policy does not allow, names that lead to
/// nothing, and paths that lead nowhere. Whether the inputs are there is not looked at.
pub fn load(
    path: &Path,
    overrides: &[(String, String)],
    surroundings: Surroundings<'_>,
) -> Result<JobSpec, SpecErrors> {
    let report = Report::default();
    let spec = match read(path, "job file") {
        Ok(text) => make(path, &text, (overrides, surroundings), &report),
        Err(error) => {
            report.error(&Origin::File, "", error.to_string());
            None
        }
    };
    finish(path, spec, report)
}

/// [`load`] without a policy and a registry, on a machine of one core.
#[cfg(any(test, feature = "testing"))]
pub fn load_plain(path: &Path, overrides: &[(String, String)]) -> Result<JobSpec, SpecErrors> {
    load(path, overrides, Surroundings::sample(&OperatorPolicy::default()))
}

/// [`load`] for the text of a file that need not be there.
#[cfg(any(test, feature = "testing"))]
pub fn load_text(
    path: &Path,
    text: &str,
    overrides: &[(String, String)],
) -> Result<JobSpec, SpecErrors> {
    let report = Report::default();
    let policy = OperatorPolicy::default();
    let spec = make(path, text, (overrides, Surroundings::sample(&policy)), &report);
    finish(path, spec, report)
}

fn finish(path: &Path, spec: Option<JobSpec>, report: Report) -> Result<JobSpec, SpecErrors> {
    match spec {
        Some(spec) if report.is_clean() => Ok(spec),
        _ => Err(report.into_errors(&path.display().to_string())),
    }
}

/// The spec, if there was something to make one from; only worth something if the report is clean.
fn make(
    path: &Path,
    text: &str,
    (overrides, surroundings): (&[(String, String)], Surroundings<'_>),
    report: &Report,
) -> Option<JobSpec> {
    let Surroundings { policy, registrations, machine } = surroundings;
    let place = match Place::of(path, policy) {
        Ok(place) => place,
        Err(error) => {
            report.error(&Origin::File, "", error.to_string());
            return None;
        }
    };
    let root = tree::parse(text, report)?;
    let wanted = overrides.iter().rev().find(|(key, _)| key == JOB).map(|(_, name)| name.as_str());
    if !azure::is_known_type(&root, report) {
        return None;
    }
    let (mut root, dialect, pipeline) = if azure::is_version_2(&root) {
        let picked = azure::pick(root, wanted, &place.job_name(), report)?;
        let mut job = picked.job;
        apply(&mut job, overrides, report, is_data);
        (azure::convert(job, &place, report)?, Dialect::Version2, picked.pipeline)
    } else {
        if let Some(wanted) = wanted {
            azure::no_pipeline(wanted, report);
        }
        let mut root = root;
        let is_saved = azure::flatten(&mut root, report)?;
        (root, if is_saved { Dialect::Saved } else { Dialect::Own }, None)
    };
    let is_applied = |key: &str| dialect == Dialect::Version2 && is_data(key);
    apply(&mut root, overrides, report, |key| key != JOB && !is_applied(key));
    options::rename(&mut root, report);
    options::lift(&mut root, dialect, report);
    if let Some(pipeline) = pipeline {
        parent::of_pipeline(&mut root, &pipeline, report);
    }
    let mut raw = raw::read(root, report)?;
    let latest = registered::resolve(&mut raw, registrations, report);
    let mut spec = check::check(&raw, dialect, (&place, machine), report);
    spec.latest = latest;
    policy.apply(&mut spec, &raw, report);
    limits::check_count(&spec, &raw, report);
    Some(spec)
}

/// Whether a key of `--set` means the inputs and outputs of a version 2 file as they stand there.
fn is_data(key: &str) -> bool {
    let first = key.split(['.', '[']).next().unwrap_or_default();
    matches!(first, "inputs" | "outputs" | "input_data")
}

fn apply(
    root: &mut Node,
    overrides: &[(String, String)],
    report: &Report,
    wanted: impl Fn(&str) -> bool,
) {
    for (key, value) in overrides.iter().filter(|(key, _)| wanted(key.trim())) {
        overrides::apply(root, key, value, report);
    }
}
