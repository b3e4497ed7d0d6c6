//! CSV tables. `scan` finds where records end, fast and without looking at fields, with the vector code of `tally`, `quotes` is what it tells of quotes; `cut` makes
//! slices of a file with it, through a `window`, and `slice` reads them; `packed` unpacks packed files. `header` and `infer` find
//! names and types of columns. A slice becomes Arrow (in `text`, which has the reader) fast with `plain` where the text is usual (`ends`
//! finds where fields end, `numbers` reads them, `wide` several at once, `fill` and `columns` make
//! columns), or with `misfit`, record by record, where records do not fit or look unusual; `types` says what fits.
//! `rows` gives single records with their fields, for those who group them, and `origins` keeps where
//! such records came from. `records` is csv-core's parser, record by record.
//!
//! All agree on what a dialect means (`CsvFormat` names its characters): a quote opens only at a field's start, `""`
//! within quotes is a quote, an escape makes text of the character after it, in quotes or not, a line that begins with
//! the comment character outside of quotes is no record, nor are blank lines, a record ends at LF, CRLF or a lone CR. A line of the file
//! ends the same way, whether inside quotes or not. A quote that closes a field stands before a delimiter, a line
//! end or the end of the file, with at most blanks between. An opening quote that no quote closes like that is
//! stray: its record fails, and ends with the quote's line. `scan` finds these; all other records are read as
//! csv-core reads them. `joined` notices quoted fields that may be records held together by two stray quotes.

mod columns;
mod cut;
mod ends;
mod fill;
mod header;
mod infer;
mod joined;
mod misfit;
mod numbers;
mod origins;
mod packed;
mod plain;
mod quotes;
pub(super) mod records;
mod rows;
mod scan;
mod slice;
mod tally;
mod types;
#[cfg(target_arch = "x86_64")]
mod wide;
mod window;

pub(super) use columns::table;
pub use cut::{CutFile, Cutter, MAX_SLICE, open_file};
pub(super) use ends::{FieldEnds, Found};
pub(super) use fill::{Records, Values};
pub use header::check_names;
pub use infer::{Inferred, infer_format};
pub use misfit::shortened;
pub(super) use misfit::{Misfits, Places, reason, sort_out};
pub(super) use numbers::{short_float, short_integer};
pub(super) use origins::Origins;
pub use origins::{Names, put_number, take_number};
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
