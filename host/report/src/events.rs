//! `logs/sys/events.jsonl`: every event unchanged, one JSON object per line.

use super::budget::ReportBudget;
use super::log_file::LogFile;
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::JobDir;
use std::io;

/// Writes `logs/sys/events.jsonl`.
pub(super) struct EventWriter {
    file: LogFile,
    line: Vec<u8>,
    budget: ReportBudget,
    /// Whether the budget is used up.
    is_cut: bool,
}

impl EventWriter {
    pub(super) fn new(dir: &JobDir, budget: &ReportBudget) -> Self {
        let file = LogFile::json(dir.events()).with_budget(budget);
        Self { file, line: Vec::new(), budget: budget.clone(), is_cut: false }
    }
}

impl EventWriter {
    fn encode(&mut self, event: &Event) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, event)?;
        self.line.push(b'\n');
        Ok(())
    }
}

impl Reporter for EventWriter {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let is_end = matches!(event.kind, EventKind::JobFinished { .. });
        // These events are few, and the commands that read the file need them.
        let is_kept = is_end
            || matches!(event.kind, EventKind::JobStarted { .. } | EventKind::WindingDown { .. });
        if self.is_cut && !is_kept {
            self.budget.leave_out();
            return Ok(());
        }
        self.encode(event)?;
        if is_kept {
            self.file.write(&self.line)?;
        } else if !self.file.write_within(&self.line)? {
            self.is_cut = true;
            // The notice replaces the first event that is left out.
            let message =
                "limits.reports was reached: the events from here to the job's end are left \
                           out; output and journal are complete"
                    .to_owned();
            self.encode(&Event { kind: EventKind::Notice { message }, ..event.clone() })?;
            self.file.write(&self.line)?;
        }
        if is_end { self.file.flush() } else { Ok(()) }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        self.file.tick()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn events_are_read_back_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut events = EventWriter::new(&dir, &ReportBudget::default());
        for event in samples::job() {
            events.on_event(&event).unwrap();
        }
        let text = std::fs::read_to_string(dir.events()).unwrap();
        let read: Vec<Event> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, samples::job());
    }

    /// The last event is always written, and so is a notice that events are missing.
    #[test]
    fn events_over_budget_are_dropped_except_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let budget = ReportBudget::new(crate::model::ByteSize(2000));
        let mut events = EventWriter::new(&dir, &budget);
        let all = samples::job();
        all.iter().for_each(|event| events.on_event(event).unwrap());
        let text = std::fs::read_to_string(dir.events()).unwrap();
        let read: Vec<Event> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(read.len() < all.len() && text.len() < 5000, "{text}");
        assert_eq!(read.last(), all.last());
        let is_the_notice = |event: &Event| matches!(&event.kind, EventKind::Notice { message } if message.contains("limits.reports"));
        assert_eq!(read.iter().filter(|event| is_the_notice(event)).count(), 1, "{text}");
    }

    /// Most jobs have no models. Their events have a short `null` instead of the fields of inference.
    #[test]
    fn inference_is_null_if_there_is_none() {
        let none = samples::succeeded(1, 1, Vec::new());
        let some = samples::with_inference(none.clone(), samples::inference());
        for (kind, begin) in [(none, "null"), (some, r#"{"calls":3,"#)] {
            let event = samples::event(0, kind);
            let text = serde_json::to_string(&event).unwrap();
            assert!(text.contains(&format!(r#""inference":{begin}"#)), "{text}");
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
        }
        // Earlier versions wrote zeros instead of null.
        let zeros = serde_json::to_string(&crate::model::InferenceStats::default()).unwrap();
        let event = samples::event(0, samples::succeeded(1, 1, Vec::new()));
        let text = serde_json::to_string(&event).unwrap();
        let text = text.replace(r#""inference":null"#, &format!(r#""inference":{zeros}"#));
        assert!(text.contains(r#""calls":0"#), "{text}");
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }
}
