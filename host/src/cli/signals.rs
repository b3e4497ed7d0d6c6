//! Ctrl-C, SIGTERM and the end of the terminal.

use super::say;
use crate::cancel::Cancel;
use crate::report::Reporters;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How a cancelled command ends.
pub(super) const CANCELLED: i32 = 130;

const HANG_UP: &str = "SIGHUP";

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

/// From here on, the first Ctrl-C, SIGTERM or SIGHUP winds the job down, the second kills its workers, and
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

/// Calls `act` at each Ctrl-C and SIGTERM and at the first SIGHUP from here on, with their number and name. Who started
/// this with SIGHUP ignored, as `nohup` does, wants it to outlive the terminal: then that is left so.
///
/// The thread that waits for signals lives as long as the process.
pub(super) fn each(mut act: impl FnMut(u32, &'static str) + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups =
        if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
    // Taken so that it does not end the process: a file that may not grow is an error of its writer.
    let too_large = signal(SignalKind::from_raw(libc::SIGXFSZ))?;
    drop(guard);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let _too_large = too_large;
        let mut count = 0;
        let mut hung_up = false;
        loop {
            let what = runtime.block_on(next(&mut interrupts, &mut terminations, hangups.as_mut()));
            // When a terminal goes away, its shell sends it and the kernel, too.
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

/// Has the kernel keep how children ended until they are waited for. Who started this may have the signal of their end
/// ignored (`trap '' CHLD`), which a program inherits: then nobody could wait for them, and their numbers would be
/// others' at once. To be called before there are any.
pub(super) fn keep_children() {
    // SAFETY: the default action of this signal runs no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is changed, and what is there is written to a place of its own. All zeros is a
    // valid `sigaction`, should the call fail.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
