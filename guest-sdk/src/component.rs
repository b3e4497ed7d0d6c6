//! The glue between the exported functions and an [`EntryScript`]. For [`export!`](crate::export)
//! alone.

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

/// The instance, between the calls.
type Slot<S> = LocalKey<RefCell<Option<S>>>;

/// `entry.init`.
///
/// # Errors
/// What the entry script's `init` says.
pub fn init<S: EntryScript>(slot: &'static Slot<S>) -> Result<(), String> {
    logging::install();
    report_panics();
    let instance = S::init(&job()).map_err(|error| error.to_string());
    flush();
    slot.set(Some(instance?));
    Ok(())
}

/// `entry.run`.
///
/// # Errors
/// What the entry script's `run` says, or that the mini-batch is not of its kind.
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

/// `entry.shutdown`.
pub fn shutdown<S: EntryScript>(slot: &'static Slot<S>) {
    slot.with_borrow_mut(|instance| {
        if let Some(instance) = instance {
            instance.shutdown();
        }
    });
    flush();
}

/// The standard library keeps the start of a line until its end comes; the host may take no other call.
fn flush() {
    // What cannot be written is no concern of the results.
    let _ = std::io::stdout().flush();
}

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

/// Sends a panic's message and place to the log too; the hook before it writes them to stderr.
fn report_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        before(info);
        logging::error(info.to_string());
    }));
}
