//! Checks inputs against the types that components declare, and reads the values of inputs that are not data.

use super::nodes::{entry, entry_of, remove_key, text, text_at};
use super::pipeline::literal;
use crate::error::ErrorReport;
use crate::tree::{MapEntry, YamlNode, YamlValue, join};

/// The declarations of the job's inputs, before the command line sets values.
pub(crate) struct DeclaredInputs(Vec<MapEntry>);

impl DeclaredInputs {
    pub(super) fn new(declarations: Vec<MapEntry>) -> Self {
        Self(declarations)
    }

    /// The declarations in a job.
    pub(crate) fn from_job(job: &YamlNode) -> Self {
        let YamlValue::Map(entries) = &job.value else { return Self(Vec::new()) };
        match entry_of(entries, "inputs").map(|inputs| &inputs.node.value) {
            Some(YamlValue::Map(inputs)) => Self(inputs.clone()),
            _ => Self(Vec::new()),
        }
    }

    /// Gives the inputs of a job their declared types again. A value from the command line may have
    /// replaced a whole input, including its type.
    pub(crate) fn restore(self, job: &mut YamlNode) {
        let YamlValue::Map(entries) = &mut job.value else { return };
        let inputs = entries.iter_mut().find(|entry| entry.key == "inputs");
        let Some(YamlValue::Map(inputs)) = inputs.map(|entry| &mut entry.node.value) else {
            return;
        };
        // Keep only the keys that describe the type. Keys that describe the file's own data do not apply to
        // other data.
        const TYPE_KEYS: [&str; 8] =
            ["type", "mode", "description", "optional", "default", "enum", "min", "max"];
        let types = self.0.into_iter().filter_map(|mut declared| {
            inputs.iter().find(|input| input.key == declared.key)?;
            let YamlValue::Map(entries) = &mut declared.node.value else { return None };
            entries.retain(|entry| TYPE_KEYS.contains(&entry.key.as_str()));
            Some(declared)
        });
        Self(types.collect()).fill(inputs);
    }

    /// Adds the declarations to the given inputs: adds inputs that are missing, and the types of all other
    /// inputs.
    pub(super) fn fill(self, given: &mut Vec<MapEntry>) {
        for declared in self.0 {
            let Some(own) = given.iter_mut().find(|entry| entry.key == declared.key) else {
                given.push(declared);
                continue;
            };
            let YamlValue::Map(declaration) = declared.node.value else { continue };
            let is_value = ValueType::from_entries(&declaration).is_some();
            if matches!(own.node.value, YamlValue::Scalar { .. }) {
                let key = if is_value { "value" } else { "path" };
                let value = std::mem::replace(&mut own.node.value, YamlValue::Null);
                let node = YamlNode { origin: own.node.origin.clone(), value };
                own.node.value = YamlValue::Map(vec![entry(key, node)]);
            }
            let YamlValue::Map(own) = &mut own.node.value else { continue };
            let value_keys = ["path", "paths", "value", "default"];
            let has_value = value_keys.iter().any(|key| entry_of(own, key).is_some());
            let missing = declaration.into_iter().filter(|it| {
                entry_of(own, &it.key).is_none()
                    && !(has_value && value_keys.contains(&it.key.as_str()))
            });
            let missing: Vec<MapEntry> = missing.collect();
            own.extend(missing);
        }
    }
}

/// The declared type of an input that is a value, not data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueType {
    Integer,
    Number,
    Boolean,
    String,
}

impl ValueType {
    /// `None` if the type is missing or is a type of data.
    fn from_entries(entries: &[MapEntry]) -> Option<Self> {
        Some(match text_at(entries, "type")?.to_ascii_lowercase().as_str() {
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "string" => Self::String,
            _ => return None,
        })
    }

    /// A phrase with an article, and a sample value.
    fn phrase_and_example(self) -> (&'static str, &'static str) {
        match self {
            Self::Integer => ("a whole number", "5"),
            Self::Number => ("a number", "0.5"),
            Self::Boolean => ("true or false", "true"),
            Self::String => ("a text", "TEXT"),
        }
    }

    fn accepts(self, text: &str) -> bool {
        match self {
            Self::Integer => text.parse::<i64>().is_ok(),
            Self::Number => text.parse::<f64>().is_ok(),
            Self::Boolean => ["true", "false"].iter().any(|it| text.eq_ignore_ascii_case(it)),
            Self::String => true,
        }
    }
}

/// What was given for an input.
pub(super) enum GivenInput {
    /// The value, as text.
    Value(String),
    /// No value. The input is optional.
    Absent,
    /// A wrong value. The report has an error.
    Wrong,
    /// Data, or an input without a known type.
    Data,
}

/// Checks the value of an input against its declared type.
pub(super) fn check_given(name: &str, node: &YamlNode, report: &ErrorReport) -> GivenInput {
    let YamlValue::Map(entries) = &node.value else { return GivenInput::Data };
    let is_optional =
        text_at(entries, "optional").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    let key = join("inputs", name);
    let Some(value_type) = ValueType::from_entries(entries) else {
        let has_value = ["path", "paths", "dataset", "value", "default"]
            .iter()
            .any(|key| entry_of(entries, key).is_some());
        let Some(kind) = text_at(entries, "type").filter(|_| !has_value) else {
            return GivenInput::Data;
        };
        if is_optional {
            return GivenInput::Absent;
        }
        let noun = if kind.eq_ignore_ascii_case("uri_file") { "FILE" } else { "FOLDER" };
        let message = format!("is a {kind} without a path; name one by --set {key}.path={noun}");
        report.error(&node.origin, &key, message);
        return GivenInput::Wrong;
    };
    let (phrase, example) = value_type.phrase_and_example();
    let Some(value) = literal(node) else {
        if is_optional {
            return GivenInput::Absent;
        }
        let message =
            format!("is {phrase} without a value; give it a value by --set {key}={example}");
        report.error(&node.origin, &key, message);
        return GivenInput::Wrong;
    };
    let Some(found) = text(value).filter(|text| value_type.accepts(text.trim())) else {
        report.error(&value.origin, &key, format!("found {value}; expected {phrase}"));
        return GivenInput::Wrong;
    };
    if let Some(expected) = expected_instead(entries, found) {
        report.error(&value.origin, &key, format!("found {value}; expected {expected}"));
        return GivenInput::Wrong;
    }
    GivenInput::Value(found.to_owned())
}

/// Returns what a declaration expects instead of this value. `None` if it allows the value.
fn expected_instead(declaration: &[MapEntry], found: &str) -> Option<String> {
    if let Some(YamlValue::List(items)) = entry_of(declaration, "enum").map(|it| &it.node.value) {
        let known: Vec<&str> = items.iter().filter_map(text).collect();
        return (!known.contains(&found)).then(|| format!("one of {}", known.join(", ")));
    }
    let number = |key: &str| text_at(declaration, key)?.trim().parse::<f64>().ok();
    let value = found.trim().parse::<f64>().ok()?;
    if let Some(least) = number("min").filter(|least| value < *least) {
        return Some(format!("at least {least}"));
    }
    let most = number("max").filter(|most| value > *most)?;
    Some(format!("at most {most}"))
}

/// Removes the keys that only declare an input, and do not say where its data is.
pub(super) fn remove_declaration(entries: &mut Vec<MapEntry>) {
    for key in ["type", "mode", "description", "optional"] {
        remove_key(entries, key);
    }
}
