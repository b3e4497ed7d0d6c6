//! SQLite databases. `open` opens an untrusted file so that a query can only read it. `columns` determines
//! the columns of the result. `rows` runs the query: once to survey the result, and once to make a table of
//! it. `bounds` has the limits, `clock_functions` hides the current time from queries, and `error_text` turns
//! SQLite's errors into sentences.
//!
//! The result of a query is never cut: to find where a part of it begins, one would have to run the query up
//! to there.

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
