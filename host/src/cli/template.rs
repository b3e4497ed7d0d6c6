//! The files of a new entry script, as they lie in `host/templates`.

/// Path in the new folder, and text.
pub(super) const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../templates/Cargo.toml")),
    ("src/lib.rs", include_str!("../../templates/src/lib.rs")),
    ("job.yaml", include_str!("../../templates/job.yaml")),
    ("README.md", include_str!("../../templates/README.md")),
    ("data/hello.txt", include_str!("../../templates/data/hello.txt")),
    ("data/second.txt", include_str!("../../templates/data/second.txt")),
    (".gitignore", include_str!("../../templates/gitignore")),
];

/// A file's text, with the placeholders replaced: the new entry script's name, and where the SDK is, as
/// keys of the dependency in `Cargo.toml`.
pub(super) fn fill(text: &str, name: &str, sdk: &str) -> String {
    text.replace("{{name}}", name).replace("{{sdk}}", sdk)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The README shows the new entry script without its comments and its test.
    #[test]
    fn the_readme_shows_what_new_makes() {
        let (_, script) = FILES.iter().find(|(path, _)| *path == "src/lib.rs").unwrap();
        let (code, _) = script.split_once("\n#[cfg(test)]").unwrap();
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code: Vec<&str> = code.lines().filter(is_code).collect();
        let readme = include_str!("../../../README.md");
        let (_, shown) = readme.split_once("```rust\n").unwrap();
        let (shown, _) = shown.split_once("```").unwrap();
        assert_eq!(code.join("\n").trim(), shown.trim());
    }
}
