//! Tables of JSON lines: an object on each line. `lines` finds them, `infer` finds the columns, `decode`
//! turns lines into Arrow with arrow-json and sorts out those that it refuses, `plain` does so much
//! faster where all lines are alike, `numbers` and
//! `commas` are stricter than arrow-json, and `misfit` says why a line was refused. Slices of files are cut by
//! [`csv`](super::csv)'s cutter, which finds line ends the same way, and read by its reader.
//!
//! A line ends at LF, CRLF or a lone CR; JSON text holds none of them. Blank lines are no rows. Keys
//! that the schema does not have mean nothing, and those that a line lacks are null.

mod commas;
mod decode;
mod infer;
mod lines;
mod misfit;
mod numbers;
mod plain;

pub use decode::JsonDecoder;
pub use infer::{InferredJson, infer_json};
pub use lines::Lines;

#[cfg(test)]
mod tests;
