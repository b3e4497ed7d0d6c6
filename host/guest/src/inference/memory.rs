//! The memory that models need in a worker process.

use crate::model::{InferenceSettings, Limits};
use std::path::Path;
use walkdir::WalkDir;

/// The number of plans that tract keeps for each model. A plan is the model prepared for certain input
/// shapes; it has its own copy of the weights.
pub(super) const PLANS_PER_MODEL: usize = 4;

/// If all models together are larger than this, in bytes, tract keeps one plan of each.
pub(super) const LARGE_MODELS_BYTES: u64 = 64 << 20;

/// The maximum size of the weights in tract's further plans, in bytes. These are all plans except the first
/// plan of each model.
const MORE_PLANS_BYTES: u64 = LARGE_MODELS_BYTES * (PLANS_PER_MODEL as u64 - 1);

/// The maximum number of copies of a model in memory while it is loaded: the file, the decoded model, and the
/// weights as the backend arranges them (in tract: the first plan). [`MORE_PLANS_BYTES`] counts tract's
/// further plans.
const MODEL_COPIES: u64 = 3;
/// The number of copies of each tensor: one in the host, and one in the backend while it computes.
const TENSOR_COPIES: u64 = 2;
/// The memory that backends need besides models and tensors, in bytes: unpacked code, schemas, values between
/// layers.
const BACKEND_BYTES: u64 = 256 << 20;
/// The folder with the sizes of the processor's caches. Backends split their work by these sizes, so a
/// process that runs models may read the folder.
pub const PROCESSORS: &str = "/sys/devices/system/cpu";

/// The maximum number of files that [`bytes_below`] counts. It treats a folder with more files as too large.
const MAX_FILES: usize = 10_000;

/// Whether the entry script of a job with these models and settings can run models.
pub fn has_inference<M>(models: &[M], settings: &InferenceSettings) -> bool {
    !models.is_empty() || settings.allow_guest_models
}

/// The memory that a worker process may use for inference, in bytes, in addition to its other memory.
/// `models` has the folder or file of each model. Reads only the sizes of files, not their content.
pub fn inference_memory(models: &[&Path], settings: &InferenceSettings, limits: &Limits) -> u64 {
    if !has_inference(models, settings) {
        return 0;
    }
    let files = if settings.allow_guest_models {
        limits.models.0
    } else {
        let sizes = models.iter().map(|model| bytes_below(model, limits.models.0));
        sizes.fold(0, u64::saturating_add).min(limits.models.0)
    };
    let parts =
        [files.saturating_mul(MODEL_COPIES), limits.tensors.0.saturating_mul(TENSOR_COPIES)];
    let parts = parts.into_iter().chain([MORE_PLANS_BYTES, BACKEND_BYTES]);
    parts.fold(0, u64::saturating_add)
}

/// The size of all files of a model in bytes; weights may be in separate files. Returns `limit` if the files
/// are larger or cannot be counted.
pub fn bytes_below(model: &Path, limit: u64) -> u64 {
    let mut size = 0_u64;
    for (count, entry) in WalkDir::new(model).follow_links(true).into_iter().enumerate() {
        let Ok(metadata) = entry.and_then(|entry| entry.metadata()) else { return limit };
        if metadata.is_file() {
            size = size.saturating_add(metadata.len());
        }
        if size >= limit || count >= MAX_FILES {
            return limit;
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ByteSize;

    #[test]
    fn memory_follows_files_and_limits() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("weights")).unwrap();
        std::fs::write(folder.path().join("model.onnx"), [0; 1000]).unwrap();
        std::fs::write(folder.path().join("weights/0"), [0; 500]).unwrap();
        let limits =
            Limits { models: ByteSize(1 << 20), tensors: ByteSize(10), ..Limits::default() };
        let job_models_only = InferenceSettings::default();
        let guest_models =
            InferenceSettings { allow_guest_models: true, ..InferenceSettings::default() };
        let model = folder.path();
        let missing = Path::new("/not there");
        let file = model.join("model.onnx");
        let memory = |models: &[&Path], settings| inference_memory(models, settings, &limits);
        let base = ((256 + 192) << 20) + 20;
        assert_eq!(memory(&[], &job_models_only), 0);
        assert_eq!(memory(&[model], &job_models_only), base + 3 * 1500);
        assert_eq!(memory(&[model, &file], &job_models_only), base + 3 * 2500);
        assert_eq!(memory(&[model, missing], &job_models_only), base + (3 << 20));
        assert_eq!(memory(&[model], &guest_models), base + (3 << 20));
        assert_eq!(memory(&[], &guest_models), base + (3 << 20));
        let endless = Limits { tensors: ByteSize(u64::MAX), ..limits.clone() };
        assert_eq!(inference_memory(&[], &guest_models, &endless), u64::MAX);
    }
}
