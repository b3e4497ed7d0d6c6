//! SQLite databases, whose table is the result of a query.
//!
//! - `open` opens an untrusted file so that a query can only read the file.
//! - `columns` determines the columns of the result.
//! - `rows` runs the query: the planner surveys the result, and a worker makes a table of the result.
//! - `bounds` has the limits, `clock_functions` hides the current time from queries, and `error_text` turns
//!   SQLite's errors into sentences.
//!
//! The whole result is one mini-batch. To read a later part of the result, Sandmill would have to run the
//! query up to that part.

mod bounds;
mod clock_functions;
mod columns;
mod error_text;
mod open;
mod rows;

pub use open::Database;
pub use rows::QuerySummary;

#[cfg(test)]
mod tests;
