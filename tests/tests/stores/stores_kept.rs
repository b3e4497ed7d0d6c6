//! Side inputs and models in stores. Also objects with unusual keys, servers with unusual responses, and
//! caches on unusual disks.

use insta::assert_snapshot;
use sandmill_tests::{Ran, Server, TestJob, cut_denials, guest};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A job that caches objects in its own folder.
fn job(script: &str, lines: &str, server: &Server) -> TestJob {
    server.opened_for(TestJob::new(&guest(script)).yaml(lines).datastores("1 MB", ""))
}

/// A job that tries to read these paths.
fn reading(lines: &str, paths: &[&str], server: &Server) -> TestJob {
    let arguments: Vec<_> = paths.iter().map(|path| format!("--path, {path}")).collect();
    let lines = format!(
        "inputs: {{texts: in}}\nprocess_count_per_node: 1\narguments: [{}]\n{lines}",
        arguments.join(", ")
    );
    job("reads_outside", &lines, server).file("in/a.txt", "1")
}

/// The guest's results for the paths below `folder`.
fn read_results(ran: &Ran, folder: &str) -> String {
    ran.exits_with(0);
    let output = ran.output().replace('\n', " | ");
    let is_below = |part: &&str| part.starts_with(&format!("host {folder}"));
    output.split(" | ").filter(is_below).map(cut_denials).collect::<Vec<_>>().join("\n")
}

#[test]
fn side_inputs_are_read_from_stores() {
    let moto = Server::moto();
    moto.put("/box", "");
    moto.put("/box/words/a.txt", "22");
    moto.put("/box/words/deep/b.txt", "333");
    let paths = ["/side_inputs/words/a.txt", "/side_inputs/words/deep/b.txt"];
    let side =
        |address: &str| reading(&format!("side_inputs: {{words: '{address}'}}"), &paths, &moto);
    let ran = side("s3://box/words/").run(&[]);
    assert_snapshot!(read_results(&ran, "/side_inputs"), @"
    host /side_inputs/words/a.txt=GOT IT: 2
    host /side_inputs/words/deep/b.txt=GOT IT: 3
    ");
    // Before Sandmill reuses a result, it compares the objects.
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    ran.says("nothing has changed");
    moto.put("/box/words/a.txt", "23");
    let ran = ran.into_job().run(&[]);
    ran.exits_with(2);
    ran.says("the files in the side input at /side_inputs/words have changed");

    let refused = |address: &str| {
        let ran = side(address).run(&[]);
        ran.exits_with(2);
        assert!(!ran.has("job"), "{ran}");
        ran.stderr
    };
    assert_snapshot!(refused("s3://box/words/a.txt"), @"
    side_inputs.words.path: inspecting s3://box/words/
    side_inputs.words.path: 1 object, 2 bytes; 1 to fetch
    error: side_inputs.words.path: s3://box/words/a.txt is a single object; a side input is a folder of objects
    ");
    assert_snapshot!(refused("s3://box/none/"), @"
    side_inputs.words.path: inspecting s3://box/none/
    error: side_inputs.words.path: s3://box/none/ holds no object; check the address
    ");
    assert_snapshot!(refused("s3://box/*.txt"), @"error: job.yaml:6: side_inputs.words.path: found s3://box/*.txt; expected a folder of a store, without wildcards");
    moto.put("/box/large/x", vec![b'x'; 2 << 20]);
    assert_snapshot!(refused("s3://box/large/"), @"
    side_inputs.words.path: inspecting s3://box/large/
    error: side_inputs.words.path: the objects of s3://box/large/ take more than 1 MB, the space left in the cache: raise cache.size in the file of datastores, or name fewer of them
    ");
}

#[test]
fn models_are_read_from_stores() {
    let moto = Server::moto();
    moto.put("/box", "");
    moto.put("/box/digits.onnx", "22");
    moto.put("/box/whole/m.onnx", "4444");
    moto.put("/box/whole/weights.bin", "55555");
    moto.put("/box/versions/9/model.onnx", "1");
    moto.put("/box/versions/10/model.onnx", "666666");
    let models = "models:\n  digits: s3://box/digits.onnx\n  whole: {path: s3://box/whole/}\n  \
                  newest: s3://box/versions/\n  old: {path: s3://box/versions/, version: 9}";
    let paths = [
        "/models/digits/digits.onnx",
        "/models/whole/weights.bin",
        "/models/newest/model.onnx",
        "/models/old/model.onnx",
    ];
    let ran = reading(models, &paths, &moto).run(&[]);
    assert_snapshot!(read_results(&ran, "/models"), @"
    host /models/digits/digits.onnx=GOT IT: 2
    host /models/whole/weights.bin=GOT IT: 5
    host /models/newest/model.onnx=GOT IT: 6
    host /models/old/model.onnx=GOT IT: 1
    ");
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    ran.says("nothing has changed");
    let ran = reading("models: {m: s3://box/none.onnx}", &[], &moto).run(&[]);
    ran.exits_with(2);
    assert_snapshot!(ran.stderr, @"
    models.m.path: inspecting s3://box/
    error: models.m.path: reading none.onnx of s3://box/: it does not exist; check the address (404 Not Found)
    ");
}

#[test]
fn policies_apply_to_side_inputs_and_models() {
    let moto = Server::moto();
    let refused = |lines: &str| {
        let job = reading(lines, &[], &moto).file("policy.yaml", "datastores: [nightly]\n");
        let ran = job.run(&["--policy", "policy.yaml"]);
        ran.exits_with(2);
        let folder = ran.dir().display().to_string();
        ran.stderr.replace(&folder, "[job]")
    };
    assert_snapshot!(refused("side_inputs: {words: s3://box/words/}"), @"error: job.yaml:6: side_inputs.words.path: found s3://box/words/; the operator's policy allows only the datastores nightly (datastores, [job]/policy.yaml:1)");
    assert_snapshot!(refused("models: {m: s3://box/m.onnx}"), @r#"
    error: job.yaml:6: models.m: found the model "m"; the operator's policy allows none (models, [job]/policy.yaml)
    error: job.yaml:6: models.m.path: found s3://box/m.onnx; the operator's policy allows only the datastores nightly (datastores, [job]/policy.yaml:1)
    "#);
}

/// An object fails if its key cannot be a file's path. It also fails if its key treats another
/// object as a folder: `d.txt/e.txt` next to `d.txt`. The other objects are processed. Tests inputs
/// that are a folder, and inputs that are a glob.
#[test]
fn odd_keys_fail_their_own_items() {
    let moto = Server::moto();
    moto.put("/box", "");
    let long = format!("{}.txt", "x".repeat(300));
    for key in ["a.txt", "b//c.txt", "d.txt/e.txt", "d.txt", &long, "z.txt"] {
        moto.put(&format!("/box/in/{key}"), "1");
    }
    for (address, odd) in [
        ("s3://box/in/", vec!["b//c.txt", "d.txt/e.txt", &long]),
        ("s3://box/in", vec!["b//c.txt", "d.txt/e.txt", &long]),
        ("s3://box/in/*.txt", vec![&long]),
    ] {
        let lines =
            format!("inputs: {{t: '{address}'}}\nprocess_count_per_node: 1\nerror_threshold: -1");
        let ran = job("echo_files", &lines, &moto).run(&[]);
        ran.exits_with(0);
        assert_eq!(ran.sorted_output(), ["a.txt: 1", "d.txt: 1", "z.txt: 1"], "{address}");
        let failed = ran.failed_items();
        assert_eq!(failed.lines().count(), 1 + odd.len(), "{address}: {failed}");
        for name in odd {
            assert!(failed.contains(&format!("/inputs/t/{name}")), "{address}: {failed}");
        }
    }
    // For tables, Sandmill makes a file for each object, under an escaped name.
    let lines =
        "inputs: {t: {path: s3://box/in/, format: csv, header: false}}\nerror_threshold: -1";
    let ran = job("echo_table", lines, &moto).run(&[]);
    ran.exits_with(0);
    let failed = ran.failed_items();
    assert!(
        failed.contains("b%2F%2Fc.txt") && failed.contains("is not a valid file path"),
        "{failed}"
    );
    assert!(failed.contains("a part of its key has 304 bytes"), "{failed}");
}

#[test]
fn unusual_and_stopped_servers() {
    let server = Server::objects(0);
    let url = server.url();
    let run = |paths: &str| {
        let lines = format!(
            "inputs: {{t: {{paths: [{paths}]}}}}\nprocess_count_per_node: 1\nerror_threshold: -1"
        );
        job("echo_files", &lines, &server).run(&[])
    };
    // The server refuses HEAD for the first object, redirects to itself for the second, and redirects to
    // another server for the third.
    let ran = run(&format!("{url}/in/headless.a-1, {url}/in/here.b-2, {url}/in/away.c-3"));
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["headless.a-1: 15", "here.b-2: 22"]);
    let failed = ran.failed_items();
    assert!(failed.contains("it redirects to another server, localhost"), "{failed}");
    // A server that does not run.
    let ran = run("http://127.0.0.1:9/in/a");
    ran.exits_with(2);
    ran.says("reading a of http://127.0.0.1:9/in/ failed: the store cannot be reached");
}

/// A resumed job fetches the objects that had failed, and repeats nothing else.
#[test]
fn a_resume_fetches_from_a_recovered_store() {
    for (script, settings, rows) in [
        ("echo_files", "", vec!["a-1: 6", "closed.b-2: 26", "d-1: 6"]),
        (
            "echo_table",
            ", format: csv, header: false",
            vec!["a-1 0", "closed.b-2 0", "closed.b-2 1", "d-1 0"],
        ),
    ] {
        let server = Server::objects(0);
        let url = server.url();
        let size = if settings.is_empty() { 1 } else { 6 };
        let lines = format!(
            "inputs: {{t: {{paths: [{url}/in/a-1, {url}/in/closed.b-2, {url}/in/d-1]{settings}}}}}\n\
             mini_batch_size: {size}\nprocess_count_per_node: 1\nerror_threshold: 0\narguments: [--rows]"
        );
        let ran = job(script, &lines, &server).run(&[]);
        ran.exits_with(42);
        assert!(ran.failed_items().contains("was refused"), "{ran}");
        server.release();
        let ran = ran.into_job().resume(&[]);
        ran.exits_with(0);
        assert_eq!(ran.sorted_output(), rows);
    }
}

/// A mounted file system that stores times in whole seconds. It is unmounted when this value is dropped.
struct RoundingDisk(PathBuf);

impl RoundingDisk {
    /// `None` if this user cannot mount file systems.
    fn mount(folder: &Path) -> Option<Self> {
        let image = folder.with_extension("image");
        File::create(&image).and_then(|file| file.set_len(16 << 20)).ok()?;
        fs::create_dir(folder).ok()?;
        let succeeds =
            |command: &mut Command| command.output().is_ok_and(|ran| ran.status.success());
        let is_mounted = succeeds(Command::new("mkfs.ext4").args(["-q", "-I", "128"]).arg(&image))
            && succeeds(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(folder));
        let disk = is_mounted.then(|| Self(folder.to_owned()))?;
        fs::set_permissions(folder, Permissions::from_mode(0o700)).ok()?;
        Some(disk)
    }
}

impl Drop for RoundingDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// If times are rounded, two versions of an object can look the same. So Sandmill fetches objects of an
/// earlier job again, but still reuses the result of an unchanged job.
#[test]
fn a_file_system_that_rounds_times_serves_no_old_versions() {
    let moto = Server::moto();
    moto.put("/box", "");
    for (script, format) in [("echo_files", ""), ("echo_table", ", format: csv")] {
        moto.put("/box/in/a.csv", "n\n1\n");
        moto.put("/box/in/b.csv", "n\n2\n");
        let lines = format!("inputs: {{t: {{path: 's3://box/in/'{format}}}}}\narguments: [--rows]");
        let job = job(script, &lines, &moto);
        let Some(rounding) = RoundingDisk::mount(&job.path("objects")) else {
            eprintln!("skipped: this user cannot mount file systems");
            return;
        };
        let ran = job.run(&[]);
        ran.exits_with(0).says("; 2 to fetch");
        let ran = ran.into_job().run(&[]);
        ran.exits_with(0).says("; 2 to fetch").says("nothing has changed");
        moto.put("/box/in/b.csv", "n\n3\n");
        let ran = ran.into_job().run(&["--overwrite"]);
        ran.exits_with(0).says("; 2 to fetch");
        if !format.is_empty() {
            assert_eq!(ran.sorted_output(), ["1", "3"]);
        }
        // Unmount the file system before the folder that contains it is removed.
        drop(rounding);
    }
}
