//! The files of a new entry script, from `host/templates`.

/// A file in `host/templates`, or in one of its folders.
macro_rules! file {
    ($path:literal) => {
        file!($path, "")
    };
    ($path:literal, $folder:literal) => {
        ($path, include_str!(concat!("../../templates/", $folder, $path)))
    };
}

/// A file: the path in the new folder, and the text.
type File = (&'static str, &'static str);

/// What a new entry script works on.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct TemplateInput {
    /// Works on the rows of a table instead of files.
    #[arg(long)]
    pub(super) table: bool,
    /// Uses an ONNX model, which the host runs; MODEL.md explains how to make the file.
    #[arg(long)]
    pub(super) model: bool,
    /// The language of the entry script.
    #[arg(long, value_enum, default_value = "rust")]
    pub(super) language: Language,
}

/// The language of a new entry script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Language {
    /// A crate, which is built to a component.
    #[default]
    Rust,
    /// A script for the light runtime.
    Python,
    /// A script for the JavaScript runtime.
    Javascript,
    /// A script for the JavaScript runtime, with types.
    Typescript,
    /// C, with C++ if needed: compiled to a component by clang or zig.
    C,
}

impl TemplateInput {
    /// The files of the new folder.
    pub(super) fn files(self) -> impl Iterator<Item = File> {
        let (script, job, data): (File, File, &[File]) = match (self.table, self.model) {
            (false, false) => (
                file!("src/lib.rs"),
                file!("job.yaml"),
                &[file!("data/hello.txt"), file!("data/second.txt")],
            ),
            (true, false) => (
                file!("src/lib.rs", "table/"),
                file!("job.yaml", "table/"),
                &[file!("data/people.csv", "table/")],
            ),
            (false, true) => (
                file!("src/lib.rs", "model/"),
                file!("job.yaml", "model/"),
                &[file!("data/first.txt", "model/"), file!("data/second.txt", "model/")],
            ),
            (true, true) => (
                file!("src/lib.rs", "table-model/"),
                file!("job.yaml", "table-model/"),
                &[file!("data/people.csv", "table/")],
            ),
        };
        let gitignore = (".gitignore", include_str!("../../templates/gitignore"));
        let model = ("MODEL.md", include_str!("../../templates/model/MODEL.md"));
        let own = match self.language {
            Language::Rust => vec![script, file!("Cargo.toml"), file!("README.md")],
            Language::Python => vec![self.python_script(), file!("README.md", "python/")],
            Language::Javascript | Language::Typescript => vec![
                self.javascript_script(),
                file!("README.md", "javascript/"),
                ("sandmill.d.ts", include_str!("../../../javascript/sandmill.d.ts")),
            ],
            Language::C => {
                vec![self.c_script(), file!("README.md", "c/"), file!("compile_flags.txt", "c/")]
            }
        };
        let common = own.into_iter().chain([job, gitignore]).chain(self.model.then_some(model));
        common.chain(data.iter().copied())
    }

    fn python_script(self) -> File {
        let text = match (self.table, self.model) {
            (false, false) => include_str!("../../templates/python/files.py"),
            (true, false) => include_str!("../../templates/python/table.py"),
            (false, true) => include_str!("../../templates/python/model.py"),
            (true, true) => include_str!("../../templates/python/table_model.py"),
        };
        ("score.py", text)
    }

    fn javascript_script(self) -> File {
        macro_rules! template {
            ($name:literal) => {
                if self.language == Language::Typescript {
                    ("score.ts", include_str!(concat!("../../templates/javascript/", $name, ".ts")))
                } else {
                    ("score.js", include_str!(concat!("../../templates/javascript/", $name, ".js")))
                }
            };
        }
        match (self.table, self.model) {
            (false, false) => template!("files"),
            (true, false) => template!("table"),
            (false, true) => template!("model"),
            (true, true) => template!("table_model"),
        }
    }

    fn c_script(self) -> File {
        if self.table {
            ("table.c", include_str!("../../templates/c/table.c"))
        } else {
            ("files.c", include_str!("../../templates/c/files.c"))
        }
    }

    /// The message that this language does not support an option; `None` if it supports all options.
    pub(super) fn unsupported(self) -> Option<&'static str> {
        (self.language == Language::C && self.model).then_some(
            "there is no --model for C: leave it out, and call a model by the functions of wasi:nn in entry_script.h, which \
             `sandmill build` puts into target/sandmill; or take --language rust or python",
        )
    }

    /// Replaces the placeholders of a file: the name of the entry script, and the location of the SDK, as
    /// keys of the dependency in `Cargo.toml`. Passages about Rust are replaced by passages for the script's
    /// language.
    pub(super) fn fill(self, text: &str, name: &str, sdk: &str) -> String {
        let text = text.replace("{{name}}", name).replace("{{sdk}}", sdk);
        match self.language {
            Language::Rust => return text,
            Language::C => {
                let text = text.replace("{{script}}", self.c_script().0);
                return text
                    .replace("# The folder of the entry script's crate, which", C_FOLDER_COMMENT);
            }
            Language::Javascript | Language::Typescript => {
                let script = self.javascript_script().0;
                let text = text.replace("{{script}}", script).replace("{{pad}}", "         ");
                let (rust_passage, _) = RUST_AND_PYTHON_PASSAGES[0];
                let own = format!(
                    "# The script. It can import the modules in its folder.\nentry_script: {script}"
                );
                let text = text.replace(rust_passage, &own);
                return RUST_AND_PYTHON_PASSAGES[1..]
                    .iter()
                    .fold(text, |text, (rust, python)| text.replace(rust, python));
            }
            Language::Python => {}
        }
        let runtime = if self.table {
            "\n# `run` gets a sandmill.Table.\npython: {runtime: light}"
        } else {
            ""
        };
        RUST_AND_PYTHON_PASSAGES.iter().fold(text, |text, (rust, python)| {
            text.replace(rust, &python.replace("{{runtime}}", runtime))
        })
    }

    /// The keys of the script's dependency on the SDK, without the location.
    pub(super) fn features(self) -> &'static str {
        if self.table { "" } else { ", default-features = false" }
    }
}

/// Passages of the files about an entry script in Rust, and the passages that replace them for Python.
const RUST_AND_PYTHON_PASSAGES: [(&str, &str); 3] = [
    (
        "# The folder of the entry script's crate, which is built first, or a component file.\nentry_script: .",
        "# The script. It can import the modules in its folder.\nentry_script: score.py{{runtime}}",
    ),
    ("`Model::load`", "`models.load`"),
    (", and gives labels, which\nare `i64`: change `src/lib.rs` to them. From", ". From"),
];

/// The passage of the job file about a folder of C sources.
const C_FOLDER_COMMENT: &str = "# The folder of the entry script's sources in C, which";

#[cfg(test)]
mod tests {
    use super::*;

    /// The README shows the new entry script without its comments and its test.
    #[test]
    fn the_readme_shows_the_new_entry_script() {
        let (_, script) =
            TemplateInput::default().files().find(|(path, _)| *path == "src/lib.rs").unwrap();
        let (code, _) = script.split_once("\n#[cfg(test)]").unwrap();
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code: Vec<&str> = code.lines().filter(is_code).collect();
        let readme = include_str!("../../../README.md");
        let (_, shown) = readme.split_once("```rust\n").unwrap();
        let (shown, _) = shown.split_once("```").unwrap();
        assert_eq!(code.join("\n").trim(), shown.trim());
    }
}
