//! Numbers of nodes, and the proof that a machine has the job's store. Each number is an object in the store, which is
//! created only if it is absent. So no two leaders ever give out the same number.

use crate::engine::LogStore;
use crate::model::NodeId;
use std::io;

/// The folder of the numbers, in the job's store.
fn folder(run: &str) -> String {
    format!("{run}/workers/nodes")
}

/// Takes the lowest number from `from` on that no node has had, and writes the proof into its object.
///
/// # Errors
/// If the store cannot be written, or if there are no more numbers.
pub(super) fn take_number(
    store: &dyn LogStore,
    run: &str,
    from: u32,
    proof: &str,
) -> io::Result<NodeId> {
    let folder = folder(run);
    store.make_folder(&folder)?;
    for number in from.. {
        let node = NodeId(number);
        if node.first_worker().is_none() {
            break;
        }
        if store.create(&format!("{folder}/{node}"), proof.as_bytes())? {
            return Ok(node);
        }
    }
    Err(io::Error::other("the job has had too many nodes"))
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
    let found = store.read(&format!("{}/{node}", folder(run)))?;
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
        let take = |from, proof| take_number(&*store, "run", from, proof).unwrap();
        let sees = |number, proof| is_shared(&*store, "run", NodeId(number), proof).unwrap();
        assert_eq!(take(0, "a"), NodeId(0));
        assert_eq!(take(0, "b"), NodeId(1));
        assert_eq!(take(2, "c"), NodeId(2));
        assert!(sees(1, "b") && !sees(1, "a") && !sees(7, "a"));
        assert!(was_given(&*store, "run", NodeId(1)).unwrap());
        assert!(!was_given(&*store, "run", NodeId(7)).unwrap());
    }
}
