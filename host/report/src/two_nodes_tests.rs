//! Tests of the log tree of a job on two nodes.

use super::*;
use crate::event::EventKind;
use crate::model::{EndedBy, JobStatus, MiniBatchId, NodeId, WorkerId};
use std::fs;
use std::path::Path;

const FIRST: WorkerId = WorkerId(0);
const SECOND: WorkerId = WorkerId(100_000);

/// Writes the log tree of a job on two nodes.
fn write_logs(paths: &ReportPaths) {
    let mut tree = log_tree(paths);
    for event in samples::job_on_two_nodes() {
        tree.iter_mut().for_each(|reporter| reporter.on_event(&event).unwrap());
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// What `sandmill logs` prints.
fn printed(dir: &JobDir, filter: &LogFilter) -> String {
    let mut out = Vec::new();
    assert!(print_logs(dir, filter, &mut out).unwrap(), "{filter:?}");
    String::from_utf8(out).unwrap()
}

/// The lines after the time and the number of the writing process.
fn without_head(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.splitn(4, '|').last().unwrap())).collect()
}

/// A worker is replaced by a worker of the same node.
#[test]
fn each_node_has_a_log_of_its_workers() {
    let folder = tempfile::tempdir().unwrap();
    let paths = samples::paths(folder.path());
    write_logs(&paths);
    let dir = &paths.job_dir;
    insta::assert_snapshot!(without_head(&read(dir.node_main(NodeId(0)))), @"
    agent_manager|run 20261121T100000Z-0000abcd: 1 workers wanted
    agent_manager|process000 starts, pid 41
    agent_manager|process000 exits with returncode -9
    ");
    insta::assert_snapshot!(without_head(&read(dir.node_main(NodeId(1)))), @"
    agent_manager|run 20261121T100000Z-0000abcd: node 1 takes part
    agent_manager|process100000 starts, pid 42
    agent_manager|process100000 exits with returncode -9
    agent_manager|process100001 starts, pid 43
    agent_manager|process100000 is replaced by process100001
    ");
    insta::assert_snapshot!(without_head(&read(dir.worker_log(SECOND))), @"
    process100000|process100000 starts, IP unknown, PID 42
    process100000|finished mini-batch 1, attempt 1: RUN_EXCEPTION, IP unknown, PID 42, items total 10, succeeded 0, failed 10, start 2026-11-21T10:00:00.500000Z, duration 0.500 s, process time 0.250 s, run time 0.500 s, /inputs/images/img_0010.png and 9 more
    process100000|finished mini-batch 1, attempt 2: RUN_EXCEPTION, IP unknown, PID 42, items total 10, succeeded 0, failed 10, start 2026-11-21T10:00:00.500000Z, duration 0.500 s, process time 0.250 s, run time 0.500 s, /inputs/images/img_0010.png and 9 more
    process100000|exited with returncode -9
    ");
    assert!(read(dir.worker_log(FIRST)).contains("process000 starts, IP 127.0.0.1, PID 41"));
}

#[test]
fn tables_name_the_node_of_each_worker() {
    let folder = tempfile::tempdir().unwrap();
    let paths = samples::paths(folder.path());
    write_logs(&paths);
    let dir = &paths.job_dir;
    let begins = |path, columns| -> String {
        let text = read(path);
        let cut = |row: &str| row.split(',').take(columns).collect::<Vec<_>>().join(",") + "\n";
        text.lines().map(cut).collect()
    };
    insta::assert_snapshot!(begins(dir.process_summary(), 3), @"
    Process,Node Id,PID
    process000,0,41
    process100000,1,42
    process100001,1,43
    ");
    insta::assert_snapshot!(begins(dir.node_summary(), 11), @"
    Node Id,Run Start Time,Processes,Attempts,Succeeded Attempts,Failed Attempts,Retried Attempts,Total,Succeeded,Failed,Elapsed Seconds
    0,2026-11-21T10:00:00.000000Z,1,1,1,0,0,10,10,0,0.250000
    1,2026-11-21T10:00:00.000000Z,2,2,0,2,1,20,0,20,1.000000
    ");
    insta::assert_snapshot!(begins(dir.mini_batch_report(), 4), @"
    Mini-batch Id,Picked Count,Process,Node Id
    0,1,process000,0
    1,1,process100000,1
    1,2,process100000,1
    ");
}

/// The logs and the explanation say which mini-batch got a twin, and which attempt was ended. An ended attempt is
/// neither a failure nor unfinished.
#[test]
fn twins_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let paths = samples::paths(folder.path());
    let dir = &paths.job_dir;
    let mut tree = log_tree(&paths);
    for event in samples::job_with_twins() {
        tree.iter_mut().for_each(|reporter| reporter.on_event(&event).unwrap());
    }
    let role = read(dir.master_role("20261121100000"));
    insta::assert_snapshot!(without_head(&role), @"
    leader|job digits of tenant default starts, run 20261121T100000Z-0000abcd; 1 worker wanted
    leader|mini-batch 0, attempt 1: node 0 has needed 31.0 s so far, and most mini-batches need 10.1 s; node 1 makes a second attempt (a twin)
    leader|mini-batch 0, attempt 1: process000 is ended, because process100000 has succeeded
    leader|the job completed
    leader|180 mini-batches planned, 180 succeeded, 0 of them with fewer rows than items, 0 failed; 1,797 items, 0 failed; 1,797 rows; 3.2 s
    ");
    insta::assert_snapshot!(without_head(&read(dir.worker_log(FIRST))), @"
    process000|process000 starts, IP 127.0.0.1, PID 41
    process000|picked mini-batch 0, attempt 1
    process000|mini-batch 0, attempt 1: ended, because process100000 has succeeded
    process000|was ended by the leader
    ");
    let history = History::read(dir).unwrap();
    assert_eq!((history.twins, history.attempts, history.unfinished.len()), (1, 1, 0));
    let text = explain_text(&history, &paths, false);
    let line = "1 slow mini-batch near the end got a second attempt on another node (a twin).";
    assert!(text.contains(line), "{text}");
    assert_eq!(explain_json(&history, &paths)["twins"], 1);
}

/// Until a worker has started, the job has a row for node 0.
#[test]
fn a_run_has_rows_only_for_its_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = JobDir::new(folder.path());
    let mut all = summary::Summaries::new(&dir);
    let end = EventKind::JobFinished { result: samples::result(JobStatus::Failed) };
    let nodes = || -> Vec<String> {
        let text = read(dir.node_summary());
        text.lines().skip(1).map(|row| row.split(',').next().unwrap().to_owned()).collect()
    };
    all.on_event(&samples::event(0, end.clone())).unwrap();
    assert_eq!(nodes(), ["0"]);
    let other = samples::on_worker(samples::succeeded(0, 1, Vec::new()), "process300000");
    all.on_event(&samples::event(1, other)).unwrap();
    all.on_event(&samples::event(2, end)).unwrap();
    assert_eq!(nodes(), ["3"]);
}

#[test]
fn failures_are_in_the_folder_of_the_worker() {
    let folder = tempfile::tempdir().unwrap();
    let paths = samples::paths(folder.path());
    write_logs(&paths);
    let dir = &paths.job_dir;
    assert!(read(dir.worker_system_errors(FIRST)).contains("process000 exited"));
    assert!(read(dir.worker_system_errors(SECOND)).contains("cannot write rows: disk full"));
    assert!(read(dir.worker_errors(SECOND)).contains("no digit"));
    assert!(read(dir.job_errors()).contains("logs/user/error/1/process100000.txt"));
    assert_eq!(dir.worker_errors(SECOND), dir.logs().join("user/error/1/process100000.txt"));
}

/// `sandmill logs` prints the output of all nodes, or of one worker.
#[test]
fn logs_of_all_nodes_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = JobDir::new(folder.path());
    for (worker, text) in [(SECOND, "two\n"), (FIRST, "one\n"), (WorkerId(1_000_000), "ten\n")] {
        write(&dir.script_stdout(worker), text);
    }
    write(&dir.script_stderr(SECOND), "more\n");
    insta::assert_snapshot!(printed(&dir, &LogFilter::All), @"
    ==> logs/user/stdout/0/process000.stdout.txt <==
    one
    ==> logs/user/stdout/1/process100000.stdout.txt <==
    two
    ==> logs/user/stdout/10/process1000000.stdout.txt <==
    ten
    ==> logs/user/stderr/1/process100000.stderr.txt <==
    more
    ");
    let of_second = printed(&dir, &LogFilter::Worker(SECOND.to_string()));
    insta::assert_snapshot!(of_second, @"
    ==> logs/user/stdout/1/process100000.stdout.txt <==
    two
    ==> logs/user/stderr/1/process100000.stderr.txt <==
    more
    ");
    let mut files = Vec::new();
    let mut visit = |value: &serde_json::Value| {
        files.push(format!("{} {}", value["file"], value["line"]));
        Ok(())
    };
    assert!(logs_json(&dir, &LogFilter::All, &mut visit).unwrap());
    insta::assert_snapshot!(files.join("\n"), @r#"
    "logs/user/stdout/0/process000.stdout.txt" "one"
    "logs/user/stdout/1/process100000.stdout.txt" "two"
    "logs/user/stdout/10/process1000000.stdout.txt" "ten"
    "logs/user/stderr/1/process100000.stderr.txt" "more"
    "#);
    let other = LogFilter::Worker("process100001".to_owned());
    assert!(!print_logs(&dir, &other, &mut Vec::new()).unwrap());
}

/// The attempts at a mini-batch come with what the worker logged, in the folder of the worker's node.
#[test]
fn a_mini_batch_of_another_node_is_printed_with_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let paths = samples::paths(folder.path());
    write_logs(&paths);
    let dir = &paths.job_dir;
    write(&dir.script_log(SECOND), "2026-11-21T10:00:00.600Z|INFO|hello\n");
    let text = printed(dir, &LogFilter::MiniBatch(MiniBatchId(1)));
    assert_eq!(text.matches("  | 2026-11-21T10:00:00.600Z|INFO|hello\n").count(), 2, "{text}");
}

/// A node may join while its output is followed.
#[test]
fn logs_of_all_nodes_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = JobDir::new(folder.path());
    let mut all = Follower::new(&dir, None);
    let mut one = Follower::new(&dir, Some("process100000"));
    let mut read_new = || {
        [&mut all, &mut one].map(|follower| {
            let mut out = Vec::new();
            follower.print_new(false, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        })
    };
    let head = |node, worker| format!("==> logs/user/stdout/{node}/{worker}.stdout.txt <==\n");
    write(&dir.script_stdout(FIRST), "one\n");
    let first = head(0, FIRST) + "one\n";
    assert_eq!(read_new(), [first, String::new()]);
    write(&dir.script_stdout(SECOND), "two\n");
    let second = head(1, SECOND) + "two\n";
    assert_eq!(read_new(), [second.clone(), second]);
    assert_eq!(read_new(), ["", ""]);
}

/// The explanation names the files of the worker that failed first.
#[test]
fn files_of_the_failed_worker_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let paths = samples::paths(folder.path());
    write_logs(&paths);
    let dir = &paths.job_dir;
    write(&dir.script_stderr(SECOND), "no digit\n");
    write(&dir.script_stderr(FIRST), "nothing\n");
    let history = History::read(dir).unwrap();
    let text = explain_text(&history, &paths, false);
    for name in ["user/error/1/process100000.txt", "user/stderr/1/process100000.stderr.txt"] {
        assert!(text.contains(&format!("logs/{name}: ")), "{name}: {text}");
    }
    assert!(!text.contains("process000.stderr.txt"), "{text}");
    let to_read = explain_json(&history, &paths)["to_read"].to_string();
    assert!(to_read.contains("logs/user/stderr/1/process100000.stderr.txt"), "{to_read}");
}

/// Advice about the logs of all workers names the folder of all nodes.
#[test]
fn advice_names_the_folder_of_all_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let paths = samples::paths(folder.path());
    let mut result = samples::result(JobStatus::Failed);
    result.ended_by = Some(EndedBy::ProgressTimeout);
    assert!(result_text(&result, &paths).contains("see in logs/sys/node/0 what each worker"));
    write_logs(&paths);
    assert!(result_text(&result, &paths).contains("see in logs/sys/node what each worker"));
}

/// The parent gets the logs of all nodes. If a file in a script's log folder cannot be copied, all other files
/// are.
#[test]
fn the_parent_has_the_logs_of_all_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let parent = folder.path().canonicalize().unwrap().join("parent");
    let mut paths = samples::paths(&folder.path().join("job"));
    let of_parent = ParentFolder { folder: parent.clone(), copy_logs: true, push_metrics: false };
    paths.parent = Some(of_parent);
    let dir = paths.job_dir.clone();
    for node in [NodeId(0), NodeId(1)] {
        write(&dir.script_log_dir(node).join("mine.log"), "mine");
    }
    let deep = dir.script_log_dir(NodeId(1)).join("d/".repeat(70));
    write(&deep.join("deep.log"), "mine");
    let mut tree = log_tree(&paths);
    let mut errors = Vec::new();
    for event in samples::job_on_two_nodes() {
        errors.extend(tree.iter_mut().filter_map(|reporter| reporter.on_event(&event).err()));
    }
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert!(error.starts_with("1 file or folder in the entry script's log folder"), "{error}");
    let mut copied: Vec<_> = [NodeId(0), NodeId(1)].map(|node| dir.node_main(node)).into();
    copied.extend([NodeId(0), NodeId(1)].map(|node| dir.script_log_dir(node).join("mine.log")));
    for path in copied {
        let inside = path.strip_prefix(dir.logs()).unwrap();
        assert_eq!(read(parent.join(inside)), read(&path), "{}", inside.display());
    }
}
