//! Inputs and outputs in stores: S3 on moto's server, web servers with faults, and Azure's blobs.

use insta::assert_snapshot;
use sandmill_tests::{Ran, Server, TestJob, bytes_here, guest, python, root};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Part of all secrets in these tests. It must not appear in any file or message.
const SECRET: &str = "hushhush";

/// A job over files, which caches objects in its own folder.
fn job(inputs: &str) -> TestJob {
    let job = TestJob::new(&guest("echo_files")).yaml(&format!(
        "inputs: {inputs}\nmini_batch_size: 2\nprocess_count_per_node: 2\nerror_threshold: -1"
    ));
    datastores(job, "")
}

fn datastores(job: TestJob, stores: &str) -> TestJob {
    let x = "  x: {type: http, url: http://x, anonymous: true}\n";
    job.datastores("1 MB", &format!("{x}{stores}"))
}

/// Checks that no file of the job and no message contains a secret.
fn assert_no_secrets(ran: &Ran) {
    assert!(!ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET), "{ran}");
    fn check_files(folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                check_files(&path);
            } else if let Ok(bytes) = fs::read(&path) {
                let found = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
                assert!(!found, "{} holds a secret", path.display());
            }
        }
    }
    check_files(&ran.dir().join("job"));
    check_files(&ran.dir().join("objects"));
}

#[test]
fn a_folder_of_s3_is_an_input() {
    let moto = Server::moto();
    moto.put("/scans", "");
    for (name, content) in [("a.txt", "1"), ("b.txt", "22"), ("deep/c.txt", "333"), ("x.csv", "4")]
    {
        moto.put(&format!("/scans/in/{name}"), content);
    }
    moto.put("/scans/elsewhere/d.txt", "55555");
    let ran = moto.opened_for(job("{texts: 's3://scans/in/'}")).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2", "c.txt: 3", "x.csv: 1"]);
    ran.says("4 objects, 7 bytes; 4 to fetch\n");
    assert_no_secrets(&ran);

    // As long as no object changes, nothing is fetched again, and the result is reused. A change is noticed
    // even if the object's length stays the same.
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    ran.says("4 objects, 7 bytes; 0 to fetch\n").says("nothing has changed");
    moto.put("/scans/in/b.txt", "23");
    moto.delete("/scans/in/x.csv");
    let ran = ran.into_job().run(&[]);
    ran.exits_with(2);
    ran.says("3 objects, 6 bytes; 1 to fetch\n");
    let ran = ran.into_job().run(&["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2", "c.txt: 3"]);
}

/// Empty objects that represent folders are not items. If an object and a folder have the same
/// name, the objects in the folder fail. The variable `AWS_BUCKET` has no effect on the job.
#[test]
fn folders_and_objects_of_one_name() {
    let moto = Server::moto();
    moto.put("/scans", "");
    let objects = [("", ""), ("b.txt", "22"), ("c", "333"), ("c/d.txt", "4444"), ("none/", "")];
    for (name, content) in objects.into_iter().chain([("sub/", ""), ("sub/a.txt", "1")]) {
        moto.put(&format!("/scans/in/{name}"), content);
    }
    let job = moto.opened_for(job("{texts: 's3://scans/in/'}")).env("AWS_BUCKET", "other");
    let ran = job.run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2", "c: 3"]);
    let failed = fs::read_to_string(ran.dir().join("job/logs/failed_items.csv")).unwrap();
    assert!(failed.contains("/inputs/texts/c/d.txt"), "{failed}");
    // The same with objects that are already in the cache.
    let ran = ran.into_job().run(&["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2", "c: 3"]);
}

#[test]
fn globs_single_objects_and_tables_of_s3() {
    let moto = Server::moto();
    moto.put("/box", "");
    for (name, content) in [("a.csv", "n\n1\n2\n"), ("deep/b.csv", "n\n3\n"), ("c.txt", "x")] {
        moto.put(&format!("/box/{name}"), content);
    }
    let plan = |inputs: &str| {
        let ran = moto.opened_for(job(inputs)).command(&["plan", "job.yaml"]);
        ran.exits_with(0);
        ran.stdout
    };
    assert_snapshot!(plan("{t: 's3://box/**/*.csv'}"), @"
    mini-batch  input      items  where
             0  t              2  a.csv .. deep/b.csv
    ");
    assert_snapshot!(plan("{t: s3://box/c.txt}"), @"
    mini-batch  input      items  where
             0  t              1  c.txt
    ");
    assert_snapshot!(plan("{t: {paths: [s3://box/a.csv, s3://box/c.txt, s3://box/deep]}}"), @"
    mini-batch  input      items  where
             0  t              2  a.csv .. c.txt
             1  t              1  b.csv
    ");
    let table = TestJob::new(&guest("echo_table"))
        .yaml("inputs: {t: {path: 's3://box/**/*.csv', format: csv}}");
    let ran = moto.opened_for(datastores(table, "")).run(&[]);
    ran.exits_with(0);
}

/// The input is three times as large as the cache. The cached objects never exceed the cache's
/// size.
#[test]
fn an_input_may_be_larger_than_the_cache() {
    let moto = Server::moto();
    moto.put("/box", "");
    for index in 0..30 {
        moto.put(&format!("/box/in/{index:02}/x"), vec![b'x'; 100 << 10]);
    }
    let job = moto.opened_for(job("{t: s3://box/in/}"));
    let objects = job.path("objects");
    let mut running = job.start(&[]);
    let mut max_bytes = 0;
    running.until("the job ends", |_| {
        max_bytes = max_bytes.max(bytes_here(&objects));
        fs::read_to_string(objects.with_file_name("job/output/parallel_run_step.txt"))
            .is_ok_and(|rows| rows.lines().count() == 30)
    });
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["x: 102400"; 30]);
    assert!((200 << 10..=1 << 20).contains(&max_bytes), "{max_bytes}");
    // A second run finds that nothing has changed, although most objects are no longer in the cache.
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    ran.says("nothing has changed");

    // An object that is larger than the cache fails, and the others are processed.
    moto.put("/box/in/07/x", vec![b'x'; 2 << 20]);
    let ran = ran.into_job().run(&["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 29);
    let failed = ran.failed_items();
    assert!(failed.contains("its mini-batch takes 2148 KB"), "{failed}");
}

/// The first mini-batch runs as soon as its own objects have arrived, before the last object. This is tested
/// for files and for tables.
#[test]
fn the_first_mini_batch_waits_only_for_its_objects() {
    let server = Server::objects(0);
    let url = server.url();
    let paths = format!("[{url}/in/a-1, {url}/in/b-2, {url}/in/withheld.c-3]");
    let start_and_wait_for = |job: TestJob, text: &str| {
        let mut running = job.start(&[]);
        let rows = running.dir().join("job/output/parallel_run_step.txt");
        running.until("a row", |_| fs::read_to_string(&rows).is_ok_and(|rows| rows.contains(text)));
        running
    };
    let files = job(&format!("{{t: {{paths: {paths}}}}}"));
    let running = start_and_wait_for(files, "a-1");
    server.release();
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a-1: 6", "b-2: 12", "withheld.c-3: 45"]);

    let server = Server::objects(0);
    let paths = paths.replace(&url, &server.url());
    let tables = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{t: {{paths: {paths}, format: csv, header: false, \
         schema: {{x: string}}}}}}\narguments: [--rows]"
    ));
    let running = start_and_wait_for(datastores(tables, ""), "a-1");
    server.release();
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 6, "{ran}");
}

#[test]
fn missing_buckets_and_objects_are_refused() {
    let moto = Server::moto();
    moto.put("/box", "");
    let refused = |inputs: &str| {
        let ran = moto.opened_for(job(inputs)).run(&[]);
        ran.exits_with(2);
        assert!(!ran.has("job"), "{ran}");
        assert_no_secrets(&ran);
        ran.stderr.replace(&moto.url(), "[server]")
    };
    assert_snapshot!(refused("{t: s3://nowhere/in/}"), @"
    input 't': inspecting s3://nowhere/in/
    error: input 't': listing s3://nowhere/in/: it does not exist; check the address (404 Not Found, NoSuchBucket: The specified bucket does not exist)
    ");
    assert_snapshot!(refused("{t: s3://box/in/}"), @"
    input 't': inspecting s3://box/in/
    error: input 't': s3://box/in/ holds no object; check the address
    ");
    assert_snapshot!(refused("{t: s3://box/one.txt}"), @"
    input 't': inspecting s3://box/
    error: input 't': reading one.txt of s3://box/: it does not exist; check the address (404 Not Found)
    ");
    assert_snapshot!(refused("{t: {path: in, datastore: nightly}}"), @r#"error: input 't': stores.yaml has no datastore "nightly" for tenant default; it has: x"#);
}

#[test]
fn server_faults_are_retried_or_fail_their_items() {
    let server = Server::objects(0);
    let url = server.url();
    let fetch = |names: &[&str]| {
        let paths: Vec<_> = names.iter().map(|name| format!("{url}/in/{name}")).collect();
        let ran = job(&format!("{{t: {{paths: [{}]}}}}", paths.join(", "))).run(&[]);
        ran.exits_with(0);
        ran
    };
    let names =
        ["a-1", "error.b-1", "throttle.c-1", "busy.d-1", "reset.e-1", "short.f-9", "slow.g-9"];
    let ran = fetch(&names);
    assert_snapshot!(ran.sorted_output().join(" "), @"a-1: 6 busy.d-1: 11 error.b-1: 12 reset.e-1: 12 short.f-9: 108 slow.g-9: 99 throttle.c-1: 15");
    assert!(!ran.has("job/logs/failed_items.csv"), "{ran}");

    let never = ["never.error.a-1", "never.short.b-9", "never.denied.c-1", "never.reset.d-1"];
    let ran = fetch(&[&["a-1", "gone"], &never[..]].concat());
    assert_eq!(ran.sorted_output(), ["a-1: 6"]);
    // Each item has its own reason, and they may fail in any order.
    let failed = ran.failed_items();
    assert_eq!(failed.lines().count(), 1 + 5, "{failed}");
    for (name, reason) in [
        ("gone", "it does not exist; check the address (404 Not Found"),
        ("never.error.a-1", "(500 Internal Server Error: it broke)"),
        ("never.short.b-9", "reading it failed"),
        ("never.denied.c-1", "was refused, using no credentials"),
        ("never.reset.d-1", "reading it failed"),
    ] {
        let mut lines = failed.lines();
        let found =
            lines.any(|line| line.contains(&format!("/inputs/t/{name},")) && line.contains(reason));
        assert!(found, "{name}: {reason}\n{failed}");
    }
}

/// The Azure store that `tests/servers/objects.py` imitates.
fn blobs(server: &Server, secret: &str) -> String {
    let url = server.url();
    format!(
        "  blobs:\n    type: azure\n    account: acc\n    container: blobs\n    endpoint: {url}/acc\n    \
         prefix: in\n    tenant_id: tenant\n    client_id: me\n    client_secret: {secret}\n    \
         authority_host: {url}\n"
    )
}

#[test]
fn a_service_principal_gives_access_to_azure() {
    let server = Server::objects(0);
    let stores = blobs(&server, "hushhush-client-secret");
    let ran = datastores(job("{t: {path: '*.txt', datastore: blobs}}"), &stores).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a-1.txt: 10", "b-2.txt: 20"]);
    assert_no_secrets(&ran);

    let stores = blobs(&server, "hushhush-of-another");
    let ran = datastores(job("{t: {path: /, datastore: blobs}}"), &stores).run(&[]);
    ran.exits_with(2);
    assert_no_secrets(&ran);
    assert_snapshot!(ran.stderr.replace(&server.url(), "[server]"), @r#"
    input 't': inspecting datastore://blobs/
    error: input 't': listing datastore://blobs/ was refused, using the credentials of datastore blobs: check the rights to list and read there (401 Unauthorized: {"error": "invalid_client"})
    "#);
}

#[test]
fn blobs_of_azurite_are_an_input() {
    // Keys are base64, and this text is valid base64.
    let key = "hushhushhushhushhushhush";
    let azurite = Server::azurite(key);
    let endpoint = format!("{}/acc", azurite.url());
    for (name, content) in [("in/a.txt", "1"), ("in/deep/b.txt", "22"), ("out/c.txt", "333")] {
        let script = root().join("tests/servers/put_blob.py");
        let mut command = Command::new(python());
        command.arg(script).args([&endpoint, "acc", key, "scans", name, content]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let stores = |key: &str| {
        format!(
            "  blobs: {{type: azure, account: acc, container: scans, endpoint: '{endpoint}', \
             account_key: {key}}}\n"
        )
    };
    let inputs = "{t: {path: in/, datastore: blobs}}";
    let ran = datastores(job(inputs), &stores(key)).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2"]);
    assert_no_secrets(&ran);

    let ran = datastores(job(inputs), &stores("hushhushHUSHHUSHhushhush")).run(&[]);
    ran.exits_with(2);
    ran.says("listing datastore://blobs/in/ was refused, using the credentials of datastore blobs");
    assert_no_secrets(&ran);
}

#[test]
fn results_go_to_a_store() {
    let moto = Server::moto();
    moto.put("/box", "");
    let run = |output: &str| {
        let job = job("{t: in}").file("in/a.txt", "1").file("in/b.txt", "22");
        moto.opened_for(job.yaml(&format!("output: {output}\nordered: true"))).run(&[])
    };
    let ran = run("s3://box/results");
    ran.exits_with(0);
    ran.says("1 object, 18 bytes");
    assert_eq!(moto.get("/box/results/parallel_run_step.txt"), "a.txt: 1\nb.txt: 2\n");
    assert_no_secrets(&ran);
    // The next run does not repeat the job, but writes its results again.
    moto.delete("/box/results/parallel_run_step.txt");
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    ran.says("nothing has changed");
    assert_eq!(moto.get("/box/results/parallel_run_step.txt"), "a.txt: 1\nb.txt: 2\n");

    let ran = run("s3://nowhere/results");
    ran.exits_with(42);
    ran.says("it does not exist; check the address (404 Not Found, NoSuchBucket");
    ran.says("run the job again to write them to the store");
    assert_eq!(ran.output(), "a.txt: 1\nb.txt: 2\n");
    // The job is not completed.
    let ran = ran.into_job().command(&["clean", "--root", ".", "--older-than", "0s"]);
    assert_eq!(ran.stdout, "0 jobs, 0 bytes freed\n");
    let ran = ran.into_job().command(&["status", "job", "--exit-code"]);
    ran.exits_with(3);
    assert!(ran.stdout.contains("its results are not all in s3://nowhere/results"), "{ran}");
    moto.put("/nowhere", "");
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    let ran = ran.into_job().command(&["status", "job", "--exit-code"]);
    ran.exits_with(0);
}

#[test]
fn a_policy_allows_datastores_by_name() {
    let server = Server::objects(0);
    let policy = |names: &str, inputs: &str| {
        let job = datastores(job(inputs), &blobs(&server, "hushhush-client-secret"));
        let job = job.file("policy.yaml", format!("datastores: {names}\n"));
        job.run(&["--policy", "policy.yaml"])
    };
    policy("[blobs]", "{t: {path: a-1.txt, datastore: blobs}}").exits_with(0);
    let ran = policy("[others]", "{t: {path: a-1.txt, datastore: blobs}}");
    ran.exits_with(2);
    let folder = ran.dir().display().to_string();
    assert_snapshot!(ran.stderr.replace(&folder, "[job]"), @"error: job.yaml:3: inputs.t.path: found datastore://blobs/a-1.txt; the operator's policy allows only the datastores others (datastores, [job]/policy.yaml:1)");
    let address = format!("{{t: {}/in/a-1}}", server.url());
    let ran = policy("[blobs]", &address);
    ran.exits_with(2);
    ran.says("the operator's policy allows only the datastores blobs");
}

/// An earlier version of Sandmill first made a file of zeros in its cache, with the object's length and time,
/// and then fetched the content into it. Such a file must not be taken for the object.
#[test]
fn cached_files_of_an_earlier_version_are_not_used() {
    let moto = Server::moto();
    moto.put("/box", "");
    for name in ["a.csv", "b.csv"] {
        moto.put(&format!("/box/in/{name}"), "n\n1\n");
    }
    let table = TestJob::new(&guest("echo_table"))
        .yaml("inputs: {t: {path: s3://box/in/, format: csv}}\narguments: [--rows]");
    let ran = moto.opened_for(datastores(table, "")).run(&[]);
    ran.exits_with(0);
    let slot = fs::read_dir(ran.dir().join("objects")).unwrap().next().unwrap().unwrap();
    let name = slot.file_name().into_string().unwrap();
    let old = slot.path().with_file_name(name.strip_prefix("2-").expect("it has a version"));
    // Make the cached files look like files of that version: replace the content by zeros, and keep
    // the length and time.
    for entry in fs::read_dir(slot.path().join("data")).unwrap() {
        let entry = entry.unwrap();
        let file = fs::File::options().write(true).open(entry.path()).unwrap();
        let found = file.metadata().unwrap();
        file.set_len(0).unwrap();
        file.set_len(found.len()).unwrap();
        file.set_modified(found.modified().unwrap()).unwrap();
        fs::set_permissions(entry.path(), Permissions::from_mode(0o1000)).unwrap();
    }
    fs::rename(slot.path(), &old).unwrap();
    let ran = ran.into_job().run(&["--overwrite"]);
    ran.exits_with(0).says("; 2 to fetch");
    assert_eq!(ran.sorted_output(), ["1", "1"]);
    assert!(!old.exists(), "the cache of the earlier version is removed");
}
