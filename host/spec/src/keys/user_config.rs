//! The keys of the user's config file.

use super::key::{Key, KeyKind, NAME_EXPECTED, key};

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
    key(
        "servers",
        KeyKind::Named(SERVER),
        "a map of names to servers (e.g. work: {url: https://HOST:8470})",
        "{work: {url: https://HOST:8470, token_file: ~/.sandmill-token}}",
        "The servers that `--server NAME` means.",
    ),
];

/// The keys of a server.
const SERVER: &[Key] = &[
    key("name", KeyKind::Name, NAME_EXPECTED, "work", "The server's name, if servers is a list."),
    key("url", KeyKind::Text, "an address", "https://HOST:8470", "The server's address."),
    key(
        "token_file",
        KeyKind::Text,
        PATH_EXPECTED,
        "~/.sandmill-token",
        "The file with the token.",
    ),
];
