//! Registered datasets and models: names with versions in the user's registry, and jobs that use these names.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

const REGISTRY_FILE: &str = "registry/registry.db";

/// A folder with data in two subfolders, and a model.
fn folder() -> TestJob {
    TestJob::new(&guest("reads_outside"))
        .yaml("process_count_per_node: 1\nmini_batch_size: 1")
        .file("one/a.txt", "1")
        .file("two/b.txt", "22")
        .file("two/c.txt", "333")
        .file("net/model.onnx", "4444")
        .file("net/weights.bin", "55555")
}

/// Runs a command that registers data, and returns the job.
fn register(job: TestJob, arguments: &[&str]) -> TestJob {
    let ran = job.command(arguments);
    ran.exits_with(0);
    ran.into_job()
}

/// Registers two versions of `images`, and the model `net`.
fn registered() -> TestJob {
    let job = register(folder(), &["dataset", "register", "images", "one"]);
    let second = ["dataset", "register", "images", "two/*.txt", "one/a.txt", "--new-version"];
    let job = register(job, &[&second[..], &["--description", "with \u{1b}[2J two"]].concat());
    register(job, &["model", "register", "net", "net"])
}

/// A text with `[WHO]` instead of the user's name.
fn without_user(text: &str) -> String {
    let before_time = regex::Regex::new(r" by [^ ]+ at").unwrap();
    let at_line_end = regex::Regex::new(r"(?m) by [^ ]+$").unwrap();
    let text = before_time.replace_all(text, " by [WHO] at");
    at_line_end.replace_all(&text, " by [WHO]").into_owned()
}

/// A job's notes about the registered versions of its names.
fn notes(ran: &Ran) -> String {
    let text = without_user(&ran.redacted());
    text.lines().filter(|line| line.contains("registered by")).collect::<Vec<_>>().join("\n")
}

#[test]
fn versions_are_listed_and_removed() {
    let ran = registered().command(&["dataset", "list", "--all"]);
    let titles = |ran: &Ran| {
        let names = ran.stdout.lines().filter_map(|line| line.split(' ').next());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(titles(&ran), "images@1 images@2");
    let ran = ran.into_job().command(&["dataset", "remove", "images@2"]);
    ran.exits_with(0);
    assert_eq!(ran.stdout, "images@2\n");
    assert_snapshot!(ran.redacted(), @"removed from [DIR]/registry/registry.db; the files stay, and the version numbers are not reused");
    let ran = ran.into_job().command(&["dataset", "remove", "images@2"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: dataset images has no version 2; the only version is 1");
    let ran = ran.into_job().command(&["dataset", "list"]);
    assert_eq!(titles(&ran), "images@1");
    let ran = ran.into_job().command(&["model", "remove", "net"]);
    assert_eq!(ran.stdout, "net@1\n");
    let ran = ran.into_job().command(&["model", "list", "--all"]);
    ran.exits_with(0);
    assert_eq!(ran.stdout, "");
}

#[test]
fn names_are_registered_listed_and_shown() {
    let ran = folder().command(&["dataset", "list"]);
    ran.exits_with(0);
    assert_snapshot!(ran.redacted(), @"no dataset is registered in [DIR]/registry/registry.db; `sandmill dataset register NAME PATH` adds one");
    let ran = ran.into_job().command(&["dataset", "register", "images", "one"]);
    assert_eq!(ran.stdout, "images@1\n");
    assert_snapshot!(ran.redacted(), @"registered; for a job file: dataset: images@1, 1 file with 1 byte");
    let again = ran.into_job().command(&["dataset", "register", "images", "two"]);
    again.exits_with(2);
    assert_snapshot!(without_user(&again.redacted()), @"error: dataset images@1 is registered already, by [WHO] at [WHEN]: [DIR]/one; add --new-version to register it as version 2, or choose another name");
    let job = registered();
    let ran = job.command(&["dataset", "list"]);
    assert_snapshot!(without_user(&ran.redacted_stdout()), @"images@2  [WHEN]  [DIR]/two/*.txt and 1 more path");
    let ran = ran.into_job().command(&["dataset", "show", "images"]);
    assert_snapshot!(without_user(&ran.redacted_stdout()), @r"
    dataset images@2
      description with \u{1b}[2J two
      registered  [WHEN] by [WHO]
      path        [DIR]/two/*.txt
                  [DIR]/one/a.txt
      contained   3 files with 6 bytes
      newest      [WHEN]
    ");
    let ran = ran.into_job().command(&["dataset", "show", "images@1", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&shown["version"], &shown["held"]["bytes"]), (&1.into(), &1.into()));
    let ran = ran.into_job().command(&["model", "show", "net"]);
    assert_snapshot!(without_user(&ran.redacted_stdout()), @"
    model net@1
      registered  [WHEN] by [WHO]
      path        [DIR]/net
      contained   2 files with 9 bytes
      sha256      [SHA256]
      of folder   [SHA256]
    ");
    let ran = ran.into_job().command(&["model", "list", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((all.as_array().unwrap().len(), &all[0]["name"]), (1, &"net".into()));
    let ran = ran.into_job().command(&["model", "show", "nte@2"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @r#"error: there is no registered model "nte"; did you mean net?"#);
    let ran = ran.into_job().command(&["dataset", "register", "gone", "nowhere"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: input 'gone': [DIR]/nowhere is not there; check the path");
    let ran = ran.into_job().command(&["dataset", "register", "../x", "one"]);
    ran.exits_with(2).says("expected 1 to 64 letters");
}

/// Rules C1, C22 (docs/parallel-run-step.md): a job may use registered names. A name without a
/// version means the latest version at the time when the job begins.
#[test]
fn jobs_use_registered_names() {
    let inputs = "inputs: {all: {dataset: images@2}}\nmodels: {m: {model: net}}";
    let list = "arguments: [--list, /models/m]";
    let ran = registered().yaml(inputs).yaml(list).run(&[]);
    ran.exits_with(0);
    assert_snapshot!(notes(&ran), @"
    note: inputs.all.dataset: dataset images@2, registered by [WHO] at [WHEN]
    note: models.m.model: model net@1 (the latest), registered by [WHO] at [WHEN]
    ");
    ran.says("items         3");
    assert!(ran.output().contains(r#"GOT IT: ["model.onnx", "weights.bin"]"#), "{ran}");
    let report = ran.log("sys/job_report/processed_mini-batches.csv");
    for file in ["/b.txt", "/c.txt", "/a.txt"] {
        assert!(report.contains(file), "{ran}");
    }

    let job = registered().yaml("inputs: {all: {dataset: images}}");
    let killed = job.env("SANDMILL_FAIL_POINT", "end-committed").run(&[]);
    killed.exits_with(-9);
    let job = killed.into_job().env("SANDMILL_FAIL_POINT", "");
    let job = register(job, &["dataset", "register", "images", "one", "--new-version"]);
    let other = job.run(&[]);
    other.exits_with(2).says("inputs.all.path: was ");
    let done = other.into_job().resume(&[]);
    done.exits_with(0);
    assert_snapshot!(notes(&done), @"note: inputs.all.dataset: dataset images@2 (the latest when the job was begun), registered by [WHO] at [WHEN]");
    done.says("items         3");
    let wrong =
        done.into_job().command(&["plan", "job.yaml", "--set", "inputs.all.dataset=imags@2"]);
    wrong.exits_with(2);
    assert_snapshot!(wrong.redacted(), @r#"error: --set inputs.all.dataset: there is no registered dataset "imags"; did you mean images?"#);
}

#[test]
fn a_model_that_changed_since_registration_is_refused() {
    let job = registered().yaml("inputs: {all: {dataset: images@1}}\nmodels: {m: {model: net@1}}");
    let weights = job.file("net/weights.bin", "5555x").run(&[]);
    weights.exits_with(2);
    assert!(!weights.has("job"), "{weights}");
    assert_snapshot!(weights.redacted().lines().last().unwrap(), @"error: model m (job.yaml:6): [DIR]/net is not what was registered as net@1: its SHA-256 was [SHA256], and is [SHA256]; restore the registered file, or register the present one as a new version");
    let job = weights.into_job().file("net/weights.bin", "55555");
    let model = job.file("net/model.onnx", "444x").run(&[]);
    model.exits_with(2);
    assert_snapshot!(model.redacted().lines().last().unwrap(), @"error: model m (job.yaml:6): [DIR]/net/model.onnx is not what was registered as net@1: its SHA-256 was [SHA256], and is [SHA256]; restore the registered file, or register the present one as a new version");
    model.into_job().file("net/model.onnx", "4444").run(&[]).exits_with(0);
}

/// A registered name cannot evade the operator's policy.
#[test]
fn registered_names_obey_the_policy() {
    let job = registered().yaml("inputs: {all: {dataset: images@1}}\nmodels: {m: {model: net}}");
    let dir = job.dir().display();
    let scripts = guest("reads_outside");
    let policy = format!(
        "roots: {{inputs: ['{dir}/two'], side_inputs: ['{dir}/two'], entry_scripts: ['{}'], \
         outputs: [], job_directories: []}}\nmodels: [m]",
        scripts.parent().unwrap().display()
    );
    let job = job.file("policy.yaml", policy).env("SANDMILL_POLICY", "policy.yaml");
    let ran = job.run(&[]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"
    error: job.yaml:5: inputs.all.dataset: found [DIR]/one; the operator's policy allows inputs only below [DIR]/two ([DIR]/policy.yaml:1)
    error: job.yaml:6: models.m.model: found [DIR]/net; the operator's policy allows models only below [DIR]/two ([DIR]/policy.yaml:1)
    ");
    for (kind, path) in [("dataset", "one"), ("dataset", "/etc/*.conf"), ("model", "net")] {
        let ran = rerun(&ran).command(&[kind, "register", "other", path]);
        ran.exits_with(2).says("the operator's policy allows");
    }
    let nightly = ["dataset", "register", "other", "a/*.csv", "--datastore", "nightly"];
    let ran = rerun(&ran).command(&nightly);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: [DIR]/policy.yaml: --datastore: found nightly; the operator's policy allows no datastores (datastores, [DIR]/policy.yaml)");
    let ran = rerun(&ran).command(&["dataset", "register", "other", "two"]);
    ran.exits_with(0);
}

/// Data in a store is registered by the name of a datastore, not by an address.
#[test]
fn an_address_of_a_store_is_not_registered() {
    let ran = folder().command(&["dataset", "register", "other", "s3://bucket/in/*.csv"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: found s3://bucket/in/*.csv, the address of a store; to register data in a store, name a datastore and a path in it: sandmill dataset register other PATH --datastore NAME (or write the address into the job file, as the input's path)");
    let ran = ran.into_job().command(&["model", "register", "net", "s3://bucket/net.onnx"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: found s3://bucket/net.onnx, which is in a store; a model must be on this machine: download it first, and register the file or the folder");
}

/// The same files in a new folder.
fn rerun(ran: &Ran) -> TestJob {
    let text = ran.text("policy.yaml");
    let job = folder();
    let text = text.replace(&ran.dir().display().to_string(), &job.dir().display().to_string());
    job.file("policy.yaml", text).env("SANDMILL_POLICY", "policy.yaml")
}

#[test]
fn concurrent_registrations_get_different_versions() {
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("new/registry.db");
    let start = || {
        let job = folder().env("SANDMILL_REGISTRY", file.to_str().unwrap());
        job.spawn(&["dataset", "register", "images", "one", "--new-version"])
    };
    let running: Vec<_> = (0..6).map(|_| start()).collect();
    let mut versions = Vec::new();
    for command in running {
        let ran = command.wait();
        ran.exits_with(0);
        versions.push(ran.stdout.trim().to_owned());
    }
    versions.sort();
    let expected: Vec<String> = (1..=6).map(|version| format!("images@{version}")).collect();
    assert_eq!(versions, expected);
}

/// If the process is killed between the write and the commit, nothing is registered.
#[test]
fn an_interrupted_registration_leaves_nothing() {
    let job = registered().env("SANDMILL_FAIL_POINT", "registry-written");
    let killed = job.command(&["dataset", "register", "images", "one", "--new-version"]);
    killed.exits_with(-9);
    let job = killed.into_job().env("SANDMILL_FAIL_POINT", "");
    let ran = job.command(&["dataset", "show", "images"]);
    ran.exits_with(0);
    assert!(ran.stdout.starts_with("dataset images@2\n"), "{ran}");
    let ran = ran.into_job().command(&["dataset", "register", "images", "one", "--new-version"]);
    assert_eq!(ran.stdout, "images@3\n");
    // The same holds for the first registration.
    let job = folder().env("SANDMILL_FAIL_POINT", "registry-written");
    let killed = job.command(&["dataset", "register", "images", "one"]);
    killed.exits_with(-9);
    let job = killed.into_job().env("SANDMILL_FAIL_POINT", "");
    let ran = job.command(&["dataset", "register", "images", "one"]);
    assert_eq!(ran.stdout, "images@1\n", "{ran}");
}

#[test]
fn an_unusable_registry_is_reported() {
    let show = |job: TestJob| job.command(&["dataset", "show", "images"]);
    let length = fs::metadata(registered().path(REGISTRY_FILE)).unwrap().len();
    assert!(length > 4096);
    let damaged = show(registered().file(REGISTRY_FILE, "no database".repeat(1000)));
    damaged.exits_with(2);
    assert_snapshot!(damaged.redacted(), @"error: the registry [DIR]/registry/registry.db is damaged (file is not a database): replace it with an intact copy, or move it away and register your datasets and models again");
    // A job that uses no registered names is not affected.
    let job = damaged.into_job();
    job.run(&["--set", "inputs.all=one"]).exits_with(0);

    let newer = registered();
    let database = rusqlite::Connection::open(newer.path(REGISTRY_FILE)).unwrap();
    database.pragma_update(None, "user_version", 2).unwrap();
    let newer = show(newer);
    newer.exits_with(2);
    assert_snapshot!(newer.redacted(), @"error: the registry [DIR]/registry/registry.db has format 2, and this version of sandmill knows 1: use a newer version, or name another file in SANDMILL_REGISTRY");

    let nowhere = folder().env("SANDMILL_REGISTRY", "/proc/registry.db");
    let nowhere = nowhere.command(&["dataset", "register", "images", "one"]);
    nowhere.exits_with(2);
    assert_snapshot!(nowhere.redacted(), @"error: the registry /proc/registry.db cannot be written: check the rights to it and to its folder, or name another file in SANDMILL_REGISTRY");

    let open = registered();
    fs::set_permissions(open.path(REGISTRY_FILE), Permissions::from_mode(0o666)).unwrap();
    let open = open.yaml("inputs: {all: {dataset: images}}").run(&[]);
    open.exits_with(2).says("can be written by other users (mode 666)");

    // Reading needs no write permission.
    let read_only = registered();
    fs::set_permissions(read_only.path(REGISTRY_FILE), Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(read_only.path("registry"), Permissions::from_mode(0o555)).unwrap();
    show(read_only).exits_with(0);
}
