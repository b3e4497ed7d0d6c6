//! Checks a job's settings against the policy's ceilings.

use super::amounts;
use super::file::{OperatorPolicy, PolicySettings};
use super::folder_use::FolderUse;
use super::places::fixed_part;
use crate::error::{ErrorReport, SettingOrigin, SpecErrors};
use crate::given_settings::GivenLimits;
use crate::measured::Amount;
use crate::model::{JobDir, JobLimits, Limits, OsSandbox, RegisteredKind, Source};
use crate::raw::RawJob;
use crate::{JobSpec, ModelSpec};
use std::path::Path;
use std::time::Duration;

impl OperatorPolicy {
    /// Checks a job against the policy. A setting of the job file that exceeds the policy is an error in the
    /// report. A setting that the job file leaves out is lowered, with a notice.
    pub(crate) fn apply(&self, spec: &mut JobSpec, raw: &RawJob, report: &ErrorReport) {
        let Some(settings) = &self.0 else { return };
        settings.bound(spec, Some(raw), report);
        let asked = raw.settings.os_sandbox.as_ref().map(|at| &at.origin);
        settings.sandbox(spec.worker.os_sandbox, asked, report);
        settings.places_of_file(spec, raw, report);
        settings.models(&spec.models, Some(raw), report);
        settings.guest_models(&spec.inference, Some(raw), report);
        settings.stores(spec, Some(raw), report);
        settings.tenant(raw, report);
        spec.notices.extend(report.take_notices());
    }

    /// Checks a job again just before it begins, regardless of where its settings come from. Unlike `apply`,
    /// this also checks what the inputs have been resolved to and, if there is one, the job directory. All
    /// paths must be free of links, because the job later opens the same paths.
    ///
    /// # Errors
    /// Everything that the policy does not allow.
    pub fn check(
        &self,
        spec: &JobSpec,
        sources: &[Source],
        job_dir: Option<&JobDir>,
    ) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.bound(&mut spec.clone(), None, &report);
        settings.sandbox(spec.worker.os_sandbox, None, &report);
        settings.places_of_job(spec, sources, &report);
        settings.models(&spec.models, None, &report);
        settings.guest_models(&spec.inference, None, &report);
        settings.stores(spec, None, &report);
        if let Some(job_dir) = job_dir {
            settings.real_place(FolderUse::JobDirectories, "--job-dir", job_dir.root(), &report);
        }
        settings.done(report)
    }

    /// Checks whether an entry script with these files and side inputs may be built, inspected and run
    /// outside of a job.
    ///
    /// # Errors
    /// Everything that the policy does not allow.
    pub fn check_trial<'a>(
        &self,
        entry_script: &Path,
        files: impl IntoIterator<Item = &'a Path>,
        side_inputs: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.entry_script(entry_script, None, &report);
        for file in files {
            settings.place(FolderUse::Inputs, "--run", file, None, &report);
        }
        for folder in side_inputs {
            settings.place(FolderUse::SideInputs, "--side-input", folder, None, &report);
        }
        settings.done(report)
    }

    /// Checks whether a job may use the stores that it names. The caller must do this before it opens any of
    /// them.
    ///
    /// # Errors
    /// Everything that the policy does not allow.
    pub fn check_stores(&self, spec: &JobSpec) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.stores(spec, None, &report);
        settings.done(report)
    }

    /// Checks whether an entry script may compute with these models outside of a job.
    ///
    /// # Errors
    /// Everything that the policy does not allow.
    pub fn check_models(&self, models: &[ModelSpec]) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.models(models, None, &report);
        settings.places_of_models(models, &report);
        settings.done(report)
    }

    /// Checks whether models may be at these paths, each given with its model's name. The paths must be free
    /// of links, because they are opened unchanged.
    ///
    /// # Errors
    /// Everything that the policy does not allow.
    pub fn check_model_places<'a>(
        &self,
        places: impl IntoIterator<Item = (&'a str, &'a Path)>,
    ) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        for (name, path) in places {
            let key = format!("models.{name}.path");
            settings.real_place(FolderUse::Models, &key, path, &report);
        }
        settings.done(report)
    }

    /// Checks whether a dataset or model at these paths may be registered.
    ///
    /// # Errors
    /// Everything that the policy does not allow.
    pub fn check_registered<'a>(
        &self,
        kind: RegisteredKind,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        for path in paths {
            let (place, path) = match kind {
                RegisteredKind::Dataset => (FolderUse::Inputs, fixed_part(path)),
                RegisteredKind::Model => (FolderUse::Models, Path::new(path)),
            };
            settings.place(place, "path", path, None, &report);
        }
        settings.done(report)
    }

    /// Checks whether a dataset or model in the datastore of that name may be registered.
    ///
    /// # Errors
    /// If the policy does not allow it.
    pub fn check_datastore(&self, name: &str) -> Result<(), SpecErrors> {
        let Some(settings) = &self.0 else { return Ok(()) };
        let report = ErrorReport::default();
        settings.registered_store(name, &report);
        settings.done(report)
    }

    /// Whether a file that a job names may be read. A file counts as the thing that it stands for: the file
    /// of an Azure component counts as the entry script that the component names. If not, adds an error to
    /// the report.
    pub(crate) fn allows(
        &self,
        place: FolderUse,
        key: &str,
        file: &Path,
        origin: &SettingOrigin,
        report: &ErrorReport,
    ) -> bool {
        let Some(settings) = &self.0 else { return true };
        settings.place(place, key, file, Some(origin), report)
    }

    /// Whether the file of settings beside the entry script may be read, or does not exist. If not, adds an
    /// error to the report.
    pub(crate) fn allows_settings(
        &self,
        file: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) -> bool {
        let Some(settings) = &self.0 else { return true };
        file.symlink_metadata().is_err()
            || settings.place(FolderUse::EntryScripts, "entry_script", file, origin, report)
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

    /// The process wall that a job gets: what it asks for, or what the operator requires if that is stricter.
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

/// An amount of `None` has no bound, so it is above every ceiling.
fn is_above(amount: Option<Amount>, ceiling: Amount) -> bool {
    amount.is_none_or(|amount| amount > ceiling)
}

impl PolicySettings {
    fn ceiling(&self, key: &str) -> Option<&super::file::AmountCeiling> {
        self.ceilings.iter().find(|ceiling| ceiling.key == key)
    }

    /// `raw`: the settings of the job file. Without it, all settings count as requested by the user.
    fn bound(&self, spec: &mut JobSpec, raw: Option<&RawJob>, report: &ErrorReport) {
        let given = raw.map(amounts::given);
        for (key, mut slot) in amounts::of_job(spec) {
            let Some(ceiling) = self.ceiling(key) else { continue };
            if !is_above(slot.get(), ceiling.amount) {
                continue;
            }
            let most = ceiling.amount;
            let place = self.at(&ceiling.origin);
            let asked = match &given {
                None => Some(&SettingOrigin::File),
                Some(given) => given.iter().find(|(k, ..)| *k == key).map(|(.., origin)| origin),
            };
            // Azure's files count retries, without the first try.
            let is_of_retries = |origin: &SettingOrigin| {
                !matches!(origin, SettingOrigin::Set(_))
                    && report.word(key).ends_with("max_retries")
            };
            let shown = |amount: Amount| match (amount, asked) {
                (Amount::Count(count), Some(origin)) if is_of_retries(origin) => {
                    Amount::Count(count.saturating_sub(1))
                }
                (amount, _) => amount,
            };
            let found =
                slot.get().map_or_else(|| "no bound".to_owned(), |found| shown(found).to_string());
            if let Some(origin) = asked {
                let message = format!(
                    "found {found}, more than the operator's policy allows; ask for at most {} ({place})",
                    shown(most)
                );
                report.error(origin, key, message);
            } else {
                slot.set(most);
                // A ceiling that the policy file does not set itself is a default. A notice would not be news
                // to the user.
                if ceiling.origin != SettingOrigin::File {
                    report.notice(format!("{key}: {most} by the operator's policy ({place})"));
                }
            }
        }
        self.lower_workers(spec, report);
    }

    /// Lowers the number of workers to the machine's caps. A job would never get more, so preparing for more
    /// would be useless.
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
                    "process_count_per_node: {most} instead of {}, as all jobs {scope} share {most} workers \
                     by the operator's policy ({})",
                    spec.process_count,
                    self.at(origin)
                ));
                spec.process_count = most;
            }
        }
    }

    /// If workers are counted by tenant, the job file may not choose the tenant.
    fn tenant(&self, raw: &RawJob, report: &ErrorReport) {
        if let (Some(origin), Some(given)) = (&self.tenant_workers, &raw.settings.tenant)
            && !matches!(given.origin, SettingOrigin::Set(_))
        {
            given.blame(
                report,
                format!(
                    "found {:?} in the job file; workers are counted by tenant here, so only the \
                     command line names it (--set tenant=NAME): leave the key out ({})",
                    given.value,
                    self.at(origin)
                ),
            );
        }
    }

    fn sandbox(&self, found: OsSandbox, origin: Option<&SettingOrigin>, report: &ErrorReport) {
        let strength = |mode| match mode {
            OsSandbox::Off => 0,
            OsSandbox::BestEffort => 1,
            OsSandbox::Required => 2,
        };
        if let Some(least) = &self.os_sandbox
            && strength(found) < strength(least.value)
        {
            let message = format!(
                "found {}, less than the operator's policy asks for; write {}, or leave the key out \
                 ({})",
                found.name(),
                least.value.name(),
                self.at(&least.origin)
            );
            report.error(origin.unwrap_or(&SettingOrigin::File), "os_sandbox", message);
        }
    }

    fn done(&self, report: ErrorReport) -> Result<(), SpecErrors> {
        if report.is_clean() {
            return Ok(());
        }
        Err(report.into_errors(&self.file.display().to_string()))
    }
}
