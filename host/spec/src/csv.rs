//! The CSV options (delimiter, quote and others) of an input of format csv or tsv.

use super::error::ErrorReport;
use super::keys::InputFormat;
use super::raw::RawInput;
use super::scope::Located;
use crate::model::CsvFormat;

/// Returns the CSV options of an input, with defaults for missing keys.
pub(super) fn options(input: &RawInput, format: InputFormat) -> CsvFormat {
    let default = CsvFormat::default();
    let delimiter = if format == InputFormat::Tsv { b'\t' } else { default.delimiter };
    let quote = value(input.quote.as_ref()).unwrap_or(default.quote);
    CsvFormat {
        delimiter: value(input.delimiter.as_ref()).unwrap_or(delimiter),
        header: value(input.header.as_ref()).unwrap_or(default.header),
        null_values: input
            .null_values
            .as_ref()
            .map_or(default.null_values, |setting| setting.value.clone()),
        quoted_newlines: value(input.quoted_newlines.as_ref()).unwrap_or(default.quoted_newlines),
        quote,
        // A doubled quote always stands for one quote. So an escape character that equals the quote
        // adds nothing.
        escape: value(input.escape.as_ref()).filter(|escape| Some(*escape) != quote),
        comment: value(input.comment.as_ref()),
        skip_lines: value(input.skip_lines.as_ref()).unwrap_or(default.skip_lines),
        rename_duplicates: value(input.duplicate_names.as_ref())
            .unwrap_or(default.rename_duplicates),
    }
}

fn value<T: Copy>(given: Option<&Located<T>>) -> Option<T> {
    given.map(|setting| setting.value)
}

/// Refuses a character with two meanings, and `duplicate_names` for files without a header.
pub(super) fn check(input: &RawInput, report: &ErrorReport) {
    let csv =
        options(input, input.format.as_ref().map_or(InputFormat::Files, |format| format.value));
    if let Some((key, Some(other))) = csv.conflict() {
        let characters = [
            ("quote", input.quote.as_ref().map(|it| (&it.origin, &it.key)), csv.quote),
            ("escape", input.escape.as_ref().map(|it| (&it.origin, &it.key)), csv.escape),
            ("comment", input.comment.as_ref().map(|it| (&it.origin, &it.key)), csv.comment),
            ("delimiter", input.delimiter.as_ref().map(|it| (&it.origin, &it.key)), None),
        ];
        let byte = characters.iter().find(|(name, ..)| *name == key).and_then(|(.., byte)| *byte);
        let found = char::from(byte.unwrap_or_default()).to_string();
        // Report the key that the file gives. The other key may have its default.
        let named = [(key, other), (other, key)].into_iter().find_map(|(name, meant)| {
            let given = characters.iter().find(|(it, ..)| *it == name)?.1?;
            Some((given, meant))
        });
        if let Some(((origin, key), meant)) = named {
            let message =
                format!("found {found:?}, which is the {meant}; choose another character");
            report.error(origin, key, message);
        }
    }
    if let (Some(duplicates), Some(header)) = (&input.duplicate_names, &input.header)
        && duplicates.value
        && !header.value
    {
        duplicates
            .blame(report, "is for files with a header, but header is false; remove one of them");
    }
}
