//! Jobs whose job file and entry script only the submitter's machine has. Other machines get them from the job's store.

use crate::cluster::{Cluster, FILES, assert_complete, expected_rows, job, sorted};
use crate::hostile::offered;
use crate::signers::{Signer, start_agents};
use rustix::process::Signal;
use sandmill_bus::OFFERS;
use sandmill_tests::{Running, Server, TestJob, guest};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What an agent says when the job that it leads has completed.
const COMPLETED: &str = "leads the job test no longer: exit status: 0";

/// The objects in a job store that is a folder, from which other machines get jobs.
pub(crate) fn source_objects(store: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for job in fs::read_dir(store).unwrap().flatten() {
        let contents = fs::read_dir(job.path().join("sources")).into_iter().flatten().flatten();
        for content in contents {
            found.extend(fs::read_dir(content.path()).unwrap().flatten().map(|file| file.path()));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{}", store.display());
    found
}

/// The job with its entry script in its own folder.
fn with_own_script(job: TestJob) -> TestJob {
    let text = fs::read_to_string(job.path("job.yaml")).unwrap();
    let (_, rest) = text.split_once("entry_script: ").unwrap();
    let (script, _) = rest.split_once('\n').unwrap();
    let component = fs::read(script).unwrap();
    let text = text.replace(script, "private/own.wasm");
    job.file("private/own.wasm", component).file("job.yaml", text)
}

/// As if the other machines did not have the job file and the entry script.
fn hide(folder: &Path) {
    fs::rename(folder.join("job.yaml"), folder.join("hidden.yaml")).unwrap();
    let _ = fs::rename(folder.join("private"), folder.join("hidden"));
}

/// Starts a job, and hides its files when its leader has read them.
fn started(cluster: &Cluster, job: TestJob, more: &[&str]) -> Running {
    let mut ears = cluster.client();
    ears.subscribe(OFFERS.to_owned()).unwrap();
    let running = cluster.start(with_own_script(job), "leader", more);
    offered(&mut ears);
    hide(running.dir());
    running
}

#[test]
fn only_the_leader_has_the_job_file_and_the_entry_script() {
    let mut cluster = Cluster::new();
    let running = started(&cluster, job(2, "arguments: [--nap, '20']"), &[]);
    cluster.start_agents(2);
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
    // The entry script's files are removed with the part in the job.
    cluster.agent(0).until("is over");
    // If the job is run again, nothing is written again.
    let store = ran.dir().join("shared/jobs");
    let objects = source_objects(&store);
    fs::rename(ran.dir().join("hidden.yaml"), ran.dir().join("job.yaml")).unwrap();
    fs::rename(ran.dir().join("hidden"), ran.dir().join("private")).unwrap();
    let again = ["--overwrite", "--set", "output=shared/again"];
    let ran = cluster.start(ran.into_job(), "leader", &again).wait();
    ran.exits_with(0);
    assert_eq!(source_objects(&store), objects);
}

/// A signed job of which the machines have nothing.
#[test]
fn a_signed_job() {
    let mut cluster = Cluster::new();
    let ada = Signer::new(&cluster, "ada");
    let running = started(&cluster, job(1, ""), &["--signing-key", &ada.file]);
    start_agents(&mut cluster, 1, &[&ada]);
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}

/// Settings that are in other files than the job file.
#[test]
fn settings_beside_the_entry_script() {
    let mut cluster = Cluster::new();
    let settings = r#"{"append_row": {"pandas.DataFrame.to_csv": {"sep": ";"}}}"#;
    let job = job(1, "").file("private/parallel_run_step.settings.json", settings);
    let running = started(&cluster, job, &[]);
    cluster.start_agents(1);
    let ran = running.wait();
    ran.exits_with(0).says("parallel_run_step.settings.json is used");
    assert_complete(&ran);
}

/// A script in Python, with a module beside it.
#[test]
fn a_python_script() {
    let script = "import helper\ndef init(): pass\ndef run(files):\n    return [helper.row(f) for f in files]\n";
    for source in ["", "source_directory: private\n"] {
        let mut cluster = Cluster::new();
        let job = job(1, "python: {runtime: light}");
        let text = fs::read_to_string(job.path("job.yaml")).unwrap();
        let own = guest("writes_files").display().to_string();
        let named = if source.is_empty() { "private/score.py" } else { "score.py" };
        let text = text.replace(&own, named) + source;
        let job = job
            .file("job.yaml", text)
            .file("private/score.py", script)
            .file("private/helper.py", "def row(f): return f.rsplit('/', 1)[-1]\n");
        let mut ears = cluster.client();
        ears.subscribe(OFFERS.to_owned()).unwrap();
        let running = cluster.start(job, "leader", &[]);
        offered(&mut ears);
        hide(running.dir());
        cluster.start_agents(1);
        let ran = running.wait();
        ran.exits_with(0);
        let mut names: Vec<String> = (0..FILES).map(|number| format!("{number}.txt")).collect();
        names.sort();
        assert_eq!(sorted(&ran.text("shared/out/parallel_run_step.txt")), names, "{source}");
    }
}

/// The leader looks up registered names, and no other machine.
#[test]
fn registered_names_are_those_of_the_leader() {
    let mut cluster = Cluster::new();
    cluster.start_agents(1);
    let job = job(1, "");
    let text = fs::read_to_string(job.path("job.yaml")).unwrap();
    let text = text.replace("inputs: {texts: in}", "inputs: {texts: {dataset: images}}");
    let job = job.file("job.yaml", text);
    let registered = job.command(&["dataset", "register", "images", "in"]);
    registered.exits_with(0);
    let ran = cluster.run(registered.into_job(), "leader");
    ran.exits_with(0);
    assert_complete(&ran);
}

/// An object of the store that is not what the leader put there runs nowhere. The leader says why.
#[test]
fn a_wrong_or_missing_object_is_refused() {
    for (what, change) in [
        ("is missing", (|path: &Path| fs::remove_file(path).unwrap()) as fn(&Path)),
        ("is not what its name says", |path| {
            let length = fs::read(path).unwrap().len();
            fs::write(path, vec![b'x'; length]).unwrap();
        }),
        ("is longer than the content that its name says", |path| {
            File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
        }),
    ] {
        let mut cluster = Cluster::new();
        let mut running = started(&cluster, job(1, ""), &[]);
        for object in source_objects(&running.dir().join("shared/jobs")) {
            change(&object);
        }
        cluster.start_agents(1);
        cluster.agent(0).until(what);
        running.until("the leader says why", |running| running.stderr_so_far().contains(what));
    }
}

/// If a policy has roots, only entry scripts below them run, unless the operator allows those of job stores.
#[test]
fn a_policy_decides_whether_entry_scripts_come_from_stores() {
    let mut cluster = Cluster::new();
    let mut running = started(&cluster, job(1, ""), &[]);
    let folder = running.dir().canonicalize().unwrap().display().to_string();
    fs::create_dir_all(running.dir().join("shared/out")).unwrap();
    let policy = format!(
        "roots:\n  inputs: ['{folder}/in']\n  side_inputs: []\n  entry_scripts: []\n  \
         outputs: ['{folder}/shared/out']\n  job_directories: []\n  job_stores: ['{folder}/shared/jobs']\n"
    );
    let strict = cluster.file("strict.yaml", &policy);
    cluster.start_agents_with(1, &["--policy", &strict]);
    cluster.agent(0).until(
        "this machine does not get the entry script from the job's store: the operator's policy allows entry scripts \
         only below its roots (entry_script_stores is not true, ",
    );
    running.until("the leader says why", |running| {
        running.stderr_so_far().contains("entry_script_stores is not true")
    });
    let open = cluster.file("open.yaml", &(policy + "entry_script_stores: true\n"));
    cluster.start_agents_with(1, &["--policy", &open]);
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}

/// A policy may also forbid entry scripts of job stores without roots.
#[test]
fn a_policy_without_roots_may_forbid_entry_scripts_of_stores() {
    let mut cluster = Cluster::new();
    let policy = cluster.file("policy.yaml", "entry_script_stores: false\n");
    let running = started(&cluster, job(1, ""), &[]);
    cluster.start_agents_with(1, &["--policy", &policy]);
    cluster.agent(0).until("entry_script_stores is not true");
    // Another script at this path does not run.
    let own = running.dir().join("private/own.wasm");
    fs::create_dir(running.dir().join("private")).unwrap();
    fs::copy(guest("echo_files"), &own).unwrap();
    cluster.add_agent(&["--policy", &policy], &[]);
    cluster.agent(1).until("but entry_script_digest is");
    // The same one does.
    fs::copy(running.dir().join("hidden/own.wasm"), &own).unwrap();
    cluster.add_agent(&["--policy", &policy], &[]);
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}

/// Submits a job, hides its files, and loses the leader. Another agent completes the job.
fn continue_without_submitter(mut cluster: Cluster, job: TestJob) -> TestJob {
    cluster.start_agents(2);
    let job = with_own_script(job);
    cluster.submit(&job, &[]).exits_with(0).says("leads it");
    let leader = cluster.until_one_says("leads the job test (", None);
    hide(job.dir());
    cluster.agent(leader).signal_leader(Signal::KILL);
    cluster.until_said("leads the job test (", 2);
    cluster.until_one_says(COMPLETED, None);
    job
}

#[test]
fn a_job_whose_submitter_is_gone_is_continued() {
    let job = continue_without_submitter(Cluster::new(), job(2, "arguments: [--nap, '200']"));
    assert_complete(&job.command(&["--version"]));
}

/// An agent that is started later finds the job in its store. The machine of the submitter is gone.
#[test]
fn an_agent_continues_a_job_that_it_finds() {
    let mut cluster = Cluster::new();
    cluster.start_agents(1);
    let job = with_own_script(job(1, "arguments: [--nap, '300']"));
    cluster.submit(&job, &[]).exits_with(0);
    cluster.until_one_says("leads the job test (", None);
    cluster.agent(0).kill();
    hide(job.dir());
    let store = job.path("shared/jobs").display().to_string();
    let later = cluster.other_agent(9, &["--store", &store]);
    later.until(COMPLETED);
    assert_complete(&job.command(&["--version"]));
}

/// A job in S3 with its own entry script. The inputs are at the same path on all machines.
fn job_in_s3(moto: &Server, nodes: u32, lines: &str) -> TestJob {
    moto.put("/box", "");
    let job = TestJob::new(&guest("writes_files")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 1\n\
         node_count: {nodes}\noutput: s3://box/results\njob_store: s3://box/jobs\n{lines}"
    ));
    let job = moto.opened_for(job);
    (0..FILES).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

fn rows_in_s3(moto: &Server) -> Vec<String> {
    sorted(&moto.get("/box/results/parallel_run_step.txt"))
}

#[test]
fn the_store_may_be_in_s3() {
    let moto = Server::moto();
    let mut cluster = Cluster::with_environment(Server::variables(moto.port));
    let running = started(&cluster, job_in_s3(&moto, 2, ""), &["--no-takeover"]);
    cluster.start_agents(2);
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(rows_in_s3(&moto), expected_rows(), "{ran}");
    let sources = |moto: &Server| {
        let names = moto.names("box", "jobs/test/sources/");
        assert!(names.len() <= 2, "{names:?}");
        names.len()
    };
    assert_eq!(sources(&moto), 2);
    // They are removed with the job.
    let clean = ["clean", "--store", "s3://box/jobs", "--older-than", "0s"];
    let ran = moto.opened_for(ran.into_job()).command(&clean);
    ran.exits_with(0);
    assert_eq!(sources(&moto), 0);
}

#[test]
fn a_job_in_s3_whose_submitter_is_gone_is_continued() {
    let moto = Server::moto();
    let cluster = Cluster::with_environment(Server::variables(moto.port));
    continue_without_submitter(cluster, job_in_s3(&moto, 2, "arguments: [--nap, '300']"));
    assert_eq!(rows_in_s3(&moto), expected_rows());
}

#[test]
fn a_wrong_object_in_s3_is_refused() {
    let moto = Server::moto();
    let mut cluster = Cluster::with_environment(Server::variables(moto.port));
    let running = started(&cluster, job_in_s3(&moto, 1, ""), &["--no-takeover"]);
    for name in moto.names("box", "jobs/test/sources/") {
        moto.put(&format!("/box/{name}"), "x".repeat(9_000_000));
    }
    cluster.start_agents(1);
    cluster.agent(0).until("is longer than the content that its name says");
    drop(running);
}

/// If the machines have copies of the inputs, and one of them differs, the machine takes no part.
#[test]
fn other_copies_of_the_inputs_are_refused() {
    let moto = Server::moto();
    let mut cluster = Cluster::with_environment(Server::variables(moto.port));
    let running = started(&cluster, job_in_s3(&moto, 1, ""), &["--no-takeover"]);
    let input = running.dir().join("in/7.txt");
    let found = fs::metadata(&input).unwrap().modified().unwrap();
    let other = "y".repeat(8);
    fs::write(&input, other).unwrap();
    cluster.start_agents(1);
    cluster
        .agent(0)
        .until("these inputs on this machine have other files than on the leader's machine");
    // The same content, with the same time.
    fs::write(&input, "x".repeat(7)).unwrap();
    File::options().write(true).open(&input).unwrap().set_modified(found).unwrap();
    cluster.add_agent(&[], &Server::variables(moto.port));
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(rows_in_s3(&moto), expected_rows(), "{ran}");
}
