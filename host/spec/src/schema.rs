//! The JSON schema of the job file, made from the table of keys.

use super::azure::{SAVED_SECTION, SCHEMA_KEY};
use super::keys::{self, Key, KeyKind};
use super::nodes::MAX_NODES;
use super::tree::{self, YamlNode, YamlValue};
use serde_json::{Map, Value as Json, json};

/// The pattern of names of inputs and side inputs, and of jobs.
const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";
const MODEL_NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

/// Returns the JSON schema (draft 2020-12) of a job file in Sandmill's own keys, with descriptions and
/// defaults. Editors use it to check and complete job files. The schema is less strict than the loader: for
/// example, it does not check `parallel_run_config`, the section of a saved file.
pub fn schema() -> Json {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sandmill job file",
        "description": "One job of Sandmill: an entry script, its inputs, and how it is to run. \
                        Relative paths are relative to the folder of the job file.",
    });
    let body = object(keys::JOB, &[]);
    if let (Some(schema), Json::Object(body)) = (schema.as_object_mut(), body) {
        schema.extend(body);
        // A job without data needs no inputs.
        let alternatives = json!([
            { "required": ["entry_script", "inputs"] },
            { "required": ["entry_script", "rank_mini_batch_count"] },
            { "required": [SAVED_SECTION] },
        ]);
        schema.insert(String::from("anyOf"), alternatives);
        if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
            add_other_keys(properties);
        }
    }
    schema
}

/// Adds keys that the loader accepts although they are not in the table of keys.
fn add_other_keys(properties: &mut Map<String, Json>) {
    for (name, reason) in keys::IGNORED {
        properties
            .insert((*name).to_owned(), json!({ "description": format!("Ignored: {reason}.") }));
    }
    for (name, key) in keys::ALIASES {
        if let Some(mut schema) = properties.get(*key).cloned() {
            schema["description"] = json!(format!("Another name for {key}."));
            properties.insert((*name).to_owned(), schema);
        }
    }
    properties.insert(String::from(SCHEMA_KEY), json!({ "type": "string" }));
    let saved = json!({
        "type": "object",
        "description": "The settings that ParallelRunConfig of the Azure SDK saves.",
    });
    properties.insert(String::from(SAVED_SECTION), saved);
    // The loader parses larger numbers, too, so that its error can say that a broker is missing. The schema has
    // only the limit.
    if let Some(node_count) = properties.get_mut("node_count") {
        node_count["anyOf"][0]["maximum"] = json!(MAX_NODES);
    }
}

/// The schema of a map with these keys.
fn object(keys: &[Key], without: &[&str]) -> Json {
    let mut properties = Map::new();
    for key in keys.iter().filter(|key| !without.contains(&key.name)) {
        properties.insert(key.name.to_owned(), property(key));
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The schema of a key's value.
fn property(key: &Key) -> Json {
    let mut schema = kind_schema(key.kind);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(String::from("description"), json!(key.description.replace('`', "")));
        if let Some(Ok(default)) = key.default.map(tree::parse_value) {
            schema.insert(String::from("default"), json_of(&default));
        }
        if let Ok(example) = tree::parse_value(key.example) {
            schema.insert(String::from("examples"), json!([json_of(&example)]));
        }
    }
    schema
}

fn kind_schema(kind: KeyKind) -> Json {
    let text_or_number = json!({ "type": ["string", "number", "boolean"] });
    match kind {
        KeyKind::Text => json!({ "type": "string", "minLength": 1 }),
        KeyKind::Name => json!({ "type": "string", "pattern": NAME_PATTERN }),
        KeyKind::ModelName => json!({ "type": "string", "pattern": MODEL_NAME_PATTERN }),
        KeyKind::Integer { min, max } => integer(min, max),
        KeyKind::Seconds { max } => {
            json!({ "type": "number", "exclusiveMinimum": 0, "maximum": max })
        }
        KeyKind::Interval { max } => json!({ "type": "number", "minimum": 0, "maximum": max }),
        KeyKind::Percent => json!({ "type": "number", "minimum": 0, "maximum": 100 }),
        KeyKind::Size { .. } => size(1),
        KeyKind::BatchSize => {
            let mut schema = size(1);
            schema["anyOf"][1]["pattern"] = json!(
                "^ *[0-9]+ *([kKmMgGtT]([iI]?[bB])?|[bB]([yY][tT][eE][sS]?)?|[rR][oO][wW][sS]?)? *$"
            );
            schema
        }
        KeyKind::Choice(names) => choice(&names()),
        KeyKind::Bool => json!({ "type": "boolean" }),
        KeyKind::Scalars => json!({ "type": "array", "items": text_or_number }),
        KeyKind::ScalarsOrOne => json!({
            "anyOf": [text_or_number.clone(), { "type": "array", "items": text_or_number }]
        }),
        KeyKind::Texts => {
            json!({ "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } })
        }
        KeyKind::Variables => json!({
            "type": "object",
            "propertyNames": { "minLength": 1 },
            "additionalProperties": text_or_number,
        }),
        KeyKind::Columns => json!({
            "type": "object",
            "minProperties": 1,
            "additionalProperties": choice(&keys::column_types()),
        }),
        // `output_format: csv` is short for a map with `type: csv`.
        KeyKind::Group(keys) if std::ptr::eq(keys, keys::OUTPUT_FORMAT) => {
            let types = keys.iter().find(|key| key.name == "type").map(property);
            json!({ "anyOf": [types, object(keys, &[])] })
        }
        KeyKind::Group(keys) => object(keys, &[]),
        KeyKind::Named(keys) => named(keys),
    }
}

fn integer(min: i64, max: i64) -> Json {
    let mut schema = json!({ "type": "integer" });
    // The limits of the integer type itself need not be in the schema.
    if min > i64::MIN {
        schema["minimum"] = json!(min);
    }
    if max < i64::MAX {
        schema["maximum"] = json!(max);
    }
    json!({ "anyOf": [schema, { "type": "string", "pattern": "^ *[+-]?[0-9]+ *$" }] })
}

/// The schema of a choice: the words as written, so that editors complete them, or the words in any case.
fn choice(names: &[&str]) -> Json {
    let any_case_pattern = |name: &&str| -> String {
        name.chars()
            .map(|c| match c.to_ascii_lowercase() {
                lower if lower.is_ascii_alphabetic() => {
                    format!("[{lower}{}]", lower.to_ascii_uppercase())
                }
                other => other.to_string(),
            })
            .collect()
    };
    let patterns: Vec<String> = names.iter().map(any_case_pattern).collect();
    let pattern = format!("^({})$", patterns.join("|"));
    json!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": pattern }] })
}

/// The schema of a size in bytes: a number, or a text with a unit.
fn size(min: u64) -> Json {
    json!({ "anyOf": [
        { "type": "integer", "minimum": min },
        { "type": "string", "pattern": "^ *[0-9]+ *([kKmMgGtT]([iI]?[bB])?|[bB]([yY][tT][eE][sS]?)?)? *$" },
    ] })
}

/// The schema of groups with names: a map of names to groups, or a list of groups.
fn named(keys: &[Key]) -> Json {
    let is_model = keys.iter().any(|key| matches!(key.kind, KeyKind::ModelName));
    let mut item = object(keys, &[]);
    item["required"] = json!(["name"]);
    json!({ "anyOf": [
        {
            "type": "object",
            "propertyNames": { "pattern": if is_model { MODEL_NAME_PATTERN } else { NAME_PATTERN } },
            "additionalProperties": {
                "anyOf": [{ "type": "string", "minLength": 1 }, object(keys, &["name"])],
            },
        },
        { "type": "array", "items": item },
    ] })
}

fn json_of(node: &YamlNode) -> Json {
    match &node.value {
        YamlValue::Null => Json::Null,
        YamlValue::Scalar { text, is_text: true } => json!(text),
        YamlValue::Scalar { text, is_text: false } => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
        YamlValue::List(items) => items.iter().map(json_of).collect(),
        YamlValue::Map(entries) => Json::Object(
            entries.iter().map(|entry| (entry.key.clone(), json_of(&entry.node))).collect(),
        ),
    }
}
