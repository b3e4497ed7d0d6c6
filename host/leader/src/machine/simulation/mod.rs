//! Tests the state machines with random schedules of events, in a simulated environment. Workers succeed,
//! fail, hang, die, lie and report too late. The committer is slow, rejects results and breaks down. The
//! machine runs out of room or memory, a user cancels, the leader is killed, and the job resumes from its
//! journal. Invariants are checked after every step.
//!
//! `world` handles the state machine's actions, `steps` contains the random events, and `checks` the
//! invariants. `receipt_book` has those of receipts. A schedule consists of a seed and the number of random steps. After these steps, no more
//! faults happen, and the job must end. If a schedule fails, proptest looks for a failing one with fewer
//! steps. `SANDMILL_SCHEDULES=1000000` sets the number of schedules, and `SANDMILL_SCHEDULE=SEED:LENGTH`
//! repeats a single one.

mod checks;
mod cluster;
mod cluster_checks;
mod cluster_log;
mod cluster_node;
mod dice;
mod receipt_book;
mod steps;
mod world;

use crate::model::ReceiptOutcome;
use cluster::{Cluster, ClusterCounts, ClusterSize};
use dice::SimulationRandom;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use world::SimulatedWorld;

/// How many schedules run with one node, unless the environment variable SANDMILL_SCHEDULES says otherwise.
const DEFAULT_SCHEDULES: u32 = 100_000;
/// How many schedules run with several nodes, unless the same variable says otherwise.
const CLUSTER_SCHEDULES: u32 = 20_000;

/// The number of random steps in a schedule with many nodes.
const LARGE_STEPS: usize = 2000;

/// The maximum number of random steps in a schedule.
const MAX_STEPS: u16 = 120;

fn run(seed: u64, length: u16) {
    let mut world = SimulatedWorld::new(SimulationRandom::new(seed));
    for _ in 0..length {
        world.step();
    }
    world.settle();
}

#[test]
fn every_schedule_keeps_the_invariants() {
    run_schedules(run, DEFAULT_SCHEDULES);
}

/// The same as above, with several nodes that join, leave and are lost.
#[test]
fn every_schedule_of_nodes_ends_each_mini_batch_once() {
    let run = |seed, length| {
        run_cluster(seed, length);
    };
    run_schedules(run, CLUSTER_SCHEDULES);
}

fn run_cluster(seed: u64, length: u16) -> ClusterCounts {
    // In some schedules, there are many nodes.
    let nodes = if seed.is_multiple_of(8) { 8 } else { 3 };
    let size = ClusterSize { nodes, mini_batches: 14 };
    let mut cluster = Cluster::new(SimulationRandom::new(seed), size);
    for _ in 0..8 * length {
        cluster.step();
    }
    cluster.settle();
    let receipts = &cluster.log.receipts;
    cluster.counts.lost = receipts.count(ReceiptOutcome::NodeLost);
    cluster.counts.discarded = receipts.count(ReceiptOutcome::Discarded);
    cluster.counts
}

/// The schedules contain enough of what they shall test.
#[test]
fn schedules_contain_twins_and_take_overs() {
    let mut sum = ClusterCounts::default();
    for seed in 0..1000 {
        let counts = run_cluster(seed, 30);
        let ClusterCounts { twins, cancelled, uncounted_failures, unfetched, .. } = counts;
        sum.take_overs += counts.take_overs;
        sum.taken_over += counts.taken_over;
        sum.full += counts.full;
        sum.shrunk += counts.shrunk;
        sum.lost += counts.lost;
        sum.discarded += counts.discarded;
        sum.twins += twins;
        sum.cancelled += cancelled;
        sum.uncounted_failures += uncounted_failures;
        sum.unfetched += unfetched;
    }
    assert!(sum.take_overs > 100 && sum.twins > 50, "{sum:?}");
    assert!(sum.cancelled > 50 && sum.uncounted_failures > 0, "{sum:?}");
    assert!(sum.unfetched > 50, "{sum:?}");
    assert!(sum.taken_over > 50, "{sum:?}");
    assert!(sum.full > 50 && sum.shrunk > 20, "{sum:?}");
    assert!(sum.lost > 10 && sum.discarded > 10, "{sum:?}");
}

/// A job on a thousand nodes: in fifty of a million schedules.
#[test]
fn a_large_cluster_completes() {
    for seed in 0..(schedules(CLUSTER_SCHEDULES) / 20_000).max(1) {
        let size = ClusterSize { nodes: 1000, mini_batches: 2000 };
        let mut cluster = Cluster::new(SimulationRandom::new(seed.into()), size);
        for _ in 0..LARGE_STEPS {
            cluster.step();
        }
        cluster.settle();
    }
}

/// How many schedules shall run: `count`, unless the environment says otherwise.
fn schedules(count: u32) -> u32 {
    let wanted = std::env::var("SANDMILL_SCHEDULES").ok();
    wanted.map_or(count, |text| text.parse().expect("a number of schedules"))
}

fn run_schedules(run: fn(u64, u16), count: u32) {
    if let Ok(schedule) = std::env::var("SANDMILL_SCHEDULE") {
        let (seed, length) = schedule.split_once(':').expect("SANDMILL_SCHEDULE=SEED:LENGTH");
        return run(seed.parse().expect("a seed"), length.parse().expect("a length"));
    }
    let schedules = schedules(count);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let cases = schedules / threads + u32::from(thread < schedules % threads);
            scope.spawn(move || run_many(run, cases));
        }
    });
    println!("{schedules} schedules kept the invariants");
}

fn run_many(run: fn(u64, u16), cases: u32) {
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

/// Without failures, every mini-batch succeeds at its first attempt.
#[test]
fn a_calm_world_completes() {
    for seed in 0..200 {
        run(seed, 0);
    }
}
