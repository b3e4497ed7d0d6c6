//! Converts the transformations of an `MLTable` file into our keys. An unsupported transformation is
//! refused if it would change rows.

use super::nodes::{entry_of, text, text_at};
use super::step_problem::StepProblem;
use crate::tree::{MapEntry, YamlNode, YamlValue};

/// The settings that the steps result in, as keys of an input.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TableKeys {
    /// `csv`, `jsonl` or `parquet`. `None` if no step reads rows.
    pub(super) format: Option<&'static str>,
    pub(super) delimiter: Option<String>,
    pub(super) header: Option<&'static str>,
    pub(super) quoted_newlines: bool,
    /// Names of columns, with our types.
    pub(super) types: Vec<(String, &'static str)>,
    pub(super) keep: Option<Vec<String>>,
    pub(super) drop: Vec<String>,
    pub(super) take: Option<String>,
    /// The columns of type `stream_info`. They contain only names of streams, not data.
    pub(super) streams: Vec<String>,
}

/// Options of read_* steps that have no effect, whatever their value.
const WITHOUT_EFFECT: [&str; 2] = ["path_column", "partition_size"];

impl TableKeys {
    /// Converts the steps. `is_one_file`: whether the table consists of one file.
    pub(super) fn from_steps(steps: &[YamlNode], is_one_file: bool) -> (Self, Vec<StepProblem>) {
        let mut table = Self::default();
        let mut problems = Vec::new();
        for step in steps {
            table.add_step(step, is_one_file, &mut problems);
        }
        if table.format == Some("parquet") {
            let refused = [
                ("drop_columns", !table.drop.is_empty() && table.keep.is_none()),
                ("convert_column_types", !table.types.is_empty()),
            ];
            let refused = refused.into_iter().filter(|(_, is_given)| *is_given);
            problems.extend(refused.map(|(step, _)| StepProblem::WithParquet { step }));
        }
        (table, problems)
    }

    fn add_step(&mut self, step: &YamlNode, is_one_file: bool, problems: &mut Vec<StepProblem>) {
        let nothing = YamlNode { origin: step.origin.clone(), value: YamlValue::Null };
        let (name, value) = match &step.value {
            YamlValue::Scalar { text, .. } => (text.as_str(), &nothing),
            YamlValue::Map(entries) if entries.len() == 1 => {
                (entries[0].key.as_str(), &entries[0].node)
            }
            _ => ("", &nothing),
        };
        let format = match name {
            "read_delimited" => "csv",
            "read_json_lines" => "jsonl",
            "read_parquet" => "parquet",
            _ => {
                problems.extend(self.add_change(name, value).err());
                return;
            }
        };
        if self.format.replace(format).is_some() {
            problems.push(StepProblem::ReadTwice);
        }
        let YamlValue::Map(options) = &value.value else { return };
        for MapEntry { key, node } in options {
            if let Err(problem) = self.add_option(format, key, node, is_one_file) {
                problems.push(StepProblem::Option {
                    step: name.to_owned(),
                    option: key.clone(),
                    problem: Box::new(problem),
                });
            }
        }
    }

    /// Converts an option of a step that reads files.
    fn add_option(
        &mut self,
        format: &str,
        option: &str,
        node: &YamlNode,
        is_one_file: bool,
    ) -> Result<(), StepProblem> {
        let value = text(node).unwrap_or_default();
        let lower_case = value.to_ascii_lowercase();
        let is_text = format != "parquet";
        let found = || node.to_string();
        match option {
            _ if WITHOUT_EFFECT.contains(&option) || node.value == YamlValue::Null => {}
            "include_path_column" if lower_case == "false" => {}
            "encoding" if is_text && matches!(lower_case.as_str(), "utf8" | "utf-8" | "ascii") => {}
            "encoding" if is_text => return Err(StepProblem::Encoding { found: found() }),
            "invalid_lines" if format == "jsonl" && lower_case == "error" => {}
            "delimiter" if format == "csv" => self.delimiter = Some(value.to_owned()),
            "empty_as_string" if format == "csv" && lower_case == "false" => {}
            // The types of columns are always inferred.
            "infer_column_types" if format == "csv" && lower_case == "true" => {}
            "support_multi_line"
                if format == "csv" && matches!(lower_case.as_str(), "true" | "false") =>
            {
                self.quoted_newlines |= lower_case == "true";
            }
            "header" if format == "csv" => {
                self.header = Some(match lower_case.as_str() {
                    "all_files_same_headers" | "all_files_different_headers" | "true" => "true",
                    "from_first_file" if is_one_file => "true",
                    "from_first_file" => return Err(StepProblem::FirstHeader),
                    "no_header" | "false" => "false",
                    _ => return Err(StepProblem::Header { found: found() }),
                });
            }
            "include_path_column"
            | "invalid_lines"
            | "empty_as_string"
            | "infer_column_types"
            | "support_multi_line" => return Err(StepProblem::Value { found: found() }),
            _ => return Err(StepProblem::UnknownOption),
        }
        Ok(())
    }

    /// Converts a step that changes the rows.
    fn add_change(&mut self, name: &str, value: &YamlNode) -> Result<(), StepProblem> {
        match name {
            "take" => {
                let count =
                    text(value).filter(|count| count.trim().parse().is_ok_and(|it: u64| it > 0));
                let count = count.ok_or_else(|| StepProblem::Take { found: value.to_string() })?;
                // With several `take` steps, the smallest number applies.
                let is_smaller =
                    |known: &String| known.parse::<u64>().ok() < count.trim().parse().ok();
                if !self.take.as_ref().is_some_and(is_smaller) {
                    self.take = Some(count.trim().to_owned());
                }
            }
            "keep_columns" => self.keep = Some(names(name, value)?),
            "drop_columns" => self.drop.extend(names(name, value)?),
            "convert_column_types" => {
                let conversions = match &value.value {
                    YamlValue::List(items) => items.as_slice(),
                    _ => std::slice::from_ref(value),
                };
                conversions.iter().try_for_each(|conversion| self.add_conversion(conversion))?;
            }
            _ => return Err(StepProblem::Unknown { name: name.to_owned() }),
        }
        Ok(())
    }

    fn add_conversion(&mut self, conversion: &YamlNode) -> Result<(), StepProblem> {
        let YamlValue::Map(entries) = &conversion.value else {
            return Err(StepProblem::Conversion { found: conversion.to_string() });
        };
        let (Some(columns), Some(kind)) =
            (entry_of(entries, "columns"), entry_of(entries, "column_type"))
        else {
            return Err(StepProblem::Conversion { found: conversion.to_string() });
        };
        let columns = names("convert_column_types", &columns.node)?;
        let type_name = match &kind.node.value {
            YamlValue::Scalar { text, .. } => text.trim().to_ascii_lowercase(),
            // `datetime: {formats: ..}`, `boolean: {true_values: ..}`.
            YamlValue::Map(options) if options.len() == 1 => {
                return Err(StepProblem::TypeOptions { kind: options[0].key.clone() });
            }
            _ => String::new(),
        };
        let ours = match type_name.as_str() {
            "int" => "int64",
            "float" => "float64",
            "string" => "string",
            "boolean" => "boolean",
            "datetime" => "timestamp",
            // The entry script itself opens the streams that such a column names.
            "stream_info" => {
                self.streams.extend(columns.iter().cloned());
                "string"
            }
            _ => return Err(StepProblem::Type { found: kind.node.to_string() }),
        };
        for column in columns {
            self.types.retain(|(known, _)| *known != column);
            self.types.push((column, ours));
        }
        Ok(())
    }
}

/// Reads names of columns: one name, or a list.
fn names(step: &str, value: &YamlNode) -> Result<Vec<String>, StepProblem> {
    let names = match &value.value {
        YamlValue::Scalar { text, .. } => Some(vec![text.clone()]),
        YamlValue::List(items) => items.iter().map(|it| text(it).map(str::to_owned)).collect(),
        _ => None,
    };
    names.ok_or_else(|| StepProblem::Names { step: step.to_owned(), found: value.to_string() })
}

/// Returns the path that an item of `paths` names.
pub(super) fn path_of(item: &YamlNode) -> Option<&str> {
    let YamlValue::Map(entries) = &item.value else { return None };
    ["file", "folder", "pattern"].iter().find_map(|key| text_at(entries, key))
}
