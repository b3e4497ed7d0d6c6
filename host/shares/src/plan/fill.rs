//! Decides how many workers each job shall have, without regard to what jobs hold now: progressive filling.

use super::dimensions::{add, exceeded};
use super::queue::{Queues, Walk};
use super::table::{Refusal, Table};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What tenants may get in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// What they are guaranteed.
    Guaranteed,
    /// What their weights entitle them to.
    Fair,
    /// What other tenants leave.
    Borrowed,
}

/// Workers that a job gets before all workers of later steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) job: usize,
    pub(super) workers: u64,
}

/// As [`PlannedTenant::key`](super::table::PlannedTenant::key) returns it.
type TenantKey = (u64, i128);

/// A tenant in one phase.
#[derive(Debug, Default)]
struct Turn {
    walk: Walk,
    /// Sizes of workers, each with the number of workers that was refused and why. The jobs that follow with this size
    /// and as many workers are refused as well.
    refused: Vec<(usize, u64, Refusal)>,
}

/// How many sizes a turn remembers. Most tenants have few sizes.
const MAX_REFUSED: usize = 8;

/// Progressive filling.
#[derive(Debug)]
pub(super) struct Fill<'t, 'a> {
    table: &'t mut Table<'a>,
    /// What all jobs together get of each resource.
    pub(super) taken: Vec<u64>,
    /// In the order in which jobs get their workers.
    pub(super) steps: Vec<Step>,
}

impl<'t, 'a> Fill<'t, 'a> {
    pub(super) fn run(table: &'t mut Table<'a>, queues: &Queues) -> (Vec<u64>, Vec<Step>) {
        let taken = vec![0; table.capacity.len()];
        let mut fill = Self { table, taken, steps: Vec::new() };
        for phase in [Phase::Guaranteed, Phase::Fair, Phase::Borrowed] {
            fill.run_phase(queues, phase);
        }
        (fill.taken, fill.steps)
    }

    fn run_phase(&mut self, queues: &Queues, phase: Phase) {
        let tenants = 0..self.table.tenants.len();
        let mut turns: Vec<Turn> = tenants.clone().map(|_| Turn::default()).collect();
        let mut heap = BinaryHeap::new();
        for tenant in tenants.filter(|tenant| self.has_part(*tenant, phase)) {
            if let Some(index) = queues.next(&mut turns[tenant].walk, tenant, self.table) {
                heap.push(Reverse((self.key(index), tenant)));
            }
        }
        while let Some(Reverse((key, tenant))) = heap.pop() {
            if let Some(key) = self.give(queues, &mut turns[tenant], key, tenant, phase) {
                heap.push(Reverse((key, tenant)));
            }
        }
    }

    fn has_part(&self, tenant: usize, phase: Phase) -> bool {
        let tenant = &self.table.tenants[tenant];
        let is_guaranteed = || tenant.guaranteed.iter().any(|amount| *amount < u64::MAX);
        tenant.active_jobs > 0 && (phase != Phase::Guaranteed || is_guaranteed())
    }

    /// The key of a tenant whose next job is this one.
    fn key(&self, index: usize) -> TenantKey {
        let job = &self.table.jobs[index];
        let tenant = &self.table.tenants[job.tenant];
        tenant.key(job, &self.table.sizes[job.size])
    }

    /// Gives workers to the tenant's next job, or finds that the tenant's turn is over because its next job has a
    /// larger key. Returns the tenant's new key, or `None` if the tenant has no jobs left.
    fn give(
        &mut self,
        queues: &Queues,
        turn: &mut Turn,
        key: TenantKey,
        tenant: usize,
        phase: Phase,
    ) -> Option<TenantKey> {
        loop {
            let index = queues.next(&mut turn.walk, tenant, self.table)?;
            let next_key = self.key(index);
            if next_key > key {
                return Some(next_key);
            }
            let refusal = self.refuse(index, turn, phase);
            if let Some(refusal) = refusal {
                self.table.jobs[index].refusal = refusal;
            } else {
                self.take(index, self.table.jobs[index].step());
            }
            queues.go_on(&mut turn.walk, tenant, self.table, refusal.is_some());
            if refusal.is_none() {
                let next = queues.next(&mut turn.walk, tenant, self.table);
                return next.map(|index| self.key(index));
            }
        }
    }

    /// As [`Self::check`], but faster if a job of the same size was refused.
    fn refuse(&self, index: usize, turn: &mut Turn, phase: Phase) -> Option<Refusal> {
        let job = &self.table.jobs[index];
        if job.target >= job.most {
            return Some(Refusal::NothingToDo);
        }
        let workers = job.step();
        let mut refused = turn.refused.iter();
        let same = refused.find(|(size, least, _)| *size == job.size && *least <= workers);
        if let Some((.., refusal)) = same {
            return Some(*refusal);
        }
        let refusal = self.check(index, workers, phase)?;
        let holds_for_size = match refusal {
            // The tenant's first worker may be beyond its fair share.
            Refusal::Phase => self.table.tenants[job.tenant].portion.workers > 0,
            Refusal::NothingToDo | Refusal::RunningJobs => false,
            Refusal::Limit(_) | Refusal::Month(_) | Refusal::Capacity(_) | Refusal::Reserved(_) => {
                true
            }
        };
        if holds_for_size && turn.refused.len() < MAX_REFUSED {
            turn.refused.push((job.size, workers, refusal));
        }
        Some(refusal)
    }

    fn take(&mut self, job: usize, workers: u64) {
        self.table.take(job, workers);
        add(&mut self.taken, &self.table.sizes[self.table.jobs[job].size].need, workers);
        match self.steps.last_mut() {
            Some(last) if last.job == job => last.workers += workers,
            _ => self.steps.push(Step { job, workers }),
        }
    }

    /// Why the job gets no more workers in this phase. Once there is a reason, it stays until the end of the phase.
    fn check(&self, index: usize, workers: u64, phase: Phase) -> Option<Refusal> {
        let job = &self.table.jobs[index];
        let tenant = &self.table.tenants[job.tenant];
        let size = &self.table.sizes[job.size];
        if let Some(sum) = tenant.used_up(size) {
            return Some(Refusal::Month(sum));
        }
        if job.target == 0 && tenant.target_jobs >= tenant.jobs_limit {
            return Some(Refusal::RunningJobs);
        }
        if let Some(at) = exceeded(&tenant.target, &size.need, workers, &tenant.limits) {
            return Some(Refusal::Limit(at));
        }
        let is_first = tenant.portion.workers == 0;
        let is_in_phase = match phase {
            Phase::Guaranteed => {
                is_guaranteed(&tenant.target, &size.need, workers, &tenant.guaranteed)
            }
            Phase::Fair => {
                let is_fair = tenant.portion.dominant_with(size, workers) <= tenant.fair;
                is_fair || (is_first && job.is_overdue)
            }
            Phase::Borrowed => true,
        };
        if !is_in_phase {
            return Some(Refusal::Phase);
        }
        if let Some(at) = exceeded(&self.taken, &size.need, workers, &self.table.capacity) {
            return Some(Refusal::Capacity(at));
        }
        // The first job of a tenant is what the reservation is for.
        if is_first || phase == Phase::Guaranteed {
            return None;
        }
        exceeded(&self.taken, &size.need, workers, &self.table.unreserved).map(Refusal::Reserved)
    }
}

/// Whether more workers are within the guarantee. An amount of `u64::MAX` guarantees nothing.
fn is_guaranteed(target: &[u64], need: &[u64], workers: u64, guaranteed: &[u64]) -> bool {
    let mut amounts = guaranteed.iter().zip(need);
    amounts.any(|(amount, need)| *amount < u64::MAX && *need > 0)
        && exceeded(target, need, workers, guaranteed).is_none()
}
