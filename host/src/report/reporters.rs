//! The fan-out: one event to every reporter, and a clock for those that draw or flush.

use super::log_file::is_full;
use crate::event::{Event, EventKind};
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);

/// One sink of events.
pub trait Reporter: Send {
    /// Takes note of an event. Runs on the leader's thread: count and buffer, no more.
    fn on_event(&mut self, event: &Event) -> io::Result<()>;

    /// Ten times a second, also while nothing happens: the time to draw and to flush.
    fn on_tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// A line for the person at the terminal, from a reporter that has one.
    fn say(&mut self, _line: &str) -> io::Result<()> {
        Ok(())
    }
}

/// A reporter, and whether its disk was full.
struct Sink {
    reporter: Box<dyn Reporter>,
    told: bool,
}

/// All reporters of a job. A clone is another handle on the same ones.
#[derive(Clone)]
pub struct Reporters {
    list: Arc<Mutex<Vec<Sink>>>,
    _clock: Arc<Clock>,
}

impl Reporters {
    /// Starts the clock for these reporters. An event reaches them in this order.
    pub fn new(reporters: Vec<Box<dyn Reporter>>) -> Self {
        let sinks = reporters.into_iter().map(|reporter| Sink { reporter, told: false });
        let list = Arc::new(Mutex::new(sinks.collect()));
        let clock = Arc::new(Clock::start(Arc::clone(&list)));
        Self { list, _clock: clock }
    }

    /// Hands an event to every reporter. One that fails is told to the user in one line and gets
    /// no further events; the job and the other reporters go on. One that lacks room goes on, too: there may be
    /// some again, at the job's end at the latest.
    pub fn on_event(&self, event: &Event) {
        let mut list = lock(&self.list);
        if matches!(event.kind, EventKind::JobFinished { .. }) {
            // What lacks room now, lacks its last lines for good.
            list.iter_mut().for_each(|sink| sink.told = false);
        }
        each(&mut list, |reporter| reporter.on_event(event));
    }

    /// Shows a line to the person at the terminal, above the progress bar if there is one.
    pub fn say(&self, line: &str) {
        each(&mut lock(&self.list), |reporter| reporter.say(line));
    }
}

fn lock(list: &Mutex<Vec<Sink>>) -> MutexGuard<'_, Vec<Sink>> {
    // A reporter that panicked has already been reported; the others are still sound.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

fn each(list: &mut Vec<Sink>, mut act: impl FnMut(&mut dyn Reporter) -> io::Result<()>) {
    let mut warnings = Vec::new();
    // Once for all of them: it is one disk, as a rule.
    let mut is_told = list.iter().any(|sink| sink.told);
    list.retain_mut(|Sink { reporter, told }| match act(reporter.as_mut()) {
        Ok(()) => true,
        Err(error) if is_full(&error) => {
            *told = true;
            if !std::mem::replace(&mut is_told, true) {
                warnings.push(format!("warning: reports wait for room on the disk: {error}"));
            }
            true
        }
        Err(error) => {
            warnings.push(format!("warning: a report stops here, the job goes on: {error}"));
            false
        }
    });
    for warning in warnings {
        // Whoever cannot even show this has nobody watching.
        list.retain_mut(|sink| sink.reporter.say(&warning).is_ok());
    }
}

/// A thread that ticks until it is dropped.
struct Clock {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    fn start(list: Arc<Mutex<Vec<Sink>>>) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let tick = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                each(&mut lock(&list), |reporter| reporter.on_tick());
            }
        };
        // Without a thread to spare there is no bar, and files are flushed at the end.
        let thread = std::thread::Builder::new().name("reporters".to_owned()).spawn(tick).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed by then; there is nothing to add.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counting(Arc<AtomicUsize>, Arc<Mutex<Vec<String>>>);
    impl Reporter for Counting {
        fn on_event(&mut self, _event: &Event) -> io::Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn say(&mut self, line: &str) -> io::Result<()> {
            self.1.lock().unwrap().push(line.to_owned());
            Ok(())
        }
    }

    /// Reporters run on the leader's thread: all files together must cost it little.
    #[test]
    fn a_mini_batch_costs_all_files_together_little() {
        const TIMES: u32 = 5000;
        let folder = tempfile::tempdir().unwrap();
        let mut tree = crate::report::log_tree(&samples::places(folder.path()));
        let mut tell = |kind| {
            let event = samples::event(1, kind);
            tree.iter_mut().for_each(|reporter| reporter.on_event(&event).unwrap());
        };
        let began = std::time::Instant::now();
        for id in 0..u64::from(TIMES) {
            tell(samples::picked(id, 1));
            tell(samples::succeeded(id, 1, Vec::new()));
        }
        // Optimised it is about 4 microseconds. Generous, for unoptimised builds and busy machines: a
        // file that is opened or flushed for each mini-batch would be over.
        let each = began.elapsed() / TIMES;
        assert!(each < Duration::from_micros(500), "{each:?} a mini-batch");
    }

    struct Full;
    impl Reporter for Full {
        fn on_event(&mut self, _event: &Event) -> io::Result<()> {
            Err(io::Error::other("logs/x.csv: no space left on device"))
        }
    }

    /// Fails for lack of room as long as there is none.
    struct Crowded(Arc<AtomicUsize>);
    impl Reporter for Crowded {
        fn on_event(&mut self, _event: &Event) -> io::Result<()> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0..3 => Err(io::Error::new(io::ErrorKind::StorageFull, "logs/x.csv: full")),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn a_sink_that_lacks_room_goes_on_and_is_told_once() {
        let (count, seen, said): (Arc<AtomicUsize>, _, Arc<Mutex<Vec<String>>>) =
            (Arc::default(), Arc::default(), Arc::default());
        let reporters = Reporters::new(vec![
            Box::new(Crowded(Arc::clone(&count))),
            Box::new(Counting(seen, Arc::clone(&said))),
        ]);
        for event in samples::job() {
            reporters.on_event(&event);
        }
        assert_eq!(count.load(Ordering::Relaxed), samples::job().len());
        assert_eq!(
            *said.lock().unwrap(),
            ["warning: reports wait for room on the disk: logs/x.csv: full"]
        );
    }

    #[test]
    fn a_failing_sink_is_dropped_and_starves_nobody() {
        let (count, said) = (Arc::default(), Arc::default());
        let reporters = Reporters::new(vec![
            Box::new(Full),
            Box::new(Counting(Arc::clone(&count), Arc::clone(&said))),
        ]);
        for event in samples::job() {
            reporters.on_event(&event);
        }
        assert_eq!(count.load(Ordering::Relaxed), samples::job().len());
        assert_eq!(
            *said.lock().unwrap(),
            ["warning: a report stops here, the job goes on: logs/x.csv: no space left on device"]
        );
    }
}
