//! Jobs that start only with several workers at once.

use super::{HOUR, SECOND, request, world};
use crate::{Resource, WaitReason};

#[test]
fn a_gang_starts_with_all_its_workers() {
    let mut world = world(4, &["small", "gang"]);
    world.submit(request("small", "small", 4), 1000, SECOND * 10).unwrap();
    world.run(SECOND, |_| ());
    let mut gang = request("gang", "gang", 2);
    gang.minimum_workers = 2;
    world.submit(gang, 1000, SECOND * 10).unwrap();
    let mut seen = Vec::new();
    world.run(SECOND * 60, |world| seen.push(world.workers("gang")));
    assert!(!seen.contains(&1), "{seen:?}");
    assert_eq!((world.workers("small"), world.workers("gang")), (2, 2));
}

/// What is free is kept for the gang that comes first, although another job could use it.
#[test]
fn free_workers_are_kept_for_the_gang_that_comes_first() {
    let mut world = world(6, &["first", "gang", "small"]);
    world.submit(request("first", "first", 6), 1000, SECOND).unwrap();
    world.share();
    let mut gang = request("gang", "gang", 2);
    gang.minimum_workers = 2;
    world.submit(gang, 1000, SECOND).unwrap();
    world.submit(request("small", "small", 6), 1000, SECOND).unwrap();
    let mut held = Vec::new();
    for given_back in 0..=4 {
        world.shares.gave_back(&"first".into(), given_back, world.now).unwrap();
        let grants = world.shares.share(world.now);
        let jobs = grants.running.iter().map(|grant| (grant.job.to_string(), grant.held));
        held.push(jobs.collect::<Vec<_>>());
    }
    let expected = [&[6][..], &[5], &[4, 2], &[3, 2, 1], &[2, 2, 2]];
    for (held, expected) in held.iter().zip(expected) {
        let names = ["first", "gang", "small"].map(str::to_owned);
        assert_eq!(*held, names.into_iter().zip(expected.iter().copied()).collect::<Vec<_>>());
    }
}

#[test]
fn a_gang_that_never_fits_does_not_hold_up_others() {
    let mut world = world(4, &["t"]);
    let mut gang = request("gang", "t", 5);
    gang.minimum_workers = 5;
    world.submit(gang, 1000, SECOND).unwrap();
    world.submit(request("small", "t", 4), 1000, SECOND).unwrap();
    world.share();
    assert_eq!(world.allowed("small"), 4);
    let resource = Resource::Workers;
    assert_eq!(world.reason("gang"), WaitReason::TooLarge { resource, asked: 5, capacity: 4 });
}

/// A gang that needs more than its tenant's fair share waits until it has aged. Then its tenant's low usage lets it
/// start, and the tenants take turns.
#[test]
fn a_gang_beyond_the_fair_share_starts_after_one_step_of_ageing() {
    let mut world = world(4, &["a", "b", "gang"]);
    for tenant in ["a", "b"] {
        world.submit(request(tenant, tenant, 4), 1_000_000, SECOND * 60).unwrap();
    }
    let mut gang = request("gang", "gang", 4);
    gang.minimum_workers = 4;
    world.submit(gang, 100_000, SECOND * 60).unwrap();
    world.run(HOUR * 6 - SECOND * 300, |_| ());
    assert_eq!(world.workers("gang"), 0);
    assert_eq!(
        world.reason("gang"),
        WaitReason::Busy { resource: Resource::Workers, asked: 4, left: 0 }
    );
    world.run(HOUR / 10, |_| ());
    assert_eq!(world.workers("gang"), 4);
    world.run(HOUR * 48, |_| ());
    let used = ["a", "b", "gang"].map(|tenant| world.used_by(tenant));
    assert!(super::jain(&used) > 0.95, "{used:?}");
}
