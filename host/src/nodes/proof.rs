//! Numbers of nodes, and the proof that a machine has the job's store. Each number is an object in the store, which is
//! created only if it is absent. So no two leaders ever give out the same number.

use crate::engine::LogStore;
use crate::model::NodeId;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most bytes of a proof.
const MAX_PROOF: u64 = 1024;

/// The folder of the numbers, in the job's store.
fn folder(run: &str) -> String {
    format!("{run}/workers/nodes")
}

/// Takes a number that no node has had, and writes the proof into its object. `next`: the number that is tried first. All
/// callers share it, so that each of them tries other numbers.
///
/// # Errors
/// If the store cannot be written, or if there are no more numbers.
pub(super) fn take_number(
    store: &dyn LogStore,
    run: &str,
    next: &AtomicU32,
    proof: &str,
) -> io::Result<NodeId> {
    let folder = folder(run);
    store.make_folder(&folder)?;
    loop {
        let node = NodeId(next.fetch_add(1, Ordering::Relaxed));
        if node.first_worker().is_none() {
            return Err(io::Error::other("the job has had too many nodes"));
        }
        if store.create(&format!("{folder}/{node}"), proof.as_bytes())? {
            return Ok(node);
        }
        // An earlier leader has given out this number, and probably more.
        let numbers = store.list(&folder)?;
        let highest = numbers.iter().filter_map(|number| number.parse::<u32>().ok()).max();
        next.fetch_max(highest.map_or(0, |highest| highest.saturating_add(1)), Ordering::Relaxed);
    }
}

/// The object that records which backends compute with the job's models, once a node has joined.
fn backends_object(run: &str) -> String {
    format!("{}/backends", folder(run))
}

/// Which backends compute with the job's models. `None` if no node has joined.
///
/// # Errors
/// If the store cannot be read.
pub(super) fn recorded_backends(store: &dyn LogStore, run: &str) -> io::Result<Option<Vec<u8>>> {
    store.read(&backends_object(run))
}

/// Records which backends compute with the job's models, unless that was done.
///
/// # Errors
/// If the store cannot be written.
pub(super) fn record_backends(store: &dyn LogStore, run: &str, bytes: &[u8]) -> io::Result<()> {
    store.make_folder(&folder(run))?;
    store.create(&backends_object(run), bytes).map(drop)
}

/// Whether a node has had this number.
///
/// # Errors
/// If the store cannot be read.
pub(super) fn was_given(store: &dyn LogStore, run: &str, node: NodeId) -> io::Result<bool> {
    let was_given = store.read(&format!("{}/{node}", folder(run)))?.is_some();
    Ok(was_given && node.first_worker().is_some())
}

/// Whether this machine sees the proof in the object of the number.
///
/// # Errors
/// If the object cannot be read.
pub(super) fn is_shared(
    store: &dyn LogStore,
    run: &str,
    node: NodeId,
    proof: &str,
) -> io::Result<bool> {
    let found = store.read_at_most(&format!("{}/{node}", folder(run)), MAX_PROOF)?;
    Ok(found.is_some_and(|found| found == proof.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::folder_objects;

    #[test]
    fn no_number_is_given_out_twice() {
        let dir = tempfile::tempdir().unwrap();
        let store = folder_objects(dir.path(), "job").unwrap();
        let take = |from, proof| take_number(&*store, "run", &AtomicU32::new(from), proof).unwrap();
        let sees = |number, proof| is_shared(&*store, "run", NodeId(number), proof).unwrap();
        assert_eq!(take(0, "a"), NodeId(0));
        assert_eq!(take(0, "b"), NodeId(1));
        assert_eq!(take(2, "c"), NodeId(2));
        let shared = AtomicU32::new(2);
        let takes = || take_number(&*store, "run", &shared, "d").unwrap();
        assert_eq!((takes(), takes()), (NodeId(3), NodeId(4)));
        // A later leader does not try all numbers.
        let tried = AtomicU32::new(0);
        assert_eq!(take_number(&*store, "run", &tried, "e").unwrap(), NodeId(5));
        assert!(sees(1, "b") && !sees(1, "a") && !sees(7, "a"));
        assert!(was_given(&*store, "run", NodeId(1)).unwrap());
        assert!(!was_given(&*store, "run", NodeId(7)).unwrap());
    }
}
