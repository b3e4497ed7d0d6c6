//! What tenants and users have used: decayed for the order, and summed by month for the quotas.

use crate::calendar::Month;
use crate::resources::Resources;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What an attempt, or a part of it, has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The resources that it occupied.
    pub resources: Resources,
    /// How long it occupied them.
    pub wall: Duration,
    /// The processor time that it used, on all cores together.
    pub cpu_time: Duration,
    /// The time for which it occupied GPUs, for all GPUs together.
    pub gpu_time: Duration,
    /// The fuel that its instances used, in the engine's units.
    pub fuel: u64,
}

/// Usage that halves with each half-life.
///
/// The unit is a billionth of the cluster for one millisecond. A use of the whole cluster for ever sums up to 1.3e17
/// units at a half-life of a day, so that a `u64` suffices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DecayedUsage {
    units: u64,
    /// The time at which `units` was true.
    at: Duration,
    /// The units when [`Self::hold`] was last called.
    #[serde(default)]
    held: u64,
}

impl DecayedUsage {
    /// The units of the whole cluster in a second.
    pub(crate) const SECOND: u64 = 1_000_000_000 * 1000;

    pub(crate) fn at(&self, now: Duration, half_life: Duration) -> u64 {
        decayed(self.units, now.saturating_sub(self.at), half_life)
    }

    pub(crate) fn add(&mut self, units: u64, now: Duration, half_life: Duration) {
        self.units = self.at(now, half_life).saturating_add(units);
        self.at = now.max(self.at);
    }

    /// Remembers the present usage.
    pub(crate) fn hold(&mut self, now: Duration, half_life: Duration) {
        self.held = self.at(now, half_life);
    }

    /// The usage that was last remembered.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// The units of a share of the cluster, in billionths, for a time.
    pub(crate) fn units(billionths: u64, time: Duration) -> u64 {
        let units = u128::from(billionths).saturating_mul(time.as_micros()) / 1000;
        u64::try_from(units).unwrap_or(u64::MAX)
    }
}

/// The sums of one calendar month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MonthUsage {
    month: Month,
    pub(crate) cpu_time: Duration,
    pub(crate) gpu_time: Duration,
    pub(crate) fuel: u64,
}

impl MonthUsage {
    /// The sums of the month in which `now` is.
    pub(crate) fn at(&self, now: Duration) -> Self {
        let month = Month::of(now);
        if self.month == month { *self } else { Self { month, ..Self::default() } }
    }

    pub(crate) fn add(&mut self, usage: &Usage, now: Duration) {
        *self = self.at(now);
        self.cpu_time = self.cpu_time.saturating_add(usage.cpu_time);
        self.gpu_time = self.gpu_time.saturating_add(usage.gpu_time);
        self.fuel = self.fuel.saturating_add(usage.fuel);
    }

    /// When the sums begin at zero again, as the time since 1970-01-01.
    pub(crate) fn resets_at(&self) -> Duration {
        self.month.end()
    }
}

/// How many binary digits of the exponent count. A day divided by `2^40` is 80 ns.
const DIGITS: usize = 40;

/// The powers `2^-(1/2)`, `2^-(1/4)`, `2^-(1/8)`, ..., in units of `2^-64`.
const ROOTS: [u64; DIGITS] = roots();

#[expect(clippy::cast_possible_truncation, reason = "each root is below 2^64")]
const fn roots() -> [u64; DIGITS] {
    let mut roots = [0; DIGITS];
    let mut power: u128 = 1 << 63;
    let mut index = 0;
    while index < DIGITS {
        power = (power << 64).isqrt();
        roots[index] = power as u64;
        index += 1;
    }
    roots
}

/// Computes with integers, so that all machines get the same result.
fn decayed(units: u64, elapsed: Duration, half_life: Duration) -> u64 {
    let half_life = half_life.as_nanos().max(1);
    let elapsed = elapsed.as_nanos();
    let halvings = u32::try_from(elapsed / half_life).unwrap_or(u32::MAX);
    let mut units = units.checked_shr(halvings).unwrap_or(0);
    if units == 0 {
        return 0;
    }
    // Half-lives are far below 2^88 ns, which are ten billion years.
    let exponent = ((elapsed % half_life) << DIGITS) / half_life;
    for (index, root) in ROOTS.iter().enumerate() {
        if exponent >> (DIGITS - 1 - index) & 1 == 1 {
            let product = u128::from(units) * u128::from(*root);
            units = u64::try_from(product >> 64).unwrap_or(u64::MAX);
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn usage_halves_with_each_half_life() {
        let units = 1_000_000_000_000;
        assert_eq!(decayed(units, Duration::ZERO, DAY), units);
        assert_eq!(decayed(units, DAY, DAY), units / 2);
        assert_eq!(decayed(units, 3 * DAY, DAY), units / 8);
        assert_eq!(decayed(units, 64 * DAY, DAY), 0);
        let half = decayed(units, DAY / 2, DAY);
        assert!(half.abs_diff(707_106_781_186) < 100, "{half}");
        let tenth = decayed(units, DAY / 10, DAY);
        assert!(tenth.abs_diff(933_032_991_536) < 100, "{tenth}");
    }

    #[test]
    fn many_small_steps_decay_as_one_large_step() {
        let mut usage = DecayedUsage::default();
        usage.add(1_000_000_000_000_000, Duration::ZERO, DAY);
        for step in 1..=100_000 {
            usage.add(0, DAY / 100_000 * step, DAY);
        }
        let half = usage.at(DAY, DAY);
        assert!(half.abs_diff(500_000_000_000_000) < 100_000_000, "{half}");
    }

    #[test]
    fn a_month_begins_at_zero() {
        let mut sums = MonthUsage::default();
        let usage = Usage { cpu_time: DAY, fuel: 7, ..Usage::default() };
        sums.add(&usage, 3 * DAY);
        sums.add(&usage, 4 * DAY);
        assert_eq!((sums.at(30 * DAY).cpu_time, sums.at(30 * DAY).fuel), (2 * DAY, 14));
        assert_eq!(sums.at(4 * DAY).resets_at(), 31 * DAY);
        assert_eq!(sums.at(31 * DAY).fuel, 0);
    }
}
