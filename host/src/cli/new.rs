//! `sandmill new`: creates the folder of a new entry script.

use super::exit::{Exit, Problem};
use super::template::{Language, TemplateInput};
use super::{say, sdk};
use anyhow::{Context, bail};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Names that cargo refuses, or that would shadow crates that every crate needs.
const RESERVED_NAMES: [&str; 8] =
    ["alloc", "core", "proc_macro", "std", "test", "deps", "build", "self"];

#[derive(Debug, clap::Args)]
pub(super) struct NewArguments {
    /// The name of the crate, the job and the folder: small letters, digits, - and _, starting with a letter.
    name: String,
    /// The folder of a sandmill-guest crate to use; by default, the embedded one is written to the new
    /// folder.
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
    #[command(flatten)]
    kind: TemplateInput,
}

/// Creates the folder of the entry script in the current folder.
pub(super) fn new(arguments: &NewArguments) -> Result<Exit, Problem> {
    let name = &arguments.name;
    check(name).map_err(Problem::usage)?;
    if let Some(unsupported) = arguments.kind.unsupported() {
        return Err(Problem::usage(anyhow::anyhow!(unsupported)));
    }
    let sdk = arguments.sdk.as_deref().map(sdk).transpose().map_err(Problem::usage)?;
    create_folder(Path::new("."), name, sdk.as_deref(), arguments.kind).map_err(Problem::usage)?;
    let model = if arguments.kind.model { "\n  # put model.onnx here: see MODEL.md" } else { "" };
    let runtime = match arguments.kind.language {
        Language::Python => "\n  sandmill python install light   # once for a machine",
        Language::Javascript | Language::Typescript => {
            "\n  sandmill javascript install   # once for a machine"
        }
        Language::C => "\n  pip install ziglang   # unless you have clang with wasi-libc",
        Language::Rust => "",
    };
    say(&format!(
        "made {name}/, an entry script with a job and a little data. Next:\n  cd {name}{model}{runtime}\n  \
         sandmill run job.yaml"
    ));
    Ok(Exit::Completed)
}

/// Creates the folder. `sdk`: the keys of the dependency on the SDK; `None` to write the embedded SDK to the
/// folder.
fn create_folder(
    parent: &Path,
    name: &str,
    sdk: Option<&str>,
    kind: TemplateInput,
) -> anyhow::Result<()> {
    let folder = parent.join(name);
    if let Err(error) = fs::create_dir(&folder) {
        if error.kind() == ErrorKind::AlreadyExists {
            bail!("{name} is there already: choose another name, or remove it first");
        }
        return Err(error).with_context(|| format!("cannot make the folder {}", folder.display()));
    }
    let embedded_sdk = format!("path = \"{}\"", sdk::SDK_FOLDER);
    if sdk.is_none() && kind.language == Language::Rust {
        let folder = folder.join(sdk::SDK_FOLDER);
        sdk::write(&folder).with_context(|| format!("cannot write {}", folder.display()))?;
    }
    let sdk = format!("{}{}", sdk.unwrap_or(&embedded_sdk), kind.features());
    for (path, text) in kind.files() {
        let path = folder.join(path);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, kind.fill(text, name, &sdk)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Checks the name, which becomes the name of a crate, a job and a folder.
fn check(name: &str) -> anyhow::Result<()> {
    let is_allowed =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let well_formed =
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_allowed);
    if !well_formed || name.len() > 64 {
        bail!(
            "{name:?} cannot be the name: use 1 to 64 small letters, digits, - and _, a letter \
             first, such as word-count"
        );
    }
    if RESERVED_NAMES.contains(&name) {
        bail!("{name:?} cannot be the name of a Rust crate: choose another, such as {name}-script");
    }
    Ok(())
}

/// The keys of a dependency on the SDK in this folder.
fn sdk(folder: &Path) -> anyhow::Result<String> {
    if !is_sdk(folder) {
        bail!(
            "--sdk {}: it is not the folder of the sandmill-guest crate, which is called guest-sdk in Sandmill's \
             repository",
            folder.display()
        );
    }
    // The path may be relative to our working directory, but the new crate is in another folder.
    let folder = folder
        .canonicalize()
        .with_context(|| format!("the folder {} cannot be found", folder.display()))?;
    let path = folder.to_str().with_context(|| {
        format!("{} is not UTF-8, and Cargo.toml cannot name it: move it", folder.display())
    })?;
    Ok(format!("path = \"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn is_sdk(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"));
    manifest.is_ok_and(|text| text.lines().any(|line| line.trim() == "name = \"sandmill-guest\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_a_folder_without_leftover_placeholders() {
        for (table, model) in [(false, false), (true, false), (false, true), (true, true)] {
            let kind = TemplateInput { table, model, language: Language::Rust };
            let parent = tempfile::tempdir().unwrap();
            create_folder(parent.path(), "my-script", Some("path = \"/sdk\""), kind).unwrap();
            let folder = parent.path().join("my-script");
            for (path, _) in kind.files() {
                let text = fs::read_to_string(folder.join(path)).unwrap();
                assert!(!text.contains("{{name}}") && !text.contains("{{sdk}}"), "{path}: {text}");
            }
            let cargo = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            assert!(cargo.contains("name = \"my-script\""), "{cargo}");
            assert!(cargo.contains("sandmill-guest = { path = \"/sdk\""), "{cargo}");
            assert_eq!(cargo.contains("\"/sdk\", default-features = false }"), !table, "{cargo}");
            let error = create_folder(parent.path(), "my-script", None, kind).unwrap_err();
            assert!(error.to_string().contains("there already"), "{error}");
        }
    }

    #[test]
    fn nothing_of_rust_is_in_a_folder_for_python() {
        for (table, model) in [(false, false), (true, false), (false, true), (true, true)] {
            let kind = TemplateInput { table, model, language: Language::Python };
            let parent = tempfile::tempdir().unwrap();
            create_folder(parent.path(), "my-script", None, kind).unwrap();
            let folder = parent.path().join("my-script");
            assert!(!folder.join("Cargo.toml").exists() && !folder.join(sdk::SDK_FOLDER).exists());
            for (path, _) in kind.files() {
                let text = fs::read_to_string(folder.join(path)).unwrap();
                for word in ["{{", "crate", "lib.rs", "i64", "::"] {
                    assert!(!text.contains(word), "{path}: {text}");
                }
            }
            let job = fs::read_to_string(folder.join("job.yaml")).unwrap();
            assert!(job.contains("\nentry_script: score.py\n"), "{job}");
            assert_eq!(job.contains("python: {runtime: light}"), table, "{job}");
        }
    }

    #[test]
    fn a_folder_for_c_holds_sources_and_flags() {
        for (table, script) in [(false, "files.c"), (true, "table.c")] {
            let kind = TemplateInput { table, model: false, language: Language::C };
            let parent = tempfile::tempdir().unwrap();
            create_folder(parent.path(), "my-script", None, kind).unwrap();
            let folder = parent.path().join("my-script");
            assert!(!folder.join("Cargo.toml").exists() && !folder.join(sdk::SDK_FOLDER).exists());
            let text = |path| fs::read_to_string(folder.join(path)).unwrap();
            for (path, _) in kind.files() {
                assert!(!text(path).contains("{{") && !text(path).contains("crate"), "{path}");
            }
            assert!(text(script).contains("sandmill_run") && text("README.md").contains(script));
            assert!(text("job.yaml").contains("\nentry_script: .\n"));
        }
        let model = TemplateInput { table: false, model: true, language: Language::C };
        assert!(model.unsupported().unwrap().contains("--language rust or python"));
    }

    #[test]
    fn invalid_names_are_refused() {
        let long = "a".repeat(65);
        for name in ["", "Digits", "1st", "../up", "a/b", "a b", "-a", "test", "é", &long] {
            assert!(check(name).is_err(), "{name}");
        }
        check("word_count-2").unwrap();
    }

    #[test]
    fn another_sdk_can_be_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let folder = root.join("guest-sdk");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("Cargo.toml"), "[package]\nname = \"another\"\n").unwrap();
        let error = sdk(&folder).unwrap_err().to_string();
        assert!(error.contains("it is not the folder of the sandmill-guest crate"), "{error}");
        fs::write(folder.join("Cargo.toml"), "[package]\nname = \"sandmill-guest\"\n").unwrap();
        let path = format!("path = \"{}\"", folder.display());
        assert_eq!(sdk(&root.join("a/../guest-sdk")).unwrap(), path);
    }
}
