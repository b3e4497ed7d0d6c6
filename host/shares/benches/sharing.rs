//! How long it takes to share a cluster among 10,000 jobs. `cargo bench --package sandmill-shares` runs these
//! benchmarks, which measure processor time.

#![expect(clippy::cast_possible_truncation, reason = "numbers of a benchmark are small")]

use criterion::{Criterion, criterion_group, criterion_main};
use sandmill_shares::{
    JobRequest, Priority, Resources, ShareSettings, Shares, SlotSize, TenantSettings, Usage,
};
use std::hint::black_box;
use std::time::Duration;

const JOBS: u64 = 10_000;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The n-th of a series of pseudo-random numbers below `end`.
fn random(n: u64, end: u64) -> u64 {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % end
}

/// A cluster with so many workers, whose tenants submitted 10,000 jobs over two days.
fn queued(tenants: u64, users: u64, workers: u64) -> Shares {
    let gpus = [("H200".into(), workers / 10)].into();
    let capacity = Resources { workers, memory: workers << 33, cpu: workers * 1000, gpus };
    let mut shares = Shares::new(ShareSettings::default(), capacity);
    for tenant in 0..tenants {
        let id = format!("tenant {tenant}").into();
        shares.set_tenant(&id, TenantSettings::default());
        let usage = Usage {
            resources: Resources { workers: 1, ..Resources::default() },
            wall: HOUR * (tenant as u32 % 50),
            ..Usage::default()
        };
        shares.used(&id, None, &usage, Duration::ZERO).expect("the tenant exists");
    }
    for job in 0..JOBS {
        let gpus =
            if random(job, 10) == 0 { [("H200".into(), 1)].into() } else { Default::default() };
        let priorities = [Priority::Low, Priority::Normal, Priority::High, Priority::Urgent];
        let request = JobRequest {
            id: format!("job {:05}", random(job, 1 << 30)).into(),
            tenant: format!("tenant {}", random(3 * job, tenants)).into(),
            user: Some(format!("user {}", random(5 * job, users)).into()),
            priority: priorities[random(7 * job, 4) as usize],
            slot: SlotSize { memory: (1 + random(11 * job, 4)) << 31, cpu: 1000, gpus },
            most_workers: 1 + random(13 * job, 4),
            minimum_workers: 1,
        };
        shares.submit(request, HOUR * 48 / JOBS as u32 * job as u32).expect("no quotas");
    }
    shares
}

fn sharing(c: &mut Criterion) {
    let mut group = c.benchmark_group("10,000 jobs");
    for (name, tenants, users, workers) in [
        ("100 tenants, 1,000 workers", 100, 5, 1_000),
        ("1 tenant, 1,000 workers", 1, 1, 1_000),
        ("1 tenant, 10,000 users, 1,000 workers", 1, 10_000, 1_000),
        ("1,000 tenants, 10,000 workers", 1_000, 5, 10_000),
    ] {
        let shares = queued(tenants, users, workers);
        let now = HOUR * 49;
        let mut running = shares.clone();
        running.share(now);
        for (state, shares) in [("queued", shares), ("running", running)] {
            group.bench_function(format!("{state}, {name}"), |b| {
                b.iter_custom(|count| (0..count).map(|_| time_to_share(shares.clone(), now)).sum());
            });
        }
    }
}

/// The processor time that sharing takes.
fn time_to_share(mut shares: Shares, now: Duration) -> Duration {
    let begin = processor_time();
    black_box(shares.share(now));
    processor_time() - begin
}

/// The processor time of this thread. Other processes of the machine do not count.
fn processor_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().expect("a time")
}

criterion_group!(benches, sharing);
criterion_main!(benches);
