//! The optional features of this build. A job that needs another feature is refused before anything
//! begins.

use crate::model::{Absence, DeviceChoice, Feature};
use crate::spec::{JobSpec, ModelSpec};
use sandmill_guest_host::features::{HAS_CUDA, HAS_INFERENCE};
use sandmill_store::HAS_STORES;

/// The job needs a feature that this build lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, and {source}: {instead}use a build with that feature")]
pub struct NotBuilt {
    /// The setting that needs the feature, such as "gpus is 2".
    what: String,
    source: Absence,
    /// What the user can do instead, if anything.
    instead: &'static str,
}

impl NotBuilt {
    /// The error for a feature that this build lacks. `what` is the first half of a sentence.
    pub fn new(what: impl Into<String>, feature: Feature) -> Self {
        Self { what: what.into(), source: feature.absence(), instead: "" }
    }

    /// The missing feature.
    pub fn feature(&self) -> Feature {
        self.source.0
    }

    /// The same error with this advice, which ends with "or".
    fn or(self, instead: &'static str) -> Self {
        Self { instead, ..self }
    }
}

/// Whether this build has a feature.
pub fn has(feature: Feature) -> bool {
    match feature {
        Feature::Inference => HAS_INFERENCE,
        Feature::Cuda => HAS_CUDA,
        Feature::Stores => HAS_STORES,
    }
}

/// Refuses a job that this build cannot run.
pub(super) fn check(spec: &JobSpec) -> Result<(), NotBuilt> {
    let lacking = lacking(spec, has);
    lacking.or_else(|| lacking_stores(spec, has)).map_or(Ok(()), Err)
}

/// Refuses a job whose inputs this build cannot read.
pub(super) fn check_stores(spec: &JobSpec) -> Result<(), NotBuilt> {
    lacking_stores(spec, has).map_or(Ok(()), Err)
}

/// The feature for models or GPUs that a job needs and the build lacks. `has` says which features the build
/// has.
fn lacking(spec: &JobSpec, has: impl Fn(Feature) -> bool) -> Option<NotBuilt> {
    if !has(Feature::Inference) {
        let without_inference = |what: String| NotBuilt::new(what, Feature::Inference);
        if let Some(model) = spec.models.first() {
            return Some(without_inference(format!("the job uses models.{}", model.name)));
        }
        if spec.inference.allow_guest_models {
            let what = "inference.allow_guest_models is true".to_owned();
            return Some(without_inference(what).or("leave it out, or "));
        }
    }
    if !has(Feature::Cuda) {
        let without_cuda = |what: String| NotBuilt::new(what, Feature::Cuda);
        if spec.gpus > 0 {
            return Some(without_cuda(format!("gpus is {}", spec.gpus)).or("set it to 0, or "));
        }
        let needs_gpu = |model: &&ModelSpec| model.device == DeviceChoice::Gpu && !model.fallback;
        if let Some(model) = spec.models.iter().find(needs_gpu) {
            let what = format!("models.{}.device is gpu", model.name);
            return Some(without_cuda(what).or("also set fallback to cpu, or "));
        }
    }
    None
}

/// The feature for stores, if a job needs it and the build lacks it.
fn lacking_stores(spec: &JobSpec, has: impl Fn(Feature) -> bool) -> Option<NotBuilt> {
    if has(Feature::Stores) {
        return None;
    }
    let (key, address) = spec.addresses().into_iter().next()?;
    let instead = if matches!(key.as_str(), "output" | "job_store") {
        "name a folder of this machine, or "
    } else {
        "copy its files to this machine, or "
    };
    Some(NotBuilt::new(format!("{key} is {address}"), Feature::Stores).or(instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message with which a build with these features refuses a job with these lines. Empty if
    /// the build accepts the job.
    fn describe(lines: &str, features: &[Feature]) -> String {
        let dir = tempfile::tempdir().unwrap();
        for name in ["entry.wasm", "a.txt", "m.onnx"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let job = dir.path().join("job.yaml");
        std::fs::write(&job, format!("entry_script: entry.wasm\n{lines}\n")).unwrap();
        let spec = crate::spec::load_plain(&job, &[]).unwrap();
        let has = |feature| features.contains(&feature);
        let lacking = lacking(&spec, has).or_else(|| lacking_stores(&spec, has));
        assert!(lacking.iter().all(|lacking| !features.contains(&lacking.feature())));
        lacking.map_or(String::new(), |lacking| lacking.to_string())
    }

    #[test]
    fn a_missing_feature_is_named_with_advice() {
        let none: &[Feature] = &[];
        let inputs = "inputs: {texts: a.txt}";
        assert_eq!(describe(inputs, none), "");
        insta::assert_snapshot!(describe("inputs: {texts: s3://b/x}", none), @"inputs.texts.path is s3://b/x, and this sandmill was built without stores (feature `stores`): copy its files to this machine, or use a build with that feature");
        insta::assert_snapshot!(describe(&format!("{inputs}\noutput: s3://b/out"), none), @"output is s3://b/out, and this sandmill was built without stores (feature `stores`): name a folder of this machine, or use a build with that feature");
        insta::assert_snapshot!(describe(&format!("{inputs}\nmodels: {{m: m.onnx}}"), none), @"the job uses models.m, and this sandmill was built without inference (feature `inference`): use a build with that feature");
        insta::assert_snapshot!(describe(&format!("{inputs}\nmodels: {{m: s3://b/m.onnx}}"), &[Feature::Inference]), @"models.m.path is s3://b/m.onnx, and this sandmill was built without stores (feature `stores`): copy its files to this machine, or use a build with that feature");
        insta::assert_snapshot!(describe(&format!("{inputs}\nside_inputs: {{s: s3://b/s}}"), none), @"side_inputs.s.path is s3://b/s, and this sandmill was built without stores (feature `stores`): copy its files to this machine, or use a build with that feature");
        insta::assert_snapshot!(describe(&format!("{inputs}\ninference: {{allow_guest_models: true}}"), none), @"inference.allow_guest_models is true, and this sandmill was built without inference (feature `inference`): leave it out, or use a build with that feature");
        insta::assert_snapshot!(describe(&format!("{inputs}\ngpus: 2"), &[Feature::Inference]), @"gpus is 2, and this sandmill was built without CUDA (feature `cuda`): set it to 0, or use a build with that feature");
        let on_gpu = |more| format!("{inputs}\nmodels: {{m: {{path: m.onnx, device: gpu{more}}}}}");
        insta::assert_snapshot!(describe(&on_gpu(""), &[Feature::Inference]), @"models.m.device is gpu, and this sandmill was built without CUDA (feature `cuda`): also set fallback to cpu, or use a build with that feature");
        assert_eq!(describe(&on_gpu(", fallback: cpu"), &[Feature::Inference]), "");
        let most = format!("{}\noutput: s3://b/out\ngpus: 1", on_gpu(""));
        assert_eq!(describe(&most, &Feature::ALL), "");
    }
}
