//! Reads the receipts of a job from its journal, also while a leader writes to it, and checks their hash chain. Changes
//! nothing.

use super::receipt_chain::{self, ReceiptRow, TOTALS_KEY, first_hash, next_hash};
use super::{JournalDamage, JournalError, schema};
use crate::model::{Receipt, ReceiptTotals, hex, random_name};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// How often a journal is copied that a leader changes meanwhile.
const MAX_COPIES: u32 = 20;
/// The pause before the next copy.
const COPY_PAUSE: Duration = Duration::from_millis(50);
/// A change may have an earlier time than the clock, by the resolution of the file system's times.
const TIME_RESOLUTION: Duration = Duration::from_millis(20);
/// How many receipts are read at a time.
const PAGE: u64 = 10_000;

/// A receipt with its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedReceipt {
    /// The receipt.
    pub receipt: Receipt,
    /// Its hash, in hexadecimal.
    pub hash: String,
}

/// The first receipt of a job that is not what Sandmill wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("receipt {number} is broken: {what}")]
pub struct BrokenReceipt {
    /// The number of the receipt.
    pub number: u64,
    /// What is wrong, as a clause.
    pub what: String,
}

/// The receipts of one job.
#[derive(Debug)]
pub struct ReceiptReader {
    path: PathBuf,
    connection: Connection,
    /// Whether the journal's format has receipts.
    has_receipts: bool,
    job: String,
    name: String,
    /// The journal's copy, which is removed at the end.
    _copy: Option<JournalCopy>,
}

impl ReceiptReader {
    /// Opens a journal. If a leader uses it, or was killed while it did, a copy of it is read, which has everything that
    /// was committed before.
    ///
    /// # Errors
    /// If there is no journal, if it is damaged, or if it cannot be copied.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        if !path.is_file() {
            return Err(JournalError::Missing(path.to_owned()));
        }
        let has_wal = wal_of(path).metadata().is_ok_and(|wal| wal.len() > 0);
        let copy = has_wal.then(|| JournalCopy::make(path)).transpose();
        let copy = copy.map_err(|error| JournalError::NotCopied(path.to_owned(), error))?;
        let connection = match &copy {
            Some(copy) => open_copy(&copy.journal()),
            None => open_unchanged(path),
        };
        let failed = |error| JournalError::from_sqlite(path, error);
        let connection = connection.map_err(failed)?;
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let found: i64 = version.map_err(failed)?;
        if ![schema::VERSION, schema::BEFORE_RECEIPTS].contains(&found) {
            let path = path.to_owned();
            return Err(JournalError::Version { path, found, known: schema::VERSION });
        }
        let has_receipts = found == schema::VERSION;
        let mut reader = Self {
            path: path.to_owned(),
            connection,
            has_receipts,
            job: String::new(),
            name: String::new(),
            _copy: copy,
        };
        reader.job = reader.must_have("id")?;
        reader.name = reader.must_have("name")?;
        Ok(reader)
    }

    /// The id of the job: of the run that began it. A copy of a job directory has the same.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sums that the journal has.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn totals(&self) -> Result<ReceiptTotals, JournalError> {
        let Some(text) = self.value(TOTALS_KEY)? else { return Ok(ReceiptTotals::default()) };
        serde_json::from_str(&text).map_err(|_| self.corrupt(JournalDamage::Receipts(text)))
    }

    /// The receipts after this number, at most `limit` of them.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn page(&self, after: u64, limit: u64) -> Result<Vec<SealedReceipt>, JournalError> {
        let rows = self.rows(after, limit).map_err(|error| self.failed(error))?;
        Ok(rows.into_iter().map(|row| self.sealed(&row)).collect())
    }

    /// Calls `visit` with all receipts, in order.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn for_each(&self, visit: &mut dyn FnMut(SealedReceipt)) -> Result<(), JournalError> {
        let mut after = 0;
        loop {
            let page = self.page(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.receipt.number;
            page.into_iter().for_each(&mut *visit);
        }
    }

    /// Checks all hashes and the sums. Returns the sums, or the first receipt that is broken. `known`: the number of a
    /// receipt and its hash, from another place, such as the job's result.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn verify(
        &self,
        known: Option<(u64, &str)>,
    ) -> Result<Result<ReceiptTotals, BrokenReceipt>, JournalError> {
        let expected = self.totals()?;
        let mut sums = ReceiptTotals::default();
        let mut head = first_hash(&self.job);
        let mut json = Vec::new();
        let broken = |number, what: &str| BrokenReceipt { number, what: what.to_owned() };
        loop {
            let before = sums.receipts();
            let rows = match self.rows(before, PAGE) {
                Ok(rows) => rows,
                // A row has a value that Sandmill does not write. The rows before it are still checked.
                Err(error) if is_malformed(&error) => match self.intact_rows(before)? {
                    rows if rows.is_empty() => {
                        let what = format!("it has a value that Sandmill does not write ({error})");
                        return Ok(Err(broken(before + 1, &what)));
                    }
                    rows => rows,
                },
                Err(error) => return Err(self.failed(error)),
            };
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                let number = sums.receipts() + 1;
                if row.number != number {
                    let what = format!("it is missing; receipt {} comes next", row.number);
                    return Ok(Err(broken(number, &what)));
                }
                let receipt = self.sealed(row).receipt;
                head = next_hash(&head, &receipt, &mut json);
                if row.hash != head {
                    let what = "its content, or a receipt before it, is not what its hash covers";
                    return Ok(Err(broken(number, what)));
                }
                if known.is_some_and(|(at, hash)| at == number && hash != hex(head)) {
                    let what = "its hash is not the one in the job's result";
                    return Ok(Err(broken(number, what)));
                }
                sums.add(row.receipt.end, &row.receipt.usage);
            }
            sums.head = hex(head);
        }
        let most = expected.receipts().max(known.map_or(0, |(at, _)| at));
        if most > sums.receipts() {
            let what = format!("it is missing; the job has {most} receipts");
            return Ok(Err(broken(sums.receipts() + 1, &what)));
        }
        if sums != expected {
            let what = "the job's sums in the journal are not those of its receipts";
            return Ok(Err(broken(sums.receipts(), what)));
        }
        Ok(Ok(sums))
    }

    fn rows(&self, after: u64, limit: u64) -> rusqlite::Result<Vec<ReceiptRow>> {
        if !self.has_receipts {
            return Ok(Vec::new());
        }
        let bound = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut select = self.connection.prepare_cached(receipt_chain::SELECT)?;
        let rows = select.query_map(params![bound(after), bound(limit)], receipt_chain::read)?;
        rows.collect()
    }

    /// The rows after this number up to the first malformed one.
    fn intact_rows(&self, after: u64) -> Result<Vec<ReceiptRow>, JournalError> {
        let mut intact = Vec::new();
        loop {
            let last = intact.last().map_or(after, |row: &ReceiptRow| row.number);
            match self.rows(last, 1) {
                Ok(rows) if rows.is_empty() => return Ok(intact),
                Ok(rows) => intact.extend(rows),
                Err(error) if is_malformed(&error) => return Ok(intact),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn sealed(&self, row: &ReceiptRow) -> SealedReceipt {
        let receipt = Receipt::new(row.number, (&self.job, &self.name), &row.run, &row.receipt);
        SealedReceipt { receipt, hash: hex(&row.hash) }
    }

    fn value(&self, key: &str) -> Result<Option<String>, JournalError> {
        let sql = "SELECT value FROM job WHERE key = ?1";
        let found = self.connection.query_row(sql, [key], |row| row.get(0)).optional();
        found.map_err(|error| self.failed(error))
    }

    fn must_have(&self, key: &'static str) -> Result<String, JournalError> {
        self.value(key)?.ok_or_else(|| self.corrupt(JournalDamage::Missing(key)))
    }

    fn corrupt(&self, damage: JournalDamage) -> JournalError {
        JournalError::Corrupt { path: self.path.clone(), damage }
    }

    fn failed(&self, error: rusqlite::Error) -> JournalError {
        match is_malformed(&error) {
            true => self.corrupt(JournalDamage::Database(error)),
            false => JournalError::from_sqlite(&self.path, error),
        }
    }
}

/// Whether a value of a row is not what it should be.
fn is_malformed(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// Opens a journal that no process writes to. SQLite then needs no further files.
fn open_unchanged(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = OsString::from("file:").into_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend(format!("%{byte:02x}").as_bytes()),
            byte => uri.push(*byte),
        }
    }
    uri.extend(b"?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(OsString::from_vec(uri), flags)
}

fn open_copy(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
    Ok(connection)
}

fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// A private folder with a copy of a journal.
#[derive(Debug)]
struct JournalCopy(PathBuf);

impl JournalCopy {
    /// Copies a journal. A leader may append to its log (WAL) meanwhile: SQLite ignores what is incomplete there. But it
    /// must not change the file itself, which it does only now and then.
    fn make(path: &Path) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("sandmill-{}", random_name()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let copy = Self(folder);
        for _ in 0..MAX_COPIES {
            let begun = SystemTime::now();
            let before = path.metadata()?;
            fs::copy(path, copy.journal())?;
            match fs::copy(wal_of(path), wal_of(&copy.journal())) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                copied => {
                    copied?;
                }
            }
            let is_old = before.modified()? + TIME_RESOLUTION < begun;
            if is_old && is_same(&before, &path.metadata()?) {
                return Ok(copy);
            }
            sleep(COPY_PAUSE);
        }
        Err(io::Error::other("its leader keeps changing it; try again later"))
    }

    fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }
}

impl Drop for JournalCopy {
    fn drop(&mut self) {
        // If this fails, a private copy stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_same(before: &Metadata, after: &Metadata) -> bool {
    let version = |found: &Metadata| (found.ino(), found.len(), found.mtime(), found.mtime_nsec());
    version(before) == version(after)
}
