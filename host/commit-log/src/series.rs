//! Numbered records beside the log of a run.

use super::commit_log::LogFolder;
use super::error::LogError;
use super::log_store::LogStore;
use super::own_object::create_own;
use super::record::{self, Record, Writer};
use sandmill_model::random_name;
use std::io;
use std::sync::Arc;

/// How often [`RecordSeries::append`] may lose the race for the next number.
const MAX_RACES: u32 = 100;

/// Numbered records in a folder of their own, beside the log of a run. No record here decides what counts: they are
/// what other machines want to know of the run, and what they ask of it.
#[derive(Clone, Debug)]
pub struct RecordSeries {
    run: LogFolder,
    /// The name of the folder.
    name: String,
    writer: Writer,
}

impl RecordSeries {
    /// The series `name` in the folder of the run with this id. `store` is the store of the run's job.
    pub fn new(store: &Arc<dyn LogStore>, run: &str, name: &str) -> Self {
        let run = LogFolder { store: store.clone(), prefix: format!("{run}/") };
        Self { run, name: name.to_owned(), writer: Writer::this_process() }
    }

    fn object(&self, number: u64) -> String {
        format!("{}{}/{number:020}", self.run.prefix, self.name)
    }

    /// Makes the folder of the series. Call this before the first [`write`](Self::write).
    ///
    /// # Errors
    /// If the store fails.
    pub fn make(&self) -> Result<(), LogError> {
        self.run.make(&self.name)
    }

    /// Writes a record, unless the series has one with this number. Returns whether it was written. Tries only once.
    /// After a crash of the store, the record may be missing or damaged.
    ///
    /// # Errors
    /// If the store fails. The record may be there nevertheless.
    pub fn write(&self, number: u64, payload: &[u8]) -> Result<bool, LogError> {
        let name = self.object(number);
        let created = self.run.store.create_unsynced(&name, &self.encode(number, payload));
        created.map_err(|source| LogError::Unavailable { name, source })
    }

    /// Writes a record that no other process writes, and repeats tries that fail. When this returns, the record is
    /// durable.
    ///
    /// # Errors
    /// If the store fails for too long, or another process has written a record with this number.
    pub fn create(&self, number: u64, payload: &[u8]) -> Result<(), LogError> {
        create_own(&*self.run.store, &self.object(number), &self.encode(number, payload))
    }

    fn encode(&self, number: u64, payload: &[u8]) -> Vec<u8> {
        record::encode(number, &random_name(), &self.writer, payload)
    }

    /// Writes a record with the next number, which it returns. When this returns, the record is durable. Other processes
    /// may write at the same time.
    ///
    /// # Errors
    /// If the store fails. The record may be there nevertheless.
    pub fn append(&self, payload: &[u8]) -> Result<u64, LogError> {
        self.make()?;
        let mut number = self.numbers()?.last().map_or(0, |last| last + 1);
        for _ in 0..MAX_RACES {
            let name = self.object(number);
            let created = self.run.store.create(&name, &self.encode(number, payload));
            if created.map_err(|source| LogError::Unavailable { name, source })? {
                return Ok(number);
            }
            number += 1;
        }
        let source = io::Error::other("other processes keep writing here");
        Err(LogError::Unavailable { name: self.object(number), source })
    }

    /// Reads a record. `None` if there is none with this number.
    ///
    /// # Errors
    /// If the store fails, or the record is damaged.
    pub fn read(&self, number: u64) -> Result<Option<Record>, LogError> {
        self.run.read_object(self.object(number), number)
    }

    /// The numbers of all records, in ascending order.
    ///
    /// # Errors
    /// If the store fails.
    pub fn numbers(&self) -> Result<Vec<u64>, LogError> {
        self.run.numbers(&self.name)
    }

    /// Removes a record. Does nothing if there is none with this number.
    ///
    /// # Errors
    /// If the store fails.
    pub fn remove(&self, number: u64) -> Result<(), LogError> {
        let name = self.object(number);
        let removed = self.run.store.remove(&name);
        removed.map_err(|source| LogError::Unavailable { name, source })
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder_store::FolderStore;
    use super::*;

    #[test]
    fn records_are_written_once_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("job");
        let store: Arc<dyn LogStore> = Arc::new(FolderStore::new(root));
        let series = RecordSeries::new(&store, "run-1", "signs");
        assert_eq!(series.numbers().unwrap(), Vec::<u64>::new());
        assert!(series.write(0, b"x").is_err(), "the folder is missing");
        series.make().unwrap();
        assert!(series.write(7, b"seven").unwrap());
        assert!(!series.write(7, b"other").unwrap());
        assert_eq!(series.append(b"eight").unwrap(), 8);
        let other = RecordSeries::new(&store, "run-1", "others");
        assert_eq!(other.append(b"first").unwrap(), 0);
        assert_eq!(series.numbers().unwrap(), [7, 8]);
        assert_eq!(series.read(7).unwrap().unwrap().payload, b"seven");
        assert_eq!(series.read(8).unwrap().unwrap().writer.pid, std::process::id());
        series.create(9, b"nine").unwrap();
        assert!(series.create(9, b"other").is_err());
        assert_eq!(series.read(9).unwrap().unwrap().payload, b"nine");
        series.remove(7).unwrap();
        series.remove(7).unwrap();
        assert_eq!(series.read(7).unwrap(), None);
    }
}
