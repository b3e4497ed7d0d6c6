//! Opens an untrusted database for one query.

use super::bounds::{MAX_MEMORY, MAX_VALUE};
use super::clock_functions;
use super::error_text::describe;
use crate::dataset::{DatasetError, err};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Statement};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// SQL functions that access something outside the database, or whose results differ each time. A retry of a
/// mini-batch must give the same rows.
const FORBIDDEN: [&str; 7] = [
    "current_date",
    "current_time",
    "current_timestamp",
    "fts3_tokenizer",
    "load_extension",
    "random",
    "randomblob",
];
/// The first bytes of a rollback journal, which SQLite keeps during a change.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The length of a write-ahead log without entries: its header.
const EMPTY_LOG_BYTES: u64 = 32;
/// The characters that must be percent-encoded in a URI.
const URI_ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// How many tables a message lists if a table is missing.
const TABLES_SHOWN: usize = 20;

/// A database, and the query whose result is the table. Each error message continues a sentence that begins
/// with the file's name.
#[derive(Debug)]
pub struct Database {
    pub(super) connection: Connection,
    query: String,
}

impl Database {
    /// Opens a file. No process may write to the file while it is open. Fails if the file cannot be opened,
    /// or if some contents of the database are still in another file.
    pub fn open(path: &Path, query: &str) -> Result<Self, DatasetError> {
        check_complete(path)?;
        match connect(path) {
            Ok(connection) => Ok(Self { connection, query: query.to_owned() }),
            Err(error) => Err(describe(&error)),
        }
    }

    /// The query, ready to run. Fails if the file is not a database, or if the query cannot run on it or
    /// might do more than read.
    pub(super) fn statement(&self) -> Result<Statement<'_>, DatasetError> {
        let statement = match self.connection.prepare(&self.query) {
            Ok(statement) => statement,
            Err(error) => {
                let DatasetError(reason) = describe(&error);
                let is_missing = reason.contains("no such table");
                let tables = if is_missing { self.list_tables() } else { String::new() };
                return err!("{reason}{tables}");
            }
        };
        if statement.column_count() == 0 || !statement.readonly() {
            return err!("is not queried: query is not a select statement; write one");
        }
        Ok(statement)
    }

    /// The names of the tables, as the end of a message.
    fn list_tables(&self) -> String {
        let read_names = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare(
                "select name from sqlite_schema where type in ('table', 'view') \
                 and name not like 'sqlite_%' order by name",
            )?;
            let names = statement.query_map([], |row| row.get(0))?;
            names.take(TABLES_SHOWN + 1).collect()
        };
        let mut names = read_names().unwrap_or_default();
        let more = if names.len() > TABLES_SHOWN { " and more" } else { "" };
        names.truncate(TABLES_SHOWN);
        if names.is_empty() {
            return "; it has no tables".to_owned();
        }
        format!("; its tables are: {}{more}", names.join(", "))
    }
}

/// Refuses a database whose latest changes are in another file in the same folder. [`connect`] does not open
/// that file, so it would read old or inconsistent contents.
fn check_complete(path: &Path) -> Result<(), DatasetError> {
    let log = with_suffix(path, "-wal");
    if log.metadata().is_ok_and(|found| found.len() > EMPTY_LOG_BYTES) {
        return err!(
            "has changes in {} that are not in the database yet: a program has it open, or ended without \
             closing it; close that program, or run sqlite3 on it with PRAGMA wal_checkpoint(TRUNCATE)",
            log.display(),
        );
    }
    let journal = with_suffix(path, "-journal");
    let mut first = [0; JOURNAL_MAGIC.len()];
    let read = File::open(&journal).and_then(|mut file| file.read_exact(&mut first));
    if read.is_ok() && first == JOURNAL_MAGIC {
        return err!(
            "has an unfinished change, as {} shows: a program is writing to it, or ended while \
             writing; wait for that program, or open the database with sqlite3, which undoes the change",
            journal.display(),
        );
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// A connection whose statements can only read the file.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(uri(path), flags)?;
    // We trust the definitions in the file (views, for example) as little as the file.
    for (config, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        // Text in double quotes is never a string, so a misspelled column is an error.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
    ] {
        connection.set_db_config(config, value)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, i32::try_from(MAX_VALUE).unwrap_or(i32::MAX)),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
    ] {
        connection.set_limit(limit, value)?;
    }
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "query_only", true)?;
    // 2 stands for `MEMORY`: temporary tables are in memory, not in files.
    connection.pragma_update(None, "temp_store", 2)?;
    connection.pragma_update(None, "hard_heap_limit", MAX_MEMORY.cast_signed())?;
    clock_functions::replace(&connection)?;
    connection.authorizer(Some(|context: AuthContext<'_>| match context.action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. } => {
            Authorization::Allow
        }
        AuthAction::Function { function_name }
            if !FORBIDDEN.iter().any(|name| name.eq_ignore_ascii_case(function_name)) =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }))?;
    Ok(connection)
}

/// The URI of the file, with `immutable`: SQLite takes no locks, and opens no journal or log.
fn uri(path: &Path) -> String {
    let path = percent_encode(path.as_os_str().as_bytes(), URI_ESCAPED);
    format!("file://{path}?mode=ro&immutable=1")
}
