//! Turns SQLite's errors into sentences that continue after the file's name.

use super::bounds::{MEMORY, PATIENCE, VALUE};
use crate::dataset::DatasetError;
use crate::model::ByteSize;
use rusqlite::{Error, ErrorCode};

/// Explains an error of a database or of its query.
pub(super) fn describe(error: &Error) -> DatasetError {
    let message = match error {
        Error::SqliteFailure(_, Some(message)) => message.clone(),
        Error::SqlInputError { msg, offset, .. } if *offset >= 0 => {
            format!("{msg} (character {} of query)", offset + 1)
        }
        Error::SqlInputError { msg, .. } => msg.clone(),
        Error::MultipleStatement => {
            "query holds several statements; write one select statement".to_owned()
        }
        other => other.to_string(),
    };
    DatasetError(match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            "is not an SQLite database; correct format, or leave the file out by a glob".to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt) => format!(
            "is a damaged database ({message}); copy what can be read of it to a new one with sqlite3's \
             command .recover"
        ),
        Some(ErrorCode::OutOfMemory) => format!(
            "takes more than {} of memory to be queried; sort and group less of it in query",
            ByteSize(MEMORY),
        ),
        Some(ErrorCode::TooBig) => format!(
            "has a value of more than {}; leave it out in query, or take a part of it with substr",
            ByteSize(VALUE),
        ),
        Some(ErrorCode::OperationInterrupted) => format!(
            "takes more than {} s to be queried; simplify query, or make a database that has just its \
             result",
            PATIENCE.as_secs(),
        ),
        // SQLite uses another code if the denied action is a function.
        _ if message.starts_with("not authorized") => format!(
            "is not queried: {message}; query may only select, and must give the same rows each time"
        ),
        _ => format!("cannot be queried: {message}"),
    })
}
