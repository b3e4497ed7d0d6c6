//! The data of a store: everything that a guest's calls can reach.

use super::clock::{Clock, Timers};
use super::host::Host;
use super::limits::Budget;
use super::log_descriptors::LogDescriptors;
use super::nn::{InferenceState, View};
use super::noticed::Noticed;
use super::object_numbers::SeenObjects;
use super::quota::WriteQuota;
use super::seed::RandomSources;
use super::sink::GuestSink;
use super::virtual_time::{VirtualClock, VirtualTime};
use wasmtime_wasi::clocks::WasiClocksCtxView;
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView};

pub(super) struct InstanceState {
    pub(super) wasi: WasiCtx,
    pub(super) table: ResourceTable,
    pub(super) budget: Budget,
    pub(super) quota: WriteQuota,
    pub(super) host: Host,
    pub(super) inference: InferenceState,
    pub(super) stderr: GuestSink,
    pub(super) timers: Timers,
    pub(super) log_descriptors: LogDescriptors,
    pub(super) noticed: Noticed,
    // Only deterministic guests use the following three.
    pub(super) time: VirtualTime,
    pub(super) numbers: RandomSources,
    pub(super) seen: SeenObjects,
}

impl InstanceState {
    /// The monotonic clock.
    pub(super) fn clock(&mut self) -> Clock<'_> {
        Clock {
            wasi: WasiClocksCtxView { ctx: self.wasi.clocks(), table: &mut self.table },
            timers: &self.timers,
        }
    }

    /// The monotonic clock of deterministic guests.
    pub(super) fn virtual_clock(&mut self) -> VirtualClock<'_> {
        VirtualClock { table: &mut self.table, time: &self.time }
    }

    /// The part of the data that inference uses.
    pub(super) fn inference(&mut self) -> View<'_> {
        View { table: &mut self.table, inference: &mut self.inference }
    }
}

impl WasiView for InstanceState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
