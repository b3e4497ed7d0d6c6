//! Clocks for guests of deterministic jobs. The clocks begin at the same time in each instance, and
//! advance whenever the guest reads one. Sleeping takes no real time: the clocks jump to the end of
//! the sleep.

use std::future::poll_fn;
use std::mem::replace;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time;
use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::{self, Duration, Instant};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, ResourceTable, async_trait};

/// The initial date, in seconds since 1970: the start of the year 2020.
pub(super) const INITIAL_SECONDS: u64 = 1_577_836_800;
/// The nanoseconds by which a clock advances when it is read. The step is small, so that a guest
/// that measures durations does not reach its own time limits. The step is large enough that a
/// guest that polls the clock until a certain time reaches this time.
const STEP_NANOS: u64 = 1_000;

/// The time of an instance, which both clocks show.
#[derive(Clone, Default)]
pub(super) struct VirtualTime(Arc<Mutex<ClockInner>>);

#[derive(Default)]
struct ClockInner {
    /// Nanoseconds since the initial date.
    now: u64,
    next_id: u64,
    waiting: Vec<WaitingSleep>,
}

/// A sleep that the guest is waiting for.
struct WaitingSleep {
    id: u64,
    until: u64,
    /// Whether the sleep was polled since the time last jumped.
    was_polled: bool,
}

impl VirtualTime {
    fn inner(&self) -> MutexGuard<'_, ClockInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the time by one step and returns it.
    fn tick(&self) -> u64 {
        let mut inner = self.inner();
        inner.now = inner.now.saturating_add(STEP_NANOS);
        inner.now
    }

    /// Adds a sleep to the list until the guard is dropped.
    fn wait(&self, until: u64) -> Guard<'_> {
        let mut inner = self.inner();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.waiting.push(WaitingSleep { id, until, was_polled: true });
        Guard { time: self, id }
    }

    /// Returns whether a sleep is over. Each waiting sleep calls this repeatedly. Once all of them have
    /// called, the time jumps to the end of the shortest sleep.
    fn poll(&self, id: u64) -> bool {
        let mut inner = self.inner();
        let ClockInner { now, waiting, .. } = &mut *inner;
        if waiting.iter().all(|sleep| sleep.was_polled) {
            let shortest = waiting.iter().map(|sleep| sleep.until).min().unwrap_or(0);
            *now = shortest.max(*now);
            waiting.iter_mut().for_each(|sleep| sleep.was_polled = false);
        }
        waiting.iter_mut().find(|sleep| sleep.id == id).is_none_or(|sleep| {
            sleep.was_polled = true;
            sleep.until <= *now
        })
    }
}

/// Removes a sleep from the list when the guest no longer waits for it.
struct Guard<'a> {
    time: &'a VirtualTime,
    id: u64,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.time.inner().waiting.retain(|sleep| sleep.id != self.id);
    }
}

impl HostWallClock for VirtualTime {
    fn resolution(&self) -> time::Duration {
        time::Duration::from_nanos(STEP_NANOS)
    }

    fn now(&self) -> time::Duration {
        time::Duration::from_secs(INITIAL_SECONDS) + time::Duration::from_nanos(self.tick())
    }
}

impl HostMonotonicClock for VirtualTime {
    fn resolution(&self) -> u64 {
        STEP_NANOS
    }

    fn now(&self) -> u64 {
        self.tick()
    }
}

/// A point in time to wait for.
struct Sleep {
    time: VirtualTime,
    until: u64,
}

#[async_trait]
impl Pollable for Sleep {
    async fn ready(&mut self) {
        // This poll advances the time too, for guests that poll repeatedly instead of waiting.
        if self.until <= self.time.tick() {
            return;
        }
        let guard = self.time.wait(self.until);
        loop {
            pause().await;
            if self.time.poll(guard.id) {
                return;
            }
        }
    }
}

/// Yields once, so that the other sleeps of the same `poll` get their turn.
async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Replaces WASI's monotonic clock with one on the store's virtual time. The wall clock is part of the WASI
/// context.
///
/// # Errors
/// If the linker does not allow shadowing.
pub(super) fn link<T>(
    linker: &mut Linker<T>,
    clock: fn(&mut T) -> VirtualClock<'_>,
) -> wasmtime::Result<()> {
    monotonic_clock::add_to_linker::<T, VirtualClocks>(linker, clock)
}

struct VirtualClocks;

impl HasData for VirtualClocks {
    type Data<'a> = VirtualClock<'a>;
}

/// A monotonic clock that shows the virtual time.
pub(super) struct VirtualClock<'a> {
    pub(super) table: &'a mut ResourceTable,
    pub(super) time: &'a VirtualTime,
}

impl VirtualClock<'_> {
    fn sleep(&mut self, until: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let sleep = self.table.push(Sleep { time: self.time.clone(), until })?;
        subscribe(self.table, sleep)
    }
}

impl monotonic_clock::Host for VirtualClock<'_> {
    fn now(&mut self) -> wasmtime::Result<Instant> {
        Ok(self.time.tick())
    }

    fn resolution(&mut self) -> wasmtime::Result<Duration> {
        Ok(STEP_NANOS)
    }

    fn subscribe_instant(&mut self, when: Instant) -> wasmtime::Result<Resource<DynPollable>> {
        self.sleep(when)
    }

    fn subscribe_duration(&mut self, length: Duration) -> wasmtime::Result<Resource<DynPollable>> {
        let until = self.time.tick().saturating_add(length);
        self.sleep(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    type Ready<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Finds the sleeps that end first, as WASI's `poll` does.
    fn poll(sleeps: &mut [Ready<'_>]) -> Vec<usize> {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            let ready = sleeps.iter_mut().map(|sleep| sleep.as_mut().poll(&mut context));
            let ready: Vec<bool> = ready.map(|poll| poll.is_ready()).collect();
            if ready.contains(&true) {
                return (0..ready.len()).filter(|index| ready[*index]).collect();
            }
        }
        panic!("nothing is ever ready");
    }

    #[test]
    fn reading_a_clock_advances_the_time() {
        let time = VirtualTime::default();
        let wall = HostWallClock::now(&time);
        assert_eq!(wall, time::Duration::new(INITIAL_SECONDS, 1_000));
        assert_eq!(HostMonotonicClock::now(&time), 2_000);
        assert_eq!(HostWallClock::now(&time), time::Duration::new(INITIAL_SECONDS, 3_000));
    }

    #[test]
    fn the_shortest_sleep_ends_first_in_any_order() {
        for (lengths, first) in
            [(&[5, 1][..], &[1][..]), (&[1, 5], &[0]), (&[7], &[0]), (&[3, 1, 1], &[1, 2])]
        {
            let time = VirtualTime::default();
            let second = |length: &u64| Sleep { time: time.clone(), until: length * 1_000_000_000 };
            let mut sleeps: Vec<Sleep> = lengths.iter().map(second).collect();
            let mut waiting: Vec<Ready<'_>> = sleeps.iter_mut().map(Pollable::ready).collect();
            assert_eq!(poll(&mut waiting), first, "{lengths:?}");
            drop(waiting);
            let shortest = lengths.iter().min().expect("one") * 1_000_000_000;
            assert_eq!(HostMonotonicClock::now(&time), shortest + STEP_NANOS, "{lengths:?}");
            assert!(time.inner().waiting.is_empty(), "no sleep remains");
        }
    }

    #[test]
    fn a_guest_that_only_polls_finishes() {
        let time = VirtualTime::default();
        let mut sleep = Sleep { time, until: 100 * STEP_NANOS };
        let mut context = Context::from_waker(Waker::noop());
        let polls = (0..).find(|_| sleep.ready().as_mut().poll(&mut context).is_ready());
        assert_eq!(polls, Some(99));
    }
}
