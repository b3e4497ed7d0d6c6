//! What changed of a job's settings since it was run before, in words.

use super::identity::DIGEST;
use crate::journal::JobIdentity;

/// So many differences are told.
const TOLD: usize = 5;

/// What is not as it was, in words: `arguments: was ["--a"], is now ["--b"]`; none if nothing.
pub(super) fn differences(was: &JobIdentity, is: &JobIdentity) -> Option<String> {
    let mut told = Vec::new();
    if was.entry_script_digest != is.entry_script_digest {
        told.push("the entry script is another component than it was".to_owned());
    }
    let value = |settings: &[(String, String)], name: &str| {
        settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    for (name, now) in &is.settings {
        match value(&was.settings, name) {
            None => told.push(format!("{name}: was not set, is now {}", shown(now))),
            Some(before) if before == *now => {}
            Some(before) if [&before, now].iter().any(|text| text.starts_with(DIGEST)) => {
                let verb = if name.starts_with("the files") {
                    "are not what they were"
                } else {
                    "is not what it was"
                };
                told.push(format!("{name} {verb}"));
            }
            Some(before) => by_field(name, &before, now, &mut told),
        }
    }
    for (name, before) in &was.settings {
        if value(&is.settings, name).is_none() {
            told.push(format!("{name}: was {}, is now not set", shown(before)));
        }
    }
    let more = told.len().saturating_sub(TOLD);
    told.truncate(TOLD);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    Some(told.join("; ")).filter(|text| !text.is_empty())
}

/// What differs of a setting with fields of its own, as `output_format.header`; else all of it.
fn by_field(name: &str, before: &str, now: &str, told: &mut Vec<String>) {
    let fields = |text: &str| serde_json::from_str::<serde_json::Map<_, _>>(text);
    let (Ok(was), Ok(is)) = (fields(before), fields(now)) else {
        return told.push(format!("{name}: was {before}, is now {now}"));
    };
    for (field, now) in &is {
        match was.get(field) {
            Some(before) if before == now => {}
            Some(before) => told.push(format!("{name}.{field}: was {before}, is now {now}")),
            None => told.push(format!("{name}.{field}: was not set, is now {now}")),
        }
    }
    for (field, before) in was.iter().filter(|(field, _)| !is.contains_key(*field)) {
        told.push(format!("{name}.{field}: was {before}, is now not set"));
    }
}

fn shown(value: &str) -> &str {
    if value.starts_with(DIGEST) { "set" } else { value }
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
    fn differences_are_named() {
        let secret = format!("{DIGEST}one");
        let was = identity(&[
            ("arguments", r#"["--a"]"#),
            ("ordered", "false"),
            ("output_format", r#"{"type":"text","header":false}"#),
            ("environment_variables.TOKEN", &secret),
            ("environment_variables.OLD", &secret),
            ("rank_mini_batch_count", "3"),
        ]);
        assert_eq!(differences(&was, &was), None);
        let other = format!("{DIGEST}two");
        let mut is = identity(&[
            ("arguments", r#"["--b"]"#),
            ("ordered", "false"),
            ("output_format", r#"{"type":"csv","header":false}"#),
            ("environment_variables.TOKEN", &other),
            ("mini_batch_size", "\"1 files\""),
        ]);
        insta::assert_snapshot!(differences(&was, &is).unwrap(), @r#"arguments: was ["--a"], is now ["--b"]; output_format.type: was "text", is now "csv"; environment_variables.TOKEN is not what it was; mini_batch_size: was not set, is now "1 files"; environment_variables.OLD: was set, is now not set; and 1 more"#);
        is.entry_script_digest = "cd".into();
        let told = differences(&was, &is).unwrap();
        assert!(told.starts_with("the entry script is another component than it was; "), "{told}");
        assert!(told.ends_with("; and 2 more"), "{told}");
    }
}
