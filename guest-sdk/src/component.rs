//! Connects the functions that a component exports to an [`EntryScript`]. Only [`export!`](crate::export)
//! uses this module.

use crate::input::Raw;
use crate::{EntryScript, Input, Job, logging};
use std::cell::RefCell;
use std::io::Write as _;
use std::panic;
use std::path::PathBuf;
use std::thread::LocalKey;

pub use crate::bindings;
pub use crate::bindings::exports::sandmill::entry::entry::Guest;
pub use crate::bindings::sandmill::entry::host;
pub use crate::bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};

/// Keeps the instance between calls.
type Slot<S> = LocalKey<RefCell<Option<S>>>;

/// Implements the exported function `entry.init`.
///
/// # Errors
/// Returns the error of the entry script's `init`.
pub fn init<S: EntryScript>(slot: &'static Slot<S>) -> Result<(), String> {
    logging::install();
    report_panics();
    let instance = S::init(&job()).map_err(|error| error.to_string());
    flush();
    slot.set(Some(instance?));
    Ok(())
}

/// Implements the exported function `entry.run`.
///
/// # Errors
/// Returns the error of the entry script's `run`, or says that the mini-batch is of another kind.
pub fn run<S: EntryScript>(
    slot: &'static Slot<S>,
    batch: MiniBatch,
    context: MiniBatchContext,
) -> Result<Results, String> {
    let raw = match batch {
        MiniBatch::Files(files) => Raw::Files(files.into_iter().map(PathBuf::from).collect()),
        MiniBatch::Table(bytes) => Raw::Ipc(bytes),
        MiniBatch::Void => Raw::Void,
    };
    let context = crate::MiniBatchContext {
        id: context.id,
        dataset: context.dataset,
        attempt: context.attempt,
        partition_key_value: context.partition_key_value,
    };
    let results = slot.with_borrow_mut(|instance| {
        let instance = instance.as_mut().ok_or("run was called before init")?;
        let results = S::Input::receive(raw, |mini_batch| instance.run(mini_batch, &context))?;
        lower(results)
    });
    flush();
    results.map_err(|error: crate::Error| error.to_string())
}

/// Implements the exported function `entry.shutdown`.
pub fn shutdown<S: EntryScript>(slot: &'static Slot<S>) {
    slot.with_borrow_mut(|instance| {
        if let Some(instance) = instance {
            instance.shutdown();
        }
    });
    flush();
}

/// Flushes standard output. The standard library buffers an incomplete line, and this may be the last call.
fn flush() {
    // A failure to write does not affect the results.
    let _ = std::io::stdout().flush();
}

/// Converts the results to the types of the bindings.
fn lower(results: crate::Results) -> crate::Result<Results> {
    Ok(match results {
        crate::Results::Rows(rows) => Results::Rows(rows),
        crate::Results::Outcomes(outcomes) => Results::Outcomes(outcomes),
        #[cfg(feature = "table")]
        crate::Results::Table(table) => Results::Table(crate::table::encode(&table)?),
    })
}

fn job() -> Job {
    Job {
        arguments: std::env::args().skip(1).collect(),
        environment: std::env::vars().collect(),
        agent_name: host::agent_name(),
        node_id: host::node_id(),
        log_dir: host::log_dir().into(),
        output_dir: host::output_dir().into(),
        source_dir: host::source_dir().map(PathBuf::from),
        gpu_index: host::gpu_index(),
    }
}

/// Makes panics write their message and location to the log, too. The previous hook writes to stderr.
fn report_panics() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        previous(info);
        logging::error(info.to_string());
    }));
}
