//! The objects in one folder of a store, as a store of their own.

use super::log_store::LogStore;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

/// How many objects are removed at the same time.
const PARALLEL_REMOVALS: usize = 8;

/// The objects in one folder of a store, as a store of their own.
#[derive(Clone, Debug)]
pub struct StoreBelow {
    store: Arc<dyn LogStore>,
    folder: String,
}

impl StoreBelow {
    /// The objects in this folder of the store. The folder need not exist yet.
    pub fn new(store: Arc<dyn LogStore>, folder: String) -> Self {
        Self { store, folder }
    }

    fn name(&self, name: &str) -> String {
        match name {
            "" => self.folder.clone(),
            name => format!("{}/{name}", self.folder),
        }
    }
}

impl LogStore for StoreBelow {
    fn make_folder(&self, folder: &str) -> io::Result<()> {
        self.store.make_folder(&self.name(folder))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.store.create(&self.name(name), bytes)
    }

    fn create_unsynced(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.store.create_unsynced(&self.name(name), bytes)
    }

    fn make_durable(&self, name: &str) -> io::Result<()> {
        self.store.make_durable(&self.name(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.store.remove(&self.name(name))
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.store.read(&self.name(name))
    }

    fn read_range(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        self.store.read_range(&self.name(name), offset, length)
    }

    fn read_at_most(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        self.store.read_at_most(&self.name(name), most)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.store.list(&self.name(folder))
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.store.folders(&self.name(folder))
    }
}

/// Removes the objects of a folder, several at the same time. `names`: their names in the folder.
///
/// # Errors
/// If the store fails. Some objects may be removed then.
pub fn remove_objects(store: &dyn LogStore, folder: &str, names: &[String]) -> io::Result<()> {
    let share = names.len().div_ceil(PARALLEL_REMOVALS).max(1);
    let remove = |names: &[String]| {
        let mut names = names.iter();
        names.try_for_each(|name| store.remove(&format!("{folder}/{name}")))
    };
    thread::scope(|scope| {
        let removing: Vec<_> =
            names.chunks(share).map(|names| scope.spawn(move || remove(names))).collect();
        let mut ended = removing.into_iter().map(|thread| thread.join());
        ended.try_for_each(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder_store::FolderStore;

    #[test]
    fn a_folder_of_a_store_is_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let root: Arc<dyn LogStore> =
            Arc::new(FolderStore::new(dir.path().canonicalize().unwrap()));
        let below = StoreBelow::new(root.clone(), "job".to_owned());
        below.make_folder("runs/log").unwrap();
        for number in 0..20 {
            assert!(below.create(&format!("runs/log/{number}"), b"x").unwrap());
        }
        assert!(!below.create_unsynced("runs/log/7", b"y").unwrap());
        assert_eq!(root.read("job/runs/log/7").unwrap().unwrap(), b"x");
        assert_eq!(below.read_range("runs/log/7", 0, 9).unwrap().unwrap(), b"x");
        assert_eq!(below.folders("").unwrap(), ["runs"]);
        let names = below.list("runs/log").unwrap();
        assert_eq!(names.len(), 20);
        remove_objects(&below, "runs/log", &names).unwrap();
        assert_eq!(root.list("job/runs/log").unwrap(), [""; 0]);
    }
}
