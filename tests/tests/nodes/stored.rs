//! Jobs whose job store and results are in a store, so that the machines share no folder. The inputs are at the same path
//! on all machines.

use crate::cluster::{Cluster, FILES, expected_rows, expected_rows_in_order, sorted};
use crate::signers::Signer;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use sandmill_tests::{Proxy, Ran, Running, Server, TestJob, guest};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A job with rows and files for this many nodes. `bucket`: a new bucket for its results and its log.
pub(crate) fn job(moto: &Server, bucket: &str, nodes: u32, lines: &str) -> TestJob {
    moto.put(&format!("/{bucket}"), "");
    let job = TestJob::new(&guest("writes_files")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 1\n\
         node_count: {nodes}\noutput: s3://{bucket}/results\njob_store: s3://{bucket}/jobs\n{lines}"
    ));
    let job = moto.opened_for(job);
    (0..FILES).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

/// A broker with agents that use this store.
pub(crate) fn cluster(moto: &Server) -> Cluster {
    Cluster::with_environment(Server::variables(moto.port))
}

/// Waits until this node works.
fn until_node_works(running: &mut Running, node: u32) {
    let note = format!("note: node {node} (");
    running.until("the node works", |running| running.stderr_so_far().contains(&note));
}

/// Lets agents lead a job with these lines on three nodes. Kills one of the agents when there are results, and then the
/// leader. Waits until another agent has completed the job.
fn run_with_kills(moto: &Server, lines: &str) -> (Cluster, TestJob) {
    let job = job(moto, "box", 3, &format!("arguments: [--nap, '500']\n{lines}"));
    (run_job_with_kills(moto, &job), job)
}

/// As [`run_with_kills`], for this job.
pub(crate) fn run_job_with_kills(moto: &Server, job: &TestJob) -> Cluster {
    let mut cluster = cluster(moto);
    cluster.start_agents(3);
    cluster.submit(job, &[]).exits_with(0).says("leads it");
    let leader = cluster.until_one_says("leads the job test (", None);
    let begun = Instant::now();
    let has_results = || moto.names("box", "jobs/").iter().any(|name| name.contains("/saved/"));
    while !has_results() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", cluster.agent(leader).said());
        thread::sleep(Duration::from_millis(20));
    }
    cluster.agent((leader + 1) % 3).kill();
    cluster.agent(leader).signal_leader(Signal::KILL);
    cluster.until_one_says("leads the job test no longer: exit status: 0", None);
    cluster
}

/// The rows in the results, in the order of the names of their objects.
pub(crate) fn rows(moto: &Server) -> String {
    let names = moto.names("box", "results/parallel_run_step");
    names.iter().map(|name| moto.get(&format!("/box/{name}"))).collect()
}

/// Fails if the results do not have each file of the entry script, with its content, or have more.
#[track_caller]
pub(crate) fn assert_files(moto: &Server) {
    let found = moto.names("box", "results/");
    for number in 0..FILES {
        let path = format!("/box/results/{number}.txt.out");
        assert_eq!(moto.get(&path), number.to_string());
        assert!(found.contains(&format!("results/batches/{number}.txt")), "{found:?}");
    }
    let files = found.iter().filter(|name| !name.starts_with("results/parallel_run_step"));
    assert_eq!(files.count(), 2 * FILES, "{found:?}");
}

/// Fails if objects are left in the job's store that only a running job needs.
#[track_caller]
pub(crate) fn assert_nothing_left(moto: &Server) {
    let mut left = moto.names("box", "jobs/");
    let folders = ["/rows/", "/saved/", "/alive/", "/spill/"];
    left.retain(|name| folders.iter().any(|folder| name.contains(folder)));
    assert_eq!(left, [""; 0]);
}

#[test]
fn one_file() {
    let moto = Server::moto();
    let _run = run_with_kills(&moto, "");
    assert_eq!(sorted(&rows(&moto)), expected_rows());
    assert_files(&moto);
    assert_nothing_left(&moto);
}

#[test]
fn rows_in_order() {
    let moto = Server::moto();
    let _run = run_with_kills(&moto, "ordered: true");
    assert_eq!(rows(&moto).lines().collect::<Vec<_>>(), expected_rows_in_order());
    assert_files(&moto);
}

#[test]
fn rows_in_parts() {
    let moto = Server::moto();
    let _run = run_with_kills(&moto, "output_layout: parts");
    assert!(moto.names("box", "results/parallel_run_step/").len() > 1);
    assert_eq!(sorted(&rows(&moto)), expected_rows());
}

#[test]
fn rows_are_only_counted() {
    let moto = Server::moto();
    let _run = run_with_kills(&moto, "output_action: summary_only");
    assert_eq!(rows(&moto), "");
    assert_files(&moto);
}

#[test]
fn compressed_rows() {
    let moto = Server::moto();
    let (_cluster, job) = run_with_kills(&moto, "output_format: {compression: gzip}");
    let file = job.path("rows.gz");
    fs::write(&file, moto.get_bytes("/box/results/parallel_run_step.txt.gz")).unwrap();
    let unpacked = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    assert_eq!(sorted(&String::from_utf8(unpacked.stdout).unwrap()), expected_rows());
}

#[test]
fn files_that_are_appended_to() {
    let moto = Server::moto();
    let _run = run_with_kills(&moto, "output_files: append");
    assert_files(&moto);
}

#[test]
fn files_that_may_be_overwritten() {
    let moto = Server::moto();
    let _run = run_with_kills(&moto, "output_files: overwrite");
    assert_eq!(sorted(&rows(&moto)), expected_rows());
    assert_files(&moto);
}

/// The bytes are those of a run on one machine.
#[test]
fn a_table_with_columns_of_the_input() {
    let moto = Server::moto();
    let lines = "ordered: true\njoin: input\noutput_format: parquet";
    let (_cluster, _job) = run_with_kills(&moto, lines);
    let calm = job(&moto, "calm", 1, &format!("arguments: [--nap, '0']\n{lines}"));
    calm.run(&[]).exits_with(0);
    let table =
        |bucket: &str| moto.get_bytes(&format!("/{bucket}/results/parallel_run_step.parquet"));
    assert!(table("box") == table("calm"));
    assert_files(&moto);
}

/// A table is made at the job's end, from rows of several machines.
#[test]
fn a_table() {
    let moto = Server::moto();
    let job = |bucket: &str, lines: &str| {
        moto.put(&format!("/{bucket}"), "");
        let job = TestJob::new(&guest("echo_table")).yaml(&format!(
            "inputs: {{t: {{path: in, format: csv}}}}\nprocess_count_per_node: 1\narguments: [--rows]\n\
             ordered: true\noutput_format: parquet\noutput: s3://{bucket}/results\n\
             job_store: s3://{bucket}/jobs\n{lines}"
        ));
        let job = moto.opened_for(job);
        (0..20).fold(job, |job, number| {
            job.file(&format!("in/{number:02}.csv"), format!("a\n{number}\n"))
        })
    };
    let result = |bucket: &str| {
        let found = moto.names(bucket, "results/");
        assert_eq!(found.len(), 1, "{found:?}");
        moto.get_bytes(&format!("/{bucket}/{}", found[0]))
    };
    job("whole", "").run(&[]).exits_with(0);
    let mut cluster = cluster(&moto);
    cluster.start_agents(2);
    let mut running = cluster.start(job("box", "node_count: 2"), "leader", &["--no-takeover"]);
    until_node_works(&mut running, 0);
    cluster.agent_of(&running, 0).kill();
    let ran = running.wait();
    assert_eq!(ran.code, 0, "{ran}");
    assert!(result("box") == result("whole"), "{ran}");
}

/// If all agents were lost, an agent that comes later finds the job in its store.
#[test]
fn an_agent_continues_a_job_in_the_store() {
    let moto = Server::moto();
    let mut cluster = cluster(&moto);
    cluster.start_agents(1);
    let job = job(&moto, "box", 1, "arguments: [--nap, '300']");
    cluster.submit(&job, &[]).exits_with(0);
    cluster.until_one_says("leads the job test (", None);
    cluster.agent(0).kill();
    let later = cluster.other_agent(9, &["--store", "s3://box/jobs"]);
    later.until("leads the job test no longer: exit status: 0");
    assert_eq!(sorted(&rows(&moto)), expected_rows());
    assert_files(&moto);
    // A file that a worker's `shutdown` wrote on another machine.
    let logs = cluster.jobs_of(9).join("user/entry_script_log");
    let folders = fs::read_dir(&logs).unwrap().flatten();
    let files = folders.filter_map(|node| fs::read_dir(node.path().join("files")).ok());
    assert!(files.flatten().count() > 0, "{}", logs.display());
}

/// Begins a job on two nodes. Each mini-batch takes so many milliseconds.
fn begun(moto: &Server, cluster: &mut Cluster, nap: u32) -> Running {
    cluster.start_agents(2);
    let job = job(moto, "box", 2, &format!("arguments: [--nap, '{nap}']"));
    let mut running = cluster.start(job, "leader", &["--no-takeover"]);
    until_node_works(&mut running, 0);
    until_node_works(&mut running, 1);
    running
}

#[track_caller]
fn assert_complete(moto: &Server, ran: &Ran) {
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(sorted(&rows(moto)), expected_rows(), "{ran}");
    assert_files(moto);
    assert_nothing_left(moto);
}

/// The logs of nodes are in the leader's log tree while the job runs.
#[test]
fn logs_of_nodes_are_followed() {
    let moto = Server::moto();
    let mut cluster = cluster(&moto);
    cluster.start_agents(1);
    moto.put("/box", "");
    let job = TestJob::new(&guest("surroundings")).yaml(
        "inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 1\nnode_count: 2\n\
         arguments: [--nap, '1000']\noutput: s3://box/results\njob_store: s3://box/jobs",
    );
    let job = (0..60).fold(moto.opened_for(job), |job, n| job.file(&format!("in/{n}.txt"), "x"));
    let mut running = cluster.start(job, "leader", &["--no-takeover"]);
    running.until("there are logs", |running| {
        let file = running.dir().join("leader/logs/user/stdout/0/process000.stdout.txt");
        fs::read_to_string(file).is_ok_and(|text| text.contains("init to stdout"))
    });
    running.interrupt();
    assert_eq!(running.wait().code, 130);
}

/// A store that fails for some seconds costs only time.
#[test]
fn the_store_may_fail_for_a_while() {
    let moto = Server::moto();
    let proxy = Proxy::to(moto.port);
    let mut cluster = Cluster::with_environment(Server::variables(proxy.port()));
    let running = begun(&moto, &mut cluster, 400);
    proxy.cut();
    thread::sleep(Duration::from_secs(2));
    proxy.mend();
    assert_complete(&moto, &running.wait());
}

/// A node whose rows are missing in the store is given up, and its mini-batches run again.
#[test]
fn rows_that_are_removed_from_the_store_are_noticed() {
    let moto = Server::moto();
    let mut cluster = cluster(&moto);
    let running = begun(&moto, &mut cluster, 1000);
    let stored = |folder: &str| {
        let mut names = moto.names("box", "jobs/");
        names.retain(|name| name.contains(folder));
        names
    };
    let until = |holds: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", stored("/rows/"));
            thread::sleep(Duration::from_millis(20));
        }
    };
    // All workers are busy.
    until(&|| !stored("/saved/").is_empty());
    let leader = Pid::from_raw(running.pid().cast_signed()).unwrap();
    kill_process(leader, Signal::STOP).unwrap();
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(leader), options).unwrap();
    // The leader has not read what comes now.
    let before = stored("/rows/");
    let is_new = |name: &String| !before.contains(name) && !name.contains("/log-");
    until(&|| stored("/rows/").iter().any(is_new));
    stored("/rows/").iter().for_each(|name| moto.delete(&format!("/box/{name}")));
    kill_process(leader, Signal::CONT).unwrap();
    let ran = running.wait();
    ran.says("its rows are not in the job's store as it reported them");
    assert_complete(&moto, &ran);
}

/// A store that refuses every request.
fn refusing_store() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 4096]);
            let refusal =
                "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = client.write_all(refusal.as_bytes());
        }
    });
    port
}

/// A machine that may not read the job's store says so, and the others do the work.
#[test]
fn a_machine_without_rights_takes_no_part() {
    let moto = Server::moto();
    let mut cluster = cluster(&moto);
    cluster.start_agents(1);
    let stranger = cluster.agent_with(9, &[], &Server::variables(refusing_store()));
    stranger.until("waits for jobs");
    let job = job(&moto, "box", 2, "arguments: [--nap, '400']");
    let running = cluster.start(job, "leader", &["--no-takeover"]);
    stranger.until("the job store s3://box/jobs cannot be read on this machine: reading");
    let ran = running.wait();
    ran.says("the machine machine-9 takes no part: the job store s3://box/jobs cannot be read");
    assert_complete(&moto, &ran);
}

/// The doctor tries an address, and leaves nothing there.
#[test]
fn the_doctor_tries_an_address() {
    let moto = Server::moto();
    moto.put("/box", "");
    let tried =
        |store: &str| moto.opened_for(TestJob::empty()).command(&["doctor", "--store", store]);
    let ran = tried("s3://box/jobs");
    let line = "ok        the job store: objects can be created once, read, listed and removed at s3://box/jobs";
    assert!(ran.stdout.contains(line), "{ran}");
    assert_eq!(moto.names("box", "jobs"), Vec::<String>::new());
    let ran = tried("s3://missing/jobs");
    ran.exits_with(2);
    assert!(ran.stdout.contains("WRONG     the job store: it cannot create a file in"), "{ran}");
}

/// An agent opens only what the policy gives the signer of the job, also in stores. Its refusal names the line of the
/// policy.
#[test]
fn the_store_roots_of_a_signer_apply() {
    let moto = Server::moto();
    let mut cluster = cluster(&moto);
    let [ada, bob] = ["ada", "bob"].map(|name| Signer::new(&cluster, name));
    let policy = format!(
        "store_roots:\n  outputs: [s3://box/results]\n  job_stores: [s3://box/jobs, s3://box/ada]\n\
         signers:\n  ada:\n    keys: ['{}']\n    store_roots:\n      job_stores: [s3://box/ada]\n  \
         bob: {{keys: ['{}']}}\n",
        ada.public(),
        bob.public()
    );
    let policy = cluster.file("policy.yaml", &policy);
    cluster.start_agents_with(1, &["--policy", &policy]);
    let job = job(&moto, "box", 1, "");
    let mut running = cluster.start(job, "leader", &["--signing-key", &ada.file]);
    cluster.agent(0).until(&format!(
        "job_store: found s3://box/jobs; the operator's policy allows job stores in stores only below s3://box/ada \
         (signers.ada.store_roots.job_stores, {policy}:8)"
    ));
    running.kill_leader();
    let job = running.wait().into_job();
    // The policy allows it for other signers.
    let ran = cluster.start(job, "other", &["--signing-key", &bob.file]).wait();
    ran.exits_with(0);
    assert_complete(&moto, &ran);
}
