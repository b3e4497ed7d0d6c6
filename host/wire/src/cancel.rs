//! Asks a running job to end, from any thread.

use tokio::sync::watch;

/// A handle to end a job early. Clones ask the same job.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Sender<Option<CancelRequest>>);

/// A request that a job ends.
#[derive(Clone, Debug)]
pub struct CancelRequest {
    /// The reason, for people.
    pub reason: String,
    /// Whether running mini-batches are killed instead of finished.
    pub at_once: bool,
}

impl Cancel {
    /// A handle that has not been used.
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Winds the job down: running mini-batches get ten seconds to finish, and what is committed is kept.
    /// `reason` appears in the result, for people.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.0.send_replace(Some(CancelRequest { reason: reason.into(), at_once: false }));
    }

    /// As [`Cancel::cancel`], but kills running mini-batches.
    pub fn cancel_at_once(&self, reason: impl Into<String>) {
        self.0.send_replace(Some(CancelRequest { reason: reason.into(), at_once: true }));
    }

    /// Why the job is to end; `None` if it was not cancelled.
    pub fn reason(&self) -> Option<String> {
        self.0.borrow().as_ref().map(|request| request.reason.clone())
    }

    /// Watches for requests, including one that was made before this call.
    pub fn watch(&self) -> watch::Receiver<Option<CancelRequest>> {
        let mut receiver = self.0.subscribe();
        // So that a job notices a cancellation from before its start.
        receiver.mark_changed();
        receiver
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
