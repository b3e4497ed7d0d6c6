//! Reads tables of JSON lines: files with an object on each line.
//!
//! - `lines` finds the lines, and `document` recognizes files that hold other JSON.
//! - `infer` infers the columns. `kinds` has the types of their values, and `walk` iterates over the values
//!   of a line.
//! - `decode` turns lines into Arrow tables with arrow-json, and finds the lines that arrow-json
//!   refuses.
//! - `plain` does the same much faster if all lines have the same keys in the same order.
//! - `bad_records` explains why a line was refused.
//! - `strict` and `decoders` refuse mistakes that arrow-json accepts. `moments` parses dates and times, and
//!   `exact` parses numbers, so that no value is rounded or cut off.
//! - `parts` keeps the text of values in JSON columns (`field`), and finds keys without a column.
//!
//! The cutter of [`csv`](super::csv) cuts files into slices, because it finds line ends the same
//! way. The reader in the module `dataset::text` reads the slices.
//!
//! A line ends at LF, CRLF or a lone CR: JSON strings cannot contain them unescaped. Blank lines are not
//! rows. Keys without a column are left out, and counted if the schema was inferred. Columns
//! without a key in a line are null.

mod bad_records;
mod decode;
mod decoders;
mod document;
mod field;
mod infer;
mod kinds;
mod lines;
mod moments;
mod parts;
mod plain;
mod strict;
mod walk;

pub use decode::{JsonDecoder, UnknownKeyRecords};
pub use document::{ForeignText, INSPECTED_BYTES, foreign};
pub use field::{field_of, is_json};
pub use infer::{InferredJson, infer_json};
pub use lines::FilledLines;

#[cfg(test)]
mod exact_tests;
#[cfg(test)]
mod tests;
