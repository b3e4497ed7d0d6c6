//! Makes inputs for fuzzing by changing other inputs. The same seed always gives the same inputs.

use sandmill_model::to_usize;

/// Changes bytes in the way that fuzzers do.
#[derive(Debug)]
pub struct Mutator(u64);

impl Mutator {
    /// A mutator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        // Xorshift: a simple random generator suffices.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, bound: usize) -> usize {
        to_usize(self.next() % bound.max(1) as u64)
    }

    /// Returns one of the inputs, changed in a few places.
    pub fn mutated(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let choice = self.below(inputs.len());
        let mut bytes = inputs.get(choice).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, inputs);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        const SPECIAL_BYTES: [u8; 10] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b'\r', b'"', b',', b' '];
        let position = self.below(bytes.len());
        let length = self.below(9) + 1;
        match self.below(7) {
            0 => bytes.truncate(position),
            1 => drop(bytes.drain(position..(position + length).min(bytes.len()))),
            2 => bytes.insert(position, self.next().to_le_bytes()[0]),
            3 => bytes.insert(position, SPECIAL_BYTES[self.below(SPECIAL_BYTES.len())]),
            4 => {
                // Insert a piece of another input.
                let choice = self.below(inputs.len());
                let Some(other) = inputs.get(choice).filter(|other| !other.is_empty()) else {
                    return;
                };
                let from = self.below(other.len());
                let to = (from + self.below(64)).min(other.len());
                bytes.splice(position..position, other[from..to].iter().copied());
            }
            5 => {
                let replacement = SPECIAL_BYTES[self.below(SPECIAL_BYTES.len())];
                bytes.iter_mut().skip(position).take(length).for_each(|byte| *byte = replacement);
            }
            _ => {
                let bit = 1 << self.below(8);
                bytes.iter_mut().skip(position).take(1).for_each(|byte| *byte ^= bit);
            }
        }
    }
}
