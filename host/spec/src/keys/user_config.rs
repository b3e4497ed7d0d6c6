//! The keys of the user's config file.

use super::key::{Key, KeyKind, key};

/// The form of a path in the config file. Relative paths are not allowed, as they would not be relative to
/// any folder.
const PATH: &str = "a path that starts with / or ~/";

/// All keys.
pub(crate) const USER_CONFIG: &[Key] = &[
    key(
        "onnxruntime",
        KeyKind::Text,
        PATH,
        "~/ort",
        "ONNX Runtime's library, or a folder with it.",
    ),
    key("cache_dir", KeyKind::Text, PATH, "/scratch/ada/sandmill", "Where compiled code is kept."),
    key("jobs_root", KeyKind::Text, PATH, "~/jobs", "Where job directories are."),
];
