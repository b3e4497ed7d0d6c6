//! Reads a slice record by record, and refuses the records that do not fit the table. This is slower than
//! `plain`, and is used if `plain` gives up. Both make the same table from the same bytes.

use super::columns::CsvColumn;
use super::origins::Origins;
use super::records::{Record, RecordWalk, StrayField};
use super::tally::count_lines;
use super::types::{accepts, is_null, refusal};
use crate::model::{AttemptReport, FailedItem, FailureKind, TableFormat};

/// The maximum number of characters that a message quotes of a field.
const TEXT_SHOWN: usize = 40;

/// The records that were refused, and the number of those that fit.
#[derive(Debug, Default)]
pub(in crate::dataset) struct Misfits {
    /// The number of refused records.
    pub(in crate::dataset) count: u64,
    /// The first of the refused records.
    pub(in crate::dataset) named: Vec<FailedItem>,
    /// The number of records that fit.
    pub(in crate::dataset) kept: u64,
}

impl Misfits {
    /// Adds the refused record that begins at byte `start` of the text. `first_line` in `origins`
    /// is the line of byte `counted`. This call moves both forward, so each call must refuse a
    /// later record than the last one.
    pub(in crate::dataset) fn refuse(
        &mut self,
        text: &[u8],
        start: usize,
        reason: String,
        origins: &mut RecordOrigins<'_>,
        counted: &mut usize,
    ) {
        self.count += 1;
        if self.named.len() == AttemptReport::MAX_FAILED_ITEMS {
            return;
        }
        let (item, line) = match origins {
            RecordOrigins::Files(origins) => origins.of_record(self.kept + self.count - 1),
            RecordOrigins::File { item, first_line } => {
                let before = if *counted == 0 { b'\n' } else { text[*counted - 1] };
                *first_line += count_lines(&text[*counted..start], before);
                *counted = start;
                ((*item).to_owned(), Some(*first_line))
            }
        };
        let kind = FailureKind::BadInput;
        self.named.push(FailedItem { item, line, row: None, reason, kind });
    }

    /// Adds the misfits of another part of the mini-batch.
    pub(in crate::dataset) fn append(&mut self, other: Self) {
        self.count += other.count;
        self.kept += other.kept;
        let room = AttemptReport::MAX_FAILED_ITEMS - self.named.len();
        self.named.extend(other.named.into_iter().take(room));
    }
}

/// Where the records of a text come from, for messages.
#[derive(Debug)]
pub(in crate::dataset) enum RecordOrigins<'a> {
    /// From one file, unchanged.
    File {
        /// The name of the file in messages.
        item: &'a str,
        /// The line on which the text begins, or the line of the last refused record.
        first_line: u64,
    },
    /// From many files.
    Files(Origins<'a>),
}

impl RecordOrigins<'_> {
    /// The line on which the text begins. 1 for records from many files.
    pub(in crate::dataset) fn first_line(&self) -> u64 {
        match self {
            Self::File { first_line, .. } => *first_line,
            Self::Files(_) => 1,
        }
    }
}

/// Fills columns with the records that fit, and explains why the others do not. `is_wanted` returns whether
/// the job needs a column.
pub(in crate::dataset) fn read_by_records(
    text: &[u8],
    format: &TableFormat,
    is_wanted: impl Fn(usize) -> bool,
    origins: &mut RecordOrigins<'_>,
) -> (Vec<CsvColumn>, Misfits) {
    let kinds = format.columns.iter().enumerate();
    let kinds = kinds.map(|(index, column)| is_wanted(index).then_some(column.kind));
    let mut columns: Vec<CsvColumn> = kinds.map(|kind| CsvColumn::new(kind, 0)).collect();
    let mut misfits = Misfits::default();
    let mut counted = 0;
    let mut records = RecordWalk::new(text, &format.csv);
    while let Some(record) = records.next_record() {
        let Some(reason) = reason(&record, format) else {
            for (column, field) in columns.iter_mut().zip(record.fields()) {
                let text = str::from_utf8(field).ok().filter(|text| !is_null(text, &format.csv));
                let taken = column.push(text, format.inferred);
                debug_assert!(taken.is_some(), "the record fits");
            }
            misfits.kept += 1;
            continue;
        };
        misfits.refuse(text, record.start, reason, origins, &mut counted);
    }
    (columns, misfits)
}

/// Why the record does not fit. `None` if it does.
pub(in crate::dataset) fn reason(record: &Record<'_>, format: &TableFormat) -> Option<String> {
    if let Some(stray) = &record.stray {
        return Some(stray_reason(stray, format));
    }
    let found = record.len();
    let expected = format.columns.len();
    if found != expected {
        let fields = if found == 1 { "field" } else { "fields" };
        return Some(format!("{found} {fields}, but the table has {expected} columns"));
    }
    for (index, (field, column)) in record.fields().zip(&format.columns).enumerate() {
        let problem = match std::str::from_utf8(field) {
            Err(_) => "is not UTF-8".to_owned(),
            Ok(text) if is_null(text, &format.csv) => continue,
            Ok(text) if accepts(column.kind, format.inferred, text) => continue,
            Ok(text) => refusal(column.kind, format.inferred, text),
        };
        let text = shortened(&String::from_utf8_lossy(field));
        return Some(format!("column {} '{}': {text:?} {problem}", index + 1, column.name));
    }
    None
}

/// Why a record with a stray quote does not fit.
fn stray_reason(stray: &StrayField<'_>, format: &TableFormat) -> String {
    let name = format.columns.get(stray.column).map(|column| format!(" '{}'", column.name));
    let text = shortened(&String::from_utf8_lossy(stray.text));
    let problem =
        if stray.text_follows { "text after its closing quote" } else { "no closing quote" };
    format!("column {}{}: {text:?} has {problem}", stray.column + 1, name.unwrap_or_default())
}

/// The beginning of a text, for messages.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
