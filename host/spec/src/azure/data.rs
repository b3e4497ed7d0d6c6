//! Converts the inputs and outputs of a version 2 file into keys of our own.

use super::mltable;
use super::nodes::{
    MAX_PARAMETER_BYTES, entry, entry_of, group_or_insert, is_small, remove_key, scalar, text,
    text_at,
};
use super::pipeline::{SOURCE_KEY, literal};
use super::text::{is_remote, reference};
use super::values::{GivenInput, check_given, remove_declaration};
use crate::error::{ErrorReport, SettingOrigin};
use crate::job_file_location::{JobFileLocation, fit_name};
use crate::tree::{MapEntry, YamlNode, YamlValue, join};

/// The inputs and outputs of a version 2 job, in our keys.
pub(super) struct JobData {
    /// Keys of our own: `inputs`, `side_inputs`, `output`, `append_row_file_name`.
    pub(super) entries: Vec<MapEntry>,
    /// The texts that replace references to inputs and outputs. The keys are the names in the references
    /// (`inputs.x`).
    references: Vec<(String, String)>,
    /// The names of optional inputs without a value: `inputs.x`.
    absent: Vec<String>,
    /// Whether `mini_batch_size` is a number of bytes, which only tables can have.
    is_size_in_bytes: bool,
}

impl JobData {
    pub(super) fn new(is_size_in_bytes: bool) -> Self {
        Self { entries: Vec::new(), references: Vec::new(), absent: Vec::new(), is_size_in_bytes }
    }

    /// Returns the text that replaces the reference `name` in the value of `key`. A reference to an optional
    /// input without a value is an error. `None` if there is no such input or output.
    pub(super) fn resolve(
        &self,
        name: &str,
        key: &str,
        origin: &SettingOrigin,
        report: &ErrorReport,
    ) -> Option<String> {
        if self.is_absent(name) {
            let message = format!(
                "found ${{{{{name}}}}}, which is optional and has no value; give it a value by --set {name}=..., or put \
                 the argument into an optional group, as in $[[--x ${{{{{name}}}}}]]"
            );
            report.error(origin, key, message);
            return Some(String::new());
        }
        let found = self.references.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.clone())
    }

    /// Adds the text for an input that is a value and not data.
    fn add_value(
        &mut self,
        name: &str,
        value: String,
        origin: &SettingOrigin,
        report: &ErrorReport,
    ) {
        let key = join("inputs", name);
        if value.len() > MAX_PARAMETER_BYTES {
            let message = format!(
                "found a text of {} bytes; the value of an input has at most {MAX_PARAMETER_BYTES} bytes: put a longer \
                 text into a file, and pass the file as an input of type uri_file",
                value.len()
            );
            report.error(origin, &key, message);
            return self.references.push((key, String::new()));
        }
        self.references.push((key, value));
    }

    /// Whether this input is optional and has no value.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.absent.iter().any(|absent| absent == name)
    }

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

    /// Adds the inputs that a call of a batch endpoint passes. Each of them is cut into mini-batches.
    pub(super) fn add_endpoint_inputs(
        &mut self,
        inputs: Option<YamlNode>,
        location: &JobFileLocation,
        report: &ErrorReport,
    ) {
        for MapEntry { key, node } in entries_by_name(inputs, "inputs", report).unwrap_or_default()
        {
            self.add_main(&key, node, location, report);
        }
    }

    /// Adds three kinds of inputs: the main input, which is cut into mini-batches; side inputs; and values.
    /// `needs_no_data`: whether the job may run without a main input.
    pub(super) fn add_inputs(
        &mut self,
        inputs: Option<YamlNode>,
        input_data: Option<&YamlNode>,
        needs_no_data: bool,
        location: &JobFileLocation,
        report: &ErrorReport,
    ) {
        let Some(inputs) = entries_by_name(inputs, "inputs", report) else { return };
        let main = match input_data {
            None if needs_no_data => None,
            given_data => {
                let Some(main) = main_input(&inputs, given_data, report) else { return };
                Some(main)
            }
        };
        for MapEntry { key: name, node } in inputs {
            if main.as_ref() == Some(&name) {
                report.conversion(format!("input_data: inputs.{name} is cut into mini-batches"));
                self.add_main(&name, node, location, report);
                continue;
            }
            match check_given(&name, &node, report) {
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
        location: &JobFileLocation,
        report: &ErrorReport,
    ) {
        let fitted = fit_name(name);
        if name != fitted {
            report.conversion(format!("inputs.{name} is called {fitted} here"));
            report.record_name(&join("inputs", &fitted), &join("inputs", name));
        }
        let reference = format!("${{{{inputs.{fitted}}}}}");
        self.references.push((join("inputs", name), reference));
        if let Some(input) = data_input(name, node, self.is_size_in_bytes, location, report) {
            self.add_entry("inputs", entry(&fitted, input));
        }
    }

    fn add_side(&mut self, name: &str, mut node: YamlNode, report: &ErrorReport) {
        let fitted = fit_name(name);
        report.conversion(format!("inputs.{name} is read as side_inputs.{fitted}"));
        report.record_name(&join("side_inputs", &fitted), &join("inputs", name));
        let reference = format!("${{{{side_inputs.{fitted}}}}}");
        self.references.push((join("inputs", name), reference));
        if let YamlValue::Map(entries) = &mut node.value {
            remove_declaration(entries);
        }
        self.add_entry("side_inputs", entry(&fitted, node));
    }

    fn add_entry(&mut self, group: &str, new: MapEntry) {
        if let Some(entries) = group_or_insert(&mut self.entries, group, &SettingOrigin::File) {
            entries.push(new);
        }
    }

    /// Determines the output folder, and the output file's name. `append_row_to` names the output that gets
    /// the rows. `output_data` names the output for Azure's own files.
    pub(super) fn add_outputs(
        &mut self,
        outputs: Option<YamlNode>,
        append_row_to: Option<&YamlNode>,
        output_data: Option<&YamlNode>,
        report: &ErrorReport,
    ) {
        let Some(outputs) = entries_by_name(outputs, "outputs", report) else { return };
        let name_of = |node: Option<&'_ YamlNode>| {
            let name = node.and_then(text).and_then(reference)?;
            Some(name.strip_prefix("outputs.").unwrap_or(name).to_owned())
        };
        let rows_output = name_of(append_row_to);
        let data_output = name_of(output_data);
        let bindings = [
            ("task.append_row_to", &rows_output, append_row_to),
            ("output_data", &data_output, output_data),
        ];
        for (key, name, node) in bindings {
            if let (Some(name), Some(node)) = (name, node)
                && !outputs.iter().any(|output| output.key == *name)
            {
                let message = format!("found the output {name:?}, which is not in outputs");
                report.error(&node.origin, key, message);
            }
        }
        if let (Some(node), None) = (output_data, &data_output) {
            let message =
                format!("found {node}; expected one of the outputs, as in ${{{{outputs.x}}}}");
            report.error(&node.origin, "output_data", message);
        }
        let rows_output = rows_output.as_deref();
        let first = || outputs.first().map(|output| output.key.as_str());
        let main = rows_output.or(data_output.as_deref()).or_else(first);
        for output in &outputs {
            let is_main = main == Some(output.key.as_str());
            let reference = if is_main {
                self.add_main_output(output, rows_output.is_some(), report)
            } else {
                report.conversion(format!(
                    "outputs.{0} is the folder {0} in the output folder; the entry script creates it",
                    output.key
                ));
                format!("${{{{output}}}}/{}", output.key)
            };
            self.references.push((format!("outputs.{}", output.key), reference));
        }
        if let Some(node) = append_row_to
            && rows_output.is_none()
        {
            report.conversion("task.append_row_to is read as append_row_file_name");
            self.entries.push(entry("append_row_file_name", node.clone()));
        }
    }

    /// Adds the output folder. Returns the text that replaces references to this output. `gets_rows`: whether
    /// `append_row_to` names it.
    fn add_main_output(
        &mut self,
        output: &MapEntry,
        gets_rows: bool,
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
        report.record_name("output", &join("outputs", name));
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
        if gets_rows {
            report.conversion(format!("task.append_row_to is read as append_row_file_name {file}"));
            self.entries.push(entry("append_row_file_name", scalar(file, &output.node.origin)));
        }
        format!("{folder}/{file}")
    }
}

/// Returns the inputs or the outputs of a file, by name. `None`, with an error, if they are not a map.
fn entries_by_name(
    group: Option<YamlNode>,
    key: &str,
    report: &ErrorReport,
) -> Option<Vec<MapEntry>> {
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
                "found {node}; expected a reference to an input, such as ${{{{inputs.x}}}}; the inputs are: {}",
                if names.is_empty() { String::from("none") } else { names.join(", ") }
            );
            report.error(&node.origin, "input_data", message);
            None
        }
    }
}

/// The text of an input that is a value. `None` if the input is data.
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

/// Refuses an input from an SQL table: Sandmill reads only databases that are files
/// (docs/parallel-run-step.md M3).
fn refuse_sql(name: &str, source: &YamlNode, report: &ErrorReport) {
    let query = match &source.value {
        YamlValue::Map(entries) => text_at(entries, "query"),
        _ => None,
    };
    let query = query.map_or_else(|| "...".to_owned(), |query| format!("{query:?}"));
    let message = format!(
        "comes from an SQL table, and Sandmill cannot connect to SQL servers; write the rows into an \
         SQLite database, and name it by --set inputs.{name}.path=FILE --set inputs.{name}.format=sqlite \
         --set inputs.{name}.query={query}, or write them as Parquet or CSV"
    );
    report.error(&source.origin, &format!("inputs.{name}.path"), message);
}

/// Converts the input that is cut into mini-batches: drops settings that have no meaning here, and merges the
/// settings of an `MLTable` file. `None`, with an error, if the input has no path.
fn data_input(
    name: &str,
    mut node: YamlNode,
    is_size_in_bytes: bool,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<YamlNode> {
    let YamlValue::Map(entries) = &mut node.value else { return Some(node) };
    let kind = remove_key(entries, "type");
    let mode = remove_key(entries, "mode");
    if kind.is_some()
        && !["path", "paths", "dataset"].iter().any(|key| entry_of(entries, key).is_some())
    {
        let key = join("inputs", name);
        let message = format!("has no path; name its files or its folder by --set {key}.path=PATH");
        report.error(&node.origin, &key, message);
        return None;
    }
    if let Some(source) = remove_key(entries, SOURCE_KEY)
        && text_at(entries, "path").is_none_or(is_remote)
    {
        refuse_sql(name, &source, report);
        return Some(node);
    }
    remove_declaration(entries);
    let Some(kind_text) = kind.as_ref().and_then(text) else { return Some(node) };
    match kind_text.to_ascii_lowercase().as_str() {
        "uri_folder" | "uri_file" => {}
        "mltable" => {
            let mode = mode.as_ref().and_then(text);
            let is_direct =
                mode.map_or(is_size_in_bytes, |mode| mode.eq_ignore_ascii_case("direct"));
            if is_direct && mode.is_none() {
                report.conversion(format!(
                    "inputs.{name}: read as a table (mode direct), because mini_batch_size is a number of bytes"
                ));
            }
            if !is_direct {
                report.record_file_list(name);
            }
            mltable::expand(name, entries, is_direct, location, report);
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
