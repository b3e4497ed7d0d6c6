//! Appends records to a log, and reads them back.

use super::error::LogError;
use super::log_store::LogStore;
use super::record::{self, Record, Writer};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pauses between the tries of one append. After the last one, the append fails.
const PAUSES: [Duration; 6] = [
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

    /// Reads a record. `None` if the log does not have it.
    pub(crate) fn read(&self, number: u64) -> Result<Option<Record>, LogError> {
        self.read_object(self.record(number), number)
    }

    fn read_object(&self, name: String, number: u64) -> Result<Option<Record>, LogError> {
        let bytes = match self.store.read(&name) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(source) => return Err(LogError::Unavailable { name, source }),
        };
        let decoded = record::decode(number, bytes);
        decoded.map(Some).map_err(|damage| LogError::Damaged { name, damage })
    }

    /// The numbers of the objects in a folder of the log, in ascending order.
    fn numbers(&self, folder: &str) -> Result<Vec<u64>, LogError> {
        let name = format!("{}{folder}", self.prefix);
        let names = self.store.list(&name);
        let names = names.map_err(|source| LogError::Unavailable { name, source })?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
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
        while let Some(record) = self.read(next)? {
            visit(Replay::Record { number: next, record: &record })?;
            next += 1;
        }
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
    standing: Standing,
    /// The number of records that the last snapshot includes, and when it was made.
    snapshot: (u64, Instant),
    pauses: &'static [Duration],
}

/// Whether a log can be appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Open,
    /// An append failed, so that it is unknown which record has the next number.
    Closed,
    /// Another process has appended a record.
    Fenced,
}

impl CommitLog {
    pub(crate) fn new(folder: LogFolder, next: u64) -> Self {
        let writer = Writer::this_process();
        let snapshot = (next, Instant::now());
        Self { folder, writer, next, standing: Standing::Open, snapshot, pauses: &PAUSES }
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    #[cfg(test)]
    pub(crate) fn without_pauses(self, writer: Writer) -> Self {
        Self { writer, pauses: &[Duration::ZERO; 6], ..self }
    }

    /// Appends a record, and returns its number. When this returns, the record is durable.
    ///
    /// After any answer of the store other than success, this reads the object with the record's number. The
    /// answer itself proves nothing: the object may have been created and only the reply was lost, or a store
    /// may report a conflict although no object exists.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if another process has appended a record with this number. Any other error leaves
    /// open whether the record is in the log. After an error, every further append fails.
    pub fn append(&mut self, payload: &[u8]) -> Result<u64, LogError> {
        if self.standing != Standing::Open {
            return Err(LogError::Closed);
        }
        let number = self.next;
        let created = self.create(number, payload);
        self.standing = match &created {
            Ok(()) => Standing::Open,
            Err(LogError::Fenced { .. }) => Standing::Fenced,
            Err(_) => Standing::Closed,
        };
        created?;
        self.next += 1;
        Ok(number)
    }

    /// Whether another process has appended a record, so that nothing that this process does counts any
    /// longer.
    pub fn is_fenced(&self) -> bool {
        self.standing == Standing::Fenced
    }

    fn create(&self, number: u64, payload: &[u8]) -> Result<(), LogError> {
        let name = self.folder.record(number);
        let nonce = record::new_nonce();
        let bytes = record::encode(number, &nonce, &self.writer, payload);
        let mut last: Option<io::Error> = None;
        for pause in self.pauses {
            std::thread::sleep(*pause);
            match self.folder.store.create(&name, &bytes) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // Another try would find the same.
                Err(source) if is_final(&source) => {
                    return Err(LogError::Unavailable { name, source });
                }
                Err(source) => last = Some(source),
            }
            match self.folder.read(number) {
                Ok(Some(record)) if record.nonce == nonce => return Ok(()),
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
        let (included, made) = self.snapshot;
        let added = self.next.saturating_sub(included);
        added >= SNAPSHOT_RECORDS || (added > 0 && made.elapsed() >= SNAPSHOT_INTERVAL)
    }

    /// Writes a snapshot: the state after all records. It saves time for the next leader. The log does not need
    /// it.
    ///
    /// # Errors
    /// If the store fails.
    pub fn write_snapshot(&mut self, payload: &[u8]) -> Result<(), LogError> {
        let Some(number) = self.next.checked_sub(1) else { return Ok(()) };
        let name = self.folder.snapshot(number);
        let bytes = record::encode(number, &record::new_nonce(), &self.writer, payload);
        // If another process has written this snapshot, it has the same content. A failure is not repeated
        // before the next snapshot is due.
        self.snapshot = (self.next, Instant::now());
        let created = self.folder.store.create(&name, &bytes);
        created.map(drop).map_err(|source| LogError::Unavailable { name, source })
    }
}

/// Whether a repeated request would fail the same way.
fn is_final(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::Unsupported
    )
}
