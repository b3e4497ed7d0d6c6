//! Generates the Markdown tables of keys in the docs from the table of keys.

use super::keys::{self, DecidesRows, Key, KeyCeiling, KeyKind, PrsNames};
use crate::model::ByteSize;

/// Table rows for settings of ParallelRunStep that have no meaning here: the name in version 1, the name in
/// version 2, and how Sandmill treats the setting.
const IGNORED_ROWS: &str = "| `environment`, `compute_target` | `task.environment`, `compute` | ignored |
| | `task.model`, `resources` except `instance_count`, `identity` | ignored |
| `input_format`, `models` below `parallel_run_config`, `tags`, `properties`, `add_parallel_run_step_dependencies` (preview) | `tags`, `properties`, `display_name`, `experiment_name` | ignored |
";

/// The generated parts of the docs: the name in the markers around each part, and its text, in Markdown.
pub fn docs() -> Vec<(&'static str, String)> {
    vec![
        ("keys", keys_table(keys::JOB)),
        ("keys of inputs", keys_table(keys::INPUT)),
        ("keys of output_format", keys_table(keys::OUTPUT_FORMAT)),
        ("keys of side_inputs", keys_table(keys::SIDE_INPUT)),
        ("keys of models", keys_table(keys::MODEL)),
        ("keys of inference", keys_table(keys::INFERENCE)),
        ("keys of python", keys_table(keys::PYTHON)),
        ("keys of limits", keys_table(keys::LIMITS)),
        ("names", names_table()),
        ("changes", changes_table()),
        ("limits", limits_table()),
    ]
}

fn keys_table(keys: &[Key]) -> String {
    let mut table = String::from("| key | type | default | meaning |\n|---|---|---|---|\n");
    for key in keys {
        let meaning = key.docs.meaning.unwrap_or(key.description);
        let values = values_cell(key);
        let default = default_cell(key);
        table.push_str(&format!("| `{}` | {values} | {default} | {meaning} |\n", key.name));
    }
    table
}

fn default_cell(key: &Key) -> String {
    match (key.docs.unless_given, key.default) {
        (Some(words), _) => words.to_owned(),
        (None, Some(default)) => format!("`{default}`"),
        (None, None) => "none".to_owned(),
    }
}

/// The table cell for a key's type or allowed values.
fn values_cell(key: &Key) -> String {
    if let Some(values) = key.docs.values {
        return values.to_owned();
    }
    let size = ByteSize;
    match key.kind {
        KeyKind::Text => "text".to_owned(),
        KeyKind::Name => "name".to_owned(),
        KeyKind::Texts => "list of texts".to_owned(),
        KeyKind::Bool => "`true`, `false`".to_owned(),
        KeyKind::Choice(names) => {
            let names: Vec<String> = names().iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
        KeyKind::Integer { min: i64::MIN, .. } => "whole number".to_owned(),
        KeyKind::Integer { min: -1, .. } => "-1, or 0 and up".to_owned(),
        KeyKind::Integer { min, max } if max >= i64::from(u32::MAX) => format!("{min} and up"),
        KeyKind::Integer { min, max } => format!("{min} to {max}"),
        KeyKind::Seconds { max } => format!("seconds, above 0, at most {max}"),
        KeyKind::Interval { max } => format!("seconds, 0 to {max}"),
        KeyKind::Percent => "number from 0 to 100".to_owned(),
        KeyKind::Size { min: 1, max: u64::MAX } => "size".to_owned(),
        KeyKind::Size { min, max: u64::MAX } => format!("size, at least {}", size(min)),
        KeyKind::Size { min, max } => format!("size, {} to {}", size(min), size(max)),
        _ => key.expected.to_owned(),
    }
}

/// ParallelRunStep's names for our keys.
fn names_table() -> String {
    let mut table = String::from("| version 1 | version 2 | here |\n|---|---|---|\n");
    for key in keys::JOB {
        let name = key.name;
        match key.prs {
            PrsNames::Unknown => {}
            PrsNames::Key(first, second) | PrsNames::Setting(first, second) => {
                table.push_str(&format!("| {first} | {second} | `{name}` |\n"));
            }
            PrsNames::Option => {
                table.push_str(&format!("| `--{name}` | `--{name}` | `{name}` |\n"));
            }
        }
    }
    table + IGNORED_ROWS
}

/// Which settings affect rows, and which settings an operator may cap.
fn changes_table() -> String {
    let mut table = String::from("| key | rows depend on it | may be capped |\n|---|---|---|\n");
    let groups = [("inference", keys::INFERENCE), ("limits", keys::LIMITS)];
    let keys_of = |(name, keys): (&'static str, &'static [Key])| {
        keys.iter().map(move |key| (format!("{name}.{}", key.name), key))
    };
    let is_group = |name: &str| groups.iter().any(|(group, _)| *group == name);
    let top_level = keys::JOB.iter().filter(|key| !is_group(key.name));
    let top_level = top_level.map(|key| (key.name.to_owned(), key));
    for (name, key) in top_level.chain(groups.into_iter().flat_map(keys_of)) {
        let rows = match key.rows {
            DecidesRows::Decide | DecidesRows::DecideUnlessDefault => "yes".to_owned(),
            DecidesRows::Not(reason) => format!("no: {reason}"),
        };
        let ceiling = match key.ceiling {
            KeyCeiling::Same | KeyCeiling::Key(..) => "yes".to_owned(),
            KeyCeiling::No(reason) => format!("no: {reason}"),
        };
        table.push_str(&format!("| `{name}` | {rows} | {ceiling} |\n"));
    }
    table
}

/// For each limit, the file that enforces it and a test that covers it.
fn limits_table() -> String {
    let mut table = String::from("| limit | default | enforced in | test |\n|---|---|---|---|\n");
    for key in keys::LIMITS {
        let (file, test) = key.enforced.unwrap_or_default();
        let default = default_cell(key);
        table.push_str(&format!("| `limits.{}` | {default} | `{file}` | `{test}` |\n", key.name));
    }
    table
}
