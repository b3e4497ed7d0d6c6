//! Records what a worker is doing with a model: a few bytes in a file, which the worker overwrites each time.
//! A process that ends a slow worker can thus report what took so long.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kinds of work with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferenceWork {
    /// The model is being read and prepared.
    Loading,
    /// The model is computing.
    Computing,
}

/// The record that a worker is loading a model or computing with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InferenceNote {
    /// The kind of work.
    pub work: InferenceWork,
    /// Which of the job's models, in the order of their names. `None` for a model of the entry script's own.
    pub model: Option<u32>,
    /// The start of the work, in nanoseconds since 1970.
    pub since: u64,
}

impl InferenceNote {
    /// The size of a note in bytes.
    pub const BYTES: usize = 13;

    /// The note of work that begins now.
    pub fn now(work: InferenceWork, model: Option<u32>) -> Self {
        Self { work, model, since: nanos(SystemTime::now()) }
    }

    /// The note as bytes. `None` means that the worker is not using a model.
    pub fn encode(note: Option<Self>) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        if let Some(note) = note {
            bytes[0] = match note.work {
                InferenceWork::Loading => 1,
                InferenceWork::Computing => 2,
            };
            bytes[1..5].copy_from_slice(&note.model.unwrap_or(u32::MAX).to_le_bytes());
            bytes[5..].copy_from_slice(&note.since.to_le_bytes());
        }
        bytes
    }

    /// Reads a note from untrusted bytes. `None` if no work is recorded, or if the bytes are not a note.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let work = match bytes[0] {
            1 => InferenceWork::Loading,
            2 => InferenceWork::Computing,
            _ => return None,
        };
        let model = u32::from_le_bytes(bytes[1..5].try_into().ok()?);
        let since = u64::from_le_bytes(bytes[5..].try_into().ok()?);
        Some(Self { work, model: (model != u32::MAX).then_some(model), since })
    }

    /// How long the work has lasted, but at most `most`: the clock may have been changed, and a worker can
    /// write any time.
    pub fn lasted(&self, most: Duration) -> Duration {
        Duration::from_nanos(nanos(SystemTime::now()).saturating_sub(self.since)).min(most)
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_unchanged() {
        for work in [InferenceWork::Loading, InferenceWork::Computing] {
            for model in [None, Some(0), Some(7)] {
                let note = InferenceNote::now(work, model);
                assert_eq!(InferenceNote::decode(&InferenceNote::encode(Some(note))), Some(note));
            }
        }
        let mut bytes = InferenceNote::encode(None);
        assert_eq!(InferenceNote::decode(&bytes), None);
        bytes[0] = 3;
        assert_eq!(InferenceNote::decode(&bytes), None);
        assert_eq!(InferenceNote::decode(&bytes[1..]), None);
        assert_eq!(InferenceNote::decode(&[2; 100]), None);
    }

    #[test]
    fn the_duration_is_capped() {
        let note =
            |since| InferenceNote { since, ..InferenceNote::now(InferenceWork::Loading, None) };
        let most = Duration::from_secs(5);
        assert_eq!(note(0).lasted(most), most);
        assert_eq!(note(u64::MAX).lasted(most), Duration::ZERO);
    }
}
