//! Inputs as components declare them: of which type each is, and the values of those that are no data.

use super::nodes::{entry, entry_of, take, text, text_at};
use super::pipeline::literal;
use crate::error::Report;
use crate::tree::{Entry, Node, Value, join};

/// What the job's inputs are declared to be, before the command line gives them values.
pub(crate) struct Declared(Vec<Entry>);

impl Declared {
    /// From a map of declarations.
    pub(super) fn new(declarations: Vec<Entry>) -> Self {
        Self(declarations)
    }

    /// Those of a job.
    pub(crate) fn of(job: &Node) -> Self {
        let Value::Map(entries) = &job.value else { return Self(Vec::new()) };
        match entry_of(entries, "inputs").map(|inputs| &inputs.node.value) {
            Some(Value::Map(inputs)) => Self(inputs.clone()),
            _ => Self(Vec::new()),
        }
    }

    /// Gives the inputs of a job the types that they were declared with.
    pub(crate) fn restore(self, job: &mut Node) {
        let Value::Map(entries) = &mut job.value else { return };
        let inputs = entries.iter_mut().find(|entry| entry.key == "inputs");
        let Some(Value::Map(inputs)) = inputs.map(|entry| &mut entry.node.value) else { return };
        // What a file says of its data does not hold for other data.
        const DECLARED: [&str; 8] =
            ["type", "mode", "description", "optional", "default", "enum", "min", "max"];
        let types = self.0.into_iter().filter_map(|mut declared| {
            inputs.iter().find(|input| input.key == declared.key)?;
            let Value::Map(entries) = &mut declared.node.value else { return None };
            entries.retain(|entry| DECLARED.contains(&entry.key.as_str()));
            Some(declared)
        });
        Self(types.collect()).fill(inputs);
    }

    /// Adds what is declared to what is given: inputs that are not given, and types of those that are.
    pub(super) fn fill(self, given: &mut Vec<Entry>) {
        for declared in self.0 {
            let Some(own) = given.iter_mut().find(|entry| entry.key == declared.key) else {
                given.push(declared);
                continue;
            };
            let Value::Map(declaration) = declared.node.value else { continue };
            let is_value = Type::of(&declaration).is_some();
            if matches!(own.node.value, Value::Scalar { .. }) {
                let key = if is_value { "value" } else { "path" };
                let value = std::mem::replace(&mut own.node.value, Value::Null);
                let node = Node { origin: own.node.origin.clone(), value };
                own.node.value = Value::Map(vec![entry(key, node)]);
            }
            let Value::Map(own) = &mut own.node.value else { continue };
            let of_value = ["path", "paths", "value", "default"];
            let has_value = of_value.iter().any(|key| entry_of(own, key).is_some());
            let wanted = declaration.into_iter().filter(|it| {
                entry_of(own, &it.key).is_none()
                    && !(has_value && of_value.contains(&it.key.as_str()))
            });
            let wanted: Vec<Entry> = wanted.collect();
            own.extend(wanted);
        }
    }
}

/// A type of values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Integer,
    Number,
    Boolean,
    String,
}

impl Type {
    fn of(entries: &[Entry]) -> Option<Self> {
        Some(match text_at(entries, "type")?.to_ascii_lowercase().as_str() {
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "string" => Self::String,
            _ => return None,
        })
    }

    /// With an article, and a value to show.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Integer => ("a whole number", "5"),
            Self::Number => ("a number", "0.5"),
            Self::Boolean => ("true or false", "true"),
            Self::String => ("a text", "TEXT"),
        }
    }

    fn takes(self, text: &str) -> bool {
        match self {
            Self::Integer => text.parse::<i64>().is_ok(),
            Self::Number => text.parse::<f64>().is_ok(),
            Self::Boolean => ["true", "false"].iter().any(|it| text.eq_ignore_ascii_case(it)),
            Self::String => true,
        }
    }
}

/// What an input is.
pub(super) enum Given {
    /// The text that stands for it.
    Value(String),
    /// Optional, and not given.
    Absent,
    /// Neither; the report has an error.
    Wrong,
    /// Data, or of no known type.
    Data,
}

/// What is given for an input, by the type that it is declared to have.
pub(super) fn given(name: &str, node: &Node, report: &Report) -> Given {
    let Value::Map(entries) = &node.value else { return Given::Data };
    let is_optional =
        text_at(entries, "optional").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    let key = join("inputs", name);
    let Some(of_type) = Type::of(entries) else {
        let is_there = ["path", "paths", "dataset", "value", "default"]
            .iter()
            .any(|key| entry_of(entries, key).is_some());
        let Some(kind) = text_at(entries, "type").filter(|_| !is_there) else { return Given::Data };
        if is_optional {
            return Given::Absent;
        }
        let noun = if kind.eq_ignore_ascii_case("uri_file") { "FILE" } else { "FOLDER" };
        let message = format!("is a {kind} without a path; name one by --set {key}.path={noun}");
        report.error(&node.origin, &key, message);
        return Given::Wrong;
    };
    let (what, example) = of_type.words();
    let Some(value) = literal(node) else {
        if is_optional {
            return Given::Absent;
        }
        let message = format!("is {what} without a value; give it one by --set {key}={example}");
        report.error(&node.origin, &key, message);
        return Given::Wrong;
    };
    let Some(found) = text(value).filter(|text| of_type.takes(text.trim())) else {
        report.error(&value.origin, &key, format!("found {value}; expected {what}"));
        return Given::Wrong;
    };
    if let Some(expected) = bound(entries, found) {
        report.error(&value.origin, &key, format!("found {value}; expected {expected}"));
        return Given::Wrong;
    }
    Given::Value(found.to_owned())
}

/// What a declaration wants in place of a value that it does not take.
fn bound(declaration: &[Entry], found: &str) -> Option<String> {
    if let Some(Value::List(items)) = entry_of(declaration, "enum").map(|it| &it.node.value) {
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

/// What says how an input is declared, and nothing of its data.
pub(super) fn strip(entries: &mut Vec<Entry>) {
    for key in ["type", "mode", "description", "optional"] {
        take(entries, key);
    }
}
