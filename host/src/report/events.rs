//! `logs/sys/events.jsonl`: every event as it is, one JSON object a line.

use super::log_file::LogFile;
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::JobDir;
use std::io;

/// Writes the raw events.
pub(super) struct Events {
    file: LogFile,
    line: Vec<u8>,
}

impl Events {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self { file: LogFile::new(dir.events(), ""), line: Vec::new() }
    }
}

impl Reporter for Events {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, event)?;
        self.line.push(b'\n');
        self.file.write(&self.line)?;
        if matches!(event.kind, EventKind::JobFinished { .. }) { self.file.flush() } else { Ok(()) }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        self.file.tick()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn events_come_back_as_they_went_in() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut events = Events::new(&dir);
        for event in samples::job() {
            events.on_event(&event).unwrap();
        }
        let text = std::fs::read_to_string(dir.events()).unwrap();
        let read: Vec<Event> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, samples::job());
    }

    /// Most jobs compute with no models: their events are the shorter for it.
    #[test]
    fn inference_is_told_where_there_is_some() {
        let none = samples::succeeded(1, 1, Vec::new());
        let some = samples::inferring(none.clone(), samples::inference());
        for (kind, begin) in [(none, "null"), (some, r#"{"calls":3,"#)] {
            let event = samples::event(0, kind);
            let text = serde_json::to_string(&event).unwrap();
            assert!(text.contains(&format!(r#""inference":{begin}"#)), "{text}");
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
        }
        // As they were written before.
        let zeros = serde_json::to_string(&crate::model::InferenceStats::default()).unwrap();
        let event = samples::event(0, samples::succeeded(1, 1, Vec::new()));
        let text = serde_json::to_string(&event).unwrap();
        let text = text.replace(r#""inference":null"#, &format!(r#""inference":{zeros}"#));
        assert!(text.contains(r#""calls":0"#), "{text}");
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }
}
