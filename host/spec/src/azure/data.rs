//! Version 2: inputs and outputs.

use super::mltable;
use super::nodes::{entry, is_small, scalar, take, text, text_at};
use super::pipeline::{SOURCE, literal};
use super::text::{is_remote, reference};
use crate::error::{Origin, Report};
use crate::place::{Place, fit_name};
use crate::tree::{Entry, Node, Value};

/// What a version 2 job reads and writes, in our words.
#[derive(Default)]
pub(super) struct Data {
    /// Keys of our own: `inputs`, `side_inputs`, `output`, `append_row_file_name`.
    pub(super) entries: Vec<Entry>,
    /// What references to inputs and outputs become: `inputs.x` with a text.
    pub(super) references: Vec<(String, String)>,
}

impl Data {
    /// The text of a reference's name.
    pub(super) fn resolve(&self, name: &str) -> Option<String> {
        let found = self.references.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.clone())
    }

    /// Sorts the inputs: the one that is cut into mini-batches, side inputs, and values.
    pub(super) fn add_inputs(
        &mut self,
        inputs: Option<Node>,
        input_data: Option<&Node>,
        is_void: bool,
        place: &Place,
        report: &Report,
    ) {
        let given = match inputs {
            None => Vec::new(),
            Some(Node { value: Value::Map(entries), .. }) => entries,
            Some(node) => {
                let message = format!("found {node}; expected a map of names to inputs");
                report.error(&node.origin, "inputs", message);
                return;
            }
        };
        let main = match input_data {
            None if is_void => None,
            given_data => {
                let Some(main) = main_input(&given, given_data, report) else { return };
                Some(main)
            }
        };
        let mut inputs = Vec::new();
        let mut sides = Vec::new();
        for Entry { key: name, node } in given {
            let fitted = fit_name(&name);
            if main.as_ref() == Some(&name) {
                if name != fitted {
                    report.notice(format!("inputs.{name} is called {fitted} here"));
                }
                report.notice(format!("input_data: inputs.{name} is cut into mini-batches"));
                self.references
                    .push((format!("inputs.{name}"), format!("${{{{inputs.{fitted}}}}}")));
                inputs.push(entry(&fitted, data_input(&name, node, place, report)));
            } else if let Some(value) = value_of(&node) {
                self.references.push((format!("inputs.{name}"), value));
            } else {
                report.notice(format!("inputs.{name} is taken for side_inputs.{fitted}"));
                let reference = format!("${{{{side_inputs.{fitted}}}}}");
                self.references.push((format!("inputs.{name}"), reference));
                sides.push(entry(&fitted, side_input(node)));
            }
        }
        for (key, entries) in [("inputs", inputs), ("side_inputs", sides)] {
            if !entries.is_empty() {
                let node = Node { origin: Origin::File, value: Value::Map(entries) };
                self.entries.push(entry(key, node));
            }
        }
    }

    /// Finds the output folder, and the output file's name in what `append_row_to` says.
    pub(super) fn add_outputs(
        &mut self,
        outputs: Option<Node>,
        append_row_to: Option<&Node>,
        report: &Report,
    ) {
        let given = match outputs {
            None => Vec::new(),
            Some(Node { value: Value::Map(entries), .. }) => entries,
            Some(node) => {
                let message = format!("found {node}; expected a map of names to outputs");
                report.error(&node.origin, "outputs", message);
                return;
            }
        };
        let bound = append_row_to.and_then(text).and_then(reference);
        let bound = bound.map(|name| name.strip_prefix("outputs.").unwrap_or(name));
        if let (Some(name), Some(node)) = (bound, append_row_to)
            && !given.iter().any(|output| output.key == name)
        {
            let message = format!("found the output {name:?}, which outputs does not have");
            report.error(&node.origin, "task.append_row_to", message);
        }
        let main = bound.or_else(|| given.first().map(|output| output.key.as_str()));
        for output in &given {
            let is_main = main == Some(output.key.as_str());
            let reference = if is_main {
                self.add_main_output(output, bound.is_some(), report)
            } else {
                report.notice(format!(
                    "outputs.{0} is the folder {0} in the output folder; the entry script makes it",
                    output.key
                ));
                format!("${{{{output}}}}/{}", output.key)
            };
            self.references.push((format!("outputs.{}", output.key), reference));
        }
        if let Some(node) = append_row_to
            && bound.is_none()
        {
            report.notice("task.append_row_to is taken for append_row_file_name");
            self.entries.push(entry("append_row_file_name", node.clone()));
        }
    }

    /// Returns what references to the output become.
    fn add_main_output(&mut self, output: &Entry, is_bound: bool, report: &Report) -> String {
        let folder = String::from("${{output}}");
        let (path, kind) = match &output.node.value {
            Value::Map(entries) => (text_at(entries, "path"), text_at(entries, "type")),
            _ => (text(&output.node), None),
        };
        let is_file = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("uri_file"));
        let Some(path) = path else { return folder };
        let name = &output.key;
        if is_remote(path) {
            report.notice(format!(
                "outputs.{name}: its path lies in Azure; results go to the job's own output folder"
            ));
            return folder;
        }
        let (parent, file) = match path.rsplit_once('/') {
            _ if !is_file => (path, None),
            Some((parent, file)) => (if parent.is_empty() { "/" } else { parent }, Some(file)),
            None => (".", Some(path)),
        };
        report.notice(format!("outputs.{name} is taken for output, the folder {parent}"));
        self.entries.push(entry("output", scalar(parent, &output.node.origin)));
        let Some(file) = file else { return folder };
        if is_bound {
            report.notice(format!("task.append_row_to is taken for append_row_file_name {file}"));
            self.entries.push(entry("append_row_file_name", scalar(file, &output.node.origin)));
        }
        format!("{folder}/{file}")
    }
}

/// The name of the input that `input_data` refers to.
fn main_input(inputs: &[Entry], input_data: Option<&Node>, report: &Report) -> Option<String> {
    let Some(node) = input_data else {
        let message = "missing; name the one input that is cut into mini-batches, as in \
                       ${{inputs.x}}";
        report.error(&Origin::File, "input_data", message);
        return None;
    };
    let name = text(node).and_then(reference).and_then(|name| name.strip_prefix("inputs."));
    match name {
        Some(name) if inputs.iter().any(|input| input.key == name) => Some(name.to_owned()),
        _ => {
            let names: Vec<&str> = inputs.iter().map(|input| input.key.as_str()).collect();
            let message = format!(
                "found {node}; expected one of the inputs, as in ${{{{inputs.x}}}}: there are {}",
                if names.is_empty() { String::from("none") } else { names.join(", ") }
            );
            report.error(&node.origin, "input_data", message);
            None
        }
    }
}

/// The text of an input that is no data.
fn value_of(node: &Node) -> Option<String> {
    if !is_small(node) {
        return None;
    }
    match &node.value {
        // What another job of the pipeline writes is data.
        Value::Scalar { text, .. } => (!is_remote(text)).then(|| text.clone()),
        Value::Map(_) => literal(node).and_then(text).map(str::to_owned),
        _ => None,
    }
}

/// Rows of an SQL table are read from databases that are files (prs-semantics M3).
fn refuse_sql(name: &str, source: &Node, report: &Report) {
    let query = match &source.value {
        Value::Map(entries) => text_at(entries, "query"),
        _ => None,
    };
    let query = query.map_or_else(|| "...".to_owned(), |query| format!("{query:?}"));
    let message = format!(
        "comes from an SQL table, and SQL servers cannot be reached from here; write the rows into an \
         SQLite database, and name it by --set inputs.{name}.path=FILE --set inputs.{name}.format=sqlite \
         --set inputs.{name}.query={query}, or write them as Parquet or CSV"
    );
    report.error(&source.origin, &format!("inputs.{name}.path"), message);
}

fn side_input(mut node: Node) -> Node {
    if let Value::Map(entries) = &mut node.value {
        for key in ["type", "mode", "description", "optional"] {
            take(entries, key);
        }
    }
    node
}

/// The input that is cut, without what means nothing here; a table file's settings become its own.
fn data_input(name: &str, mut node: Node, place: &Place, report: &Report) -> Node {
    let Value::Map(entries) = &mut node.value else { return node };
    let kind = take(entries, "type");
    let mode = take(entries, "mode");
    if let Some(source) = take(entries, SOURCE)
        && text_at(entries, "path").is_none_or(is_remote)
    {
        refuse_sql(name, &source, report);
        return node;
    }
    for key in ["description", "optional"] {
        take(entries, key);
    }
    let Some(kind_text) = kind.as_ref().and_then(text) else { return node };
    match kind_text.to_ascii_lowercase().as_str() {
        "uri_folder" | "uri_file" => {}
        "mltable" => {
            let is_direct = mode
                .as_ref()
                .and_then(text)
                .is_some_and(|mode| mode.eq_ignore_ascii_case("direct"));
            mltable::expand(name, entries, is_direct, place, report);
        }
        _ => {
            if let Some(kind) = &kind {
                let message = format!(
                    "found {kind}; expected uri_folder, uri_file or mltable for input_data"
                );
                report.error(&kind.origin, &format!("inputs.{name}.type"), message);
            }
        }
    }
    node
}
