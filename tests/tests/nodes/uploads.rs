//! Jobs whose data only the submitter's machine has, and uploads into the job store (`run --upload`).

use crate::cluster::{Cluster, FILES, assert_complete, expected_rows, job, sorted};
use crate::hostile::offered;
use crate::stored::rows;
use rustix::process::Signal;
use sandmill_bus::OFFERS;
use sandmill_tests::{Elsewhere, Ran, Running, Server, TestJob, guest};
use std::fs;
use std::path::{Path, PathBuf};

/// What an agent says when the job that it leads has completed.
const COMPLETED: &str = "leads the job test no longer: exit status: 0";

/// As if the other machines did not have what the job file names.
fn hide(folder: &Path) {
    for name in ["job.yaml", "in", "beside"] {
        let _ = fs::rename(folder.join(name), folder.join(format!("hidden-{name}")));
    }
}

/// Reverts [`hide`].
fn show(folder: &Path) {
    for name in ["job.yaml", "in", "beside"] {
        let _ = fs::rename(folder.join(format!("hidden-{name}")), folder.join(name));
    }
}

/// Starts a job, and hides its files when its leader has uploaded them.
fn started(cluster: &Cluster, job: TestJob, more: &[&str]) -> Running {
    let mut ears = cluster.client();
    ears.subscribe(OFFERS.to_owned()).unwrap();
    let running = cluster.start(job, "leader", &[&["--upload"], more].concat());
    offered(&mut ears);
    hide(running.dir());
    running
}

/// A job in S3 with local inputs.
fn job_in_s3(moto: &Server, lines: &str) -> TestJob {
    moto.put("/box", "");
    let job = TestJob::new(&guest("writes_files")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 1\n\
         node_count: 2\noutput: s3://box/results\njob_store: s3://box/jobs\n{lines}"
    ));
    let job = moto.opened_for(job);
    (0..FILES).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

/// Waits until this many nodes work.
fn until_nodes_work(running: &mut Running, nodes: usize) {
    running.until("the nodes work", |running| {
        running.stderr_so_far().matches(") takes part, with ").count() >= nodes
    });
}

/// The files of uploaded data in a job store that is a folder.
fn uploaded_files(store: &Path) -> Vec<PathBuf> {
    let uploads = fs::read_dir(store.join("test/uploads")).into_iter().flatten().flatten();
    let is_complete = |folder: &PathBuf| !folder.ends_with(".unfinished");
    let folders = uploads.map(|entry| entry.path()).filter(is_complete);
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap().flatten());
    files.map(|file| file.path()).collect()
}

#[test]
fn nodes_read_uploaded_inputs_in_a_shared_folder() {
    let mut cluster = Cluster::new();
    let mut running = started(&cluster, job(2, "arguments: [--nap, '200']"), &[]);
    cluster.start_agents(2);
    until_nodes_work(&mut running, 2);
    cluster.agent(1).kill();
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
    let store = ran.dir().join("shared/jobs");
    assert_eq!(uploaded_files(&store).len(), FILES);
    // The same data again is not sent again, and the result is reused.
    let first = fs::metadata(&uploaded_files(&store)[0]).unwrap().modified().unwrap();
    show(ran.dir());
    let ran = cluster.start(ran.into_job(), "leader", &["--upload"]).wait();
    ran.exits_with(0).says(" reused, as nothing has changed since");
    assert_eq!(fs::metadata(&uploaded_files(&store)[0]).unwrap().modified().unwrap(), first);
    // Uploaded data is removed with the job.
    let store = store.display().to_string();
    let ran = ran.into_job().command(&["clean", "--store", &store, "--older-than", "0s"]);
    ran.exits_with(0);
    assert!(uploaded_files(Path::new(&store)).is_empty());
}

#[test]
fn nodes_read_uploaded_inputs_in_s3() {
    let moto = Server::moto();
    let mut cluster = Cluster::with_environment(Server::variables(moto.port));
    let job = job_in_s3(&moto, "arguments: [--nap, '200']");
    let mut running = started(&cluster, job, &["--no-takeover"]);
    cluster.start_agents(2);
    until_nodes_work(&mut running, 2);
    cluster.agent(1).kill();
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(sorted(&rows(&moto)), expected_rows(), "{ran}");
    assert_eq!(moto.names("box", "jobs/test/uploads/").len(), FILES);
    let clean = ["clean", "--store", "s3://box/jobs", "--older-than", "0s"];
    let ran = moto.opened_for(ran.into_job()).command(&clean);
    ran.exits_with(0);
    assert_eq!(moto.names("box", "jobs/test/uploads/"), [""; 0]);
}

/// Objects of an earlier upload stay, if they have their length. The others are sent.
#[test]
fn an_interrupted_upload_to_s3_continues() {
    let moto = Server::moto();
    let run = |job: TestJob| {
        let ran = moto.opened_for(job).run(&["--upload", "--overwrite", "--set", "node_count=1"]);
        ran.exits_with(0);
        ran
    };
    let ran = run(job_in_s3(&moto, ""));
    let names = moto.names("box", "jobs/test/uploads/");
    assert_eq!(names.len(), FILES);
    moto.delete(&format!("/box/{}", names[0]));
    moto.put(&format!("/box/{}", names[1]), "y".repeat(100));
    let ran = run(ran.into_job());
    assert_eq!(moto.names("box", "jobs/test/uploads/"), names);
    assert_eq!(sorted(&rows(&moto)), expected_rows(), "{ran}");
}

/// The submitter and the leader are lost. Another agent reads what was uploaded.
#[test]
fn a_submitted_job_with_uploaded_inputs_is_continued() {
    let moto = Server::moto();
    let mut cluster = Cluster::with_environment(Server::variables(moto.port));
    cluster.start_agents(2);
    let job = job_in_s3(&moto, "arguments: [--nap, '300']");
    cluster.submit(&job, &["--upload"]).exits_with(0).says("leads it");
    hide(job.dir());
    let leader = cluster.until_one_says("leads the job test (", None);
    cluster.agent(leader).signal_leader(Signal::KILL);
    cluster.until_said("leads the job test (", 2);
    cluster.until_one_says(COMPLETED, None);
    assert_eq!(sorted(&rows(&moto)), expected_rows());
}

/// Side inputs, a file and a folder, have the names that they have on the submitter's machine.
const READS_BESIDE: &str = "def init(): pass\ndef run(files):\n    \
     word = open('/side_inputs/word/a [1].txt').read()\n    \
     deep = open('/side_inputs/words/deep/b.txt').read()\n    \
     return [f.rsplit('/', 1)[-1] + word + deep for f in files]\n";

fn with_side_inputs(job: TestJob) -> TestJob {
    let text = fs::read_to_string(job.path("job.yaml")).unwrap();
    let text = text.replace(&guest("writes_files").display().to_string(), "score.py");
    job.file("job.yaml", text)
        .yaml(
            "side_inputs: {word: 'beside/a [1].txt', words: beside/words}\npython: {runtime: light}",
        )
        .file("score.py", READS_BESIDE)
        .file("beside/a [1].txt", "=A")
        .file("beside/words/deep/b.txt", "+B")
}

fn rows_with_side_inputs() -> Vec<String> {
    let mut rows: Vec<String> = (0..FILES).map(|number| format!("{number}.txt=A+B")).collect();
    rows.sort();
    rows
}

#[test]
fn side_inputs_are_uploaded_to_a_folder() {
    let mut cluster = Cluster::new();
    let running = started(&cluster, with_side_inputs(job(1, "")), &[]);
    cluster.start_agents(1);
    let ran = running.wait();
    ran.exits_with(0);
    let rows = sorted(&ran.text("shared/out/parallel_run_step.txt"));
    assert_eq!(rows, rows_with_side_inputs(), "{ran}");
}

#[test]
fn side_inputs_are_uploaded_to_s3() {
    let moto = Server::moto();
    let mut cluster = Cluster::with_environment(Server::variables(moto.port));
    let job = with_side_inputs(job_in_s3(&moto, ""));
    let running = started(&cluster, job, &["--no-takeover"]);
    cluster.start_agents(1);
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(sorted(&rows(&moto)), rows_with_side_inputs(), "{ran}");
}

/// Without `--upload`, a machine that lacks the inputs says what to do.
#[test]
fn a_machine_without_the_inputs_takes_no_part() {
    let mut cluster = Cluster::new();
    let mut ears = cluster.client();
    ears.subscribe(OFFERS.to_owned()).unwrap();
    let mut running = cluster.start(job(1, ""), "leader", &["--no-takeover"]);
    offered(&mut ears);
    hide(running.dir());
    cluster.start_agents(1);
    let advice = "/in is not on this machine: start the job with --upload";
    cluster.agent(0).until(advice);
    let said = cluster.agent(0).said();
    assert!(said.contains("/job.yaml:") && said.contains(": inputs.texts.path: "), "{said}");
    running.until("the leader says why", |running| running.stderr_so_far().contains(advice));
}

/// A policy with roots allows what a job's submitter has uploaded, and nothing else of the job store.
#[test]
fn a_policy_allows_only_uploaded_data_of_the_job() {
    let mut cluster = Cluster::new();
    let running = started(&cluster, job(1, ""), &[]);
    let folder = running.dir().canonicalize().unwrap().display().to_string();
    fs::create_dir_all(running.dir().join("shared/out")).unwrap();
    let policy = format!(
        "roots:\n  inputs: []\n  side_inputs: []\n  entry_scripts: []\n  outputs: ['{folder}/shared/out']\n  \
         job_directories: []\n  job_stores: ['{folder}/shared/jobs']\nentry_script_stores: true\n"
    );
    let policy = cluster.file("policy.yaml", &policy);
    cluster.start_agents_with(1, &["--policy", &policy]);
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}

/// Starts a job, waits until it has results, and kills its leader. No agent continues the job.
fn killed(cluster: &mut Cluster, job: TestJob) -> TestJob {
    let mut running = started(cluster, job, &["--no-takeover"]);
    cluster.start_agents(1);
    until_nodes_work(&mut running, 1);
    running.kill_leader();
    running.wait().into_job()
}

fn resume(cluster: &Cluster, other: &Elsewhere, more: &[&str]) -> (Option<i32>, String) {
    let options = cluster.options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let seen = other.run(&[&["resume", "test"], &*options, more].concat());
    (seen.code, seen.stderr)
}

#[test]
fn a_job_is_resumed_without_its_job_file() {
    let mut cluster = Cluster::new();
    let job = killed(&mut cluster, job(1, "arguments: [--nap, '200']"));
    let other = Elsewhere::new(&job.path("shared/jobs"));
    let (code, said) = resume(&cluster, &other, &[]);
    assert_eq!(code, Some(0), "{said}");
    let ran = job.command(&["--version"]);
    assert_complete(&ran);
    // It has ended.
    let (code, said) = resume(&cluster, &other, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(" reused, as nothing has changed since"), "{said}");
    let unknown = other.run(&["resume", "tset"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let advice = "has no job called tset; did you mean test?";
    assert!(unknown.stderr.contains(advice), "{unknown:?}");
    drop(ran);
}

#[test]
fn a_job_in_s3_is_resumed_without_its_job_file() {
    let moto = Server::moto();
    let mut cluster = Cluster::with_environment(Server::variables(moto.port));
    let job = killed(&mut cluster, job_in_s3(&moto, "arguments: [--nap, '200']"));
    let other = Elsewhere::with_address("s3://box/jobs", &moto);
    let (code, said) = resume(&cluster, &other, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(sorted(&rows(&moto)), expected_rows(), "{said}");
    drop(job);
}

/// Without one of its objects, the job would have fewer rows.
#[test]
fn a_job_whose_uploaded_data_is_incomplete_is_not_continued() {
    let moto = Server::moto();
    let mut cluster = Cluster::with_environment(Server::variables(moto.port));
    let job = killed(&mut cluster, job_in_s3(&moto, "arguments: [--nap, '200']"));
    let removed = moto.names("box", "jobs/test/uploads/").swap_remove(0);
    moto.delete(&format!("/box/{removed}"));
    let other = Elsewhere::with_address("s3://box/jobs", &moto);
    let (code, said) = resume(&cluster, &other, &[]);
    assert_eq!(code, Some(2), "{said}");
    let expected =
        format!("1 of {FILES} uploaded files of inputs.texts are missing in s3://box/jobs/");
    assert!(said.contains(&expected), "{said}");
    drop(job);
}

#[test]
fn a_job_that_lives_is_not_resumed() {
    let mut cluster = Cluster::new();
    let mut running = started(&cluster, job(1, "arguments: [--nap, '100']"), &[]);
    cluster.start_agents(1);
    until_nodes_work(&mut running, 1);
    let other = Elsewhere::new(&running.dir().join("shared/jobs"));
    let (code, said) = resume(&cluster, &other, &[]);
    assert_eq!(code, Some(2), "{said}");
    // With --standby, the command waits, and reuses the result.
    let (code, said) = resume(&cluster, &other, &["--standby"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("waiting, to continue the job if that process is lost"), "{said}");
    let ran: Ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}

/// A job that was started without a broker has no job file in its store.
#[test]
fn a_job_without_its_job_file_in_the_store_is_refused() {
    let job = job(1, "").run(&["--set", "output_action=summary_only"]);
    job.exits_with(0);
    let other = Elsewhere::new(&job.dir().join("shared/jobs"));
    let seen = other.run(&["resume", "test"]);
    assert_eq!(seen.code, Some(2), "{seen:?}");
    assert!(seen.stderr.contains("was started without a broker, so "), "{seen:?}");
    assert!(seen.stderr.contains("sandmill run "), "{seen:?}");
}
