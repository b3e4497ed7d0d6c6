//! `sandmill plan --write-schema`: the inferred columns of text inputs, as lines of a job file.

use crate::dataset::text_columns;
use crate::model::{Source, TableFormat, TableInput, TableKind};
use std::fmt::Write as _;

/// Lines of a job file with the columns of each text input. Pasted into the job file, they produce the same
/// columns.
pub(super) fn schema_block(
    sources: &[Source],
    inputs: &[TableInput],
    tables: &[TableFormat],
) -> anyhow::Result<String> {
    let mut text = "inputs:\n".to_owned();
    let mut last = None;
    for ((source, input), table) in sources.iter().zip(inputs).zip(tables) {
        // All sources of an input have the same columns.
        if last.replace(&source.dataset) == Some(&source.dataset) {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}:", yaml_name(&source.dataset));
        let kind = table.kind.name();
        if !table.kind.is_text() {
            let _ = writeln!(text, "    # {kind} files have their own schema");
            continue;
        }
        let columns = text_columns(table)?;
        let without_type: Vec<_> = columns.iter().filter(|(_, kind)| kind.is_none()).collect();
        let is_whole =
            without_type.is_empty() && (table.kind == TableKind::Csv || input.columns.is_none());
        if columns.is_empty() {
            let _ = writeln!(text, "    # no columns were found");
            continue;
        }
        if !input.types.is_empty() {
            let _ = writeln!(text, "    # replaces the key types");
        }
        let _ = writeln!(text, "    {}:", if is_whole { "schema" } else { "types" });
        for (name, kind) in &columns {
            if let Some(kind) = kind {
                let _ = writeln!(text, "      {}: {kind}", yaml_name(name));
            }
        }
        for (name, _) in without_type {
            let _ = writeln!(
                text,
                "      # {}: has nested fields; Sandmill infers their types",
                yaml_name(name)
            );
        }
    }
    Ok(text)
}

/// A name in YAML, quoted if it could be read as something else.
fn yaml_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_plain = name.chars().all(plain) && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if is_plain && !reserved.iter().any(|word| word.eq_ignore_ascii_case(name)) {
        return name.to_owned();
    }
    // A JSON string is a valid YAML string.
    serde_json::to_string(name).unwrap_or_default()
}
