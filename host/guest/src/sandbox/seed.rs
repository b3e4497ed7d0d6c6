//! Random numbers that are derived from a mini-batch, for guests of deterministic jobs.

use crate::model::to_usize;
use sha2::{Digest, Sha256};
use wasmtime::component::{HasData, Linker};
use wasmtime::{Result, bail};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

/// The maximum number of bytes per call. Guests of other jobs have the same limit.
const MAX_BYTES_PER_CALL: u64 = 64 << 20;

/// The seed of a deterministic guest's random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed for an instance that is made before there is a mini-batch.
    pub fn before_mini_batches() -> Self {
        Self::from_input(b"no mini-batch")
    }

    /// The seed for all attempts at the mini-batch with this id.
    pub fn of_mini_batch(id: u64) -> Self {
        Self::from_input(&id.to_le_bytes())
    }

    fn from_input(input: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(b"sandmill deterministic 1:").chain_update(input);
        Self(hash.finalize().into())
    }
}

/// The three sources of random numbers in WASI. Each has its own stream, so that the use of one source does
/// not change the numbers of another.
pub(super) struct RandomSources {
    random: RandomStream,
    insecure: RandomStream,
    insecure_seed: (u64, u64),
}

impl RandomSources {
    pub(super) fn new(seed: Seed) -> Self {
        let mut stream = RandomStream::new(seed, b"insecure-seed");
        Self {
            random: RandomStream::new(seed, b"random"),
            insecure: RandomStream::new(seed, b"insecure"),
            insecure_seed: (stream.next_u64(), stream.next_u64()),
        }
    }
}

/// An endless stream of bytes: SHA-256 of a key and a counter.
struct RandomStream {
    key: [u8; 32],
    counter: u64,
    block: [u8; 32],
    /// The number of bytes of `block` that have been returned.
    used: usize,
}

impl RandomStream {
    fn new(seed: Seed, purpose: &[u8]) -> Self {
        let key = Sha256::new().chain_update(seed.0).chain_update(purpose).finalize().into();
        Self { key, counter: 0, block: [0; 32], used: 32 }
    }

    fn fill(&mut self, mut target: &mut [u8]) {
        while !target.is_empty() {
            if self.used == self.block.len() {
                let hash = Sha256::new().chain_update(self.key);
                self.block = hash.chain_update(self.counter.to_le_bytes()).finalize().into();
                self.counter += 1;
                self.used = 0;
            }
            let count = target.len().min(self.block.len() - self.used);
            let (now, later) = target.split_at_mut(count);
            now.copy_from_slice(&self.block[self.used..self.used + count]);
            self.used += count;
            target = later;
        }
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        if count > MAX_BYTES_PER_CALL {
            bail!("one call asked for {count} random bytes, and {MAX_BYTES_PER_CALL} are allowed");
        }
        // At most 64 MiB, as checked above.
        let mut bytes = vec![0; to_usize(count)];
        self.fill(&mut bytes);
        Ok(bytes)
    }
}

/// Replaces WASI's random numbers with numbers that are derived from the store's seed.
///
/// # Errors
/// If the linker does not allow shadowing.
pub(super) fn link<T>(
    linker: &mut Linker<T>,
    numbers: fn(&mut T) -> &mut RandomSources,
) -> Result<()> {
    random::add_to_linker::<T, Numbered>(linker, numbers)?;
    insecure::add_to_linker::<T, Numbered>(linker, numbers)?;
    insecure_seed::add_to_linker::<T, Numbered>(linker, numbers)
}

struct Numbered;

impl HasData for Numbered {
    type Data<'a> = &'a mut RandomSources;
}

impl random::Host for RandomSources {
    fn get_random_bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        self.random.bytes(count)
    }

    fn get_random_u64(&mut self) -> Result<u64> {
        Ok(self.random.next_u64())
    }
}

impl insecure::Host for RandomSources {
    fn get_insecure_random_bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        self.insecure.bytes(count)
    }

    fn get_insecure_random_u64(&mut self) -> Result<u64> {
        Ok(self.insecure.next_u64())
    }
}

impl insecure_seed::Host for RandomSources {
    fn insecure_seed(&mut self) -> Result<(u64, u64)> {
        Ok(self.insecure_seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insecure::Host as _;
    use insecure_seed::Host as _;
    use random::Host as _;

    fn first(seed: Seed) -> (u64, u64, (u64, u64)) {
        let mut numbers = RandomSources::new(seed);
        let mut take = || -> Result<_> {
            Ok((
                numbers.get_random_u64()?,
                numbers.get_insecure_random_u64()?,
                numbers.insecure_seed()?,
            ))
        };
        take().expect("numbers")
    }

    #[test]
    fn numbers_follow_from_the_mini_batch() {
        let one = first(Seed::of_mini_batch(1));
        assert_eq!(one, first(Seed::of_mini_batch(1)));
        let others = [Seed::of_mini_batch(0), Seed::of_mini_batch(2), Seed::before_mini_batches()];
        for other in others.map(first) {
            assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2);
        }
        assert!(one.0 != one.1 && one.0 != one.2.0 && one.2.0 != one.2.1, "{one:?}");
    }

    /// A change of these numbers changes the results of existing deterministic jobs.
    #[test]
    fn the_first_numbers_never_change() {
        insta::assert_snapshot!(format!("{:x?}", first(Seed::of_mini_batch(0))), @"(72c8a7f21a5cd807, ee7e257e53a079ce, (2df88218dd4d0c77, 50119584824f302c))");
    }

    #[test]
    fn the_size_of_requests_does_not_change_the_bytes() {
        let whole =
            RandomSources::new(Seed::of_mini_batch(7)).get_random_bytes(100).expect("bytes");
        let mut numbers = RandomSources::new(Seed::of_mini_batch(7));
        let pieces = [0, 1, 31, 1, 40, 27].map(|count| numbers.get_random_bytes(count));
        let pieces: Vec<u8> = pieces.into_iter().flatten().flatten().collect();
        assert_eq!(whole, pieces);
        let error = numbers.get_random_bytes(MAX_BYTES_PER_CALL + 1).expect_err("too many");
        assert!(error.to_string().contains("67108864 are allowed"), "{error}");
    }
}
