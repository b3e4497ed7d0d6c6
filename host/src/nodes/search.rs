//! Looks for jobs in job stores that agents have led, and that have no leader now.

use super::agent_options::AgentOptions;
use crate::bus::{BUS_PROTOCOL, JobToLead, Leads, SourceToFetch};
use crate::engine::{OldRuns, OrphanedJob, SearchedStore, orphaned_jobs};
use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long a node of such a job may be silent.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a thread that looks for such jobs until the receiver is dropped. A store that hangs then does not hold up
/// the agent.
///
/// # Errors
/// If the thread cannot be started.
pub(super) fn search(
    stores: Vec<SearchedStore>,
    options: &AgentOptions,
) -> io::Result<Receiver<OrphanedJob>> {
    let (sender, found) = channel();
    if stores.is_empty() {
        return Ok(found);
    }
    let say = options.say.clone();
    let thread = thread::Builder::new().name("stores".to_owned());
    thread.spawn(move || {
        let mut old = OldRuns::new();
        let mut said = BTreeSet::new();
        loop {
            for store in &stores {
                match orphaned_jobs(store, &mut old) {
                    Ok(jobs) => {
                        for job in jobs {
                            if sender.send(job).is_err() {
                                return;
                            }
                        }
                    }
                    Err(error) if said.insert(store.to_string()) => {
                        say(&format!("warning: the job store {store} cannot be read: {error}"));
                    }
                    Err(_) => {}
                }
            }
            thread::sleep(INTERVAL);
        }
    })?;
    Ok(found)
}

/// The job as its last leader would have described it. That leader no longer does.
pub(super) fn news_of(job: OrphanedJob) -> Leads {
    let OrphanedJob { name, folder, run, job_file, store, tenant } = job;
    let source = job_file.source.map(|content| SourceToFetch { store, tenant, content });
    Leads {
        protocol: BUS_PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run,
        epoch: 0,
        machine: String::new(),
        agent: None,
        submission: None,
        job: JobToLead {
            job: name,
            file: job_file.path,
            overrides: job_file.overrides,
            store: folder,
            source,
            node_timeout: NODE_TIMEOUT,
        },
        successors: Some(Vec::new()),
    }
}
