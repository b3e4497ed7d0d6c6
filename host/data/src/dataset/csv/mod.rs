//! CSV tables.
//!
//! - `scan` finds where records end, fast and without parsing fields. `tally` has its vector code, and
//!   `quotes` is what it knows of quotes.
//! - `cut` uses it to cut a file into slices, reading through a `window`. `slice` reads a slice. `packed`
//!   unpacks packed files.
//! - `header` and `infer` find the names and the types of columns. `types` says which texts a type accepts.
//! - The reader in `text` turns a slice into Arrow. If the text is usual, `plain` does it fast:
//!   `field_splitter` finds where fields end, `numbers` parses them, `simd_floats` several at once, and
//!   `column_builder` and `columns` make columns. If records do not fit or look unusual, `bad_records` does
//!   it record by record.
//! - `rows` gives single records with their fields, for code that groups records. `origins` remembers where
//!   such records came from.
//! - `records` parses single records with csv-core.
//! - `joined` detects quoted fields that may be records, joined by two stray quotes.
//!
//! All of them agree on what a dialect means (`CsvFormat` names its characters):
//!
//! - A quote opens a field only at its start, and `""` within quotes is a quote.
//! - An escape makes text of the character after it, in quotes or not.
//! - A line outside quotes that begins with the comment character is not a record. Nor is a blank line.
//! - A record ends at LF, CRLF or a lone CR. So does a line of the file, inside quotes or not.
//! - After a quote that closes a field come only blanks, then a delimiter, a line end or the end of the file.
//! - An opening quote that has no such closing quote is stray: its record fails, and ends with the quote's
//!   line. `scan` finds these. All other records are read as csv-core reads them.

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
pub(super) use bad_records::{Misfits, RecordOrigins, reason, sort_out};
pub(super) use column_builder::{FieldedRecords, FixedValues};
pub(super) use columns::table;
pub use cut::{CutFile, Cutter, MAX_SLICE, open_file};
pub(super) use field_splitter::{FieldEnds, FoundEnds};
pub use header::check_names;
pub use infer::{Inferred, infer_format};
pub(super) use numbers::{short_float, short_integer};
pub(super) use origins::Origins;
pub use origins::{OriginNames, put_number, take_number};
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
