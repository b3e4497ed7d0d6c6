//! Notices a process that waits to lead the job.

use std::fs;
use std::path::Path;

/// What a process that waits for the lead has written last.
#[derive(Debug, Default)]
pub(super) struct SuccessorWatch {
    seen: Option<Vec<u8>>,
}

impl SuccessorWatch {
    /// Whether such a process has written to its file since the last call, which named the file, too. `None` if this
    /// leader does not want to know it.
    pub(super) fn has_written(&mut self, file: Option<&Path>) -> bool {
        let content = file.and_then(|file| fs::read(file).ok());
        let before = std::mem::replace(&mut self.seen, content);
        before.is_some() && self.seen.is_some() && before != self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_still_waits_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("successor");
        let mut watch = SuccessorWatch::default();
        assert!(!watch.has_written(Some(&file)));
        // The file may be old.
        fs::write(&file, "1").unwrap();
        assert!(!watch.has_written(Some(&file)));
        assert!(!watch.has_written(Some(&file)));
        fs::write(&file, "2").unwrap();
        assert!(!watch.has_written(None), "the leader reaches its nodes again");
        assert!(!watch.has_written(Some(&file)));
        fs::write(&file, "3").unwrap();
        assert!(watch.has_written(Some(&file)));
    }
}
