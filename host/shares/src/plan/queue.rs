//! The order of jobs inside a tenant: class of priority, then the users' shares, then first come.

use super::table::Table;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

/// The jobs of all tenants in their order.
#[derive(Debug)]
pub(super) struct Queues {
    /// Indices of jobs: the jobs of each tenant in turn, by class and submission.
    pub(super) arrivals: Vec<usize>,
    /// The same, but the jobs of a [`UserJobs`] follow each other.
    order: Vec<usize>,
    /// For each tenant its classes, the highest first.
    tenants: Vec<Vec<Class>>,
}

/// The jobs of one class, grouped by user.
type Class = Vec<UserJobs>;

#[derive(Debug)]
struct UserJobs {
    /// A part of [`Queues::order`].
    jobs: Range<usize>,
}

/// A walk through the jobs of a tenant. It visits each job until that job gets no more workers.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// How many classes have begun.
    classes: usize,
    /// How many jobs of each user of the current class are done.
    done: Vec<usize>,
    /// The users of the current class that have jobs left, by share, usage and first come.
    heap: BinaryHeap<Reverse<(UserKey, usize)>>,
}

/// The dominant share, the usage and the sequence of the first job.
type UserKey = (u64, i128, u64);

impl Queues {
    pub(super) fn new(table: &Table<'_>) -> Self {
        let arrivals = arrivals(table);
        let mut order = arrivals.clone();
        // Most classes have few users, and jobs of one user keep their order.
        let same_class = |a: &usize, b: &usize| {
            let a = &table.jobs[*a];
            let b = &table.jobs[*b];
            (a.tenant, a.class) == (b.tenant, b.class)
        };
        for class in order.chunk_by_mut(same_class) {
            class.sort_by_key(|index| table.jobs[*index].user);
        }
        let mut tenants: Vec<Vec<Class>> = table.tenants.iter().map(|_| Vec::new()).collect();
        let mut last = None;
        for (position, index) in order.iter().enumerate() {
            let job = &table.jobs[*index];
            let classes = &mut tenants[job.tenant];
            if last.is_none_or(|(tenant, class, _)| (tenant, class) != (job.tenant, job.class)) {
                classes.push(Class::new());
            }
            if let Some(class) = classes.last_mut() {
                if last != Some((job.tenant, job.class, job.user)) {
                    class.push(UserJobs { jobs: position..position });
                }
                if let Some(user) = class.last_mut() {
                    user.jobs.end = position + 1;
                }
            }
            last = Some((job.tenant, job.class, job.user));
        }
        Self { arrivals, order, tenants }
    }

    /// The job that is next. `None` if the walk is over.
    pub(super) fn next(&self, walk: &mut Walk, tenant: usize, table: &Table<'_>) -> Option<usize> {
        while walk.heap.is_empty() {
            let class = self.tenants[tenant].get(walk.classes)?;
            walk.classes += 1;
            walk.done = vec![0; class.len()];
            walk.heap = (0..class.len())
                .filter_map(|at| Some(Reverse((self.key(walk, tenant, at, table)?, at))))
                .collect();
        }
        let Reverse((_, at)) = walk.heap.peek()?;
        self.job(walk, tenant, *at)
    }

    /// Goes on after the job that was next. `is_done`: whether this job gets no more workers. If it is not, it has got
    /// workers.
    pub(super) fn go_on(&self, walk: &mut Walk, tenant: usize, table: &Table<'_>, is_done: bool) {
        let Some(Reverse((_, at))) = walk.heap.peek() else { return };
        let at = *at;
        walk.done[at] += usize::from(is_done);
        let key = self.key(walk, tenant, at, table);
        if let Some(mut top) = walk.heap.peek_mut() {
            match key {
                Some(key) => *top = Reverse((key, at)),
                None => drop(PeekMut::pop(top)),
            }
        }
    }

    /// The next job of a user of the current class.
    fn job(&self, walk: &Walk, tenant: usize, at: usize) -> Option<usize> {
        let jobs = &self.tenants[tenant][walk.classes - 1][at].jobs;
        self.order[jobs.clone()].get(walk.done[at]).copied()
    }

    /// `None` if the user has no jobs left in the current class.
    fn key(&self, walk: &Walk, tenant: usize, at: usize, table: &Table<'_>) -> Option<UserKey> {
        let job = &table.jobs[self.job(walk, tenant, at)?];
        let user = &table.users[job.user];
        let usage = i128::from(user.usage) - i128::from(job.bonus(&table.sizes[job.size]));
        Some((user.dominant, usage, job.sequence))
    }
}

/// The jobs of each tenant in turn, by class and submission.
fn arrivals(table: &Table<'_>) -> Vec<usize> {
    let mut tenants: Vec<Vec<(Reverse<u64>, u64, usize)>> = vec![Vec::new(); table.tenants.len()];
    for (index, job) in table.jobs.iter().enumerate() {
        tenants[job.tenant].push((Reverse(job.class), job.sequence, index));
    }
    tenants.iter_mut().for_each(|jobs| jobs.sort_unstable());
    tenants.into_iter().flatten().map(|(.., index)| index).collect()
}
