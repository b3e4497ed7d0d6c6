//! CSV tables.
//!
//! - `scan` finds where records end, fast and without parsing fields. `tally` has its vector code, and
//!   `quotes` has its types for quotes.
//! - `cut` cuts a file into slices with `scan`, and reads the file through a `window`. `slice` reads a slice.
//!   `packed` unpacks packed files.
//! - `header` and `infer` find the names and the types of columns. `types` says which texts a type accepts.
//! - The reader in the module `dataset::text` turns a slice into Arrow. `plain` is the fast path
//!   for usual text: `field_splitter` finds where fields end, `numbers` parses numbers,
//!   `simd_floats` parses several floats at once, and `column_builder` and `columns` make columns.
//!   If records do not fit or look unusual, `bad_records` reads the slice record by record.
//! - `rows` gives single records with their fields, for code that groups records. `origins` records which
//!   files and lines the grouped records came from.
//! - `records` parses single records with csv-core.
//! - `joined` detects quoted fields that may be records, joined by two stray quotes.
//!
//! All these modules read a dialect in the same way (`CsvFormat` has the characters of a dialect):
//!
//! - A quote opens a field only at the field's start, and `""` within quotes is a quote.
//! - The character after an escape is text, inside quotes or not.
//! - Outside quotes, blank lines and lines that begin with the comment character are not records.
//! - A line of the file ends at LF, CRLF or a lone CR, inside quotes or not. Outside quotes a record ends
//!   there too.
//! - After a quote that closes a field come only blanks, then a delimiter, a line end or the end of the file.
//! - An opening quote without such a closing quote is stray: its record fails, and ends with the quote's
//!   line. `scan` finds stray quotes. All other records are read as csv-core reads them.

mod bad_records;
mod column_builder;
mod columns;
mod cut;
mod field_splitter;
mod header;
mod infer;
mod joined;
mod numbers;
mod origins;
mod packed;
mod plain;
mod quotes;
pub(super) mod records;
mod rows;
mod scan;
#[cfg(target_arch = "x86_64")]
mod simd_floats;
mod slice;
mod tally;
mod types;
mod window;

pub use bad_records::shortened;
pub(super) use bad_records::{Misfits, RecordOrigins, read_by_records, reason};
pub(super) use column_builder::{FieldedRecords, FixedValues};
pub(super) use columns::table;
pub use cut::{CutFile, Cutter, MAX_SLICE, open_file};
pub(super) use field_splitter::{FieldEnds, FoundEnds};
pub use header::check_names;
pub use infer::{Inferred, infer_format};
pub(super) use numbers::{short_float, short_integer};
pub(super) use origins::Origins;
pub use origins::{OriginNames, decode_number, encode_number};
pub use packed::{OpenError, Unpacker};
pub(super) use plain::PlainDecoder;
pub use rows::{RawRow, each_row, quote_field};
pub use slice::read_slice;
pub(super) use tally::count_lines;
pub use types::{arrow_type, fits};

#[cfg(test)]
mod dialect_tests;
#[cfg(test)]
mod stray_tests;
#[cfg(test)]
mod tests;
