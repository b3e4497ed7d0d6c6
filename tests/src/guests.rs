//! The components that tests run.

use crate::{newest, packed, root, sandmill};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The component of an example of `tests/guests`, e.g. `guest("echo_files")`. All examples are built
/// together, and are built again if their sources have changed.
pub fn guest(name: &str) -> PathBuf {
    match components().iter().find(|component| name_of(component) == name) {
        Some(component) => component.clone(),
        None => {
            let known: Vec<_> = components().iter().map(|component| name_of(component)).collect();
            panic!("tests/guests has no example {name}; there are {}", known.join(", "))
        }
    }
}

/// The names of all examples of `tests/guests`, for [`guest`].
pub fn guests() -> Vec<String> {
    components().iter().map(|component| name_of(component)).collect()
}

/// The guest's name in the path of its component: `void` for `.../void.wasm` and `.../void.component.wasm`.
fn name_of(component: &Path) -> String {
    let name = component.file_name().unwrap().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// The component of `tests/guests/python`, which `make test` or `make python-guest` builds with
/// componentize-py.
pub fn python_guest() -> PathBuf {
    let component = root().join("target/guests/python.wasm");
    let sources = newest(&root().join("tests/guests/python"));
    assert!(
        crate::modified(&component) >= sources,
        "{} is missing or out of date; `make python-guest` makes it",
        component.display()
    );
    component
}

/// The components of `tests/guests`.
fn components() -> &'static [PathBuf] {
    static COMPONENTS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    COMPONENTS.get_or_init(|| {
        if let Some(folder) = packed() {
            let entries = fs::read_dir(folder.join("guests")).unwrap();
            return entries.map(|entry| entry.unwrap().path()).collect();
        }
        let target = root().join("target/guests");
        fs::create_dir_all(&target).unwrap();
        // The build's output: one path per line.
        let list = target.join("tests-guests.txt");
        // Tests run in several processes, but only one process may build.
        let lock = File::create(target.join("tests-guests.lock")).unwrap();
        lock.lock().unwrap();
        if !is_current(&list) {
            fs::write(&list, build(&target)).unwrap();
        }
        let paths = fs::read_to_string(&list).unwrap();
        paths.lines().map(|line| root().join(line)).collect()
    })
}

/// Whether the sources are unchanged since the components were built.
fn is_current(list: &Path) -> bool {
    let sources = ["tests/guests", "tests/kit/rust", "guest-sdk", "wit"]
        .map(|folder| newest(&root().join(folder)));
    // An interrupted build may have left an empty list.
    fs::metadata(list).is_ok_and(|list| list.len() > 0)
        && crate::modified(list)
            .is_some_and(|built| sources.iter().flatten().all(|changed| *changed < built))
}

/// The crates of test guests. Guests that use tables are in a separate crate, because Arrow makes a component
/// twenty times larger.
const CRATES: [&str; 2] = ["tests/guests", "tests/guests/tables"];

/// Builds all components, and returns their paths, one per line.
fn build(target: &Path) -> Vec<u8> {
    CRATES.iter().flat_map(|folder| run_build(&["build", folder, "--examples"], target)).collect()
}

/// Builds a crate of the folder `examples`, and returns the path of its component.
pub fn example(name: &str) -> PathBuf {
    if packed().is_some() {
        return guest(&name.replace('-', "_"));
    }
    let folder = format!("examples/{name}");
    let path = run_build(&["build", &folder], &root().join("target/guests"));
    root().join(String::from_utf8(path).unwrap().trim())
}

/// Runs `sandmill build`, and returns what it prints: the paths of the components, one per line.
fn run_build(command: &[&str], target: &Path) -> Vec<u8> {
    let mut building = Command::new(sandmill());
    building.args(command).current_dir(root()).env("CARGO_TARGET_DIR", target);
    let output = building.output().unwrap();
    let command = command.join(" ");
    assert!(
        output.status.success(),
        "`sandmill {command}` failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!output.stdout.is_empty(), "`sandmill {command}` built nothing");
    output.stdout
}
