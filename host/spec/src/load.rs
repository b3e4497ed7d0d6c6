//! Reads a job file, from its bytes to a checked job.

use super::azure::{self, DocumentKind};
use super::dialect::JobFileDialect;
use super::error::{ErrorReport, SettingOrigin, SpecErrors};
use super::job::JobSpec;
use super::job_file_location::JobFileLocation;
use super::machine::MachineSize;
use super::policy::OperatorPolicy;
use super::reading::read;
use super::registered::Registrations;
use super::tree::{self, YamlNode};
use super::{argument_settings, check, limits, overrides, parent, raw, registered};
use std::path::Path;

/// The override that names the job of a pipeline. It is not a key of a job file.
const JOB: &str = "job";

/// The things outside of a job file that affect how it is read.
#[derive(Clone, Copy)]
pub struct LoadContext<'a> {
    /// What the machine's operator allows a job to request. A default above a ceiling is lowered, with a
    /// notice.
    pub policy: &'a OperatorPolicy,
    /// Finds registered datasets and models by their names.
    pub registrations: &'a dyn Registrations,
    /// The machine that the job runs on.
    pub machine: &'a MachineSize,
}

/// Reads and checks a job file. `overrides` are pairs of a key's path and a value in YAML, such as
/// `("limits.memory", "512MB")`. Later ones win. The pair `("job", name)` picks a job of a pipeline file.
/// Relative paths in the file and in the overrides start at the job file's folder.
///
/// # Errors
/// All errors at once: syntax, unknown keys, values, violations of the policy, unknown names, and paths that
/// do not exist. The inputs' paths are not checked here.
pub fn load(
    path: &Path,
    overrides: &[(String, String)],
    context: LoadContext<'_>,
) -> Result<JobSpec, SpecErrors> {
    let report = ErrorReport::default();
    let spec = match read(path, "job file") {
        Ok(text) => make(path, &text, (overrides, context), &report),
        Err(error) => {
            report.error(&SettingOrigin::File, "", error.to_string());
            None
        }
    };
    finish(path, spec, report)
}

/// [`load`] without a policy and a registry, on a machine of one core.
#[cfg(any(test, feature = "testing"))]
pub fn load_plain(path: &Path, overrides: &[(String, String)]) -> Result<JobSpec, SpecErrors> {
    load(path, overrides, LoadContext::sample(&OperatorPolicy::default()))
}

/// [`load`] for the text of a file that need not exist.
#[cfg(any(test, feature = "testing"))]
pub fn load_text(
    path: &Path,
    text: &str,
    overrides: &[(String, String)],
) -> Result<JobSpec, SpecErrors> {
    let report = ErrorReport::default();
    let policy = OperatorPolicy::default();
    let spec = make(path, text, (overrides, LoadContext::sample(&policy)), &report);
    finish(path, spec, report)
}

fn finish(path: &Path, spec: Option<JobSpec>, report: ErrorReport) -> Result<JobSpec, SpecErrors> {
    match spec {
        Some(spec) if report.is_clean() => Ok(spec),
        _ => Err(report.into_errors(&path.display().to_string())),
    }
}

/// The spec, or `None` if the file has too many errors to make one. The spec is valid only if the report is
/// clean.
fn make(
    path: &Path,
    text: &str,
    (overrides, context): (&[(String, String)], LoadContext<'_>),
    report: &ErrorReport,
) -> Option<JobSpec> {
    let LoadContext { policy, registrations, machine } = context;
    let place = match JobFileLocation::of(path, policy) {
        Ok(place) => place,
        Err(error) => {
            report.error(&SettingOrigin::File, "", error.to_string());
            return None;
        }
    };
    let root = tree::parse(text, report)?;
    let wanted = overrides.iter().rev().find(|(key, _)| key == JOB).map(|(_, name)| name.as_str());
    let kind = azure::kind_of(&root, sets(overrides, "entry_script"), report)?;
    let (mut root, dialect, pipeline) = match kind {
        DocumentKind::Job => {
            let picked = azure::pick(root, wanted, &place.job_name(), report)?;
            let job = job_of_azure(picked.job, overrides, &place, report)?;
            (azure::convert(job, &place, report)?, JobFileDialect::Version2, picked.pipeline)
        }
        DocumentKind::Deployment | DocumentKind::Other => {
            if let Some(wanted) = wanted {
                azure::no_pipeline(wanted, report);
            }
            let mut root = root;
            if kind == DocumentKind::Deployment {
                apply(&mut root, overrides, report, |key| azure::is_own_key(kind, key));
                (azure::convert_deployment(root, &place, report)?, JobFileDialect::Deployment, None)
            } else {
                let is_saved = azure::flatten(&mut root, report)?;
                (root, if is_saved { JobFileDialect::Saved } else { JobFileDialect::Own }, None)
            }
        }
    };
    let is_applied = |key: &str| {
        azure::is_own_key(kind, key) || (kind == DocumentKind::Job && key == azure::COMPONENT)
    };
    apply(&mut root, overrides, report, |key| key != JOB && !is_applied(key));
    argument_settings::rename(&mut root, report);
    argument_settings::lift(&mut root, dialect, report);
    if let Some(pipeline) = pipeline {
        parent::of_pipeline(&mut root, &pipeline, report);
    }
    let mut raw = raw::read(root, report)?;
    let latest = registered::resolve(&mut raw, registrations, report);
    let mut spec = check::check(&raw, dialect, (&place, machine), report);
    spec.latest = latest;
    policy.apply(&mut spec, &raw, report);
    limits::check_count(&spec, &raw, report);
    // A file in our own form has only unusual conversions, so each of them is a notice.
    match dialect {
        JobFileDialect::Own => spec.notices.splice(0..0, spec.conversions.drain(..)).for_each(drop),
        _ => spec.notices.splice(0..0, converted(&spec.conversions)).for_each(drop),
    }
    Some(spec)
}

/// One line for all conversions. They need no lines of their own, because the settings mean the same here as
/// in Azure.
fn converted(conversions: &[String]) -> Option<String> {
    let what = match conversions.len() {
        0 => return None,
        1 => String::from("1 setting is"),
        count => format!("{count} settings are"),
    };
    Some(format!(
        "{what} converted from Azure's file; sandmill plan -v lists them, and so does the job's \
         logs/sys/master_role.*.txt"
    ))
}

/// A job of version 2, combined with its component and with those overrides that use the words of such files.
fn job_of_azure(
    mut job: YamlNode,
    overrides: &[(String, String)],
    place: &JobFileLocation,
    report: &ErrorReport,
) -> Option<YamlNode> {
    apply(&mut job, overrides, report, |key| key == azure::COMPONENT);
    let mut job = azure::unfold(job, place, report)?;
    let declared = azure::DeclaredInputs::of(&job);
    apply(&mut job, overrides, report, |key| azure::is_own_key(DocumentKind::Job, key));
    declared.restore(&mut job);
    Some(job)
}

/// Whether the command line sets a key.
fn sets(overrides: &[(String, String)], wanted: &str) -> bool {
    overrides.iter().any(|(key, _)| key.trim() == wanted)
}

fn apply(
    root: &mut YamlNode,
    overrides: &[(String, String)],
    report: &ErrorReport,
    wanted: impl Fn(&str) -> bool,
) {
    for (key, value) in overrides.iter().filter(|(key, _)| wanted(key.trim())) {
        overrides::apply(root, key, value, report);
    }
}
