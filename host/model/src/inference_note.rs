//! The note in which a worker records what it is doing with a model. The worker overwrites a few bytes of a
//! file each time. So the process that kills a slow worker can report what took so long.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kinds of work with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferenceWork {
    /// The model is being read and prepared.
    Loading,
    /// The model is running.
    Computing,
}

/// A note that a worker is loading or running a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InferenceNote {
    /// The kind of work.
    pub work: InferenceWork,
    /// The index of the job's model, in the order of the models' names. `None` if the entry script loaded the
    /// model from its own bytes.
    pub model: Option<u32>,
    /// The start of the work, in nanoseconds since 1970.
    pub since: u64,
}

/// The first byte of a note while a model is being loaded. 0 means that no model is used.
const LOADING: u8 = 1;
/// The first byte of a note while a model is running.
const COMPUTING: u8 = 2;
/// The index in a note that stands for a model without an index.
const NO_INDEX: u32 = u32::MAX;

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
                InferenceWork::Loading => LOADING,
                InferenceWork::Computing => COMPUTING,
            };
            bytes[1..5].copy_from_slice(&note.model.unwrap_or(NO_INDEX).to_le_bytes());
            bytes[5..].copy_from_slice(&note.since.to_le_bytes());
        }
        bytes
    }

    /// Reads a note from untrusted bytes. `None` if no work is recorded, or if the bytes are not a note.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let work = match bytes[0] {
            LOADING => InferenceWork::Loading,
            COMPUTING => InferenceWork::Computing,
            _ => return None,
        };
        let model = u32::from_le_bytes(bytes[1..5].try_into().ok()?);
        let since = u64::from_le_bytes(bytes[5..].try_into().ok()?);
        Some(Self { work, model: (model != NO_INDEX).then_some(model), since })
    }

    /// How long the work has lasted, but at most `most`. A larger value would be wrong: the clock was
    /// changed, or the worker wrote a false time.
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
