//! The order of jobs inside a tenant.

use super::{HOUR, SECOND, request, world};
use crate::{Priority, Resource, WaitReason};

#[test]
fn an_urgent_job_takes_over_as_mini_batches_end() {
    let mut world = world(4, &["t", "other"]);
    world.submit(request("normal", "t", 4), 1000, SECOND * 10).unwrap();
    world.submit(request("other", "other", 4), 1000, SECOND * 10).unwrap();
    world.run(SECOND * 20, |_| ());
    let mut urgent = request("urgent", "t", 4);
    urgent.priority = Priority::Urgent;
    world.submit(urgent, 1000, SECOND * 10).unwrap();
    world.share();
    assert_eq!((world.allowed("normal"), world.allowed("other")), (0, 2));
    assert_eq!(world.reason("urgent"), WaitReason::Coming { workers: 2 });
    world.run(SECOND * 10, |_| ());
    assert_eq!((world.allowed("urgent"), world.allowed("other")), (2, 2));
    world.shares.set_priority(&"urgent".into(), Priority::Low).unwrap();
    world.run(SECOND * 20, |_| ());
    assert_eq!((world.allowed("normal"), world.allowed("urgent")), (2, 0));
}

#[test]
fn jobs_of_a_class_come_in_order_of_submission() {
    let mut world = world(3, &["t"]);
    for (id, priority) in [("c", Priority::Normal), ("b", Priority::Normal), ("a", Priority::High)]
    {
        let mut request = request(id, "t", 2);
        request.priority = priority;
        world.submit(request, 100, SECOND).unwrap();
    }
    world.share();
    assert_eq!([world.allowed("a"), world.allowed("c"), world.allowed("b")], [2, 1, 0]);
    let waiting = &world.grants.waiting[0];
    assert_eq!((waiting.job.as_str(), waiting.jobs_before), ("b", 0));
    assert_eq!(
        world.reason("b"),
        WaitReason::Busy { resource: Resource::Workers, asked: 1, left: 0 }
    );
}

/// New urgent jobs arrive faster than the cluster can run them. A low job starts all the same.
#[test]
fn a_waiting_job_rises_until_it_starts() {
    let mut world = world(2, &["t"]);
    let mut low = request("low", "t", 1);
    low.priority = Priority::Low;
    world.submit(low, 1, SECOND * 600).unwrap();
    let begin = world.now;
    let mut started = None;
    for step in 0..6 * 200 {
        // Work for 15 minutes of the cluster arrives in each 10 minutes. At first, more arrives.
        for number in 0..if step == 0 { 6 } else { 3 } {
            let mut urgent = request(&format!("urgent {step} {number}"), "t", 1);
            urgent.priority = Priority::Urgent;
            world.submit(urgent, 1, SECOND * 600).unwrap();
        }
        world.run(SECOND * 600, |_| ());
        if world.jobs.get("low").is_none_or(|job| job.workers() > 0) {
            started = Some(world.now - begin);
            break;
        }
    }
    // All urgent jobs of the first 18 hours come first. They take 27 hours.
    let started = started.expect("it starts");
    assert!(started > 18 * HOUR && started < 28 * HOUR, "{started:?}");
}

#[test]
fn a_paused_job_gives_its_workers_back() {
    let mut world = world(2, &["t"]);
    world.submit(request("a", "t", 2), 100, SECOND).unwrap();
    world.submit(request("b", "t", 2), 100, SECOND).unwrap();
    world.share();
    world.jobs.get_mut("a").unwrap().is_paused = true;
    world.deliver();
    world.run(SECOND * 2, |_| ());
    assert_eq!((world.workers("t"), world.allowed("b")), (2, 2));
    assert_eq!(world.reason("a"), WaitReason::NothingToDo);
}
