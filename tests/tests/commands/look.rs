//! Output on a terminal of 80 and of 120 columns: colours, wrapped notes, and a progress line that fits.
//! Another test runs the command that a message advises.

#![cfg(target_os = "linux")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, sandmill};
use std::path::Path;

/// Runs `sandmill` on a terminal with this number of columns, with `script` of util-linux.
fn on_terminal(job: TestJob, columns: usize, arguments: &str) -> Ran {
    let program = sandmill().display().to_string();
    let shell_command = format!("stty cols {columns} rows 24; exec {program} {arguments}");
    let job = job.env("TERM", "xterm");
    job.spawn_program(Path::new("script"), &["-qec", &shell_command, "/dev/null"]).wait()
}

/// The lines of the final screen, with their colours. The progress line was cleared, so it is missing.
fn screen(ran: &Ran) -> String {
    let text = ran.redacted_stdout();
    let lines = text.lines().map(|line| {
        let line = line.trim_end_matches('\r');
        let shown = line.rsplit(['\r']).next().unwrap_or_default();
        shown.replace("\u{1b}[2K", "").replace('\u{1b}', "^")
    });
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A table with a column that has numbers in all rows but the last.
fn table() -> TestJob {
    let rows: String = (0..2000).map(|id| format!("{id},{id}.5\n")).collect();
    TestJob::new(&guest("echo_table"))
        .file("in.csv", format!("identifier,x\n{rows}2000,oops\n"))
        .yaml(
            "inputs: { people: { path: in.csv, format: csv } }\n\
             mini_batch_size: 100KB\nprocess_count_per_node: 1",
        )
}

#[test]
fn a_completed_job_at_80_and_120_columns() {
    for columns in [80, 120] {
        let ran = on_terminal(table(), columns, "run job.yaml --job-dir job");
        ran.exits_with(0);
        match columns {
            80 => assert_snapshot!(screen(&ran), @r#"
            job test: 1 worker
            ^[33mnote:^[0m input people: x is read as string (in.csv, line 2002: "oops" is not a
              valid float64); set schema to fix types (sandmill plan --write-schema prints
              one)
            Job test ^[32mcompleted^[0m in [TIME].
              mini-batches  1
              items         2,001
              rows          2,001
              output        ^[2mjob/output/parallel_run_step.txt^[0m
            "#),
            _ => assert_snapshot!(screen(&ran), @r#"
            job test: 1 worker
            ^[33mnote:^[0m input people: x is read as string (in.csv, line 2002: "oops" is not a valid float64); set schema to fix types
              (sandmill plan --write-schema prints one)
            Job test ^[32mcompleted^[0m in [TIME].
              mini-batches  1
              items         2,001
              rows          2,001
              output        ^[2mjob/output/parallel_run_step.txt^[0m
            "#),
        }
    }
}

#[test]
fn a_failed_job_and_a_wrong_job_file() {
    let failing = || {
        TestJob::new(&guest("echo_files"))
            .yaml(
                "inputs: { texts: in }\nmini_batch_size: 1\nprocess_count_per_node: 1\n\
                 run_max_try: 1\nlimits: { row: 1 }",
            )
            .file("in/a.txt", "a")
    };
    let ran = on_terminal(failing(), 80, "run job.yaml --job-dir job");
    ran.exits_with(42);
    assert_snapshot!(screen(&ran), @"
    job test: 1 worker
    mini-batch 0, attempt 1 (process000): limits.row allows 1 bytes for one row; row 0 (counted from 0) of what run returned has 8 bytes. Make its rows smaller, or raise the limit
    Job test ^[31mfailed^[0m after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   limits.row allows 1 bytes for one row; row 0 (counted from 0) of what run returned has 8 bytes. Make its rows smaller, or raise the limit
      where         mini-batch 0, process000
      mini-batches  1, of which 1 failed
      items         1, of which 1 failed (see job/logs/failed_items.csv)
      read next     ^[2mjob/logs/user/error/0/process000.txt^[0m
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
    let ran = on_terminal(failing(), 80, "run job.yaml --set nme=1");
    ran.exits_with(2);
    assert_snapshot!(screen(&ran), @"^[31m^[1merror:^[0m --set nme: unknown key; did you mean name?");
    let plain = on_terminal(failing(), 80, "run job.yaml --set nme=1 --color never");
    assert!(!plain.stdout.contains('\u{1b}'), "{plain}");
    let piped = failing().command(&["run", "job.yaml", "--set", "nme=1", "--color", "always"]);
    assert!(piped.stderr.starts_with("\u{1b}[31m"), "{piped}");
    let piped = failing().run(&[]);
    assert!(!format!("{}{}", piped.stdout, piped.stderr).contains('\u{1b}'), "{piped}");
}

#[test]
fn a_plan_begins_with_its_summary() {
    let ran = on_terminal(table(), 80, "plan job.yaml --set mini_batch_size=1000");
    ran.exits_with(0);
    assert_snapshot!(screen(&ran), @r#"
    ^[33mnote:^[0m mini_batch_size is 1000 bytes: for tables it is a number of bytes, and
      such a small number makes many small mini-batches; for rows, write "1000 rows"
    ^[33mnote:^[0m columns of input people: identifier int64, x string
    ^[33mnote:^[0m input people: x is read as string (in.csv, line 2002: "oops" is not a
      valid float64); set schema to fix types (sandmill plan --write-schema prints
      one)
    22 mini-batches, 2,001 items, 21.3 KiB; 1 worker; the results go to jobs/test/output
    mini-batch  input       items  where
             0  people        122  in.csv, from line 2, 1000 bytes
             1  people        100  in.csv, from line 124, 1000 bytes
             2  people        100  in.csv, from line 224, 1000 bytes
             3  people        100  in.csv, from line 324, 1000 bytes
             4  people        100  in.csv, from line 424, 1000 bytes
             5  people        100  in.csv, from line 524, 1000 bytes
             6  people        100  in.csv, from line 624, 1000 bytes
             7  people        100  in.csv, from line 724, 1000 bytes
             8  people        100  in.csv, from line 824, 1000 bytes
             9  people         97  in.csv, from line 924, 1008 bytes
           ...  2 more; --all shows all of them
            12  people         84  in.csv, from line 1189, 1008 bytes
            13  people         84  in.csv, from line 1273, 1008 bytes
            14  people         84  in.csv, from line 1357, 1008 bytes
            15  people         84  in.csv, from line 1441, 1008 bytes
            16  people         84  in.csv, from line 1525, 1008 bytes
            17  people         84  in.csv, from line 1609, 1008 bytes
            18  people         84  in.csv, from line 1693, 1008 bytes
            19  people         84  in.csv, from line 1777, 1008 bytes
            20  people         84  in.csv, from line 1861, 1008 bytes
            21  people         58  in.csv, from line 1945, 694 bytes
    "#);
    let dry = on_terminal(table(), 80, "run job.yaml --set mini_batch_size=1000 --dry-run");
    assert_eq!(screen(&dry), screen(&ran));
    let ran = table().command(&["plan", "job.yaml", "--json"]);
    ran.exits_with(0);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&value["version"], &value["items"]), (&1.into(), &2001.into()));
    assert_eq!(value["shown"][0]["items"], 2001);
}

/// Runs the command that the advice of a failed job gives, with a number instead of N.
#[test]
fn advice_works_when_it_is_typed() {
    let job = TestJob::new(&guest("outcomes"))
        .yaml("inputs: { texts: in }\nmini_batch_size: 1\nprocess_count_per_node: 1")
        .file("in/bad.txt", "")
        .file("in/good.txt", "x")
        .datastores("1MB", "");
    let ran = job.run(&["--datastores", "stores.yaml"]);
    ran.exits_with(42).says("what to do");
    let advice = ran.stderr.lines().find(|line| line.contains("what to do")).expect("advice");
    let words = advice.split("sandmill ").nth(1).and_then(|rest| rest.split(';').next());
    let words = words.expect("a command").replace("=N", "=5");
    assert!(words.contains("--datastores stores.yaml"), "{words}");
    let words: Vec<&str> = words.split(' ').collect();
    ran.into_job().command(&words).exits_with(0);
}
