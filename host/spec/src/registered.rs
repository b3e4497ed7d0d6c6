//! Replaces registered names in a job file by their paths, before any other check. All rules for paths thus
//! apply to them, including the operator's policy.

use super::error::ErrorReport;
use super::job::RegisteredModel;
use super::raw::{RawInput, RawJob, RawModel, RawSideInput};
use super::scope::Located;
use crate::model::{Latest, Registered, RegisteredKind, RegisteredName};

/// Looks up registered names.
pub trait Registrations {
    /// The version that a name refers to.
    ///
    /// # Errors
    /// If there is no such version, or the lookup fails.
    fn find(
        &self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Registered, NotRegistered>;

    /// What a name without a version refers to, for people.
    fn means(&self, _kind: RegisteredKind, _name: &str) -> &'static str {
        "the latest"
    }
}

/// Why a registered name was not found, as a message for people.
#[derive(Debug)]
pub enum NotRegistered {
    /// The name, or this version of it, does not exist.
    Unknown(String),
    /// The registry cannot be used.
    Failed(String),
}

/// No registry, in which all names are unknown.
#[derive(Debug)]
pub struct NoRegistry;

impl Registrations for NoRegistry {
    fn find(&self, kind: RegisteredKind, _: &RegisteredName) -> Result<Registered, NotRegistered> {
        let message = format!("there is no registry of {}s here; write path: instead", kind.word());
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
        names.input(input);
    }
    for side in raw.side_inputs.iter_mut().flat_map(|sides| &mut sides.value) {
        names.side_input(side);
    }
    if let Some(models) = &mut raw.models {
        models.value.retain_mut(|model| names.model(model));
    }
    names.latest
}

/// Advice for a path that names something in Azure: it can be registered here. For the end of a sentence.
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
    /// Resolves `dataset: NAME`, or a path of Azure.
    fn input(&mut self, input: &mut RawInput) {
        if let Some(dataset) = input.dataset.take() {
            let found = self.named(RegisteredKind::Dataset, &dataset);
            input.paths = found.map_or_else(Vec::new, |found| self.paths(&found, &dataset));
            return;
        }
        let given = std::mem::take(&mut input.paths);
        for path in given {
            match self.of_azure(RegisteredKind::Dataset, &path) {
                Some(found) => input.paths.extend(self.paths(&found, &path)),
                None => input.paths.push(path),
            }
        }
    }

    /// Resolves a path of Azure: a dataset of one folder, or a model, which Azure treats as a side input.
    fn side_input(&mut self, side: &mut RawSideInput) {
        let kinds = [RegisteredKind::Dataset, RegisteredKind::Model];
        let Some(found) = kinds.into_iter().find_map(|kind| self.of_azure(kind, &side.path)) else {
            return;
        };
        match &self.paths(&found, &side.path)[..] {
            [] => {}
            [one] => side.path.value.clone_from(&one.value),
            more => {
                let message = format!(
                    "{} has {} paths, and a side input is one folder; register that folder alone",
                    found.title(),
                    more.len()
                );
                side.path.blame(self.report, message);
            }
        }
    }

    /// Resolves `model: NAME`, or a path of Azure. Returns whether there is a model.
    fn model(&mut self, model: &mut RawModel) -> bool {
        let found = match model.model.take() {
            Some(name) => {
                model.path = name.clone();
                self.named(RegisteredKind::Model, &name)
            }
            None => match self.of_azure(RegisteredKind::Model, &model.path) {
                Some(found) => Some(found),
                // If this is a path of Azure, the check of the models' paths reports it.
                None => return true,
            },
        };
        let Some(found) = found else { return false };
        let [path] = &self.paths(&found, &model.path)[..] else { return false };
        let title = found.title();
        if let Some(version) = model.version.take() {
            let message = format!(
                "is for a path to a folder with versions; {title} is one of them already: remove it"
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

    /// Resolves a name that the job file gives as a registered name.
    fn named(&mut self, kind: RegisteredKind, given: &Located<String>) -> Option<Registered> {
        let wanted = match given.value.parse::<RegisteredName>() {
            Ok(wanted) => wanted,
            Err(error) => {
                given.blame(self.report, error.to_string());
                return None;
            }
        };
        match self.find(kind, &wanted) {
            Ok(found) => {
                self.note(kind, given, &wanted, &found);
                Some(found)
            }
            Err(NotRegistered::Unknown(message) | NotRegistered::Failed(message)) => {
                given.blame(self.report, message);
                None
            }
        }
    }

    /// Resolves a path that names something in Azure, if the registry has the same name. If it does not, the
    /// later check of the path reports the error.
    fn of_azure(&mut self, kind: RegisteredKind, path: &Located<String>) -> Option<Registered> {
        let wanted = RegisteredName::of_azure(&path.value)?;
        match self.find(kind, &wanted) {
            Ok(found) => {
                self.note(kind, path, &wanted, &found);
                Some(found)
            }
            Err(NotRegistered::Unknown(_)) => None,
            Err(NotRegistered::Failed(message)) => {
                if !self.report.blames(&path.key) {
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
        let same = |known: &&Latest| known.kind == kind && known.name == wanted.name;
        if let Some(known) = self.latest.iter().find(same) {
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

    fn note(
        &self,
        kind: RegisteredKind,
        at: &Located<String>,
        wanted: &RegisteredName,
        found: &Registered,
    ) {
        let latest = match wanted.version {
            None => format!(" ({})", self.registrations.means(kind, &wanted.name)),
            Some(_) => String::new(),
        };
        self.report.notice(format!(
            "{}: {} {}{latest}, registered by {} at {}",
            self.report.word(&at.key),
            kind.word(),
            found.title(),
            found.by,
            found.registered.strftime("%Y-%m-%d %H:%M:%SZ")
        ));
    }

    /// The paths of the version, as if they were written instead of its name.
    fn paths(&self, found: &Registered, at: &Located<String>) -> Vec<Located<String>> {
        let place = |path: &String| match &found.datastore {
            Some(datastore) => format!("datastore://{datastore}/{}", path.trim_start_matches('/')),
            None => path.clone(),
        };
        found.paths.iter().map(|path| at.clone().map(|_| place(path))).collect()
    }
}
