//! `--set key=value`: sets values in the tree before the tree is checked, so that they are checked like the
//! file's values.

use super::error::{ErrorReport, SettingOrigin, StepError};
use super::keys::{INPUT, KeyKind, MODEL, SIDE_INPUT};
use super::tree::{self, MapEntry, YamlNode, YamlValue};

/// Sets the value at the key's path. Creates missing maps on the way.
pub(super) fn apply(root: &mut YamlNode, key: &str, value: &str, report: &ErrorReport) {
    let key = key.trim();
    let origin = SettingOrigin::Set(key.into());
    let mut value = match (tree::parse_value(value), is_text_key(key)) {
        (Ok(value), false) => value,
        (Ok(value), true) if matches!(value.value, YamlValue::Scalar { .. } | YamlValue::Null) => {
            value
        }
        // In YAML, the template {a}/{b}.csv would begin a map, but here it is a text.
        (_, true) => tree::plain(value),
        (Err(error), false) => {
            report.error(&origin, key, error.message);
            return;
        }
    };
    value.set_origin(&origin);
    if let Some(setting) = key.strip_prefix("parallel_run_config.") {
        let message = format!("leave out parallel_run_config: write {setting}");
        report.error(&origin, key, message);
        return;
    }
    let steps = split_key(key);
    if steps.iter().any(|step| step.name().is_empty()) {
        report.error(&origin, key, "is not a key; write a key such as limits.memory");
        return;
    }
    if value.value == YamlValue::Null {
        remove(root, &steps);
    } else if let Err(error) = set_value(root, &steps, 0, value, &origin) {
        report.error(&origin, key, error.to_string());
    }
}

/// Whether the key belongs to an input, a side input or a model, and its value is a text.
fn is_text_key(key: &str) -> bool {
    let mut names = key.split('.');
    let (first, last) = (names.next(), names.next_back());
    let (keys, name) = match (first, last) {
        (Some("inputs"), Some(name)) => (INPUT, name),
        (Some("side_inputs"), Some(name)) => (SIDE_INPUT, name),
        (Some("models"), Some(name)) => (MODEL, name),
        _ => return false,
    };
    keys.iter().any(|key| key.name == name && matches!(key.kind, KeyKind::Text))
}

/// One step of a path: `.name`, or `[0]`, which is only for lists.
enum PathStep {
    Name(String),
    Index(String),
}

impl PathStep {
    fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Index(name) => name,
        }
    }
}

/// Splits a key into steps. In a list, `inputs[0].path` and `inputs.0.path` are the same. Names of
/// environment variables and of models may contain dots.
fn split_key(key: &str) -> Vec<PathStep> {
    if let Some(variable) = key.strip_prefix("environment_variables.") {
        let names = [String::from("environment_variables"), variable.to_owned()];
        return names.map(PathStep::Name).into();
    }
    if let Some((name, setting)) =
        key.strip_prefix("models.").and_then(|rest| rest.rsplit_once('.'))
        && !name.contains('[')
        && MODEL.iter().any(|key| key.name == setting)
    {
        return ["models", name, setting].map(|name| PathStep::Name(name.to_owned())).into();
    }
    let parts = key.split('.').flat_map(|part| {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        let indices = indices.split('[').filter(|index| !index.is_empty());
        let indices = indices.map(|index| PathStep::Index(index.trim_end_matches(']').to_owned()));
        std::iter::once(PathStep::Name(name.to_owned())).chain(indices)
    });
    parts.collect()
}

/// The path of the steps, for messages.
fn path_of(steps: &[PathStep]) -> String {
    steps.iter().map(PathStep::name).collect::<Vec<_>>().join(".")
}

/// Sets the value at `steps[depth..]` below the node.
fn set_value(
    node: &mut YamlNode,
    steps: &[PathStep],
    depth: usize,
    value: YamlNode,
    origin: &SettingOrigin,
) -> Result<(), StepError> {
    let Some(step) = steps.get(depth) else {
        *node = value;
        return Ok(());
    };
    let is_input = depth == 2 && matches!(steps[0].name(), "inputs" | "side_inputs" | "models");
    // `images: data` is short for a map with a path. `output_format: csv` is short for a map with a type.
    let short_for = match steps[0].name() {
        _ if is_input => Some("path"),
        "output_format" if depth == 1 => Some("type"),
        _ => None,
    };
    match (&mut node.value, short_for) {
        (YamlValue::Null, _) => node.value = YamlValue::Map(Vec::new()),
        (YamlValue::Scalar { .. }, Some(key)) => {
            let value = std::mem::replace(&mut node.value, YamlValue::Null);
            let value = YamlNode { origin: node.origin.clone(), value };
            node.value = YamlValue::Map(vec![MapEntry { key: key.to_owned(), node: value }]);
        }
        _ => {}
    }
    let is_index = matches!(step, PathStep::Index(_));
    let step = step.name();
    match &mut node.value {
        YamlValue::Map(_) if is_index => {
            Err(StepError::Map { path: path_of(&steps[..depth]), index: step.to_owned() })
        }
        YamlValue::Map(entries) => {
            if is_input {
                // `path` and `paths` exclude each other, so the override replaces both.
                let other = match step {
                    "path" => "paths",
                    "paths" => "path",
                    _ => "",
                };
                entries.retain(|entry| entry.key != other);
            }
            let index = entries.iter().position(|entry| entry.key == step).unwrap_or_else(|| {
                let node = YamlNode { origin: origin.clone(), value: YamlValue::Null };
                entries.push(MapEntry { key: step.to_owned(), node });
                entries.len() - 1
            });
            set_value(&mut entries[index].node, steps, depth + 1, value, origin)
        }
        YamlValue::List(items) => {
            let count = items.len();
            let by_name =
                items.iter().position(|item| name_of(item).is_some_and(|name| name == step));
            let index = by_name.or_else(|| step.parse().ok().filter(|index| *index < count));
            match index {
                Some(index) => set_value(&mut items[index], steps, depth + 1, value, origin),
                None => {
                    let step = step.to_owned();
                    Err(StepError::List { path: path_of(&steps[..depth]), count, step })
                }
            }
        }
        _ => Err(StepError::Leaf { path: path_of(&steps[..depth]), found: node.to_string() }),
    }
}

/// Removes the key, if it is present, so that its default applies.
fn remove(root: &mut YamlNode, steps: &[PathStep]) {
    let Some((last, before)) = steps.split_last() else { return };
    let mut node = root;
    for step in before {
        let next = match &mut node.value {
            YamlValue::Map(entries) => entries
                .iter_mut()
                .find(|entry| entry.key == step.name())
                .map(|entry| &mut entry.node),
            YamlValue::List(items) => {
                let by_name = items
                    .iter()
                    .position(|item| name_of(item).is_some_and(|name| name == step.name()));
                match by_name.or_else(|| step.name().parse().ok()) {
                    Some(index) => items.get_mut(index),
                    None => None,
                }
            }
            _ => None,
        };
        let Some(next) = next else { return };
        node = next;
    }
    if let YamlValue::Map(entries) = &mut node.value {
        entries.retain(|entry| entry.key != last.name());
    }
}

fn name_of(item: &YamlNode) -> Option<&String> {
    let YamlValue::Map(entries) = &item.value else { return None };
    let entry = entries.iter().find(|entry| entry.key == "name")?;
    match &entry.node.value {
        YamlValue::Scalar { text, .. } => Some(text),
        _ => None,
    }
}
