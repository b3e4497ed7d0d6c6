//! The room that was set aside for the end of a job: at the end it is given back, to the reports in their order.

use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::JobDir;
use std::io;
use std::path::PathBuf;

/// Gives it back. Comes before all that need it, and while none of them writes: who holds back most would take
/// all of it before the others.
pub(super) struct Room(PathBuf);

impl Room {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self(dir.reserve())
    }
}

impl Reporter for Room {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        if matches!(event.kind, EventKind::JobFinished { .. }) {
            // There is none where nothing could be set aside, and none after a job that is completed.
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
    fn room_is_there_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        std::fs::create_dir_all(dir.work()).unwrap();
        std::fs::write(dir.reserve(), "room").unwrap();
        let mut room = Room::new(&dir);
        for event in samples::job() {
            assert!(dir.reserve().exists());
            room.on_event(&event).unwrap();
        }
        assert!(!dir.reserve().exists());
    }
}
