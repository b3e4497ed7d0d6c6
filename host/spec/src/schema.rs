//! The JSON schema of the job file, made from the table of keys.

use super::azure::{SCHEMA_KEY, SECTION};
use super::keys::{self, Key, KeyKind};
use super::tree::{self, YamlNode, YamlValue};
use serde_json::{Map, Value as Json, json};

const NAME: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";
const MODEL_NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

/// The JSON schema (draft 2020-12) of our own form of a job file, with descriptions and defaults. Editors use
/// it to check and complete job files. It is less strict than the loader in places: it does not check the
/// section of a saved file.
pub fn schema() -> Json {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sandmill job file",
        "description": "One job of Sandmill: an entry script, its inputs, and how it is to run. \
                        Relative paths mean the job file's folder.",
    });
    let body = object(keys::JOB, &[]);
    if let (Some(schema), Json::Object(body)) = (schema.as_object_mut(), body) {
        schema.extend(body);
        // A job without data needs no inputs.
        let needed = json!([
            { "required": ["entry_script", "inputs"] },
            { "required": ["entry_script", "rank_mini_batch_count"] },
            { "required": [SECTION] },
        ]);
        schema.insert(String::from("anyOf"), needed);
        if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
            add_tolerated(properties);
        }
    }
    schema
}

/// Adds keys that the loader accepts besides those of the table.
fn add_tolerated(properties: &mut Map<String, Json>) {
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
    properties.insert(String::from(SECTION), saved);
    // The loader explains why a larger number is refused. The schema only has the limit.
    if let Some(node_count) = properties.get_mut("node_count") {
        node_count["anyOf"][0]["maximum"] = json!(1);
        node_count["anyOf"][1]["pattern"] = json!("^ *1 *$");
    }
}

fn object(keys: &[Key], without: &[&str]) -> Json {
    let mut properties = Map::new();
    for key in keys.iter().filter(|key| !without.contains(&key.name)) {
        properties.insert(key.name.to_owned(), property(key));
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn property(key: &Key) -> Json {
    let mut schema = kind(key.kind);
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

fn kind(kind: KeyKind) -> Json {
    let text_or_number = json!({ "type": ["string", "number", "boolean"] });
    match kind {
        KeyKind::Text => json!({ "type": "string", "minLength": 1 }),
        KeyKind::Name => json!({ "type": "string", "pattern": NAME }),
        KeyKind::ModelName => json!({ "type": "string", "pattern": MODEL_NAME }),
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
        // A single word stands for a map with this type.
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

/// One of these words: as written, for completion, or in any case.
fn choice(names: &[&str]) -> Json {
    let in_any_case = |name: &&str| -> String {
        name.chars()
            .map(|c| match c.to_ascii_lowercase() {
                lower if lower.is_ascii_alphabetic() => {
                    format!("[{lower}{}]", lower.to_ascii_uppercase())
                }
                other => other.to_string(),
            })
            .collect()
    };
    let patterns: Vec<String> = names.iter().map(in_any_case).collect();
    let pattern = format!("^({})$", patterns.join("|"));
    json!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": pattern }] })
}

fn size(min: u64) -> Json {
    json!({ "anyOf": [
        { "type": "integer", "minimum": min },
        { "type": "string", "pattern": "^ *[0-9]+ *([kKmMgGtT]([iI]?[bB])?|[bB]([yY][tT][eE][sS]?)?)? *$" },
    ] })
}

fn named(keys: &[Key]) -> Json {
    let of_model = keys.iter().any(|key| matches!(key.kind, KeyKind::ModelName));
    let mut item = object(keys, &[]);
    item["required"] = json!(["name"]);
    json!({ "anyOf": [
        {
            "type": "object",
            "propertyNames": { "pattern": if of_model { MODEL_NAME } else { NAME } },
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
