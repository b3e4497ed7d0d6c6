//! Hands each event to every reporter. A thread (the clock) lets reporters draw and flush at each tick.

use crate::event::{Event, EventKind};
use crate::model::is_full;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);
/// The maximum number of events that may wait while the clock's thread is busy.
const MAX_WAITING_EVENTS: usize = 1000;

/// A sink of events.
pub trait Reporter: Send {
    /// Handles an event. The clock's thread handles the first event and the events that arrive while it is
    /// busy. The leader's thread handles all others, so a reporter should only count and buffer.
    fn on_event(&mut self, event: &Event) -> io::Result<()>;

    /// Called ten times a second, even if nothing happens, to draw and to flush.
    fn on_tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Shows a line to the user, if this reporter writes to a terminal.
    fn say(&mut self, _line: &str) -> io::Result<()> {
        Ok(())
    }
}

/// A reporter, and whether the user was warned that its disk is full.
struct ReporterSlot {
    reporter: Box<dyn Reporter>,
    is_full_disk_reported: bool,
}

/// All reporters of a job. A clone is another handle to the same reporters.
#[derive(Clone)]
pub struct Reporters {
    sinks: Arc<Sinks>,
    clock: Arc<TickThread>,
}

/// The state that the leader's thread and the clock's thread share.
struct Sinks {
    list: Mutex<Vec<ReporterSlot>>,
    /// Events that arrived while the list was in use.
    waiting: Mutex<VecDeque<Event>>,
}

impl Reporters {
    /// Starts the clock for these reporters. They receive each event in this order.
    pub fn new(reporters: Vec<Box<dyn Reporter>>) -> Self {
        let sinks = reporters
            .into_iter()
            .map(|reporter| ReporterSlot { reporter, is_full_disk_reported: false });
        let sinks = Sinks { list: Mutex::new(sinks.collect()), waiting: Mutex::default() };
        let sinks = Arc::new(sinks);
        let clock = Arc::new(TickThread::start(Arc::clone(&sinks)));
        Self { sinks, clock }
    }

    /// Hands an event to every reporter. If a reporter fails, the user gets one line about the failure,
    /// and the reporter receives no further events. The job and the other reporters continue. A
    /// reporter whose disk is full stays, since there may be room again, at the latest when the job
    /// ends.
    ///
    /// When a job starts, the reporters create their files. The leader does not wait for that: the clock's
    /// thread does it, and then hands over the events that arrived meanwhile.
    pub fn on_event(&self, event: &Event) {
        match self.sinks.lock_list_for(event, self.clock.is_running()) {
            Some(mut list) => {
                self.sinks.catch_up(&mut list);
                handle_event(&mut list, event);
            }
            None => {
                lock(&self.sinks.waiting).push_back(event.clone());
                self.clock.wake();
            }
        }
    }

    /// Shows a line to the user at the terminal, above the progress bar if there is one.
    pub fn say(&self, line: &str) {
        let mut list = lock(&self.sinks.list);
        self.sinks.catch_up(&mut list);
        for_each_reporter(&mut list, |reporter| reporter.say(line));
    }
}

impl Sinks {
    /// Locks the list, if this thread is to handle the event now; `None` if the clock's thread is to handle
    /// it. `has_thread`: whether that thread is running.
    fn lock_list_for(
        &self,
        event: &Event,
        has_thread: bool,
    ) -> Option<MutexGuard<'_, Vec<ReporterSlot>>> {
        let waiting = lock(&self.waiting).len();
        let is_last = matches!(event.kind, EventKind::JobFinished { .. });
        if is_last || waiting >= MAX_WAITING_EVENTS || !has_thread {
            return Some(lock(&self.list));
        }
        if waiting > 0 || matches!(event.kind, EventKind::JobStarted { .. }) {
            return None;
        }
        match self.list.try_lock() {
            Ok(list) => Some(list),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Hands over the waiting events, in order. A thread that locks the list does this first.
    fn catch_up(&self, list: &mut Vec<ReporterSlot>) {
        loop {
            let next = lock(&self.waiting).pop_front();
            let Some(event) = next else { return };
            handle_event(list, &event);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of a reporter has already been reported; the other reporters are still sound.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handle_event(list: &mut Vec<ReporterSlot>, event: &Event) {
    if matches!(event.kind, EventKind::JobFinished { .. }) {
        // Warn again, because text for which the disk has no room now is lost.
        list.iter_mut().for_each(|sink| sink.is_full_disk_reported = false);
    }
    for_each_reporter(list, |reporter| reporter.on_event(event));
}

fn for_each_reporter(
    list: &mut Vec<ReporterSlot>,
    mut act: impl FnMut(&mut dyn Reporter) -> io::Result<()>,
) {
    let mut warnings = Vec::new();
    // One warning for all reporters: usually, they write to the same disk.
    let mut is_reported = list.iter().any(|sink| sink.is_full_disk_reported);
    list.retain_mut(|ReporterSlot { reporter, is_full_disk_reported }| {
        match act(reporter.as_mut()) {
            Ok(()) => true,
            Err(error) if is_full(&error) => {
                *is_full_disk_reported = true;
                if !std::mem::replace(&mut is_reported, true) {
                    warnings.push(format!("warning: reports wait for room on the disk: {error}"));
                }
                true
            }
            Err(error) => {
                warnings.push(format!(
                    "warning: a report cannot be written and stops here; the job continues: {error}"
                ));
                false
            }
        }
    });
    for warning in warnings {
        // A reporter that cannot show this line has no reader.
        list.retain_mut(|sink| sink.reporter.say(&warning).is_ok());
    }
}

/// A thread that ticks and hands over waiting events, until this value is dropped.
struct TickThread {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TickThread {
    fn start(sinks: Arc<Sinks>) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let tick = move || {
            loop {
                let woken = stopped.recv_timeout(TICK);
                let mut list = lock(&sinks.list);
                sinks.catch_up(&mut list);
                match woken {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Timeout) => {
                        for_each_reporter(&mut list, |reporter| reporter.on_tick());
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        // Without a thread, there is no bar, and files are flushed at the end.
        let thread = std::thread::Builder::new().name("reporters".to_owned()).spawn(tick).ok();
        Self { stop: Some(stop), thread }
    }

    fn is_running(&self) -> bool {
        self.thread.is_some()
    }

    /// Has the thread hand over the waiting events.
    fn wake(&self) {
        // If the thread has ended, `on_event` hands them over at the next event.
        let _ = self.stop.as_ref().map(|stop| stop.send(()));
    }
}

impl Drop for TickThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct CountingReporter(Arc<AtomicUsize>, Arc<Mutex<Vec<String>>>);
    impl Reporter for CountingReporter {
        fn on_event(&mut self, _event: &Event) -> io::Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn say(&mut self, line: &str) -> io::Result<()> {
            self.1.lock().unwrap().push(line.to_owned());
            Ok(())
        }
    }

    /// Reporters run on the leader's thread, so all files together must take little time.
    #[cfg(target_os = "linux")]
    #[test]
    fn all_reports_of_a_mini_batch_are_cheap() {
        const TIMES: u32 = 5000;
        let folder = tempfile::tempdir().unwrap();
        let mut tree = crate::log_tree(&samples::paths(folder.path()));
        let mut write_to = |kind| {
            let event = samples::event(1, kind);
            tree.iter_mut().for_each(|reporter| reporter.on_event(&event).unwrap());
        };
        let began = processor_time();
        for id in 0..u64::from(TIMES) {
            write_to(samples::picked(id, 1));
            write_to(samples::succeeded(id, 1, Vec::new()));
        }
        // With optimizations, it takes about 4 microseconds. The limit is generous, for unoptimized builds,
        // but opening or flushing a file for each mini-batch would exceed it.
        let each = (processor_time() - began) / TIMES;
        assert!(each < Duration::from_micros(500), "{each:?} a mini-batch");
    }

    /// The time that this thread has run, without the time that it has waited for a processor.
    #[cfg(target_os = "linux")]
    fn processor_time() -> Duration {
        let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(times.split_whitespace().next().unwrap().parse().unwrap())
    }

    /// Blocks in the first event until the test lets it continue.
    struct Slow(mpsc::Receiver<()>, Arc<Mutex<Vec<u64>>>);
    impl Reporter for Slow {
        fn on_event(&mut self, event: &Event) -> io::Result<()> {
            if matches!(event.kind, EventKind::JobStarted { .. }) {
                self.0.recv().unwrap();
            }
            self.1.lock().unwrap().push(event.seq);
            Ok(())
        }
    }

    #[test]
    fn the_leader_does_not_wait_and_events_stay_in_order() {
        let seen = Arc::default();
        let (unblock, unblocked) = mpsc::channel();
        let reporters = Reporters::new(vec![Box::new(Slow(unblocked, Arc::clone(&seen)))]);
        let mut events = samples::job();
        events.iter_mut().zip(0..).for_each(|(event, seq)| event.seq = seq);
        let (last, others) = events.split_last().unwrap();
        others.iter().for_each(|event| reporters.on_event(event));
        assert!(seen.lock().unwrap().is_empty(), "the first is still at work");
        unblock.send(()).unwrap();
        reporters.on_event(last);
        let all: Vec<_> = (0..events.len() as u64).collect();
        assert_eq!(*seen.lock().unwrap(), all);
    }

    struct Full;
    impl Reporter for Full {
        fn on_event(&mut self, _event: &Event) -> io::Result<()> {
            Err(io::Error::other("logs/x.csv: no space left on device"))
        }
    }

    /// Fails with a full disk for the first three events.
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
    fn a_full_disk_is_reported_once_and_the_reporter_stays() {
        let (count, seen, lines): (Arc<AtomicUsize>, _, Arc<Mutex<Vec<String>>>) =
            (Arc::default(), Arc::default(), Arc::default());
        let reporters = Reporters::new(vec![
            Box::new(Crowded(Arc::clone(&count))),
            Box::new(CountingReporter(seen, Arc::clone(&lines))),
        ]);
        for event in samples::job() {
            reporters.on_event(&event);
        }
        assert_eq!(count.load(Ordering::Relaxed), samples::job().len());
        assert_eq!(
            *lines.lock().unwrap(),
            ["warning: reports wait for room on the disk: logs/x.csv: full"]
        );
    }

    #[test]
    fn a_failing_reporter_is_dropped_and_the_others_continue() {
        let count = Arc::default();
        let lines = Arc::default();
        let reporters = Reporters::new(vec![
            Box::new(Full),
            Box::new(CountingReporter(Arc::clone(&count), Arc::clone(&lines))),
        ]);
        for event in samples::job() {
            reporters.on_event(&event);
        }
        assert_eq!(count.load(Ordering::Relaxed), samples::job().len());
        assert_eq!(
            *lines.lock().unwrap(),
            [
                "warning: a report cannot be written and stops here; the job continues: logs/x.csv: no space left on device"
            ]
        );
    }
}
