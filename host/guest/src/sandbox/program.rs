//! A loaded component.

use super::clock::Timers;
use super::files::OpenFolders;
use super::grants::{self, Grants};
use super::host::Host;
use super::instance::{Exports, Instance, set_fuel};
use super::limits::Budget;
use super::log_descriptors::LogDescriptors;
use super::nn::{self, InferenceState};
use super::noticed::Noticed;
use super::object_numbers::SeenObjects;
use super::profile::GuestProfiler;
use super::quota::WriteQuota;
use super::seed::{self, RandomSources};
use super::sink::GuestSink;
use super::state::InstanceState;
use super::virtual_time::{self, VirtualTime};
use super::{clock, file_metadata, host_calls, listing, paths, plain_files, traps, writing};
use crate::compile::{CompileError, Instrumentation, NN_VERSION, engine_with_stack, find_entry};
use crate::model::{ByteSize, Failure, FailureKind, Limits};
use std::fs::File;
use std::os::fd::AsRawFd;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Engine, Store};
use wasmtime_wasi::ResourceTable;
use wasmtime_wasi::p2::bindings::sync::LinkOptions;

/// The stack that the host needs in addition to the guest's own when the guest calls it, in bytes.
const HOST_STACK: usize = 2 << 20;

/// Replaces [`HOST_STACK`] if the job has models, in bytes: reading and planning a model recurses as deep as
/// the model's graphs are nested.
const MODEL_STACK: usize = 16 << 20;

/// The stack size of a thread that runs guests with these limits, in bytes. The engine does not check the
/// size of the thread's stack, and an overflow aborts the process. `inference`: whether the guests may load
/// models.
pub fn guest_thread_stack(limits: &Limits, inference: bool) -> usize {
    bytes(limits.stack).saturating_add(if inference { MODEL_STACK } else { HOST_STACK })
}

fn bytes(size: ByteSize) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

/// The name of WASI's file interface. The engine uses it for all 0.2 versions that a guest may name.
const FILES_INTERFACE: &str = "wasi:filesystem/types@0.2.12";

/// The name of WASI's interface for preopened folders.
const PREOPENS_INTERFACE: &str = "wasi:filesystem/preopens@0.2.12";

/// The version of WASI that is implemented.
const WASI_VERSION: &str = "0.2.12";

/// A loaded component, which can be instantiated repeatedly.
pub struct GuestProgram {
    engine: Engine,
    pre: InstancePre<InstanceState>,
    pub(super) exports: Exports,
    timers: Timers,
    instrumentation: Instrumentation,
    profiler: Option<GuestProfiler>,
}

impl GuestProgram {
    /// Loads compiled code from an open file that the leader has checked. `instrumentation` must be that of
    /// the compilation; `stack` is `limits.stack`. Starts no thread, so the process may be forked afterwards.
    ///
    /// # Errors
    /// A host fault if the file was not compiled by exactly this version of Sandmill, or the component
    /// imports something that is not linked.
    pub fn load(
        compiled: &File,
        instrumentation: Instrumentation,
        stack: ByteSize,
    ) -> Result<Self, Failure> {
        let fault = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(FailureKind::HostFault, format!("{what}: {error:#}"))
        };
        let engine = engine_with_stack(instrumentation, bytes(stack))
            .map_err(|error| fault("the engine cannot start", &error))?;
        let path = format!("/proc/self/fd/{}", compiled.as_raw_fd());
        // SAFETY: compiled code comes from a cache that only its owner can write to, and the leader has
        // compared its checksum (`compile::Cache`). wasmtime itself refuses files of another version or
        // configuration.
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
        let run =
            index("run").ok_or_else(|| fault("the entry script", &"it does not export run"))?;
        let exports = Exports {
            run,
            init: entry.init.then(|| index("init")).flatten(),
            shutdown: entry.shutdown.then(|| index("shutdown")).flatten(),
        };
        let pre = linker(&engine, instrumentation)
            .and_then(|linker| linker.instantiate_pre(&component))
            .map_err(|error| {
                fault("the entry script imports something that Sandmill does not have", &error)
            })?;
        let timers = Timers::new().map_err(|error| fault("timers cannot be made", &error))?;
        Ok(Self { engine, pre, exports, timers, instrumentation, profiler: None })
    }

    /// Sets the profiler. The code must be compiled for profiling if and only if there is a profiler.
    pub fn profiled_by(self, profiler: Option<GuestProfiler>) -> Self {
        Self { profiler, ..self }
    }

    /// The functions of the contract that the component exports.
    pub fn functions(&self) -> Vec<&'static str> {
        let optional = [("init", self.exports.init), ("shutdown", self.exports.shutdown)];
        let found = optional.into_iter().filter_map(|(name, index)| index.map(|_| name));
        ["run"].into_iter().chain(found).collect()
    }

    /// Makes an instance. Calls nothing in it, except the component's own start functions.
    ///
    /// # Errors
    /// If a folder cannot be opened, or a start function fails.
    pub fn instantiate(&self, grants: &Grants) -> Result<Instance, Failure> {
        let quota = WriteQuota::new(&grants.limits, &grants.log_folder);
        let stderr = GuestSink::new(&grants.stderr, &quota);
        let files = OpenFolders::open(&grants.mounts, grants.limits.read)
            .map_err(|(mount, error)| grants::cannot_open(mount, &error))?;
        let time = VirtualTime::default();
        let virtual_time = self.instrumentation.deterministic.then_some(&time);
        let mut table = ResourceTable::new();
        let handles = usize::try_from(grants.limits.handles).unwrap_or(usize::MAX);
        table.set_max_capacity(handles);
        let state = InstanceState {
            wasi: grants::wasi(grants, &stderr, &quota, &files, virtual_time)?,
            table,
            budget: Budget::new(grants.limits.memory),
            host: Host::new(grants, files, &quota),
            inference: InferenceState::new(&grants.models, &grants.limits),
            quota,
            stderr,
            timers: self.timers.clone(),
            time,
            numbers: RandomSources::new(grants.seed),
            seen: SeenObjects::default(),
            log_descriptors: LogDescriptors::new(&grants.log_dir),
            noticed: Noticed::default(),
        };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.budget);
        store.set_max_component_handles(handles);
        store.set_hostcall_fuel(bytes(grants.limits.transfer));
        let fuel = self.instrumentation.fuel.then(|| grants.limits.fuel.unwrap_or(u64::MAX));
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

/// Checks that all imports of a component exist, including each function and its type: a known interface may
/// have functions that this version lacks.
///
/// # Errors
/// If an import does not exist.
pub fn check_imports(engine: &Engine, component: &Component) -> Result<(), CompileError> {
    let linker = linker(engine, Instrumentation::default());
    linker.and_then(|linker| linker.instantiate_pre(component).map(drop)).map_err(|error| {
        CompileError(format!(
            "the entry script imports something that this Sandmill does not have: {error:#}. \
             Sandmill has WASI {WASI_VERSION}, wasi:nn {NN_VERSION} and sandmill:entry 0.1.0 and 0.2.0: build \
             with tools for these versions, or use a newer Sandmill"
        ))
    })
}

fn start_failure(
    error: &wasmtime::Error,
    store: &mut Store<InstanceState>,
    limits: &Limits,
) -> Failure {
    let state = store.data_mut();
    let context = traps::TrapContext {
        function: "starting",
        limits,
        refusal: state.budget.take_refusal(),
        stderr: state.stderr.tail_since(0),
    };
    traps::failure(error, &context)
}

fn linker(
    engine: &Engine,
    instrumentation: Instrumentation,
) -> wasmtime::Result<Linker<InstanceState>> {
    let mut linker = Linker::new(engine);
    let mut options = LinkOptions::default();
    // Toolchains import this function by default.
    options.network_error_code(true);
    wasmtime_wasi::p2::add_to_linker_with_options_sync(&mut linker, &options)?;
    linker.allow_shadowing(true);
    paths::link(&mut linker.instance(FILES_INTERFACE)?)?;
    if instrumentation.deterministic {
        virtual_time::link(&mut linker, InstanceState::virtual_clock)?;
        seed::link(&mut linker, |state: &mut InstanceState| &mut state.numbers)?;
        plain_files::link(&mut linker)?;
    } else {
        clock::link(&mut linker, InstanceState::clock)?;
        listing::link(&mut linker.instance(FILES_INTERFACE)?)?;
        file_metadata::link(&mut linker.instance(FILES_INTERFACE)?)?;
    }
    writing::link(&mut linker.instance(FILES_INTERFACE)?)?;
    writing::link_folders(&mut linker.instance(PREOPENS_INTERFACE)?)?;
    linker.allow_shadowing(false);
    host_calls::link(&mut linker)?;
    nn::link(&mut linker, InstanceState::inference)?;
    Ok(linker)
}
