//! `--log`, `-v`, `-q` and `SANDMILL_LOG`: Sandmill's log of its own work, on standard error.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, TestJob, guest};
use serde_json::Value;

/// A job of two files.
fn job() -> TestJob {
    TestJob::new(&guest("echo_files"))
        .yaml(
            "inputs: { texts: in }\nmini_batch_size: 1\nprocess_count_per_node: 1\nrun_max_try: 1",
        )
        .file("in/a.txt", "a")
        .file("in/b.txt", "b")
}

/// A job whose attempts fail, because their rows are too long.
fn failing() -> TestJob {
    job().yaml("limits: { row: 1 }")
}

/// The lines of the log, without times and ids.
fn log(ran: &Ran) -> Vec<String> {
    let text = ran.redacted();
    let lines = text.lines().filter(|line| line.starts_with("[WHEN]"));
    let plain = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    plain.collect()
}

fn json_lines(ran: &Ran) -> Vec<Value> {
    let lines = ran.stderr.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn nothing_is_logged_by_default() {
    assert_eq!(log(&job().run(&[])), Vec::<String>::new());
    assert_eq!(log(&job().env("SANDMILL_LOG", "").run(&[])), Vec::<String>::new());
    assert_eq!(
        log(&job().env("SANDMILL_LOG", "info").run(&["--log", "off"])),
        Vec::<String>::new()
    );
}

#[test]
fn each_level_logs_more() {
    let count = |ran: &Ran, level: &str| {
        log(ran).iter().filter(|line| line.starts_with(&format!("[WHEN] {level} job{{"))).count()
    };
    let ran = job().run(&["-v"]);
    assert!(count(&ran, "INFO") > 3 && count(&ran, "DEBUG") == 0, "{ran}");
    for ran in [job().run(&["-vv"]), job().env("SANDMILL_LOG", "debug").run(&[])] {
        assert!(count(&ran, "INFO") > 3 && count(&ran, "DEBUG") > 3, "{ran}");
        for span in ["}:plan: ", ":worker{", ":attempt{mini_batch=1 attempt=1}: ", "}:commit{"] {
            assert!(log(&ran).iter().any(|line| line.contains(span)), "{span}: {ran}");
        }
    }
    let ran = failing().run(&["--log", "warn"]);
    assert!(count(&ran, "WARN") >= 1 && count(&ran, "INFO") == 0, "{ran}");
    let ran = job().run(&["--log", "sandmill_leader::commit=debug,warn"]);
    let lines = log(&ran);
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("}:commit{")), "{ran}");
}

#[test]
fn the_log_can_be_json() {
    let ran = failing().run(&["-vv", "--log-format", "json"]);
    let lines = json_lines(&ran);
    let failed = lines.iter().find(|line| line["level"] == "WARN" && line["kind"] != Value::Null);
    let failed = failed.unwrap_or_else(|| panic!("no attempt failed: {ran}"));
    assert_eq!(failed["will_retry"], false, "{failed}");
    let spans: Vec<_> =
        failed["spans"].as_array().unwrap().iter().map(|span| &span["name"]).collect();
    assert_eq!(spans, ["job", "worker", "attempt"]);
    assert_eq!(failed["spans"][1]["worker"], "process000");
    assert_eq!(
        (&failed["spans"][2]["mini_batch"], &failed["spans"][2]["attempt"]),
        (&0.into(), &1.into())
    );
    let end = lines.iter().find(|line| line["message"] == "the job has ended").unwrap();
    assert_eq!((&end["status"], &end["span"]["name"]), (&"failed".into(), &"job".into()), "{ran}");
}

#[test]
fn a_quiet_job_prints_only_failures() {
    let ran = job().run(&["--quiet"]);
    ran.exits_with(0);
    assert_eq!(ran.redacted(), "");
    let ran = ran.into_job().run(&["-q"]);
    ran.exits_with(0);
    assert_eq!(ran.redacted(), "", "its result is reused");
    let ran = failing().run(&["-q"]);
    ran.exits_with(42).says("Job test failed");
}

#[test]
fn an_unknown_level_is_refused() {
    let ran = job().run(&["--log", "loud=very"]);
    ran.exits_with(2);
    insta::assert_snapshot!(ran.redacted(), @r#"error: --log: found "loud=very"; expected off, error, warn, info, debug or trace, or several, each with the part of Sandmill that it applies to (e.g. sandmill_leader=debug,info)"#);
    let ran = job().env("SANDMILL_LOG", "a=b").run(&[]);
    ran.exits_with(2).says("error: SANDMILL_LOG: found \"a=b\"; expected");
    ran.into_job().run(&["-v", "-q"]).exits_with(2);
}

/// A file's name may contain a line end, and log messages contain names of files.
#[test]
fn a_file_name_cannot_forge_log_lines() {
    let forged = "a\n2026-11-25T19:00:00Z ERROR job{job=x}: the job has ended";
    let ran = TestJob::new(&guest("echo_files"))
        .yaml("inputs: { texts: in }\nerror_threshold: -1")
        .file("in/b.txt", "b");
    std::os::unix::fs::symlink("/etc/passwd", ran.path("in").join(forged)).unwrap();
    let ran = ran.run(&["-vv"]);
    assert!(ran.stderr.contains("\\u{a}2026-11-25T19:00:00Z ERROR"), "no message names it: {ran}");
    assert!(
        !ran.stderr.lines().any(|line| line.starts_with("2026-11-25T19:00:00Z ERROR")),
        "{ran}"
    );
}

/// The names of a job's files are untrusted.
#[test]
fn the_log_has_no_terminal_escapes() {
    let settings = "inputs: { texts: \"in\\e[2J\" }\nmini_batch_size: 1";
    for format in ["text", "json"] {
        let ran = TestJob::new(&guest("echo_files"))
            .yaml(settings)
            .file("in\u{1b}[2J/\u{202e}a.txt", "a");
        let ran = ran.yaml("limits: { row: 1 }").run(&["-vvv", "--log-format", format]);
        assert!(ran.stderr.lines().all(|line| !line.contains(['\u{1b}', '\u{202e}'])), "{ran}");
        assert!(format == "text" || json_lines(&ran).len() > 3, "{ran}");
    }
}
