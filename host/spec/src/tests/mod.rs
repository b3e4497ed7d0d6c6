//! Tests that load a whole job file, by topic.

mod components;
mod deployment;
mod errors;
mod given;
mod good;
mod hostile;
mod imported;
mod mltable;
mod models;
mod nodes;
mod options;
mod output;
mod partition;
mod pipeline;
mod python;
mod registered;
mod settings;
mod table;
mod uploads;
mod version2;

use super::{JobSpec, LoadContext, MachineSize, OperatorPolicy, load};
use crate::model::JobText;
use std::fs;
use tempfile::TempDir;

/// A folder with the files that job files name: `script.wasm`, a guest crate `guest`, `source`, `weights`,
/// `data`, `digits.onnx`.
struct SpecFixture(TempDir);

impl SpecFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for folder in ["guest", "source", "weights", "weights2", "data", "empty"] {
            fs::create_dir(dir.path().join(folder)).expect("a folder");
        }
        for file in [
            "script.wasm",
            "guest/Cargo.toml",
            "source/inner.wasm",
            "weights/digits.bin",
            "digits.onnx",
        ] {
            fs::write(dir.path().join(file), b"").expect("a file");
        }
        Self(dir)
    }

    /// Loads the text as `job.yaml`. An error is returned as printed, with the folder as `[dir]`.
    fn load(&self, text: impl AsRef<[u8]>, set: &[(&str, &str)]) -> Result<JobSpec, String> {
        self.load_on(&MachineSize::default(), text, set)
    }

    /// Like [`load`](Self::load), on a machine that has a broker.
    fn load_with_broker(&self, text: &str, set: &[(&str, &str)]) -> Result<JobSpec, String> {
        self.load_on(&MachineSize { has_broker: true, ..MachineSize::default() }, text, set)
    }

    fn load_on(
        &self,
        machine: &MachineSize,
        text: impl AsRef<[u8]>,
        set: &[(&str, &str)],
    ) -> Result<JobSpec, String> {
        let path = self.0.path().join("job.yaml");
        fs::write(&path, text).expect("a job file");
        let set: Vec<(String, String)> =
            set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let policy = OperatorPolicy::default();
        let context = LoadContext { machine, ..LoadContext::sample(&policy) };
        load(&path, &set, context).map_err(|errors| self.redact(&errors.to_string()))
    }

    fn redact(&self, text: &str) -> String {
        let dir = self.0.path().to_str().expect("a plain path");
        text.replace(&format!("{dir}/job.yaml"), "job.yaml").replace(dir, "[dir]")
    }
}

/// The errors of a job file that is wrong.
fn errors(text: &str) -> String {
    errors_with(text, &[])
}

fn errors_with(text: &str, set: &[(&str, &str)]) -> String {
    SpecFixture::new().load(text, set).expect_err("the job file has errors")
}

/// The job of a correct file, with the folder's real path replaced everywhere.
fn job(text: &str) -> JobSpec {
    job_with(text, &[])
}

fn job_with(text: &str, set: &[(&str, &str)]) -> JobSpec {
    let fixture = SpecFixture::new();
    let spec = fixture.load(text, set).unwrap_or_else(|errors| panic!("{errors}"));
    let dir = fixture.0.path();
    let shorten = |path: &std::path::Path| {
        std::path::Path::new("/dir").join(path.strip_prefix(dir).expect("below the folder"))
    };
    let mut spec = spec;
    // Two texts may describe the same job.
    spec.job_file_sha256.clear();
    spec.text = JobText::default();
    spec.named_data.clear();
    spec.entry_script = shorten(&spec.entry_script);
    spec.source_directory = spec.source_directory.map(|path| shorten(&path));
    spec.output = spec.output.map(|path| shorten(&path));
    for mount in &mut spec.side_inputs {
        mount.host = shorten(&mount.host);
    }
    for model in &mut spec.models {
        model.file = shorten(&model.file);
        model.folder = model.folder.take().map(|folder| shorten(&folder));
    }
    for path in spec.inputs.iter_mut().flat_map(|input| &mut input.paths) {
        *path = path.replace(dir.to_str().expect("a plain path"), "/dir");
    }
    spec
}

/// All notices and conversions of a file, one line each.
fn describe(spec: &JobSpec) -> String {
    let lines: Vec<_> = spec.notices.iter().chain(&spec.conversions).cloned().collect();
    lines.join("\n")
}

/// The smallest job file.
const LEAST: &str = "entry_script: script.wasm\ninputs: {images: data}\n";
