//! An instance of an entry script, and the calls into it.

use super::clock::Timers;
use super::state::InstanceState;
use super::traps::{self, TrapContext};
use super::types::{self, Copied, ErrorText, ResultsValue};
use crate::dataset::FileVersion;
use crate::model::{ByteSize, CallStats, Failure, FailureKind, Limits};
use crate::output::{MiniBatchData, ResultSink};
use std::time::Instant as Time;
use wasmtime::Store;
use wasmtime::component::{self, ComponentExportIndex, Func, TypedFunc};

/// An instance of the entry script. The module's documentation says which threads may use it.
pub struct Instance {
    store: Store<InstanceState>,
    run: Func,
    init: Option<Func>,
    shutdown: Option<Func>,
    /// The fuel for each call; `None` if fuel is not counted.
    fuel: Option<u64>,
    limits: Limits,
    timers: Timers,
}

/// The positions of the exported functions.
#[derive(Clone, Copy)]
pub(super) struct Exports {
    pub(super) run: ComponentExportIndex,
    pub(super) init: Option<ComponentExportIndex>,
    pub(super) shutdown: Option<ComponentExportIndex>,
}

/// The second parameter of `run`.
#[derive(Clone, Debug)]
pub struct RunContext<'a> {
    /// The id of the mini-batch.
    pub id: u64,
    /// The name of the input.
    pub dataset: &'a str,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The partition keys and values.
    pub partition_key_value: &'a [(String, String)],
}

/// The function `run`, with its types.
type RunFunction<'a> = TypedFunc<
    (types::MiniBatchValue<'a>, types::ContextValue<'a>),
    (Result<ResultsValue, ErrorText>,),
>;

/// The statistics of a call, and what the call returned. Results have not been checked yet.
type Called<T> = (CallStats, Result<T, Failure>);

impl Instance {
    pub(super) fn new(
        mut store: Store<InstanceState>,
        instance: &component::Instance,
        exports: Exports,
        fuel: Option<u64>,
        limits: Limits,
    ) -> Result<Self, Failure> {
        let mut function = |index| {
            instance.get_func(&mut store, index).ok_or_else(|| {
                Failure::new(FailureKind::HostFault, "a checked export is not a function")
            })
        };
        let run = function(exports.run)?;
        let init = exports.init.map(&mut function).transpose()?;
        let shutdown = exports.shutdown.map(&mut function).transpose()?;
        // Check the types here instead of in each call, because the check takes half a microsecond.
        let typed: wasmtime::Result<RunFunction<'static>> = run.typed(&store);
        typed.map_err(|error| {
            Failure::new(FailureKind::HostFault, format!("`run` has other types: {error}"))
        })?;
        let timers = store.data().timers.clone();
        Ok(Self { store, run, init, shutdown, fuel, limits, timers })
    }

    /// Calls `init`, if there is one.
    pub fn init(&mut self) -> (CallStats, Result<(), Failure>) {
        let Some(function) = self.init else { return (CallStats::default(), Ok(())) };
        let (stats, result) = self.call("init", |store| {
            function.typed::<(), (Result<(), ErrorText>,)>(&*store)?.call(store, ())
        });
        let result = result
            .and_then(|(returned,)| returned.map_err(|text| traps::script_error("init", &text)));
        (stats, result)
    }

    /// Calls `run` and passes its results to `sink`. After a failure, the caller must discard
    /// everything that `sink` received. After a failure other than `ScriptError` and `BadResults`
    /// the instance is broken, and the caller must drop it.
    pub fn run(
        &mut self,
        data: MiniBatchData<'_>,
        context: &RunContext<'_>,
        sink: &mut dyn ResultSink,
    ) -> (CallStats, Result<(), Failure>) {
        let batch = match data {
            MiniBatchData::Files(paths) => types::MiniBatchValue::Files(paths),
            MiniBatchData::Table(ipc) => types::MiniBatchValue::Table(types::ByteSegments(ipc)),
            MiniBatchData::Void => types::MiniBatchValue::Void,
        };
        let context = types::ContextValue {
            id: context.id,
            dataset: context.dataset,
            attempt: context.attempt,
            partition_key_value: context.partition_key_value,
        };
        // SAFETY: `new` has checked the types. Lifetimes are not a part of the types.
        let function: RunFunction<'_> = unsafe { TypedFunc::new_unchecked(self.run) };
        self.store.data_mut().noticed.start_mini_batch(match data {
            MiniBatchData::Files(paths) => paths,
            MiniBatchData::Table(_) | MiniBatchData::Void => &[],
        });
        types::set_limit(self.limits.results.0);
        let (stats, result) = self.call("run", |store| function.call(store, (batch, context)));
        let result = result.and_then(|(returned,)| match returned {
            Ok(results) => deliver(&results, &self.limits, sink),
            Err(text) => Err(traps::script_error("run", &text)),
        });
        (stats, result)
    }

    /// For each file of the last mini-batch, in order: its length and modification time when the
    /// guest first read or inspected it. `None` for a file whose first use Sandmill did not
    /// observe.
    pub fn found(&self) -> &[Option<FileVersion>] {
        self.store.data().noticed.found()
    }

    /// Whether the last call created a file or folder outside of the log folder, or tried to.
    pub fn made_files(&self) -> bool {
        self.store.data().log_descriptors.has_made_elsewhere()
    }

    /// Calls `shutdown`, if there is one.
    pub fn shutdown(&mut self) -> (CallStats, Result<(), Failure>) {
        let Some(function) = self.shutdown else { return (CallStats::default(), Ok(())) };
        self.call("shutdown", |store| function.typed::<(), ()>(&*store)?.call(store, ()))
    }

    fn call<T>(
        &mut self,
        function: &'static str,
        call: impl FnOnce(&mut Store<InstanceState>) -> wasmtime::Result<T>,
    ) -> Called<T> {
        if let Err(failure) = set_fuel(&mut self.store, self.fuel) {
            return (CallStats::default(), Err(failure));
        }
        let state = self.store.data_mut();
        // Clear a memory refusal that an earlier call survived.
        state.budget.take_refusal();
        state.quota.restart();
        state.log_descriptors.restart();
        let stderr_start = state.stderr.position();
        let entered = self.timers.handle().enter();
        let start = Time::now();
        self.store.data_mut().host.files.close_old_folders(start);
        let result = call(&mut self.store);
        let seconds = start.elapsed().as_secs_f64();
        drop(entered);
        // Read the fuel only if it is counted: otherwise `get_fuel` returns an error, which takes time to
        // construct.
        let used_of = |fuel: u64| fuel.saturating_sub(self.store.get_fuel().unwrap_or(0));
        let stats = CallStats { seconds, fuel: self.fuel.map(used_of) };
        let result = result.map_err(|error| {
            let state = self.store.data_mut();
            let context = TrapContext {
                function,
                limits: &self.limits,
                refusal: state.budget.take_refusal(),
                stderr: state.stderr.tail_since(stderr_start),
            };
            traps::failure(&error, &context)
        });
        (stats, result)
    }
}

/// Passes the results to `sink`, if they are within the limits and valid UTF-8.
fn deliver(
    results: &ResultsValue,
    limits: &Limits,
    sink: &mut dyn ResultSink,
) -> Result<(), Failure> {
    let (copied, kind) = match results {
        ResultsValue::Rows(rows) => (&rows.0, "rows"),
        ResultsValue::Outcomes(outcomes) => (&outcomes.0, "outcomes"),
        ResultsValue::Table(table) => (&table.0, "a table"),
    };
    if copied.is_too_large() {
        return Err(Failure::new(
            FailureKind::BadResults,
            format!(
                "run returned {kind} of {}, and limits.results allows {}. Raise the limit, or make \
                 mini_batch_size smaller",
                ByteSize(copied.size).rounded(),
                limits.results
            ),
        ));
    }
    if let ResultsValue::Table(_) = results {
        return sink.table(copied.bytes());
    }
    if let ResultsValue::Outcomes(_) = results {
        sink.outcomes(copied.len());
    }
    deliver_texts(copied, limits.row, sink)
}

fn deliver_texts(
    copied: &Copied,
    limit: ByteSize,
    sink: &mut dyn ResultSink,
) -> Result<(), Failure> {
    let entries = copied.entries().map_err(|index| {
        Failure::new(
            FailureKind::BadResults,
            format!(
                "run returned text that is not valid UTF-8 (entry {} of its results)",
                index + 1
            ),
        )
    })?;
    for (index, entry) in entries.enumerate() {
        if entry.failed {
            sink.failed(index, entry.text);
        } else if entry.text.len() as u64 > limit.0 {
            let size = ByteSize(entry.text.len() as u64).rounded();
            let message = format!(
                "limits.row allows {limit} for one row; row {index} (counted from 0) of what run returned has \
                 {size}. Make its rows smaller, or raise the limit"
            );
            return Err(Failure::new(FailureKind::OverLimit, message));
        } else {
            sink.row(entry.text);
        }
    }
    Ok(())
}

/// Sets the store's fuel for one call, if fuel is counted.
pub(super) fn set_fuel(store: &mut Store<InstanceState>, fuel: Option<u64>) -> Result<(), Failure> {
    let Some(fuel) = fuel else { return Ok(()) };
    store.set_fuel(fuel).map_err(|error| {
        Failure::new(FailureKind::HostFault, format!("fuel cannot be set: {error:#}"))
    })
}
