//! Reads lists of names.

use crate::error::ErrorReport;
use crate::keys;
use crate::scope::{Located, UnreadNames};

/// Reads a list of names. `is_valid`: whether a name is valid.
pub(super) fn names(
    scope: &mut UnreadNames<'_>,
    key: &str,
    is_valid: fn(&str) -> bool,
    report: &ErrorReport,
) -> Option<Located<Vec<String>>> {
    let names = scope.texts(key)?;
    for name in &names.value {
        let text = name.value.trim();
        if text.is_empty() {
            name.blame(report, "found an empty text; expected a name");
        } else if !is_valid(text) {
            let expected = keys::MODEL_NAME_EXPECTED;
            let message =
                format!("found {text:?}, which is not a model's name; expected {expected}");
            name.blame(report, message);
        }
    }
    Some(names.map(|names| names.into_iter().map(|name| name.value.trim().to_owned()).collect()))
}
