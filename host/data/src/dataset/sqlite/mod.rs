//! SQLite databases. `open` opens a stranger's file so that a query can read it and do nothing else;
//! `columns` says which columns the result has, `rows` goes over it: once to learn what it is like, once to
//! make a table of it. `bounds` are what it may take, `words` makes sentences of SQLite's errors.
//!
//! The result of a database is never cut, as nobody can say where a part of it begins without running the
//! query up to there.

mod bounds;
mod columns;
mod open;
mod rows;
mod words;

pub use open::Database;
pub use rows::Survey;

#[cfg(test)]
mod tests;
