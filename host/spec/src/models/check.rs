//! Checks the settings of models, and finds the models' files.

use super::find::{FoundModel, find};
use crate::defaults::Defaults;
use crate::error::{ErrorReport, ModelPathError};
use crate::job::{ModelSpec, StoredKind, StoredMount};
use crate::job_file_location::JobFileLocation;
use crate::model::{
    Backend, ByteSize, DeviceChoice, GUEST_MODELS, InferenceSettings, Mount, RegisteredKind,
    is_registered_name,
};
use crate::mounts::overlap;
use crate::output::address_of;
use crate::policy;
use crate::raw::{RawJob, RawModel, RawSideInput};
use crate::registered::or_register;
use crate::uploads::not_here;
use std::collections::HashSet;
use std::path::Path;

/// Returns the models, in the order of the job file. A model that is not found is left out, with an error.
pub(crate) fn check(
    raw: &RawJob,
    side_inputs: &[Mount],
    stored: &mut Vec<StoredMount>,
    limit: ByteSize,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Vec<ModelSpec> {
    let given = raw.models.as_ref().map_or(&[][..], |models| models.value.as_slice());
    let sides = raw.side_inputs.as_ref().map_or(&[][..], |sides| sides.value.as_slice());
    refuse_overlap(given, sides, side_inputs, report);
    let mut models = Vec::new();
    let mut names = HashSet::new();
    for model in given {
        let name = &model.name.value;
        if !names.insert(name) {
            model.name.blame(report, format!("found {name:?} a second time; names must differ"));
        }
        if model.fallback.is_some() && device(model) != DeviceChoice::Gpu {
            report.notice(format!("models.{name}.fallback has no effect: device is not gpu"));
        }
        let address = address_of(&model.path, report);
        let found = match &address {
            // The object is inspected when it is fetched.
            Some(address) => {
                let file = address.to_string().into();
                Some(FoundModel { file, folder: None, bytes: 0 })
            }
            None => find_model(model, location, report),
        };
        let Some(found) = found else { continue };
        if let Some(address) = address {
            let key = model.path.key.clone();
            let kind = StoredKind::Model(models.len());
            let version = model.version.as_ref().map(|version| version.value);
            let file = model.uploaded_file.clone();
            stored.push(StoredMount { key, kind, address, version, file });
        }
        let spec = ModelSpec {
            digest: model.digest.as_ref().map(|digest| digest.value.clone()),
            digest_at: model.digest.as_ref().map(|digest| location.file_and_line(&digest.origin)),
            registered: model.registered.clone(),
            backend: model.backend.as_ref().map(|backend| backend.value).unwrap_or_default(),
            device: device(model),
            fallback: model.fallback.is_some(),
            ..ModelSpec::plain(name, found)
        };
        if let Some(message) = spec.exceeds(spec.bytes, limit) {
            model.path.blame(report, message);
        }
        models.push(spec);
    }
    models
}

impl ModelSpec {
    /// Returns this model with its path on this machine, after it was fetched from a store.
    ///
    /// # Errors
    /// If there is no ONNX file at the path.
    pub fn fetched(&self, path: &Path, version: Option<u64>) -> Result<Self, ModelPathError> {
        let FoundModel { file, folder, bytes } = find(path, version)?;
        Ok(Self { file, folder, bytes, ..self.clone() })
    }

    /// Finds the model at a path that is not from a job file, and gives the model this name.
    ///
    /// # Errors
    /// If the name is not allowed, or if there is no ONNX file at the path.
    pub fn at(name: &str, path: &Path) -> Result<Self, ModelPathError> {
        if !is_registered_name(name) {
            return Err(ModelPathError::Name { name: name.to_owned() });
        }
        let path = std::path::absolute(path)
            .map_err(|source| ModelPathError::Relative { path: path.to_owned(), source })?;
        Ok(Self::plain(name, find(&path, None)?))
    }

    /// Returns a model that has the default of every setting.
    fn plain(name: &str, FoundModel { file, folder, bytes }: FoundModel) -> Self {
        Self {
            name: name.to_owned(),
            file,
            folder,
            bytes,
            digest: None,
            digest_at: None,
            registered: None,
            backend: Backend::default(),
            device: DeviceChoice::default(),
            fallback: false,
        }
    }
}

/// The settings of inference, with defaults.
pub(crate) fn settings(raw: &RawJob, defaults: &Defaults<'_>) -> InferenceSettings {
    InferenceSettings {
        allow_guest_models: defaults.value_or_default(raw, |raw| &raw.inference.allow_guest_models),
        threads: raw.inference.threads.as_ref().map(|threads| threads.value),
        gpu_memory: raw.inference.gpu_memory.as_ref().map(|memory| memory.value),
        ..InferenceSettings::default()
    }
}

fn device(model: &RawModel) -> DeviceChoice {
    model.device.as_ref().map(|device| device.value).unwrap_or_default()
}

/// Refuses side inputs that overlap the guest's folder of a model.
fn refuse_overlap(
    models: &[RawModel],
    sides: &[RawSideInput],
    mounts: &[Mount],
    report: &ErrorReport,
) {
    let guest_folder = |model: &RawModel| format!("{GUEST_MODELS}/{}", model.name.value);
    for (side, mount) in sides.iter().zip(mounts) {
        let overlapped = models.iter().find(|model| overlap(&mount.guest, &guest_folder(model)));
        if let Some(model) = overlapped {
            let setting = side.mount_path.as_ref().unwrap_or(&side.name);
            let message = format!(
                "{} and {}, where model {} is shown, overlap; choose another path",
                mount.guest,
                guest_folder(model),
                model.name.value
            );
            setting.blame(report, message);
        }
    }
}

fn find_model(
    model: &RawModel,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<FoundModel> {
    let path = &model.path;
    let text = model.path.value.trim();
    if text.is_empty() {
        path.blame(report, "found an empty text; name an ONNX file, or a folder with one");
        return None;
    }
    if report.has_error_at(&path.key) {
        return None;
    }
    if text.starts_with("azureml:") || text.contains("${{") {
        let message = format!(
            "found {text:?}, which is not on this machine; fetch it first, and name it here \
             by --set {}=...{}",
            path.key,
            or_register(RegisteredKind::Model, text)
        );
        path.blame(report, message);
        return None;
    }
    let host = location.resolve(text);
    // Check the policy before the path is inspected. Check it again for the file that was found,
    // because a version's folder may be a link.
    let is_allowed = |file| {
        location.policy.allows(policy::FolderUse::Models, &path.key, file, &path.origin, report)
    };
    if !is_allowed(&host) {
        return None;
    }
    let version = model.version.as_ref().map(|version| version.value);
    match find(&host, version) {
        Ok(found) => is_allowed(&found.file).then_some(found),
        Err(ModelPathError::NotThere { .. }) if location.files.are_given() => {
            path.blame(report, not_here(&host));
            None
        }
        Err(error) => {
            let path_setting = (&path.origin, &path.key);
            // If the path exists, the error is about the version.
            let version = model.version.as_ref().filter(|_| host.exists());
            let (origin, key) =
                version.map_or(path_setting, |version| (&version.origin, &version.key));
            report.error(origin, key, error.to_string());
            None
        }
    }
}
