//! Random decisions from a seed.

/// A small random number generator (splitmix64).
#[derive(Debug)]
pub(super) struct SimulationRandom {
    state: u64,
    /// Whether unlikely events no longer happen: then [`one_in`](Self::one_in) is always false.
    pub(super) calm: bool,
}

impl SimulationRandom {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, calm: false }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Whether something that happens once in `times` happens now.
    pub(super) fn one_in(&mut self, times: u64) -> bool {
        !self.calm && self.below(times) == 0
    }
}
