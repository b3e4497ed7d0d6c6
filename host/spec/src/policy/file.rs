//! Reads a policy file.

use super::amounts;
use super::owner;
use super::roots::Roots;
use crate::error::{Origin, Report, SpecErrors};
use crate::given::{self, GivenLimits, GivenSettings};
use crate::keys;
use crate::measured::Amount;
use crate::model::{MachineCaps, OsSandbox, ProcessLists, is_registered_name};
use crate::raw::{self, RawJob};
use crate::scope::{At, Scope};
use crate::tree::{self, Value};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The operator's policy for jobs on this machine. By default there is none: then only the job file sets
/// limits.
#[derive(Clone, Debug, Default)]
pub struct OperatorPolicy(pub(super) Option<Settings>);

/// The settings of a policy file.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// The policy file.
    pub(super) file: PathBuf,
    /// The SHA-256 of its text, in hexadecimal.
    pub(super) sha256: String,
    pub(super) ceilings: Vec<Ceiling>,
    /// The weakest process wall that a job may ask for.
    pub(super) os_sandbox: Option<At<OsSandbox>>,
    pub(super) roots: Option<Roots>,
    pub(super) entry_script_crates: Option<At<bool>>,
    pub(super) entry_script_modules: Option<At<bool>>,
    /// Names of the models that a job may use.
    pub(super) models: Option<At<Vec<String>>>,
    /// Names of the datastores that a job may use.
    pub(super) datastores: Option<At<Vec<String>>>,
    /// Whether an entry script may load models of its own.
    pub(super) guest_models: Option<At<bool>>,
    /// Which processes a job's reports list.
    pub(super) process_lists: Option<ProcessLists>,
    pub(super) machine: MachineCaps,
    /// Where the file gives `machine.workers` and `machine.workers_per_tenant`.
    pub(super) machine_workers: Option<Origin>,
    pub(super) tenant_workers: Option<Origin>,
}

/// The highest amount that a job may request.
#[derive(Clone, Debug)]
pub(super) struct Ceiling {
    /// The key. It has the same name in the job file and in the policy file.
    pub(super) key: &'static str,
    pub(super) amount: Amount,
    pub(super) origin: Origin,
}

impl OperatorPolicy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once. A policy that cannot be read is never ignored.
    pub fn load(path: &Path) -> Result<Self, SpecErrors> {
        let report = Report::default();
        let text = owner::read(path);
        let settings = match text {
            Ok(text) => parse(path, &text, &report).map(|settings| {
                let digest = Sha256::digest(text.as_bytes());
                let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                Settings { sha256, ..settings }
            }),
            Err(error) => {
                report.error(&Origin::File, "", error.to_string());
                None
            }
        };
        match settings {
            Some(settings) if report.is_clean() => Ok(Self(Some(settings))),
            _ => Err(report.into_errors(&path.display().to_string())),
        }
    }

    /// The caps for all jobs of the machine together.
    pub fn machine(&self) -> MachineCaps {
        self.0.as_ref().map(|settings| settings.machine.clone()).unwrap_or_default()
    }

    /// Which processes the reports of a job list. With a policy that does not say so, only the job's own.
    pub fn process_lists(&self) -> ProcessLists {
        let listed = |settings: &Settings| settings.process_lists.unwrap_or(ProcessLists::Job);
        self.0.as_ref().map_or(ProcessLists::Machine, listed)
    }

    /// The policy file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.0.as_ref().map(|settings| settings.file.as_path())
    }

    /// The SHA-256 of the policy file's text, in hexadecimal, if there is one.
    pub fn sha256(&self) -> Option<&str> {
        self.0.as_ref().map(|settings| settings.sha256.as_str())
    }
}

impl Settings {
    /// A place in the policy file, for people: `/etc/sandmill/policy.yaml:12`.
    pub(super) fn at(&self, origin: &Origin) -> String {
        match origin {
            Origin::Line(line) => format!("{}:{line}", self.file.display()),
            Origin::File | Origin::In(..) | Origin::Set(_) => self.file.display().to_string(),
        }
    }
}

fn parse(path: &Path, text: &str, report: &Report) -> Option<Settings> {
    let says_nothing = |line: &str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    };
    if text.lines().all(says_nothing) {
        report.error(&Origin::File, "", "is empty; a policy file needs at least one key");
        return None;
    }
    let root = tree::parse(text, report)?;
    let Value::Map(entries) = root.value else {
        let message = format!("found {root}; expected a map of settings (e.g. gpus: 0)");
        report.error(&root.origin, "", message);
        return None;
    };
    let mut scope = Scope::of_policy(entries, report);
    let bounds = RawJob {
        limits: given::limits(&mut scope, GivenLimits::read_ceilings),
        settings: GivenSettings::read_ceilings(&mut scope),
        inference: raw::read_ceilings(&mut scope),
        process_count_per_node: scope.setting("process_count_per_node"),
        gpus: scope.setting("gpus"),
        progress_update_timeout: scope.setting("progress_update_timeout"),
        ..RawJob::default()
    };
    let mut ceilings: Vec<Ceiling> = amounts::given(&bounds)
        .into_iter()
        .map(|(key, amount, origin)| Ceiling { key, amount, origin })
        .collect();
    for (key, amount) in amounts::USUAL {
        if !ceilings.iter().any(|ceiling| ceiling.key == key) {
            ceilings.push(Ceiling { key, amount, origin: Origin::File });
        }
    }
    let os_sandbox = scope.setting("os_sandbox");
    // The machine runs jobs of untrusted users, so the job files do not decide about the wall.
    let os_sandbox = os_sandbox.unwrap_or_else(|| At {
        value: OsSandbox::Required,
        key: "os_sandbox".to_owned(),
        origin: Origin::File,
    });
    let process_lists =
        scope.parsed_by("process_lists", |_, text| raw::choice(text, &ProcessLists::NAMED));
    let models = names(&mut scope, "models", is_registered_name, report);
    let datastores = names(&mut scope, "datastores", |_| true, report);
    let guest_models = scope.bool("guest_models");
    let roots = scope.group("roots").map(|group| Roots::read(group, report));
    let entry_script_crates = scope.bool("entry_script_crates");
    let entry_script_modules = scope.bool("entry_script_modules");
    let (machine, machine_workers, tenant_workers) = machine(&mut scope, report);
    scope.finish();
    Some(Settings {
        sha256: String::new(),
        file: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        ceilings,
        os_sandbox: Some(os_sandbox),
        process_lists: process_lists.map(|at| at.value),
        roots,
        entry_script_crates,
        entry_script_modules,
        models,
        datastores,
        guest_models,
        machine,
        machine_workers,
        tenant_workers,
    })
}

/// `fits`: whether a name is valid.
fn names(
    scope: &mut Scope<'_>,
    key: &str,
    fits: fn(&str) -> bool,
    report: &Report,
) -> Option<At<Vec<String>>> {
    let names = scope.texts(key)?;
    for name in &names.value {
        let text = name.value.trim();
        if text.is_empty() {
            name.blame(report, "found an empty text; expected a name");
        } else if !fits(text) {
            let expected = keys::MODEL_NAME_EXPECTED;
            let message = format!("found {text:?}, which no model is called; expected {expected}");
            name.blame(report, message);
        }
    }
    Some(names.map(|names| names.into_iter().map(|name| name.value.trim().to_owned()).collect()))
}

/// The caps for the machine, and where the file gives those of workers.
fn machine(
    scope: &mut Scope<'_>,
    report: &Report,
) -> (MachineCaps, Option<Origin>, Option<Origin>) {
    let Some(mut group) = scope.group("machine") else { return Default::default() };
    let workers: Option<At<u32>> = group.setting("workers");
    let per_tenant: Option<At<u32>> = group.setting("workers_per_tenant");
    let memory = group.setting("memory");
    let directory = group.text("directory");
    if let Some(directory) = directory.as_ref().filter(|text| !text.value.starts_with('/')) {
        let message = format!(
            "found {:?}; expected an absolute path to a folder (e.g. /dev/shm/sandmill)",
            directory.value
        );
        directory.blame(report, message);
    }
    group.finish();
    let origin = |at: &Option<At<u32>>| at.as_ref().map(|at| at.origin.clone());
    let all = origin(&workers);
    let each = origin(&per_tenant);
    let caps = MachineCaps {
        workers: workers.map(|at| at.value),
        workers_per_tenant: per_tenant.map(|at| at.value),
        memory: memory.map(|at| at.value),
        directory: directory.map(|at| PathBuf::from(at.value)),
    };
    (caps, all, each)
}
