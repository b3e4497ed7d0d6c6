//! Tests of jobs whose data was uploaded into the job store.

use super::{LEAST, SpecFixture};
use crate::model::{ContentRef, JobText, UploadedData, UploadedFolder, UploadedMeaning};
use crate::{
    FetchedScript, GivenJob, JobSpec, JobStorePlace, LoadContext, OperatorPolicy, StoredKind, load,
    load_given,
};
use std::fs;

const DIGEST: &str = "0707070707070707070707070707070707070707070707070707070707070707";

fn data(key: &str, means: &[UploadedMeaning]) -> UploadedData {
    let folder = |means: &UploadedMeaning| UploadedFolder {
        content: ContentRef { sha256: [7; 32], bytes: 3 },
        files: 1,
        means: means.clone(),
    };
    let folders = means.iter().map(folder).collect();
    let named = match key {
        "inputs.images" => r#"["data", "data/*.png"] None"#,
        "side_inputs.word" => r#""weights/digits.bin""#,
        "side_inputs.words" => r#""weights""#,
        _ => r#""digits.onnx" None"#,
    };
    let named = named.to_owned();
    UploadedData { key: key.to_owned(), folders, named, partition_format: None }
}

fn all() -> Vec<UploadedData> {
    let file = |name: &str| UploadedMeaning::File(name.to_owned());
    vec![
        data("inputs.images", &[UploadedMeaning::Folder, UploadedMeaning::Files]),
        data("side_inputs.word", &[file("a [1].txt")]),
        data("side_inputs.words", &[UploadedMeaning::Folder]),
        data("models.digits", &[file("digits.onnx")]),
    ]
}

const JOB: &str = "name: nightly\nentry_script: script.wasm\ninputs: {images: {paths: [data, 'data/*.png']}}\n\
                   side_inputs: {word: weights/digits.bin, words: weights}\nmodels: {digits: digits.onnx}\n\
                   arguments: [--words, '${{side_inputs.word}}', '${{side_inputs.words}}']\n";

fn loaded(fixture: &SpecFixture, lines: &str, uploads: &[UploadedData]) -> Result<JobSpec, String> {
    let path = fixture.0.path().join("job.yaml");
    fs::write(&path, format!("{JOB}{lines}")).unwrap();
    let policy = OperatorPolicy::default();
    let context = LoadContext { uploads, ..LoadContext::sample(&policy) };
    load(&path, &[], context).map_err(|errors| fixture.redact(&errors.to_string()))
}

/// The job as another machine reads it, which has none of the local data.
fn elsewhere(fixture: &SpecFixture, spec: &JobSpec) -> Result<JobSpec, String> {
    for name in ["data", "weights", "weights2"] {
        let _ = fs::remove_dir_all(fixture.0.path().join(name));
    }
    let _ = fs::remove_file(fixture.0.path().join("digits.onnx"));
    let script = FetchedScript::default();
    let given = GivenJob { text: spec.text.clone(), script, component: None };
    let policy = OperatorPolicy::default();
    let path = fixture.0.path().join("job.yaml");
    let again = load_given(&path, &given, &[], LoadContext::sample(&policy));
    again.map_err(|errors| fixture.redact(&errors.to_string()))
}

#[test]
fn paths_are_replaced_by_addresses() {
    let fixture = SpecFixture::new();
    let lines = "output: s3://box/results\njob_store: s3://box/jobs/\n";
    let spec = loaded(&fixture, lines, &all()).unwrap();
    let uploads = format!("s3://box/jobs/nightly/uploads/{DIGEST}");
    assert_eq!(spec.inputs[0].paths, [format!("{uploads}/"), format!("{uploads}/**")]);
    assert_eq!(spec.arguments[1..], ["/side_inputs/word/a [1].txt", "/side_inputs/words"]);
    let stored: Vec<_> = spec
        .stored
        .iter()
        .map(|it| (it.kind, it.address.to_string(), it.file.as_deref()))
        .collect();
    let folder = format!("{uploads}/");
    assert_eq!(
        stored,
        [
            (StoredKind::SideInput(0), folder.clone(), Some("a [1].txt")),
            (StoredKind::SideInput(1), folder.clone(), None),
            (StoredKind::Model(0), folder, Some("digits.onnx")),
        ]
    );
    assert_eq!(elsewhere(&fixture, &spec).unwrap(), spec);
}

#[test]
fn paths_are_replaced_by_folders() {
    let fixture = SpecFixture::new();
    let uploads = fixture.0.path().join("jobs/nightly/uploads").join(DIGEST);
    fs::create_dir_all(&uploads).unwrap();
    fs::write(uploads.join("a [1].txt"), "").unwrap();
    fs::write(uploads.join("digits.onnx"), "").unwrap();
    let spec = loaded(&fixture, "output: out\njob_store: jobs\n", &all()).unwrap();
    let folder = uploads.display().to_string();
    assert_eq!(spec.inputs[0].paths, [folder.clone(), format!("{folder}/**")]);
    assert_eq!(spec.arguments[1..], ["/side_inputs/word/a [1].txt", "/side_inputs/words"]);
    assert_eq!(spec.side_inputs[0].host, uploads.join("a [1].txt"));
    assert_eq!(spec.models[0].file, uploads.join("digits.onnx"));
    assert_eq!(spec.stored, []);
    assert!(matches!(&spec.job_store, Some(JobStorePlace::Folder(_))));
    assert_eq!(elsewhere(&fixture, &spec).unwrap(), spec);
}

/// The description may come from any user who can write to the store.
#[test]
fn hostile_descriptions_are_refused() {
    let fixture = SpecFixture::new();
    let folder = || UploadedMeaning::Folder;
    for hostile in [
        data("inputs.other", &[folder()]),
        data("inputs.images", &[]),
        data("output", &[folder()]),
        data("side_inputs.word", &[UploadedMeaning::File("../../x".to_owned())]),
        data("side_inputs.word", &[folder(), folder()]),
        data("models.none", &[folder()]),
    ] {
        let lines = "output: s3://box/results\njob_store: s3://box/jobs\n";
        let errors = loaded(&fixture, lines, &[hostile]).unwrap_err();
        assert!(errors.contains("names no data that a submitter can have uploaded"), "{errors}");
    }
    let errors = loaded(&fixture, "", &all()).unwrap_err();
    assert!(errors.contains("job_store: missing; uploaded data is in it"), "{errors}");
}

/// Another machine names the line, the path and the next step.
#[test]
fn a_machine_without_the_data_says_what_to_do() {
    let fixture = SpecFixture::new();
    let spec = loaded(&fixture, "output: out\njob_store: jobs\n", &[]).unwrap();
    let errors = elsewhere(&fixture, &spec).unwrap_err();
    let advice = "is not on this machine: start the job with --upload, or name a folder that all machines share or an address in a store";
    for line in [
        "job.yaml:4: side_inputs.word.path: [dir]/weights/digits.bin",
        "job.yaml:4: side_inputs.words.path: [dir]/weights",
        "job.yaml:5: models.digits.path: [dir]/digits.onnx",
    ] {
        assert!(errors.contains(&format!("{line} {advice}")), "{errors}");
    }
    let spec = JobSpec { text: JobText { text: LEAST.to_owned(), ..spec.text }, ..spec };
    let errors = elsewhere(&fixture, &spec).unwrap_err();
    assert_eq!(errors, format!("job.yaml:2: inputs.images.path: [dir]/data {advice}"));
}

/// The submitter resumes a job after its file has got another input. The uploaded one must not be used.
#[test]
fn data_that_is_named_in_another_way_is_not_that_which_was_uploaded() {
    let fixture = SpecFixture::new();
    let named = |key: &str, named: &str| UploadedData {
        named: named.to_owned(),
        ..data(key, &[UploadedMeaning::Folder])
    };
    for (key, other) in [
        ("inputs.images", r#"["data2"] None"#),
        ("side_inputs.words", r#""weights2""#),
        ("models.digits", r#""digits.onnx" Some(2)"#),
    ] {
        let error = loaded(&fixture, "job_store: jobs\n", &[named(key, other)]).unwrap_err();
        let expected = format!(
            "{key}: has changed since the data was uploaded: start the job again with --upload --overwrite"
        );
        assert!(error.contains(&expected), "{error}");
    }
}
