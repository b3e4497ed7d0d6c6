//! Lets guests sleep. WASI's clocks need a runtime with a thread that drives its timers. Most guests never
//! sleep, so that thread starts when a guest sleeps for the first time.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::clocks::WasiClocksCtxView;
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::{self, Duration, Instant};

/// The runtime that WASI needs around every call into a guest. Without this runtime, WASI would start one
/// thread per core.
#[derive(Clone)]
pub(super) struct Timers {
    handle: Handle,
    driver: Arc<Mutex<ClockDriver>>,
}

struct ClockDriver {
    /// The runtime, until its thread starts.
    runtime: Option<Runtime>,
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
}

impl Timers {
    pub(super) fn new() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let handle = runtime.handle().clone();
        let driver = ClockDriver { runtime: Some(runtime), stop: None };
        Ok(Self { handle, driver: Arc::new(Mutex::new(driver)) })
    }

    /// The handle of the runtime that a call must enter.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Starts the thread, unless it is running.
    fn start(&self) -> std::io::Result<()> {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(runtime) = driver.runtime.take() else { return Ok(()) };
        let (stop, stopped) = oneshot::channel::<()>();
        driver.stop = Some(stop);
        std::thread::Builder::new().name("guest-timers".into()).stack_size(128 << 10).spawn(
            move || {
                // Waits until the sender is dropped, which ends the wait with an error.
                let _ = runtime.block_on(stopped);
            },
        )?;
        Ok(())
    }
}

impl Drop for ClockDriver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A plain drop is not allowed inside an async runtime.
            runtime.shutdown_background();
        }
    }
}

/// Links the monotonic clock. Its `subscribe` functions start the timers first.
///
/// # Errors
/// If a name is already defined, which would be a bug.
pub(super) fn link<T>(
    linker: &mut Linker<T>,
    clock: fn(&mut T) -> Clock<'_>,
) -> wasmtime::Result<()> {
    monotonic_clock::add_to_linker::<T, ClocksView>(linker, clock)
}

struct ClocksView;

impl HasData for ClocksView {
    type Data<'a> = Clock<'a>;
}

/// WASI's monotonic clock and the timers that it needs.
pub(super) struct Clock<'a> {
    pub(super) wasi: WasiClocksCtxView<'a>,
    pub(super) timers: &'a Timers,
}

impl monotonic_clock::Host for Clock<'_> {
    fn now(&mut self) -> wasmtime::Result<Instant> {
        self.wasi.now()
    }

    fn resolution(&mut self) -> wasmtime::Result<Duration> {
        monotonic_clock::Host::resolution(&mut self.wasi)
    }

    fn subscribe_instant(&mut self, when: Instant) -> wasmtime::Result<Resource<DynPollable>> {
        self.timers.start()?;
        self.wasi.subscribe_instant(when)
    }

    fn subscribe_duration(&mut self, when: Duration) -> wasmtime::Result<Resource<DynPollable>> {
        self.timers.start()?;
        self.wasi.subscribe_duration(when)
    }
}
