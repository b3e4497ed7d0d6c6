//! Fair shares of a cluster among tenants, their users and their jobs.
//!
//! [`Shares`] is a pure state machine: events and the time go in, [`Grants`] come out. It has no I/O, clock or threads,
//! so that tests can simulate it. A server has one for its cluster, or one for each machine.
//!
//! # How to use it
//!
//! ```
//! use sandmill_shares::{
//!     JobRequest, Limit, Priority, Quotas, Resources, ShareSettings, Shares, SlotSize, TenantSettings,
//!     Usage, WaitReason,
//! };
//! use std::time::Duration;
//!
//! let second = Duration::from_secs(1);
//! // 2026-11-29, as the time since 1970-01-01 in UTC.
//! let mut now = Duration::from_secs(1_795_966_028);
//! let capacity = Resources { workers: 4, memory: 64 << 30, cpu: 4000, ..Resources::default() };
//! let mut shares = Shares::new(ShareSettings::default(), capacity);
//! shares.set_tenant(&"physics".into(), TenantSettings::default());
//! let quotas = Quotas { workers: Some(Limit::hard(3)), ..Quotas::default() };
//! shares.set_tenant(&"biology".into(), TenantSettings { quotas, ..TenantSettings::default() });
//!
//! // A user submits a job. After each change, the server shares, and stores the state before it acts.
//! let request = |id: &str, tenant: &str| JobRequest {
//!     id: id.into(),
//!     tenant: tenant.into(),
//!     user: Some("ada".into()),
//!     priority: Priority::Normal,
//!     slot: SlotSize { memory: 4 << 30, cpu: 1000, ..SlotSize::default() },
//!     most_workers: 10,
//!     minimum_workers: 1,
//! };
//! shares.submit(request("first", "physics"), now)?;
//! let grants = shares.share(now);
//! let stored = serde_json::to_string(&shares)?;
//! assert_eq!((grants.running[0].allowed, grants.running[0].added), (4, 4));
//!
//! // Another tenant submits a job. The first job keeps its workers until mini-batches end, but may use only two of
//! // them from now on. The server sends `allowed` and `granted` to the leader of each job.
//! shares.submit(request("second", "biology"), now)?;
//! let grants = shares.share(now);
//! assert_eq!((grants.running[0].allowed, grants.running[0].held), (2, 4));
//! assert_eq!(grants.waiting[0].reason, WaitReason::Coming { workers: 2 });
//!
//! // A mini-batch of the first job has ended. The leader has more workers than allowed, so that it gives one back. It
//! // reports how many workers it gave back in total, and what the attempt used.
//! now += 10 * second;
//! let one = Resources { workers: 1, memory: 4 << 30, cpu: 1000, ..Resources::default() };
//! let usage = Usage { resources: one, wall: 10 * second, cpu_time: 9 * second, ..Usage::default() };
//! shares.used(&"physics".into(), Some(&"ada".into()), &usage, now)?;
//! shares.gave_back(&"first".into(), 1, now)?;
//! let grants = shares.share(now);
//! assert_eq!((grants.running[0].allowed, grants.running[0].held), (2, 3));
//! assert_eq!((grants.running[1].job.as_str(), grants.running[1].added), ("second", 1));
//!
//! // Few mini-batches remain, and then the job ends.
//! shares.set_most_workers(&"first".into(), 1)?;
//! shares.end(&"first".into())?;
//! assert_eq!(shares.share(now).running[0].allowed, 3);
//!
//! // The server restarts with an old state. Each leader reports what it knows. Unknown jobs are submitted again first.
//! let mut shares: Shares = serde_json::from_str(&stored)?;
//! shares.set_tenant(&"biology".into(), TenantSettings::default());
//! shares.submit(request("second", "biology"), now)?;
//! shares.reconnected(&"second".into(), 3, 0, now)?;
//! shares.end(&"first".into())?;
//! assert_eq!(shares.share(now).running[0].granted, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the leader of a job does
//!
//! A leader has received workers (`granted`), and has given back workers. The difference is what it holds. It starts a
//! worker only if it holds one that it has not started. After each mini-batch that ends, it compares what it holds with
//! `allowed`. If it holds more, it stops the worker and reports that it gave one back. It also gives back workers for
//! which it has no mini-batches. So no running mini-batch is ever stopped, and the shares converge within the time of
//! the longest mini-batch. Both numbers are totals, so that a message may be lost, repeated or late.
//!
//! # Who gets what
//!
//! 1. **Hard quotas** limit each tenant. A quota of a month that is used up lets running mini-batches end. A soft quota
//!    only reports.
//! 2. **Guarantees** come first: each tenant gets the part of its guarantee for which it has work.
//! 3. **Fair shares** follow: the part of the cluster that a tenant's weight is of the weights of all tenants that have
//!    jobs. What counts is the dominant share: the largest part that a tenant has of any resource. The tenant with the
//!    smallest share by weight gets the next worker (weighted dominant-resource fairness with progressive filling).
//! 4. **Borrowing**: what is left goes to all tenants in the same order, beyond their fair shares.
//! 5. A **reservation for newcomers** stays free, and only the first job of a tenant may use it. It is
//!    `(r/100)^n` of the cluster while `n` tenants have jobs, rounded down. It is dropped if it is less than one worker.
//! 6. Between equal shares, the tenant with the least **decayed usage** by weight comes first. A tenant keeps a worker that
//!    it already has for a time slice, so that workers do not change owners with each mini-batch.
//! 7. Inside a tenant, the highest **class** comes first: the job's priority, and one class more for each 6 hours without
//!    workers. In a class, the **users** of the tenant share as tenants do, with equal weights. The jobs of a user come in
//!    order of submission, and an earlier job takes all the workers that it can use.
//! 8. A job with a **minimum** of workers starts with all of them at once. What becomes free is kept for it meanwhile. If
//!    the minimum exceeds the tenant's fair share, the job can only borrow. After it has waited for one step of ageing, its
//!    tenant may exceed its fair share for it.
//!
//! # What it does not know
//!
//! The machine sees the cluster as one pool. It does not know whether a worker fits on one node: the nodes decide where
//! a worker runs. It does not know how far a mini-batch is, and never stops one.
//!
//! # Modules
//!
//! `shares` is the machine, `state` what it remembers, and `plan` decides. All numbers are integers, and nothing depends
//! on the order of a hash map, so that the same events lead to the same grants on all machines.

mod calendar;
mod error;
mod grants;
mod job;
mod names;
mod plan;
mod quotas;
mod resources;
mod settings;
mod shares;
#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod tests;
mod usage;

pub use error::ShareError;
pub use grants::{Grant, Grants, TenantShare, WaitReason, WaitingJob};
pub use job::{JobRequest, Priority};
pub use names::{GpuKind, JobId, TenantId, UserId};
pub use quotas::{Limit, Quota, QuotaExcess, QuotaNotice, Quotas, Strictness};
pub use resources::{Resource, Resources, SlotSize};
pub use settings::{ShareSettings, TenantSettings};
pub use shares::Shares;
pub use usage::Usage;
