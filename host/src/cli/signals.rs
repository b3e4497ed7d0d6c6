//! Ctrl-C and SIGTERM.

use super::say;
use crate::engine::Cancel;
use crate::report::Reporters;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How a cancelled command ends.
pub(super) const CANCELLED: i32 = 130;

/// Through whom signals are told, once there is somebody.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<Mutex<Option<Reporters>>>);

impl Told {
    /// From here on a job runs, which these show.
    pub(super) fn by(&self, reporters: Reporters) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reporters);
    }

    fn reporters(&self) -> Option<Reporters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// From here on, the first Ctrl-C or SIGTERM winds the job down, the second kills its workers, and
/// a third ends this process where it stands. All of them keep what is committed. Before a job runs,
/// the first ends its preparation, and the second this process.
pub(super) fn watch(cancel: Cancel) -> io::Result<Told> {
    let told = Told::default();
    let shared = told.clone();
    each(move |count, what| match (count, shared.reporters()) {
        (1, None) => {
            cancel.cancel(what);
            say(&format!("{what}: no job begins; once more stops at once"));
        }
        (1, Some(reporters)) => {
            cancel.cancel(what);
            reporters.say(&format!(
                "{what}: running mini-batches are finished, no new ones begin; once more stops at \
                 once"
            ));
        }
        (2, Some(reporters)) => {
            cancel.cancel_at_once(what);
            reporters.say(&format!("{what}: stopping at once; what is committed is kept"));
        }
        _ => std::process::exit(CANCELLED),
    })?;
    Ok(told)
}

/// Calls `act` at each Ctrl-C and SIGTERM from here on, with their number and name.
///
/// The thread that waits for signals lives as long as the process.
pub(super) fn each(mut act: impl FnMut(u32, &'static str) + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    // Taken so that it does not end the process: a file that may not grow is an error of its writer.
    let too_large = signal(SignalKind::from_raw(libc::SIGXFSZ))?;
    drop(guard);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let _too_large = too_large;
        for count in 1.. {
            let what = runtime.block_on(next(&mut interrupts, &mut terminations));
            act(count, what);
        }
    })?;
    Ok(())
}

async fn next(interrupts: &mut Signal, terminations: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupts.recv() => "Ctrl-C",
        _ = terminations.recv() => "SIGTERM",
    }
}
