//! Shares of tenants and users.

use super::{GIB, HOUR, SECOND, jain, request, workers, world};
use crate::simulation::world::SimulatedWorld;
use crate::{Resources, ShareSettings, SlotSize, TenantSettings, WaitReason};
use std::num::NonZeroU32;

#[test]
fn ten_thousand_tiny_jobs_get_no_more_than_one_job() {
    let mut world = world(20, &["many", "one"]);
    for number in 0..10_000 {
        world.submit(request(&format!("tiny {number}"), "many", 1), 1, SECOND).unwrap();
    }
    world.share();
    assert_eq!(world.workers("many"), 20);
    world.submit(request("single", "one", 100), 10_000, SECOND).unwrap();
    world.run(SECOND * 200, |_| ());
    assert_eq!((world.workers("many"), world.workers("one")), (10, 10));
    let many = world.used_by("many");
    let one = world.used_by("one");
    assert!((many - one).abs() <= 20.0, "{many} against {one} s");
}

#[test]
fn weights_divide_the_cluster() {
    let mut world = world(40, &["light", "heavy"]);
    let heavy = TenantSettings { weight: NonZeroU32::new(3).unwrap(), ..TenantSettings::default() };
    world.set_tenant("heavy", heavy);
    for tenant in ["light", "heavy"] {
        world.submit(request(tenant, tenant, 100), 100_000, SECOND).unwrap();
    }
    world.run(SECOND * 100, |_| ());
    assert_eq!((world.workers("light"), world.workers("heavy")), (10, 30));
    let share = world.grants.tenants[0].clone();
    assert_eq!((share.share_millionths, share.fair_share_millionths), (750_000, 750_000));
}

/// As in the paper on dominant-resource fairness: jobs with GPUs and jobs without get the same dominant share.
#[test]
fn jobs_with_gpus_share_with_jobs_without() {
    let mut world = world(100, &["gpu", "cpu"]);
    let mut capacity = workers(100);
    capacity.gpus.insert("H200".into(), 8);
    world.set_capacity(capacity);
    let gpus = [("H200".into(), 1)].into();
    let mut training = request("training", "gpu", 100);
    training.slot = SlotSize { memory: 8 * GIB, cpu: 8000, gpus };
    world.submit(training, 10_000, SECOND).unwrap();
    world.submit(request("parsing", "cpu", 100), 100_000, SECOND).unwrap();
    world.run(SECOND * 10, |_| ());
    // Six of eight GPUs are 75 % and need 48 % of the processors, of which 52 % are left. A worker with a GPU more would
    // leave 44 %, and the tenant without GPUs is below its share as long as that is less than 75 %.
    assert_eq!((world.workers("gpu"), world.workers("cpu")), (5, 60));
    assert_eq!(world.grants.tenants[1].share_millionths, 625_000);
    assert_eq!(world.grants.tenants[0].share_millionths, 600_000);
}

/// Ten equal tenants ask for 1 to 100 times as much as the first, which asks for its fair share.
#[test]
fn usage_is_equal_for_demands_of_1_to_100() {
    for (slots, minutes) in [(20_u64, 30_u32), (7, 180), (1, 1200)] {
        let names: Vec<String> = (0..10).map(|tenant| format!("tenant {tenant}")).collect();
        let mut world = SimulatedWorld::new(ShareSettings::default(), workers(slots));
        for (index, name) in names.iter().enumerate() {
            world.set_tenant(name, TenantSettings::default());
            let jobs = [1, 2, 4, 7, 11, 20, 33, 50, 75, 100][index];
            for job in 0..jobs {
                let request = request(&format!("{name} {job}"), name, slots.div_ceil(10));
                let length = SECOND * (10 + 10 * (u32::try_from(index + job).unwrap() % 7));
                world.submit(request, 1_000_000, length).unwrap();
            }
        }
        world.run(SECOND * 60 * minutes, |_| ());
        let used: Vec<f64> = world.used.values().copied().collect();
        let index = jain(&used);
        println!("Jain's index with {slots} slots: {index:.5}");
        assert!(index >= 0.95, "{index}: {used:?}");
    }
}

/// With more tenants than slots, slots change owners by time slices, and not with each mini-batch.
#[test]
fn slots_change_owners_by_time_slices() {
    let mut world = world(1, &["a", "b"]);
    for tenant in ["a", "b"] {
        world.submit(request(tenant, tenant, 1), 100_000, SECOND).unwrap();
    }
    let (mut changes, mut owner) = (0, "");
    world.run(SECOND * 3600, |world| {
        let now = if world.workers("a") > 0 { "a" } else { "b" };
        changes += u32::from(owner != now);
        owner = now;
    });
    assert!((25..=65).contains(&changes), "{changes} changes in an hour");
    assert!((world.used_by("a") - world.used_by("b")).abs() <= 121.0);
}

#[test]
fn users_of_a_tenant_share_equally() {
    let mut world = world(12, &["t"]);
    for (user, jobs) in [("x", 50), ("y", 1), ("z", 10)] {
        for job in 0..jobs {
            let mut request = request(&format!("{user} {job}"), "t", 12);
            request.user = Some(user.into());
            world.submit(request, 10_000, SECOND).unwrap();
        }
    }
    world.run(SECOND * 5, |_| ());
    for job in ["x 0", "y 0", "z 0"] {
        assert_eq!(world.allowed(job), 4, "{job}");
    }
}

#[test]
fn past_usage_decides_who_gets_the_odd_slot() {
    let mut world = world(3, &["a", "b"]);
    world.submit(request("early", "a", 3), 1000, SECOND).unwrap();
    world.run(SECOND * 90, |_| ());
    world.submit(request("late", "b", 3), 1000, SECOND).unwrap();
    world.run(SECOND * 30, |_| ());
    assert_eq!((world.workers("a"), world.workers("b")), (1, 2));
}

#[test]
fn a_part_stays_free_for_newcomers() {
    let mut world = world(10, &["a", "b", "c"]);
    world.shares.set_settings(ShareSettings::default());
    world.submit(request("greedy", "a", 10), 1000, SECOND * 100).unwrap();
    world.submit(request("second", "a", 10), 1000, SECOND * 100).unwrap();
    world.share();
    assert_eq!(world.workers("a"), 9, "10 % are reserved while one tenant has jobs");
    assert_eq!(
        world.reason("second"),
        WaitReason::Reserved { resource: crate::Resource::Workers, asked: 1, left: 0 }
    );
    world.submit(request("newcomer", "b", 10), 1000, SECOND * 100).unwrap();
    world.share();
    assert_eq!(world.workers("b"), 1, "a newcomer starts at once");
}

#[test]
fn a_guarantee_comes_before_fair_shares() {
    let mut world = world(10, &["a", "b", "c"]);
    let guaranteed = Resources { workers: 6, ..Resources::default() };
    world.set_tenant("c", TenantSettings { guaranteed, ..TenantSettings::default() });
    for tenant in ["a", "b"] {
        world.submit(request(tenant, tenant, 10), 1000, SECOND).unwrap();
    }
    world.run(SECOND * 3, |_| ());
    assert_eq!((world.workers("a"), world.workers("b")), (5, 5), "others borrow the guarantee");
    world.submit(request("c", "c", 10), 1000, SECOND).unwrap();
    world.run(SECOND * 3, |_| ());
    assert_eq!([world.workers("a"), world.workers("b"), world.workers("c")], [2, 2, 6]);
}

/// Workers change owners only as mini-batches end.
#[test]
fn preemption_throws_no_work_away() {
    let mut world = world(4, &["a", "b"]);
    world.submit(request("first", "a", 4), 1000, SECOND * 10).unwrap();
    world.run(SECOND, |_| ());
    world.submit(request("second", "b", 4), 1000, SECOND * 10).unwrap();
    world.share();
    assert_eq!(world.reason("second"), WaitReason::Coming { workers: 2 });
    let first = &world.grants.running[0];
    assert_eq!((first.allowed, first.held), (2, 4));
    world.run(SECOND * 10, |_| ());
    assert_eq!((world.workers("a"), world.workers("b")), (2, 2));
    world.run(HOUR / 10, |_| ());
    assert_eq!((world.workers("a"), world.workers("b")), (2, 2));
}
