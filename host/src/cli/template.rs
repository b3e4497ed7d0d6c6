//! The files of a new entry script, as they lie in `host/templates`.

/// A file that lies in a folder of `host/templates`, or in itself.
macro_rules! file {
    ($path:literal) => {
        file!($path, "")
    };
    ($path:literal, $folder:literal) => {
        ($path, include_str!(concat!("../../templates/", $folder, $path)))
    };
}

/// Path in the new folder, and text.
type File = (&'static str, &'static str);

/// What a new entry script works on.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct Kind {
    /// Over the rows of a table in place of files.
    #[arg(long)]
    pub(super) table: bool,
    /// With an ONNX model that the host computes; MODEL.md says how to make the file.
    #[arg(long)]
    pub(super) model: bool,
}

impl Kind {
    /// The files of its folder.
    pub(super) fn files(self) -> impl Iterator<Item = File> {
        let (script, data): ([File; 2], &[File]) = match (self.table, self.model) {
            (false, false) => (
                [file!("src/lib.rs"), file!("job.yaml")],
                &[file!("data/hello.txt"), file!("data/second.txt")],
            ),
            (true, false) => (
                [file!("src/lib.rs", "table/"), file!("job.yaml", "table/")],
                &[file!("data/people.csv", "table/")],
            ),
            (false, true) => (
                [file!("src/lib.rs", "model/"), file!("job.yaml", "model/")],
                &[file!("data/first.txt", "model/"), file!("data/second.txt", "model/")],
            ),
            (true, true) => (
                [file!("src/lib.rs", "table-model/"), file!("job.yaml", "table-model/")],
                &[file!("data/people.csv", "table/")],
            ),
        };
        let gitignore = (".gitignore", include_str!("../../templates/gitignore"));
        let model = ("MODEL.md", include_str!("../../templates/model/MODEL.md"));
        let common = [file!("Cargo.toml"), file!("README.md"), gitignore];
        let common = common.into_iter().chain(self.model.then_some(model));
        common.chain(script).chain(data.iter().copied())
    }

    /// What its dependency on the SDK says beside the place.
    pub(super) fn features(self) -> &'static str {
        if self.table { "" } else { ", default-features = false" }
    }
}

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
        let (_, script) = Kind::default().files().find(|(path, _)| *path == "src/lib.rs").unwrap();
        let (code, _) = script.split_once("\n#[cfg(test)]").unwrap();
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code: Vec<&str> = code.lines().filter(is_code).collect();
        let readme = include_str!("../../../README.md");
        let (_, shown) = readme.split_once("```rust\n").unwrap();
        let (shown, _) = shown.split_once("```").unwrap();
        assert_eq!(code.join("\n").trim(), shown.trim());
    }
}
