//! SQLite's date and time functions without the current time, because each attempt at a mini-batch must read
//! the same rows.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, params_from_iter};

/// The functions, and how many arguments come before the time.
const FUNCTIONS: [(&str, usize); 7] = [
    ("date", 0),
    ("time", 0),
    ("datetime", 0),
    ("julianday", 0),
    ("unixepoch", 0),
    ("strftime", 1),
    ("timediff", 0),
];

/// Replaces the functions. The replacements fail if their arguments ask for the current time. Otherwise they
/// return what SQLite's own functions return.
///
/// The text of a query does not show whether it asks for the current time, because the argument may be a
/// value of a row.
pub(super) fn replace(connection: &Connection) -> rusqlite::Result<()> {
    // SQLite's own functions run on another connection, because on this connection their names mean the
    // replacements.
    for (name, time_index) in FUNCTIONS {
        let own = Connection::open_in_memory()?;
        // The views of the file may call only innocuous functions.
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function(name, -1, flags, move |context| {
            if asks_for_now(context, name, time_index) {
                return Err(Error::UserFunctionError(
                    format!("{name}() asks for the current time; query must give the same rows each time")
                        .into(),
                ));
            }
            call_own(&own, name, context)
        })?;
    }
    Ok(())
}

/// Whether the function would use the current time. `time_index` is the index of the argument with the time.
fn asks_for_now(context: &Context<'_>, name: &str, time_index: usize) -> bool {
    let is_now = |index: usize| match context.get_raw(index) {
        ValueRef::Text(text) => text.eq_ignore_ascii_case(b"now"),
        _ => false,
    };
    match context.len() {
        // `timediff` has two times.
        2 if name == "timediff" => is_now(0) || is_now(1),
        // Without a time, the functions use the current time.
        length if length == time_index => true,
        length => length > time_index && is_now(time_index),
    }
}

/// Calls SQLite's own function with the same arguments.
fn call_own(own: &Connection, name: &str, context: &Context<'_>) -> rusqlite::Result<Value> {
    let placeholders = vec!["?"; context.len()].join(", ");
    let mut statement = own.prepare_cached(&format!("select {name}({placeholders})"))?;
    let values = (0..context.len()).map(|index| context.get_raw(index));
    let values = values.map(Value::try_from).collect::<Result<Vec<_>, _>>();
    let values = values.map_err(|error| Error::UserFunctionError(error.into()))?;
    statement.query_row(params_from_iter(values), |row| row.get(0))
}
