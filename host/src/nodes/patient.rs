//! Requests to a job's store that are repeated while the store fails.

use crate::engine::{LogError, LogStore, create_own};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The pause after the store has failed several times.
const PAUSE: Duration = Duration::from_secs(1);

/// How long requests are repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience<'a> {
    /// How long the store may fail.
    pub(super) most: Duration,
    /// Whether the request is useless now.
    pub(super) stop: &'a AtomicBool,
}

impl Patience<'_> {
    /// Waits before the next try. Returns false if there is none.
    fn waits(&self, begun: Instant, error: &io::Error) -> bool {
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if is_stopped || is_denied(error) || begun.elapsed() >= self.most {
            return false;
        }
        thread::sleep(PAUSE);
        true
    }

    /// Creates an object whose name no other process uses. When this returns, the object is durable.
    ///
    /// # Errors
    /// If the store fails for too long, or refuses the object.
    pub(super) fn create(
        &self,
        store: &dyn LogStore,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), LogError> {
        let begun = Instant::now();
        loop {
            match create_own(store, name, bytes) {
                Err(LogError::Unavailable { source, .. }) if self.waits(begun, &source) => {}
                created => return created,
            }
        }
    }

    /// Repeats a request that reads something.
    ///
    /// # Errors
    /// If the store fails for too long, or refuses the request.
    pub(super) fn read<T>(&self, request: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let begun = Instant::now();
        loop {
            match request() {
                Err(error) if self.waits(begun, &error) => {}
                read => return read,
            }
        }
    }
}

/// Whether the store would refuse the request again.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported)
}
