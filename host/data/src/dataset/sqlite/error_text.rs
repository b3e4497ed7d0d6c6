//! Turns SQLite's errors into sentences that continue after the file's name.

use super::bounds::{MAX_MEMORY, MAX_SURVEY_TIME, MAX_VALUE};
use crate::dataset::DatasetError;
use crate::model::ByteSize;
use rusqlite::{Error, ErrorCode};

/// Explains an error of a database or of the query.
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
            "is not an SQLite database; correct the key `format`, or leave the file out with a glob"
                .to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt) => format!(
            "is a damaged database ({message}); copy what can be read of it to a new one with sqlite3's \
             command .recover"
        ),
        Some(ErrorCode::OutOfMemory) => format!(
            "takes more than {} of memory to be queried; sort and group less of it in query",
            ByteSize(MAX_MEMORY),
        ),
        Some(ErrorCode::TooBig) => format!(
            "has a value of more than {}; leave it out in query, or take a part of it with substr",
            ByteSize(MAX_VALUE),
        ),
        Some(ErrorCode::OperationInterrupted) => format!(
            "takes more than {} s to be queried; simplify query, or make a database that has just its \
             result",
            MAX_SURVEY_TIME.as_secs(),
        ),
        // Tests the message, because the error code for a denied function is not the one for other denied
        // actions.
        _ if message.starts_with("not authorized") => format!(
            "is not queried: {message}; query may only select, and must give the same rows each time"
        ),
        _ => format!("cannot be queried: {message}"),
    })
}
