//! Replaces registered names in a job file by their paths, before any other check. So all rules for
//! paths, including the operator's policy, apply to these paths, too.

use super::error::ErrorReport;
use super::job::RegisteredModel;
use super::raw::{RawInput, RawJob, RawModel, RawSideInput};
use super::scope::Located;
use crate::model::{Latest, Registered, RegisteredKind, RegisteredName};

/// Looks up registered names.
pub trait Registrations {
    /// Finds the version that a name refers to.
    ///
    /// # Errors
    /// If there is no such version, or the lookup fails.
    fn find(
        &self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Registered, NotRegistered>;

    /// The version that a name without a version refers to, as a phrase in messages.
    fn means(&self, _kind: RegisteredKind, _name: &str) -> &'static str {
        "the latest"
    }
}

/// Why a registered name was not found, with the message.
#[derive(Debug)]
pub enum NotRegistered {
    /// The name, or this version of it, does not exist.
    Unknown(String),
    /// The registry cannot be used.
    Failed(String),
}

/// The absence of a registry: all names are unknown.
#[derive(Debug)]
pub struct NoRegistry;

impl Registrations for NoRegistry {
    fn find(&self, kind: RegisteredKind, _: &RegisteredName) -> Result<Registered, NotRegistered> {
        let message = format!("there is no registry of {}s here; set path instead", kind.word());
        Err(NotRegistered::Unknown(message))
    }
}

/// Replaces registered names by paths. Returns the latest versions that were used.
pub(super) fn resolve(
    raw: &mut RawJob,
    registrations: &dyn Registrations,
    report: &ErrorReport,
) -> Vec<Latest> {
    let mut names = RegisteredNames { registrations, report, latest: Vec::new() };
    for input in raw.inputs.iter_mut().flat_map(|inputs| &mut inputs.value) {
        names.resolve_input(input);
    }
    for side in raw.side_inputs.iter_mut().flat_map(|sides| &mut sides.value) {
        names.resolve_side_input(side);
    }
    if let Some(models) = &mut raw.models {
        models.value.retain_mut(|model| names.resolve_model(model));
    }
    names.latest
}

/// The end of an error message for a path that names something in Azure: advice to register it here. Empty
/// for other paths.
pub(super) fn or_register(kind: RegisteredKind, path: &str) -> String {
    let Some(wanted) = RegisteredName::of_azure(path) else { return String::new() };
    let word = kind.word();
    format!("; or register it here as {wanted} (sandmill {word} register)")
}

struct RegisteredNames<'a> {
    registrations: &'a dyn Registrations,
    report: &'a ErrorReport,
    latest: Vec<Latest>,
}

impl RegisteredNames<'_> {
    /// Resolves `dataset: NAME`, or paths in Azure (`azureml:...`).
    fn resolve_input(&mut self, input: &mut RawInput) {
        if let Some(dataset) = input.dataset.take() {
            let found = self.find_given(RegisteredKind::Dataset, &dataset);
            input.paths = found.map_or_else(Vec::new, |found| self.paths(&found, &dataset));
            return;
        }
        let given = std::mem::take(&mut input.paths);
        for path in given {
            match self.find_azure(RegisteredKind::Dataset, &path) {
                Some(found) => input.paths.extend(self.paths(&found, &path)),
                None => input.paths.push(path),
            }
        }
    }

    /// Resolves a path in Azure: a dataset with one folder, or a model, which Azure treats as a side input.
    fn resolve_side_input(&mut self, side: &mut RawSideInput) {
        let kinds = [RegisteredKind::Dataset, RegisteredKind::Model];
        let Some(found) = kinds.into_iter().find_map(|kind| self.find_azure(kind, &side.path))
        else {
            return;
        };
        match &self.paths(&found, &side.path)[..] {
            [] => {}
            [path] => side.path.value.clone_from(&path.value),
            several => {
                let message = format!(
                    "{} has {} paths, but a side input is one folder; register only that folder",
                    found.title(),
                    several.len()
                );
                side.path.blame(self.report, message);
            }
        }
    }

    /// Resolves `model: NAME`, or a path in Azure. Returns false, with an error, if the model is not found.
    fn resolve_model(&mut self, model: &mut RawModel) -> bool {
        let found = match model.model.take() {
            Some(name) => {
                model.path = name.clone();
                self.find_given(RegisteredKind::Model, &name)
            }
            None => match self.find_azure(RegisteredKind::Model, &model.path) {
                Some(found) => Some(found),
                // If this is a path in Azure, the later check of the models' paths reports it.
                None => return true,
            },
        };
        let Some(found) = found else { return false };
        let [path] = &self.paths(&found, &model.path)[..] else { return false };
        let title = found.title();
        if let Some(version) = model.version.take() {
            let message = format!(
                "is only for a path to a folder with versions, and {title} is already one version; remove it"
            );
            version.blame(self.report, message);
        }
        if let (Some(given), Some(digest)) = (&model.digest, &found.digest)
            && given.value != *digest
        {
            let message =
                format!("found {}, but {title} was registered with {digest}", given.value);
            given.blame(self.report, message);
        }
        model.digest = found.digest.map(|digest| path.clone().map(|_| digest));
        model.registered = Some(RegisteredModel { title, folder_digest: found.folder_digest });
        model.path.value.clone_from(&path.value);
        true
    }

    /// Finds the version for a name that the job file gives as a registered name.
    fn find_given(&mut self, kind: RegisteredKind, given: &Located<String>) -> Option<Registered> {
        let wanted = match given.value.parse::<RegisteredName>() {
            Ok(wanted) => wanted,
            Err(error) => {
                given.blame(self.report, error.to_string());
                return None;
            }
        };
        match self.find(kind, &wanted) {
            Ok(found) => {
                self.note_version(kind, given, &wanted, &found);
                Some(found)
            }
            Err(NotRegistered::Unknown(message) | NotRegistered::Failed(message)) => {
                given.blame(self.report, message);
                None
            }
        }
    }

    /// Finds the version for a path in Azure, if the registry has the same name. If not, the later check of
    /// the path reports the error.
    fn find_azure(&mut self, kind: RegisteredKind, path: &Located<String>) -> Option<Registered> {
        let wanted = RegisteredName::of_azure(&path.value)?;
        match self.find(kind, &wanted) {
            Ok(found) => {
                self.note_version(kind, path, &wanted, &found);
                Some(found)
            }
            Err(NotRegistered::Unknown(_)) => None,
            Err(NotRegistered::Failed(message)) => {
                if !self.report.has_error_at(&path.key) {
                    path.blame(self.report, message);
                }
                None
            }
        }
    }

    /// Finds a version. A job that uses the latest version several times gets the same one each time.
    fn find(
        &mut self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Registered, NotRegistered> {
        if wanted.version.is_some() {
            return self.registrations.find(kind, wanted);
        }
        let is_same = |known: &&Latest| known.kind == kind && known.name == wanted.name;
        if let Some(known) = self.latest.iter().find(is_same) {
            let version = Some(known.version);
            let wanted = RegisteredName { name: wanted.name.clone(), version };
            return self.registrations.find(kind, &wanted);
        }
        let found = self.registrations.find(kind, wanted)?;
        let name = found.name.clone();
        let version = found.version;
        self.latest.push(Latest { kind, name, version });
        Ok(found)
    }

    /// Adds a notice that says which version is used.
    fn note_version(
        &self,
        kind: RegisteredKind,
        given: &Located<String>,
        wanted: &RegisteredName,
        found: &Registered,
    ) {
        let latest = match wanted.version {
            None => format!(" ({})", self.registrations.means(kind, &wanted.name)),
            Some(_) => String::new(),
        };
        self.report.notice(format!(
            "{}: {} {}{latest}, registered by {} at {}",
            self.report.name_in_file(&given.key),
            kind.word(),
            found.title(),
            found.by,
            found.registered.strftime("%Y-%m-%d %H:%M:%SZ")
        ));
    }

    /// The paths of the version, as if the job file had them instead of the name.
    fn paths(&self, found: &Registered, given: &Located<String>) -> Vec<Located<String>> {
        let address = |path: &String| match &found.datastore {
            Some(datastore) => format!("datastore://{datastore}/{}", path.trim_start_matches('/')),
            None => path.clone(),
        };
        found.paths.iter().map(|path| given.clone().map(|_| address(path))).collect()
    }
}
