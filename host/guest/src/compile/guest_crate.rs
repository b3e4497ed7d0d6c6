//! Builds a guest crate (an entry script in Rust), a folder of C sources, or a core module into a component.
//! This runs the crate's build scripts, so use it only on trusted code.

use super::toolchain::Toolchain;
use super::{Artifact, CompileError, Compiler, EntryFile, identify};
use super::{build_folder, c_folder};
use crate::opening::regular;
use sandmill_files::c_sources;
use serde_json::Value;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Builds a guest crate, or a folder of C or C++ sources, into a component. Returns the component's path,
/// which is below the folder's target folder. Dependencies that crates share are compiled below `cache_dir`,
/// the folder for compiled code (`None` means the default folder). `say` receives lines for the user.
/// Up-to-date files are not rebuilt.
///
/// # Errors
/// If there are no sources or no toolchain for WebAssembly, if the build fails (the text ends with the
/// compiler's output), or if the build does not make exactly one library of type `cdylib`.
pub fn build_guest_crate(
    folder: &Path,
    cache_dir: Option<&Path>,
    compiler: &Compiler,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, CompileError> {
    let sources = c_sources(folder);
    if !sources.is_empty() && !folder.join("Cargo.toml").is_file() {
        return build_module(&c_folder::build(folder, &sources, say)?, compiler);
    }
    let mut components = build((folder, false), cache_dir, compiler, say)?;
    match (components.pop(), components.len()) {
        (Some(component), 0) => Ok(component),
        (Some(_), more) => Err(CompileError::new(format!(
            "the crate in {} builds {} components, but an entry script is one component: name the \
             folder of one crate",
            folder.display(),
            more + 1
        ))),
        (None, _) => Err(no_library_error(folder)),
    }
}

/// Builds all `cdylib` examples of a crate and returns the paths of their components, in no particular order.
///
/// # Errors
/// As [`build_guest_crate`].
pub fn build_guest_examples(
    folder: &Path,
    cache_dir: Option<&Path>,
    compiler: &Compiler,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, CompileError> {
    build((folder, true), cache_dir, compiler, say)
}

/// Turns a core module into a component, and writes the component next to the module: `x.wasm`
/// becomes `x.component.wasm`. Returns the path unchanged if the file is a component already.
///
/// # Errors
/// If the file cannot be read or is not a module with WIT metadata, or if the result cannot be written.
pub fn build_module(path: &Path, compiler: &Compiler) -> Result<PathBuf, CompileError> {
    let with_path = |error: io::Error| CompileError::new(format!("{}: {error}", path.display()));
    let (mut source, _) = regular(path).map_err(with_path)?;
    let mut head = Vec::new();
    Read::by_ref(&mut source).take(HEAD_BYTES).read_to_end(&mut head).map_err(with_path)?;
    if identify(&head) == Ok(Artifact::Component) {
        return Ok(path.to_owned());
    }
    source.rewind().map_err(with_path)?;
    let target = path.with_extension("component.wasm");
    // Write the component under another name and rename it, so that no reader sees an incomplete
    // file. The other name is random, so that other users cannot create that file before us.
    let random = RandomState::new().hash_one(path);
    let temporary = path.with_extension(format!("{random:016x}.tmp"));
    let made = write_component(compiler, source, &temporary, &target);
    if made.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    made.map_err(|error| CompileError(format!("{}: {error}", path.display())))?;
    Ok(target)
}

/// The number of bytes at the start of a file that show its kind.
const HEAD_BYTES: u64 = 8;

fn write_component(
    compiler: &Compiler,
    source: File,
    temporary: &Path,
    target: &Path,
) -> Result<(), CompileError> {
    let cannot = |error: io::Error| {
        CompileError::new(format!("{} cannot be written: {error}", target.display()))
    };
    let file = File::create_new(temporary).map_err(cannot)?;
    compiler.componentize(source, &file)?;
    // Do not compare modification times: the user may have restored an older module.
    let digest = |path| EntryFile::open(path, compiler).map(|file| file.digest().to_owned());
    if digest(target).is_ok_and(|existing| digest(temporary) == Ok(existing)) {
        return std::fs::remove_file(temporary).map_err(cannot);
    }
    std::fs::rename(temporary, target).map_err(cannot)
}

fn build(
    (folder, examples): (&Path, bool),
    cache_dir: Option<&Path>,
    compiler: &Compiler,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, CompileError> {
    let manifest = folder.join("Cargo.toml");
    if !manifest.is_file() {
        return Err(CompileError::new(format!(
            "{} is not a guest crate: it has no Cargo.toml and no C or C++ sources. `sandmill new NAME` makes one",
            folder.display()
        )));
    }
    // Cargo prints the manifest's canonical path.
    let manifest = manifest.canonicalize().map_err(|error| {
        CompileError::new(format!("{} cannot be opened: {error}", manifest.display()))
    })?;
    let toolchain = Toolchain::find(folder)?;
    let mut command = toolchain.cargo_build(folder);
    let shared = build_folder::shared(folder, cache_dir, |name| std::env::var_os(name));
    let is_first = shared.as_ref().is_some_and(|shared| !shared.exists());
    if let Some(shared) = shared {
        // Dependencies are compiled once per user, into a folder that all crates share. The finished
        // WebAssembly files stay in the crate's own folder.
        command.arg("--config").arg(format!("build.build-dir={:?}", shared.display().to_string()));
    }
    command
        .args(examples.then_some("--examples"))
        // With colours, lines would begin with escape sequences.
        .args(["--message-format=json-render-diagnostics", "--color=never"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut cargo = command.spawn().map_err(|error| {
        CompileError::new(format!("cargo, which builds guest crates, cannot be run: {error}"))
    })?;
    // One thread reads each pipe, because a full pipe would block cargo.
    let stdout = cargo.stdout.take();
    let kind = if examples { "example" } else { "cdylib" };
    let stdout_thread = std::thread::spawn(move || built_files(stdout, &manifest, kind));
    let errors = cargo.stderr.take().map_or_else(Vec::new, |stderr| report(stderr, is_first, say));
    let status = cargo.wait();
    let modules = stdout_thread.join().unwrap_or_default();
    if !status.is_ok_and(|status| status.success()) {
        let reason = if errors.is_empty() {
            "cargo ended without saying why".to_owned()
        } else {
            errors.join("\n")
        };
        return Err(CompileError::new(format!(
            "the guest crate in {} does not build for {}:\n{reason}",
            folder.display(),
            toolchain.target(),
        )));
    }
    errors.iter().for_each(|line| say(line));
    modules.iter().map(|module| build_module(module, compiler)).collect()
}

/// Passes cargo's lines to `say`, but replaces all progress lines by a single line. Returns the
/// first error and all later lines instead of passing them, for the text of our error. `is_first`
/// means that no shared dependencies have been compiled yet.
fn report(stderr: impl Read, is_first: bool, say: &mut dyn FnMut(&str)) -> Vec<String> {
    let mut errors = Vec::new();
    let mut compiles = false;
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if !errors.is_empty() || line.starts_with("error") {
            errors.push(line);
            continue;
        }
        match line.split_whitespace().next() {
            Some("Compiling") => {
                if !std::mem::replace(&mut compiles, true) {
                    say(if is_first { COMPILING_FIRST } else { COMPILING });
                }
            }
            Some(word) if PROGRESS_WORDS.contains(&word) => {}
            _ => say(&line),
        }
    }
    errors
}

/// The line that is printed when cargo compiles something.
const COMPILING: &str = "compiling the entry script";
/// The line that is printed instead if cargo must also compile all libraries.
const COMPILING_FIRST: &str = "compiling the entry script, and the libraries of entry scripts: this takes a minute or more the first \
     time, and only seconds after that";

/// The first words of cargo's progress lines.
const PROGRESS_WORDS: [&str; 7] =
    ["Adding", "Downloaded", "Downloading", "Finished", "Fresh", "Locking", "Updating"];

fn no_library_error(folder: &Path) -> CompileError {
    CompileError::new(format!(
        "the crate in {} builds no component: its Cargo.toml needs\n[lib]\ncrate-type = [\"cdylib\"]",
        folder.display()
    ))
}

/// Finds the crate's own WebAssembly files in cargo's messages. `kind` is cargo's kind of target,
/// such as `cdylib`.
fn built_files(stdout: Option<impl Read>, manifest: &Path, kind: &str) -> Vec<PathBuf> {
    let Some(stdout) = stdout else { return Vec::new() };
    let mut files = Vec::new();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let has = |field: &str, wanted: &str| {
            message["target"][field]
                .as_array()
                .is_some_and(|values| values.iter().any(|v| v == wanted))
        };
        if message["reason"] == "compiler-artifact"
            && message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest)
            && has("kind", kind)
            && has("crate_types", "cdylib")
        {
            let names = message["filenames"].as_array().into_iter().flatten();
            files.extend(
                names.filter_map(Value::as_str).filter(|n| n.ends_with(".wasm")).map(PathBuf::from),
            );
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{componentize, testing};

    #[test]
    fn picks_the_crates_own_libraries() {
        let line = |manifest: &str, kind: &str, types: &str, file: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{manifest}","target":{{"kind":["{kind}"],"crate_types":["{types}"]}},"filenames":["{file}"]}}"#
            )
        };
        let output = [
            "not json".to_owned(),
            line("/dep/Cargo.toml", "cdylib", "cdylib", "/t/dep.wasm"),
            line("/own/Cargo.toml", "cdylib", "cdylib", "/t/own.wasm"),
            line("/own/Cargo.toml", "example", "cdylib", "/t/examples/a.wasm"),
            line("/own/Cargo.toml", "example", "bin", "/t/examples/b.wasm"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ]
        .join("\n");
        let found = |kind| built_files(Some(output.as_bytes()), Path::new("/own/Cargo.toml"), kind);
        assert_eq!(found("cdylib"), [PathBuf::from("/t/own.wasm")]);
        assert_eq!(found("example"), [PathBuf::from("/t/examples/a.wasm")]);
    }

    #[test]
    fn a_module_is_made_into_a_component_once() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("guest.wasm");
        std::fs::write(&path, testing::module("run-only", testing::RUN_EMPTY)).expect("writes");
        let component = build_module(&path, &Compiler::here()).expect("has metadata");
        assert_eq!(component, folder.path().join("guest.component.wasm"));
        let written = std::fs::metadata(&component).and_then(|m| m.modified()).expect("is there");
        assert_eq!(build_module(&path, &Compiler::here()).as_ref(), Ok(&component));
        let again = std::fs::metadata(&component).and_then(|m| m.modified()).expect("is there");
        assert_eq!(written, again, "nothing changed, so nothing is written");
        assert_eq!(build_module(&component, &Compiler::here()).as_ref(), Ok(&component));
        let stale =
            componentize(testing::module("run-only", "RUN unreachable)")).expect("a module");
        let fresh = std::fs::read(&component).expect("reads");
        assert_ne!(stale, fresh);
        std::fs::write(&component, stale).expect("writes");
        assert_eq!(build_module(&path, &Compiler::here()).as_ref(), Ok(&component));
        assert_eq!(
            std::fs::read(&component).expect("reads"),
            fresh,
            "a component of another module is replaced, even if it is newer than this module"
        );
        assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 2);
    }

    #[test]
    fn cargo_output_is_reported_once() {
        let folder = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(folder.path().join("src")).expect("makes a folder");
        let write = |file: &str, text: &str| {
            std::fs::write(folder.path().join(file), text).expect("writes");
        };
        write(
            "Cargo.toml",
            "[package]\nname = \"broken\"\nedition = \"2024\"\n[lib]\ncrate-type = \
             [\"cdylib\"]\n[workspace]\n",
        );
        write("src/lib.rs", "pub fn f() -> u8 { missing() }");
        let mut messages = Vec::new();
        let error = build_guest_crate(folder.path(), None, &Compiler::here(), &mut |line| {
            messages.push(line.to_owned());
        })
        .expect_err("does not compile");
        let text = error.to_string();
        assert_eq!(text.matches("cannot find function `missing`").count(), 1, "{text}");
        let messages = messages.join("\n");
        assert!(
            messages.starts_with("compiling the entry script") && !messages.contains("missing"),
            "{messages}"
        );
        let mut messages = Vec::new();
        let lines =
            "  Locking 2 packages\n   Compiling a\n   Compiling b\nwarning: w\nerror: x\n --> y\n";
        for first in [true, false] {
            let errors =
                report(lines.as_bytes(), first, &mut |line| messages.push(line.to_owned()));
            assert_eq!(errors, ["error: x", " --> y"]);
        }
        assert_eq!(messages, [COMPILING_FIRST, "warning: w", COMPILING, "warning: w"]);
    }

    #[test]
    fn a_folder_without_a_crate_is_refused() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let error = build_guest_crate(folder.path(), None, &Compiler::here(), &mut |_| {})
            .expect_err("no crate");
        assert!(error.to_string().contains("it has no Cargo.toml"), "{error}");
    }
}
