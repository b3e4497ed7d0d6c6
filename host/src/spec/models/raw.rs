//! `models` and `inference` as written.

use crate::model::{Backend, ByteSize, DeviceChoice, is_registered_name};
use crate::spec::error::Report;
use crate::spec::keys;
use crate::spec::raw::{at_least, choice, digest};
use crate::spec::registered::RegisteredModel;
use crate::spec::scope::{At, Scope};

/// A model, with a name that is one.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::spec) struct RawModel {
    pub(in crate::spec) name: At<String>,
    /// Empty where `model` is given, until that is looked up.
    pub(in crate::spec) path: At<String>,
    /// A registered name, in the place of a path.
    pub(in crate::spec) model: Option<At<String>>,
    /// What it was when it was registered.
    pub(in crate::spec) registered: Option<RegisteredModel>,
    pub(in crate::spec) version: Option<At<u64>>,
    pub(in crate::spec) digest: Option<At<String>>,
    pub(in crate::spec) backend: Option<At<Backend>>,
    pub(in crate::spec) device: Option<At<DeviceChoice>>,
    pub(in crate::spec) fallback: Option<At<()>>,
}

/// What inference may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::spec) struct RawInference {
    pub(in crate::spec) allow_guest_models: Option<At<bool>>,
    pub(in crate::spec) threads: Option<At<u32>>,
    pub(in crate::spec) gpu_memory: Option<At<ByteSize>>,
}

/// Reads `models`.
pub(in crate::spec) fn read(job: &mut Scope<'_>, report: &Report) -> Option<At<Vec<RawModel>>> {
    let groups = job.named("models")?;
    Some(groups.map(|groups| {
        groups.into_iter().filter_map(|(name, scope)| model(name, scope, report)).collect()
    }))
}

fn model(name: At<String>, mut scope: Scope<'_>, report: &Report) -> Option<RawModel> {
    if scope.has("path") == scope.has("model") {
        let message = if scope.has("path") {
            "found path and model; write one of them"
        } else {
            "has no path; write path: with an ONNX file or a folder with one, or model: with a \
             registered name"
        };
        report.error(&scope.origin, &scope.path, message);
    }
    let path = scope.text("path");
    let model = scope.text("model");
    let version = scope.parsed("version");
    let digest = scope.parsed_by("digest", digest);
    let backend = scope.parsed_by("backend", |_, text| {
        choice(text, &Backend::ALL.map(|backend| (backend.name(), backend)))
    });
    let device = scope.parsed_by("device", |_, text| {
        choice(text, &DeviceChoice::ALL.map(|device| (device.name(), device)))
    });
    let fallback = scope.parsed_by("fallback", |_, text| choice(text, &[("cpu", ())]));
    scope.finish();
    let name_fits = is_registered_name(&name.value);
    if !name_fits {
        let expected = keys::MODEL_NAME_EXPECTED;
        name.blame(report, format!("found the name {:?}; expected {expected}", name.value));
    }
    let path = path.or_else(|| model.clone().map(|model| model.map(|_| String::new())))?;
    let registered = None;
    name_fits.then_some(RawModel {
        name,
        path,
        model,
        registered,
        version,
        digest,
        backend,
        device,
        fallback,
    })
}

/// Reads `inference`.
pub(in crate::spec) fn read_inference(job: &mut Scope<'_>) -> RawInference {
    let Some(mut group) = job.group("inference") else { return RawInference::default() };
    let allow_guest_models = group.bool("allow_guest_models");
    RawInference { allow_guest_models, ..amounts(group) }
}

/// Reads `inference` of a policy.
pub(in crate::spec) fn read_ceilings(policy: &mut Scope<'_>) -> RawInference {
    policy.group("inference").map(amounts).unwrap_or_default()
}

fn amounts(mut group: Scope<'_>) -> RawInference {
    let raw = RawInference {
        allow_guest_models: None,
        threads: group.parsed("threads"),
        gpu_memory: group.parsed_by("gpu_memory", at_least(1 << 20)),
    };
    group.finish();
    raw
}
