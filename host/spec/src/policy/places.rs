//! Checks the paths that a job names against the policy's roots.

use super::file::PolicySettings;
use super::folder_use::FolderUse;
use super::real::real_path;
use super::roots::allows_stored_scripts;
use crate::error::{ErrorReport, SettingOrigin};
use crate::model::{Address, Source};
use crate::opening::regular;
use crate::raw::{RawInput, RawJob, RawSideInput};
use crate::scope::Located;
use crate::{JobSpec, JobStorePlace, ModelSpec, StoredKind};
use std::io::Read;
use std::path::Path;

impl PolicySettings {
    /// Refuses a path that leads out of the roots for its use. `origin`: where the job file names the path.
    /// Returns whether the path is allowed.
    pub(super) fn check_path(
        &self,
        folder_use: FolderUse,
        key: &str,
        path: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) -> bool {
        let origin = origin.unwrap_or(&SettingOrigin::File);
        self.check_path_if(folder_use, key, path, origin, report, |_| true)
    }

    /// Like [`check_path`](Self::check_path), for a path that the job later opens without following links:
    /// the path must not contain links.
    pub(super) fn check_real_path(
        &self,
        folder_use: FolderUse,
        key: &str,
        path: &Path,
        report: &ErrorReport,
    ) -> bool {
        self.check_path_if(folder_use, key, path, &SettingOrigin::File, report, |real| real == path)
    }

    fn check_path_if(
        &self,
        folder_use: FolderUse,
        key: &str,
        path: &Path,
        origin: &SettingOrigin,
        report: &ErrorReport,
        is_valid: impl Fn(&Path) -> bool,
    ) -> bool {
        let Some(roots) = &self.roots else { return true };
        let root = roots.0.iter().find(|root| root.folder_use.key() == folder_use.key());
        let allowed = root.map_or(&[][..], |root| root.folders.as_slice());
        let found = match real_path(path) {
            Ok(real)
                if is_valid(&real) && allowed.iter().any(|folder| real.starts_with(folder)) =>
            {
                return true;
            }
            Ok(real) if is_valid(&real) && self.is_uploaded(folder_use, &real) => return true,
            Ok(real) if real == path => format!("found {}", path.display()),
            Ok(real) => format!("found {}, which is {}", path.display(), real.display()),
            Err(error) => error.to_string(),
        };
        let folders: Vec<String> =
            allowed.iter().map(|folder| folder.display().to_string()).collect();
        let rule = match folders.is_empty() {
            true => format!("allows no {}", folder_use.phrase()),
            false => format!("allows {} only below {}", folder_use.phrase(), folders.join(", ")),
        };
        let location = root.map_or_else(
            || self.file_and_line(&SettingOrigin::File),
            |root| self.file_and_line(&root.origin),
        );
        let message = format!("{found}; the operator's policy {rule} ({location})");
        report.error(origin, key, message);
        false
    }

    /// Checks the paths that a job file names. An error is reported at the line that names the path.
    pub(super) fn check_file_paths(&self, spec: &JobSpec, raw: &RawJob, report: &ErrorReport) {
        let origin_of =
            |given: &Option<Located<String>>| given.as_ref().map(|given| given.origin.clone());
        let origin = origin_of(&raw.entry_script);
        match &spec.fetched.entry_script {
            Some(fetched) => self.check_fetched_script(fetched, origin.as_ref(), report),
            None => self.check_entry_script(&spec.entry_script, origin.as_ref(), report),
        }
        let is_here = spec.fetched.source_directory.is_none();
        let source = spec.source_directory.as_ref().filter(|_| is_here);
        if let (Some(folder), Some(given)) = (source, &raw.source_directory) {
            self.check_path(
                FolderUse::EntryScripts,
                &given.key,
                folder,
                Some(&given.origin),
                report,
            );
        }
        let given: &[RawSideInput] = raw.side_inputs.as_ref().map_or(&[], |given| &given.value);
        for (index, (mount, side)) in spec.side_inputs.iter().zip(given).enumerate() {
            if spec.stored_at(StoredKind::SideInput(index)).is_some() {
                continue;
            }
            let origin = Some(&side.path.origin);
            self.check_path(FolderUse::SideInputs, &side.path.key, &mount.host, origin, report);
        }
        let given: &[RawInput] = raw.inputs.as_ref().map_or(&[], |given| &given.value);
        for (input, raw) in spec.inputs.iter().zip(given) {
            for path in &input.paths {
                if Address::looks_like_one(path) {
                    continue;
                }
                // `input.paths` has no malformed paths, so the two lists may differ. If the path's line is
                // not found, the error is reported at the input's line.
                let given = raw.paths.iter().find(|given| path.ends_with(given.value.trim()));
                let (key, origin) = match given {
                    Some(given) => (&given.key, &given.origin),
                    None => (&raw.name.key, &raw.name.origin),
                };
                self.check_path(FolderUse::Inputs, key, fixed_part(path), Some(origin), report);
            }
        }
        if let (Some(folder), Some(given)) = (&spec.output, &raw.output) {
            self.check_path(FolderUse::Outputs, &given.key, folder, Some(&given.origin), report);
        }
        let store = spec.job_store.as_ref().and_then(JobStorePlace::folder);
        if let (Some(store), Some(given)) = (store, &raw.job_store) {
            self.check_path(FolderUse::JobStores, &given.key, store, Some(&given.origin), report);
        }
        if let (Some(parent), Some(given)) = (&spec.parent, &raw.parent) {
            self.check_path(
                FolderUse::Outputs,
                &given.key,
                &parent.folder,
                Some(&given.origin),
                report,
            );
        }
    }

    /// Checks the paths that a job reads and writes. Only the paths of models may contain links
    /// here. `check_model_places` checks their targets later.
    pub(super) fn check_job_paths(&self, spec: &JobSpec, sources: &[Source], report: &ErrorReport) {
        let folder_use = FolderUse::EntryScripts;
        if spec.fetched.entry_script.is_some() {
            self.check_fetched_script(&spec.entry_script, None, report);
        } else {
            self.check_real_path(folder_use, "entry_script", &spec.entry_script, report);
            self.check_entry_script_kind(&spec.entry_script, None, report);
        }
        let is_here = spec.fetched.source_directory.is_none();
        if let Some(folder) = spec.source_directory.as_ref().filter(|_| is_here) {
            self.check_real_path(folder_use, "source_directory", folder, report);
        }
        for (index, mount) in spec.side_inputs.iter().enumerate() {
            if spec.stored_at(StoredKind::SideInput(index)).is_some() {
                continue;
            }
            let key = format!("the side input at {}", mount.guest);
            self.check_real_path(FolderUse::SideInputs, &key, &mount.host, report);
        }
        let models = spec.models.iter().enumerate();
        let models =
            models.filter(|(index, _)| spec.stored_at(StoredKind::Model(*index)).is_none());
        self.check_model_paths(models.map(|(_, model)| model), report);
        let is_fetched = |source: &&Source| {
            let mut inputs = spec.inputs.iter();
            inputs.any(|it| it.name == source.dataset && it.addresses().next().is_some())
        };
        for source in sources.iter().filter(|source| !is_fetched(source)) {
            let key = format!("input '{}'", source.dataset);
            self.check_real_path(FolderUse::Inputs, &key, &source.root, report);
        }
        if let Some(folder) = &spec.output {
            self.check_real_path(FolderUse::Outputs, "output", folder, report);
        }
        if let Some(store) = spec.job_store.as_ref().and_then(JobStorePlace::folder) {
            self.check_real_path(FolderUse::JobStores, "job_store", store, report);
        }
        if let Some(parent) = &spec.parent {
            self.check_real_path(FolderUse::Outputs, "parent", &parent.folder, report);
        }
    }

    /// Checks the paths of models.
    pub(super) fn check_model_paths<'a>(
        &self,
        models: impl IntoIterator<Item = &'a ModelSpec>,
        report: &ErrorReport,
    ) {
        for model in models {
            let key = format!("models.{}.path", model.name);
            let mut paths = model.folder.iter().chain([&model.file]);
            // Report only one error for each model.
            let _ = paths.all(|path| self.check_path(FolderUse::Models, &key, path, None, report));
        }
    }

    /// Checks the path of the entry script, and whether a script of its kind is allowed.
    pub(super) fn check_entry_script(
        &self,
        path: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) {
        self.check_path(FolderUse::EntryScripts, "entry_script", path, origin, report);
        self.check_entry_script_kind(path, origin, report);
    }

    /// Checks an entry script that was fetched from the job's store.
    fn check_fetched_script(
        &self,
        path: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) {
        if let Some(refusal) = self.refusal_of_stored_scripts() {
            let origin = origin.unwrap_or(&SettingOrigin::File);
            report.error(
                origin,
                "entry_script",
                format!("found one in the job's store; {refusal}"),
            );
        }
        self.check_entry_script_kind(path, origin, report);
    }

    /// Why entry scripts may not come from a job's store. `None` if they may. If the policy has roots, only scripts of
    /// these folders run, unless the policy says otherwise.
    pub(super) fn refusal_of_stored_scripts(&self) -> Option<String> {
        let rule = self.entry_script_stores.as_ref();
        let is_allowed = allows_stored_scripts(rule, self.roots.as_ref());
        let origin = rule.map_or(&SettingOrigin::File, |rule| &rule.origin);
        (!is_allowed).then(|| {
            format!(
                "the operator's policy allows entry scripts only below its roots (entry_script_stores is not true, {})",
                self.file_and_line(origin)
            )
        })
    }

    fn check_entry_script_kind(
        &self,
        path: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) {
        let refuse =
            |what: &str, advice: &str, setting: &str, rule_origin: Option<&SettingOrigin>| {
                let message = format!(
                    "found {}, {what}; the operator's policy allows none{advice} ({setting}, {})",
                    path.display(),
                    self.file_and_line(rule_origin.unwrap_or(&SettingOrigin::File))
                );
                report.error(origin.unwrap_or(&SettingOrigin::File), "entry_script", message);
            };
        let crates = &self.entry_script_crates;
        let modules = &self.entry_script_modules;
        if !crates.as_ref().is_some_and(|allowed| allowed.value) && path.is_dir() {
            let advice = ", because its build scripts would run on this machine: build it elsewhere, and \
                          name the component";
            let rule_origin = crates.as_ref().map(|rule| &rule.origin);
            refuse("a guest crate", advice, "entry_script_crates", rule_origin);
        }
        if let Some(rule) = modules.as_ref().filter(|allowed| !allowed.value)
            && is_module(path)
        {
            let advice =
                ": make a component of it with `sandmill build` elsewhere, and name the component";
            refuse("a core module", advice, "entry_script_modules", Some(&rule.origin));
        }
    }
}

/// The part of an input's path before its first wildcard. If the path exists as written, its characters are
/// not wildcards, so it is returned whole.
pub(crate) fn fixed_part(path: &str) -> &Path {
    if Path::new(path).symlink_metadata().is_ok() {
        return Path::new(path);
    }
    let mut end = 0;
    for part in path.split_inclusive('/') {
        if part.contains(['*', '?', '[', '{']) {
            return Path::new(&path[..end]);
        }
        end += part.len();
    }
    Path::new(path)
}

/// Whether a file starts with the header of a core module. A file that cannot be read is refused elsewhere.
fn is_module(path: &Path) -> bool {
    let mut head = [0; 8];
    regular(path).is_ok_and(|(mut file, _)| file.read_exact(&mut head).is_ok())
        && head == *b"\0asm\x01\0\0\0"
}
