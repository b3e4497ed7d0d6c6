//! What a leader says about itself every few seconds, so that other machines know whether it is alive. The first
//! heartbeat of each leader stays in the store, and of the later ones only the last two.

use jiff::Timestamp;
use sandmill_commit_log::{LogError, LogStore, RecordSeries, Writer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The folder of the heartbeats, in the folder of a run.
const FOLDER: &str = "heartbeats";
/// The number of a heartbeat is this number times the epoch of its leader, plus its number among those of the leader.
/// A leader has fewer heartbeats than this in a century.
const BEATS: u64 = 1_000_000_000;
/// How often a reader tries again if the leader has replaced the last heartbeat meanwhile.
const READ_TRIES: u32 = 5;

/// The last heartbeat of the latest leader of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWord {
    /// The number of the record with which the leader began in the commit log.
    pub epoch: u64,
    /// When the leader wrote it, by the clock of its machine.
    pub at: Timestamp,
    /// Whether the leader has ended, and wrote all of its logs.
    pub has_ended: bool,
    /// The leader.
    pub leader: Writer,
}

/// The payload of a heartbeat's record.
#[derive(Debug, Serialize, Deserialize)]
struct Payload {
    at: Timestamp,
    has_ended: bool,
    /// The leader's job directory, as in [`LogState::directory`](crate::journal::LogState::directory).
    directory: String,
}

/// Writes the heartbeats of a leader.
#[derive(Debug)]
pub(super) struct Heart {
    series: RecordSeries,
    epoch: u64,
    directory: String,
    next: u64,
}

impl Heart {
    /// The heart of the leader that began with record `epoch`, and has this job directory.
    pub(super) fn new(store: &Arc<dyn LogStore>, run: &str, epoch: u64, directory: String) -> Self {
        let series = RecordSeries::new(store, run, FOLDER);
        Self { series, epoch, directory, next: 0 }
    }

    /// The heart of a process that goes on for the latest leader. `None` if no leader had a heartbeat.
    pub(super) fn of_latest(
        store: &Arc<dyn LogStore>,
        run: &str,
        directory: String,
    ) -> Result<Option<Self>, LogError> {
        let series = RecordSeries::new(store, run, FOLDER);
        let last = series.numbers()?.pop();
        let heart = |last| Self { series, epoch: last / BEATS, directory, next: last % BEATS + 1 };
        Ok(last.map(heart))
    }

    /// Writes a heartbeat.
    pub(super) fn beat(&mut self, has_ended: bool) -> Result<(), LogError> {
        if self.next == 0 {
            self.series.make()?;
        }
        let number = |beat: u64| self.epoch * BEATS + beat;
        let payload =
            Payload { at: Timestamp::now(), has_ended, directory: self.directory.clone() };
        // Plain data always serialises. If it did not, the leader would seem to be silent.
        let payload = serde_json::to_vec(&payload).unwrap_or_default();
        // If the last try wrote the record, and only its reply was lost, this writes nothing.
        self.series.write(number(self.next), &payload)?;
        let old = self.next.checked_sub(2).filter(|old| *old > 0);
        self.next += 1;
        old.map_or(Ok(()), |old| self.series.remove(number(old)))
    }
}

/// A leader of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    /// As in [`LastWord::epoch`].
    pub(crate) epoch: u64,
    /// The leader's job directory.
    pub(crate) directory: String,
}

/// The last heartbeat of the latest leader of a run. `None` if there was no leader, or only one of an earlier version
/// of Sandmill.
///
/// # Errors
/// If the store fails.
pub(crate) fn read_last_word(
    store: &Arc<dyn LogStore>,
    run: &str,
) -> Result<Option<LastWord>, LogError> {
    let series = RecordSeries::new(store, run, FOLDER);
    for _ in 0..READ_TRIES {
        let numbers = series.numbers()?;
        if numbers.is_empty() {
            break;
        }
        for number in numbers.into_iter().rev() {
            if let Some((Payload { at, has_ended, .. }, leader)) = read(&series, number)? {
                return Ok(Some(LastWord { epoch: number / BEATS, at, has_ended, leader }));
            }
        }
    }
    Ok(None)
}

/// Reads a heartbeat. `None` if it was removed, or was damaged by a crash of the store.
fn read(series: &RecordSeries, number: u64) -> Result<Option<(Payload, Writer)>, LogError> {
    let record = match series.read(number) {
        Ok(Some(record)) => record,
        Ok(None) | Err(LogError::Damaged { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let payload = serde_json::from_slice(&record.payload).ok();
    Ok(payload.map(|payload| (payload, record.writer)))
}

/// The leaders of a run, in order. Of several leaders with the same job directory, only the last one: its log tree
/// includes those of the others.
///
/// # Errors
/// If the store fails.
pub(crate) fn leaders(store: &Arc<dyn LogStore>, run: &str) -> Result<Vec<Leader>, LogError> {
    let series = RecordSeries::new(store, run, FOLDER);
    let mut leaders: Vec<Leader> = Vec::new();
    for number in series.numbers()?.into_iter().filter(|number| number % BEATS == 0) {
        let Some((Payload { directory, .. }, _)) = read(&series, number)? else { continue };
        leaders.retain(|earlier| earlier.directory != directory);
        leaders.push(Leader { epoch: number / BEATS, directory });
    }
    Ok(leaders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_commit_log::FolderStore;

    #[test]
    fn the_last_word_and_all_leaders_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let store: Arc<dyn LogStore> = Arc::new(FolderStore::new(root));
        assert_eq!(read_last_word(&store, "r").unwrap(), None);
        assert_eq!(leaders(&store, "r").unwrap(), []);
        let beat = |epoch, directory: &str, ends: &[bool]| {
            let mut heart = Heart::new(&store, "r", epoch, directory.to_owned());
            ends.iter().for_each(|has_ended| heart.beat(*has_ended).unwrap());
        };
        beat(0, "here", &[false; 7]);
        beat(12, "there", &[false, true]);
        let word = read_last_word(&store, "r").unwrap().unwrap();
        assert_eq!((word.epoch, word.has_ended, word.leader.pid), (12, true, std::process::id()));
        let numbers = RecordSeries::new(&store, "r", FOLDER).numbers().unwrap();
        assert_eq!(numbers, [0, 5, 6, 12 * BEATS, 12 * BEATS + 1]);
        let found = |epoch, directory: &str| Leader { epoch, directory: directory.to_owned() };
        assert_eq!(leaders(&store, "r").unwrap(), [found(0, "here"), found(12, "there")]);
        // The first directory again.
        beat(30, "here", &[false]);
        assert_eq!(leaders(&store, "r").unwrap(), [found(12, "there"), found(30, "here")]);
        // The store has crashed, and lost the content of a heartbeat.
        store.create("r/heartbeats/00000000030000000001", b"").unwrap();
        assert_eq!(read_last_word(&store, "r").unwrap().unwrap().epoch, 30);
        // An earlier leader is not dead yet.
        beat(12, "there", &[false]);
        assert_eq!(read_last_word(&store, "r").unwrap().unwrap().epoch, 30);
    }
}
