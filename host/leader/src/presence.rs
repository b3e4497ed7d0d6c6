//! Shows in a job's store that a leader works on a run, for stores and outputs that no lock protects. This only
//! keeps a second leader from beginning by mistake: the judge between two leaders is the commit log.
//!
//! The leader creates an object in the folder `alive` of the run, again and again, each with a new name, and removes
//! the one before. Another process that sees a new name knows that the leader is alive. It compares no clocks.

use crate::model::random_name;
use sandmill_commit_log::LogStore;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two objects.
const INTERVAL: Duration = Duration::from_secs(2);
/// A leader that shows nothing new for this long is taken for dead.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long the end of a job waits until its last object is removed.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// The time between two looks at another leader's objects.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A thread that shows that this process leads a run. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Presence {
    stop: Option<Sender<()>>,
    /// Closed when the thread has removed its object.
    ended: Receiver<()>,
}

impl Presence {
    /// Shows from now on that this process leads the run, or publishes its results. If the store fails, other
    /// processes may take this one for dead.
    pub(super) fn show(store: Arc<dyn LogStore>, run: &str) -> Self {
        let folder = folder(run);
        let (stop, stopped) = mpsc::channel::<()>();
        let (running, ended) = mpsc::channel::<()>();
        let show = move || {
            let _running = running;
            // What an earlier leader of the run has left.
            let mut shown = store.list(&folder).unwrap_or_default();
            let made = store.make_folder(&folder);
            loop {
                let name = random_name();
                if made.is_ok() && store.create(&format!("{folder}/{name}"), b"").is_ok() {
                    remove(&*store, &folder, &shown);
                    shown = vec![name];
                }
                match stopped.recv_timeout(INTERVAL) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) => return,
                    Err(RecvTimeoutError::Disconnected) => {
                        return remove(&*store, &folder, &shown);
                    }
                }
            }
        };
        // If there is no thread, other processes may take this one for dead.
        let _ = thread::Builder::new().name("presence".to_owned()).spawn(show);
        Self { stop: Some(stop), ended }
    }

    /// Ends the thread, but leaves its last object in the store: this process is about to show its presence again.
    pub(super) fn interrupt(mut self) {
        if let Some(stop) = self.stop.take() {
            // If this fails, the thread has ended.
            let _ = stop.send(());
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.stop = None;
        // A store that hangs must not delay the job's end.
        let _ = self.ended.recv_timeout(END_PATIENCE);
    }
}

/// Whether a process leads the run. Takes [`PATIENCE`] if a leader was killed, and no time if it ended by itself.
/// `on_wait` is called before the wait begins.
///
/// # Errors
/// If the store fails.
pub(super) fn is_led(
    store: &dyn LogStore,
    run: &str,
    on_wait: &mut dyn FnMut(),
) -> io::Result<bool> {
    let folder = folder(run);
    let look = || {
        let mut names = store.list(&folder)?;
        names.sort();
        Ok::<_, io::Error>(names)
    };
    let first = look()?;
    if first.is_empty() {
        return Ok(false);
    }
    on_wait();
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        thread::sleep(LOOK_INTERVAL);
        let now = look()?;
        if now != first {
            // If nothing is left, the leader has just ended.
            return Ok(!now.is_empty());
        }
    }
    Ok(false)
}

/// Shows the leader of a run that this process waits to lead it. If the leader is cut off from its nodes, it then ends.
/// Call this at intervals. If the store fails, the leader does not notice.
pub fn show_successor(store: &dyn LogStore, run: &str) {
    let folder = format!("{run}/successor");
    let before = store.list(&folder).unwrap_or_default();
    let name = format!("{folder}/{}", random_name());
    if store.make_folder(&folder).is_ok() && store.create(&name, b"").is_ok() {
        remove(store, &folder, &before);
    }
}

/// What processes that wait to lead a run have shown last. `None` if there is no such process, or the store fails.
pub(super) fn successors(store: &dyn LogStore, run: &str) -> Option<Vec<u8>> {
    let mut names = store.list(&format!("{run}/successor")).ok()?;
    names.sort();
    Some(names.concat().into_bytes()).filter(|names| !names.is_empty())
}

fn folder(run: &str) -> String {
    format!("{run}/alive")
}

/// Removes objects. What stays looks like a killed leader.
fn remove(store: &dyn LogStore, folder: &str, names: &[String]) {
    for name in names {
        let _ = store.remove(&format!("{folder}/{name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_commit_log::FolderStore;

    #[test]
    fn a_live_leader_is_seen_and_one_that_ended_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn LogStore> =
            Arc::new(FolderStore::new(dir.path().canonicalize().unwrap()));
        let waits = || is_led(&*store, "run", &mut || ());
        assert!(!waits().unwrap(), "nothing was ever shown");
        let presence = Presence::show(store.clone(), "run");
        while store.list("run/alive").unwrap().is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(waits().unwrap());
        drop(presence);
        assert_eq!(store.list("run/alive").unwrap(), [""; 0]);
        assert!(!waits().unwrap());
    }
}
