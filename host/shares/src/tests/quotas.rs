//! Quotas.

use super::{GIB, HOUR, SECOND, request, workers, world};
use crate::{
    Limit, Quota, QuotaExcess, Quotas, Resource, Resources, ShareError, SlotSize, TenantSettings,
    Usage, WaitReason,
};
use std::time::Duration;

fn with(quotas: Quotas) -> TenantSettings {
    TenantSettings { quotas, ..TenantSettings::default() }
}

fn excess(quota: Quota, limit: u64, used: u64, asked: u64) -> QuotaExcess {
    QuotaExcess { quota, limit, used, asked, resets_at: None }
}

#[test]
fn a_submission_beyond_the_queue_is_refused() {
    let mut world = world(1, &["t"]);
    world.set_tenant("t", with(Quotas { queued_jobs: Some(Limit::hard(2)), ..Quotas::default() }));
    world.submit(request("a", "t", 1), 1, SECOND).unwrap();
    world.submit(request("b", "t", 1), 1, SECOND).unwrap();
    let error = world.submit(request("c", "t", 1), 1, SECOND).unwrap_err();
    let quota = excess(Quota::QueuedJobs, 2, 2, 1);
    assert_eq!(error, ShareError::Quota { tenant: "t".into(), excess: quota });
    assert_eq!(
        error.to_string(),
        "tenant t: the quota of queued jobs is 2: 2 are in use, and the job asks for 1"
    );
    world.share();
    world.submit(request("c", "t", 1), 1, SECOND).unwrap();
}

#[test]
fn a_submission_that_can_never_start_is_refused() {
    let mut world = world(10, &["t"]);
    world.set_tenant("t", with(Quotas { memory: Some(Limit::hard(8 * GIB)), ..Quotas::default() }));
    let mut gang = request("gang", "t", 3);
    gang.minimum_workers = 3;
    let error = world.submit(gang, 10, SECOND).unwrap_err();
    let excess = excess(Quota::Held(Resource::Memory), 8 * GIB, 0, 12 * GIB);
    assert_eq!(error, ShareError::Quota { tenant: "t".into(), excess });
    let unknown = world.submit(request("x", "stranger", 1), 1, SECOND).unwrap_err();
    assert_eq!(unknown, ShareError::UnknownTenant("stranger".into()));
}

#[test]
fn hard_quotas_limit_what_runs() {
    let mut world = world(10, &["t"]);
    let quotas = Quotas {
        running_jobs: Some(Limit::hard(2)),
        workers: Some(Limit::hard(5)),
        ..Quotas::default()
    };
    world.set_tenant("t", with(quotas));
    for (id, most) in [("a", 2), ("b", 2), ("c", 2)] {
        world.submit(request(id, "t", most), 100, SECOND).unwrap();
    }
    world.share();
    assert_eq!(world.workers("t"), 4);
    assert_eq!(world.reason("c"), WaitReason::Quota(excess(Quota::RunningJobs, 2, 2, 1)));
    world.set_tenant("t", with(Quotas { workers: Some(Limit::hard(4)), ..Quotas::default() }));
    world.share();
    assert_eq!(
        world.reason("c"),
        WaitReason::Quota(excess(Quota::Held(Resource::Workers), 4, 4, 1))
    );
}

#[test]
fn each_kind_of_gpu_has_its_quota() {
    let mut world = world(10, &["t"]);
    let mut capacity = workers(10);
    capacity.gpus = [("L4".into(), 4), ("H200".into(), 4)].into();
    world.set_capacity(capacity);
    let gpus = [("H200".into(), Limit::hard(1))].into();
    world.set_tenant("t", with(Quotas { gpus, ..Quotas::default() }));
    for kind in ["L4", "H200"] {
        let mut request = request(kind, "t", 4);
        request.slot = SlotSize { memory: GIB, cpu: 1000, gpus: [(kind.into(), 1)].into() };
        world.submit(request, 100, SECOND).unwrap();
    }
    world.share();
    assert_eq!((world.allowed("L4"), world.allowed("H200")), (4, 1));
}

#[test]
fn a_quota_of_a_month_resets_with_the_month() {
    let mut world = world(4, &["t"]);
    let quotas = Quotas { cpu_seconds: Some(Limit::hard(100)), ..Quotas::default() };
    world.set_tenant("t", with(quotas));
    world.submit(request("a", "t", 4), 10_000, SECOND * 10).unwrap();
    world.run(HOUR, |_| ());
    assert_eq!((world.workers("t"), world.used_by("t")), (0, 160.0), "running mini-batches end");
    // `date -u -d 2026-12-01 +%s`
    let resets_at = Some(Duration::from_secs(1_796_083_200));
    let excess = QuotaExcess { resets_at, ..excess(Quota::CpuSeconds, 100, 160, 0) };
    assert_eq!(world.reason("a"), WaitReason::Quota(excess));
    world.now = Duration::from_secs(1_796_083_200);
    world.share();
    assert_eq!(world.workers("t"), 4);
}

/// Only jobs with GPUs use seconds of GPUs.
#[test]
fn jobs_without_gpus_go_on_without_seconds_of_gpus() {
    let mut world = world(4, &["t"]);
    let mut capacity = workers(4);
    capacity.gpus.insert("L4".into(), 4);
    world.set_capacity(capacity);
    world.set_tenant("t", with(Quotas { gpu_seconds: Some(Limit::hard(5)), ..Quotas::default() }));
    let mut gpu = request("gpu", "t", 4);
    gpu.slot.gpus.insert("L4".into(), 1);
    world.submit(gpu, 100, SECOND).unwrap();
    world.submit(request("cpu", "t", 4), 100, SECOND).unwrap();
    world.run(SECOND * 4, |_| ());
    assert_eq!((world.allowed("gpu"), world.allowed("cpu")), (0, 4));
}

#[test]
fn a_soft_quota_only_reports() {
    let mut world = world(4, &["t"]);
    let quotas = Quotas {
        workers: Some(Limit::soft(2)),
        queued_jobs: Some(Limit::soft(0)),
        fuel: Some(Limit::soft(10)),
        ..Quotas::default()
    };
    world.set_tenant("t", with(quotas));
    world.submit(request("a", "t", 4), 100, SECOND).unwrap();
    world.submit(request("b", "t", 4), 100, SECOND).unwrap();
    let usage = Usage { resources: Resources::default(), fuel: 11, ..Usage::default() };
    world.shares.used(&"t".into(), None, &usage, world.now).unwrap();
    world.share();
    assert_eq!(world.workers("t"), 4);
    let notices = world.grants.notices.iter();
    let found: Vec<_> = notices
        .map(|notice| (notice.excess.quota.to_string(), notice.excess.used, notice.excess.limit))
        .collect();
    let expected = [("workers", 4, 2), ("queued jobs", 1, 0), ("fuel per month", 11, 10)];
    assert_eq!(found, expected.map(|(quota, used, limit)| (quota.to_owned(), used, limit)));
}
