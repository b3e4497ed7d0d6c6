//! `MLTable` files beside data: where it lies, and how its text is read (prs-semantics C30).

use super::nodes::{entry, scalar, take, text, text_at};
use super::text::is_remote;
use crate::error::{DelimitedError, Origin, Report};
use crate::place::Place;
use crate::small_file;
use crate::tree::{self, Entry, Node, Value};
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "MLTable";
/// Such a file has a few lines, or one for each data file.
const MAX_BYTES: u64 = 1 << 20;

/// Puts what the input's `MLTable` file says in the place of its path. An input with mode `direct`
/// is a table, any other a list of files.
pub(super) fn expand(
    name: &str,
    input: &mut Vec<Entry>,
    is_direct: bool,
    place: &Place,
    report: &Report,
) {
    let Some(path) = text_at(input, "path").map(str::to_owned) else { return };
    let origin = input
        .iter()
        .find(|entry| entry.key == "path")
        .map_or(Origin::File, |entry| entry.node.origin.clone());
    let resolved = place.resolve(&path);
    let file = if resolved.is_dir() { resolved.join(FILE) } else { resolved };
    let is_table_file = file.file_name().is_some_and(|name| name == FILE);
    if is_remote(&path) || !is_table_file {
        // The files themselves are named, by --set as a rule, or nothing that can be read here.
        if is_direct {
            set(input, "format", "csv", &origin);
        }
        return;
    }
    let key = format!("inputs.{name}.path");
    if !place.policy.allows_input(&key, &file, &origin, report) {
        return;
    }
    let mut problems = Vec::new();
    let table = read(&file, is_direct, &mut problems);
    for problem in problems {
        let message = format!("{}: {problem}", file.display());
        report.error(&origin, &key, message);
    }
    let Some(table) = table else { return };
    let kind = if is_direct { "a CSV input" } else { "a list of files" };
    report.notice(format!("inputs.{name}: {} is read, as {kind}", file.display()));
    take(input, "path");
    let paths = table.paths.iter().map(|path| scalar(path, &origin)).collect();
    input.push(entry("paths", Node { origin: origin.clone(), value: Value::List(paths) }));
    if is_direct {
        set(input, "format", "csv", &origin);
        for (key, value) in [("delimiter", table.delimiter), ("header", table.header)] {
            if let Some(value) = value {
                set(input, key, &value, &origin);
            }
        }
    }
}

/// Adds a setting, unless the user has it.
fn set(input: &mut Vec<Entry>, key: &str, value: &str, origin: &Origin) {
    if !input.iter().any(|entry| entry.key == key) {
        input.push(entry(key, scalar(value, origin)));
    }
}

/// What such a file says.
#[derive(Default)]
struct Table {
    paths: Vec<String>,
    delimiter: Option<String>,
    header: Option<String>,
}

fn read(file: &Path, is_direct: bool, problems: &mut Vec<String>) -> Option<Table> {
    let content = match small_file::read(file, MAX_BYTES) {
        Ok(bytes) if bytes.len() as u64 > MAX_BYTES => {
            problems.push(String::from("is larger than 1 MB, which no MLTable file needs"));
            return None;
        }
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(content) => content,
            Err(_) => {
                problems.push(String::from("is not text in UTF-8"));
                return None;
            }
        },
        Err(error) => {
            let problem = match error.kind() {
                io::ErrorKind::NotFound => String::from("there is no such file"),
                _ => format!("cannot be read: {error}"),
            };
            problems.push(format!(
                "{problem}; name the folder of an MLTable file, or the data files themselves"
            ));
            return None;
        }
    };
    let report = Report::default();
    let root = tree::parse(&content, &report);
    let errors = report.into_errors(FILE).errors;
    problems.extend(errors.into_iter().map(|error| error.message));
    let Some(Node { value: Value::Map(mut entries), .. }) = root else { return None };
    let mut table = Table::default();
    let folder = file.parent().unwrap_or(Path::new("/"));
    match take(&mut entries, "paths") {
        Some(Node { value: Value::List(items), .. }) => {
            for item in &items {
                match path_of(item, folder) {
                    Some(path) => table.paths.push(path),
                    None => problems.push(String::from(
                        "expected each of paths to have file, folder or pattern, with a path on \
                         this machine",
                    )),
                }
            }
        }
        _ => problems.push(String::from("has no list of paths")),
    }
    if is_direct {
        let steps = match take(&mut entries, "transformations") {
            Some(Node { value: Value::List(steps), .. }) => steps,
            _ => Vec::new(),
        };
        transform(&steps, &mut table, problems);
    }
    Some(table)
}

fn path_of(item: &Node, folder: &Path) -> Option<String> {
    let Value::Map(entries) = &item.value else { return None };
    let path = ["file", "folder", "pattern"].iter().find_map(|key| text_at(entries, key))?;
    if is_remote(path) {
        return None;
    }
    let joined: PathBuf = std::path::absolute(folder.join(path)).ok()?;
    joined.to_str().map(str::to_owned)
}

/// Takes what `read_delimited` says; all other steps would change rows.
fn transform(steps: &[Node], table: &mut Table, problems: &mut Vec<String>) {
    let mut is_read = false;
    for step in steps {
        let (name, options) = match &step.value {
            Value::Scalar { text, .. } => (text.as_str(), &[][..]),
            Value::Map(entries) => match entries.as_slice() {
                [Entry { key, node: Node { value: Value::Map(options), .. } }] => {
                    (key.as_str(), options.as_slice())
                }
                [Entry { key, .. }] => (key.as_str(), &[][..]),
                _ => ("", &[][..]),
            },
            _ => ("", &[][..]),
        };
        if name != "read_delimited" {
            problems.push(format!(
                "the transformation {name:?} is not supported, only read_delimited is"
            ));
            continue;
        }
        is_read = true;
        for option in options {
            if let Err(problem) = read_delimited(&option.key, &option.node, table) {
                problems.push(format!("read_delimited.{}: {problem}", option.key));
            }
        }
    }
    if !is_read {
        problems.push(String::from(
            "has no read_delimited among its transformations, which a table with mode direct needs",
        ));
    }
}

fn read_delimited(option: &str, node: &Node, table: &mut Table) -> Result<(), DelimitedError> {
    let value = text(node).unwrap_or_default();
    let word = value.to_ascii_lowercase();
    match option {
        "delimiter" => table.delimiter = Some(value.to_owned()),
        "encoding" if matches!(word.as_str(), "utf8" | "utf-8" | "ascii") => {}
        "encoding" => return Err(DelimitedError::Encoding { found: node.to_string() }),
        "header" => {
            table.header = Some(String::from(match word.as_str() {
                "all_files_same_headers" | "all_files_different_headers" | "true" => "true",
                "no_header" | "false" => "false",
                _ => return Err(DelimitedError::Header { found: node.to_string() }),
            }));
        }
        // The types of columns are inferred in any case.
        "infer_column_types" if word == "true" => {}
        _ => return Err(DelimitedError::Unknown),
    }
    Ok(())
}
