//! Jobs on several nodes, as a machine sees them that has only the job's store.

use crate::cluster::Cluster;
use sandmill_tests::{Elsewhere, Running, TestJob, guest, sandmill};
use std::fs;
use std::process::Command;

/// A job for two nodes that prints, with this pause in each of its mini-batches.
fn printing_job(files: usize, nap: &str) -> TestJob {
    let job = TestJob::new(&guest("surroundings")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 1\nnode_count: 2\n\
         arguments: [--nap, '{nap}']\noutput: shared/out\njob_store: shared/jobs"
    ));
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    (0..files).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x"))
}

/// Starts the job, and waits until both nodes work.
fn begun(cluster: &mut Cluster, job: TestJob) -> (Running, Elsewhere) {
    cluster.start_agents(2);
    let mut running = cluster.start(job, "leader", &["--no-takeover"]);
    running.until("both nodes work", |running| {
        let said = running.stderr_so_far();
        said.contains("note: node 0 (") && said.contains("note: node 1 (")
    });
    let other = Elsewhere::new(&running.dir().join("shared/jobs"));
    (running, other)
}

/// What the entry script prints on other machines is shown while the job runs, on the leader's machine and elsewhere.
#[test]
fn the_logs_of_nodes_are_shown_while_the_job_runs() {
    let mut cluster = Cluster::new();
    let (running, other) = begun(&mut cluster, printing_job(10, "2000"));
    let dir = running.dir().to_owned();
    let local = |arguments: &[&str]| {
        let output = Command::new(sandmill()).args(arguments).current_dir(&dir).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let is_live = |text: &str| {
        ["process000", "process100000"].iter().all(|worker| {
            text.contains(&format!("/{worker}.stdout.txt <==")) && text.contains("run 0 attempt 1")
        })
    };
    let seen = other.until(&["logs", "test"], |seen| is_live(&seen.stdout));
    assert!(is_live(&local(&["logs", "leader"])), "{seen:?}");
    let status = other.until(&["status", "test"], |seen| seen.stdout.contains("process100000: "));
    assert!(status.stdout.starts_with("Job test is running (process "), "{status:?}");
    assert_eq!(other.run(&["status", "test", "--exit-code"]).code, Some(3), "the job has ended");
    // Both follow the job to its end, and show each line once.
    let (followed, followed_here) = std::thread::scope(|scope| {
        let here = scope.spawn(|| local(&["logs", "leader", "-f"]));
        (other.run(&["logs", "test", "-f"]), here.join().unwrap())
    });
    assert_eq!(followed.code, Some(0), "{followed:?}");
    let ran = running.wait();
    ran.exits_with(0);
    for text in [&followed.stdout, &followed_here] {
        for number in 0..10 {
            let line = format!("\nrun {number} attempt 1\n");
            assert_eq!(text.matches(&line).count(), 1, "{number}: {text}");
        }
        assert_eq!(text.matches("\nshutdown to stdout\n").count(), 2, "{text}");
    }
    assert_eq!(other.run(&["logs", "test"]).stdout, local(&["logs", "leader"]));
}

#[test]
fn a_job_on_nodes_is_cancelled_from_another_machine() {
    let mut cluster = Cluster::new();
    let (running, other) = begun(&mut cluster, printing_job(60, "500"));
    let asked = other.run(&["cancel", "test", "--wait"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let ran = running.wait();
    ran.exits_with(130).says(": sandmill cancel on ");
    for number in 0..2 {
        cluster.agent(number).until("is over");
    }
}

/// The leader is dead. The nodes end their workers, and the next leader ends the job as cancelled. The one after that
/// continues it.
#[test]
fn a_job_without_a_leader_is_cancelled() {
    let mut cluster = Cluster::new();
    let (mut running, other) = begun(&mut cluster, printing_job(8, "700"));
    running.kill_leader();
    let ran = running.wait();
    let asked = other.run(&["cancel", "test"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(asked.stderr.starts_with("Job test has no process now"), "{asked:?}");
    for number in 0..2 {
        cluster
            .agent(number)
            .until("the job test was cancelled, and its leader is silent; its workers were ended");
    }
    let ran = cluster.run(ran.into_job(), "second");
    assert_eq!(ran.code, 130, "{ran}");
    ran.says(": sandmill cancel on ");
    let ran = cluster.run(ran.into_job(), "third");
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(ran.text("shared/out/parallel_run_step.txt").lines().count(), 8, "{ran}");
}
