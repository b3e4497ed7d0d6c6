//! Jobs whose job store and results are in a store, so that the machines share no folder. The inputs are at the same path
//! on all machines.

use crate::cluster::{Cluster, FILES, expected_rows, expected_rows_in_order, sorted};
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Proxy, Ran, Running, Server, TestJob, guest};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// A job with rows and files for this many nodes. `bucket`: a new bucket for its results and its log.
fn job(moto: &Server, bucket: &str, nodes: u32, lines: &str) -> TestJob {
    moto.put(&format!("/{bucket}"), "");
    let job = TestJob::new(&guest("writes_files")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 1\n\
         node_count: {nodes}\noutput: s3://{bucket}/results\njob_store: s3://{bucket}/jobs\n{lines}"
    ));
    let job = moto.opened_for(job);
    (0..FILES).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

/// A broker with agents that use this store.
fn cluster(moto: &Server) -> Cluster {
    Cluster::with_environment(Server::variables(moto.port))
}

/// Waits until this node works.
fn until_node_works(running: &mut Running, node: u32) {
    let note = format!("note: node {node} (");
    running.until("the node works", |running| running.stderr_so_far().contains(&note));
}

/// Runs a job with these lines on three nodes, and kills one of them as soon as it works.
fn run_with_a_kill(moto: &Server, lines: &str) -> Ran {
    let mut cluster = cluster(moto);
    cluster.start_agents(3);
    let mut running = cluster.start(job(moto, "box", 3, lines), "leader", &[]);
    until_node_works(&mut running, 1);
    cluster.agent_of(&running, 1).kill();
    let ran = running.wait();
    assert_eq!(ran.code, 0, "{ran}");
    ran
}

/// The rows in the results, in the order of the names of their objects.
fn rows(moto: &Server) -> String {
    let names = moto.names("box", "results/parallel_run_step");
    names.iter().map(|name| moto.get(&format!("/box/{name}"))).collect()
}

/// Fails if the results do not have each file of the entry script, with its content, or have more.
#[track_caller]
fn assert_files(moto: &Server, ran: &Ran) {
    let found = moto.names("box", "results/");
    for number in 0..FILES {
        let path = format!("/box/results/{number}.txt.out");
        assert_eq!(moto.get(&path), number.to_string(), "{ran}");
        assert!(found.contains(&format!("results/batches/{number}.txt")), "{found:?}\n{ran}");
    }
    let files = found.iter().filter(|name| !name.starts_with("results/parallel_run_step"));
    assert_eq!(files.count(), 2 * FILES, "{found:?}\n{ran}");
}

/// Fails if objects are left in the job's store that only a running job needs.
#[track_caller]
fn assert_nothing_left(moto: &Server, ran: &Ran) {
    let mut left = moto.names("box", "jobs/");
    let folders = ["/rows/", "/saved/", "/alive/"];
    left.retain(|name| folders.iter().any(|folder| name.contains(folder)));
    assert_eq!(left, [""; 0], "{ran}");
}

#[test]
fn one_file() {
    let moto = Server::moto();
    let ran = run_with_a_kill(&moto, "");
    assert_eq!(sorted(&rows(&moto)), expected_rows(), "{ran}");
    assert_files(&moto, &ran);
    assert_nothing_left(&moto, &ran);
    // A file that a worker's `shutdown` wrote on another machine.
    let logs = ran.dir().join("leader/logs/user/entry_script_log");
    let folders = fs::read_dir(&logs).unwrap().flatten();
    let files = folders.filter_map(|node| fs::read_dir(node.path().join("files")).ok());
    let count = files.flatten().count();
    assert!(count > 0, "{}", logs.display());
}

#[test]
fn rows_in_order() {
    let moto = Server::moto();
    let ran = run_with_a_kill(&moto, "ordered: true");
    assert_eq!(rows(&moto).lines().collect::<Vec<_>>(), expected_rows_in_order(), "{ran}");
    assert_files(&moto, &ran);
}

#[test]
fn rows_in_parts() {
    let moto = Server::moto();
    let ran = run_with_a_kill(&moto, "output_layout: parts");
    assert!(moto.names("box", "results/parallel_run_step/").len() > 1, "{ran}");
    assert_eq!(sorted(&rows(&moto)), expected_rows(), "{ran}");
}

#[test]
fn rows_are_only_counted() {
    let moto = Server::moto();
    let ran = run_with_a_kill(&moto, "output_action: summary_only");
    ran.says("mini-batches  60");
    assert_eq!(rows(&moto), "");
    assert_files(&moto, &ran);
}

#[test]
fn compressed_rows() {
    let moto = Server::moto();
    let ran = run_with_a_kill(&moto, "output_format: {compression: gzip}");
    let file = ran.dir().join("leader/output/parallel_run_step.txt.gz");
    let packed = fs::File::open(file).unwrap();
    let unpacked = std::process::Command::new("gzip").arg("-dc").stdin(packed).output().unwrap();
    assert_eq!(sorted(&String::from_utf8(unpacked.stdout).unwrap()), expected_rows());
    assert_eq!(moto.names("box", "results/parallel_run_step.txt.gz").len(), 1, "{ran}");
}

#[test]
fn files_that_are_appended_to() {
    let moto = Server::moto();
    let ran = run_with_a_kill(&moto, "output_files: append");
    assert_files(&moto, &ran);
}

/// Begins a job on two nodes that takes some seconds.
fn begun(moto: &Server, cluster: &mut Cluster) -> Running {
    cluster.start_agents(2);
    let job = job(moto, "box", 2, "arguments: [--nap, '400']");
    let mut running = cluster.start(job, "leader", &["--no-takeover"]);
    until_node_works(&mut running, 0);
    until_node_works(&mut running, 1);
    running
}

#[track_caller]
fn assert_complete(moto: &Server, ran: &Ran) {
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(sorted(&rows(moto)), expected_rows(), "{ran}");
    assert_files(moto, ran);
    assert_nothing_left(moto, ran);
}

/// A store that fails for some seconds costs only time.
#[test]
fn the_store_may_fail_for_a_while() {
    let moto = Server::moto();
    let proxy = Proxy::to(moto.port);
    let mut cluster = Cluster::with_environment(Server::variables(proxy.port()));
    let running = begun(&moto, &mut cluster);
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
    let running = begun(&moto, &mut cluster);
    let leader = Pid::from_raw(running.pid().cast_signed()).unwrap();
    kill_process(leader, Signal::STOP).unwrap();
    let begun = Instant::now();
    let stored = || {
        let mut names = moto.names("box", "jobs/");
        names.retain(|name| name.contains("/rows/"));
        names
    };
    while stored().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is stored");
        thread::sleep(Duration::from_millis(20));
    }
    // What the leader has not read yet, because it is paused.
    stored().iter().for_each(|name| moto.delete(&format!("/box/{name}")));
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
