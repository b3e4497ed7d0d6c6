//! A loaded component.

use super::clock::Timers;
use super::files::Files;
use super::grants::{self, Grants};
use super::host::Host;
use super::instance::Instance;
use super::limits::Budget;
use super::profile::Profiler;
use super::sink::Sink;
use super::state::State;
use super::{clock, host, traps};
use crate::compile::{Instrumentation, engine, find_entry};
use crate::model::{Failure, FailureKind, Limits};
use std::fs::File;
use std::os::fd::AsRawFd;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};
use wasmtime::{Engine, Store};
use wasmtime_wasi::ResourceTable;
use wasmtime_wasi::p2::bindings::sync::LinkOptions;

/// Open files and other handles of one instance.
const HANDLES: usize = 10_000;
/// Bytes that a guest may hand over in one call of the host, and in the results of one call of its
/// own; smaller limits are checked where they apply.
const MINIMUM_TRANSFER: u64 = 128 << 20;

/// A loaded component, ready to be instantiated again and again.
pub struct Program {
    engine: Engine,
    pre: InstancePre<State>,
    pub(super) exports: Exports,
    timers: Timers,
    fuel: bool,
    profiler: Option<Profiler>,
}

/// Where the functions are.
#[derive(Clone, Copy)]
pub(super) struct Exports {
    pub(super) run: ComponentExportIndex,
    pub(super) init: Option<ComponentExportIndex>,
    pub(super) shutdown: Option<ComponentExportIndex>,
}

impl Program {
    /// Loads compiled code from an open file that the leader has checked. `fuel`: whether it was
    /// compiled with fuel counting. `profiler`: what samples go to, if and only if it was compiled
    /// for a profile. Starts no thread.
    ///
    /// # Errors
    /// A host fault if the file is no compiled code of this very version of Sandmill, or the
    /// component wants something that is not linked.
    pub fn load(compiled: &File, fuel: bool, profiler: Option<Profiler>) -> Result<Self, Failure> {
        let fault = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(FailureKind::HostFault, format!("{what}: {error:#}"))
        };
        let with = Instrumentation { fuel, profile: profiler.is_some() };
        let engine = engine(with).map_err(|error| fault("the engine cannot start", &error))?;
        let path = format!("/proc/self/fd/{}", compiled.as_raw_fd());
        // SAFETY: compiled code comes from a cache that its owner alone can write, and the leader
        // has compared its digest (`compile::Cache`); a file of another version or configuration is
        // refused by wasmtime itself.
        let component = unsafe { Component::deserialize_file(&engine, path) }
            .map_err(|error| fault("the compiled entry script cannot be loaded", &error))?;
        let entry = find_entry(&engine, &component)
            .map_err(|error| fault("the compiled entry script breaks the contract", &error))?;
        let index = |name: &str| {
            let instance = match &entry.instance {
                Some(instance) => Some(component.get_export_index(None, instance)?),
                None => None,
            };
            component.get_export_index(instance.as_ref(), name)
        };
        let run = index("run").ok_or_else(|| fault("the entry script", &"it exports no run"))?;
        let exports = Exports {
            run,
            init: entry.init.then(|| index("init")).flatten(),
            shutdown: entry.shutdown.then(|| index("shutdown")).flatten(),
        };
        let pre = linker(&engine).and_then(|linker| linker.instantiate_pre(&component)).map_err(
            |error| fault("the entry script imports something that Sandmill does not have", &error),
        )?;
        let timers = Timers::new().map_err(|error| fault("timers cannot be made", &error))?;
        Ok(Self { engine, pre, exports, timers, fuel, profiler })
    }

    /// The functions of the contract that the component exports.
    pub fn functions(&self) -> Vec<&'static str> {
        let optional = [("init", self.exports.init), ("shutdown", self.exports.shutdown)];
        let found = optional.into_iter().filter_map(|(name, index)| index.map(|_| name));
        ["run"].into_iter().chain(found).collect()
    }

    /// Makes an instance; calls nothing in it yet, except what the component itself starts with.
    ///
    /// # Errors
    /// If a folder cannot be opened, or the component's own start fails.
    pub fn instantiate(&self, grants: &Grants) -> Result<Instance, Failure> {
        let stderr = Sink::new(grants.stderr.clone());
        let files = Files::open(&grants.mounts, grants.limits.read)
            .map_err(|(mount, error)| grants::cannot_open(mount, &error))?;
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        let state = State {
            wasi: grants::wasi(grants, &stderr)?,
            table,
            budget: Budget::new(grants.limits.memory),
            host: Host::new(grants, files),
            stderr,
            timers: self.timers.clone(),
        };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.budget);
        let transfer = grants.limits.results.0.max(MINIMUM_TRANSFER);
        // Twice, because lists count by the size of their elements on the host.
        store.set_hostcall_fuel(usize::try_from(transfer.saturating_mul(2)).unwrap_or(usize::MAX));
        let fuel = self.fuel.then(|| grants.limits.fuel.unwrap_or(u64::MAX));
        set_fuel(&mut store, fuel)?;
        if let Some(profiler) = &self.profiler {
            profiler.attach(&mut store)?;
        }
        let entered = self.timers.handle().enter();
        let instance = self.pre.instantiate(&mut store);
        drop(entered);
        match instance {
            Ok(instance) => {
                Instance::new(store, &instance, self.exports, fuel, grants.limits.clone())
            }
            Err(error) => Err(start_failure(&error, &mut store, &grants.limits)),
        }
    }
}

fn start_failure(error: &wasmtime::Error, store: &mut Store<State>, limits: &Limits) -> Failure {
    let state = store.data_mut();
    let circumstances = traps::Circumstances {
        function: "starting",
        limits,
        refusal: state.budget.take_refusal(),
        stderr: state.stderr.tail_since(0),
    };
    traps::failure(error, &circumstances)
}

/// Gives the store its fuel for one call, if it counts.
pub(super) fn set_fuel(store: &mut Store<State>, fuel: Option<u64>) -> Result<(), Failure> {
    let Some(fuel) = fuel else { return Ok(()) };
    store.set_fuel(fuel).map_err(|error| {
        Failure::new(FailureKind::HostFault, format!("fuel cannot be set: {error:#}"))
    })
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let mut options = LinkOptions::default();
    // Toolchains import it unasked.
    options.network_error_code(true);
    wasmtime_wasi::p2::add_to_linker_with_options_sync(&mut linker, &options)?;
    linker.allow_shadowing(true);
    clock::link(&mut linker)?;
    linker.allow_shadowing(false);
    host::link(&mut linker)?;
    Ok(linker)
}
