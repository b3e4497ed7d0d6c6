//! Ctrl-C and SIGTERM while a job runs.

use crate::engine::Cancel;
use crate::report::Reporters;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From here on, the first Ctrl-C or SIGTERM winds the job down, the second kills its workers, and
/// a third ends this process where it stands. All of them keep what is committed.
///
/// The thread that waits for signals lives as long as the process.
pub(super) fn watch(cancel: Cancel, reporters: Reporters) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let interrupts = signal(SignalKind::interrupt())?;
    let terminations = signal(SignalKind::terminate())?;
    drop(guard);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(serve(interrupts, terminations, &cancel, &reporters));
    })?;
    Ok(())
}

async fn serve(
    mut interrupts: Signal,
    mut terminations: Signal,
    cancel: &Cancel,
    reporters: &Reporters,
) {
    for count in 1.. {
        let what = tokio::select! {
            _ = interrupts.recv() => "Ctrl-C",
            _ = terminations.recv() => "SIGTERM",
        };
        match count {
            1 => {
                cancel.cancel(what);
                reporters.say(&format!(
                    "{what}: running mini-batches are finished, no new ones begin; once more stops \
                     at once"
                ));
            }
            2 => {
                cancel.cancel_at_once(what);
                reporters.say(&format!("{what}: stopping at once; what is committed is kept"));
            }
            _ => std::process::exit(130),
        }
    }
}
