//! Jobs of thousands of mini-batches. The tests kill workers and leaders at random, again and again, and cut
//! the ends of part files as a power loss would. A job that is resumed until it is done has the rows and
//! files of an undisturbed run: none is lost or duplicated.
//!
//! `SANDMILL_KILLS=1000` sets the total number of kills, for a longer run.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Job, Ran, Running, guest};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The number of mini-batches of each job.
const MINI_BATCHES: usize = 5000;

/// The total number of kills, of which each test makes its share.
fn kills_in_all() -> usize {
    std::env::var("SANDMILL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(210)
}

/// Pseudorandom numbers, the same in each run of a test.
struct Random(u64);

impl Random {
    /// A number from 0 to `end`, without `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

#[derive(Debug, Default)]
struct Kills {
    workers: usize,
    leaders: usize,
    cut: usize,
}

impl Kills {
    fn count(&self) -> usize {
        self.workers + self.leaders
    }
}

/// Runs jobs and kills processes until there were enough kills. Each job is resumed until it is done, and
/// then checked.
fn kill_until_done(seed: u64, wanted: usize, job: impl Fn() -> Job, check: impl Fn(&Ran)) {
    let mut random = Random(seed);
    let mut kills = Kills::default();
    let mut jobs = 0;
    while kills.count() < wanted {
        let ran = disturbed(job(), &mut random, &mut kills, wanted);
        check(&ran);
        jobs += 1;
    }
    eprintln!("{} kills in {jobs} jobs: {kills:?}", kills.count());
}

/// Runs one job to its end, in spite of kills.
fn disturbed(job: Job, random: &mut Random, kills: &mut Kills, wanted: usize) -> Ran {
    let mut running = job.start(&[]);
    for _ in 0..1000 {
        // A leader's life is long enough that most leaders make progress, and some make none.
        let life = Duration::from_millis(30 + random.below(900));
        let killed = disturb(&mut running, life, random, kills, wanted);
        let ran = running.wait();
        if !killed && ran.code == 0 {
            return ran;
        }
        // If too many workers are killed in `init`, the job fails, but it can be resumed as well.
        let expected: &[i32] = if killed { &[-9, 0] } else { &[42] };
        assert!(expected.contains(&ran.code), "{ran}");
        assert!(ran.left_over.is_empty(), "{ran}");
        if ran.code == 0 {
            return ran;
        }
        // The files of a completed job are synced, and no later run would repair them, so leave them intact.
        // The same holds for parts that have their final name: they may be the workers' own files.
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

/// Kills workers for the given time, then the leader. Returns whether it killed the leader; otherwise the job
/// has ended, or there were enough kills.
fn disturb(
    running: &mut Running,
    life: Duration,
    random: &mut Random,
    kills: &mut Kills,
    wanted: usize,
) -> bool {
    let begun = Instant::now();
    while kills.count() < wanted && !running.has_ended() {
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
        // It may have ended by now.
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
        kills.cut += 1;
    }
}

fn files(job: Job) -> Job {
    let job = job.yaml(
        "inputs: {texts: input}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 50",
    );
    fs::create_dir(job.path("input")).unwrap();
    for number in 0..MINI_BATCHES {
        fs::write(job.path(&format!("input/{number}.txt")), "x".repeat(number % 7)).unwrap();
    }
    job
}

/// W5, W8, W12 (different on purpose: exactly once), M9.
#[test]
fn rows_survive_kills() {
    let mut expected: Vec<String> =
        (0..MINI_BATCHES).map(|number| format!("{number}.txt: {}", number % 7)).collect();
    expected.sort();
    let job = || files(Job::new(&guest("echo_files")));
    kill_until_done(1, kills_in_all() / 3, job, |ran| {
        assert!(ran.sorted_output() == expected, "rows are lost or doubled\n{ran}");
    });
}

/// The same for rows that stay in their workers' files.
#[test]
fn parts_survive_kills() {
    let mut expected: Vec<String> =
        (0..MINI_BATCHES).map(|number| format!("{number}.txt: {}", number % 7)).collect();
    expected.sort();
    let job = || files(Job::new(&guest("echo_files"))).yaml("output_layout: parts");
    kill_until_done(4, kills_in_all() / 3, job, |ran| {
        assert!(ran.sorted_parts("") == expected, "rows are lost or doubled\n{ran}");
    });
}

/// The same for files that entry scripts write.
#[test]
fn files_survive_kills() {
    let mut expected: Vec<String> = (0..MINI_BATCHES)
        .flat_map(|n| [format!("{n}.txt.out: {}", n % 7), format!("batches/{n}.txt")])
        .collect();
    expected.sort();
    let job = || files(Job::new(&guest("writes_files"))).yaml("output_action: summary_only");
    kill_until_done(2, kills_in_all() / 3, job, |ran| {
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
        assert!(found == expected, "files are lost, or others\n{ran}");
    });
}

/// The same for tables.
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
        Job::new(&guest("echo_table")).file("in.csv", &csv).yaml(
            "inputs: {rows: {path: in.csv, format: csv}}\nmini_batch_size: 32\n\
             process_count_per_node: 2\nrun_max_try: 50",
        )
    };
    kill_until_done(3, kills_in_all() / 3, job, |ran| {
        assert!(ran.sorted_output() == expected, "rows are lost or doubled\n{ran}");
    });
}

/// The same with so many rows that they are copied to the output before their mini-batches are committed.
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
        Job::new(&guest("echo_table")).file("in.csv", &csv).yaml(
            "inputs: {rows: {path: in.csv, format: csv}}\nmini_batch_size: 128 KB\n\
             process_count_per_node: 2\nrun_max_try: 50",
        )
    };
    let check = |ran: &Ran| {
        assert!(ran.sorted_output() == expected, "rows are lost or doubled\n{ran}");
    };
    // First shows that rows are copied early, and that the machine may crash at that point.
    let ran = job().env("SANDMILL_FAIL_POINT", "rows-copied:2:cut").run(&[]);
    ran.exits_with(-9);
    let ran = ran.into_job().env("SANDMILL_FAIL_POINT", "").run(&[]);
    ran.exits_with(0);
    check(&ran);
    kill_until_done(5, kills_in_all() / 10, job, check);
}
