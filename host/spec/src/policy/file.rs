//! Reads a policy file.

use super::amounts;
use super::names::names;
use super::owner;
use super::roots::{Roots, RootsReader, allows_stored_scripts};
use super::signers::{self, LimitsForAll, Signer};
use super::store_roots::{StoreRoots, StoresForAll};
use crate::error::{ErrorReport, SettingOrigin, SpecErrors};
use crate::given_settings::{self, GivenLimits, GivenSettings};
use crate::measured::Amount;
use crate::model::{MachineCaps, OsSandbox, ProcessLists, is_registered_name};
use crate::raw::{self, RawJob};
use crate::scope::{Located, UnreadNames};
use crate::tree::{self, YamlValue};
use sha2::{Digest, Sha256};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// The operator's policy for jobs on this machine. By default there is no policy, and only the job file sets
/// limits.
#[derive(Clone, Debug, Default)]
pub struct OperatorPolicy(pub(super) Option<PolicySettings>);

#[derive(Clone, Debug, Default)]
pub(super) struct PolicySettings {
    pub(super) file: PathBuf,
    /// The SHA-256 of the file's text, in hexadecimal.
    pub(super) sha256: String,
    pub(super) ceilings: Vec<AmountCeiling>,
    /// The weakest sandbox mode that a job may ask for.
    pub(super) os_sandbox: Option<Located<OsSandbox>>,
    pub(super) roots: Option<Roots>,
    pub(super) entry_script_crates: Option<Located<bool>>,
    pub(super) entry_script_modules: Option<Located<bool>>,
    /// Whether an entry script may come from the job's store.
    pub(super) entry_script_stores: Option<Located<bool>>,
    /// Names of the models that a job may use.
    pub(super) models: Option<Located<Vec<String>>>,
    /// Names of the datastores that a job may use.
    pub(super) datastores: Option<Located<Vec<String>>>,
    /// The addresses below which a job's objects in stores must be. `None` if the policy has none.
    pub(super) store_roots: Option<StoreRoots>,
    /// Whether an entry script may load models from bytes.
    pub(super) guest_models: Option<Located<bool>>,
    /// Which processes the reports of a job list.
    pub(super) process_lists: Option<ProcessLists>,
    pub(super) machine: MachineCaps,
    /// Where the file gives `machine.workers` and `machine.workers_per_tenant`.
    pub(super) machine_workers: Option<SettingOrigin>,
    pub(super) tenant_workers: Option<SettingOrigin>,
    /// The signers in whose jobs an agent takes part. `None` if it takes part in every job.
    pub(super) signers: Option<Located<Vec<Signer>>>,
    /// The tenant for whose jobs the policy was read. `None` if it was read for no tenant in particular.
    pub(super) tenant: Option<String>,
    /// The folder of the job that is checked, in its job store. Without links. `None` if it has none that is allowed.
    pub(super) job_folder: Option<PathBuf>,
}

/// The highest amount that a job may request.
#[derive(Clone, Debug)]
pub(super) struct AmountCeiling {
    /// The key. It has the same name in the job file and in the policy file.
    pub(super) key: &'static str,
    pub(super) amount: Amount,
    pub(super) origin: SettingOrigin,
}

impl OperatorPolicy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// All errors in the file. A policy that cannot be read is never ignored.
    pub fn load(path: &Path) -> Result<Self, SpecErrors> {
        Self::load_for(path, None)
    }

    /// As [`load`](Self::load), for the jobs of one tenant: `${tenant}` in a root stands for its name.
    ///
    /// # Errors
    /// As for [`load`](Self::load), and if a root has `${tenant}` and no tenant is given.
    pub fn load_for(path: &Path, tenant: Option<&str>) -> Result<Self, SpecErrors> {
        let report = ErrorReport::default();
        let text = owner::read(path);
        let settings = match text {
            Ok(text) => parse(path, &text, tenant, &report).map(|settings| {
                let digest = Sha256::digest(text.as_bytes());
                let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                PolicySettings { sha256, ..settings }
            }),
            Err(error) => {
                report.error(&SettingOrigin::File, "", error.to_string());
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

    /// The same policy for a tenant of this weight, whose jobs get a share of the machine in proportion.
    #[must_use]
    pub fn with_weight(mut self, weight: NonZeroU32) -> Self {
        if let Some(settings) = &mut self.0 {
            settings.machine.tenant_weight = weight.get();
        }
        self
    }

    /// Which processes the reports of a job list. The default is the job's own processes with a
    /// policy, and all processes of the machine without a policy.
    pub fn process_lists(&self) -> ProcessLists {
        let with_policy =
            |settings: &PolicySettings| settings.process_lists.unwrap_or(ProcessLists::Job);
        self.0.as_ref().map_or(ProcessLists::Machine, with_policy)
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

impl PolicySettings {
    /// The policy file and the line, for messages: `/etc/sandmill/policy.yaml:12`.
    pub(super) fn file_and_line(&self, origin: &SettingOrigin) -> String {
        match origin {
            SettingOrigin::Line(line) => format!("{}:{line}", self.file.display()),
            SettingOrigin::File | SettingOrigin::In(..) | SettingOrigin::Set(_) => {
                self.file.display().to_string()
            }
        }
    }
}

fn parse(
    path: &Path,
    text: &str,
    tenant: Option<&str>,
    report: &ErrorReport,
) -> Option<PolicySettings> {
    let has_no_settings = |line: &str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    };
    if text.lines().all(has_no_settings) {
        report.error(&SettingOrigin::File, "", "is empty; a policy file needs at least one key");
        return None;
    }
    let root = tree::parse(text, report)?;
    let YamlValue::Map(entries) = root.value else {
        let message = format!("found {root}; expected a map of settings (e.g. gpus: 0)");
        report.error(&root.origin, "", message);
        return None;
    };
    let mut scope = UnreadNames::of_policy(entries, report);
    let given_ceilings = RawJob {
        limits: given_settings::limits(&mut scope, GivenLimits::read_ceilings),
        settings: GivenSettings::read_ceilings(&mut scope),
        inference: raw::read_ceilings(&mut scope),
        process_count_per_node: scope.setting("process_count_per_node"),
        gpus: scope.setting("gpus"),
        progress_update_timeout: scope.setting("progress_update_timeout"),
        ..RawJob::default()
    };
    let mut ceilings: Vec<AmountCeiling> = amounts::given(&given_ceilings)
        .into_iter()
        .map(|(key, amount, origin)| AmountCeiling { key, amount, origin })
        .collect();
    for (key, amount) in amounts::DEFAULT_CEILINGS {
        if !ceilings.iter().any(|ceiling| ceiling.key == key) {
            ceilings.push(AmountCeiling { key, amount, origin: SettingOrigin::File });
        }
    }
    let os_sandbox = scope.setting("os_sandbox");
    // The machine runs jobs of untrusted users, so job files must not weaken the sandbox unless the policy
    // says so.
    let os_sandbox = os_sandbox.unwrap_or_else(|| Located {
        value: OsSandbox::Required,
        key: "os_sandbox".to_owned(),
        origin: SettingOrigin::File,
    });
    let process_lists =
        scope.parsed_by("process_lists", |_, text| raw::choice(text, &ProcessLists::NAMED));
    let models = names(&mut scope, "models", is_registered_name, report);
    let datastores = names(&mut scope, "datastores", |_| true, report);
    let guest_models = scope.bool("guest_models");
    let mut roots_reader = RootsReader::new(tenant);
    let roots = scope.group("roots").map(|group| roots_reader.read(group, None, report));
    let entry_script_stores = scope.bool("entry_script_stores");
    let names = datastores.as_ref().map_or(&[][..], |names| &names.value);
    let stores = StoresForAll { roots: None, is_signer: false, datastores: names };
    let store_roots = scope.group("store_roots");
    let store_roots = store_roots.map(|group| StoreRoots::read(group, stores, report));
    let for_all = LimitsForAll {
        roots: &roots,
        models: &models,
        datastores: &datastores,
        entry_script_stores: allows_stored_scripts(entry_script_stores.as_ref(), roots.as_ref()),
        store_roots: store_roots.as_ref(),
    };
    let signers = signers::read(&mut scope, for_all, &mut roots_reader, report);
    roots_reader.refuse_overlaps(report);
    let entry_script_crates = scope.bool("entry_script_crates");
    let entry_script_modules = scope.bool("entry_script_modules");
    let (machine, machine_workers, tenant_workers) = machine(&mut scope, report);
    scope.report_unread();
    Some(PolicySettings {
        sha256: String::new(),
        file: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        ceilings,
        os_sandbox: Some(os_sandbox),
        process_lists: process_lists.map(|setting| setting.value),
        roots,
        entry_script_crates,
        entry_script_modules,
        entry_script_stores,
        models,
        datastores,
        store_roots,
        guest_models,
        machine,
        machine_workers,
        tenant_workers,
        signers,
        tenant: tenant.map(str::to_owned),
        job_folder: None,
    })
}

/// Reads the caps for the machine. Also returns where the file gives the caps of workers.
fn machine(
    scope: &mut UnreadNames<'_>,
    report: &ErrorReport,
) -> (MachineCaps, Option<SettingOrigin>, Option<SettingOrigin>) {
    let Some(mut group) = scope.group("machine") else { return Default::default() };
    let workers: Option<Located<u32>> = group.setting("workers");
    let per_tenant: Option<Located<u32>> = group.setting("workers_per_tenant");
    let memory = group.setting("memory");
    let newcomers_percent: Option<Located<u32>> = group.setting("newcomers_percent");
    let node_disk = group.setting("node_disk");
    let node_disk_free = group.setting("node_disk_free");
    let directory = group.text("directory");
    if let Some(directory) = directory.as_ref().filter(|text| !text.value.starts_with('/')) {
        let message = format!(
            "found {:?}; expected an absolute path to a folder (e.g. /dev/shm/sandmill)",
            directory.value
        );
        directory.blame(report, message);
    }
    group.report_unread();
    let origin_of = |cap: &Option<Located<u32>>| cap.as_ref().map(|cap| cap.origin.clone());
    let workers_origin = origin_of(&workers);
    let per_tenant_origin = origin_of(&per_tenant);
    let caps = MachineCaps {
        workers: workers.map(|setting| setting.value),
        workers_per_tenant: per_tenant.map(|setting| setting.value),
        memory: memory.map(|setting| setting.value),
        newcomers_percent: newcomers_percent.map_or(0, |setting| setting.value),
        tenant_weight: 1,
        node_disk: node_disk.map(|setting| setting.value),
        node_disk_free: node_disk_free.map(|setting| setting.value),
        directory: directory.map(|setting| PathBuf::from(setting.value)),
    };
    (caps, workers_origin, per_tenant_origin)
}
