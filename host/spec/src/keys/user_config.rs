//! The keys of the user's config file.

use super::key::{Key, KeyKind, key};

/// The form of a path in the config file. Relative paths are not allowed, because it would be
/// unclear from which folder they start.
const PATH_EXPECTED: &str = "a path that starts with / or ~/";

/// All keys of the config file.
pub(crate) const USER_CONFIG: &[Key] = &[
    key(
        "onnxruntime",
        KeyKind::Text,
        PATH_EXPECTED,
        "~/ort",
        "ONNX Runtime's library, or a folder with it.",
    ),
    key(
        "cache_dir",
        KeyKind::Text,
        PATH_EXPECTED,
        "/scratch/ada/sandmill",
        "Where compiled code is kept.",
    ),
    key("jobs_root", KeyKind::Text, PATH_EXPECTED, "~/jobs", "Where job directories are."),
];
