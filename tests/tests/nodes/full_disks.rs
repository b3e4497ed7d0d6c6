//! Agents whose disks have no room, by the caps of their policies.

use crate::cluster::{Cluster, assert_complete, job};
use sandmill_tests::Ran;
use std::fs;
use std::path::PathBuf;

/// A file of this size in the work folder fills it.
const FILLING: usize = 3 << 20;

/// Starts an agent with a folder of its own for workers' files, which may have 2 MB. Returns the folder.
fn start_capped(cluster: &mut Cluster, options: &[&str]) -> PathBuf {
    let policy = cluster.file("capped.yaml", "machine: {node_disk: 2 MB}\n");
    let work = cluster.path(&format!("work-{}", cluster.count()));
    let given = ["--policy", &policy, "--work-dir", work.to_str().unwrap()];
    cluster.add_agent(&[&given, options].concat(), &[]);
    fs::create_dir_all(&work).unwrap();
    work
}

/// How often the leader has said this.
#[track_caller]
fn assert_said_once(ran: &Ran, text: &str) {
    assert_eq!(ran.stderr.matches(text).count(), 1, "{text}: {ran}");
}

/// A node whose disk is full gets no more mini-batches, and goes on when there is room.
#[test]
fn a_full_node_waits_for_room() {
    let mut cluster = Cluster::new();
    let work = start_capped(&mut cluster, &[]);
    let mut running = cluster.start(job(1, "arguments: [--nap, '300']"), "leader", &[]);
    running.until("the node works", |running| running.stderr_so_far().contains("takes part"));
    fs::write(work.join("filling"), vec![0; FILLING]).unwrap();
    cluster.agent(0).until("machine-0 takes no more work for now, because the rows and files of its jobs take 2 MB of its disk");
    let full =
        "the machine machine-0 takes no more mini-batches for now, because the rows and files";
    running.until("the leader knows", |running| running.stderr_so_far().contains(full));
    let doctor =
        sandmill_tests::TestJob::empty().command(&["doctor", "--broker", &cluster.broker.url()]);
    assert!(doctor.stdout.contains("machine-0 takes no more work for now, because"), "{doctor}");
    fs::remove_file(work.join("filling")).unwrap();
    cluster.agent(0).until("machine-0 takes work again: its disk has room");
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
    assert_said_once(&ran, full);
    let said = cluster.agent(0).said();
    assert_eq!(said.matches("takes no more work for now").count(), 1, "{said}");
}

/// A full node without work leaves the job, and another machine replaces it. It joins no job until it has room, and says
/// why.
#[test]
fn a_full_node_is_replaced() {
    let mut cluster = Cluster::new();
    let work = start_capped(&mut cluster, &[]);
    let mut running = cluster.start(job(1, "arguments: [--nap, '300']"), "leader", &[]);
    running.until("the node works", |running| running.stderr_so_far().contains("takes part"));
    fs::write(work.join("filling"), vec![0; FILLING]).unwrap();
    cluster.agent(0).until("takes no part in the job test for now: the rows and files of its jobs");
    let waiting = "the machine machine-0 takes no part for now, because the rows and files of its jobs take 2 MB";
    running.until("the leader learns why it waits", |running| {
        running.stderr_so_far().contains(waiting)
    });
    cluster.start_agents(1);
    let ran = running.wait();
    ran.exits_with(0)
        .says("(machine-0) takes no part any longer: the rows and files of its jobs take");
    assert_complete(&ran);
    assert_said_once(&ran, waiting);
    let said = cluster.agent(0).said();
    for once in ["takes no part in the job test for now", "offers to run workers of the job"] {
        assert_eq!(said.matches(once).count(), 1, "{said}");
    }
}

/// A machine with too little free room takes part in no job.
#[test]
fn a_machine_without_free_room_takes_no_part() {
    let mut cluster = Cluster::new();
    let policy = cluster.file("free.yaml", "machine: {node_disk_free: 8000000 GB}\n");
    let work = cluster.path("work").display().to_string();
    cluster.add_agent(&["--policy", &policy, "--work-dir", &work], &[]);
    let mut running = cluster.start(job(1, ""), "leader", &[]);
    running.until("the leader learns why it waits", |running| {
        running
            .stderr_so_far()
            .contains("the machine machine-0 takes no part for now, because less than")
    });
    cluster.agent(0).until(&format!("free on the disk of {work} (machine.node_disk_free"));
    cluster.start_agents(1);
    let ran = running.wait();
    ran.exits_with(0);
    assert_complete(&ran);
}
