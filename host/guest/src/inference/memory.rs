//! The memory that models need in a worker process.

use crate::model::{InferenceSettings, Limits};
use std::path::Path;
use walkdir::WalkDir;

/// The number of plans per model that tract keeps. Each has its own copy of the weights, arranged for speed.
pub(super) const PLANS: usize = 4;

/// If all models together are larger than this, in bytes, tract keeps one plan of each.
pub(super) const LARGE: u64 = 64 << 20;

/// The most bytes of weights in all plans beyond the first of each model.
const MORE_PLANS: u64 = LARGE * (PLANS as u64 - 1);

/// The number of copies of a model in memory while it is loaded, at most: the file, the decoded model, and
/// the backend's arrangement. tract's other plans are in [`MORE_PLANS`].
const COPIES: u64 = 3;
/// One copy of each tensor in the host, and one in the backend while it computes.
const TENSOR_COPIES: u64 = 2;
/// What backends need besides models and tensors, in bytes: unpacked code, schemas, values between layers.
const BACKENDS: u64 = 256 << 20;
/// The folder with the sizes of the processor's caches, by which backends split their work. A process that
/// computes may read it.
pub const PROCESSORS: &str = "/sys/devices/system/cpu";

/// The most files of a model's folder that are counted. A folder with more counts as large as the limit.
const FILES: usize = 10_000;

/// Whether an entry script can compute with models in a job with these models and settings.
pub fn has_inference<M>(models: &[M], settings: &InferenceSettings) -> bool {
    !models.is_empty() || settings.allow_guest_models
}

/// The bytes that inference may use in a worker process, in addition to everything else. `models` has the
/// folder or file of each model. Only their sizes are read, not their content.
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
    let parts = [files.saturating_mul(COPIES), limits.tensors.0.saturating_mul(TENSOR_COPIES)];
    let parts = parts.into_iter().chain([MORE_PLANS, BACKENDS]);
    parts.fold(0, u64::saturating_add)
}

/// The size of all files of a model, which may have its weights in separate files. Returns `most` if they are
/// larger or cannot be counted.
pub fn bytes_below(model: &Path, most: u64) -> u64 {
    let mut size = 0_u64;
    for (count, entry) in WalkDir::new(model).follow_links(true).into_iter().enumerate() {
        let Ok(metadata) = entry.and_then(|entry| entry.metadata()) else { return most };
        if metadata.is_file() {
            size = size.saturating_add(metadata.len());
        }
        if size >= most || count >= FILES {
            return most;
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
        let off = InferenceSettings::default();
        let guests = InferenceSettings { allow_guest_models: true, ..InferenceSettings::default() };
        let here = folder.path();
        let missing = Path::new("/not there");
        let file = here.join("model.onnx");
        let of = |models: &[&Path], settings| inference_memory(models, settings, &limits);
        let base = ((256 + 192) << 20) + 20;
        assert_eq!(of(&[], &off), 0);
        assert_eq!(of(&[here], &off), base + 3 * 1500);
        assert_eq!(of(&[here, &file], &off), base + 3 * 2500);
        assert_eq!(of(&[here, missing], &off), base + (3 << 20));
        assert_eq!(of(&[here], &guests), base + (3 << 20));
        assert_eq!(of(&[], &guests), base + (3 << 20));
        let endless = Limits { tensors: ByteSize(u64::MAX), ..limits.clone() };
        assert_eq!(inference_memory(&[], &guests, &endless), u64::MAX);
    }
}
