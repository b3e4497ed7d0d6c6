//! Checks the paths that a job names against the policy's roots.

use super::file::PolicySettings;
use super::folder_use::FolderUse;
use super::real::real_path;
use crate::error::{ErrorReport, SettingOrigin};
use crate::model::{Address, Source};
use crate::opening::regular;
use crate::raw::{RawInput, RawJob, RawSideInput};
use crate::scope::Located;
use crate::{JobSpec, ModelSpec, StoredKind};
use std::io::Read;
use std::path::Path;

impl PolicySettings {
    /// Refuses a path that leads out of the roots for its kind. `origin`: where the job file names it.
    /// Returns whether the path is allowed.
    pub(super) fn place(
        &self,
        place: FolderUse,
        key: &str,
        path: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) -> bool {
        let origin = origin.unwrap_or(&SettingOrigin::File);
        self.check_place(place, key, path, origin, report, |_| true)
    }

    /// The same for a path that the job later opens without following links: the path must itself be free of
    /// links.
    pub(super) fn real_place(
        &self,
        place: FolderUse,
        key: &str,
        path: &Path,
        report: &ErrorReport,
    ) -> bool {
        self.check_place(place, key, path, &SettingOrigin::File, report, |real| real == path)
    }

    fn check_place(
        &self,
        place: FolderUse,
        key: &str,
        path: &Path,
        origin: &SettingOrigin,
        report: &ErrorReport,
        fits: impl Fn(&Path) -> bool,
    ) -> bool {
        let Some(roots) = &self.roots else { return true };
        let root = roots.0.iter().find(|root| root.place.key() == place.key());
        let allowed = root.map_or(&[][..], |root| root.folders.as_slice());
        let found = match real_path(path) {
            Ok(real) if fits(&real) && allowed.iter().any(|folder| real.starts_with(folder)) => {
                return true;
            }
            Ok(real) if real == path => format!("found {}", path.display()),
            Ok(real) => format!("found {}, which is {}", path.display(), real.display()),
            Err(why) => why.to_string(),
        };
        let folders: Vec<String> =
            allowed.iter().map(|folder| folder.display().to_string()).collect();
        let rule = match folders.is_empty() {
            true => format!("allows no {}", place.words()),
            false => format!("allows {} only below {}", place.words(), folders.join(", ")),
        };
        let at = root.map_or_else(|| self.at(&SettingOrigin::File), |root| self.at(&root.origin));
        let message = format!("{found}; the operator's policy {rule} ({at})");
        report.error(origin, key, message);
        false
    }

    /// Checks the paths that a job file names. An error is reported at the line that names the path.
    pub(super) fn places_of_file(&self, spec: &JobSpec, raw: &RawJob, report: &ErrorReport) {
        let at = |given: &Option<Located<String>>| given.as_ref().map(|at| at.origin.clone());
        self.entry_script(&spec.entry_script, at(&raw.entry_script).as_ref(), report);
        if let (Some(folder), Some(given)) = (&spec.source_directory, &raw.source_directory) {
            self.place(FolderUse::EntryScripts, &given.key, folder, Some(&given.origin), report);
        }
        let given: &[RawSideInput] = raw.side_inputs.as_ref().map_or(&[], |given| &given.value);
        for (index, (mount, side)) in spec.side_inputs.iter().zip(given).enumerate() {
            if spec.stored_at(StoredKind::SideInput(index)).is_some() {
                continue;
            }
            let origin = Some(&side.path.origin);
            self.place(FolderUse::SideInputs, &side.path.key, &mount.host, origin, report);
        }
        let given: &[RawInput] = raw.inputs.as_ref().map_or(&[], |given| &given.value);
        for (input, raw) in spec.inputs.iter().zip(given) {
            for path in &input.paths {
                if Address::looks_like_one(path) {
                    continue;
                }
                // Malformed paths are not part of the input. An error in a path without a line of its own is
                // reported at the input's line.
                let one = raw.paths.iter().find(|at| path.ends_with(at.value.trim()));
                let (key, origin) = match one {
                    Some(at) => (&at.key, &at.origin),
                    None => (&raw.name.key, &raw.name.origin),
                };
                self.place(FolderUse::Inputs, key, fixed_part(path), Some(origin), report);
            }
        }
        if let (Some(folder), Some(given)) = (&spec.output, &raw.output) {
            self.place(FolderUse::Outputs, &given.key, folder, Some(&given.origin), report);
        }
        if let (Some(parent), Some(given)) = (&spec.parent, &raw.parent) {
            self.place(FolderUse::Outputs, &given.key, &parent.folder, Some(&given.origin), report);
        }
    }

    /// Checks the paths, without links, that a job reads and writes. Paths of models may be links here.
    /// `check_model_places` checks their targets later.
    pub(super) fn places_of_job(&self, spec: &JobSpec, sources: &[Source], report: &ErrorReport) {
        self.real_place(FolderUse::EntryScripts, "entry_script", &spec.entry_script, report);
        self.kind_of_entry_script(&spec.entry_script, None, report);
        if let Some(folder) = &spec.source_directory {
            self.real_place(FolderUse::EntryScripts, "source_directory", folder, report);
        }
        for (index, mount) in spec.side_inputs.iter().enumerate() {
            if spec.stored_at(StoredKind::SideInput(index)).is_some() {
                continue;
            }
            let key = format!("the side input at {}", mount.guest);
            self.real_place(FolderUse::SideInputs, &key, &mount.host, report);
        }
        let models = spec.models.iter().enumerate();
        let models =
            models.filter(|(index, _)| spec.stored_at(StoredKind::Model(*index)).is_none());
        self.places_of_models(models.map(|(_, model)| model), report);
        let fetched = |source: &&Source| {
            let mut inputs = spec.inputs.iter();
            inputs.any(|it| it.name == source.dataset && it.addresses().next().is_some())
        };
        for source in sources.iter().filter(|source| !fetched(source)) {
            let key = format!("input '{}'", source.dataset);
            self.real_place(FolderUse::Inputs, &key, &source.root, report);
        }
        if let Some(folder) = &spec.output {
            self.real_place(FolderUse::Outputs, "output", folder, report);
        }
        if let Some(parent) = &spec.parent {
            self.real_place(FolderUse::Outputs, "parent", &parent.folder, report);
        }
    }

    /// Checks where models are.
    pub(super) fn places_of_models<'a>(
        &self,
        models: impl IntoIterator<Item = &'a ModelSpec>,
        report: &ErrorReport,
    ) {
        for model in models {
            let key = format!("models.{}.path", model.name);
            let mut paths = model.folder.iter().chain([&model.file]);
            // Report only one error for each model.
            let _ = paths.all(|path| self.place(FolderUse::Models, &key, path, None, report));
        }
    }

    /// Checks where the entry script is, and of which kind.
    pub(super) fn entry_script(
        &self,
        path: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) {
        self.place(FolderUse::EntryScripts, "entry_script", path, origin, report);
        self.kind_of_entry_script(path, origin, report);
    }

    fn kind_of_entry_script(
        &self,
        path: &Path,
        origin: Option<&SettingOrigin>,
        report: &ErrorReport,
    ) {
        let refused = |what: &str, why: &str, setting: &str, at: Option<&SettingOrigin>| {
            let message = format!(
                "found {}, {what}; the operator's policy allows none{why} ({setting}, {})",
                path.display(),
                self.at(at.unwrap_or(&SettingOrigin::File))
            );
            report.error(origin.unwrap_or(&SettingOrigin::File), "entry_script", message);
        };
        let crates = &self.entry_script_crates;
        let modules = &self.entry_script_modules;
        if !crates.as_ref().is_some_and(|allowed| allowed.value) && path.is_dir() {
            let why = ", as its build scripts would run on this machine: build it elsewhere, and \
                       name the component";
            let at = crates.as_ref().map(|at| &at.origin);
            refused("a guest crate", why, "entry_script_crates", at);
        }
        if let Some(at) = modules.as_ref().filter(|allowed| !allowed.value)
            && is_module(path)
        {
            let why = ": make a component of it with `sandmill build` elsewhere, and name that";
            refused("a core module", why, "entry_script_modules", Some(&at.origin));
        }
    }
}

/// The part of an input's path before its first wildcard. A path that exists as written has no wildcards.
pub(super) fn fixed_part(path: &str) -> &Path {
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

/// Whether a file begins as a core module does. A file that cannot be read is refused elsewhere.
fn is_module(path: &Path) -> bool {
    let mut head = [0; 8];
    regular(path).is_ok_and(|(mut file, _)| file.read_exact(&mut head).is_ok())
        && head == *b"\0asm\x01\0\0\0"
}
