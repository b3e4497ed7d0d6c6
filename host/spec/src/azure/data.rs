//! Version 2: inputs and outputs.

use super::mltable;
use super::nodes::{
    MAX_PARAMETER, entry, entry_of, group_of, is_small, scalar, take, text, text_at,
};
use super::pipeline::{SOURCE, literal};
use super::text::{is_remote, reference};
use super::values::{GivenInput, given, strip};
use crate::error::{ErrorReport, SettingOrigin};
use crate::job_file_location::{JobFileLocation, fit_name};
use crate::tree::{MapEntry, YamlNode, YamlValue, join};

/// The inputs and outputs of a version 2 job, in our keys.
pub(super) struct JobData {
    /// Keys of our own: `inputs`, `side_inputs`, `output`, `append_row_file_name`.
    pub(super) entries: Vec<MapEntry>,
    /// The texts that replace references to inputs and outputs, by name (`inputs.x`).
    references: Vec<(String, String)>,
    /// The names of optional inputs without a value: `inputs.x`.
    absent: Vec<String>,
    /// Whether `mini_batch_size` is a size that only tables can have.
    is_table: bool,
}

impl JobData {
    pub(super) fn new(is_table: bool) -> Self {
        Self { entries: Vec::new(), references: Vec::new(), absent: Vec::new(), is_table }
    }

    /// The text for a reference in the value of `key`. A reference to an optional input without a value is an
    /// error.
    pub(super) fn resolve(
        &self,
        name: &str,
        key: &str,
        origin: &SettingOrigin,
        report: &ErrorReport,
    ) -> Option<String> {
        if self.is_absent(name) {
            let message = format!(
                "found ${{{{{name}}}}}, which is optional and has no value; give it one by --set {name}=..., or put \
                 the argument into a group, as in $[[--x ${{{{{name}}}}}]]"
            );
            report.error(origin, key, message);
            return Some(String::new());
        }
        let found = self.references.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.clone())
    }

    /// Adds the value of an input that is not data.
    fn add_value(
        &mut self,
        name: &str,
        value: String,
        origin: &SettingOrigin,
        report: &ErrorReport,
    ) {
        let key = join("inputs", name);
        if value.len() > MAX_PARAMETER {
            let message = format!(
                "found a text of {} bytes; the value of an input has at most {MAX_PARAMETER}: put a longer one into a file, \
                 and give that as an input of the type uri_file",
                value.len()
            );
            report.error(origin, &key, message);
            return self.references.push((key, String::new()));
        }
        self.references.push((key, value));
    }

    /// Whether the name is that of an optional input without a value.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.absent.iter().any(|absent| absent == name)
    }

    /// Whether an input is a table.
    pub(super) fn has_tables(&self) -> bool {
        let Some(MapEntry { node: YamlNode { value: YamlValue::Map(inputs), .. }, .. }) =
            entry_of(&self.entries, "inputs")
        else {
            return false;
        };
        inputs.iter().any(|input| match &input.node.value {
            YamlValue::Map(input) => {
                text_at(input, "format").is_some_and(|format| format != "files")
            }
            _ => false,
        })
    }

    /// Adds the inputs of a call of an endpoint. Each of them is cut into mini-batches.
    pub(super) fn add_called(
        &mut self,
        inputs: Option<YamlNode>,
        place: &JobFileLocation,
        report: &ErrorReport,
    ) {
        for MapEntry { key, node } in named(inputs, "inputs", report).unwrap_or_default() {
            self.add_main(&key, node, place, report);
        }
    }

    /// Sorts the inputs into three kinds: the one that is cut into mini-batches, side inputs, and values.
    pub(super) fn add_inputs(
        &mut self,
        inputs: Option<YamlNode>,
        input_data: Option<&YamlNode>,
        is_void: bool,
        place: &JobFileLocation,
        report: &ErrorReport,
    ) {
        let Some(all) = named(inputs, "inputs", report) else { return };
        let main = match input_data {
            None if is_void => None,
            given_data => {
                let Some(main) = main_input(&all, given_data, report) else { return };
                Some(main)
            }
        };
        for MapEntry { key: name, node } in all {
            if main.as_ref() == Some(&name) {
                report.conversion(format!("input_data: inputs.{name} is cut into mini-batches"));
                self.add_main(&name, node, place, report);
                continue;
            }
            match given(&name, &node, report) {
                GivenInput::Value(value) => self.add_value(&name, value, &node.origin, report),
                GivenInput::Absent => {
                    report.conversion(format!("inputs.{name}: optional, and not given"));
                    self.absent.push(join("inputs", &name));
                }
                GivenInput::Wrong => {}
                GivenInput::Data => match value_of(&node) {
                    Some(value) => self.add_value(&name, value, &node.origin, report),
                    None => self.add_side(&name, node, report),
                },
            }
        }
    }

    fn add_main(
        &mut self,
        name: &str,
        node: YamlNode,
        place: &JobFileLocation,
        report: &ErrorReport,
    ) {
        let fitted = fit_name(name);
        if name != fitted {
            report.conversion(format!("inputs.{name} is called {fitted} here"));
            report.call(&join("inputs", &fitted), &join("inputs", name));
        }
        let reference = format!("${{{{inputs.{fitted}}}}}");
        self.references.push((join("inputs", name), reference));
        if let Some(input) = data_input(name, node, self.is_table, place, report) {
            self.put("inputs", entry(&fitted, input));
        }
    }

    fn add_side(&mut self, name: &str, mut node: YamlNode, report: &ErrorReport) {
        let fitted = fit_name(name);
        report.conversion(format!("inputs.{name} is read as side_inputs.{fitted}"));
        report.call(&join("side_inputs", &fitted), &join("inputs", name));
        let reference = format!("${{{{side_inputs.{fitted}}}}}");
        self.references.push((join("inputs", name), reference));
        if let YamlValue::Map(entries) = &mut node.value {
            strip(entries);
        }
        self.put("side_inputs", entry(&fitted, node));
    }

    /// Adds an entry to a group.
    fn put(&mut self, group: &str, new: MapEntry) {
        if let Some(entries) = group_of(&mut self.entries, group, &SettingOrigin::File) {
            entries.push(new);
        }
    }

    /// Determines the output folder, and the output file's name from `append_row_to`. `output_data` names the
    /// output for Azure's own files.
    pub(super) fn add_outputs(
        &mut self,
        outputs: Option<YamlNode>,
        append_row_to: Option<&YamlNode>,
        output_data: Option<&YamlNode>,
        report: &ErrorReport,
    ) {
        let Some(given) = named(outputs, "outputs", report) else { return };
        let name_of = |node: Option<&'_ YamlNode>| {
            let name = node.and_then(text).and_then(reference)?;
            Some(name.strip_prefix("outputs.").unwrap_or(name).to_owned())
        };
        let bound = name_of(append_row_to);
        let of_azure = name_of(output_data);
        let bindings = [
            ("task.append_row_to", &bound, append_row_to),
            ("output_data", &of_azure, output_data),
        ];
        for (key, name, node) in bindings {
            if let (Some(name), Some(node)) = (name, node)
                && !given.iter().any(|output| output.key == *name)
            {
                let message = format!("found the output {name:?}, which outputs does not have");
                report.error(&node.origin, key, message);
            }
        }
        if let (Some(node), None) = (output_data, &of_azure) {
            let message =
                format!("found {node}; expected one of the outputs, as in ${{{{outputs.x}}}}");
            report.error(&node.origin, "output_data", message);
        }
        let bound = bound.as_deref();
        let first = || given.first().map(|output| output.key.as_str());
        let main = bound.or(of_azure.as_deref()).or_else(first);
        for output in &given {
            let is_main = main == Some(output.key.as_str());
            let reference = if is_main {
                self.add_main_output(output, bound.is_some(), report)
            } else {
                report.conversion(format!(
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
            report.conversion("task.append_row_to is read as append_row_file_name");
            self.entries.push(entry("append_row_file_name", node.clone()));
        }
    }

    /// Returns the text that replaces references to the output.
    fn add_main_output(
        &mut self,
        output: &MapEntry,
        is_bound: bool,
        report: &ErrorReport,
    ) -> String {
        let folder = String::from("${{output}}");
        let (path, kind) = match &output.node.value {
            YamlValue::Map(entries) => (text_at(entries, "path"), text_at(entries, "type")),
            _ => (text(&output.node), None),
        };
        let is_file = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("uri_file"));
        let Some(path) = path else { return folder };
        let name = &output.key;
        report.call("output", &join("outputs", name));
        if is_remote(path) {
            report.notice(format!(
                "outputs.{name}: its path is in Azure; results go to the job's own output folder"
            ));
            return folder;
        }
        let (parent, file) = match path.rsplit_once('/') {
            _ if !is_file => (path, None),
            Some((parent, file)) => (if parent.is_empty() { "/" } else { parent }, Some(file)),
            None => (".", Some(path)),
        };
        report.conversion(format!("outputs.{name} is read as output, the folder {parent}"));
        self.entries.push(entry("output", scalar(parent, &output.node.origin)));
        let Some(file) = file else { return folder };
        if is_bound {
            report.conversion(format!("task.append_row_to is read as append_row_file_name {file}"));
            self.entries.push(entry("append_row_file_name", scalar(file, &output.node.origin)));
        }
        format!("{folder}/{file}")
    }
}

/// The inputs or the outputs of a file, by name. `None`, with an error, if they are not a map.
fn named(group: Option<YamlNode>, key: &str, report: &ErrorReport) -> Option<Vec<MapEntry>> {
    match group {
        None => Some(Vec::new()),
        Some(YamlNode { value: YamlValue::Map(entries), .. }) => Some(entries),
        Some(node) => {
            let message = format!("found {node}; expected a map of names to {key}");
            report.error(&node.origin, key, message);
            None
        }
    }
}

/// The name of the input that `input_data` refers to.
fn main_input(
    inputs: &[MapEntry],
    input_data: Option<&YamlNode>,
    report: &ErrorReport,
) -> Option<String> {
    let Some(node) = input_data else {
        let message = "missing; name the one input that is cut into mini-batches, as in \
                       ${{inputs.x}}";
        report.error(&SettingOrigin::File, "input_data", message);
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

/// The text of an input that is not data.
fn value_of(node: &YamlNode) -> Option<String> {
    if !is_small(node) {
        return None;
    }
    match &node.value {
        // A reference to the output of another job in the pipeline is data.
        YamlValue::Scalar { text, .. } => (!is_remote(text)).then(|| text.clone()),
        YamlValue::Map(_) => literal(node).and_then(text).map(str::to_owned),
        _ => None,
    }
}

/// Refuses an SQL table: only databases that are files can be read (docs/parallel-run-step.md M3).
fn refuse_sql(name: &str, source: &YamlNode, report: &ErrorReport) {
    let query = match &source.value {
        YamlValue::Map(entries) => text_at(entries, "query"),
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

/// The input that is cut into mini-batches, without settings that have no meaning here. The settings of a
/// table file are merged into it. `None`, with an error, if it has no path.
fn data_input(
    name: &str,
    mut node: YamlNode,
    is_table: bool,
    place: &JobFileLocation,
    report: &ErrorReport,
) -> Option<YamlNode> {
    let YamlValue::Map(entries) = &mut node.value else { return Some(node) };
    let kind = take(entries, "type");
    let mode = take(entries, "mode");
    if kind.is_some()
        && !["path", "paths", "dataset"].iter().any(|key| entry_of(entries, key).is_some())
    {
        let key = join("inputs", name);
        let message = format!("has no path; name its files or its folder by --set {key}.path=PATH");
        report.error(&node.origin, &key, message);
        return None;
    }
    if let Some(source) = take(entries, SOURCE)
        && text_at(entries, "path").is_none_or(is_remote)
    {
        refuse_sql(name, &source, report);
        return Some(node);
    }
    strip(entries);
    let Some(kind_text) = kind.as_ref().and_then(text) else { return Some(node) };
    match kind_text.to_ascii_lowercase().as_str() {
        "uri_folder" | "uri_file" => {}
        "mltable" => {
            let mode = mode.as_ref().and_then(text);
            let is_direct = mode.map_or(is_table, |mode| mode.eq_ignore_ascii_case("direct"));
            if is_direct && mode.is_none() {
                report.conversion(format!(
                    "inputs.{name}: read as mode direct, a table, as mini_batch_size is a number of bytes"
                ));
            }
            if !is_direct {
                report.call_file_list(name);
            }
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
    Some(node)
}
