//! A leader that continues a job: what the nodes run goes on, and the plan is not made again.

use crate::cluster::{Cluster, sorted};
use crate::stored::{assert_nothing_left, rows};
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Elsewhere, Server, TestJob, guest};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How many mini-batches run for some seconds.
const SLOW: usize = 4;

/// The lines of a job on two nodes whose mini-batches run for some seconds.
const LINES: &str = "process_count_per_node: 1\nnode_count: 2\n";
/// The output and the store of a job in folders that the machines share.
const FOLDERS: &str = "output: shared/out\njob_store: shared/jobs\n";

/// A job over files.
fn files_job(stores: &str) -> TestJob {
    job_over(SLOW, 6000, stores)
}

/// A job over this many files. Each mini-batch takes so many milliseconds.
fn job_over(files: usize, nap: u32, stores: &str) -> TestJob {
    let job = TestJob::new(&guest("surroundings")).yaml(&format!(
        "inputs: {{texts: in}}\nmini_batch_size: 1\narguments: [--nap, '{nap}']\n{LINES}{stores}"
    ));
    (0..files).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x"))
}

/// A job over groups of rows. Each row of its results has all rows of its group.
fn groups_job(stores: &str) -> TestJob {
    let job = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{rows: {{path: in, format: csv}}}}\npartition_keys: [key]\n\
         arguments: [--groups, --nap, '6000']\n{LINES}{stores}"
    ));
    let rows = |file: usize| (0..40).map(move |row| format!("k{},{file}.{row}\n", row % SLOW));
    (0..3).fold(job, |job, file| {
        let text: String = rows(file).collect();
        job.file(&format!("in/{file}.csv"), format!("key,number\n{text}"))
    })
}

/// Lets an agent lead this job, kills the leader while two mini-batches run, and waits until another leader has completed
/// the job. No mini-batch may begin twice: the workers go on, and the next leader takes over what they do.
fn assert_no_attempt_begins_twice(cluster: &mut Cluster, job: &TestJob, other: &Elsewhere) {
    cluster.start_agents(2);
    // An agent leads the job, because the end of a command in a test also ends all workers.
    cluster.submit(job, &[]).exits_with(0);
    let leader = cluster.until_one_says("leads the job test (", None);
    let begins = |text: &str, number: usize| {
        text.lines().filter(|line| *line == format!("run {number} attempt 1")).count()
    };
    let all_begun = |text: &str| (0..SLOW).map(|number| begins(text, number)).sum::<usize>();
    other.until(&["logs", "test"], |seen| all_begun(&seen.stdout) >= 2);
    cluster.agent(leader).signal_leader(Signal::KILL);
    cluster.until_one_says("leads the job test no longer: exit status: 0", None);
    for number in 0..2 {
        cluster.agent(number).until("the job test has another leader; the workers here go on");
    }
    let logs = other.run(&["logs", "test"]).stdout;
    for number in 0..SLOW {
        assert_eq!(begins(&logs, number), 1, "{number}: {logs}");
    }
}

/// The rows in the output of a job in shared folders.
fn shared_rows(job: &TestJob) -> Vec<String> {
    sorted(&fs::read_to_string(job.path("shared/out/parallel_run_step.txt")).unwrap())
}

/// The rows of the same job on one machine.
fn rows_alone(job: TestJob, arguments: &str) -> Vec<String> {
    let ran = job.run(&["--set", arguments, "--set", "node_count=1"]);
    ran.exits_with(0);
    ran.sorted_output()
}

#[test]
fn running_attempts_go_on() {
    let job = files_job(FOLDERS);
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let other = Elsewhere::new(&job.path("shared/jobs"));
    assert_no_attempt_begins_twice(&mut Cluster::new(), &job, &other);
    assert_eq!(shared_rows(&job).len(), SLOW);
}

/// The new leader begins with the saved plan, also if the planner of the lost one has grouped the rows.
#[test]
fn running_attempts_at_grouped_rows_go_on() {
    let job = groups_job(FOLDERS);
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let other = Elsewhere::new(&job.path("shared/jobs"));
    assert_no_attempt_begins_twice(&mut Cluster::new(), &job, &other);
    let expected = rows_alone(groups_job(""), "arguments=[--groups]");
    assert_eq!(expected.len(), 3 * 40);
    assert_eq!(shared_rows(&job), expected);
}

/// The output and the store of a job at addresses.
const ADDRESSES: &str = "output: s3://box/results\njob_store: s3://box/jobs\n";

/// A store, agents that use it, and what reads the job there.
fn with_store() -> (Server, Cluster, Elsewhere) {
    let moto = Server::moto();
    moto.put("/box", "");
    let cluster = Cluster::with_environment(Server::variables(moto.port));
    let other = Elsewhere::with_address("s3://box/jobs", &moto);
    (moto, cluster, other)
}

#[test]
fn running_attempts_go_on_without_a_shared_folder() {
    let (moto, mut cluster, other) = with_store();
    let job = moto.opened_for(files_job(ADDRESSES));
    assert_no_attempt_begins_twice(&mut cluster, &job, &other);
    assert_eq!(sorted(&rows(&moto)).len(), SLOW);
    assert_nothing_left(&moto);
}

#[test]
fn running_attempts_at_grouped_rows_go_on_without_a_shared_folder() {
    let (moto, mut cluster, other) = with_store();
    let job = moto.opened_for(groups_job(ADDRESSES));
    assert_no_attempt_begins_twice(&mut cluster, &job, &other);
    assert_eq!(sorted(&rows(&moto)), rows_alone(groups_job(""), "arguments=[--groups]"));
    assert_nothing_left(&moto);
}

/// Rows that nodes have put into the store, and that the lost leader has not read, are not computed again.
#[test]
fn rows_that_no_leader_has_read_survive() {
    const FILES: usize = 8;
    let (moto, mut cluster, other) = with_store();
    let job = moto.opened_for(job_over(FILES, 3000, ADDRESSES));
    cluster.start_agents(2);
    cluster.submit(&job, &[]).exits_with(0);
    let leader = cluster.until_one_says("leads the job test (", None);
    let begins = |text: &str, number: usize| {
        text.lines().filter(|line| *line == format!("run {number} attempt 1")).count()
    };
    let begun = |text: &str| (0..FILES).map(|number| begins(text, number)).sum::<usize>();
    other.until(&["logs", "test"], |seen| begun(&seen.stdout) >= 2);
    cluster.agent(leader).signal_leader(Signal::STOP);
    // A leader that is stopped reads and removes nothing.
    let packs = || {
        let names = moto.names("box", "jobs/").into_iter();
        names.filter(|name| name.contains("/rows/") && !name.contains("/log-")).count()
    };
    let before = packs();
    let since = Instant::now();
    while packs() < before + 2 {
        assert!(since.elapsed() < Duration::from_secs(30), "{}", cluster.agent(leader).said());
        thread::sleep(Duration::from_millis(20));
    }
    // After ten seconds, the agent kills it.
    for stopped in cluster.agent(leader).leaders() {
        kill_process(stopped, Signal::KILL).unwrap();
    }
    cluster.until_one_says("leads the job test no longer: exit status: 0", None);
    assert_eq!(sorted(&rows(&moto)).len(), FILES);
    let logs = other.run(&["logs", "test"]).stdout;
    for number in 0..FILES {
        assert_eq!(begins(&logs, number), 1, "{number}: {logs}");
    }
    assert_nothing_left(&moto);
}

/// A leader is paused, and wakes when another one has taken over. It ends, and takes nothing away that nodes have stored for
/// its successor.
#[test]
fn a_leader_that_wakes_leaves_the_rows_of_the_nodes() {
    const FILES: usize = 8;
    let (moto, mut cluster, _) = with_store();
    let job = moto.opened_for(job_over(FILES, 3000, ADDRESSES));
    cluster.start_agents(2);
    let mut running = cluster.start(job, "leader", &[]);
    running.until("both nodes work", |running| {
        let said = running.stderr_so_far();
        said.contains("note: node 0 (") && said.contains("note: node 1 (")
    });
    let pid = Pid::from_raw(i32::try_from(running.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    cluster.until_one_says("the job test has another leader; the workers here go on", None);
    kill_process(pid, Signal::CONT).unwrap();
    let ran = running.wait();
    ran.exits_with(42);
    let leader = cluster.until_one_says("leads the job test no longer: exit status: 0", None);
    assert_eq!(sorted(&rows(&moto)).len(), FILES);
    let said = cluster.jobs_of(leader).parent().unwrap().with_extension("log");
    let said = fs::read_to_string(said).unwrap();
    assert!(said.contains("takes part") && !said.contains("takes no part any longer"), "{said}");
    assert_nothing_left(&moto);
}

/// A leader is lost while a table is half planned, and another one continues with short mini-batches.
#[test]
fn a_half_planned_table_is_continued() {
    const ROWS: usize = 4000;
    let mut cluster = Cluster::new();
    let job = TestJob::new(&guest("echo_table")).yaml(
        "inputs: {rows: {path: in.csv, format: csv}}\nmini_batch_size: 1 rows\n\
         process_count_per_node: 2\nnode_count: 2\narguments: [--rows]\noutput: shared/out\n\
         job_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let text: String = (0..ROWS).map(|number| format!("{number}\n")).collect();
    let job = job.file("in.csv", format!("id\n{text}")).env("SANDMILL_FAIL_POINT", "journaled:3");
    cluster.start_agents(2);
    let ran = cluster.start(job, "leader", &["--no-takeover"]).wait();
    assert_eq!(ran.code, -9, "{ran}");
    let ran = cluster.run(ran.into_job().env("SANDMILL_FAIL_POINT", ""), "second");
    assert_eq!(ran.code, 0, "{ran}");
    let mut expected: Vec<String> = (0..ROWS).map(|number| number.to_string()).collect();
    expected.sort();
    assert_eq!(sorted(&ran.text("shared/out/parallel_run_step.txt")), expected, "{ran}");
}
