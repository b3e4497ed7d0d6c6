//! SQLite's date and time functions without the current time, because each attempt at a mini-batch must read
//! the same rows.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, params_from_iter};

/// The functions, and how many arguments precede the time.
const FUNCTIONS: [(&str, usize); 7] = [
    ("date", 0),
    ("time", 0),
    ("datetime", 0),
    ("julianday", 0),
    ("unixepoch", 0),
    ("strftime", 1),
    ("timediff", 0),
];

/// Replaces the functions with ones that fail if they are asked for the current time. Otherwise they return
/// what SQLite's own functions return.
///
/// The time may be a value of a row, so the text of a query does not show whether it asks for the current
/// time.
pub(super) fn replace(connection: &Connection) -> rusqlite::Result<()> {
    // SQLite's own functions run on another connection: on this one, their names mean the replacements.
    for (name, before) in FUNCTIONS {
        let own = Connection::open_in_memory()?;
        // The views of the file may call only innocuous functions.
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function(name, -1, flags, move |context| {
            if asks_for_now(context, name, before) {
                return Err(Error::UserFunctionError(
                    format!("{name}() asks for the current time; query must give the same rows each time")
                        .into(),
                ));
            }
            call(&own, name, context)
        })?;
    }
    Ok(())
}

fn asks_for_now(context: &Context<'_>, name: &str, before: usize) -> bool {
    let is_now = |at: usize| match context.get_raw(at) {
        ValueRef::Text(text) => text.eq_ignore_ascii_case(b"now"),
        _ => false,
    };
    match context.len() {
        // `timediff` has two times.
        2 if name == "timediff" => is_now(0) || is_now(1),
        length if length == before => true,
        length => length > before && is_now(before),
    }
}

fn call(own: &Connection, name: &str, context: &Context<'_>) -> rusqlite::Result<Value> {
    let marks = vec!["?"; context.len()].join(", ");
    let mut statement = own.prepare_cached(&format!("select {name}({marks})"))?;
    let values = (0..context.len()).map(|at| context.get_raw(at));
    let values = values.map(Value::try_from).collect::<Result<Vec<_>, _>>();
    let values = values.map_err(|error| Error::UserFunctionError(error.into()))?;
    statement.query_row(params_from_iter(values), |row| row.get(0))
}
