//! Progress on standard error: a bar for a terminal, plain lines for everything else.

use super::counters::{JobCounters, Speed};
use super::notes::NoteLines;
use super::phrases::first_line;
use super::progress_line::{ProgressLine, Unit};
use super::report_paths::ReportPaths;
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// The time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The assumed width of a terminal that does not report it.
const DEFAULT_COLUMNS: usize = 80;
/// A job announces that it is winding down only if this takes longer than this time.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(300);

/// The state that both kinds of progress share.
struct ProgressState {
    counters: JobCounters,
    speed: Speed,
    notes: NoteLines,
    unit: Unit,
    started: Instant,
    winding_down: Option<(Instant, String)>,
    is_finished: bool,
}

impl ProgressState {
    fn new(paths: &ReportPaths) -> Self {
        Self {
            unit: paths.unit,
            counters: JobCounters::default(),
            speed: Speed::default(),
            notes: NoteLines::new(paths.earlier_columns.clone()),
            started: Instant::now(),
            winding_down: None,
            is_finished: false,
        }
    }

    /// Handles an event. Returns the line to print about it; `None` if it gets no line.
    fn update(&mut self, kind: &EventKind) -> Option<String> {
        self.counters.update(kind);
        match kind {
            EventKind::WindingDown { reason } => {
                let line = format!("stopping: {}", first_line(reason));
                self.winding_down = Some((Instant::now(), line));
            }
            EventKind::JobFinished { .. } => self.is_finished = true,
            _ => {}
        }
        self.notes.line(kind)
    }

    /// The current progress line.
    fn line(&mut self) -> ProgressLine<'_> {
        let elapsed = self.started.elapsed().as_secs_f64();
        self.speed.sample(elapsed, &self.counters);
        ProgressLine { counters: &self.counters, speed: &self.speed, unit: self.unit, elapsed }
    }

    /// The line that says that the job is winding down. It is shown once, and only if winding down takes
    /// time.
    fn announcement(&mut self) -> Option<String> {
        self.winding_down
            .take_if(|(since, _)| since.elapsed() >= ANNOUNCE_AFTER)
            .map(|(_, line)| line)
    }
}

/// A bar at the bottom of a terminal. Events only update counters; the tick draws.
pub(super) struct TerminalBar {
    state: ProgressState,
    bar: ProgressBar,
    /// The writer of the lines above the bar.
    out: Box<dyn Write + Send>,
}

impl TerminalBar {
    pub(super) fn new(paths: &ReportPaths, out: Box<dyn Write + Send>) -> Self {
        let style = ProgressStyle::with_template("{msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style);
        Self { state: ProgressState::new(paths), bar, out }
    }

    fn print(&mut self, line: &str) -> io::Result<()> {
        let out = &mut self.out;
        self.bar.suspend(|| out.write_all(format!("{line}\n").as_bytes()))
    }
}

impl Reporter for TerminalBar {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let line = self.state.update(&event.kind);
        if self.state.is_finished {
            self.bar.finish_and_clear();
        }
        line.map_or(Ok(()), |line| self.print(&line))
    }

    fn on_tick(&mut self) -> io::Result<()> {
        if self.state.is_finished {
            return Ok(());
        }
        if let Some(line) = self.state.announcement() {
            self.print(&line)?;
        }
        let columns =
            Term::stderr().size_checked().map_or(DEFAULT_COLUMNS, |(_, columns)| columns.into());
        // Some terminals wrap when the last column is written.
        let line = self.state.line().fitted(columns.saturating_sub(1));
        self.bar.set_message(line);
        if self.bar.is_hidden() {
            // This is the first tick. A job that ends before its first tick never shows a bar.
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            self.bar.tick();
        }
        Ok(())
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.print(line)
    }
}

/// Writes a line every few seconds.
pub(super) struct ProgressLines {
    state: ProgressState,
    out: Box<dyn Write + Send>,
    reported: Instant,
}

impl ProgressLines {
    pub(super) fn new(paths: &ReportPaths, out: Box<dyn Write + Send>) -> Self {
        Self { state: ProgressState::new(paths), out, reported: Instant::now() }
    }
}

impl Reporter for ProgressLines {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match self.state.update(&event.kind) {
            Some(line) => writeln!(self.out, "{line}"),
            None => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        if self.state.is_finished {
            return Ok(());
        }
        if let Some(line) = self.state.announcement() {
            writeln!(self.out, "{line}")?;
        }
        if self.reported.elapsed() >= LINE_EVERY {
            self.reported = Instant::now();
            let line = self.state.line().plain();
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct SharedProgress(Arc<Mutex<Vec<u8>>>);
    impl Write for SharedProgress {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn paths() -> ReportPaths {
        let paths = samples::paths(std::path::Path::new("/nonexistent"));
        ReportPaths { unit: Unit::Files, ..paths }
    }

    #[test]
    fn plain_lines_are_few() {
        let shared = SharedProgress::default();
        let mut lines = ProgressLines::new(&paths(), Box::new(shared.clone()));
        for _ in 0..1000 {
            lines.on_event(&samples::event(0, samples::succeeded(1, 1, Vec::new()))).unwrap();
            lines.on_tick().unwrap();
        }
        assert!(shared.0.lock().unwrap().is_empty(), "a line for each event");
        lines.reported = Instant::now().checked_sub(LINE_EVERY).unwrap();
        lines.on_tick().unwrap();
        lines.on_tick().unwrap();
        let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with("10.0k files, "), "{text}");
    }

    #[test]
    fn events_cost_the_bar_next_to_nothing() {
        let mut bar = TerminalBar::new(&paths(), Box::new(io::sink()));
        let event = samples::event(0, samples::succeeded(1, 1, Vec::new()));
        let began = Instant::now();
        for _ in 0..100_000 {
            bar.on_event(&event).unwrap();
        }
        let each = began.elapsed() / 100_000;
        assert!(each < Duration::from_micros(5), "{each:?} an event");
    }
}
