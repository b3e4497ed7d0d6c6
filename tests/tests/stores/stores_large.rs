//! Tables in stores whose objects together are larger than the cache. The planner requests each object,
//! and objects that are no longer needed are removed to make room for the next ones.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, Server, TestJob, bytes_here, guest, python};
use std::fs;
use std::process::Command;

/// The size of the object cache in bytes: the smallest size that is allowed.
const CACHE_BYTES: u64 = 1 << 20;

/// A job over tables, which caches objects in its own folder.
fn job(server: &Server, inputs: &str) -> TestJob {
    job_with_cache(server, inputs, CACHE_BYTES)
}

fn job_with_cache(server: &Server, inputs: &str, cache_bytes: u64) -> TestJob {
    let job = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {inputs}\nmini_batch_size: 10 KB\nprocess_count_per_node: 2\nerror_threshold: -1\n\
         ordered: true\narguments: [--rows]"
    ));
    with_store(job, server, cache_bytes)
}

/// Adds access to the server, and an object cache in the job's folder.
fn with_store(job: TestJob, server: &Server, cache_bytes: u64) -> TestJob {
    server.opened_for(job.datastores(&cache_bytes.to_string(), ""))
}

/// An input over local files.
const LOCAL_INPUT: &str = "{t: {path: in, format: csv}}";

/// The cache has room for two tables with this many rows.
const HALF_CACHE_ROWS: usize = 4000;
/// The cache has room for only one table with this many rows.
const LARGE_ROWS: usize = 5500;

/// A table whose rows have about 110 bytes.
fn csv(object: usize, rows: usize) -> String {
    let rows = (0..rows).map(|row| format!("{row},{:x>90} of {object:02} and {row:05}\n", ""));
    format!("n,x\n{}", rows.collect::<String>())
}

/// A store with tables, and a job over local copies of these tables.
fn tables(objects: usize, rows: usize) -> (Server, TestJob) {
    let moto = Server::moto();
    moto.put("/box", "");
    let mut local_job = job(&moto, LOCAL_INPUT);
    for object in 0..objects {
        let name = format!("in/{object:02}.csv");
        let text = csv(object, rows);
        moto.put(&format!("/box/{name}"), &text);
        local_job = local_job.file(&name, text);
    }
    (moto, local_job)
}

/// Runs a job, checks the number of rows, and returns the rows.
fn rows_of(job: TestJob, count: usize) -> String {
    let ran = job.run(&[]);
    ran.exits_with(0);
    let rows = ran.output();
    assert_eq!(rows.lines().count(), count);
    rows
}

/// An input over the same files in a store.
const STORE_INPUT: &str = "{t: {path: s3://box/in/, format: csv}}";

/// Runs a job, and checks that its cached objects never exceed the size of the cache.
fn run_and_watch_cache(job: TestJob, settings: &[&str]) -> Ran {
    let objects = job.path("objects");
    let settings: Vec<_> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let mut running = job.start(&settings);
    let mut max_bytes = 0;
    running.until("the result is there", |running| {
        max_bytes = max_bytes.max(bytes_here(&objects));
        running.dir().join("job/logs/job_result.txt").exists()
    });
    assert!(0 < max_bytes && max_bytes <= CACHE_BYTES, "{max_bytes}");
    let ran = running.wait();
    ran.exits_with(0);
    ran
}

#[test]
fn text_is_fetched_object_by_object() {
    let (moto, local_job) = tables(8, HALF_CACHE_ROWS);
    let expected = rows_of(local_job, 8 * HALF_CACHE_ROWS);
    let ran = run_and_watch_cache(job(&moto, STORE_INPUT), &[]);
    assert_eq!(ran.output(), expected);
    ran.says("8 to fetch");
    // A second run compares the objects one by one, and runs nothing.
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    ran.says("nothing has changed");

    // With types inferred from all objects.
    let ran = run_and_watch_cache(job(&moto, STORE_INPUT), &["schema_inference=full"]);
    assert_eq!(ran.output(), expected);

    // If the cache has room for all objects, they are fetched at the start and stay in the cache.
    let ran = job_with_cache(&moto, STORE_INPUT, 10 * CACHE_BYTES).run(&[]);
    assert_eq!(ran.output(), expected);
    ran.into_job().run(&["--overwrite"]).exits_with(0).says("0 to fetch");
}

#[test]
fn a_plan_equals_that_of_local_files() {
    let (moto, local_job) = tables(8, HALF_CACHE_ROWS);
    let ran = job(&moto, STORE_INPUT).command(&["plan", "job.yaml"]);
    ran.exits_with(0);
    assert_eq!(ran.stdout, local_job.command(&["plan", "job.yaml"]).stdout);
    assert!(bytes_here(&ran.dir().join("objects")) <= CACHE_BYTES);
}

/// Writes six tables of some hundred kilobytes each with this Python code, and puts them into a store.
/// Returns the store, the inputs of a job over this store, and the rows of a job over the local files.
fn store_with_written_files(
    format: &str,
    code: &str,
    names: impl Fn(usize) -> String,
) -> (Server, String, String) {
    let moto = Server::moto();
    moto.put("/box", "");
    let inputs = |path: &str| format!("{{t: {{path: {path}, format: {format}}}}}");
    let local_job = job(&moto, &inputs("in"));
    let head = "import sys, os, random, gzip, json\n\
        def text(row): return random.Random(row).randbytes(50).hex()\n";
    let code = format!("{head}os.chdir(sys.argv[1])\n{code}");
    let mut python = Command::new(python());
    let output = python.args(["-c", &code]).arg(local_job.dir()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut bytes = 0;
    for object in 0..6 {
        let name = names(object);
        let table = fs::read(local_job.path(&name)).unwrap();
        bytes += table.len() as u64;
        moto.put(&format!("/box/{name}"), table);
    }
    assert!(bytes > CACHE_BYTES, "{bytes}");
    let expected = rows_of(local_job, 6 * 4500);
    (moto, inputs("s3://box/in/"), expected)
}

#[test]
fn parquet_is_fetched_object_by_object() {
    let code = "import pyarrow as pa, pyarrow.parquet as pq\nos.mkdir('in')\n\
        for at in range(6):\n    \
        rows = [text(at * 9999 + row) for row in range(4500)]\n    \
        pq.write_table(pa.table({'x': rows}), f'in/{at}.parquet', row_group_size=999)";
    let (moto, stored, expected) =
        store_with_written_files("parquet", code, |at| format!("in/{at}.parquet"));
    for inference in ["first", "full"] {
        let setting = format!("schema_inference={inference}");
        let ran = run_and_watch_cache(job(&moto, &stored), &[&setting]);
        assert_eq!(ran.output(), expected);
    }
}

/// The planner cuts the unpacked text into mini-batches, and then no longer needs the object.
#[test]
fn packed_lines_with_folder_columns_are_fetched_object_by_object() {
    let code = "for at in range(6):\n    \
        os.makedirs(f'in/year={at}')\n    \
        lines = [json.dumps({'n': row, 'x': text(at * 9999 + row)}) for row in range(4500)]\n    \
        gzip.open(f'in/year={at}/t.jsonl.gz', 'wt').write('\\n'.join(lines))";
    let (moto, stored, expected) =
        store_with_written_files("jsonl", code, |at| format!("in/year={at}/t.jsonl.gz"));
    assert!(expected.lines().next_back().unwrap().ends_with(",5"), "{expected}");
    let ran = run_and_watch_cache(job(&moto, &stored), &[]);
    assert_eq!(ran.output(), expected);
}

/// Hundreds of mini-batches of one object fill all queues while the planner waits for the next object. The
/// cache has no room for the next object until these mini-batches are done.
#[test]
fn waiting_mini_batches_do_not_block_the_planners_object() {
    let (moto, local_job) = tables(4, LARGE_ROWS);
    let ran = run_and_watch_cache(job(&moto, STORE_INPUT), &["mini_batch_size=1 KB"]);
    assert_eq!(ran.output(), rows_of(local_job, 4 * LARGE_ROWS));
}

/// While the planner waits for an object, the next objects are already fetched.
#[test]
fn objects_are_fetched_in_advance() {
    let server = Server::objects(0);
    let url = server.url();
    let names = ["a-20000", "withheld.b-20000", "c-10000", "d-40000", "e-20000"];
    let paths: Vec<_> = names.iter().map(|name| format!("{url}/in/{name}")).collect();
    let inputs = format!(
        "{{t: {{paths: [{}], format: csv, header: false, schema: {{x: string}}}}}}",
        paths.join(", ")
    );
    let mut running = job(&server, &inputs).start(&[]);
    let is_requested =
        |name: &str| server.get("/requests").contains(&format!("\"GET /in/{name}\""));
    running.until("the object after the withheld object is requested", |_| is_requested("c-10000"));
    // Meanwhile, the workers process the objects that have arrived.
    let rows = running.dir().join("job/output/parallel_run_step.txt");
    let first = "a-20000 19999\n";
    running.until("rows", |_| fs::read_to_string(&rows).is_ok_and(|rows| rows.contains(first)));
    server.release();
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 110_000);
    assert!(is_requested("e-20000"));
}

/// Rules W12 and W15 (docs/parallel-run-step.md): no row is lost or duplicated.
#[test]
fn a_job_resumes_after_its_leader_was_killed() {
    let (moto, local_job) = tables(8, HALF_CACHE_ROWS);
    let expected = rows_of(local_job, 8 * HALF_CACHE_ROWS);
    let mut job = job(&moto, STORE_INPUT);
    for part in [1, 2] {
        let rows = job.path("job/output/parallel_run_step.txt");
        let mut running = if part == 1 { job.start(&[]) } else { job.start_resume(&[]) };
        running.until("a part of the rows is there", |_| {
            let found = fs::metadata(&rows).map_or(0, |found| found.len());
            found > part * expected.len() as u64 / 4
        });
        running.kill_leader();
        job = running.wait().into_job();
    }
    let ran = job.resume(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), expected);
    assert!(bytes_here(&ran.dir().join("objects")) <= CACHE_BYTES);
}

/// The new planner requests the same objects. Mini-batches that both planners plan run only once.
#[test]
fn a_planner_that_was_killed_is_replaced() {
    let (moto, local_job) = tables(8, HALF_CACHE_ROWS);
    let expected = rows_of(local_job, 8 * HALF_CACHE_ROWS);
    let mut running = job(&moto, STORE_INPUT).start(&[]);
    let rows = running.dir().join("job/output/parallel_run_step.txt");
    running.until("the first rows are there", |_| {
        fs::metadata(&rows).is_ok_and(|file| file.len() > 0)
    });
    let is_planner = |(_, command): &(u32, String)| command.ends_with(" plan-worker");
    let planner = running.children().into_iter().find(is_planner);
    let (planner, _) = planner.expect("the planner waits for objects");
    let planner = rustix::process::Pid::from_raw(planner.cast_signed()).unwrap();
    rustix::process::kill_process(planner, rustix::process::Signal::KILL).unwrap();
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.output(), expected);
    assert!(!ran.has("job/logs/failed_items.csv"), "{ran}");
}

/// Databases, and tables with grouped rows, are read more than once. So all their objects must fit
/// into the cache.
#[test]
fn inputs_needed_all_at_once_must_fit_the_cache() {
    let moto = Server::moto();
    moto.put("/box", "");
    for name in ["large/x", "too/x"] {
        moto.put(&format!("/box/{name}"), vec![b'x'; 600 << 10]);
    }
    let refused = |table: &str, lines: &str| {
        let job = TestJob::new(&guest("echo_table")).yaml(&format!(
            "inputs: {{t: {{paths: ['s3://box/large/', 's3://box/too/'], {table}}}}}\n{lines}"
        ));
        let ran = with_store(job, &moto, CACHE_BYTES).run(&[]);
        ran.exits_with(2);
        assert!(!ran.has("job"), "{ran}");
        ran.stderr
    };
    let grouped = refused("format: csv", "partition_keys: [x]");
    assert_snapshot!(grouped, @"
    input 't': inspecting s3://box/large/
    input 't': 1 object, 600 KB; 1 to fetch
    input 't': inspecting s3://box/too/
    error: input 't': the objects of s3://box/too/ take more than 424 KB, the space left in the cache: raise cache.size in the file of datastores, or name fewer of them
    ");
    assert_eq!(refused("format: sqlite, query: select 1", ""), grouped);
}

/// Objects fail if they are too large, cannot be fetched, or always arrive incomplete. The other objects are
/// processed.
#[test]
fn objects_that_cannot_be_fetched_fail_alone() {
    let server = Server::objects(0);
    let url = server.url();
    let names = [
        "a-25000",
        "big-90000",
        "gone",
        "short.b-25000",
        "never.error.c-25000",
        "never.short.d-25000",
        "e-25000",
    ];
    let paths: Vec<_> = names.iter().map(|name| format!("{url}/in/{name}")).collect();
    let inputs = format!(
        "{{t: {{paths: [{}], format: csv, header: false, schema: {{x: string}}}}}}",
        paths.join(", ")
    );
    let ran = run_and_watch_cache(job(&server, &inputs), &[]);
    let mut rows: Vec<_> = ran.output().lines().map(str::to_owned).collect();
    rows.dedup_by_key(|row| row.split(' ').next().unwrap().to_owned());
    assert_eq!(rows, ["a-25000 0", "e-25000 0", "short.b-25000 0"]);
    assert_eq!(ran.output().lines().count(), 75_000);
    let failed = ran.failed_items();
    assert_eq!(failed.lines().count(), 1 + 4, "{failed}");
    for (name, reason) in [
        ("big-90000", "and the cache has room for 1 MB: raise cache.size"),
        ("gone", "it does not exist; check the address (404 Not Found"),
        ("never.error.c-25000", "(500 Internal Server Error: it broke)"),
        ("never.short.d-25000", "reading it failed"),
    ] {
        let is_expected =
            |line: &str| line.contains(&format!("/inputs/t/{name},")) && line.contains(reason);
        assert!(failed.lines().any(is_expected), "{name}: {reason}\n{failed}");
    }
    // The planner of `sandmill plan` reports the same.
    let ran = ran.into_job().command(&["plan", "job.yaml", "--all"]);
    ran.exits_with(0);
    assert_eq!(
        ran.stdout.lines().filter(|line| line.contains("and the cache has room")).count(),
        1
    );
}

/// Empty objects and local files are not fetched. With full inference, each other object is read twice, and
/// must be the same both times, although it may be removed and fetched again in between.
#[test]
fn empty_objects_and_local_files_need_no_fetch() {
    let moto = Server::moto();
    moto.put("/box", "");
    let text = |name: &str| (0..60000).map(|row| format!("{name},{row}\n")).collect::<String>();
    for name in ["a", "c", "d"] {
        moto.put(&format!("/box/in/{name}.csv"), format!("x,n\n{}", text(name)));
    }
    moto.put("/box/in/b.csv", "");
    let inputs = "{t: {path: s3://box/in/, format: csv}, here: {path: in, format: csv}}";
    for _ in 0..3 {
        let job = job(&moto, inputs).file("in/e.csv", "x,n\ne,1\n");
        let ran = run_and_watch_cache(job, &["schema_inference=full"]);
        assert_eq!(ran.output(), format!("{}{}{}e,1\n", text("a"), text("c"), text("d")));
        assert!(!ran.has("job/logs/failed_items.csv"), "{ran}");
    }
}

/// If an object could not be fetched, a resume runs its mini-batches last, after those of all other objects.
/// In this test, there are enough of these mini-batches to fill all queues.
#[test]
fn failed_objects_are_fetched_again_last() {
    let server = Server::objects(0);
    let url = server.url();
    let paths = ["a-25000", "closed.b-45000", "d-25000"].map(|name| format!("{url}/in/{name}"));
    let inputs = format!(
        "{{t: {{paths: [{}], format: csv, header: false, schema: {{x: string}}}}}}",
        paths.join(", ")
    );
    let ran = job(&server, &inputs).run(&["--set", "error_threshold=0"]);
    ran.exits_with(42);
    assert!(ran.failed_items().contains("was refused"), "{ran}");
    server.release();
    let ran = ran.into_job().resume(&["--set", "error_threshold=0"]);
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 95_000);
    assert!(bytes_here(&ran.dir().join("objects")) <= CACHE_BYTES);
}

/// The cache has room for only one of the two failed objects. When the first mini-batches of the failed
/// objects begin, the planner still needs the last object. These mini-batches must not block the planner.
#[test]
fn several_failed_objects_share_room_for_one() {
    let server = Server::objects(0);
    let url = server.url();
    let names = ["a-1000", "closed.b-30000", "closed.d-30000"];
    let paths = names.map(|name| format!("{url}/in/{name}"));
    let inputs = format!(
        "{{t: {{paths: [{}], format: csv, header: false, schema: {{x: string}}}}}}",
        paths.join(", ")
    );
    let ran = job(&server, &inputs).run(&["--set", "error_threshold=1"]);
    ran.exits_with(42);
    assert_eq!(ran.failed_items().matches("was refused").count(), 2, "{ran}");
    server.release();
    let ran = ran.into_job().resume(&["--set", "progress_update_timeout=60"]);
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 61_000);
    assert!(bytes_here(&ran.dir().join("objects")) <= CACHE_BYTES);
}
