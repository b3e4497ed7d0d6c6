//! Jobs that run at the same time share a machine under the operator's caps.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Running, TestJob, guest};
use std::path::Path;
use std::time::{Duration, Instant};

/// A folder with the operator's policy, and with the folder in which jobs record how much of the machine they
/// use.
struct CappedMachine(tempfile::TempDir);

impl CappedMachine {
    fn new(caps: &str) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let shared = machine.0.path().join("slots");
        let text = format!("machine: {{ {caps}, directory: '{}' }}\n", shared.display());
        std::fs::write(machine.0.path().join("policy.yaml"), text).unwrap();
        machine
    }

    fn start(&self, job: TestJob) -> Running {
        let policy: &Path = &self.0.path().join("policy.yaml");
        job.start(&["--policy", policy.to_str().unwrap()])
    }
}

/// A job with this many mini-batches and workers.
fn job(files: u32, workers: u32) -> TestJob {
    job_of("echo_files", files, workers)
}

fn job_of(script: &str, files: u32, workers: u32) -> TestJob {
    let job = TestJob::new(&guest(script)).yaml(&format!(
        "inputs: {{ files: input }}\nmini_batch_size: 1\nprocess_count_per_node: {workers}\n\
         run_invocation_timeout: 120"
    ));
    (0..files).fold(job, |job, file| job.file(&format!("input/{file}.txt"), "x"))
}

/// A job whose guest never returns.
fn sleeping_job(workers: u32) -> TestJob {
    job_of("hostile_files", 4, workers).yaml("arguments: [--do, sleep]")
}

/// The number of running worker processes.
fn workers(running: &Running) -> usize {
    let is_worker = |(_, command): &(u32, String)| command.ends_with(" worker");
    running.children().into_iter().filter(is_worker).count()
}

fn is_waiting(running: &Running) -> bool {
    running.stderr_so_far().contains("the job waits for its turn")
}

/// Three jobs ask for two workers each, and the cap is two. The first job gets two, and the others wait.
/// After the first job's leader is killed, the others share the two workers.
#[test]
fn jobs_take_turns_and_a_killed_job_frees_its_slots() {
    let machine = CappedMachine::new("workers: 2");
    let mut first = machine.start(sleeping_job(2));
    first.until("two workers", |first| workers(first) == 2);
    let mut others = [machine.start(job(40, 2)), machine.start(job(40, 2))];
    for other in &mut others {
        other.until("it waits", is_waiting);
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        assert_eq!((workers(&others[0]), workers(&others[1])), (0, 0));
        std::thread::sleep(Duration::from_millis(20));
    }
    first.until("its two workers", |first| workers(first) == 2);
    first.kill_leader();
    first.wait().exits_with(-9);
    let mut max_workers = 0;
    while !others.iter_mut().all(Running::has_ended) {
        max_workers = max_workers.max(workers(&others[0]) + workers(&others[1]));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!((1..=2).contains(&max_workers), "{max_workers} workers at the same time");
    for other in others {
        let ran = other.wait();
        ran.exits_with(0);
        ran.says("the job continues: after");
        assert_eq!(ran.output().lines().count(), 40);
    }
}

#[test]
fn a_job_starts_with_fewer_workers_and_adds_more() {
    let machine = CappedMachine::new("workers: 2");
    let mut first = machine.start(sleeping_job(1));
    first.until("its worker", |first| workers(first) == 1);
    let mut second = machine.start(sleeping_job(2));
    second.until("it has fewer", |second| {
        second.stderr_so_far().contains("fewer than 2 workers run")
    });
    // The job says so before its worker's process exists.
    second.until("its one worker", |second| workers(second) == 1);
    assert_eq!(workers(&first), 1);
    first.kill_leader();
    first.wait().exits_with(-9);
    second.until("it has both", |second| workers(second) == 2);
    second.kill_leader();
    second.wait().exits_with(-9);
}

/// The waiting job has not begun, but Ctrl-C ends it as usual.
#[test]
fn a_waiting_job_can_be_cancelled() {
    let machine = CappedMachine::new("workers: 1");
    let mut first = machine.start(sleeping_job(1));
    first.until("its worker", |first| workers(first) == 1);
    let mut second = machine.start(job(2, 1));
    second.until("it waits", is_waiting);
    second.interrupt();
    let ran = second.wait();
    ran.exits_with(130);
    // The job can be resumed when the first job has ended.
    first.kill_leader();
    first.wait().exits_with(-9);
    let policy = machine.0.path().join("policy.yaml");
    let ran = ran.into_job().resume(&["--policy", policy.to_str().unwrap()]);
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 2);
}

/// The memory budget of each worker counts toward the cap. By default, the budget is a little more
/// than 2 GB. A job is refused if the budget of one worker is larger than the cap.
#[test]
fn jobs_share_the_memory_cap() {
    let machine = CappedMachine::new("memory: 1 GB");
    let ran = machine.start(job(2, 1)).wait();
    ran.exits_with(2);
    ran.says("all jobs on this machine together may use only 1 GB (machine.memory of the operator's policy)");
    assert!(!ran.has("job"), "{ran}");
    let small = "limits: { memory: 64 MB, results: 64 MB, read: 64 MB }";
    let mut first = machine.start(sleeping_job(4).yaml(small));
    first.until("it has fewer", |first| first.stderr_so_far().contains("fewer than 4 workers"));
    // Each worker's budget is 64 + 2 x 64 + 64 + 256 MB.
    first.until("its two workers", |first| workers(first) == 2);
    first.kill_leader();
    first.wait().exits_with(-9);
}

/// A job that has the whole machine gives a part of it to another tenant's job when its mini-batches end. It loses no work, and
/// gets the slots back afterwards.
#[test]
fn tenants_share_the_machine_at_the_borders_of_mini_batches() {
    let machine = CappedMachine::new("workers: 2, newcomers_percent: 10");
    let long = job_of("writes_files", 60, 2).yaml("arguments: [--nap, '100']\ntenant: ada");
    let mut first = machine.start(long);
    first.until("two workers", |first| workers(first) == 2);
    let second = machine.start(job(400, 2).yaml("tenant: bob"));
    let ran = second.wait();
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 400);
    assert!(!first.has_ended(), "the second job did not wait for the end of the first one");
    first.until("two workers again", |first| workers(first) == 2);
    let ran = first.wait();
    ran.exits_with(0);
    assert_eq!(ran.output().lines().count(), 60);
    ran.says("fewer than 2 workers run");
}
