//! `models` and `inference`, as written.

use super::values::{choice, digest};
use crate::error::ErrorReport;
use crate::job::RegisteredModel;
use crate::keys;
use crate::model::{Backend, ByteSize, DeviceChoice, is_registered_name};
use crate::scope::{Located, UnreadNames};

/// A model with a valid name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawModel {
    pub(crate) name: Located<String>,
    /// Empty if `model` is given, until the registry is queried.
    pub(crate) path: Located<String>,
    /// A registered name, instead of a path.
    pub(crate) model: Option<Located<String>>,
    /// The registered model, once the registry was queried.
    pub(crate) registered: Option<RegisteredModel>,
    /// The file of the model, if the path is a folder that a submitter has uploaded it to.
    pub(crate) uploaded_file: Option<String>,
    pub(crate) version: Option<Located<u64>>,
    pub(crate) digest: Option<Located<String>>,
    pub(crate) backend: Option<Located<Backend>>,
    pub(crate) device: Option<Located<DeviceChoice>>,
    pub(crate) fallback: Option<Located<()>>,
}

/// The settings of inference.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawInference {
    pub(crate) allow_guest_models: Option<Located<bool>>,
    pub(crate) threads: Option<Located<u32>>,
    pub(crate) gpu_memory: Option<Located<ByteSize>>,
}

/// Reads `models`.
pub(crate) fn read(
    job: &mut UnreadNames<'_>,
    report: &ErrorReport,
) -> Option<Located<Vec<RawModel>>> {
    let groups = job.named("models")?;
    Some(groups.map(|groups| {
        groups.into_iter().filter_map(|(name, scope)| model(name, scope, report)).collect()
    }))
}

fn model(
    name: Located<String>,
    mut scope: UnreadNames<'_>,
    report: &ErrorReport,
) -> Option<RawModel> {
    if scope.has("path") == scope.has("model") {
        let message = if scope.has("path") {
            "found path and model; write only one of them"
        } else {
            "has no path; set path to an ONNX file or a folder with one, or model to a \
             registered name"
        };
        report.error(&scope.origin, &scope.path, message);
    }
    let path = scope.text("path");
    let model = scope.text("model");
    let version = scope.setting("version");
    let digest = scope.parsed_by("digest", digest);
    let backend = scope.parsed_by("backend", |_, text| {
        choice(text, &Backend::ALL.map(|backend| (backend.name(), backend)))
    });
    let device = scope.parsed_by("device", |_, text| {
        choice(text, &DeviceChoice::ALL.map(|device| (device.name(), device)))
    });
    let fallback = scope.parsed_by("fallback", |_, text| choice(text, &[("cpu", ())]));
    scope.report_unread();
    let is_name_valid = is_registered_name(&name.value);
    if !is_name_valid {
        let expected = keys::MODEL_NAME_EXPECTED;
        name.blame(report, format!("found the name {:?}; expected {expected}", name.value));
    }
    let path = path.or_else(|| model.clone().map(|model| model.map(|_| String::new())))?;
    let registered = None;
    is_name_valid.then_some(RawModel {
        name,
        path,
        model,
        registered,
        uploaded_file: None,
        version,
        digest,
        backend,
        device,
        fallback,
    })
}

/// Reads `inference`.
pub(crate) fn read_inference(job: &mut UnreadNames<'_>) -> RawInference {
    let Some(mut group) = job.group("inference") else { return RawInference::default() };
    let allow_guest_models = group.bool("allow_guest_models");
    RawInference { allow_guest_models, ..amounts(group) }
}

/// Reads the ceilings in `inference` of a policy.
pub(crate) fn read_ceilings(policy: &mut UnreadNames<'_>) -> RawInference {
    policy.group("inference").map(amounts).unwrap_or_default()
}

fn amounts(mut group: UnreadNames<'_>) -> RawInference {
    let raw = RawInference {
        allow_guest_models: None,
        threads: group.setting("threads"),
        gpu_memory: group.setting("gpu_memory"),
    };
    group.report_unread();
    raw
}
