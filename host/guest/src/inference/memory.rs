//! What models cost a worker process, in bytes of memory.

use crate::model::{InferenceSettings, Limits};
use std::path::Path;
use walkdir::WalkDir;

/// Plans of a model that tract keeps, each with weights of its own in the form that computes fast.
pub(super) const PLANS: usize = 4;

/// Bytes of models, all together, beyond which one plan of each is kept.
pub(super) const LARGE: u64 = 64 << 20;

/// Bytes of weights of all plans beyond the first of each model, at the most.
const MORE_PLANS: u64 = LARGE * (PLANS as u64 - 1);

/// How often a model lies in memory while it is loaded, at the most: as it was read, as it was decoded,
/// and as the backend arranges it. What tract keeps beyond that is [`MORE_PLANS`].
const COPIES: u64 = 3;
/// Tensors lie in the host, and once more in a backend while it computes.
const TENSOR_COPIES: u64 = 2;
/// What backends take beside models and tensors: code that they unpack, schemas, what comes between one
/// layer and the next.
const BACKENDS: u64 = 256 << 20;
/// A folder with the sizes of caches, by which backends cut their work: a process that computes may read it.
pub const PROCESSORS: &str = "/sys/devices/system/cpu";

/// Files of a model's folder that are looked at; one with more is taken for as large as it may be.
const FILES: usize = 10_000;

/// Whether an entry script may compute with models at all, where the job has these.
pub fn has_inference<M>(models: &[M], settings: &InferenceSettings) -> bool {
    !models.is_empty() || settings.allow_guest_models
}

/// Bytes that inference may take in a worker process, beside what everything else may. `models`: the
/// folder or file of each; their sizes are looked at, and never what is in them.
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

/// Bytes of all files of a model: its weights may lie in files of their own. `most` if they are more, or
/// cannot be counted.
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
        let gone = Path::new("/not there");
        let file = here.join("model.onnx");
        let of = |models: &[&Path], settings| inference_memory(models, settings, &limits);
        let base = ((256 + 192) << 20) + 20;
        assert_eq!(of(&[], &off), 0);
        assert_eq!(of(&[here], &off), base + 3 * 1500);
        assert_eq!(of(&[here, &file], &off), base + 3 * 2500);
        assert_eq!(of(&[here, gone], &off), base + (3 << 20));
        assert_eq!(of(&[here], &guests), base + (3 << 20));
        assert_eq!(of(&[], &guests), base + (3 << 20));
        let endless = Limits { tensors: ByteSize(u64::MAX), ..limits.clone() };
        assert_eq!(inference_memory(&[], &guests, &endless), u64::MAX);
    }
}
