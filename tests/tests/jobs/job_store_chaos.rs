//! Leaders of a job with a `job_store` are killed at random times, on three machines in turn. Some machines lose
//! their job directory, or get it back from a backup.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use crate::job_store::{rows_in, sandmill_in};
use sandmill_tests::{TestJob, guest};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const FILES: usize = 250;
const KILLS: u32 = 6;

/// A generator of random numbers. A seed makes a failure easier to repeat, although the times of kills vary.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.below(of.len() as u64);
        of.iter().zip(0..).find(|(_, at)| *at == index).map(|(one, _)| one).unwrap()
    }
}

/// Runs the job on a machine. Kills its leader after this time. Returns the exit code, and what was printed.
fn run(job: &TestJob, machine: &str, kill_after: Option<Duration>) -> (Option<i32>, String) {
    let mut leader = sandmill_in(job.dir())
        .args(["run", "job.yaml", "--job-dir", machine])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if let Some(time) = kill_after {
        std::thread::sleep(time);
        // Fails if the job has ended.
        let _ = leader.kill();
    }
    let ran = leader.wait_with_output().unwrap();
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// The job directory of a machine is lost, or replaced by a backup. Or a backup is made.
fn trouble(folder: &Path, machine: &str, random: &mut Random) {
    let (dir, backup) = (folder.join(machine), folder.join(format!("{machine}.backup")));
    match random.below(6) {
        0 => drop(fs::remove_dir_all(&dir)),
        1 if backup.is_dir() => {
            let _ = fs::remove_dir_all(&dir);
            fs::rename(&backup, &dir).unwrap();
        }
        1 if dir.is_dir() => {
            // Sockets cannot be copied.
            let _ =
                Command::new("cp").arg("-a").args([&dir, &backup]).stderr(Stdio::null()).status();
        }
        _ => {}
    }
}

/// Fails if the output does not have each row and each file once, or has anything else.
fn assert_complete(output: &Path, what: &str) {
    let mut expected: Vec<_> = (0..FILES).map(|n| format!("{n}.txt: {}", n % 50)).collect();
    expected.sort();
    assert_eq!(rows_in(output), expected, "{what}");
    let is_output = |name: &String| name.ends_with(".out");
    let names = fs::read_dir(output).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let names: BTreeSet<_> = names.filter(is_output).collect();
    assert_eq!(names, (0..FILES).map(|n| format!("{n}.txt.out")).collect(), "{what}");
    for n in 0..FILES {
        let text = fs::read_to_string(output.join(format!("{n}.txt.out"))).unwrap();
        assert_eq!(text, (n % 50).to_string(), "{what}");
    }
}

#[test]
fn leaders_may_be_killed_at_random_times_on_several_machines() {
    let seed = RandomState::new().hash_one(std::process::id());
    let mut random = Random(seed);
    for kind in
        ["output_files: error", "output_files: append", "output_layout: parts", "ordered: true"]
    {
        let job = TestJob::new(&guest("writes_files")).yaml(&format!(
            "inputs: {{texts: in}}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 9\n\
             output: shared/out\njob_store: shared/jobs\n{kind}"
        ));
        fs::create_dir_all(job.path("shared/jobs")).unwrap();
        let job =
            (0..FILES).fold(job, |job, n| job.file(&format!("in/{n}.txt"), "x".repeat(n % 50)));
        let mut steps = Vec::new();
        for kill in 0..=KILLS {
            let machine = *random.one_of(&["first", "second", "third"]);
            trouble(job.dir(), machine, &mut random);
            let time = (kill < KILLS).then(|| Duration::from_millis(20 + random.below(180)));
            let (code, messages) = run(&job, machine, time);
            steps.push(format!("{machine} {time:?} {code:?}"));
            let what = format!("seed {seed}, {kind}: {steps:?}\n{messages}");
            // A killed process has no exit code.
            assert!(code == Some(0) || (code.is_none() && time.is_some()), "{what}");
            if code == Some(0) {
                assert_complete(&job.path("shared/out"), &what);
            }
        }
    }
}
