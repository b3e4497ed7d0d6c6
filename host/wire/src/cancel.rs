//! Asking a running job to end, from any thread.

use tokio::sync::watch;

/// A handle to end a job early. Clones ask the same job.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Sender<Option<Request>>);

/// That a job is to end.
#[derive(Clone, Debug)]
pub struct Request {
    /// Why, for people.
    pub reason: String,
    /// Without waiting for running mini-batches.
    pub at_once: bool,
}

impl Cancel {
    /// A handle that has not been used.
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Winds the job down: running mini-batches may end within ten seconds, what is committed is
    /// kept. `reason` ends up in the result, for people.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.0.send_replace(Some(Request { reason: reason.into(), at_once: false }));
    }

    /// As [`Cancel::cancel`], but kills running mini-batches.
    pub fn cancel_at_once(&self, reason: impl Into<String>) {
        self.0.send_replace(Some(Request { reason: reason.into(), at_once: true }));
    }

    /// Why the job is to end, if somebody has asked for that.
    pub fn reason(&self) -> Option<String> {
        self.0.borrow().as_ref().map(|request| request.reason.clone())
    }

    /// Sees what is asked, also before now.
    pub fn watch(&self) -> watch::Receiver<Option<Request>> {
        let mut receiver = self.0.subscribe();
        // A job that is cancelled before it starts must notice.
        receiver.mark_changed();
        receiver
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
