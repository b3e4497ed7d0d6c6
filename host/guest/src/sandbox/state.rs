//! The data of a store: all that a guest's calls can reach.

use super::clock::{Clock, Timers};
use super::host::Host;
use super::limits::Budget;
use super::nn::Inference;
use super::noticed::Noticed;
use super::plain_files::Seen;
use super::quota::Quota;
use super::seed::Numbers;
use super::sink::Sink;
use super::virtual_time::VirtualTime;
use super::writing::Kept;
use wasmtime_wasi::clocks::WasiClocksCtxView;
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView};

/// What belongs to one instance.
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
    /// These three are for deterministic guests alone.
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
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
