//! Models in the job file: the files that the entry script sees, and what happens if a model changes.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, add_world, cut_denials, for_version_0_1, guest, wat_module};
use std::fs;

/// A job with three models: a file, a folder, and a model repository with versions.
fn job() -> TestJob {
    TestJob::new(&guest("reads_outside"))
        .file("in/a.txt", "1")
        .file("all/digits.onnx", "22")
        .file("all/secret.onnx", "333")
        .file("folder/m.onnx", "4444")
        .file("folder/weights.bin", "55555")
        .file("repository/9/model.onnx", "")
        .file("repository/10/model.onnx", "666666")
        .yaml(
            "inputs: {texts: in}\nprocess_count_per_node: 1\nmodels:\n  digits: all/digits.onnx\n  \
             whole: {path: folder}\n  versions: {path: repository}",
        )
}

/// The results of `reads_outside` for paths below `/models`.
fn access_results(ran: &Ran) -> String {
    ran.exits_with(0);
    let output = ran.output().replace('\n', " | ");
    let is_of_model = |part: &&str| {
        let request = part.split_once('=').and_then(|(request, _)| request.split_once(' '));
        request.is_some_and(|(_, path)| path.starts_with("/models"))
    };
    output.split(" | ").filter(is_of_model).map(cut_denials).collect::<Vec<_>>().join("\n")
}

/// The interface `models` has the same functions in versions 0.1 and 0.2 of the contract.
#[test]
fn entry_scripts_for_each_version_of_the_contract_list_the_models() {
    let mut module = wat_module(
        r#"(module
            (import "sandmill:entry/models@0.2.0" "names" (func $names (param i32)))
            COMMON
            ;; At 64: ok, rows, and the list of names, which `names` writes to 72.
            (func RUN (call $names (i32.const 72)) (i32.const 64)))"#,
    );
    add_world(&mut module, "inference");
    for module in [for_version_0_1(&module), module] {
        let ran = job().file("names.wasm", module).run(&["--set", "entry_script=names.wasm"]);
        ran.exits_with(0);
        assert_eq!(ran.output(), "digits\nversions\nwhole\n");
    }
}

#[test]
fn a_model_folder_holds_only_that_model() {
    let digits = "'${{models.digits}}/digits.onnx'";
    let whole = "'${{models.whole}}/weights.bin'";
    let versions = "'${{models.versions}}/model.onnx'";
    let job = job().yaml(&format!(
        "arguments: [--path, {digits}, --path, {whole}, --path, {versions}, --path, \
         /models/digits/secret.onnx, --path, /models/versions/../9/model.onnx, --list, \
         /models/digits, --list, /models/whole, --list, /models/versions, --write, {digits}, --write, \
         {whole}, --write, /models/digits/new]"
    ));
    let ran = job.run(&[]);
    assert_snapshot!(access_results(&ran), @r#"
    host /models/digits/digits.onnx=GOT IT: 2
    wasi /models/digits/digits.onnx=GOT IT: 2
    host /models/whole/weights.bin=GOT IT: 5
    wasi /models/whole/weights.bin=GOT IT: 5
    host /models/versions/model.onnx=GOT IT: 6
    wasi /models/versions/model.onnx=GOT IT: 6
    host /models/digits/secret.onnx=denied: /models/digits/secret.onnx: there is no such file
    wasi /models/digits/secret.onnx=denied
    host /models/versions/../9/model.onnx=denied: /models/versions/../9/model.onnx: it is outside of the folders that were granted
    wasi /models/versions/../9/model.onnx=denied
    list /models/digits=GOT IT: ["digits.onnx"]
    list /models/whole=GOT IT: ["m.onnx", "weights.bin"]
    list /models/versions=GOT IT: ["model.onnx"]
    write /models/digits/digits.onnx=denied
    write /models/whole/weights.bin=denied
    write /models/digits/new=denied
    "#);
    assert!(!ran.has("job/work"), "{ran}");
    assert_eq!(ran.text("all/digits.onnx"), "22");
}

/// If a model has changed, a job is not resumed, and a result is not reused.
#[test]
fn a_changed_model_is_noticed() {
    let crashed = job().env("SANDMILL_FAIL_POINT", "end-committed").run(&[]);
    crashed.exits_with(-9);
    let changed = crashed.into_job().env("SANDMILL_FAIL_POINT", "").file("all/digits.onnx", "2 2");
    let refused = changed.run(&[]);
    refused.exits_with(2).says("models.digits: the ONNX file has changed");
    let restored = refused.into_job().file("all/digits.onnx", "22");
    let done = restored.run(&["--set", "models.digits.device=cpu"]);
    done.exits_with(2).says(r#"models.digits.device: was auto, is now cpu"#);
    let done = done.into_job().run(&[]);
    done.exits_with(0);
    let reused = done.into_job().run(&[]);
    reused.exits_with(0).says("nothing has changed");
    let other = reused.into_job().file("folder/more.bin", "").run(&[]);
    other.exits_with(2).says("the files of models.whole have changed");
}

/// Model files that an interrupted run left in the job directory are replaced.
#[test]
fn a_resumed_job_gets_its_models_again() {
    let job = job().yaml("arguments: [--path, /models/digits/digits.onnx]");
    let crashed = job.env("SANDMILL_FAIL_POINT", "journal-made").run(&[]);
    crashed.exits_with(-9);
    let job = crashed.into_job().env("SANDMILL_FAIL_POINT", "");
    let ran = job.file("job/models/digits/digits.onnx", "something else").run(&[]);
    assert_snapshot!(access_results(&ran), @"
    host /models/digits/digits.onnx=GOT IT: 2
    wasi /models/digits/digits.onnx=GOT IT: 2
    ");
}

#[test]
fn a_model_with_a_wrong_digest_is_refused_first() {
    let ran = job().run(&["--set", &format!("models.digits.digest={}", "0".repeat(64))]);
    ran.exits_with(2);
    assert!(!ran.has("job"), "{ran}");
    assert_snapshot!(ran.redacted(), @"error: model digits: [DIR]/all/digits.onnx has the SHA-256 [SHA256], but models.digits.digest (--set models.digits.digest) is [SHA256]: it is not the model that this job was made for; put the right model there, or change the digest");
    let digest = "785f3ec7eb32f30b90cd0fcf3657d388b5ff4297f2f9716ff66e9b69c05ddd09";
    ran.into_job().run(&["--set", &format!("models.digits.digest=sha256:{digest}")]).exits_with(0);
}

/// A run is refused if the output folder contains a model, or is in a model's folder. Models do not affect
/// `sandmill plan`.
#[test]
fn models_and_the_output_folder_must_not_overlap() {
    let planned = job().command(&["plan", "job.yaml"]);
    planned.exits_with(0).says("1 mini-batch");
    let inside = planned.into_job().run(&["--set", "output=folder/results"]);
    inside.exits_with(2).says("model whole and the output folder");
    let inside = inside.into_job().run(&["--set", "output=all"]);
    inside.exits_with(2).says("model digits and the output folder");
    let without_model = inside.into_job();
    fs::remove_file(without_model.path("all/digits.onnx")).unwrap();
    without_model.run(&[]).exits_with(2).says("job.yaml:6: models.digits.path: there is no");
}

#[test]
fn check_shows_models_as_a_job_does() {
    let script = guest("surroundings").display().to_string();
    let check = ["check", &script, "--run", "in/a.txt", "--arg", "-m", "--arg"];
    let file = "${{models.digits}}/digits.onnx";
    let good = [file, "--model", "digits=all/digits.onnx", "--model", "whole=folder"];
    let ran = job().command(&[&check[..], &good].concat());
    ran.exits_with(0);
    assert!(ran.stdout.contains("/models/digits/digits.onnx"), "{ran}");
    let missing = [file, "--model", "digits=all/digits.onnx", "--onnxruntime", "/gone"];
    let ran = ran.into_job().command(&[&check[..], &missing].concat());
    ran.exits_with(2).says("--onnxruntime names /gone: No such file");
    let job = ran.into_job().env("SANDMILL_ONNXRUNTIME", "/gone");
    let ran = job.command(&[&check[..], &missing[..3]].concat());
    ran.exits_with(0)
        .says("note: tract is used instead of onnxruntime: SANDMILL_ONNXRUNTIME names");
    let wrong = [file, "--model", "digits=all"];
    let ran = ran.into_job().command(&[&check[..], &wrong].concat());
    ran.exits_with(2).says("--model: ").says("holds 2 ONNX files");
}
