//! The checks of `sandmill doctor` that do not concern the sandbox: for the tools that build and run entry
//! scripts, the registry, the file of datastores, and the slots for workers.

use super::datastores::DatastoresArgument;
use super::policy::PolicyArgument;
use crate::compile::describe_toolchain;
use crate::engine::{LogStore, try_folder, try_store};
use crate::machine_slots;
use crate::model::{Address, RegisteredKind, counted};
use crate::registry::{Registry, RegistryError, default_file};
use crate::runtimes::{Runtime, find};
use crate::wall::Layer;
use serde::Serialize;
use std::fmt::{Display, Write as _};
use std::path::Path;

/// The result of a check.
#[derive(Debug, Serialize)]
pub(super) struct DoctorCheck {
    pub(super) name: &'static str,
    /// What was found, with its version if it has one; null if nothing was found.
    pub(super) found: Option<String>,
    /// Why the tool or feature is missing.
    pub(super) missing: Option<String>,
    pub(super) what_to_do: Option<&'static str>,
}

/// What jobs may need besides the machine itself.
#[derive(Debug, Serialize)]
pub(super) struct OptionalTools {
    /// The toolchain that builds entry scripts from a crate's folder.
    toolchain: DoctorCheck,
    /// The runtimes of Python and JavaScript scripts.
    python: [DoctorCheck; 3],
    /// The registry of datasets and models.
    registry: DoctorCheck,
    /// The file of datastores.
    datastores: DoctorCheck,
    /// The slots for workers that the operator's policy allows.
    #[serde(rename = "places")]
    slots: DoctorCheck,
}

impl OptionalTools {
    pub(super) fn now(
        policy: &PolicyArgument,
        datastores: &DatastoresArgument,
        cache_dir: Option<&Path>,
    ) -> Self {
        Self {
            toolchain: toolchain(),
            python: [Runtime::Light, Runtime::Science, Runtime::JavaScript]
                .map(|runtime| python(runtime, cache_dir)),
            registry: registry(default_file().as_deref()),
            datastores: stores(datastores),
            slots: slots(policy),
        }
    }

    pub(super) fn write_to(&self, text: &mut String) {
        self.toolchain.write_to(text, "-");
        self.python.iter().for_each(|runtime| runtime.write_to(text, "-"));
        for check in [&self.registry, &self.datastores, &self.slots] {
            check.write_to(text, "WRONG");
        }
    }
}

/// Checks for a runtime. The name of its file depends on the version of the runtime's sources, so an outdated
/// runtime is not found.
fn python(runtime: Runtime, cache_dir: Option<&Path>) -> DoctorCheck {
    let (name, remedy) = match runtime {
        Runtime::Light => ("Python scripts, light", "sandmill python install light"),
        Runtime::Science => ("Python scripts, science", "sandmill python install science"),
        Runtime::JavaScript => ("JavaScript and TypeScript scripts", "sandmill javascript install"),
    };
    let program = std::env::current_exe().unwrap_or_default();
    let found = find(runtime, &program, cache_dir).map_err(|_| "not installed");
    DoctorCheck::new(name, found.map(|it| format!("{name}: {}", it.component.display())), remedy)
}

fn toolchain() -> DoctorCheck {
    let reported = describe_toolchain();
    let reported =
        reported.map(|version| format!("Rust for `entry_script: CRATE_FOLDER`: {version}"));
    let remedy = "only needed to build entry scripts from the folder of a crate";
    DoctorCheck::new("Rust for `entry_script: CRATE_FOLDER`", reported, remedy)
}

fn registry(file: Option<&Path>) -> DoctorCheck {
    let remedy = "name another file in SANDMILL_REGISTRY, or see docs/registry.md";
    DoctorCheck::new("the registry", registry_text(file), remedy)
}

fn registry_text(file: Option<&Path>) -> Result<String, RegistryError> {
    let Some(file) = file else {
        return Ok(
            "the registry: none of SANDMILL_REGISTRY, XDG_DATA_HOME and HOME is set".to_owned()
        );
    };
    let shown = file.display();
    let Some(registry) = Registry::open(file)? else {
        return Ok(format!("the registry: nothing is registered yet, {shown}"));
    };
    let datasets = counted(registry.all(RegisteredKind::Dataset)?.len() as u64, "dataset");
    let models = counted(registry.all(RegisteredKind::Model)?.len() as u64, "model");
    Ok(format!("the registry: {datasets} and {models}, {shown}"))
}

fn stores(argument: &DatastoresArgument) -> DoctorCheck {
    let reported = match argument.which() {
        None => Ok("datastores: no file is given".to_owned()),
        Some(file) => match argument.load() {
            Ok(_) => Ok(format!("datastores: {}", file.display())),
            Err(problem) => Err(problem.to_string().replace("error: ", "").replace('\n', "; ")),
        },
    };
    DoctorCheck::new(
        "datastores",
        reported,
        "fix the file, or name another one with --datastores FILE",
    )
}

/// Tries whether a folder can be a `job_store`.
pub(super) fn job_store(folder: &Path) -> DoctorCheck {
    let works = || {
        format!(
            "the job store: files can be created once, synced, renamed, read, listed, removed and locked in {}; to \
             check that other machines share the folder, run this there, too",
            folder.display()
        )
    };
    let tried = try_folder(folder).map(|()| works()).map_err(|error| error.to_string());
    DoctorCheck::new("the job store", tried, "see \"What it needs\" in docs/crash-safety.md")
}

/// Tries whether the objects at an address can be a `job_store`.
pub(super) fn job_store_at(address: &Address, objects: &dyn LogStore) -> DoctorCheck {
    let works = || {
        format!("the job store: objects can be created once, read, listed and removed at {address}")
    };
    let tried = try_store(objects, &address.to_string());
    let tried = tried.map(|()| works()).map_err(|error| error.to_string());
    DoctorCheck::new("the job store", tried, "see \"What it needs\" in docs/crash-safety.md")
}

fn slots(policy: &PolicyArgument) -> DoctorCheck {
    let remedy = "in machine.directory of the policy, name a folder that belongs only to this user";
    let Ok(policy) = policy.load() else {
        let unknown = Err("not known, as the operator's policy cannot be used");
        return DoctorCheck::new("slots for workers", unknown, "fix the policy first");
    };
    let caps = policy.machine();
    let reported = machine_slots::holders(&caps).map(|holders| {
        let held: u32 = holders.iter().map(|(_, slots)| slots).sum();
        match caps.workers {
            Some(all) => {
                let free = all.saturating_sub(held);
                format!("slots for workers: {free} of {all} are free (machine.workers)")
            }
            None if caps.any() => format!("slots for workers: {held} are held by jobs"),
            None => "slots for workers: the policy has no machine caps".to_owned(),
        }
    });
    DoctorCheck::new("slots for workers", reported, remedy)
}

impl DoctorCheck {
    pub(super) fn write_to(&self, text: &mut String, word: &str) {
        let _ = match (&self.found, &self.missing) {
            (Some(found), _) => writeln!(text, "  {:<9} {found}", "ok"),
            (None, reason) => {
                let reason = reason.as_deref().unwrap_or("unknown");
                writeln!(text, "  {word:<9} {}: {reason}", self.name)
            }
        };
        if let (Some(_), Some(what)) = (&self.missing, self.what_to_do) {
            let _ = writeln!(text, "  {:<9} what to do: {what}", "");
        }
    }

    /// A check that has found nothing yet.
    pub(super) fn unknown(name: &'static str) -> Self {
        Self { name, found: None, missing: None, what_to_do: None }
    }

    pub(super) fn new(
        name: &'static str,
        found: Result<String, impl Display>,
        remedy: &'static str,
    ) -> Self {
        let what_to_do = found.is_err().then_some(remedy);
        let (found, missing) = match found {
            Ok(words) => (Some(words), None),
            Err(reason) => (None, Some(reason.to_string())),
        };
        Self { name, found, missing, what_to_do }
    }
}

impl From<Layer> for DoctorCheck {
    fn from(layer: Layer) -> Self {
        let found = layer.found.map_err(|error| error.to_string());
        Self::new(layer.which.name(), found, layer.remedy)
    }
}

/// The first sentence of a reason, unless the output is verbose.
pub(super) fn in_short(reason: &str, is_verbose: bool) -> String {
    let end = reason.find(". ").or_else(|| reason.find('\n'));
    match end.filter(|_| !is_verbose) {
        Some(end) => format!("{} (-v says more)", &reason[..end]),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("registry.db");
        let describe = |file: &Path| {
            let checked = registry(Some(file));
            let reported = checked.found.or(checked.missing).unwrap();
            reported.replace(&dir.path().display().to_string(), "DIR")
        };
        assert_eq!(describe(&file), "the registry: nothing is registered yet, DIR/registry.db");
        drop(Registry::open_or_make(&file).unwrap());
        assert_eq!(describe(&file), "the registry: 0 datasets and 0 models, DIR/registry.db");
        std::fs::write(&file, "no database, although it is long enough to be one").unwrap();
        assert!(registry(Some(&file)).missing.is_some());
    }

    #[test]
    fn long_reasons_are_cut_unless_verbose() {
        let reason = "no driver: libcuda.so.1 is missing. Tried: a.so. Is it installed?";
        assert_eq!(in_short(reason, false), "no driver: libcuda.so.1 is missing (-v says more)");
        assert_eq!(in_short(reason, true), reason);
        assert_eq!(in_short("it was built without CUDA", false), "it was built without CUDA");
    }
}
