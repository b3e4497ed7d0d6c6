//! The rows and files that nodes of other machines leave as objects in the job's store, until the leader has read them.
//! They are removed when the job has completed: an earlier leader that is still alive must not remove
//! what nodes store for a later one.

use sandmill_commit_log::{LogStore, remove_objects};
use std::io;

/// The folder of these objects, in the folder of a run. It has a folder for each incarnation of a node.
pub const STORED_ROWS: &str = "rows";

/// Removes the rows and files that nodes of a run left in the job's store.
///
/// # Errors
/// If the store fails.
pub(super) fn remove_stored_rows(store: &dyn LogStore, run: &str) -> io::Result<()> {
    remove_below(store, &format!("{run}/{STORED_ROWS}"))
}

/// Removes the objects in the folders of this folder.
pub(super) fn remove_below(store: &dyn LogStore, folder: &str) -> io::Result<()> {
    for inner in store.folders(folder)? {
        let inner = format!("{folder}/{inner}");
        remove_objects(store, &inner, &store.list(&inner)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_commit_log::FolderStore;

    #[test]
    fn the_rows_of_all_nodes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = FolderStore::new(dir.path().canonicalize().unwrap());
        remove_stored_rows(&store, "run").unwrap();
        for name in ["run/rows/1-a/0", "run/rows/1-a/1", "run/rows/2-b/0", "other/rows/1-a/0"] {
            store.make_folder(name.rsplit_once('/').unwrap().0).unwrap();
            store.create(name, b"x").unwrap();
        }
        remove_stored_rows(&store, "run").unwrap();
        let left = ["run/rows/1-a", "run/rows/2-b", "other/rows/1-a"];
        assert_eq!(left.map(|folder| store.list(folder).unwrap().len()), [0, 0, 1]);
    }
}
