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
    /// From now on, a job is running, and these reporters show messages.
    pub(super) fn report_with(&self, reporters: Reporters) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reporters);
    }

    fn reporters(&self) -> Option<Reporters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Handles signals from now on. The first Ctrl-C, SIGTERM or SIGHUP winds the job down, the second one kills
/// its workers, and the third one exits at once. Committed results are always kept. Before a job is running,
/// the first one cancels its preparation, and the second one exits.
pub(super) fn watch(cancel: Cancel) -> io::Result<SignalTarget> {
    let target = SignalTarget::default();
    let shared = target.clone();
    each(move |count, what| match (count, shared.reporters()) {
        (1, None) => {
            cancel.cancel(what);
            say(&format!("{what}: no job begins; a second one stops immediately"));
        }
        (1, Some(reporters)) => {
            cancel.cancel(what);
            reporters.say(&format!(
                "{what}: running mini-batches are finished, no new ones begin; a second one stops \
                 immediately"
            ));
        }
        (2, Some(reporters)) => {
            cancel.cancel_at_once(what);
            reporters.say(&format!("{what}: stopping immediately; committed results are kept"));
        }
        _ => std::process::exit(CANCELLED),
    })?;
    Ok(target)
}

/// Calls `act` at each Ctrl-C and SIGTERM and at the first SIGHUP from now on, with their number and name. If
/// this process was started with SIGHUP ignored, as by `nohup`, it is to outlive the terminal, so SIGHUP
/// stays ignored.
///
/// The thread that waits for signals lives as long as the process.
pub(super) fn each(mut act: impl FnMut(u32, &'static str) + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups =
        if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
    // Handled so that it does not kill the process: a write beyond the size limit then returns an error.
    let too_large = signal(SignalKind::from_raw(libc::SIGXFSZ))?;
    drop(guard);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let _too_large = too_large;
        let mut count = 0;
        let mut hung_up = false;
        loop {
            let what = runtime.block_on(next(&mut interrupts, &mut terminations, hangups.as_mut()));
            // When a terminal closes, both its shell and the kernel send this signal.
            if what == HANG_UP && std::mem::replace(&mut hung_up, true) {
                continue;
            }
            count += 1;
            act(count, what);
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

/// Restores the default action of SIGCHLD. The parent process may have ignored it (`trap '' CHLD`), and
/// children inherit that. The kernel would then reap our children at once: we could not wait for them, and
/// their process IDs could be reused. Call this before any child is started.
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
