//! Reads and writes the journal.

use super::log_record::{LogRecord, POSITION_KEY};
use super::receipt_chain::{self, ChainError, ReceiptChain, ReceiptRow, TOTALS_KEY};
use super::{
    Committed, CommittedCounts, EntryOrder, FileEntry, JobIdentity, JournalChanges, JournalDamage,
    JournalError, ReceiptBatch, schema,
};
use crate::fail_point;
use crate::model::{JobStatus, MiniBatchId, ReceiptTotals, hex};
use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, params};
use sandmill_commit_log::{CommitLog, LogPosition};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The journal of one job directory.
///
/// While it is open, no other process can open it. When [`Journal::commit`] returns, its changes are durable.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    connection: Connection,
    counts: CommittedCounts,
    /// The position of the next entry in commit order.
    position: u64,
    is_new: bool,
    /// The job's commit log, if the job has a `job_store`. Changes are appended to it before they are written to
    /// the journal.
    pub(super) log: Option<CommitLog>,
    /// The content of `job.json` for snapshots of the log.
    pub(super) job_state: serde_json::Value,
    /// The end of the chain of receipts.
    receipts: ReceiptChain,
}

/// The prefix of the keys of settings.
const SETTING_PREFIX: &str = "setting.";
/// The prefix of the keys of notes.
const NOTE_PREFIX: &str = "note.";

impl Journal {
    /// Creates the journal of a new job. Fails if there already is one.
    pub fn create(path: &Path, job: &JobIdentity) -> Result<Self, JournalError> {
        if path.symlink_metadata().is_ok() {
            return Err(JournalError::Exists(path.to_owned()));
        }
        // Make the file private: SQLite gives its additional files the same permissions. Ignore an error: the
        // call of `open` fails for the same reason, and reports it.
        let _ = File::options().write(true).create_new(true).mode(0o600).open(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = open(path, flags)?;
        initialise(&mut connection, job)
            .and_then(|()| use_wal(&connection))
            .map_err(|e| JournalError::from_sqlite(path, e))?;
        let path = path.to_owned();
        let counts = CommittedCounts::default();
        Ok(Self {
            path,
            connection,
            counts,
            position: 0,
            is_new: true,
            log: None,
            job_state: serde_json::Value::Null,
            receipts: ReceiptChain::new(job),
        })
    }

    /// Opens the journal of a job that has begun, and rolls back uncommitted changes.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        if !path.is_file() {
            return Err(JournalError::Missing(path.to_owned()));
        }
        keep_private(path);
        let mut connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        use_wal(&connection)
            .and_then(|()| add_receipts(&mut connection))
            .map_err(|e| JournalError::from_sqlite(path, e))?;
        let counts = CommittedCounts::default();
        let path = path.to_owned();
        let mut journal = Self {
            path,
            connection,
            counts,
            position: 0,
            is_new: false,
            log: None,
            job_state: serde_json::Value::Null,
            receipts: ReceiptChain::default(),
        };
        let found = journal.version().map_err(|e| journal.failed(e))?;
        if found != schema::VERSION {
            return Err(JournalError::Version {
                path: journal.path,
                found,
                known: schema::VERSION,
            });
        }
        journal.count()?;
        journal.receipts = journal.read_receipts()?;
        Ok(journal)
    }

    /// The sums of all receipts.
    pub fn receipt_totals(&self) -> &ReceiptTotals {
        &self.receipts.totals
    }

    fn read_receipts(&self) -> Result<ReceiptChain, JournalError> {
        let job = self.job()?;
        let Some(totals) = self.value(TOTALS_KEY)? else { return Ok(ReceiptChain::new(&job)) };
        let chain = ReceiptChain::continued(&job, &totals);
        chain.ok_or_else(|| self.corrupt(JournalDamage::Receipts(totals)))
    }

    /// All receipts, those of one run after the other.
    pub(super) fn receipts(&self) -> Result<Vec<ReceiptBatch>, JournalError> {
        let failed = |e| self.failed(e);
        let mut batches: Vec<ReceiptBatch> = Vec::new();
        let mut select = self.connection.prepare(receipt_chain::SELECT).map_err(failed)?;
        let rows = select.query_map([0, i64::MAX], receipt_chain::read).map_err(failed)?;
        for row in rows {
            let ReceiptRow { run, receipt, hash, .. } = row.map_err(failed)?;
            match batches.last_mut().filter(|batch| batch.run == run) {
                Some(batch) => {
                    batch.receipts.push(receipt);
                    batch.head = hex(hash);
                }
                None => {
                    batches.push(ReceiptBatch { run, receipts: vec![receipt], head: hex(hash) });
                }
            }
        }
        Ok(batches)
    }

    /// The journal's file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether [`Journal::create`] made the journal in this run.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether a mini-batch is committed.
    pub fn has_entries(&self) -> bool {
        self.position > 0
    }

    /// Computes the totals from the tables.
    fn count(&mut self) -> Result<(), JournalError> {
        let counted = self.connection.query_row(schema::COUNT, [], schema::read_counts);
        (self.counts, self.position) = counted.map_err(|e| self.failed(e))?;
        Ok(())
    }

    fn version(&self) -> rusqlite::Result<i64> {
        self.connection.pragma_query_value(None, "user_version", |row| row.get(0))
    }

    /// The job that the journal belongs to.
    pub fn job(&self) -> Result<JobIdentity, JournalError> {
        let get = |key: &'static str| -> Result<String, JournalError> {
            self.value(key)?.ok_or_else(|| self.corrupt(JournalDamage::Missing(key)))
        };
        let created = get("created")?;
        let created: Timestamp =
            created.parse().map_err(|_| self.corrupt(JournalDamage::Time(created)))?;
        Ok(JobIdentity {
            name: get("name")?,
            id: get("id")?,
            entry_script_digest: get("entry_script_digest")?,
            settings: self.values(SETTING_PREFIX)?,
            created,
        })
    }

    /// Writes all of the changes, or none. They are durable when this returns.
    ///
    /// Fails with [`JournalError::AlreadyCommitted`] if one of the mini-batches has ended before. If the job
    /// has a commit log, also fails if the log cannot be appended to. After such a failure, it is unknown
    /// whether the changes are in the log. If they are, the next run of the job adds them to the journal.
    pub fn commit(&mut self, changes: &JournalChanges) -> Result<(), JournalError> {
        self.write(changes, None, LogWrite::Append)?;
        self.write_snapshot_if_due();
        Ok(())
    }

    /// Writes the changes and, if given, the status with which the job ended.
    pub(super) fn write(
        &mut self,
        changes: &JournalChanges,
        status: Option<JobStatus>,
        log_write: LogWrite,
    ) -> Result<(), JournalError> {
        let mut counts = self.counts;
        let mut position = self.position;
        let Self { path, connection, log, receipts, .. } = self;
        let failed = |e| JournalError::from_sqlite(path, e);
        let transaction = connection.transaction().map_err(failed)?;
        delete_removed(&transaction, changes).map_err(failed)?;
        if !changes.removed.is_empty() {
            let counted = transaction.query_row(schema::COUNT, [], schema::read_counts);
            (counts, position) = counted.map_err(failed)?;
        }
        {
            let mut statement = transaction.prepare_cached(schema::INSERT).map_err(failed)?;
            for entry in &changes.entries {
                let path = || path.clone();
                let id = entry.id;
                if let Some((what, value)) = schema::first_too_large(entry, counts.output_length) {
                    return Err(JournalError::OutOfRange { path: path(), id, what, value });
                }
                match schema::insert(&mut statement, entry, position) {
                    Ok(_) => counts.add(entry),
                    Err(e) if is_duplicate(&e) => {
                        return Err(JournalError::AlreadyCommitted { path: path(), id });
                    }
                    Err(e) => return Err(failed(e)),
                }
                position += 1;
            }
        }
        insert_files_and_notes(&transaction, changes).map_err(failed)?;
        let mut chain = None;
        let mut sealed = Vec::new();
        if !changes.receipts.is_empty() {
            let chain = chain.insert(receipts.clone());
            sealed = chain.add(&transaction, &changes.receipts).map_err(|error| match error {
                ChainError::Sqlite(error) => failed(error),
                ChainError::OtherChain => JournalError::OtherLog {
                    what: "has receipts that do not continue those of the journal".to_owned(),
                },
            })?;
        }
        insert_status(&transaction, status).map_err(failed)?;
        // The log comes last, after everything that could refuse the changes, and before the commit. If this
        // process is killed in between, the next run reads the record in the log and writes it here.
        let position_in_log = match (log_write, log.as_mut()) {
            (LogWrite::Recorded(at), _) => Some(at),
            (LogWrite::Append, Some(log)) => {
                let at = log.append(&LogRecord::bytes(changes, sealed, status))?;
                fail_point::pass("log-appended");
                Some(at)
            }
            (LogWrite::Append, None) => None,
        };
        let committed = insert_log_position(&transaction, position_in_log.as_ref())
            .and_then(|()| transaction.commit());
        if let Err(error) = committed {
            // The log has a record that the journal lacks. The next run adds it, before it writes anything else.
            if let Some(log) = log {
                log.close();
            }
            return Err(failed(error));
        }
        (self.counts, self.position) = (counts, position);
        if let Some(chain) = chain {
            self.receipts = chain;
        }
        Ok(())
    }

    /// Totals of everything committed.
    pub fn counts(&self) -> CommittedCounts {
        self.counts
    }

    /// Calls `visit` with every entry, in the given order.
    pub fn for_each(
        &self,
        order: EntryOrder,
        mut visit: impl FnMut(Committed),
    ) -> Result<(), JournalError> {
        let failed = |e| self.failed(e);
        let select = schema::select(order);
        let mut statement = self.connection.prepare_cached(&select).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut offset: u64 = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            let committed = schema::read(row, offset).map_err(failed)?;
            offset += committed.entry.end.rows().map_or(0, |rows| rows.length);
            visit(committed);
        }
        Ok(())
    }

    /// All file entries, in commit order.
    pub fn files(&self) -> Result<Vec<FileEntry>, JournalError> {
        let failed = |e| self.failed(e);
        let mut statement = self.connection.prepare(schema::SELECT_FILES).map_err(failed)?;
        let files = statement.query_map([], schema::read_file).map_err(failed)?;
        files.collect::<Result<_, _>>().map_err(failed)
    }

    /// For each mini-batch that has ended: the stamp of its descriptor and files. Sorted by id.
    pub fn stamps(&self) -> Result<Vec<(MiniBatchId, u64)>, JournalError> {
        let failed = |e| self.failed(e);
        let sql = "SELECT id, stamp FROM mini_batch ORDER BY id";
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<_> {
            let (id, stamp): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok((MiniBatchId(id.cast_unsigned()), stamp.cast_unsigned()))
        };
        let stamps = statement.query_map([], read).map_err(failed)?;
        stamps.collect::<Result<_, _>>().map_err(failed)
    }

    /// The mini-batches that failed for good.
    pub fn failures(&self) -> Result<Vec<MiniBatchId>, JournalError> {
        let failed = |e| self.failed(e);
        let sql = "SELECT id FROM mini_batch WHERE state = 'failed' ORDER BY id";
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let read =
            |row: &rusqlite::Row<'_>| row.get(0).map(|id: i64| MiniBatchId(id.cast_unsigned()));
        let ids = statement.query_map([], read).map_err(failed)?;
        ids.collect::<Result<_, _>>().map_err(failed)
    }

    /// Writes a note. Replaces an earlier note with the same key.
    pub fn note(&mut self, key: &str, value: &str) -> Result<(), JournalError> {
        let notes = vec![(key.to_owned(), Some(value.to_owned()))];
        self.commit(&JournalChanges { notes, ..JournalChanges::default() })
    }

    /// The note with this key.
    pub fn noted(&self, key: &str) -> Result<Option<String>, JournalError> {
        self.value(&format!("{NOTE_PREFIX}{key}"))
    }

    /// All notes whose keys have this prefix, sorted by key. The prefix is removed.
    pub fn notes(&self, prefix: &str) -> Result<Vec<(String, String)>, JournalError> {
        self.values(&format!("{NOTE_PREFIX}{prefix}"))
    }

    /// How the job ended, if it has ended.
    pub fn finished(&self) -> Result<Option<JobStatus>, JournalError> {
        let Some(status) = self.value("status")? else { return Ok(None) };
        let parsed = serde_json::from_value(serde_json::Value::String(status.clone()));
        parsed.map(Some).map_err(|_| self.corrupt(JournalDamage::Status(status)))
    }

    /// Records how the job ended, together with the last notes. Call this when the output is complete and
    /// synced.
    pub fn record_end(
        &mut self,
        status: JobStatus,
        notes: Vec<(String, Option<String>)>,
    ) -> Result<(), JournalError> {
        // The commit here need not sync the WAL: the checkpoint below does, before it copies the WAL's pages
        // into the database.
        let set_synchronous = |this: &Self, mode| {
            let set = this.connection.pragma_update(None, "synchronous", mode);
            set.map_err(|e| this.failed(e))
        };
        set_synchronous(self, "NORMAL")?;
        let changes = JournalChanges { notes, ..JournalChanges::default() };
        self.write(&changes, Some(status), LogWrite::Append)?;
        // Afterwards, the journal is a single, self-contained file.
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let moved = self.connection.query_row(checkpoint, [], |_| Ok(()));
        moved.map_err(|e| self.failed(e))?;
        set_synchronous(self, "FULL")
    }

    pub(super) fn value(&self, key: &str) -> Result<Option<String>, JournalError> {
        let sql = "SELECT value FROM job WHERE key = ?1";
        let value = self.connection.query_row(sql, [key], |row| row.get(0)).optional();
        value.map_err(|e| self.failed(e))
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, String)>, JournalError> {
        let read = || -> rusqlite::Result<_> {
            let sql = "SELECT substr(key, length(?1) + 1), value FROM job
                WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key";
            let mut statement = self.connection.prepare(sql)?;
            let values = statement.query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?)))?;
            values.collect()
        };
        read().map_err(|e| self.failed(e))
    }

    /// Translates SQLite's error.
    fn failed(&self, error: rusqlite::Error) -> JournalError {
        match error {
            rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..) => {
                self.corrupt(JournalDamage::Database(error))
            }
            error => JournalError::from_sqlite(&self.path, error),
        }
    }

    fn corrupt(&self, damage: JournalDamage) -> JournalError {
        JournalError::Corrupt { path: self.path.clone(), damage }
    }
}

/// How a write to the journal relates to the job's commit log.
#[derive(Clone, Debug)]
pub(super) enum LogWrite {
    /// The change is not in the log yet. It is appended if the job has one.
    Append,
    /// The change is this record of the log.
    Recorded(LogPosition),
}

/// All files of a journal: the database, and those that SQLite puts beside it.
pub fn journal_files(path: &Path) -> [PathBuf; 4] {
    ["", "-wal", "-shm", "-journal"].map(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        PathBuf::from(file)
    })
}

/// Closes the journal to other users, because the job's settings may be secrets. Earlier versions left the
/// journal readable.
pub(super) fn keep_private(path: &Path) {
    for file in journal_files(path) {
        // A missing file needs no change. If setting the mode fails, the closed directory still protects the
        // file.
        if file.symlink_metadata().is_ok_and(|found| found.is_file()) {
            let _ = fs::set_permissions(file, Permissions::from_mode(0o600));
        }
    }
}

/// Opens the database. It is not ready before [`use_wal`].
fn open(path: &Path, flags: OpenFlags) -> Result<Connection, JournalError> {
    let open = || -> rusqlite::Result<Connection> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // Another process that holds the lock keeps it for its whole job, so waiting is useless.
        connection.busy_timeout(Duration::ZERO)?;
        // Set this before the first access: then WAL needs no shared memory.
        connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        Ok(connection)
    };
    open().map_err(|e| JournalError::from_sqlite(path, e))
}

/// Creates the tables of an empty database. Nothing is synced here: the switch to WAL that follows syncs the
/// whole file, and the first commit syncs the folder. If the machine crashes before that, the journal is
/// unusable, but the job has nothing to lose yet.
fn initialise(connection: &mut Connection, job: &JobIdentity) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(schema::CREATE)?;
    transaction.execute_batch(receipt_chain::CREATE)?;
    let created = job.created.to_string();
    for (key, value) in [
        ("name", &job.name),
        ("id", &job.id),
        ("entry_script_digest", &job.entry_script_digest),
        ("created", &created),
    ] {
        transaction.execute("INSERT INTO job VALUES (?1, ?2)", [key, value])?;
    }
    for (name, value) in &job.settings {
        let row = params![format!("{SETTING_PREFIX}{name}"), value];
        transaction.execute("INSERT OR REPLACE INTO job VALUES (?1, ?2)", row)?;
    }
    transaction.pragma_update(None, "user_version", schema::VERSION)?;
    transaction.commit()
}

/// Adds the tables of receipts to a journal of the format before.
fn add_receipts(connection: &mut Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != schema::BEFORE_RECEIPTS {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    transaction.execute_batch(receipt_chain::CREATE)?;
    transaction.pragma_update(None, "user_version", schema::VERSION)?;
    transaction.commit()
}

/// Deletes what the changes remove.
fn delete_removed(transaction: &Transaction<'_>, changes: &JournalChanges) -> rusqlite::Result<()> {
    if changes.reopened {
        transaction.execute("DELETE FROM job WHERE key = 'status'", [])?;
    }
    if changes.replaces_files {
        transaction.execute("DELETE FROM file", [])?;
    }
    if changes.removed.is_empty() {
        return Ok(());
    }
    // The table `file` has no index. With this temporary table, SQLite reads `file` only once.
    transaction.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY); DELETE FROM gone",
    )?;
    let mut statement = transaction.prepare("INSERT OR IGNORE INTO gone VALUES (?1)")?;
    for id in &changes.removed {
        statement.execute([id.0.cast_signed()])?;
    }
    for sql in [
        "DELETE FROM mini_batch WHERE id IN (SELECT id FROM gone)",
        "DELETE FROM file WHERE mini_batch IN (SELECT id FROM gone)",
    ] {
        transaction.execute(sql, [])?;
    }
    Ok(())
}

fn insert_files_and_notes(
    transaction: &Transaction<'_>,
    changes: &JournalChanges,
) -> rusqlite::Result<()> {
    if !changes.files.is_empty() {
        let mut statement = transaction.prepare_cached(schema::INSERT_FILE)?;
        for file in &changes.files {
            schema::insert_file(&mut statement, file)?;
        }
    }
    for (key, value) in &changes.notes {
        let key = format!("{NOTE_PREFIX}{key}");
        match value {
            Some(value) => {
                transaction.execute("INSERT OR REPLACE INTO job VALUES (?1, ?2)", [&key, value])?
            }
            None => transaction.execute("DELETE FROM job WHERE key = ?1", [&key])?,
        };
    }
    Ok(())
}

/// Writes the status with which the job ended.
fn insert_status(transaction: &Transaction<'_>, status: Option<JobStatus>) -> rusqlite::Result<()> {
    let Some(status) = status else { return Ok(()) };
    let sql = "INSERT OR REPLACE INTO job VALUES ('status', ?1)";
    transaction.execute(sql, params![status.to_string()]).map(drop)
}

/// Records how much of the commit log the journal includes: the position of the last record.
fn insert_log_position(
    transaction: &Transaction<'_>,
    position: Option<&LogPosition>,
) -> rusqlite::Result<()> {
    let Some(LogPosition { number, nonce }) = position else { return Ok(()) };
    let sql = "INSERT OR REPLACE INTO job VALUES (?1, ?2)";
    transaction.execute(sql, params![POSITION_KEY, format!("{number} {nonce}")]).map(drop)
}

/// Switches to WAL, after which every commit is durable when it returns. Takes the lock on the database,
/// which is held until the journal is dropped.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // The first write takes the lock.
    connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")
}

fn is_duplicate(error: &rusqlite::Error) -> bool {
    // The tables' other constraints cannot be violated, because the Rust types rule that out.
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}
