//! Frees the disk space that was reserved for the end of a job, so that the reporters can use it in
//! their order.

use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::JobDir;
use std::io;
use std::path::PathBuf;

/// Frees the reserved space when the job ends. This reporter comes before all reporters that need
/// the space. They then use it in their order, each as much as it needs. If the space were freed
/// later, the reporter with the most waiting text could take all of it.
pub(super) struct DiskReserveRelease(PathBuf);

impl DiskReserveRelease {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self(dir.reserve())
    }
}

impl Reporter for DiskReserveRelease {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        if matches!(event.kind, EventKind::JobFinished { .. }) {
            // The file is missing if no space could be reserved, or if the job completed.
            let _ = std::fs::remove_file(&self.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_disk_reserve_is_freed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        std::fs::create_dir_all(dir.work()).unwrap();
        std::fs::write(dir.reserve(), "room").unwrap();
        let mut release = DiskReserveRelease::new(&dir);
        for event in samples::job() {
            assert!(dir.reserve().exists());
            release.on_event(&event).unwrap();
        }
        assert!(!dir.reserve().exists());
    }
}
