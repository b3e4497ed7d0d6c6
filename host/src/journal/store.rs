//! The journal itself.

use super::{Committed, Counts, Entry, JobIdentity, JournalError, schema};
use crate::model::JobStatus;
use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The journal of one job directory, open for its one owner.
///
/// While it is open, no other process can open it. What [`Journal::commit`] returned from is on
/// the disk.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    connection: Connection,
    counts: Counts,
}

impl Journal {
    /// Makes the journal of a new job. Fails if there is one.
    pub fn create(path: &Path, job: &JobIdentity) -> Result<Self, JournalError> {
        if path.symlink_metadata().is_ok() {
            return Err(JournalError::Exists(path.to_owned()));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = open(path, flags)?;
        initialise(&mut connection, job)
            .and_then(|()| use_wal(&connection))
            .map_err(|e| JournalError::of(path, e))?;
        Ok(Self { path: path.to_owned(), connection, counts: Counts::default() })
    }

    /// Opens the journal of a job that has begun, and rolls back what was not committed.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        if !path.is_file() {
            return Err(JournalError::Missing(path.to_owned()));
        }
        let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        use_wal(&connection).map_err(|e| JournalError::of(path, e))?;
        let mut journal = Self { path: path.to_owned(), connection, counts: Counts::default() };
        let found = journal.version().map_err(|e| JournalError::of(path, e))?;
        if found != schema::VERSION {
            let (path, known) = (path.to_owned(), schema::VERSION);
            return Err(JournalError::Version { path, found, known });
        }
        let mut counts = Counts::default();
        journal.for_each(|committed| counts.add(&committed.entry))?;
        journal.counts = counts;
        Ok(journal)
    }

    fn version(&self) -> rusqlite::Result<i64> {
        self.connection.pragma_query_value(None, "user_version", |row| row.get(0))
    }

    /// Which job this is.
    pub fn job(&self) -> Result<JobIdentity, JournalError> {
        let get = |key: &'static str| -> Result<String, JournalError> {
            self.value(key)?.ok_or_else(|| self.corrupt(format!("it does not say the job's {key}")))
        };
        let created = get("created")?;
        let created: Timestamp = created
            .parse()
            .map_err(|_| self.corrupt(format!("{created:?} is no point in time")))?;
        Ok(JobIdentity {
            name: get("name")?,
            id: get("id")?,
            entry_script_digest: get("entry_script_digest")?,
            spec_fingerprint: get("spec_fingerprint")?,
            created,
        })
    }

    /// Commits the ends of mini-batches, all or none, in this order of the output file. Returns
    /// where the rows of the first one belong in it.
    ///
    /// Fails with [`JournalError::AlreadyCommitted`] if one of them has ended before.
    pub fn commit(&mut self, entries: &[Entry]) -> Result<u64, JournalError> {
        let begin = self.counts.output_length;
        let mut counts = self.counts;
        let Self { path, connection, .. } = self;
        let failed = |e| JournalError::of(path, e);
        let transaction = connection.transaction().map_err(failed)?;
        {
            let mut statement = transaction.prepare_cached(schema::INSERT).map_err(failed)?;
            for entry in entries {
                let (path, id) = (|| path.clone(), entry.id);
                if let Some((what, value)) = schema::too_large(entry, counts.output_length) {
                    return Err(JournalError::OutOfRange { path: path(), id, what, value });
                }
                match schema::insert(&mut statement, entry, counts.output_length) {
                    Ok(_) => counts.add(entry),
                    Err(e) if is_duplicate(&e) => {
                        return Err(JournalError::AlreadyCommitted { path: path(), id });
                    }
                    Err(e) => return Err(failed(e)),
                }
            }
        }
        transaction.commit().map_err(failed)?;
        self.counts = counts;
        Ok(begin)
    }

    /// Sums over all that is committed.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Hands over all entries in the order of the output file.
    pub fn for_each(&self, mut visit: impl FnMut(Committed)) -> Result<(), JournalError> {
        let failed = |e| match e {
            e @ (rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)) => self.corrupt(e.to_string()),
            e => JournalError::of(&self.path, e),
        };
        let mut statement = self.connection.prepare_cached(schema::SELECT).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            visit(schema::read(row).map_err(failed)?);
        }
        Ok(())
    }

    /// How the job ended, if it did.
    pub fn finished(&self) -> Result<Option<JobStatus>, JournalError> {
        let Some(status) = self.value("status")? else { return Ok(None) };
        let parsed = serde_json::from_value(serde_json::Value::String(status.clone()));
        parsed.map(Some).map_err(|_| self.corrupt(format!("{status:?} is no status of a job")))
    }

    /// Notes how the job ended. To be called when the output is complete and on the disk.
    pub fn finish(&mut self, status: JobStatus) -> Result<(), JournalError> {
        let run = || -> rusqlite::Result<()> {
            // The checkpoint syncs the log before it moves the log's pages, so that syncing here
            // too would only be done twice.
            self.connection.pragma_update(None, "synchronous", "NORMAL")?;
            let sql = "INSERT OR REPLACE INTO job VALUES ('status', ?1)";
            self.connection.execute(sql, params![status.to_string()])?;
            // Leaves one file behind, whole in itself.
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        run().map_err(|e| JournalError::of(&self.path, e))
    }

    fn value(&self, key: &str) -> Result<Option<String>, JournalError> {
        let sql = "SELECT value FROM job WHERE key = ?1";
        let value = self.connection.query_row(sql, [key], |row| row.get(0)).optional();
        value.map_err(|e| JournalError::of(&self.path, e))
    }

    fn corrupt(&self, what: String) -> JournalError {
        JournalError::Corrupt { path: self.path.clone(), what }
    }
}

/// Opens the database, not yet in the state that [`use_wal`] leaves it in.
fn open(path: &Path, flags: OpenFlags) -> Result<Connection, JournalError> {
    let open = || -> rusqlite::Result<Connection> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // Who holds the lock holds it for hours: waiting is of no use.
        connection.busy_timeout(Duration::ZERO)?;
        // Before the first access: then WAL needs no shared memory.
        connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        Ok(connection)
    };
    open().map_err(|e| JournalError::of(path, e))
}

/// Makes the tables of an empty database. Nothing is synced here: the change to WAL that follows
/// syncs the whole file, and the first commit the folder. A machine that stops before that leaves
/// a journal that is no good, of a job that has nothing to lose.
fn initialise(connection: &mut Connection, job: &JobIdentity) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(schema::CREATE)?;
    let created = job.created.to_string();
    for (key, value) in [
        ("name", &job.name),
        ("id", &job.id),
        ("entry_script_digest", &job.entry_script_digest),
        ("spec_fingerprint", &job.spec_fingerprint),
        ("created", &created),
    ] {
        transaction.execute("INSERT INTO job VALUES (?1, ?2)", [key, value])?;
    }
    transaction.pragma_update(None, "user_version", schema::VERSION)?;
    transaction.commit()
}

/// From here on, every commit is on the disk when it returns. Takes the lock, which is held until
/// the journal is dropped.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // The lock is taken by the first write.
    connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")
}

fn is_duplicate(error: &rusqlite::Error) -> bool {
    // The tables' other constraints follow from the types.
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}
