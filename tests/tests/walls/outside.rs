//! Guests that try to reach files and networks that were not granted.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, cut_denials, guest};
use std::fs;

fn job(name: &str) -> TestJob {
    TestJob::new(&guest(name))
        .yaml("inputs: { texts: input }\nprocess_count_per_node: 1\nrun_max_try: 1")
        .file("input/a.txt", "hello")
        .file("secret.txt", "not for guests")
        .watched()
}

/// The rows of the guest: a line for each of its attempts, with the result.
fn reports(ran: &Ran) -> String {
    ran.exits_with(0).left_nothing();
    cut_denials(&ran.output().trim_end().replace(" | ", "\n").replace('\0', "\\0"))
}

/// The guest tries `..`, absolute paths, /proc, devices, links and folders. It reads each through
/// the host and through WASI.
#[test]
fn nothing_is_read_or_written_outside() {
    let mut job = job("reads_outside");
    fs::create_dir(job.path("more")).unwrap();
    // The job's owner has put a link into a side input. The guest cannot follow it to the outside either.
    std::os::unix::fs::symlink("../secret.txt", job.path("more/up")).unwrap();
    std::os::unix::fs::symlink("/proc/self/environ", job.path("more/proc")).unwrap();
    let paths = ["up", "proc", "../../secret.txt"].map(|p| format!("/side_inputs/m/{p}"));
    job = job.yaml("side_inputs: { m: more }").yaml(&format!(
        "arguments: [--path, {}, --path, {}, --path, {}]",
        paths[0], paths[1], paths[2]
    ));
    let ran = job.run(&[]);
    let reports = reports(&ran);
    let got: Vec<_> = reports.lines().filter(|line| line.contains("GOT IT")).collect();
    assert!(got.is_empty(), "{reports}");
    assert_snapshot!(reports, @r#"
    /inputs/texts/a.txt: host /etc/passwd=denied: /etc/passwd: it is outside of the folders that were granted
    wasi /etc/passwd=denied
    host /proc/self/environ=denied: /proc/self/environ: it is outside of the folders that were granted
    wasi /proc/self/environ=denied
    host /proc/self/maps=denied: /proc/self/maps: it is outside of the folders that were granted
    wasi /proc/self/maps=denied
    host /dev/zero=denied: /dev/zero: it is outside of the folders that were granted
    wasi /dev/zero=denied
    host /inputs/texts/../../../../../../../../../../../../etc/passwd=denied: /inputs/texts/../../../../../../../../../../../../etc/passwd: it is outside of the folders that were granted
    wasi /inputs/texts/../../../../../../../../../../../../etc/passwd=denied
    host /output/../../etc/passwd=denied: /output/../../etc/passwd: it is outside of the folders that were granted
    wasi /output/../../etc/passwd=denied
    host etc/passwd=denied: "etc/passwd" is not an absolute path
    wasi etc/passwd=denied
    host =denied: "" is not an absolute path
    wasi =denied
    host /inputs\0/etc/passwd=denied: /inputs\0/etc/passwd: "/inputs\0/etc/passwd" contains a null character
    wasi /inputs\0/etc/passwd=denied
    host /inputs/texts=denied: /inputs/texts: it is not a regular file
    wasi /inputs/texts=denied
    host /side_inputs/m/up=denied: /side_inputs/m/up: it is outside of the folders that were granted
    wasi /side_inputs/m/up=denied
    host /side_inputs/m/proc=denied: /side_inputs/m/proc: it is outside of the folders that were granted
    wasi /side_inputs/m/proc=denied
    host /side_inputs/m/../../secret.txt=denied: /side_inputs/m/../../secret.txt: it is outside of the folders that were granted
    wasi /side_inputs/m/../../secret.txt=denied
    list /=denied
    list /..=denied
    overwrite the input=denied
    write beside the input=denied
    remove the input=denied
    rename the input=denied
    move the input out=denied
    write above the output=denied
    make an absolute link=denied
    host absolute link=denied: /output/absolute-link: there is no such file
    wasi absolute link=denied
    make an up link=denied
    host up link=denied: /output/up-link: there is no such file
    wasi up link=denied
    hard link of the input=denied
    connect=denied
    listen=denied
    udp=denied
    look up=denied
    spawn=denied
    "#);
    assert_eq!(ran.text("input/a.txt"), "hello");
    assert_eq!(ran.text("secret.txt"), "not for guests");
    for folder in ["", "input", "job", "job/output", "job/work/process000"] {
        assert!(!ran.has(&format!("{folder}/forged")), "{ran}");
    }
}

#[test]
fn sockets_are_denied() {
    let ran = job("opens_sockets").run(&[]);
    assert_snapshot!(reports(&ran), @"
    /inputs/texts/a.txt: tcp socket=denied
    connect=denied
    listen=denied
    udp socket=denied
    udp bind=denied
    look up=denied
    ");
}

/// The guest creates links, files with names that are unsafe for a terminal, and a file with the
/// name of the job's output.
#[test]
fn awkward_output_files() {
    let ran = job("forges_names").run(&[]);
    assert_snapshot!(ran.messages(), @r#"
    job test: 1 worker
    mini-batch 0, attempt 1 ([WORKER]): the output "bell\u{7}\u{1b}[2J" cannot be published because its name holds a control character: choose another name
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   the output "bell\u{7}\u{1b}[2J" cannot be published because its name holds a control character: choose another name
      where         mini-batch 0, [WORKER]
      mini-batches  1, of which 1 failed
      items         1, of which 1 failed (see job/logs/failed_items.csv)
      read next     job/logs/user/error/0/[WORKER].txt
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    "#);
    assert!(!ran.stderr.contains('\u{1b}'), "{ran}");
    // The guest's file with the same name has not replaced the rows of the job.
    assert!(!ran.output().contains("forged"), "{ran}");
    assert_snapshot!(published(&ran), @r#""parallel_run_step.txt""#);
}

/// The entries of the output folder, one line each, without the many empty files.
fn published(ran: &Ran) -> String {
    let mut names: Vec<String> = fs::read_dir(ran.dir().join("job/output"))
        .unwrap()
        .map(|entry| format!("{:?}", entry.unwrap().file_name()))
        .filter(|name| !name.starts_with("\"empty-"))
        .map(|name| name.replace(&"n".repeat(255), "n (255 times)"))
        .collect();
    names.sort();
    names.join("\n")
}

/// Rule F15 in docs/parallel-run-step.md.
#[test]
fn output_of_a_guest_is_cut() {
    let ran = job("prints_a_lot").run(&[]);
    ran.exits_with(0);
    // Sandmill keeps the first log file and the newest ones.
    for file in ["stdout/0/process000.stdout.txt", "stderr/0/process000.stderr.txt"] {
        let size = ran.log(&format!("user/{file}")).len();
        assert!(size > 15 << 20 && size < 17 << 20, "{size} bytes\n{ran}");
        assert!(ran.has(&format!("job/logs/user/{file}.1")), "{ran}");
        assert!(!ran.has(&format!("job/logs/user/{file}.3")), "{ran}");
    }
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    Job test completed in [TIME].
      mini-batches  1
      items         1
      rows          1
      output        job/output/parallel_run_step.txt
    ");
}
