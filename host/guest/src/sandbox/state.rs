//! The data of a store: everything that a guest's calls can reach.

use super::clock::{Clock, Timers};
use super::host::Host;
use super::kept::Kept;
use super::limits::Budget;
use super::nn::{Inference, View};
use super::noticed::Noticed;
use super::quota::Quota;
use super::seed::Numbers;
use super::seen::Seen;
use super::sink::Sink;
use super::virtual_time::{VirtualClock, VirtualTime};
use wasmtime_wasi::clocks::WasiClocksCtxView;
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView};

/// The data of an instance.
pub(super) struct State {
    pub(super) wasi: WasiCtx,
    pub(super) table: ResourceTable,
    pub(super) budget: Budget,
    pub(super) quota: Quota,
    pub(super) host: Host,
    pub(super) inference: Inference,
    pub(super) stderr: Sink,
    pub(super) timers: Timers,
    pub(super) kept: Kept,
    pub(super) noticed: Noticed,
    /// Only deterministic guests use these three.
    pub(super) time: VirtualTime,
    pub(super) numbers: Numbers,
    pub(super) seen: Seen,
}

impl State {
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

    /// The part that inference uses.
    pub(super) fn inference(&mut self) -> View<'_> {
        View { table: &mut self.table, inference: &mut self.inference }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
