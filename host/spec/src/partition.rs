//! Checks partition keys. With them, the input is cut into mini-batches by the values of keys and not by size
//! (rules C8, M4 and M5 in docs/parallel-run-step.md).

use super::error::{ErrorReport, TemplateError};
use super::keys::InputFormat;
use super::raw::{RawInput, RawJob};
use super::scope::Located;
use super::tree;

/// The maximum number of keys. More keys are probably a mistake.
const MAX_KEYS: usize = 64;

/// Checks each key against every input, and returns the keys. Empty if mini-batches are made by
/// size.
pub(super) fn check(raw: &RawJob, inputs: &[RawInput], report: &ErrorReport) -> Vec<String> {
    let Some(given) = &raw.partition_keys else {
        // In tables, a template is useful even without keys: it adds columns whose values are parts of the
        // path.
        let files = inputs.iter().filter(|input| !is_table(input));
        for format in files.filter_map(|input| input.partition_format.as_ref()) {
            report.notice(format!("{} has no effect: there are no partition_keys", format.key));
        }
        return Vec::new();
    };
    if given.value.is_empty() && !report.has_error_at(&given.key) {
        given.blame(report, "found an empty list; name at least one key, or leave the key out");
    }
    if let Some(size) = &raw.mini_batch_size {
        let message = format!(
            "found together with mini_batch_size ({}); mini-batches are made by keys or by size: \
             choose one, and remove the other",
            size.value
        );
        given.blame(report, message);
    }
    for take in inputs.iter().filter_map(|input| input.take.as_ref()) {
        take.blame(report, "found together with partition_keys; choose one, and remove the other");
    }
    if given.value.len() > MAX_KEYS {
        let message = format!("found {} keys; at most {MAX_KEYS} are allowed", given.value.len());
        given.blame(report, message);
        return Vec::new();
    }
    for (index, key) in given.value.iter().enumerate() {
        if key.value.trim().is_empty() {
            key.blame(report, "found an empty text; expected the name of a key");
        } else if given.value[..index].iter().any(|other| other.value == key.value) {
            key.blame(report, format!("found {:?} a second time; remove it", key.value));
        }
    }
    for input in inputs {
        check_input(input, &given.value, report);
    }
    given.value.iter().map(|key| key.value.clone()).collect()
}

fn is_table(input: &RawInput) -> bool {
    input.format.as_ref().is_some_and(|format| format.value != InputFormat::Files)
}

/// Checks the keys against an input. For files, the keys are names in the template. For tables, the keys
/// may also be columns. Without a schema, only the planner knows the columns.
fn check_input(input: &RawInput, keys: &[Located<String>], report: &ErrorReport) {
    let name = &input.name.value;
    // Skip an invalid template here. The check of the input has reported it.
    let Ok(path_keys) =
        input.partition_format.as_ref().map(|setting| keys_of(&setting.value)).transpose()
    else {
        return;
    };
    let schema_columns = input
        .schema
        .as_ref()
        .map(|schema| schema.value.iter().map(|column| column.name.as_str()).collect::<Vec<_>>());
    let is_hive = input.hive.as_ref().is_some_and(|hive| hive.value);
    let (known, source) = match (is_table(input), path_keys, schema_columns) {
        (false, None, _) if report.has_error_at(&input.key) => return,
        (false, None, _) => {
            let message = format!(
                "input {name} has no partition_format, which names the keys in its files' paths: \
                 add one (e.g. partition_format: \"{{{}}}/{{file}}\"), or format: csv, if the keys are columns",
                keys.first().map_or("key", |key| key.value.as_str())
            );
            let origin = input.format.as_ref().map_or(&input.name.origin, |format| &format.origin);
            report.error(origin, &input.key, message);
            return;
        }
        (false, Some(path_keys), _) => (path_keys, "partition_format"),
        (true, _, None) => return,
        (true, None, Some(_)) if is_hive => return,
        (true, None, Some(schema_columns)) => (schema_columns, "schema"),
        (true, Some(path_keys), Some(schema_columns)) => {
            ([path_keys, schema_columns].concat(), "partition_format and schema")
        }
    };
    for key in keys.iter().filter(|key| !key.value.trim().is_empty()) {
        if !known.contains(&key.value.as_str()) {
            let message = format!(
                "found {:?}, which is not in the {source} of input {name}; expected one of: {}",
                key.value,
                if known.is_empty() { String::from("none") } else { known.join(", ") }
            );
            key.blame(report, message);
        }
    }
}

/// Converts a template to the planner's form: without a slash at the front. `None`, with an error, if it is
/// invalid.
pub(super) fn template(given: &Located<String>, report: &ErrorReport) -> Option<String> {
    let text = given.value.trim();
    let text = text.strip_prefix("./").unwrap_or(text).trim_start_matches('/');
    let problem = match keys_of(text) {
        Err(problem) => Some(problem),
        Ok(keys) if keys.is_empty() => Some(TemplateError::Plain),
        Ok(_) if text.split('/').any(|part| matches!(part, "" | "." | "..")) => {
            Some(TemplateError::Part)
        }
        Ok(_) => None,
    };
    if let Some(problem) = problem {
        given.blame(report, format!("found {:?}; {problem}", tree::shorten(&given.value)));
        return None;
    }
    Some(text.to_owned())
}

/// Returns the keys of a template: the names between braces, in order.
fn keys_of(template: &str) -> Result<Vec<&str>, TemplateError> {
    let mut keys: Vec<&str> = Vec::new();
    let mut rest = template;
    while let Some(start) = rest.find(['{', '}']) {
        if rest[start..].starts_with('}') {
            return Err(TemplateError::NotOpened);
        }
        if start == 0 && !keys.is_empty() {
            let key = keys.last().copied().unwrap_or_default().to_owned();
            return Err(TemplateError::Adjacent { key });
        }
        let inner = &rest[start + 1..];
        let Some(end) = inner.find(['{', '}']).filter(|end| inner[*end..].starts_with('}')) else {
            return Err(TemplateError::NotClosed);
        };
        let name = &inner[..end];
        if let Some((name, _)) = name.split_once(':') {
            return Err(TemplateError::Format { key: name.to_owned() });
        }
        let is_key_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.chars().all(is_key_char)
            || !name.starts_with(|c: char| is_key_char(c) && !c.is_ascii_digit())
        {
            return Err(TemplateError::NoKey { key: name.to_owned() });
        }
        if keys.len() == MAX_KEYS {
            return Err(TemplateError::TooMany { limit: MAX_KEYS });
        }
        if keys.contains(&name) {
            return Err(TemplateError::Twice { key: name.to_owned() });
        }
        keys.push(name);
        rest = &inner[end + 1..];
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M4: the keys are the names in a template of paths.
    #[test]
    fn templates_name_keys() {
        for (template, keys) in [
            ("{user}/{season}/{genre}.wav", Ok(vec!["user", "season", "genre"])),
            ("{a}-{b}_{_c2}/x.csv", Ok(vec!["a", "b", "_c2"])),
            ("plain", Ok(vec![])),
            ("{a", Err("not closed")),
            ("{a{b}}", Err("not closed")),
            ("a}", Err("no {")),
            ("{a}{b}", Err("nothing between")),
            ("{a}/{a}", Err("twice")),
            ("{}", Err("not a key")),
            ("{1a}", Err("not a key")),
            ("{a b}", Err("not a key")),
            ("{date:yyyy/MM}", Err("gives a format")),
        ] {
            match (keys_of(template), keys) {
                (Ok(found), Ok(keys)) => assert_eq!(found, keys, "{template}"),
                (Err(found), Err(words)) => {
                    assert!(found.to_string().contains(words), "{template}: {found}");
                }
                (found, _) => panic!("{template}: {found:?}"),
            }
        }
    }
}
