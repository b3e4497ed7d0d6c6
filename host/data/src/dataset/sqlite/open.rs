//! Opens an untrusted database for one query.

use super::bounds::{MEMORY, VALUE};
use super::clock_functions;
use super::error_text::describe;
use crate::dataset::{DatasetError, fail};
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

/// Functions that access something outside the database, or whose results differ each time. A retry of a
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
/// The first bytes of the journal of an unfinished change.
const HOT_JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The bytes of a write-ahead log without entries.
const EMPTY_LOG: u64 = 32;
/// The characters that must be percent-encoded in a URI.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// How many tables a message lists if a table is missing.
const TABLES: usize = 20;

/// A database, and the query whose result is its table. Error messages continue a sentence that begins with
/// the file's name.
#[derive(Debug)]
pub struct Database {
    pub(super) connection: Connection,
    query: String,
}

impl Database {
    /// Opens a file. No process may write to it while it is open. Fails if it cannot be opened, or if some of
    /// its contents are still in another file.
    pub fn open(path: &Path, query: &str) -> Result<Self, DatasetError> {
        check_whole(path)?;
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
                let tables = if is_missing { self.tables() } else { String::new() };
                return fail!("{reason}{tables}");
            }
        };
        if statement.column_count() == 0 || !statement.readonly() {
            return fail!("is not queried: query is not a select statement; write one");
        }
        Ok(statement)
    }

    /// The names of its tables, as the continuation of a message.
    fn tables(&self) -> String {
        let names = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare(
                "select name from sqlite_schema where type in ('table', 'view') \
                 and name not like 'sqlite_%' order by name",
            )?;
            let names = statement.query_map([], |row| row.get(0))?;
            names.take(TABLES + 1).collect()
        };
        let mut names = names().unwrap_or_default();
        let more = if names.len() > TABLES { " and more" } else { "" };
        names.truncate(TABLES);
        if names.is_empty() {
            return "; it has no tables".to_owned();
        }
        format!("; its tables are: {}{more}", names.join(", "))
    }
}

/// Refuses a database whose latest changes are in a file beside it. If it were opened without that file, its
/// contents would be old.
fn check_whole(path: &Path) -> Result<(), DatasetError> {
    let log = beside(path, "-wal");
    if log.metadata().is_ok_and(|found| found.len() > EMPTY_LOG) {
        return fail!(
            "has changes in {} that are not in the database yet: a program has it open, or ended without \
             closing it; close that program, or run sqlite3 on it with PRAGMA wal_checkpoint(TRUNCATE)",
            log.display(),
        );
    }
    let journal = beside(path, "-journal");
    let mut first = [0; HOT_JOURNAL.len()];
    let read = File::open(&journal).and_then(|mut file| file.read_exact(&mut first));
    if read.is_ok() && first == HOT_JOURNAL {
        return fail!(
            "has an unfinished change, as {} shows: a program is writing to it, or was \
             ended while it was; wait for that program, or open the database with sqlite3, which undoes the \
             change",
            journal.display(),
        );
    }
    Ok(())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// A connection whose statements can only read the file.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(address(path), flags)?;
    // We trust the definitions in the file (views, for example) as little as the file.
    for (config, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        // "name" is never a text, so a misspelled column is an error.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
    ] {
        connection.set_db_config(config, value)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, i32::try_from(VALUE).unwrap_or(i32::MAX)),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
    ] {
        connection.set_limit(limit, value)?;
    }
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "query_only", true)?;
    // 2 means in memory.
    connection.pragma_update(None, "temp_store", 2)?;
    connection.pragma_update(None, "hard_heap_limit", MEMORY.cast_signed())?;
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

/// The URI of the file, marked as immutable: SQLite takes no locks, and looks for no other file.
fn address(path: &Path) -> String {
    let path = percent_encode(path.as_os_str().as_bytes(), ENCODED);
    format!("file://{path}?mode=ro&immutable=1")
}
