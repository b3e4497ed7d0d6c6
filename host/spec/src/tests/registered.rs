//! Tests of registered datasets and models in a job file.

use super::{LEAST, SpecFixture, describe};
use crate::model::{Latest, Registered, RegisteredContent, RegisteredKind, RegisteredName};
use crate::registered::{NotRegistered, Registrations};
use crate::{JobSpec, LoadContext, OperatorPolicy, SpecErrors, load};
use std::fs;
use std::path::Path;

/// The registry: `images` in two versions, `away` in a datastore, `many` with two paths, and the model
/// `digits`.
struct RegistryFixture {
    dir: String,
    is_broken: bool,
}

impl Registrations for RegistryFixture {
    fn find(
        &self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Registered, NotRegistered> {
        if self.is_broken {
            return Err(NotRegistered::Failed("the registry is broken".to_owned()));
        }
        let (version, paths): (u64, &[&str]) = match (kind, wanted.name.as_str(), wanted.version) {
            (RegisteredKind::Dataset, "images", Some(1)) => (1, &["weights"]),
            (RegisteredKind::Dataset, "images", None | Some(2)) => (2, &["data"]),
            (RegisteredKind::Dataset, "many", None) => (1, &["data", "weights"]),
            (RegisteredKind::Dataset, "away", None) => (1, &["data"]),
            (RegisteredKind::Model, "digits", None | Some(4)) => (4, &["digits.onnx"]),
            _ => return Err(NotRegistered::Unknown(format!("there is no {wanted}"))),
        };
        let is_model = kind == RegisteredKind::Model;
        Ok(Registered {
            name: wanted.name.clone(),
            version,
            paths: paths.iter().map(|path| format!("{}/{path}", self.dir)).collect(),
            datastore: (wanted.name == "away").then(|| "lake".to_owned()),
            digest: is_model.then(|| "0".repeat(64)),
            folder_digest: None,
            description: None,
            registered: jiff::Timestamp::UNIX_EPOCH,
            by: "ada".to_owned(),
            held: Some(RegisteredContent::default()),
        })
    }
}

fn load_in(text: &str, is_broken: bool) -> Result<JobSpec, String> {
    let fixture = SpecFixture::new();
    let path = fixture.0.path().join("job.yaml");
    fs::write(&path, text).expect("a job file");
    let dir = fixture.0.path().to_str().expect("a plain path").to_owned();
    let known = RegistryFixture { dir: dir.clone(), is_broken };
    let loaded = load_with(&path, &OperatorPolicy::default(), &known);
    let mut spec = loaded.map_err(|errors| fixture.redact(&errors.to_string()))?;
    for path in spec.inputs.iter_mut().flat_map(|input| &mut input.paths) {
        *path = path.replace(&dir, "[dir]");
    }
    Ok(spec)
}

fn good(text: &str) -> JobSpec {
    load_in(text, false).unwrap_or_else(|errors| panic!("{errors}"))
}

fn wrong(text: &str) -> String {
    load_in(text, false).expect_err("the job file has errors")
}

const SCRIPT: &str = "entry_script: script.wasm\n";

fn load_with(
    path: &Path,
    policy: &OperatorPolicy,
    registrations: &RegistryFixture,
) -> Result<JobSpec, SpecErrors> {
    load(path, &[], LoadContext { registrations, ..LoadContext::sample(policy) })
}

#[test]
fn registered_names_stand_for_their_paths() {
    let spec = good(&format!(
        "{SCRIPT}inputs:\n  one: {{dataset: images@1}}\n  two: {{dataset: images}}\n  three: \
         {{dataset: images@latest}}\n  four: {{dataset: many}}\nmodels:\n  m: {{model: digits}}\n"
    ));
    let paths: Vec<&[String]> = spec.inputs.iter().map(|input| input.paths.as_slice()).collect();
    assert_eq!(
        paths,
        [
            &["[dir]/weights"][..],
            &["[dir]/data"],
            &["[dir]/data"],
            &["[dir]/data", "[dir]/weights"]
        ]
    );
    let model = &spec.models[0];
    assert!(model.file.ends_with("digits.onnx"));
    assert_eq!(model.digest, Some("0".repeat(64)));
    assert_eq!(model.registered.as_ref().map(|of| of.title.as_str()), Some("digits@4"));
    let latest = |kind, name: &str, version| Latest { kind, name: name.to_owned(), version };
    assert_eq!(
        spec.latest,
        [
            latest(RegisteredKind::Dataset, "images", 2),
            latest(RegisteredKind::Dataset, "many", 1),
            latest(RegisteredKind::Model, "digits", 4),
        ]
    );
    insta::assert_snapshot!(describe(&spec), @"
    inputs.one.dataset: dataset images@1, registered by ada at 1970-01-01 00:00:00Z
    inputs.two.dataset: dataset images@2 (the latest), registered by ada at 1970-01-01 00:00:00Z
    inputs.three.dataset: dataset images@2 (the latest), registered by ada at 1970-01-01 00:00:00Z
    inputs.four.dataset: dataset many@1 (the latest), registered by ada at 1970-01-01 00:00:00Z
    models.m.model: model digits@4 (the latest), registered by ada at 1970-01-01 00:00:00Z
    ");
}

#[test]
fn a_dataset_in_a_datastore_is_an_address() {
    let spec = good(&format!("{SCRIPT}inputs: {{a: {{dataset: away}}}}\n"));
    let [address] = &spec.inputs[0].paths[..] else { panic!("{:?}", spec.inputs) };
    assert!(address.starts_with("datastore://lake"), "{address}");
}

#[test]
fn unknown_registered_names_are_refused() {
    insta::assert_snapshot!(wrong(&format!(
        "{SCRIPT}inputs:\n  a: {{dataset: imgs}}\n  b: {{dataset: images@3}}\n  c: {{dataset: \
         'images@'}}\n  d: {{path: data}}\n  e: {{dataset: images, path: data}}\n  f: {{format: \
         files}}\nmodels:\n  g: {{model: images}}\n  h: {{model: digits@4, version: 2, digest: \
         '{}'}}\n  i: {{model: digits, path: digits.onnx}}\n  j: {{device: cpu}}\n",
        "1".repeat(64)
    )), @r#"
    job.yaml:3: inputs.a.dataset: there is no imgs@latest
    job.yaml:4: inputs.b.dataset: there is no images@3
    job.yaml:5: inputs.c.dataset: found "images@"; expected a registered name, optionally with a version: digits@3, digits or digits@latest
    job.yaml:7: inputs.e: found path and dataset; write only one of them
    job.yaml:8: inputs.f: has no path; set path to a file, a folder or a glob, or dataset to a registered name
    job.yaml:10: models.g.model: there is no images@latest
    job.yaml:11: models.h.version: is only for a path to a folder with versions, and digits@4 is already one version; remove it
    job.yaml:11: models.h.digest: found 1111111111111111111111111111111111111111111111111111111111111111, but digits@4 was registered with 0000000000000000000000000000000000000000000000000000000000000000
    job.yaml:12: models.i: found path and model; write only one of them
    job.yaml:13: models.j: has no path; set path to an ONNX file or a folder with one, or model to a registered name
    "#);
    let none = SpecFixture::new().load(format!("{SCRIPT}inputs: {{a: {{dataset: images}}}}"), &[]);
    insta::assert_snapshot!(none.unwrap_err(), @"job.yaml:2: inputs.a.dataset: there is no registry of datasets here; set path instead");
}

/// Rules C1 and C21 in docs/parallel-run-step.md: names in an Azure file may also be in the registry.
#[test]
fn azures_names_are_looked_up() {
    let text = "type: parallel\ninputs:\n  images: {type: uri_folder, path: azureml:images:1}\n  \
                more: {type: uri_folder, path: azureml:images@latest}\n  model: {type: \
                custom_model, path: azureml:digits:4}\ninput_data: ${{inputs.images}}\ntask: {type: \
                run_function, entry_script: script.wasm, append_row_to: rows.txt}\n";
    // A model that is a file can also be a side input.
    let spec = good(text);
    assert!(spec.side_inputs[1].host.ends_with("digits.onnx"), "{:?}", spec.side_inputs);
    let spec = good(&text.replace("azureml:digits:4", "azureml:images:2"));
    assert_eq!(spec.inputs[0].paths, ["[dir]/weights"]);
    assert!(spec.side_inputs[0].host.ends_with("data"), "{:?}", spec.side_inputs);
    let reported = spec.notices.iter().filter(|line| line.contains("registered by"));
    insta::assert_snapshot!(reported.cloned().collect::<Vec<_>>().join("\n"), @"
    inputs.images.path: dataset images@1, registered by ada at 1970-01-01 00:00:00Z
    inputs.more.path: dataset images@2 (the latest), registered by ada at 1970-01-01 00:00:00Z
    inputs.model.path: dataset images@2, registered by ada at 1970-01-01 00:00:00Z
    ");
    insta::assert_snapshot!(wrong(&text.replace("images:1", "images:9")), @r#"job.yaml:3: inputs.images.path: found "azureml:images:9", which is in Azure; fetch it first, and name the files here by --set inputs.images.path=...; or register it here as images@9 (sandmill dataset register)"#);
    insta::assert_snapshot!(wrong(&text.replace("images@latest", "many@latest")), @"job.yaml:4: inputs.more.path: many@1 has 2 paths, but a side input is one folder; register only that folder");
    insta::assert_snapshot!(load_in(text, true).unwrap_err(), @"
    job.yaml:3: inputs.images.path: the registry is broken
    job.yaml:4: inputs.more.path: the registry is broken
    job.yaml:5: inputs.model.path: the registry is broken
    ");
}

#[test]
fn a_policy_holds_for_registered_paths() {
    let fixture = SpecFixture::new();
    let dir = fixture.0.path().to_str().expect("a plain path").to_owned();
    let policy = fixture.0.path().join("policy.yaml");
    let job = fixture.0.path().join("job.yaml");
    let roots = format!(
        "roots: {{inputs: ['{dir}/weights'], side_inputs: ['{dir}/weights'], entry_scripts: \
         ['{dir}'], outputs: [], job_directories: []}}\n"
    );
    fs::write(&policy, roots).expect("a policy");
    fs::write(
        &job,
        format!("{LEAST}models: {{m: {{model: digits}}}}\n")
            .replace("{images: data}", "{a: {dataset: images@2}, b: {dataset: images@1}}"),
    )
    .expect("a job file");
    let policy = OperatorPolicy::load(&policy).expect("a good policy");
    let known = RegistryFixture { dir, is_broken: false };
    let errors = load_with(&job, &policy, &known).expect_err("two of them are elsewhere");
    let reported = fixture.redact(&errors.to_string());
    insta::assert_snapshot!(reported, @"
    job.yaml:2: inputs.a.dataset: found [dir]/data; the operator's policy allows inputs only below [dir]/weights ([dir]/policy.yaml:1)
    job.yaml:3: models.m.model: found [dir]/digits.onnx; the operator's policy allows models only below [dir]/weights ([dir]/policy.yaml:1)
    ");
}

/// A machine that gets the job from another one needs no registry.
#[test]
fn names_are_kept_for_other_machines() {
    let spec =
        good(&format!("{SCRIPT}inputs: {{a: {{dataset: images}}, b: {{dataset: images@1}}}}\n"));
    let find = |version| {
        let wanted = RegisteredName { name: "images".to_owned(), version };
        let found = spec.text.find(RegisteredKind::Dataset, &wanted);
        found.map(|found| found.version)
    };
    assert_eq!([None, Some(1), Some(2)].map(find), [Some(2), Some(1), Some(2)]);
    assert_eq!(find(Some(3)), None);
    let wanted = RegisteredName { name: "images".to_owned(), version: None };
    assert_eq!(spec.text.find(RegisteredKind::Model, &wanted), None);
}
