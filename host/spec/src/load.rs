//! Reads a job file, from its bytes to a checked job.

use super::azure::{self, DocumentKind};
use super::dialect::JobFileDialect;
use super::error::{ErrorReport, SettingOrigin, SpecErrors};
use super::given_job::{GivenJob, GivenNames, KeptNames};
use super::job::JobSpec;
use super::job_file_location::JobFileLocation;
use super::machine::MachineSize;
use super::policy::OperatorPolicy;
use super::reading::read;
use super::registered::Registrations;
use super::settings_files::SettingsFiles;
use super::tree::{self, YamlNode};
use super::{argument_settings, check, limits, overrides, parent, raw, registered, uploads};
use crate::model::{JobText, UploadedData, hex};
use sha2::{Digest, Sha256};
use std::path::Path;

/// The override that names the job of a pipeline (`--job`). It is not a key of a job file.
const PICKED_JOB: &str = "job";

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
    /// What replaces paths of this machine, because it was put into the job's store.
    pub uploads: &'a [UploadedData],
}

/// Reads and checks a job file. `overrides` are pairs of a key's path and a value in YAML, such as
/// `("limits.memory", "512MB")`. Later pairs win. The pair `("job", name)` picks a job of a pipeline file.
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
        Ok(text) => {
            let names = KeptNames::new(context.registrations);
            let kept = LoadContext { registrations: &names, ..context };
            let spec = build_here(path, &text, (overrides, kept), &report);
            spec.map(|spec| {
                let uploads = context.uploads.to_vec();
                let text = JobText { text, names: names.into_found(), uploads, ..spec.text };
                JobSpec { text, ..spec }
            })
        }
        Err(error) => {
            report.error(&SettingOrigin::File, "", error.to_string());
            None
        }
    };
    spec_or_errors(path, spec.map(with_digest), report)
}

/// As [`load`], for a job that another machine has read. `path` is the path of the job file there. Reads neither the
/// job file nor the files that it refers to, and looks up no names on this machine.
///
/// # Errors
/// As for [`load`].
pub fn load_given(
    path: &Path,
    given: &GivenJob,
    overrides: &[(String, String)],
    context: LoadContext<'_>,
) -> Result<JobSpec, SpecErrors> {
    let report = ErrorReport::default();
    let GivenJob { text, script, component } = given;
    let names = GivenNames(text);
    let context = LoadContext { registrations: &names, uploads: &text.uploads, ..context };
    let files = SettingsFiles::Given(text.files.clone());
    let spec = located(path, context.policy, &report).and_then(|location| {
        let location = location.given(files, script.clone());
        let spec = build(location, &text.text, (overrides, context), &report)?;
        // An entry script that was not fetched must be the same.
        let entry_script_digest = spec.entry_script_digest.clone().or_else(|| component.clone());
        Some(JobSpec { text: text.clone(), entry_script_digest, ..spec })
    });
    spec_or_errors(path, spec.map(with_digest), report)
}

fn with_digest(spec: JobSpec) -> JobSpec {
    let job_file_sha256 = hex(Sha256::digest(spec.text.text.as_bytes()));
    JobSpec { job_file_sha256, ..spec }
}

fn located(path: &Path, policy: &OperatorPolicy, report: &ErrorReport) -> Option<JobFileLocation> {
    let location = JobFileLocation::find(path, policy);
    location.map_err(|error| report.error(&SettingOrigin::File, "", error.to_string())).ok()
}

/// Builds the spec of a job file on this machine.
fn build_here(
    path: &Path,
    text: &str,
    given: (&[(String, String)], LoadContext<'_>),
    report: &ErrorReport,
) -> Option<JobSpec> {
    build(located(path, given.1.policy, report)?, text, given, report)
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
    let spec = build_here(path, text, (overrides, LoadContext::sample(&policy)), &report);
    spec_or_errors(path, spec, report)
}

fn spec_or_errors(
    path: &Path,
    spec: Option<JobSpec>,
    report: ErrorReport,
) -> Result<JobSpec, SpecErrors> {
    match spec {
        Some(spec) if report.is_clean() => Ok(spec),
        _ => Err(report.into_errors(&path.display().to_string())),
    }
}

/// Builds the spec. `None` if the file's errors prevent that. The spec is valid only if the report is clean.
fn build(
    mut location: JobFileLocation,
    text: &str,
    (overrides, context): (&[(String, String)], LoadContext<'_>),
    report: &ErrorReport,
) -> Option<JobSpec> {
    let LoadContext { policy, registrations, machine, uploads: uploaded } = context;
    let root = tree::parse(text, report)?;
    let wanted =
        overrides.iter().rev().find(|(key, _)| key == PICKED_JOB).map(|(_, name)| name.as_str());
    let kind = azure::kind_of(&root, is_overridden(overrides, "entry_script"), report)?;
    let (mut root, dialect, pipeline) = match kind {
        DocumentKind::Job => {
            let picked = azure::pick(root, wanted, &location.job_name(), report)?;
            let job = merge_azure_job(picked.job, overrides, &location, report)?;
            (azure::convert(job, &location, report)?, JobFileDialect::Version2, picked.pipeline)
        }
        DocumentKind::Deployment | DocumentKind::Other => {
            if let Some(wanted) = wanted {
                azure::report_no_pipeline(wanted, report);
            }
            let mut root = root;
            if kind == DocumentKind::Deployment {
                apply(&mut root, overrides, report, |key| azure::is_azure_key(kind, key));
                (
                    azure::convert_deployment(root, &location, report)?,
                    JobFileDialect::Deployment,
                    None,
                )
            } else {
                let is_saved = azure::flatten(&mut root, report)?;
                (root, if is_saved { JobFileDialect::Saved } else { JobFileDialect::Own }, None)
            }
        }
    };
    let was_applied = |key: &str| {
        azure::is_azure_key(kind, key) || (kind == DocumentKind::Job && key == azure::COMPONENT_KEY)
    };
    apply(&mut root, overrides, report, |key| key != PICKED_JOB && !was_applied(key));
    argument_settings::rename_aliases(&mut root, report);
    argument_settings::lift_options(&mut root, dialect, report);
    if let Some(pipeline) = pipeline {
        parent::of_pipeline(&mut root, &pipeline, report);
    }
    let mut raw = raw::read(root, report)?;
    let latest = registered::resolve(&mut raw, registrations, report);
    let named_data = uploads::named_data(&raw);
    uploads::replace(&mut raw, (uploaded, &named_data), &mut location, report);
    let mut spec = check::check(&raw, dialect, (&location, machine), report);
    spec.latest = latest;
    spec.named_data = named_data;
    policy.apply(&mut spec, &raw, report);
    limits::check_count(&spec, &raw, report);
    // Only if the policy allows the paths: another machine's user must not learn about others.
    if location.files.are_given() && report.is_clean() {
        uploads::refuse_missing(&spec, &raw, report);
    }
    spec.text.files = location.files.into_texts();
    // A file with our own keys needs a conversion only in unusual cases, so each conversion is a notice.
    match dialect {
        JobFileDialect::Own => spec.notices.splice(0..0, spec.conversions.drain(..)).for_each(drop),
        _ => spec.notices.splice(0..0, conversions_notice(&spec.conversions)).for_each(drop),
    }
    Some(spec)
}

/// Returns a single notice for all conversions. One is enough, because the converted settings mean the same
/// here as in Azure. `None` if there are no conversions.
fn conversions_notice(conversions: &[String]) -> Option<String> {
    let subject = match conversions.len() {
        0 => return None,
        1 => String::from("1 setting is"),
        count => format!("{count} settings are"),
    };
    Some(format!(
        "{subject} converted from Azure's file; sandmill plan -v lists them, and so does the job's \
         logs/sys/master_role.*.txt"
    ))
}

/// Merges a job of version 2 with its component and with the overrides that use Azure's keys.
fn merge_azure_job(
    mut job: YamlNode,
    overrides: &[(String, String)],
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<YamlNode> {
    apply(&mut job, overrides, report, |key| key == azure::COMPONENT_KEY);
    let mut job = azure::merge_component(job, location, report)?;
    let declared = azure::DeclaredInputs::from_job(&job);
    apply(&mut job, overrides, report, |key| azure::is_azure_key(DocumentKind::Job, key));
    declared.restore(&mut job);
    Some(job)
}

/// Whether the command line sets a key.
fn is_overridden(overrides: &[(String, String)], wanted: &str) -> bool {
    overrides.iter().any(|(key, _)| key.trim() == wanted)
}

/// Applies the overrides whose key is `wanted`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_digest_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.yaml");
        std::fs::write(dir.path().join("x.wasm"), "").unwrap();
        let mut digests = Vec::new();
        for text in
            ["entry_script: x.wasm\ninputs: {a: .}\n", "entry_script: x.wasm\ninputs: {a: .} \n"]
        {
            std::fs::write(&path, text).unwrap();
            let spec = load_plain(&path, &[]).unwrap();
            assert_eq!(spec.job_file_sha256, hex(Sha256::digest(text)));
            digests.push(spec.job_file_sha256);
        }
        assert_ne!(digests[0], digests[1]);
    }
}
