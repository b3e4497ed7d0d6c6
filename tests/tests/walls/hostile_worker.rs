//! A worker process that its guest has taken over: native code with a worker's socket and files. It may fail
//! its own mini-batch, but never harms the leader or the output of other workers. It can make the job fail in
//! only one way: with rows that differ from its report.
//!
//! In these tests, the first worker is a shell script, and the other workers are real. The tests use Sandmill
//! as a library, because a program that uses the library chooses the executable of its child processes.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill::model::{
    AttemptReport, CallStats, FailedItem, ItemCounts, MiniBatchId, Segment, WallState,
};
use sandmill::protocol::{FromWorker, encode};
use sandmill::{Cancel, EventKind, JobStatus, Options, Prepared};
use sandmill_tests::{TestJob, guest, root, sandmill};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const ROWS: [&str; 3] = ["f0.txt: 0", "f1.txt: 1", "f2.txt: 2"];

fn ready() -> FromWorker {
    FromWorker::Ready { init: CallStats::default(), wall: WallState::default() }
}

/// The report that the attempt at the first mini-batch succeeded, with a row of four bytes.
fn success() -> AttemptReport {
    AttemptReport {
        id: MiniBatchId(0),
        items: ItemCounts { total: 1, succeeded: 1, failed: 0 },
        outcome: Ok(Segment { length: 4, ..Segment::sample() }),
        elapsed_seconds: 0.1,
        process_seconds: 0.1,
        bytes_read: None,
        ..AttemptReport::sample()
    }
}

fn finished(report: AttemptReport) -> FromWorker {
    FromWorker::Finished(Box::new(report))
}

/// Runs a job of three mini-batches whose first worker is this script. The script finds the messages `first`
/// and `second` as files in the folder `$frames`, and its socket is its standard input. The zygote fails, so
/// the leader starts each worker with the program. Checks that only the first worker failed. Returns the
/// failures of attempts and of `init`.
fn harms_only_its_own_mini_batch(script: &str, first: &[FromWorker], second: &[u8]) -> Vec<String> {
    let mut job = TestJob::new(&guest("echo_files")).yaml(
        "inputs: { texts: input }\nmini_batch_size: 1\nprocess_count_per_node: 1\n\
         run_max_try: 3\nerror_threshold: -1\nos_sandbox: off",
    );
    for size in 0..3 {
        job = job.file(&format!("input/f{size}.txt"), "x".repeat(size));
    }
    let mut bytes = Vec::new();
    first.iter().for_each(|message| encode(message, &mut bytes).unwrap());
    let folder = job.dir().to_owned();
    let job = job.file("frames/first", bytes).file("frames/second", second).file(
        "program",
        format!(
            "#!/bin/sh\nframes={0}/frames\nif [ \"$1\" = worker ] && [ \"${{PWD##*/}}\" = process000 ]\n\
             then\n{script}\nelif [ \"$1\" = worker ] && [ \"$PWD\" = / ]\nthen exit 1\n\
             else\nexec {1} \"$@\"\nfi\n",
            folder.display(),
            sandmill().display()
        ),
    );
    let program = job.path("program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();

    let spec = sandmill::load(&job.path("job.yaml"), &[]).unwrap();
    let mut options = Options::new(job.path("job"), program);
    options.cache_dir = Some(root().join("target/test-cache"));
    let Prepared::Job(ready) = sandmill::prepare(spec, &options, &mut |_| ()).unwrap() else {
        panic!("there is nothing to reuse")
    };
    let begun = Instant::now();
    let mut failed = Vec::new();
    let mut on_event = |event: &sandmill::Event| match &event.kind {
        EventKind::AttemptFinished { worker, report, .. } => {
            failed.extend(report.outcome.as_ref().err().map(|e| format!("{worker}: {e}")));
        }
        EventKind::InitFailed { worker, failure } => failed.push(format!("{worker}: {failure}")),
        _ => {}
    };
    let result = sandmill::run(*ready, &mut on_event, &Cancel::new()).unwrap();
    assert_eq!(result.status, JobStatus::Completed, "{}", result.reason);
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
    let output = job.path("job/output");
    let text = fs::read_to_string(output.join("parallel_run_step.txt")).unwrap();
    let mut rows: Vec<_> = text.lines().collect();
    rows.sort_unstable();
    assert_eq!(rows, ROWS, "{failed:?}");
    assert_eq!(fs::read_dir(&output).unwrap().count(), 1);
    assert!(!failed.is_empty() && failed.iter().all(|text| text.starts_with("process000: ")));
    failed
}

/// The peak memory of this process, which is the leader, in MB.
fn peak_megabytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn endless_messages() {
    let strays: Vec<_> =
        (0..5000).map(|id| FromWorker::Started { id: MiniBatchId(id + 9) }).collect();
    let failed = harms_only_its_own_mini_batch(
        "while cat $frames/first; do :; done >&0 2>/dev/null",
        &strays,
        b"",
    );
    assert!(failed[0].contains("kept sending messages out of turn"), "{failed:?}");
    let failed = harms_only_its_own_mini_batch(
        "while cat $frames/first; do :; done >&0 2>/dev/null",
        &vec![ready(); 1000],
        b"",
    );
    assert!(failed[0].contains("kept sending messages out of turn"), "{failed:?}");
}

/// Each message has the maximum length.
#[test]
fn endless_longest_messages() {
    let item = FailedItem { item: "x".repeat(16_000), ..FailedItem::sample() };
    let long = AttemptReport { failed_items: vec![item; 1000], ..success() };
    let failed = harms_only_its_own_mini_batch(
        "while cat $frames/first; do :; done >&0 2>/dev/null",
        &[ready(), finished(AttemptReport { id: MiniBatchId(9), ..long })],
        b"",
    );
    assert!(failed[0].contains("kept sending messages out of turn"), "{failed:?}");
    assert!(peak_megabytes() < 500, "{} MB", peak_megabytes());
}

#[test]
fn invalid_messages_end_the_worker() {
    // A frame of 4 GB, and a frame of two bytes that are not a message.
    for invalid in [&b"\xff\xff\xff\xff"[..], b"\x02\0\0\0\xff\xff"] {
        let failed = harms_only_its_own_mini_batch(
            "cat $frames/first $frames/second >&0; exec sleep 60",
            &[ready()],
            invalid,
        );
        assert!(failed[0].contains("exited with returncode -9"), "{failed:?}");
    }
}

/// The worker reports a success, but its part file is missing or invalid.
#[test]
fn reported_rows_that_do_not_exist() {
    for preparation in [
        ":",
        "mkfifo $part",
        "mkdir $part",
        "ln -s /etc/passwd $part",
        "ln -s /dev/zero $part",
        "printf half >$part",
        "truncate -s 1000000000000 $part",
    ] {
        let script = format!(
            "part=../../parts/process000.part; {preparation}\ncat $frames/first >&0; sleep 1\n\
             cat $frames/second >&0; sleep 1"
        );
        let mut second = Vec::new();
        encode(&finished(success()), &mut second).unwrap();
        let failed = harms_only_its_own_mini_batch(&script, &[ready()], &second);
        assert!(
            failed[0].contains("that its part file does not hold"),
            "{preparation}: {failed:?}"
        );
    }
}

/// The worker reports more output than `limits.results` allows, and its part file is that large.
#[test]
fn more_rows_than_are_allowed() {
    let script = "truncate -s 300M ../../parts/process000.part\ncat $frames/first >&0; sleep 1\n\
                  cat $frames/second >&0; exec sleep 60";
    let mut second = Vec::new();
    let outcome = Ok(Segment { length: (256 << 20) + 1, ..Segment::sample() });
    encode(&finished(AttemptReport { outcome, ..success() }), &mut second).unwrap();
    let failed = harms_only_its_own_mini_batch(script, &[ready()], &second);
    // The leader kills the worker because of the report, without reading the part file.
    assert!(failed[0].contains("exited with returncode -9"), "{failed:?}");
}

/// The worker reports output files, but the entries of its output are not valid files.
#[test]
fn reported_files_that_are_invalid() {
    for preparation in [
        "ln -s /etc staged/0-1",
        "echo x >staged/0-1",
        "mkdir staged/0-1; ln -s /etc/passwd staged/0-1/link",
        "mkdir staged/0-1; mkfifo staged/0-1/pipe",
        "mkdir staged/0-1; echo x >staged/0-1/a; ln staged/0-1/a staged/0-1/b",
        "mkdir staged/0-1; echo x >staged/0-1/parallel_run_step.txt",
        "mkdir staged/0-1; echo x >\"staged/0-1/$(printf 'a\\033[31m')\"",
    ] {
        let script = format!(
            "{preparation}\ncat $frames/first >&0; sleep 1\ncat $frames/second >&0; sleep 1"
        );
        let mut second = Vec::new();
        let outcome = Ok(Segment { length: 0, ..Segment::sample() });
        let report = AttemptReport { has_files: true, outcome, ..success() };
        encode(&finished(report), &mut second).unwrap();
        let failed = harms_only_its_own_mini_batch(&script, &[ready()], &second);
        assert!(failed[0].contains("the output \""), "{preparation}: {failed:?}");
    }
}
