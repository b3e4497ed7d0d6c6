//! Decides which workers jobs may start now, although other jobs have not given back theirs yet.

use super::dimensions::{add, fitting, subtract};
use super::fill::Step;
use super::table::Table;

/// Returns how many workers each job may start in addition to those that it holds. A job never gets more than the plan
/// says, and never what another job still holds.
///
/// Follows the steps of the plan. If a worker does not fit yet, later steps cannot take what it waits for.
pub(super) fn hand_out(table: &mut Table<'_>, steps: &[Step]) -> Vec<u64> {
    let mut free = free(table);
    let nothing = vec![0; free.len()];
    let mut added = vec![0; table.jobs.len()];
    // What the steps so far give to each job.
    let mut planned = vec![0; table.jobs.len()];
    for step in steps {
        let job = &table.jobs[step.job];
        planned[step.job] += step.workers;
        let has = job.held + added[step.job];
        let wanted = planned[step.job].saturating_sub(has);
        if wanted == 0 {
            continue;
        }
        let need = &table.sizes[job.size].need;
        let tenant = &mut table.tenants[job.tenant];
        let mut workers = fitting(&nothing, need, wanted, &free);
        workers = fitting(&tenant.held, need, workers, &tenant.limits);
        let lacks_place = has == 0 && tenant.held_jobs >= tenant.jobs_limit;
        if lacks_place || has + workers < job.minimum {
            workers = 0;
        }
        if has == 0 && workers > 0 {
            tenant.held_jobs += 1;
            tenant.queued_jobs -= 1;
        }
        add(&mut tenant.held, need, workers);
        added[step.job] += workers;
        subtract(&mut free, need, wanted);
    }
    added
}

/// What jobs do not hold. Nothing of a resource is free if jobs hold more than the cluster has.
fn free(table: &Table<'_>) -> Vec<u64> {
    let mut free = table.capacity.clone();
    for tenant in &table.tenants {
        subtract(&mut free, &tenant.held, 1);
    }
    free
}
