//! Tests that kill processes of jobs with thousands of mini-batches. They kill workers and leaders at random
//! times, and cut the ends of part files as a power loss would. A job that is resumed until it is done must
//! have the rows and files of an undisturbed run: no row or file is lost or duplicated.
//!
//! `SANDMILL_KILLS=1000` sets the total number of kills, for a longer run.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Ran, Random, Running, TestJob, guest};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The number of mini-batches of each job.
const MINI_BATCHES: usize = 5000;

/// The number of kills of all tests together. Each test makes a share of these kills.
fn total_kills() -> usize {
    std::env::var("SANDMILL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(210)
}

#[derive(Debug, Default)]
struct Kills {
    workers: usize,
    leaders: usize,
    cut_files: usize,
}

impl Kills {
    fn count(&self) -> usize {
        self.workers + self.leaders
    }
}

/// Runs jobs and kills processes until there were at least `min_kills` kills. Each job is resumed until it is
/// done, and then checked.
fn kill_until_done(seed: u64, min_kills: usize, job: impl Fn() -> TestJob, check: impl Fn(&Ran)) {
    let mut random = Random(seed);
    let mut kills = Kills::default();
    let mut jobs = 0;
    while kills.count() < min_kills {
        let ran = run_with_kills(job(), &mut random, &mut kills, min_kills);
        check(&ran);
        jobs += 1;
    }
    eprintln!("{} kills in {jobs} jobs: {kills:?}", kills.count());
}

/// Kills processes of one job, and resumes the job until it is done.
fn run_with_kills(job: TestJob, random: &mut Random, kills: &mut Kills, min_kills: usize) -> Ran {
    let mut running = job.start(&[]);
    for _ in 0..1000 {
        // Most leaders live long enough to make progress, and some do not.
        let life = Duration::from_millis(30 + random.below(900));
        let was_leader_killed = kill_processes(&mut running, life, random, kills, min_kills);
        let ran = running.wait();
        if !was_leader_killed && ran.code == 0 {
            return ran;
        }
        // If too many workers are killed in `init`, the job fails. It can be resumed, too.
        let expected: &[i32] = if was_leader_killed { &[-9, 0] } else { &[42] };
        assert!(expected.contains(&ran.code), "{ran}");
        assert!(ran.left_over.is_empty(), "{ran}");
        if ran.code == 0 {
            return ran;
        }
        // Do not cut the files of a completed job: they were synced, and no later run would repair
        // them. Also cut nothing if the output already has its folder of parts: the files in this
        // folder may be hard links to the workers' files.
        let state = fs::read_to_string(ran.dir().join("job/job.json")).unwrap_or_default();
        if !state.contains("\"completed\"") && !ran.has("job/output/parallel_run_step") {
            cut_tails(ran.dir(), random, kills);
        }
        // On a busy machine, the leader may be killed before the job has begun.
        let has_begun = ran.has("job/job.json");
        let job = ran.into_job();
        running = if has_begun { job.start_resume(&[]) } else { job.start(&[]) };
    }
    panic!("a job that is killed and resumed a thousand times is never done");
}

/// Kills workers for the given time, then the leader. Returns whether it killed the leader. It does not kill
/// the leader if the job ends first, or if there were enough kills.
fn kill_processes(
    running: &mut Running,
    life: Duration,
    random: &mut Random,
    kills: &mut Kills,
    min_kills: usize,
) -> bool {
    let begun = Instant::now();
    while kills.count() < min_kills && !running.has_ended() {
        thread::sleep(Duration::from_millis(20 + random.below(130)));
        if begun.elapsed() >= life {
            running.kill_leader();
            kills.leaders += 1;
            return true;
        }
        let mut workers = running.children();
        workers.retain(|(_, command)| command.ends_with(" worker"));
        if workers.is_empty() {
            continue;
        }
        let index = usize::try_from(random.below(workers.len() as u64)).unwrap();
        let pid = Pid::from_raw(workers[index].0.cast_signed()).unwrap();
        // The worker may have ended in the meantime.
        kills.workers += usize::from(kill_process(pid, Signal::KILL).is_ok());
    }
    false
}

/// Cuts the ends of some files to which rows were appended, as a power loss may.
fn cut_tails(folder: &Path, random: &mut Random, kills: &mut Kills) {
    let parts = fs::read_dir(folder.join("job/parts")).into_iter().flatten().flatten();
    let mut files: Vec<_> = parts.map(|entry| entry.path()).collect();
    files.sort();
    files.push(folder.join("job/output/parallel_run_step.txt"));
    for path in files {
        if random.below(3) > 0 {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
        let length = file.metadata().unwrap().len();
        file.set_len(length - random.below(300).min(length)).unwrap();
        kills.cut_files += 1;
    }
}

/// Adds inputs and settings for a job over files.
fn files(job: TestJob) -> TestJob {
    let job = job.yaml(
        "inputs: {texts: input}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 50",
    );
    fs::create_dir(job.path("input")).unwrap();
    for number in 0..MINI_BATCHES {
        fs::write(job.path(&format!("input/{number}.txt")), "x".repeat(number % 7)).unwrap();
    }
    job
}

/// Rules W5, W8, M9 and W12 (docs/parallel-run-step.md). For W12, Sandmill promises more than
/// ParallelRunStep: it writes each row exactly once.
#[test]
fn rows_survive_kills() {
    let mut expected: Vec<String> =
        (0..MINI_BATCHES).map(|number| format!("{number}.txt: {}", number % 7)).collect();
    expected.sort();
    let job = || files(TestJob::new(&guest("echo_files")));
    kill_until_done(1, total_kills() / 3, job, |ran| {
        assert!(ran.sorted_output() == expected, "rows are lost or doubled\n{ran}");
    });
}

/// Rows survive kills also if each worker's rows stay in the worker's file (`output_layout: parts`).
#[test]
fn parts_survive_kills() {
    let mut expected: Vec<String> =
        (0..MINI_BATCHES).map(|number| format!("{number}.txt: {}", number % 7)).collect();
    expected.sort();
    let job = || files(TestJob::new(&guest("echo_files"))).yaml("output_layout: parts");
    kill_until_done(4, total_kills() / 3, job, |ran| {
        assert!(ran.sorted_parts("") == expected, "rows are lost or doubled\n{ran}");
    });
}

/// Files that entry scripts write survive kills as rows do.
#[test]
fn files_survive_kills() {
    let mut expected: Vec<String> = (0..MINI_BATCHES)
        .flat_map(|n| [format!("{n}.txt.out: {}", n % 7), format!("batches/{n}.txt")])
        .collect();
    expected.sort();
    let job = || files(TestJob::new(&guest("writes_files"))).yaml("output_action: summary_only");
    kill_until_done(2, total_kills() / 3, job, |ran| {
        let output = ran.dir().join("job/output");
        let mut found = Vec::new();
        for entry in fs::read_dir(&output).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_file() {
                found.push(format!("{name}: {}", fs::read_to_string(entry.path()).unwrap()));
            }
        }
        for entry in fs::read_dir(output.join("batches")).unwrap().map(Result::unwrap) {
            found.push(format!("batches/{}", entry.file_name().into_string().unwrap()));
        }
        found.sort();
        assert!(found == expected, "files are lost or changed\n{ran}");
    });
}

/// Rows of tables survive kills, too.
#[test]
fn tables_survive_kills() {
    let mut csv = "id,name\n".to_owned();
    for id in 0..2 * MINI_BATCHES {
        csv.push_str(&format!("{id},name of {id}\n"));
    }
    let mut expected: Vec<String> =
        (0..2 * MINI_BATCHES).map(|id| format!("{id} \"name of {id}\"")).collect();
    expected.sort();
    let job = || {
        TestJob::new(&guest("echo_table")).file("in.csv", &csv).yaml(
            "inputs: {rows: {path: in.csv, format: csv}}\nmini_batch_size: 32\n\
             process_count_per_node: 2\nrun_max_try: 50",
        )
    };
    kill_until_done(3, total_kills() / 3, job, |ran| {
        assert!(ran.sorted_output() == expected, "rows are lost or doubled\n{ran}");
    });
}

/// Rows survive kills also if there are so many that they are copied to the output before their mini-batches
/// are committed.
#[test]
fn rows_that_are_copied_early_survive_kills() {
    let name = "a name that makes a row long ".repeat(4);
    let row = |id: usize| format!("{id} \"{name}{id}\"");
    let mut csv = "id,name\n".to_owned();
    for id in 0..200_000 {
        csv.push_str(&format!("{id},{name}{id}\n"));
    }
    let mut expected: Vec<String> = (0..200_000).map(row).collect();
    expected.sort();
    let job = || {
        TestJob::new(&guest("echo_table")).file("in.csv", &csv).yaml(
            "inputs: {rows: {path: in.csv, format: csv}}\nmini_batch_size: 128 KB\n\
             process_count_per_node: 2\nrun_max_try: 50",
        )
    };
    let check = |ran: &Ran| {
        assert!(ran.sorted_output() == expected, "rows are lost or doubled\n{ran}");
    };
    // First show that rows are copied early, and that the machine may crash at that point.
    let ran = job().env("SANDMILL_FAIL_POINT", "rows-copied:2:cut").run(&[]);
    ran.exits_with(-9);
    let ran = ran.into_job().env("SANDMILL_FAIL_POINT", "").run(&[]);
    ran.exits_with(0);
    check(&ran);
    kill_until_done(5, total_kills() / 10, job, check);
}
