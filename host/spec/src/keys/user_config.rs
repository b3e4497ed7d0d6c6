//! The keys of the user's config file.

use super::key::{Key, Kind, key};

/// What a path must look like, as a config file has no folder that it is read from.
const PATH: &str = "a path that starts with / or ~/";

/// All of them.
pub(crate) const USER_CONFIG: &[Key] = &[
    key("onnxruntime", Kind::Text, PATH, "~/ort", "ONNX Runtime's library, or a folder with it."),
    key("cache_dir", Kind::Text, PATH, "/scratch/ada/sandmill", "Where compiled code is kept."),
    key("jobs_root", Kind::Text, PATH, "~/jobs", "Where job directories are."),
];
