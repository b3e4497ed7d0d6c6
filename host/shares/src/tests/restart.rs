//! Restarts, lost nodes and wrong reports.

use super::{SECOND, request, workers, world};
use crate::{ShareError, Shares};

#[test]
fn the_stored_state_continues() {
    let mut world = world(4, &["a", "b"]);
    world.submit(request("a", "a", 4), 1000, SECOND).unwrap();
    world.submit(request("b", "b", 4), 1000, SECOND).unwrap();
    world.run(SECOND * 10, |_| ());
    let text = serde_json::to_string(&world.shares).unwrap();
    let mut restored: Shares = serde_json::from_str(&text).unwrap();
    assert_eq!(restored, world.shares);
    assert_eq!(restored.share(world.now), world.shares.share(world.now));
}

/// The server passes grants on as JSON.
#[test]
fn grants_are_readable_as_json() {
    let mut world = world(2, &["a"]);
    world.submit(request("a", "a", 4), 1000, SECOND).unwrap();
    world.submit(request("b", "a", 4), 1000, SECOND).unwrap();
    let grants = serde_json::to_value(world.shares.share(world.now)).unwrap();
    let grant =
        serde_json::json!({ "job": "a", "allowed": 2, "held": 2, "added": 2, "granted": 2 });
    assert_eq!(grants["running"][0], grant);
    let waiting = serde_json::json!({
        "job": "b",
        "reason": { "why": "busy", "resource": "workers", "asked": 1, "left": 0 },
        "jobs_before": 0,
        "share_millionths": 1_000_000,
        "fair_share_millionths": 1_000_000,
    });
    assert_eq!(grants["waiting"][0], waiting);
    let read: crate::Grants = serde_json::from_value(grants).unwrap();
    assert_eq!(read.waiting.len(), 1);
}

#[test]
fn a_job_that_knows_more_than_the_stored_state_is_right() {
    let mut world = world(4, &["a"]);
    world.submit(request("a", "a", 3), 1000, SECOND).unwrap();
    let mut old = world.shares.clone();
    world.share();
    assert_eq!(world.workers("a"), 3);
    old.reconnected(&"a".into(), 3, 0, world.now).unwrap();
    let grant = &old.share(world.now).running[0];
    assert_eq!((grant.held, grant.added, grant.granted), (3, 0, 3));
}

#[test]
fn workers_of_a_lost_node_count_until_they_are_given_back() {
    let mut world = world(4, &["a", "b"]);
    world.submit(request("a", "a", 4), 1000, SECOND).unwrap();
    world.share();
    world.set_capacity(workers(2));
    world.submit(request("b", "b", 4), 1000, SECOND).unwrap();
    let grants = world.shares.share(world.now);
    assert_eq!((grants.running[0].allowed, grants.running[0].held), (1, 4));
    assert_eq!(grants.running.len(), 1);
    world.shares.gave_back(&"a".into(), 2, world.now).unwrap();
    assert_eq!(world.shares.share(world.now).running.len(), 1, "the rest uses the whole cluster");
    world.shares.gave_back(&"a".into(), 3, world.now).unwrap();
    let grants = world.shares.share(world.now);
    assert_eq!((grants.running[0].held, grants.running[1].added), (1, 1));
}

#[test]
fn reports_may_repeat_and_overtake_each_other() {
    let mut world = world(4, &["a"]);
    let job = "a".into();
    world.submit(request("a", "a", 4), 1000, SECOND).unwrap();
    world.share();
    for total in [2, 1, 2, 0] {
        world.shares.gave_back(&job, total, world.now).unwrap();
    }
    let grants = world.shares.share(world.now);
    assert_eq!((grants.running[0].held, grants.running[0].granted), (4, 6));
    let error = world.shares.gave_back(&job, 7, world.now).unwrap_err();
    assert_eq!(error, ShareError::GaveBackTooMany { job: job.clone(), granted: 6, given_back: 7 });
    world.shares.end(&job).unwrap();
    let unknown = world.shares.gave_back(&job, 6, world.now).unwrap_err();
    assert_eq!(unknown, ShareError::UnknownJob(job));
}

#[test]
fn a_clock_that_is_set_back_does_not_move() {
    let mut world = world(1, &["a"]);
    world.submit(request("a", "a", 1), 10, SECOND).unwrap();
    world.submit(request("b", "a", 1), 10, SECOND).unwrap();
    let first = world.shares.share(world.now);
    let again = world.shares.share(world.now - SECOND * 3600);
    assert_eq!(first.waiting, again.waiting);
    assert_eq!(again.running[0].held, 1);
}

#[test]
fn a_tenant_goes_only_without_jobs() {
    let mut world = world(1, &["a"]);
    world.submit(request("a", "a", 1), 10, SECOND).unwrap();
    let tenant = "a".into();
    assert_eq!(world.shares.remove_tenant(&tenant), Err(ShareError::TenantHasJobs(tenant.clone())));
    world.shares.end(&"a".into()).unwrap();
    world.shares.remove_tenant(&tenant).unwrap();
    assert_eq!(world.shares.remove_tenant(&tenant), Err(ShareError::UnknownTenant(tenant.clone())));
}

/// A tenant that was busy is remembered, so that it does not come first at once when it comes again.
#[test]
fn idle_tenants_are_forgotten_when_their_usage_has_decayed() {
    let mut world = world(1, &["busy", "idle"]);
    world.submit(request("job", "busy", 1), 1000, SECOND).unwrap();
    world.run(SECOND * 100, |_| ());
    let is_known = |shares: &Shares| {
        ["busy", "idle"].map(|tenant| {
            shares.clone().remove_tenant(&tenant.into())
                != Err(ShareError::UnknownTenant(tenant.into()))
        })
    };
    world.shares.forget_idle_tenants(world.now);
    assert_eq!(is_known(&world.shares), [true, false], "one has a job");
    world.shares.end(&"job".into()).unwrap();
    world.shares.forget_idle_tenants(world.now);
    assert_eq!(is_known(&world.shares), [true, false], "it has used 100 s");
    world.shares.forget_idle_tenants(world.now + SECOND * 30 * 24 * 60 * 60);
    assert_eq!(is_known(&world.shares), [false, false]);
}
