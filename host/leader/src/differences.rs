//! Describes which settings of a job have changed since its earlier run.

use super::identity::DIGEST_PREFIX;
use crate::journal::JobIdentity;
use serde_json::Value;

const MAX_LISTED: usize = 5;

/// Lists what has changed, such as `arguments: was [--a], is now [--b]`. `None` if nothing has changed.
pub(super) fn differences(was: &JobIdentity, is: &JobIdentity) -> Option<String> {
    let mut listed = Vec::new();
    if was.entry_script_digest != is.entry_script_digest {
        listed.push("the entry script is a different component now".to_owned());
    }
    let value = |settings: &[(String, String)], name: &str| {
        settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    for (name, now) in &is.settings {
        match value(&was.settings, name) {
            None => {
                listed.push(format!("{name}: was not set, is now {}", shown_unless_secret(now)));
            }
            Some(before) if before == *now => {}
            Some(before) if [&before, now].iter().any(|text| text.starts_with(DIGEST_PREFIX)) => {
                let verb =
                    if name.starts_with("the files") { "have changed" } else { "has changed" };
                listed.push(format!("{name} {verb}"));
            }
            Some(before) => list_changed_fields(name, &before, now, &mut listed),
        }
    }
    for (name, before) in &was.settings {
        if value(&is.settings, name).is_none() {
            listed.push(format!("{name}: was {}, is now not set", shown_unless_secret(before)));
        }
    }
    let unlisted = listed.len().saturating_sub(MAX_LISTED);
    listed.truncate(MAX_LISTED);
    if unlisted > 0 {
        listed.push(format!("and {unlisted} more"));
    }
    Some(listed.join("; ")).filter(|text| !text.is_empty())
}

/// Lists the differing fields of a setting that has fields, as in `output_format.header`. Any other setting
/// is compared as a whole.
fn list_changed_fields(name: &str, before: &str, now: &str, listed: &mut Vec<String>) {
    let fields = |text: &str| serde_json::from_str::<serde_json::Map<_, _>>(text);
    let (Ok(was), Ok(is)) = (fields(before), fields(now)) else {
        return listed.push(format!("{name}: was {}, is now {}", shown(before), shown(now)));
    };
    for (field, now) in &is {
        match was.get(field) {
            Some(before) if before == now => {}
            Some(before) => {
                listed.push(format!(
                    "{name}.{field}: was {}, is now {}",
                    yaml_flow(before),
                    yaml_flow(now)
                ));
            }
            None => listed.push(format!("{name}.{field}: was not set, is now {}", yaml_flow(now))),
        }
    }
    for (field, before) in was.iter().filter(|(field, _)| !is.contains_key(*field)) {
        listed.push(format!("{name}.{field}: was {}, is now not set", yaml_flow(before)));
    }
}

/// The value of a setting, or just "set" if the value is a secret.
fn shown_unless_secret(value: &str) -> String {
    if value.starts_with(DIGEST_PREFIX) { "set".to_owned() } else { shown(value) }
}

/// A value that is stored as JSON, written as in a job file.
fn shown(value: &str) -> String {
    serde_json::from_str(value).map_or_else(|_| value.to_owned(), |value| yaml_flow(&value))
}

/// A value in YAML's flow style. A text is quoted only if YAML would read it as something else.
fn yaml_flow(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => {
            let is_plain = text
                .starts_with(|first: char| first.is_alphanumeric() || "-/._".contains(first))
                && !text.contains([',', '[', ']', '{', '}', '#', '"', '\n'])
                && !text.contains(": ")
                && !text.ends_with([':', ' '])
                && serde_json::from_str::<Value>(text).is_err();
            if is_plain { text.clone() } else { value.to_string() }
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(yaml_flow).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}: {}", yaml_flow(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(settings: &[(&str, &str)]) -> JobIdentity {
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        JobIdentity {
            entry_script_digest: "ab".into(),
            settings: settings.collect(),
            ..JobIdentity::sample()
        }
    }

    #[test]
    fn values_are_written_as_in_a_job_file() {
        let shown = [
            r#""1 file""#,
            r#"["--a","two words","a, b","","7",7,true]"#,
            r#"{"type":"csv","null":null}"#,
            r#""key: value""#,
            "no JSON",
        ]
        .map(shown);
        insta::assert_snapshot!(shown.join("\n"), @r#"
        1 file
        [--a, two words, "a, b", "", "7", 7, true]
        {null: not set, type: csv}
        "key: value"
        no JSON
        "#);
    }

    #[test]
    fn differences_are_named() {
        let secret = format!("{DIGEST_PREFIX}one");
        let was = identity(&[
            ("arguments", r#"["--a"]"#),
            ("ordered", "false"),
            ("output_format", r#"{"type":"text","header":false}"#),
            ("environment_variables.TOKEN", &secret),
            ("environment_variables.OLD", &secret),
            ("rank_mini_batch_count", "3"),
        ]);
        assert_eq!(differences(&was, &was), None);
        let other = format!("{DIGEST_PREFIX}two");
        let mut is = identity(&[
            ("arguments", r#"["--b"]"#),
            ("ordered", "false"),
            ("output_format", r#"{"type":"csv","header":false}"#),
            ("environment_variables.TOKEN", &other),
            ("mini_batch_size", "\"1 files\""),
        ]);
        insta::assert_snapshot!(differences(&was, &is).unwrap(), @"arguments: was [--a], is now [--b]; output_format.type: was text, is now csv; environment_variables.TOKEN has changed; mini_batch_size: was not set, is now 1 files; environment_variables.OLD: was set, is now not set; and 1 more");
        is.entry_script_digest = "cd".into();
        let listed = differences(&was, &is).unwrap();
        assert!(listed.starts_with("the entry script is a different component now; "), "{listed}");
        assert!(listed.ends_with("; and 2 more"), "{listed}");
    }
}
