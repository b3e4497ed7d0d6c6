//! `sandmill portal`: the pages of one job directory.

use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Browser, sandmill, texts};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn portal(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(sandmill());
    command.arg("portal").args(arguments).current_dir(folder).stderr(Stdio::piped());
    command
}

/// Starts the portal of a job. Returns its process and its address.
fn started(folder: &Path, job: &str) -> (Child, String) {
    let mut child = portal(folder, &[job]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    (child, url)
}

#[test]
fn a_job_directory_is_shown_and_not_changed() {
    let job = texts("outcomes").file("in/bad.txt", "1").yaml("error_threshold: -1");
    let ran = job.run(&[]);
    ran.exits_with(0);
    let folder = ran.dir().to_owned();
    let before = std::fs::read(folder.join("job/job.json")).unwrap();
    let (mut child, url) = started(&folder, "job");
    let browser = Browser::new(&url);
    assert_eq!(browser.get("/").has(303).header("location"), "/job");
    let pages = [
        ("", "phase-completed"),
        ("/mini-batches", "Mini-batches of test"),
        ("/mini-batches/0", "Attempt 1"),
        ("/failures", "Nothing has failed"),
        ("/failed-items", "bad.txt is called bad"),
        ("/failed-items.csv", "bad.txt"),
        ("/workers", "does not run"),
        ("/logs", "job_result.txt"),
        ("/logs/job_result.txt", "completed"),
        ("/outputs", "parallel_run_step.txt"),
        ("/outputs/parallel_run_step.txt", "a.txt: 1"),
        ("/explain", "completed"),
        ("/live", "\"end\""),
    ];
    for (end, text) in pages {
        let shown = browser.get(&format!("/job{end}")).has(200).shows(text);
        assert!(
            shown.header("content-security-policy").contains("default-src 'none'"),
            "{shown:?}"
        );
        assert!(!shown.text.contains("<form method=\"post\""), "{shown:?}");
    }
    browser.get("/portal/assets/portal.css").has(200);
    browser.get("/portal/jobs").has(404);
    browser.get("/job/logs/..%2fjob.json").has(404);
    browser.post("/job/cancel", &[]).has(404);
    assert_eq!(browser.post("/job", &[]).status, 404);
    // Another site whose name leads to this machine gets nothing.
    for host in ["evil.example", "evil.example:80", "127.0.0.1:1"] {
        let refused = browser.send("GET", "/job", &[("host", host)], b"").has(400);
        assert!(!refused.text.contains("phase-completed"), "{refused:?}");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read(folder.join("job/job.json")).unwrap(), before);
}

#[test]
fn what_other_machines_could_reach_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let output = portal(folder.path(), arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).trim().to_owned()
    };
    let text = refused(&["no-job"]);
    assert!(text.contains("no-job is not a job directory"), "{text}");
    std::fs::create_dir_all(folder.path().join("job")).unwrap();
    std::fs::write(folder.path().join("job/job.json"), "{}").unwrap();
    let text = refused(&["job", "--listen", "0.0.0.0:0"]);
    assert!(text.contains("only this machine may reach it"), "{text}");
}
