//! Notices a process that waits to lead the job.

use super::saved::SavedResults;
use std::fs;
use std::path::Path;

/// What a process that waits for the lead has written last.
#[derive(Debug, Default)]
pub(super) struct SuccessorWatch {
    seen: Option<Vec<u8>>,
}

impl SuccessorWatch {
    /// Whether such a process has written to its file, or has shown itself in the store, since the last call, which named
    /// the file, too. `None` if this leader does not want to know it.
    pub(super) fn has_written(
        &mut self,
        file: Option<&Path>,
        store: Option<&SavedResults>,
    ) -> bool {
        let content = file.and_then(|file| match store {
            Some(store) => store.successors(),
            None => fs::read(file).ok(),
        });
        let before = std::mem::replace(&mut self.seen, content);
        before.is_some() && self.seen.is_some() && before != self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::show_successor;
    use sandmill_commit_log::{FolderStore, LogStore};
    use std::sync::Arc;

    #[test]
    fn only_a_process_that_still_waits_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("successor");
        let mut watch = SuccessorWatch::default();
        assert!(!watch.has_written(Some(&file), None));
        // The file may be old.
        fs::write(&file, "1").unwrap();
        assert!(!watch.has_written(Some(&file), None));
        assert!(!watch.has_written(Some(&file), None));
        fs::write(&file, "2").unwrap();
        assert!(!watch.has_written(None, None), "the leader reaches its nodes again");
        assert!(!watch.has_written(Some(&file), None));
        fs::write(&file, "3").unwrap();
        assert!(watch.has_written(Some(&file), None));
        // Without a shared folder, it shows itself in the store.
        let store = Arc::new(FolderStore::new(dir.path().canonicalize().unwrap()));
        let saved = SavedResults::new(store.clone(), "run");
        let mut looks = || watch.has_written(Some(&file), Some(&saved));
        assert!(!looks());
        show_successor(&*store, "run");
        assert!(!looks(), "it may be old");
        show_successor(&*store, "run");
        assert!(looks());
        assert_eq!(store.list("run/successor").unwrap().len(), 1);
    }
}
