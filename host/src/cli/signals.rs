//! Handles Ctrl-C, SIGTERM and SIGHUP.

use super::say;
use crate::cancel::Cancel;
use crate::report::Reporters;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a cancelled command.
pub(super) const CANCELLED: i32 = 130;

const HANG_UP: &str = "SIGHUP";

/// The reporters that show messages about signals, once a job is running.
#[derive(Clone, Default)]
pub(super) struct SignalTarget(Arc<Mutex<Option<Reporters>>>);

impl SignalTarget {
    /// Call this when the job is running: from then on, these reporters show the messages.
    pub(super) fn report_with(&self, reporters: Reporters) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reporters);
    }

    fn reporters(&self) -> Option<Reporters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Handles signals from now on. The first Ctrl-C, SIGTERM or SIGHUP winds the job down, the second signal
/// kills the workers, and the third exits immediately. Committed results are always kept. Before a job is
/// running, the first signal cancels the preparation, and the second exits.
pub(super) fn watch(cancel: Cancel) -> io::Result<SignalTarget> {
    let target = SignalTarget::default();
    let shared = target.clone();
    on_each(move |count, signal_name| match (count, shared.reporters()) {
        (1, None) => {
            cancel.cancel(signal_name);
            say(&format!(
                "{signal_name}: the job will not start; a second signal stops immediately"
            ));
        }
        (1, Some(reporters)) => {
            cancel.cancel(signal_name);
            reporters.say(&format!(
                "{signal_name}: running mini-batches are finished, no new ones begin; a second signal stops \
                 immediately"
            ));
        }
        (2, Some(reporters)) => {
            cancel.cancel_at_once(signal_name);
            reporters
                .say(&format!("{signal_name}: stopping immediately; committed results are kept"));
        }
        _ => std::process::exit(CANCELLED),
    })?;
    Ok(target)
}

/// Watches for SIGTERM and Ctrl-C from now on. The result ends at the first of them. Must be called inside a runtime.
#[cfg(feature = "server")]
pub(super) fn first_end() -> io::Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// From now on, calls `act` at each Ctrl-C, at each SIGTERM, and at the first SIGHUP. `act` gets the number
/// of signals so far and the name of the signal. If this process was started with SIGHUP ignored, as `nohup`
/// does, SIGHUP stays ignored, because the process should then outlive the terminal.
///
/// The thread that waits for signals lives as long as the process.
pub(super) fn on_each(mut act: impl FnMut(u32, &'static str) + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups =
        if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
    // A handled SIGXFSZ does not kill the process: a write beyond the size limit then returns an error.
    let too_large = signal(SignalKind::from_raw(libc::SIGXFSZ))?;
    drop(guard);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let _too_large = too_large;
        let mut count = 0;
        let mut hung_up = false;
        loop {
            let signal_name =
                runtime.block_on(next(&mut interrupts, &mut terminations, hangups.as_mut()));
            // When a terminal closes, both its shell and the kernel send this signal.
            if signal_name == HANG_UP && std::mem::replace(&mut hung_up, true) {
                continue;
            }
            count += 1;
            act(count, signal_name);
        }
    })?;
    Ok(())
}

async fn next(
    interrupts: &mut Signal,
    terminations: &mut Signal,
    hangups: Option<&mut Signal>,
) -> &'static str {
    let hangup = async {
        match hangups {
            Some(hangups) => hangups.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = interrupts.recv() => "Ctrl-C",
        _ = terminations.recv() => "SIGTERM",
        _ = hangup => HANG_UP,
    }
}

/// Restores the default action of SIGCHLD. The parent process may have ignored the signal (`trap '' CHLD`),
/// and this process inherits that. The kernel would then reap our children immediately: we could not wait for
/// them, and their process IDs could be reused. Call this before any child is started.
pub(super) fn keep_children() {
    // SAFETY: the default action of this signal runs no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: this call changes nothing, and writes the current action to `action`. All zeros is a valid
    // `sigaction`, in case the call fails.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
