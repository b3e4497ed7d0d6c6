//! The rows and files that nodes of other machines leave as objects in the job's store, until the leader has read them.
//! The leader that ends the job removes the objects that it has not read.

use sandmill_commit_log::{LogStore, remove_objects};
use std::io;

/// The folder of these objects, in the folder of a run. It has a folder for each incarnation of a node.
pub const STORED_ROWS: &str = "rows";

/// Removes the rows and files that nodes of a run left in the job's store. `may_go` decides for each folder of a node,
/// by its name.
///
/// # Errors
/// If the store fails.
pub fn remove_stored_rows(
    store: &dyn LogStore,
    run: &str,
    may_go: &dyn Fn(&str) -> bool,
) -> io::Result<()> {
    remove_below(store, &format!("{run}/{STORED_ROWS}"), may_go)
}

/// Removes the objects in those folders below this one for whose names `may_go` is true.
pub(super) fn remove_below(
    store: &dyn LogStore,
    folder: &str,
    may_go: &dyn Fn(&str) -> bool,
) -> io::Result<()> {
    for inner in store.folders(folder)?.iter().filter(|inner| may_go(inner)) {
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
    fn only_the_rows_of_some_nodes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = FolderStore::new(dir.path().canonicalize().unwrap());
        let all = || {
            Ok::<_, io::Error>(
                store.list("run/rows/1-a")?.len() + store.list("run/rows/2-b")?.len(),
            )
        };
        remove_stored_rows(&store, "run", &|_| true).unwrap();
        for name in ["1-a/0", "1-a/1", "2-b/0"] {
            let name = format!("run/rows/{name}");
            store.make_folder(name.rsplit_once('/').unwrap().0).unwrap();
            store.create(&name, b"x").unwrap();
        }
        remove_stored_rows(&store, "run", &|node| node.starts_with('1')).unwrap();
        assert_eq!(all().unwrap(), 1);
        remove_stored_rows(&store, "run", &|_| true).unwrap();
        assert_eq!(all().unwrap(), 0);
    }
}
