//! Asks a running job to end, from any thread.

use tokio::sync::watch;

/// A handle to end a job early. All clones of a handle end the same job.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Sender<Option<CancelRequest>>);

/// A request that a job ends.
#[derive(Clone, Debug)]
pub struct CancelRequest {
    /// The reason, as text for the user.
    pub reason: String,
    /// Whether running mini-batches are killed instead of finished.
    pub at_once: bool,
}

impl Cancel {
    /// A handle, with no request yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Winds the job down: running mini-batches get ten seconds to finish, and what is committed is kept.
    /// `reason` appears in the result.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.0.send_replace(Some(CancelRequest { reason: reason.into(), at_once: false }));
    }

    /// Ends the job like [`Cancel::cancel`], but kills running mini-batches.
    pub fn cancel_at_once(&self, reason: impl Into<String>) {
        self.0.send_replace(Some(CancelRequest { reason: reason.into(), at_once: true }));
    }

    /// The reason of the last request. `None` if the job was not cancelled.
    pub fn reason(&self) -> Option<String> {
        self.0.borrow().as_ref().map(|request| request.reason.clone())
    }

    /// A receiver of requests, which also receives a request that was made before this call.
    pub fn watch(&self) -> watch::Receiver<Option<CancelRequest>> {
        let mut receiver = self.0.subscribe();
        // A job must also notice a cancellation from before its start.
        receiver.mark_changed();
        receiver
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
