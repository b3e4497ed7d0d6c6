//! Checks a job's settings against the policy's ceilings.

use super::amounts;
use super::file::{OperatorPolicy, PolicySettings};
use super::folder_use::FolderUse;
use super::places::fixed_part;
use super::roots::PolicyRoot;
use crate::error::{ErrorReport, SettingOrigin, SpecErrors};
use crate::given_settings::GivenLimits;
use crate::measured::Amount;
use crate::model::{JobDir, JobLimits, Limits, OsSandbox, RegisteredKind, Source};
use crate::raw::RawJob;
use crate::{JobSpec, JobStorePlace, ModelSpec};
use std::path::{Path, PathBuf};
use std::time::Duration;

impl OperatorPolicy {
    /// Checks a job against the policy. A setting of the job file that exceeds the policy is an error in the
    /// report. A setting that the job file leaves out is lowered, with a notice.
    pub(crate) fn apply(&self, spec: &mut JobSpec, raw: &RawJob, report: &ErrorReport) {
        let Some(settings) = &self.0 else { return };
        let settings = settings.for_job(spec.job_store.as_ref(), &spec.name);
        settings.apply_ceilings(spec, Some(raw), report);
        let origin = raw.settings.os_sandbox.as_ref().map(|setting| &setting.origin);
        settings.check_sandbox(spec.worker.os_sandbox, origin, report);
        settings.check_file_paths(spec, raw, report);
        settings.check_model_names(&spec.models, Some(raw), report);
        settings.check_guest_models(&spec.inference, Some(raw), report);
        settings.check_store_names(spec, Some(raw), report);
        settings.set_tenant(spec, raw, report);
        spec.notices.extend(report.take_notices());
    }

    /// The lines that a server needs below `roots` and does not have, if the policy is read for this tenant: the tenant's folders
    /// below these folders with job directories and submitted entry scripts, without the folders of other tenants there.
    pub fn missing_for_server(
        &self,
        tenant: &str,
        (job_directories, entry_scripts): (&Path, &Path),
    ) -> Vec<String> {
        let roots = self.0.as_ref().and_then(|settings| settings.roots.as_ref());
        let needed = [
            (FolderUse::JobDirectories, job_directories),
            (FolderUse::EntryScripts, entry_scripts),
        ];
        let is_missing = |(folder_use, folder): &(FolderUse, &Path)| {
            let root = roots.and_then(|roots| roots.of_use(*folder_use));
            let allowed = root.map_or(&[][..], |root| root.folders.as_slice());
            let allows = |path: &Path| allowed.iter().any(|root| path.starts_with(root));
            !allows(&folder.join(tenant)) || allows(&folder.join(format!("not-{tenant}")))
        };
        let missing = needed.into_iter().filter(is_missing);
        missing
            .map(|(folder_use, folder)| {
                format!("  {}: [\"{}/${{tenant}}\"]", folder_use.key(), folder.display())
            })
            .collect()
    }

    /// The folders in which the files of a job may be that are read before it begins. Empty without roots.
    pub fn readable_roots(&self) -> Vec<PathBuf> {
        let roots = self.0.as_ref().and_then(|settings| settings.roots.as_ref());
        let is_read = |root: &&PolicyRoot| !root.folder_use.is_private();
        let roots = roots.into_iter().flat_map(|roots| &roots.0).filter(is_read);
        roots.flat_map(|root| root.folders.iter().cloned()).collect()
    }

    /// Checks a job again just before it begins. It makes no difference where the settings come from (job
    /// file, command line or program). Unlike `apply`, this also checks the resolved paths of the inputs and,
    /// if there is one, the job directory. All paths must be free of links, because the job later opens the
    /// same paths.
    ///
    /// # Errors
    /// All violations of the policy.
    pub fn check(
        &self,
        spec: &JobSpec,
        sources: &[Source],
        job_dir: Option<&JobDir>,
    ) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let settings = settings.for_job(spec.job_store.as_ref(), &spec.name);
        let report = ErrorReport::default();
        settings.apply_ceilings(&mut spec.clone(), None, &report);
        settings.check_sandbox(spec.worker.os_sandbox, None, &report);
        settings.check_job_paths(spec, sources, &report);
        settings.check_model_names(&spec.models, None, &report);
        settings.check_guest_models(&spec.inference, None, &report);
        settings.check_store_names(spec, None, &report);
        if let Some(job_dir) = job_dir {
            settings.check_real_path(
                FolderUse::JobDirectories,
                "--job-dir",
                job_dir.root(),
                &report,
            );
        }
        settings.result_of(report)
    }

    /// Checks whether an entry script with these files and side inputs may be built, inspected and run
    /// outside of a job.
    ///
    /// # Errors
    /// All violations of the policy.
    pub fn check_trial<'a>(
        &self,
        entry_script: &Path,
        files: impl IntoIterator<Item = &'a Path>,
        side_inputs: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.check_entry_script(entry_script, None, &report);
        for file in files {
            settings.check_path(FolderUse::Inputs, "--run", file, None, &report);
        }
        for folder in side_inputs {
            settings.check_path(FolderUse::SideInputs, "--side-input", folder, None, &report);
        }
        settings.result_of(report)
    }

    /// Checks whether a job may use the stores that it names. The caller must do this before it opens a
    /// store.
    ///
    /// # Errors
    /// All violations of the policy.
    pub fn check_stores(&self, spec: &JobSpec) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.check_store_names(spec, None, &report);
        settings.result_of(report)
    }

    /// Checks whether a job of another machine may have its store at this place. The caller must do this before it opens
    /// the store.
    ///
    /// # Errors
    /// If the policy does not allow the place.
    pub fn check_job_store(&self, place: &JobStorePlace) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.check_job_store(place, &report);
        settings.result_of(report)
    }

    /// Why an entry script may not come from the job's store. `None` if it may.
    pub fn refusal_of_stored_scripts(&self) -> Option<String> {
        self.0.as_ref()?.refusal_of_stored_scripts()
    }

    /// Checks whether an entry script may run these models outside of a job.
    ///
    /// # Errors
    /// All violations of the policy.
    pub fn check_models(&self, models: &[ModelSpec]) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.check_model_names(models, None, &report);
        settings.check_model_paths(models, &report);
        settings.result_of(report)
    }

    /// Checks whether models may be at these paths, each given with its model's name. The paths must be free
    /// of links, because they are opened unchanged.
    ///
    /// # Errors
    /// All violations of the policy.
    pub fn check_model_places<'a>(
        &self,
        places: impl IntoIterator<Item = (&'a str, &'a Path)>,
    ) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        for (name, path) in places {
            let key = format!("models.{name}.path");
            settings.check_real_path(FolderUse::Models, &key, path, &report);
        }
        settings.result_of(report)
    }

    /// Checks whether a dataset or model at these paths may be registered.
    ///
    /// # Errors
    /// All violations of the policy.
    pub fn check_registered<'a>(
        &self,
        kind: RegisteredKind,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        for path in paths {
            let (folder_use, path) = match kind {
                RegisteredKind::Dataset => (FolderUse::Inputs, fixed_part(path)),
                RegisteredKind::Model => (FolderUse::Models, Path::new(path)),
            };
            settings.check_path(folder_use, "path", path, None, &report);
        }
        settings.result_of(report)
    }

    /// Checks whether a dataset or model in the datastore of that name may be registered.
    ///
    /// # Errors
    /// If the policy does not allow it.
    pub fn check_datastore(&self, name: &str) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.check_registered_store(name, &report);
        settings.result_of(report)
    }

    /// Whether a file that a job names may be read. If not, adds an error to the report. `folder_use` decides
    /// which roots apply. For the file of an Azure component, these are the roots for entry scripts, because
    /// the component names an entry script.
    pub(crate) fn allows(
        &self,
        folder_use: FolderUse,
        key: &str,
        file: &Path,
        origin: &SettingOrigin,
        report: &ErrorReport,
    ) -> bool {
        let Some(settings) = &self.0 else { return true };
        settings.check_path(folder_use, key, file, Some(origin), report)
    }

    /// Whether the settings file beside the entry script may be read, or does not exist. If not, adds an
    /// error to the report.
    pub(crate) fn allows_settings(
        &self,
        file: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) -> bool {
        let Some(settings) = &self.0 else { return true };
        file.symlink_metadata().is_err()
            || settings.check_path(FolderUse::EntryScripts, "entry_script", file, origin, report)
    }

    /// The default limits of an instance, lowered to the ceilings.
    pub fn default_limits(&self) -> Limits {
        let mut limits = Limits::default();
        for (key, limit) in GivenLimits::capped((&mut JobLimits::default(), &mut limits)) {
            let ceiling = self.0.as_ref().and_then(|settings| settings.ceiling(key));
            if let Some(ceiling) = ceiling.filter(|c| is_above(limit.amount(), c.amount)) {
                limit.set(ceiling.amount);
            }
        }
        limits
    }

    /// The sandbox mode of a job: the mode that the job asks for, or the mode that the operator requires,
    /// if that mode is stricter.
    pub fn sandbox(&self, asked: OsSandbox) -> OsSandbox {
        let settings = self.0.as_ref().and_then(|settings| settings.os_sandbox.as_ref());
        let least = settings.map_or(OsSandbox::Off, |least| least.value);
        let rank = |mode| OsSandbox::ALL.iter().position(|known| *known == mode);
        if rank(least) < rank(asked) { least } else { asked }
    }

    /// The longest time that one call of `run` may take. `None` if the policy does not limit it.
    pub fn longest_call(&self) -> Option<Duration> {
        match self.0.as_ref()?.ceiling("run_invocation_timeout")?.amount {
            Amount::Time(time) => Some(time),
            _ => None,
        }
    }
}

/// Whether an amount is above the ceiling. `None` means no bound, which is above every ceiling.
fn is_above(amount: Option<Amount>, ceiling: Amount) -> bool {
    amount.is_none_or(|amount| amount > ceiling)
}

impl PolicySettings {
    fn ceiling(&self, key: &str) -> Option<&super::file::AmountCeiling> {
        self.ceilings.iter().find(|ceiling| ceiling.key == key)
    }

    /// Refuses an amount above its ceiling if the job requests the amount. Lowers the amount to the
    /// ceiling otherwise. `raw`: the settings of the job file, or `None` if all settings count as
    /// requested.
    fn apply_ceilings(&self, spec: &mut JobSpec, raw: Option<&RawJob>, report: &ErrorReport) {
        let given = raw.map(amounts::given);
        for (key, mut slot) in amounts::of_job(spec) {
            let Some(ceiling) = self.ceiling(key) else { continue };
            if !is_above(slot.get(), ceiling.amount) {
                continue;
            }
            let most = ceiling.amount;
            let location = self.file_and_line(&ceiling.origin);
            let origin = match &given {
                None => Some(&SettingOrigin::File),
                Some(given) => given.iter().find(|(k, ..)| *k == key).map(|(.., origin)| origin),
            };
            // Azure's files give the number of retries, which is one less than the number of attempts.
            let is_retry_count = |origin: &SettingOrigin| {
                !matches!(origin, SettingOrigin::Set(_))
                    && report.name_in_file(key).ends_with("max_retries")
            };
            let shown = |amount: Amount| match (amount, origin) {
                (Amount::Count(count), Some(origin)) if is_retry_count(origin) => {
                    Amount::Count(count.saturating_sub(1))
                }
                (amount, _) => amount,
            };
            let found =
                slot.get().map_or_else(|| "no bound".to_owned(), |found| shown(found).to_string());
            if let Some(origin) = origin {
                let message = format!(
                    "found {found}, more than the operator's policy allows; ask for at most {} ({location})",
                    shown(most)
                );
                report.error(origin, key, message);
            } else {
                slot.set(most);
                // `File` means that no line of the policy file sets this ceiling. Such a ceiling is a default,
                // which needs no notice.
                if ceiling.origin != SettingOrigin::File {
                    report.notice(format!("{key}: {most} by the operator's policy ({location})"));
                }
            }
        }
        self.lower_workers(spec, report);
    }

    /// Lowers the number of workers to the machine's caps. A job never gets more workers, so the leader
    /// need not prepare for more.
    fn lower_workers(&self, spec: &mut JobSpec, report: &ErrorReport) {
        let caps = [
            (self.machine.workers, &self.machine_workers, "on this machine"),
            (self.machine.workers_per_tenant, &self.tenant_workers, "of a tenant"),
        ];
        for (most, origin, scope) in caps {
            if let (Some(most), Some(origin)) = (most, origin)
                && spec.process_count > most
            {
                report.notice(format!(
                    "process_count_per_node: {most} instead of {}, because all jobs {scope} share {most} workers \
                     by the operator's policy ({})",
                    spec.process_count,
                    self.file_and_line(origin)
                ));
                spec.process_count = most;
            }
        }
    }

    /// The job gets the tenant that the command line names. If there is none, and workers are counted by tenant, the job
    /// file may not choose the tenant.
    fn set_tenant(&self, spec: &mut JobSpec, raw: &RawJob, report: &ErrorReport) {
        if let Some(tenant) = &self.tenant {
            if let Some(given) = raw.settings.tenant.as_ref().filter(|given| given.value != *tenant)
            {
                let message = format!(
                    "found {:?}; the job runs for the tenant {tenant} (--tenant): leave the key out",
                    given.value
                );
                given.blame(report, message);
            }
            spec.settings.tenant.clone_from(tenant);
            return;
        }
        if let (Some(origin), Some(given)) = (&self.tenant_workers, &raw.settings.tenant)
            && !matches!(given.origin, SettingOrigin::Set(_))
        {
            given.blame(
                report,
                format!(
                    "found {:?} in the job file; the policy counts workers by tenant, so only the \
                     command line may set the tenant (--set tenant=NAME): leave the key out ({})",
                    given.value,
                    self.file_and_line(origin)
                ),
            );
        }
    }

    fn check_sandbox(
        &self,
        found: OsSandbox,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) {
        let strength = |mode| match mode {
            OsSandbox::Off => 0,
            OsSandbox::BestEffort => 1,
            OsSandbox::Required => 2,
        };
        if let Some(least) = &self.os_sandbox
            && strength(found) < strength(least.value)
        {
            let message = format!(
                "found {}, less than the operator's policy requires; write {}, or leave the key out \
                 ({})",
                found.name(),
                least.value.name(),
                self.file_and_line(&least.origin)
            );
            report.error(origin.unwrap_or(&SettingOrigin::File), "os_sandbox", message);
        }
    }

    fn result_of(&self, report: ErrorReport) -> Result<(), SpecErrors> {
        if report.is_clean() {
            return Ok(());
        }
        Err(report.into_errors(&self.file.display().to_string()))
    }
}
