//! The heartbeats of a process that publishes the results of a completed job. The leader's thread for logs has ended by
//! then.

use super::heartbeat::Heart;
use super::sharing::HEARTBEAT_INTERVAL;
use sandmill_commit_log::LogStore;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// How long the end waits for the last heartbeat.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A thread that writes heartbeats. After a drop, the last one says that the process has ended its part in the job.
#[derive(Debug)]
pub(crate) struct Pulse {
    stop: Option<Sender<()>>,
    /// Closed when the thread has written the last heartbeat.
    ended: Receiver<()>,
}

impl Pulse {
    /// Goes on with the heartbeats of the run's latest leader. `directory`: an id of this process's job directory, as
    /// in the commit log. `None` if that leader had no heartbeats, if the store fails, or if there can be no thread.
    pub(crate) fn start(store: &Arc<dyn LogStore>, run: &str, directory: String) -> Option<Self> {
        let mut heart = Heart::of_latest(store, run, directory).ok()??;
        let (stop, stopped) = mpsc::channel::<()>();
        let (running, ended) = mpsc::channel::<()>();
        let beat = move || {
            let _running = running;
            let mut goes_on = true;
            while goes_on {
                // If the store fails, commands show the job as interrupted until the next heartbeat.
                let _ = heart.beat(false);
                let waited = stopped.recv_timeout(HEARTBEAT_INTERVAL);
                goes_on = waited == Err(RecvTimeoutError::Timeout);
            }
            let _ = heart.beat(true);
        };
        thread::Builder::new().name("pulse".to_owned()).spawn(beat).ok()?;
        Some(Self { stop: Some(stop), ended })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop = None;
        // A store that hangs must not delay the end.
        let _ = self.ended.recv_timeout(END_WITHIN);
    }
}

#[cfg(test)]
mod tests {
    use super::super::heartbeat::read_last_word;
    use super::*;
    use sandmill_commit_log::FolderStore;

    #[test]
    fn a_process_that_publishes_is_alive_until_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let store: Arc<dyn LogStore> = Arc::new(FolderStore::new(root));
        assert!(Pulse::start(&store, "r", "here".to_owned()).is_none(), "it has had no leader");
        let mut leader = Heart::new(&store, "r", 7, "here".to_owned());
        leader.beat(false).unwrap();
        let word = || read_last_word(&store, "r").unwrap().unwrap();
        let first = word();
        let pulse = Pulse::start(&store, "r", "here".to_owned()).unwrap();
        while word().at == first.at {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!((word().epoch, word().has_ended), (7, false));
        drop(pulse);
        assert_eq!((word().epoch, word().has_ended), (7, true));
    }
}
