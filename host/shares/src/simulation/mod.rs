//! Tests the machine with random schedules of events, in a simulated cluster: tenants with random weights and quotas,
//! jobs that arrive, pause and end, mini-batches of different lengths, lost nodes, late and repeated reports, and
//! restarts from the stored state. Invariants are checked each time that the machine has shared.
//!
//! `world` is the cluster, `job` a leader with its workers, `steps` contains the random events, and `checks` the
//! invariants. A schedule consists of a seed and the number of random steps. After these steps, nothing hinders the jobs
//! any longer, and all of them must end. If a schedule fails, proptest looks for a failing one with fewer steps.
//! `SANDMILL_SCHEDULES=1000000` sets the number of schedules, and `SANDMILL_SCHEDULE=SEED:LENGTH` repeats a single one.

mod checks;
mod dice;
mod job;
mod steps;
pub(crate) mod world;

use checks::Counts;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use steps::Schedule;

/// How many schedules run, unless the environment variable SANDMILL_SCHEDULES says otherwise.
const DEFAULT_SCHEDULES: u32 = 5_000;

/// The maximum number of random steps in a schedule.
const MAX_STEPS: u16 = 200;

fn run(seed: u64, length: u16) -> Counts {
    let mut schedule = Schedule::new(seed);
    for _ in 0..length {
        schedule.step();
    }
    schedule.settle();
    schedule.memory.counts
}

#[test]
fn every_schedule_keeps_the_invariants() {
    if let Ok(schedule) = std::env::var("SANDMILL_SCHEDULE") {
        let (seed, length) = schedule.split_once(':').expect("SANDMILL_SCHEDULE=SEED:LENGTH");
        run(seed.parse().expect("a seed"), length.parse().expect("a length"));
        return;
    }
    let wanted = std::env::var("SANDMILL_SCHEDULES").ok();
    let schedules =
        wanted.map_or(DEFAULT_SCHEDULES, |text| text.parse().expect("a number of schedules"));
    let threads = std::thread::available_parallelism().ok();
    let threads = threads.and_then(|count| u32::try_from(count.get()).ok()).unwrap_or(1);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let cases = schedules / threads + u32::from(thread < schedules % threads);
            scope.spawn(move || run_many(cases));
        }
    });
    println!("{schedules} schedules kept the invariants");
}

fn run_many(cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    // Most schedules are short, because short ones find as many faults in less time.
    let length = prop_oneof![4 => 0..MAX_STEPS / 4, 1 => 0..MAX_STEPS];
    let schedules = (any::<u64>().no_shrink(), length);
    let ran = TestRunner::new(config).run(&schedules, |(seed, length)| {
        run(seed, length);
        Ok(())
    });
    if let Err(TestError::Fail(reason, (seed, length))) = ran {
        panic!("SANDMILL_SCHEDULE={seed}:{length} breaks an invariant: {reason}");
    }
    ran.expect("proptest completes");
}

/// The schedules contain enough of what they shall test.
#[test]
fn schedules_contain_what_they_shall_test() {
    let mut sum = Counts::default();
    for seed in 0..300 {
        let counts = run(seed, 60);
        sum.shared += counts.shared;
        sum.conserved += counts.conserved;
        sum.lowered += counts.lowered;
        sum.starved += counts.starved;
        sum.gangs += counts.gangs;
        sum.quota_waits += counts.quota_waits;
        sum.reserved += counts.reserved;
        sum.overcommitted += counts.overcommitted;
        sum.restarts += counts.restarts;
        sum.unstable += counts.unstable;
    }
    println!("{sum:?}");
    assert!(sum.conserved * 4 > sum.shared && sum.lowered > 1000, "{sum:?}");
    assert!(sum.starved > 100 && sum.gangs > 200 && sum.quota_waits > 1000, "{sum:?}");
    assert!(sum.reserved > 100 && sum.overcommitted > 100 && sum.restarts > 100, "{sum:?}");
    assert!(sum.unstable * 500 < sum.shared, "{sum:?}");
}
