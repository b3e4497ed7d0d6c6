//! Appends records to a log, and reads them back.

use super::error::LogError;
use super::log_store::LogStore;
use super::record::{self, LogPosition, Record, Writer};
use sandmill_model::random_name;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pauses between the tries to create one object. After the last one, the append fails.
pub(crate) const PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
/// A snapshot is due after this many records.
const SNAPSHOT_RECORDS: u64 = 1000;
/// A snapshot is due after this time, if the log has grown.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(60);
/// The pause before a snapshot is at least this many times as long as the last snapshot took. So snapshots
/// of a large job take at most a twentieth of the time.
const PAUSE_AFTER_SNAPSHOT: u32 = 20;
/// The number of snapshots that are kept. If the latest one is damaged, the one before it is used.
const KEPT_SNAPSHOTS: usize = 2;
/// How often [`LogFolder::end`] may lose the race for the next number.
const MAX_RACES: usize = 100;

/// Where the objects of one log are.
#[derive(Clone, Debug)]
pub(crate) struct LogFolder {
    pub(crate) store: Arc<dyn LogStore>,
    /// The part of the names that comes before `log` and `snapshot`. Empty, or ends with `/`.
    pub(crate) prefix: String,
}

impl LogFolder {
    pub(crate) fn record(&self, number: u64) -> String {
        format!("{}log/{number:020}", self.prefix)
    }

    fn snapshot(&self, number: u64) -> String {
        format!("{}snapshot/{number:020}", self.prefix)
    }

    /// Makes one of the log's folders.
    pub(crate) fn make(&self, folder: &str) -> Result<(), LogError> {
        let name = format!("{}{folder}", self.prefix);
        let made = self.store.make_folder(&name);
        made.map_err(|source| LogError::Unavailable { name, source })
    }

    /// Whether the log has this record, which may be damaged.
    pub(crate) fn has(&self, number: u64) -> Result<bool, LogError> {
        Ok(self.read_bytes(&self.record(number))?.is_some())
    }

    /// Reads a record. `None` if the log does not have it.
    pub(crate) fn read(&self, number: u64) -> Result<Option<Record>, LogError> {
        self.read_object(self.record(number), number)
    }

    pub(crate) fn read_object(
        &self,
        name: String,
        number: u64,
    ) -> Result<Option<Record>, LogError> {
        let Some(bytes) = self.read_bytes(&name)? else { return Ok(None) };
        let decoded = record::decode(number, bytes);
        decoded.map(Some).map_err(|damage| LogError::Damaged { name, damage })
    }

    fn read_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        let read = self.store.read(name);
        read.map_err(|source| LogError::Unavailable { name: name.to_owned(), source })
    }

    /// The numbers of the objects in a folder of the log, in ascending order.
    pub(crate) fn numbers(&self, folder: &str) -> Result<Vec<u64>, LogError> {
        let name = format!("{}{folder}", self.prefix);
        let names = self.store.list(&name);
        let names = names.map_err(|source| LogError::Unavailable { name, source })?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The number of the next record, found without reading records: they may be damaged.
    fn tail(&self) -> Result<u64, LogError> {
        let mut next = self.numbers("log")?.last().map_or(0, |last| last + 1);
        while self.has(next)? {
            next += 1;
        }
        Ok(next)
    }

    /// Appends a last record to a log that another process may lead. Other processes may append at the same time.
    pub(crate) fn end(&self, payload: &[u8]) -> Result<(), LogError> {
        for _ in 0..MAX_RACES {
            match CommitLog::new(self.clone(), self.tail()?).append(payload) {
                Err(LogError::Fenced { .. }) => {}
                ended => return ended.map(drop),
            }
        }
        let source = io::Error::other("other processes keep writing to the log");
        Err(LogError::Unavailable { name: format!("{}log", self.prefix), source })
    }

    /// Removes all snapshots but the latest ones. Records are never removed: a leader that was replaced could
    /// create them again, with other content.
    fn remove_old_snapshots(&self) -> Result<(), LogError> {
        let numbers = self.numbers("snapshot")?;
        for number in numbers.iter().rev().skip(KEPT_SNAPSHOTS) {
            let name = self.snapshot(*number);
            let removed = self.store.remove(&name);
            removed.map_err(|source| LogError::Unavailable { name, source })?;
        }
        Ok(())
    }

    /// Reads all records from number `next` on. Returns the number of the first one that the log does not have.
    pub(crate) fn read_on<E: From<LogError>>(
        &self,
        mut next: u64,
        visit: &mut dyn FnMut(Replay<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        while let Some(record) = self.read(next)? {
            visit(Replay::Record { number: next, record: &record })?;
            next += 1;
        }
        Ok(next)
    }

    /// Reads the log: the latest snapshot that is intact, if there is one, and all records after it.
    pub(crate) fn replay<E: From<LogError>>(
        &self,
        visit: &mut dyn FnMut(Replay<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut next = 0;
        for number in self.numbers("snapshot")?.into_iter().rev() {
            // A damaged snapshot costs only time: the records before it are still in the log.
            if let Ok(Some(snapshot)) = self.read_object(self.snapshot(number), number) {
                visit(Replay::Snapshot { number, payload: &snapshot.payload })?;
                next = number + 1;
                break;
            }
        }
        let next = self.read_on(next, visit)?;
        let later = self.numbers("log")?.into_iter().next_back();
        if later.is_some_and(|later| later > next) && self.read(next)?.is_none() {
            return Err(LogError::Missing { name: self.record(next) }.into());
        }
        Ok(next)
    }
}

/// What is read of a log, in order.
#[derive(Clone, Copy, Debug)]
pub enum Replay<'a> {
    /// The state after record `number`. If there is a snapshot, it comes first.
    Snapshot {
        /// The number of the last record that the snapshot includes.
        number: u64,
        /// The content, which this crate does not interpret.
        payload: &'a [u8],
    },
    /// A record.
    Record {
        /// Its number. The first record of a log has the number 0.
        number: u64,
        /// The record.
        record: &'a Record,
    },
}

/// A log to which this process appends records, for as long as no other process does.
#[derive(Debug)]
pub struct CommitLog {
    folder: LogFolder,
    writer: Writer,
    /// The number of the next record.
    next: u64,
    /// Whether it can be appended to: false after a failed append, and after [`CommitLog::close`].
    is_open: bool,
    snapshot: LastSnapshot,
    pauses: &'static [Duration],
}

/// The last snapshot. At first, the state of the log when this process read it.
#[derive(Clone, Copy, Debug)]
struct LastSnapshot {
    /// The number of records that it includes.
    records: u64,
    made: Instant,
    /// How long it took.
    cost: Duration,
}

impl CommitLog {
    pub(crate) fn new(folder: LogFolder, next: u64) -> Self {
        let writer = Writer::this_process();
        let snapshot = LastSnapshot { records: next, made: Instant::now(), cost: Duration::ZERO };
        Self { folder, writer, next, is_open: true, snapshot, pauses: &PAUSES }
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    #[cfg(test)]
    pub(crate) fn without_pauses(self, writer: Writer) -> Self {
        Self { writer, pauses: &[Duration::ZERO; 6], ..self }
    }

    /// Appends a record, and returns its position. When this returns, the record is durable.
    ///
    /// After any answer of the store other than success, this reads the object with the record's number. The
    /// answer itself proves nothing: the object may have been created and only the reply was lost, or a store
    /// may report a conflict although no object exists.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if another process has appended a record with this number. Any other error leaves
    /// open whether the record is in the log. After an error, every further append fails.
    pub fn append(&mut self, payload: &[u8]) -> Result<LogPosition, LogError> {
        if !self.is_open {
            return Err(LogError::Closed);
        }
        let number = self.next;
        let made = if number == 0 { self.folder.make("log") } else { Ok(()) };
        let created = made.and_then(|()| self.create(number, payload));
        self.is_open = created.is_ok();
        let nonce = created?;
        self.next += 1;
        Ok(LogPosition { number, nonce })
    }

    /// Fails if another process has appended a record. Call this before a change of something that another
    /// leader may use. It only makes such changes less likely after another leader has begun: the judge is
    /// [`append`](Self::append).
    ///
    /// # Errors
    /// [`LogError::Fenced`] if there is such a record, and if the store fails. Then every further append fails.
    pub fn check(&mut self) -> Result<(), LogError> {
        let found = self.folder.read(self.next);
        let checked = match found {
            Ok(None) => Ok(()),
            Ok(Some(record)) => Err(LogError::Fenced { number: self.next, by: record.writer }),
            Err(error) => Err(error),
        };
        self.is_open &= checked.is_ok();
        checked
    }

    /// As [`check`](Self::check), but ignores errors of the store: the next append notices them.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if another process has appended a record. Then every further append fails.
    pub fn watch(&mut self) -> Result<(), LogError> {
        let Ok(Some(record)) = self.folder.read(self.next) else { return Ok(()) };
        self.is_open = false;
        Err(LogError::Fenced { number: self.next, by: record.writer })
    }

    /// Makes every further append fail.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    /// Whether the log can be appended to. If not, another process may have appended records, or the last
    /// append may have succeeded although it was reported as failed. So this process must leave everything
    /// unchanged that another process may use.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Creates a record, and returns its nonce.
    fn create(&self, number: u64, payload: &[u8]) -> Result<String, LogError> {
        let name = self.folder.record(number);
        let nonce = random_name();
        let bytes = record::encode(number, &nonce, &self.writer, payload);
        let mut last: Option<io::Error> = None;
        for pause in self.pauses {
            std::thread::sleep(*pause);
            match self.folder.store.create(&name, &bytes) {
                Ok(true) => return Ok(nonce),
                Ok(false) => {}
                // Another try would find the same.
                Err(source) if is_final(&source) => {
                    return Err(LogError::Unavailable { name, source });
                }
                Err(source) => last = Some(source),
            }
            match self.folder.read(number) {
                // The record is in the store. It is unknown whether it would survive a crash.
                Ok(Some(record)) if record.position.nonce == nonce => {
                    match self.folder.store.make_durable(&name) {
                        Ok(()) => return Ok(nonce),
                        Err(source) => last = Some(source),
                    }
                }
                Ok(Some(record)) => return Err(LogError::Fenced { number, by: record.writer }),
                Ok(None) => {}
                Err(LogError::Unavailable { source, .. }) => last = Some(source),
                Err(error) => return Err(error),
            }
        }
        let conflict = || io::Error::other("it reports a conflict, although no such object exists");
        Err(LogError::Unavailable { name, source: last.unwrap_or_else(conflict) })
    }

    /// Whether it is time for a snapshot.
    pub fn snapshot_is_due(&self) -> bool {
        let LastSnapshot { records, made, cost } = self.snapshot;
        let added = self.next.saturating_sub(records);
        let age = made.elapsed();
        let has_grown = added >= SNAPSHOT_RECORDS || (added > 0 && age >= SNAPSHOT_INTERVAL);
        has_grown && age >= cost * PAUSE_AFTER_SNAPSHOT
    }

    /// Writes a snapshot: the state after all records, as `state` returns it. Removes old snapshots. A snapshot
    /// saves time for the next leader. The log does not need it.
    ///
    /// # Errors
    /// That of `state`, and if the store fails. The next snapshot is due no earlier than after a success.
    pub fn write_snapshot<E: From<LogError>>(
        &mut self,
        state: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let Some(number) = self.next.checked_sub(1) else { return Ok(()) };
        let begun = Instant::now();
        let written = state().and_then(|payload| {
            let bytes = record::encode(number, &random_name(), &self.writer, &payload);
            let name = self.folder.snapshot(number);
            self.folder.make("snapshot")?;
            // If another process has written this snapshot, it has the same content.
            let created = self.folder.store.create(&name, &bytes);
            created.map_err(|source| LogError::Unavailable { name, source })?;
            Ok(self.folder.remove_old_snapshots()?)
        });
        let made = Instant::now();
        self.snapshot = LastSnapshot { records: self.next, made, cost: made - begun };
        written
    }
}

/// Whether a repeated request would fail the same way.
pub(crate) fn is_final(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::Unsupported
    )
}
