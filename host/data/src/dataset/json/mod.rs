//! Tables of JSON lines: an object on each line. `lines` finds them, and `document` tells files that hold other JSON.
//! `infer` finds the columns, of a `kind` each, and `walk` shows it the values of a line. `decode` turns lines into Arrow
//! with arrow-json and sorts out those that it refuses; `plain` does so much faster where all lines are alike;
//! `misfit` says why a line was refused. `commas` and `decoders` are stricter than arrow-json, on `moments`, and on
//! numbers (`exact`), that lose nothing. `parts` keeps the text of values in columns of JSON (`field`), and finds keys without a column.
//! Slices of files are cut by [`csv`](super::csv)'s cutter, which finds line ends the same way, and read by the reader of `text`.
//!
//! A line ends at LF, CRLF or a lone CR; JSON text holds none of them. Blank lines are no rows. Keys
//! that the schema does not have are left out, and counted where it was inferred; those that a line lacks are null.

mod commas;
mod decode;
mod decoders;
mod document;
mod field;
mod infer;
mod kinds;
mod lines;
mod misfit;
mod moments;
mod parts;
mod plain;
mod walk;

pub use decode::{JsonDecoder, Unknown};
pub use document::{Foreign, START, foreign};
pub use field::{field_of, is_json};
pub use infer::{InferredJson, infer_json};
pub use lines::Lines;

#[cfg(test)]
mod exact_tests;
#[cfg(test)]
mod tests;
