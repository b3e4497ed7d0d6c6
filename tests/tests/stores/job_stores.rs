//! Jobs whose `job_store`, results, or both are in a store. The machine with the job directory is lost, and another
//! one continues the job. Each machine is a job directory, and the machines share nothing but the store.

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Ran, Running, Server, TestJob, guest};
use std::fs;
use std::thread;

const FAIL_POINT: &str = "SANDMILL_FAIL_POINT";

/// A job with rows and files, from six mini-batches. `bucket`: a new bucket for its results and its log.
fn job(moto: &Server, bucket: &str) -> TestJob {
    moto.put(&format!("/{bucket}"), "");
    let job = TestJob::new(&guest("writes_files")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 9\n\
         output: s3://{bucket}/results\njob_store: s3://{bucket}/jobs"
    ));
    let job = moto.opened_for(job);
    (0..6).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

pub(crate) fn run_on(job: TestJob, machine: &str, options: &[&str]) -> Ran {
    job.command(&[&["run", "job.yaml", "--job-dir", machine], options].concat())
}

/// Fails if the results do not have each row and each file once, or have anything else.
#[track_caller]
fn assert_complete(moto: &Server, bucket: &str, has_rows: bool, ran: &Ran) {
    let found = moto.names(bucket, "results/");
    let is_rows = |name: &&String| name.starts_with("results/parallel_run_step");
    let text: String =
        found.iter().filter(is_rows).map(|name| moto.get(&format!("/{bucket}/{name}"))).collect();
    let mut rows: Vec<_> = text.lines().collect();
    rows.sort_unstable();
    let expected: Vec<_> = (0..6).map(|n| format!("{n}.txt: {n}")).collect();
    assert_eq!(rows, expected[..if has_rows { 6 } else { 0 }], "{found:?}\n{ran}");
    for number in 0..6 {
        let path = format!("/{bucket}/results/{number}.txt.out");
        assert_eq!(moto.get(&path), number.to_string(), "{ran}");
        assert!(found.contains(&format!("results/batches/{number}.txt")), "{found:?}\n{ran}");
    }
    assert_eq!(found.iter().filter(|name| !is_rows(name)).count(), 12, "{found:?}\n{ran}");
    let copies = moto.names(bucket, "jobs/").into_iter();
    let copies = copies.filter(|name| name.contains("/saved/") || name.contains("/alive/"));
    assert_eq!(copies.collect::<Vec<_>>(), [""; 0], "{ran}");
}

/// Each kind of output, with a machine that is lost while it commits, and one that is lost at the job's end.
#[test]
fn each_kind_of_output_survives_the_loss_of_machines() {
    let moto = &Server::moto();
    let kinds = [
        ("plain", "", "log-appended:2"),
        ("ordered", "ordered: true", "log-appended:3"),
        ("parts", "output_layout: parts", "journaled:2"),
        ("files", "output_action: summary_only", "files-published:2"),
        ("appended", "output_files: append", "results-saved:2"),
        ("overwritten", "output_files: overwrite", "log-appended:2"),
    ];
    thread::scope(|scope| {
        for (bucket, lines, point) in kinds {
            scope.spawn(move || {
                let job = job(moto, bucket).yaml(lines).env(FAIL_POINT, point);
                let ran = run_on(job, "first", &[]);
                assert_eq!(ran.code, -9, "{bucket}: {ran}");
                fs::remove_dir_all(ran.dir().join("first")).unwrap();
                let ran = run_on(ran.into_job().env(FAIL_POINT, "all-synced"), "second", &[]);
                assert_eq!(ran.code, -9, "{bucket}: {ran}");
                fs::remove_dir_all(ran.dir().join("second")).unwrap();
                let ran = run_on(ran.into_job().env(FAIL_POINT, ""), "third", &[]);
                ran.exits_with(0).says("continuing it here");
                assert_complete(moto, bucket, bucket != "files", &ran);
            });
        }
    });
}

/// If copies are missing, their mini-batches run again.
#[test]
fn lost_copies_cost_only_time() {
    let moto = Server::moto();
    let ran = run_on(job(&moto, "box").env(FAIL_POINT, "folder-published"), "first", &[]);
    assert_eq!(ran.code, -9, "{ran}");
    fs::remove_dir_all(ran.dir().join("first")).unwrap();
    let copies: Vec<_> =
        moto.names("box", "jobs/").into_iter().filter(|name| name.contains("/saved/")).collect();
    moto.delete(&format!("/box/{}", copies[0]));
    let ran = run_on(ran.into_job().env(FAIL_POINT, ""), "second", &[]);
    ran.exits_with(0);
    assert_complete(&moto, "box", true, &ran);
}

/// A result that is made at the job's end, from rows that are on another machine.
#[test]
fn a_table_is_made_again_from_copies_of_its_rows() {
    let moto = Server::moto();
    let job = |bucket: &str| {
        moto.put(&format!("/{bucket}"), "");
        let job = TestJob::new(&guest("echo_table")).yaml(&format!(
            "inputs: {{t: {{path: in, format: csv}}}}\nprocess_count_per_node: 1\narguments: [--rows]\n\
             output_format: parquet\noutput: s3://{bucket}/results\njob_store: s3://{bucket}/jobs"
        ));
        let job = moto.opened_for(job);
        (0..4).fold(job, |job, number| {
            job.file(&format!("in/{number}.csv"), format!("a\n{number}\n"))
        })
    };
    let result = |bucket: &str, ran: &Ran| {
        ran.exits_with(0);
        let found = moto.names(bucket, "results/");
        assert_eq!(found.len(), 1, "{found:?}\n{ran}");
        moto.get(&format!("/{bucket}/{}", found[0]))
    };
    let ran = run_on(job("whole"), "first", &[]);
    let expected = result("whole", &ran);
    let ran = run_on(job("again").env(FAIL_POINT, "all-synced"), "first", &[]);
    assert_eq!(ran.code, -9, "{ran}");
    fs::remove_dir_all(ran.dir().join("first")).unwrap();
    let ran = run_on(ran.into_job().env(FAIL_POINT, ""), "second", &[]);
    assert_eq!(result("again", &ran), expected);
}

/// Begins a job of many mini-batches on the first machine, and waits until it has committed something.
fn begun(moto: &Server, bucket: &str) -> Running {
    let job = (6..400).fold(job(moto, bucket), |job, number| {
        job.file(&format!("in/{number}.txt"), "x".repeat(number))
    });
    let mut running = job.spawn(&["run", "job.yaml", "--job-dir", "first"]);
    running.until("something is committed", |_| {
        moto.names(bucket, "jobs/").iter().any(|name| name.contains("/saved/"))
    });
    running
}

fn signal(running: &Running, signal: Signal) {
    let pid = Pid::from_raw(running.pid().cast_signed()).expect("a process id is not zero");
    kill_process(pid, signal).expect("the process is there");
}

/// A second machine does not begin while the first one works. If the first one is paused for long, the second one
/// continues the job, and the first one ends when it wakes.
#[test]
fn a_paused_leader_is_replaced() {
    let moto = Server::moto();
    let running = begun(&moto, "box");
    let beside = |options: &[&str]| {
        let mut command = std::process::Command::new(sandmill_tests::sandmill());
        command.args(["run", "job.yaml", "--job-dir", "second"]).args(options);
        command.current_dir(running.dir()).envs(Server::variables(moto.port));
        command.env("SANDMILL_CACHE_DIR", sandmill_tests::root().join("target/test-cache"));
        command.output().unwrap()
    };
    signal(&running, Signal::STOP);
    let second = beside(&["--standby"]);
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(0), "{said}");
    assert!(said.contains("still leads the job") && said.contains("continuing it here"), "{said}");
    signal(&running, Signal::CONT);
    let ran = running.wait();
    ran.exits_with(42).says("leads the job now");
    let rows = moto.get("/box/results/parallel_run_step.txt");
    assert_eq!(rows.lines().count(), 400, "{ran}");
    // The job is completed, and its results are in the store.
    let ran = run_on(ran.into_job(), "third", &[]);
    assert_snapshot!(ran.exits_with(2).messages().replace(&moto.url(), "[server]"), @"error: job 'test' was completed from another job directory, and its results went to s3://box/results (its commit log is in s3://box/jobs/test): use --overwrite to run it again");
}

#[test]
fn a_store_that_cannot_be_used_is_refused() {
    let moto = Server::moto();
    let refused = |setting: &str| {
        let ran = run_on(job(&moto, "box"), "first", &["--set", setting]);
        assert!(!ran.has("first"), "{ran}");
        ran.exits_with(2).messages().replace(&moto.url(), "[server]")
    };
    assert_snapshot!(refused("job_store=s3://none/jobs"), @"error: the job store failed: runs/snapshot: listing s3://none/jobs: it does not exist; check the address (404 Not Found, NoSuchBucket: The specified bucket does not exist); check the job store, then run the job again: it continues from its last record");
    assert_snapshot!(refused("job_store=https://example.org/jobs"), @"error: --set job_store: found https://example.org/jobs; a web server cannot keep a commit log: name a folder that the machines share, or an address that begins with s3://, az://, gs:// or datastore://");
    assert_snapshot!(refused("output=s3://box"), @"error: --set output: found s3://box/, and job_store is s3://box/jobs: one must not be in the other; name two folders, such as s3://box/results and s3://box/jobs");
    assert_snapshot!(refused("output=s3://box/jobs/test/"), @"error: --set output: found s3://box/jobs/test/, and job_store is s3://box/jobs: one must not be in the other; name two folders, such as s3://box/results and s3://box/jobs");
    assert_snapshot!(refused("output=results"), @"error: --set output: found results, a folder of this machine; with a job_store in a store, the results must go to a store, too (e.g. s3://bucket/results)");
    assert_snapshot!(refused("job_store=s3://box/j*"), @"error: --set job_store: found s3://box/j*; expected a folder of a store, without wildcards");
}
