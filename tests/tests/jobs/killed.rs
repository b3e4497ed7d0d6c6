//! Processes that are killed from outside in the middle of a job: no row is lost or duplicated, and no
//! process is left.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Running, TestJob, guest};
use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// A job with one file per mini-batch. The guest never returns from the first attempt at mini-batch 5, so a
/// test can find and kill the worker of this mini-batch.
fn stuck_job() -> TestJob {
    let mut job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: { texts: input }\n\
         arguments: [--do, loop, --on-batch, '5', --on-attempt, '1']\n\
         mini_batch_size: 1\n\
         process_count_per_node: 2",
    );
    for number in 10..40 {
        job = job.file(&format!("input/{number}.txt"), "x");
    }
    job
}

/// All rows of [`stuck_job`].
fn rows() -> Vec<String> {
    (10..40).map(|number| format!("{number}.txt: 1")).collect()
}

/// The command line of a process. Empty if the process has ended.
fn command(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

/// The worker processes in the events so far: worker name and process id.
fn workers(running: &Running) -> Vec<(String, u32)> {
    let events = running.dir().join("job/logs/sys/events.jsonl");
    let text = fs::read_to_string(events).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|event| event["kind"]["event"] == "worker_started")
        .filter_map(|event| {
            let pid = u32::try_from(event["kind"]["pid"].as_u64()?).ok()?;
            Some((event["kind"]["worker"].as_str()?.to_owned(), pid))
        })
        .collect()
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

/// Seconds of processor time that a process has used.
fn processor_time(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, rest)) = stat.rsplit_once(") ") else { return 0.0 };
    // User and system time are fields 14 and 15 of the line, in hundredths of a second.
    let ticks: u32 = rest.split(' ').skip(11).take(2).filter_map(|n| n.parse::<u32>().ok()).sum();
    f64::from(ticks) / 100.0
}

/// Waits until a worker spins in the endless mini-batch, and returns that worker.
fn the_stuck_worker(running: &mut Running) -> (String, u32) {
    running.until("a worker spins", |running| {
        workers(running).iter().any(|(_, pid)| processor_time(*pid) > 0.3)
    });
    workers(running).into_iter().find(|(_, pid)| processor_time(*pid) > 0.3).unwrap()
}

/// Waits until all these processes have ended. Fails after a second.
fn wait_for_ends(pids: &BTreeSet<u32>) {
    let start = Instant::now();
    while let Some(pid) = pids.iter().find(|pid| command(**pid).contains("worker")) {
        assert!(
            start.elapsed() < Duration::from_secs(1),
            "process {pid} still runs: {}",
            command(*pid)
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// Rules W5, W6, F10, F13, T3 in docs/parallel-run-step.md.
#[test]
fn a_killed_worker_is_replaced() {
    let mut running = stuck_job().start(&[]);
    let (name, pid) = the_stuck_worker(&mut running);
    kill(pid);
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), rows(), "{ran}");
    assert_eq!(ran.attempts("RUN_EXCEPTION"), ["5, 1"], "{ran}");
    assert!(ran.attempts("RUN_DONE").contains(&"5, 2".to_owned()), "{ran}");
    assert_snapshot!(ran.messages(), @"
    job test: 2 workers
    [WORKER] exited with returncode -9
    mini-batch 5, attempt 1 ([WORKER]), will be tried again: the worker process exited with returncode -9 inside run; another process must have sent it SIGKILL: the kernel has killed no process for lack of memory since the job began
    Job test completed in [TIME].
      mini-batches  30
      items         30
      rows          30
      output        job/output/parallel_run_step.txt
    ");
    let errors = ran.log(&format!("user/error/0/{name}.txt"));
    assert!(errors.contains("returncode -9"), "{errors}");
    assert!(ran.log("sys/events.jsonl").contains("exited with returncode -9"), "{ran}");
    // Rules W5, W6: ParallelRunStep has the same texts in the same file.
    let main = ran.log("sys/node/0/_main.txt");
    assert!(main.contains(&format!("|{name} exits with returncode -9\n")), "{main}");
    assert!(main.contains(&format!("|{name} is replaced by process002\n")), "{main}");
    let error = ran.log(&format!("sys/error/0/{name}.txt"));
    assert!(error.contains("exited with returncode -9"), "{error}");
}

/// Rule W2. With only one attempt allowed, the mini-batch of the killed worker fails, and the rest of the
/// output is complete.
#[test]
fn a_killed_worker_fails_its_attempt() {
    let mut running = stuck_job().start(&["--set", "run_max_try=1", "--set", "error_threshold=1"]);
    let (_, pid) = the_stuck_worker(&mut running);
    kill(pid);
    let ran = running.wait();
    ran.exits_with(0);
    let mut rows = rows();
    rows.retain(|row| row != "15.txt: 1");
    assert_eq!(ran.sorted_output(), rows, "{ran}");
    assert_snapshot!(ran.failed_items(), @"
    mini_batch,item,file,line,row,attempt,worker,reason
    5,/inputs/texts/15.txt,/inputs/texts/15.txt,,,1,[WORKER],the whole mini-batch (1 item): the worker process exited with returncode -9 inside run; another process must have sent it SIGKILL: the kernel has killed no process for lack of memory since the job began
    ");
}

/// Rule W7.
#[test]
fn nothing_outlives_a_killed_leader() {
    let mut running = stuck_job().start(&[]);
    the_stuck_worker(&mut running);
    let pids: BTreeSet<u32> = workers(&running).into_iter().map(|(_, pid)| pid).collect();
    assert_eq!(pids.len(), 2);
    running.kill_leader();
    // The worker in the endless call also ends, although it reads no messages.
    wait_for_ends(&pids);
    let ran = running.wait();
    ran.exits_with(-9);
    // The resumed job begins the endless mini-batch with attempt 1 again, so it needs a timeout.
    let again = ran.into_job().run(&["--set", "run_invocation_timeout=1"]);
    again.exits_with(0);
    assert_eq!(again.sorted_output(), rows(), "{again}");
}

/// Kills the zygote, which forks the workers. Then kills the worker that the zygote forked. The next worker
/// is started without the zygote.
#[test]
fn workers_survive_a_killed_zygote() {
    let mut running = stuck_job().start(&["--process-count", "1"]);
    let (_, pid) = the_stuck_worker(&mut running);
    let children = running.children();
    let is_zygote = |(_, command): &&(u32, String)| command.ends_with(" worker zygote");
    let zygotes: Vec<_> = children.iter().filter(is_zygote).collect();
    assert_eq!((zygotes.len(), children.len()), (1, 2), "{children:?}");
    let killed = zygotes[0].0;
    kill(killed);
    running.until("the zygote has ended", |running| {
        running.children().iter().all(|(id, _)| *id != killed)
    });
    assert!(running.children().iter().any(|(id, _)| *id == pid), "the worker lives");
    kill(pid);
    let ran = running.wait();
    ran.exits_with(0).left_nothing();
    assert_eq!(ran.sorted_output(), rows(), "{ran}");
    assert_eq!(ran.attempts("RUN_EXCEPTION"), ["5, 1"], "{ran}");
    assert!(ran.log("sys/node/0/_main.txt").contains("process001 is ready"), "{ran}");
}

/// Compiled code is loaded only behind a wall, because the compiler may have been compromised.
#[test]
fn processes_that_load_compiled_code_have_a_wall() {
    let mut running = stuck_job().start(&["--process-count", "1"]);
    the_stuck_worker(&mut running);
    let children = running.children();
    assert_eq!(children.len(), 2, "the worker and the zygote: {children:?}");
    for (pid, command) in children {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        assert_eq!((number("Seccomp:"), number("NoNewPrivs:")), (2, 1), "{command}: {status}");
        // A zygote has one filter. A worker inherits this filter, and adds another.
        let filters = if command.ends_with(" worker zygote") { 1 } else { 2 };
        assert_eq!(number("Seccomp_filters:"), filters, "{command}: {status}");
        // The process has kept no capabilities other than those for reading and linking files of other users.
        assert_eq!(number("CapEff:") & !0b110, 0, "{command}: {status}");
    }
}

/// Rule W7: kills the zygote and all workers together, as if a node were lost.
#[test]
fn a_zygote_and_workers_killed_together_are_replaced() {
    let mut running = stuck_job().start(&[]);
    the_stuck_worker(&mut running);
    let lost = running.children();
    assert_eq!(lost.len(), 3, "two workers and the zygote: {lost:?}");
    lost.iter().for_each(|(pid, _)| kill(*pid));
    let ran = running.wait();
    ran.exits_with(0).left_nothing();
    assert_eq!(ran.sorted_output(), rows(), "{ran}");
    let main = ran.log("sys/node/0/_main.txt");
    for process in ["is replaced by process002", "is replaced by process003"] {
        assert!(main.contains(process), "{main}");
    }
}

/// When a machine runs out of memory, the kernel must kill workers first, not the leader or other programs.
#[test]
#[cfg(target_os = "linux")]
fn the_oom_killer_prefers_workers() {
    let oom_score =
        |pid: u32| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap_or_default();
    let mut running = stuck_job().start(&["--process-count", "1"]);
    the_stuck_worker(&mut running);
    let children = running.children();
    assert_eq!(children.len(), 2, "the worker and the zygote");
    for (pid, command) in children {
        assert_eq!(oom_score(pid).trim(), "1000", "{command}");
    }
    assert_eq!(oom_score(running.pid()), oom_score(std::process::id()));
}

fn job_with_slow_planning() -> TestJob {
    let text = format!("id,x\n{}", "1,0.5\n".repeat(2_000_000));
    TestJob::new(&guest("echo_table"))
        .yaml(
            "inputs: { rows: { path: input, format: csv } }\n\
             schema_inference: full\n\
             process_count_per_node: 1",
        )
        .file("input/a.csv", text)
}

/// The process id of a planner that is not in `earlier` and has opened its input file. `None`
/// before a planner has opened the file.
fn planner(running: &Running, earlier: &[u32]) -> Option<u32> {
    let has_opened = |id: u32| {
        let files = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|path| path.ends_with("a.csv"))
    };
    let mut children = running.children().into_iter();
    let is_planning = |(id, command): &(u32, String)| {
        command.ends_with(" plan-worker") && !earlier.contains(id) && has_opened(*id)
    };
    children.find(is_planning).map(|(id, _)| id)
}

/// Kills the planner, and returns its process id and command line.
fn kill_planner(running: &mut Running, earlier: &[u32]) -> (u32, String) {
    running.until("the planner plans", |running| planner(running, earlier).is_some());
    let pid = planner(running, earlier).unwrap();
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    kill(pid);
    (pid, command.replace('\0', " ").trim_end().to_owned())
}

/// The first planner is a fork that was made in advance. Its replacement is started as a new program.
#[test]
fn a_killed_planner_is_replaced() {
    let mut running = job_with_slow_planning().start(&[]);
    let (first, command) = kill_planner(&mut running, &[]);
    assert!(command.ends_with(" worker"), "{command}");
    running.until("another one plans", |running| planner(running, &[first]).is_some());
    let ran = running.wait();
    ran.exits_with(0).left_nothing();
    assert_eq!(ran.output().lines().count(), 2_000_000);
}

/// Two planners in turn are killed while they determine the columns of the same file, so the file fails. It
/// is the only file, so the job fails.
#[test]
fn a_file_at_which_two_planners_die_fails() {
    let mut running = job_with_slow_planning().start(&[]);
    let (first, _) = kill_planner(&mut running, &[]);
    kill_planner(&mut running, &[first]);
    let ran = running.wait();
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    note: a file cannot be read, so its mini-batch fails: [DIR]/input/a.csv cannot be read: the planner process was killed (signal 9; the machine may have run out of memory) while it read this file
    note: input rows: its only file cannot be read as csv; check its format and its path
    mini-batch 0, attempt 1 ([WORKER]): [DIR]/input/a.csv cannot be read: the planner process was killed (signal 9; the machine may have run out of memory) while it read this file
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   [DIR]/input/a.csv cannot be read: the planner process was killed (signal 9; the machine may have run out of memory) while it read this file
      where         mini-batch 0, [WORKER]
      mini-batches  1, of which 1 failed
      items         1, of which 1 failed (see job/logs/failed_items.csv)
      read next     job/logs/failed_items.csv
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
}

/// `sandmill plan` does not replace a killed planner, but reports the file that the planner last opened.
#[test]
fn plan_names_the_file_of_a_killed_planner() {
    let mut running = job_with_slow_planning().spawn(&["plan", "job.yaml"]);
    kill_planner(&mut running, &[]);
    let ran = running.wait();
    ran.exits_with(2);
    assert_snapshot!(ran.messages(), @"error: the planner process was killed (signal 9; the machine may have run out of memory) before it had planned all mini-batches; the last file that it opened is [DIR]/input/a.csv");
}
