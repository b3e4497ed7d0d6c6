//! File inputs in stores. A manifest lists the objects, and an object is fetched when a mini-batch needs it.

use insta::assert_snapshot;
use sandmill_tests::{Running, Server, TestJob, guest};
use std::fs;

/// Settings of all jobs.
const SETTINGS: &str = "mini_batch_size: 2\nprocess_count_per_node: 2\nerror_threshold: -1";

/// A job over files of a store. The job caches objects in its own folder.
fn job(inputs: &str, server: &Server) -> TestJob {
    let job = TestJob::new(&guest("echo_files")).yaml(&format!("inputs: {inputs}\n{SETTINGS}"));
    server.opened_for(job.datastores("1 MB", ""))
}

/// A bucket with these objects.
fn bucket(objects: &[(&str, &str)]) -> Server {
    let moto = Server::moto();
    moto.put("/box", "");
    for (name, content) in objects {
        moto.put(&format!("/box/{name}"), content);
    }
    moto
}

/// A plan fetches no objects, and removes its list of objects.
#[test]
fn a_plan_makes_no_files() {
    let moto = bucket(&[("in/a", "1"), ("in/b/c", "22"), ("in/b/d", "333"), ("in/b.x", "4")]);
    let ran = job("{t: s3://box/in/}", &moto).command(&["plan", "job.yaml"]);
    ran.exits_with(0);
    assert_snapshot!(ran.stdout, @"
    mini-batch  input      items  where
             0  t              2  a .. b.x
             1  t              2  b/c .. b/d
    ");
    let count_files = |folder: &str| {
        let slot = fs::read_dir(ran.dir().join("objects")).into_iter().flatten().flatten().next();
        let entries = slot.and_then(|slot| fs::read_dir(slot.path().join(folder)).ok());
        entries.into_iter().flatten().count()
    };
    assert_eq!(
        (count_files("data"), count_files("part"), count_files("list")),
        (0, 0, 0),
        "the list is removed as well"
    );
}

#[test]
fn names_and_folders_are_found_in_the_list() {
    let moto =
        bucket(&[("a.txt", "1"), ("b.txt", "22"), ("deep/c.txt", "333"), ("deep/d/e.txt", "4")]);
    let plan = |inputs: &str| job(inputs, &moto).command(&["plan", "job.yaml"]);
    assert_snapshot!(plan("{t: 's3://box/{b.txt,a.txt}'}").stdout, @"
    mini-batch  input      items  where
             0  t              2  a.txt .. b.txt
    ");
    assert_snapshot!(plan("{t: s3://box/deep}").stdout, @"
    mini-batch  input      items  where
             0  t              2  c.txt .. d/e.txt
    ");
    assert_snapshot!(plan("{t: {paths: [s3://box/deep, s3://box/b.txt]}}").stdout, @"
    mini-batch  input      items  where
             0  t              2  c.txt .. d/e.txt
             1  t              1  b.txt
    ");
    let missing = plan("{t: 's3://box/{a.txt,none.txt}'}");
    missing.exits_with(2);
    assert_snapshot!(missing.stderr, @"
    input 't': inspecting s3://box/{a.txt,none.txt}
    input 't': 1 object, 1 bytes; 1 to fetch
    error: input 't': the store has no none.txt; check the address
    ");
    let ran = job("{t: {paths: [s3://box/deep, s3://box/b.txt]}}", &moto).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["b.txt: 2", "c.txt: 3", "e.txt: 1"]);
}

/// A mini-batch can read its own objects, but not those of other mini-batches.
#[test]
fn a_mini_batch_sees_only_its_own_objects() {
    let moto = bucket(&[("in/a.txt", "1"), ("in/b.txt", "22"), ("in/c.txt", "333")]);
    // Both addresses name the folder: an address is a folder if it ends with a slash, or if there are objects
    // below it.
    for address in ["s3://box/in/", "s3://box/in"] {
        let script = TestJob::new(&guest("reads_outside")).yaml(&format!(
            "inputs: {{t: '{address}'}}\nmini_batch_size: 1\nprocess_count_per_node: 1\n\
             arguments: [--path, /inputs/t/a.txt, --path, /inputs/t/b.txt, --path, /inputs/t/c.txt]"
        ));
        let ran = moto.opened_for(script.datastores("1 MB", "")).run(&[]);
        ran.exits_with(0);
        assert_eq!(ran.output().matches(".txt=GOT IT").count(), 6, "{address}: {}", ran.output());
    }
}

/// Cached files of an earlier job do not cause failures, even if a folder in the store has replaced
/// an object, or an object has replaced a folder.
#[test]
fn folders_and_objects_may_replace_each_other() {
    let moto = bucket(&[("in/a", "1"), ("in/b/c", "22"), ("in/d", ""), ("in/d/e", "333")]);
    let ran = job("{t: s3://box/in/}", &moto).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a: 1", "c: 2", "e: 3"]);
    for name in ["a", "b/c", "d", "d/e"] {
        moto.delete(&format!("/box/in/{name}"));
    }
    for (name, content) in [("a/x", "1"), ("b", "22"), ("d", "333")] {
        moto.put(&format!("/box/in/{name}"), content);
    }
    let ran = ran.into_job().run(&["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["b: 2", "d: 3", "x: 1"]);
    // The same with a job over tables: in the store, a folder replaces an object, and an object replaces a
    // folder.
    for name in ["a/x", "b", "d"] {
        moto.delete(&format!("/box/in/{name}"));
    }
    for (name, content) in [("a", "n\n1\n"), ("b/c", "n\n2\n")] {
        moto.put(&format!("/box/in/{name}"), content);
    }
    let lines = format!(
        "name: test\nentry_script: {}\ninputs: {{t: {{path: s3://box/in/, format: csv}}}}\narguments: [--rows]\n",
        guest("echo_table").display()
    );
    let ran = ran.into_job().file("job.yaml", lines).run(&["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["1", "2"]);
}

/// Some stores have an empty object for each folder, with the folder's name. An empty object with other
/// objects below it is therefore treated as a folder.
#[test]
fn an_empty_object_with_others_below_is_a_folder() {
    let moto =
        bucket(&[("a.csv", "n\n1\n"), ("d", ""), ("d/e.csv", "n\n2\n"), ("d/f.csv", "n\n3\n")]);
    let of_files = job("{t: s3://box/}", &moto).run(&[]);
    of_files.exits_with(0);
    assert_eq!(of_files.sorted_output(), ["a.csv: 4", "e.csv: 4", "f.csv: 4"]);
    let plan = |address: &str| {
        let ran = job(&format!("{{t: '{address}'}}"), &moto).command(&["plan", "job.yaml"]);
        ran.exits_with(0);
        ran.stdout.lines().skip(1).map(|line| line.replace(' ', "")).collect::<Vec<_>>().join(" | ")
    };
    assert_eq!(plan("s3://box/d"), "0t2e.csv..f.csv");
    assert_eq!(plan("s3://box/*"), "0t1a.csv");
    let table = TestJob::new(&guest("echo_table"))
        .yaml("inputs: {t: {path: s3://box/, format: csv}}\narguments: [--rows]");
    let of_tables = moto.opened_for(table.datastores("1 MB", "")).run(&[]);
    of_tables.exits_with(0);
    assert_eq!(of_tables.sorted_output(), ["1", "2", "3"]);
    let side_input = TestJob::new(&guest("reads_outside")).file("in/x.txt", "").yaml(
        "inputs: {t: in}\nside_inputs: {s: s3://box/}\nprocess_count_per_node: 1\narguments: [--path, \
         /side_inputs/s/d/e.csv, --path, /side_inputs/s/d/f.csv]",
    );
    let side_input = moto.opened_for(side_input.datastores("1 MB", "")).run(&[]);
    side_input.exits_with(0);
    assert_eq!(side_input.output().matches(".csv=GOT IT").count(), 4, "{side_input}");
}

/// Jobs over files and jobs over tables use the same cache.
#[test]
fn file_and_table_jobs_share_cached_objects() {
    let moto = bucket(&[("in/a.csv", "n\n1\n"), ("in/b.csv", "n\n2\n")]);
    let mut ran = job("{t: s3://box/in/}", &moto).run(&[]);
    for (format, rows, fetched) in [
        (", format: csv", ["1", "2"], 0),
        ("", ["a.csv: 4", "b.csv: 4"], 0),
        (", format: csv", ["1", "3"], 1),
        ("", ["a.csv: 4", "b.csv: 5"], 1),
    ] {
        if fetched > 0 {
            let text = if format.is_empty() { "n\n22\n" } else { "n\n3\n" };
            moto.put("/box/in/b.csv", text);
        }
        ran.exits_with(0);
        let script = guest(if format.is_empty() { "echo_files" } else { "echo_table" });
        let inputs = format!("{{t: {{path: 's3://box/in/'{format}}}}}");
        let yaml = format!(
            "name: test\nentry_script: {}\ninputs: {inputs}\n{SETTINGS}\narguments: [--rows]\n",
            script.display()
        );
        let lines = if format.is_empty() { yaml } else { yaml.replace("size: 2", "size: 1 KB") };
        ran = ran.into_job().file("job.yaml", lines).run(&["--overwrite"]);
        ran.exits_with(0);
        ran.says(&format!("; {fetched} to fetch"));
        assert_eq!(ran.sorted_output(), rows, "{format} {fetched}");
    }
}

/// Rules W15 and M9 (docs/parallel-run-step.md): a killed job is resumed, unless objects have changed since
/// their mini-batches were done.
#[test]
fn a_killed_job_resumes_if_its_objects_are_unchanged() {
    let moto = bucket(&[]);
    for index in 0..300 {
        moto.put(&format!("/box/in/{index:03}"), "x");
    }
    let begin = || {
        let mut running = job("{t: s3://box/in/}", &moto).start(&[]);
        let rows = running.dir().join("job/output/parallel_run_step.txt");
        running.until("some rows", |_| fs::metadata(&rows).is_ok_and(|rows| rows.len() > 300));
        running.kill_leader();
        running.wait().into_job()
    };
    let ran = begin().resume(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 300);
    let job = begin();
    moto.put("/box/in/000", "y");
    let ran = job.resume(&[]);
    ran.exits_with(2);
    ran.says("mini-batch 0 (/inputs/t/000 and 1 more) has changed since it was done");
}

/// The id of the process that fetches objects.
fn fetcher(running: &Running) -> Option<u32> {
    let is_fetcher = |(_, command): &(u32, String)| command.ends_with(" fetch-worker");
    running.children().into_iter().find(is_fetcher).map(|(process, _)| process)
}

/// Kills the process that fetches objects. Returns its id.
fn kill_fetcher(running: &Running) -> u32 {
    let number = fetcher(running).expect("a fetch process");
    let process = rustix::process::Pid::from_raw(number.cast_signed()).expect("a process id");
    rustix::process::kill_process(process, rustix::process::Signal::KILL)
        .expect("the process runs");
    number
}

/// The fetch process is killed, as if memory had run out. A new process fetches the missing objects. The
/// cache has room for a third of the objects, so there are always objects to fetch.
#[test]
fn a_killed_fetch_process_is_replaced() {
    let moto = bucket(&[]);
    for index in 0..30 {
        moto.put(&format!("/box/in/{index:02}"), vec![b'x'; 100 << 10]);
    }
    let mut running = job("{t: s3://box/in/}", &moto).start(&[]);
    let rows = running.dir().join("job/output/parallel_run_step.txt");
    running.until("some rows", |_| fs::metadata(&rows).is_ok_and(|rows| rows.len() > 0));
    let first = kill_fetcher(&running);
    running.until("another one", |running| fetcher(running).is_some_and(|pid| pid != first));
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 30);
    assert!(!ran.has("job/logs/failed_items.csv"), "{ran}");
}

/// The fetch process is killed while it fetches tables. All tables fit into the cache, so the
/// process fetches them all at the start.
#[test]
fn a_killed_fetch_process_is_replaced_for_tables() {
    let server = Server::objects(0);
    let url = server.url();
    let names: Vec<_> = (0..40).map(|index| format!("a{index:02}-3")).collect();
    let withheld = ["withheld.b-3".to_owned(), "withheld.c-3".to_owned()];
    let paths: Vec<_> =
        names.iter().chain(&withheld).map(|name| format!("{url}/in/{name}")).collect();
    let table = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{t: {{paths: [{}], format: csv, header: false, schema: {{x: string}}}}}}\n\
         process_count_per_node: 1\nerror_threshold: 0\narguments: [--rows]",
        paths.join(", ")
    ));
    let mut running = table.datastores("1 MB", "").start(&[]);
    let is_requested =
        |name: &str| server.get("/requests").contains(&format!("\"GET /in/{name}\""));
    running.until("the withheld objects are requested", |_| {
        is_requested("withheld.b-3") && is_requested("withheld.c-3")
    });
    let first = kill_fetcher(&running);
    running.until("another one", |running| fetcher(running).is_some_and(|pid| pid != first));
    server.release();
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 42 * 3, "{ran}");
    assert!(!ran.has("job/logs/failed_items.csv"), "{ran}");
    // Objects that arrived are not fetched again.
    let ran = ran.into_job().run(&["--overwrite"]);
    ran.exits_with(0).says("; 0 to fetch");
}

/// A job is killed while it fetches objects. When the job is resumed, it reuses the complete objects, and
/// fetches the others.
#[test]
fn objects_fetched_by_a_killed_job_are_reused() {
    let server = Server::objects(0);
    let url = server.url();
    let names: Vec<_> = (0..20).map(|index| format!("a{index:02}-3")).collect();
    let withheld = ["withheld.b-3".to_owned(), "withheld.c-3".to_owned()];
    let paths: Vec<_> =
        names.iter().chain(&withheld).map(|name| format!("{url}/in/{name}")).collect();
    let table = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{t: {{paths: [{}], format: csv, header: false, schema: {{x: string}}}}}}\n\
         process_count_per_node: 1\nerror_threshold: 0\narguments: [--rows]",
        paths.join(", ")
    ));
    let mut running = table.datastores("1 MB", "").start(&[]);
    let rows = running.dir().join("job/output/parallel_run_step.txt");
    let last = "a19-3 2\n";
    running.until("the last rows before the withheld objects", |_| {
        fs::read_to_string(&rows).is_ok_and(|rows| rows.contains(last))
    });
    running.kill_leader();
    let ended = running.wait().into_job();
    server.release();
    let ran = ended.resume(&[]);
    ran.exits_with(0).says("; 2 to fetch");
    assert_eq!(ran.output().lines().count(), 22 * 3, "{ran}");
}
