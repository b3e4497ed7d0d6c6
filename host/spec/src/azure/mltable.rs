//! Reads `MLTable` files: each says where data files are, and how their text is read
//! (docs/parallel-run-step.md C30).

use super::nodes::{add_missing, entry, entry_of, remove_key, scalar, text_at};
use super::text::is_remote;
use super::transformations::{TableKeys, path_of};
use crate::error::{ErrorReport, SettingOrigin};
use crate::job_file_location::JobFileLocation;
use crate::model::Address;
use crate::policy;
use crate::settings_files::SettingsFiles;
use crate::tree::{self, MapEntry, YamlNode, YamlValue};
use std::io;
use std::path::{Path, PathBuf};

/// The name of every such file.
const FILE_NAME: &str = "MLTable";
/// The maximum size of an `MLTable` file, which has a few lines, or one for each data file.
const MAX_BYTES: u64 = 1 << 20;

/// Replaces the input's path by the contents of its `MLTable` file. `is_direct`: whether the input
/// has mode `direct`. If so, the input becomes a table, otherwise a list of files.
pub(super) fn expand(
    name: &str,
    input: &mut Vec<MapEntry>,
    is_direct: bool,
    location: &JobFileLocation,
    report: &ErrorReport,
) {
    let Some(path) = text_at(input, "path").map(str::to_owned) else { return };
    let origin = input
        .iter()
        .find(|entry| entry.key == "path")
        .map_or(SettingOrigin::File, |entry| entry.node.origin.clone());
    let resolved = location.resolve(&path);
    let inside = resolved.join(FILE_NAME);
    let is_folder = match location.files.are_given() {
        true => location.files.were_given(&inside),
        false => resolved.is_dir(),
    };
    let file = if is_folder { inside } else { resolved };
    let is_table_file = file.file_name().is_some_and(|name| name == FILE_NAME);
    if is_remote(&path) || !is_table_file {
        // The path, usually from --set, names the data files themselves, or something that cannot be read
        // here.
        if is_direct {
            set_missing(input, "format", "csv", &origin);
        }
        return;
    }
    let key = format!("inputs.{name}.path");
    if !location.allows(policy::FolderUse::Inputs, &key, &file, &origin, report) {
        return;
    }
    let mut problems = Vec::new();
    let table = read(&file, &location.files, is_direct, &mut problems);
    for problem in problems {
        let message = format!("{}: {problem}", file.display());
        report.error(&origin, &key, message);
    }
    let Some(MlTableFile { paths, table }) = table else { return };
    let format = table.format.filter(|_| is_direct);
    let kind =
        format.map_or_else(|| "a list of files".into(), |it| format!("a table of format {it}"));
    report.conversion(format!("inputs.{name}: {} is read, as {kind}", file.display()));
    remove_key(input, "path");
    let paths = paths.iter().map(|path| scalar(path, &origin)).collect();
    input.push(entry("paths", YamlNode { origin: origin.clone(), value: YamlValue::List(paths) }));
    if is_direct {
        add_table(name, table, input, &origin, report);
    } else if table.format.is_none()
        && let Some(count) = table.take
    {
        set_missing(input, "take", &count, &origin);
    }
}

/// Adds the settings that result from the transformations of the `MLTable` file.
fn add_table(
    name: &str,
    table: TableKeys,
    input: &mut Vec<MapEntry>,
    origin: &SettingOrigin,
    report: &ErrorReport,
) {
    let TableKeys { format, delimiter, header, quoted_newlines, types, keep, drop, take, streams } =
        table;
    let texts = [
        ("format", format.map(str::to_owned)),
        ("delimiter", delimiter),
        ("header", header.map(str::to_owned)),
        ("quoted_newlines", quoted_newlines.then(|| "true".to_owned())),
        ("take", take),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            set_missing(input, key, &value, origin);
        }
    }
    let list = |names: Vec<String>| {
        let items = names.iter().map(|name| scalar(name, origin)).collect();
        YamlNode { origin: origin.clone(), value: YamlValue::List(items) }
    };
    match keep {
        Some(mut keep) => {
            keep.retain(|name| !drop.contains(name));
            add_missing(input, entry("columns", list(keep)));
        }
        None if !drop.is_empty() => add_missing(input, entry("drop_columns", list(drop))),
        None => {}
    }
    if !types.is_empty() {
        let types = types.iter().map(|(name, kind)| entry(name, scalar(*kind, origin))).collect();
        add_missing(
            input,
            entry("types", YamlNode { origin: origin.clone(), value: YamlValue::Map(types) }),
        );
    }
    for column in streams {
        report.notice(format!(
            "inputs.{name}: column {column} is of type stream_info; the entry script gets the name of each stream as text"
        ));
    }
}

/// Adds a setting, unless the user has set it.
fn set_missing(input: &mut Vec<MapEntry>, key: &str, value: &str, origin: &SettingOrigin) {
    add_missing(input, entry(key, scalar(value, origin)));
}

struct MlTableFile {
    paths: Vec<String>,
    table: TableKeys,
}

fn read(
    file: &Path,
    files: &SettingsFiles,
    is_direct: bool,
    problems: &mut Vec<String>,
) -> Option<MlTableFile> {
    let content = match files.read(file, MAX_BYTES) {
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
    let report = ErrorReport::default();
    let root = tree::parse(&content, &report);
    let errors = report.into_errors(FILE_NAME).errors;
    problems.extend(errors.into_iter().map(|error| error.message));
    let Some(YamlNode { value: YamlValue::Map(mut entries), .. }) = root else { return None };
    let mut paths = Vec::new();
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut is_one_file = false;
    match remove_key(&mut entries, "paths") {
        Some(YamlNode { value: YamlValue::List(items), .. }) => {
            is_one_file = matches!(&items[..], [YamlNode { value: YamlValue::Map(item), .. }]
                if entry_of(item, "file").is_some());
            for item in &items {
                match path_of(item).and_then(|path| absolute_path(path, folder)) {
                    Some(path) => paths.push(path),
                    None => problems.push(String::from(
                        "each item of paths needs file, folder or pattern, with a path on this \
                         machine or an address in a store",
                    )),
                }
            }
        }
        _ => problems.push(String::from("has no list of paths")),
    }
    let steps = match remove_key(&mut entries, "transformations") {
        Some(YamlNode { value: YamlValue::List(steps), .. }) => steps,
        _ => Vec::new(),
    };
    let (table, step_problems) = TableKeys::from_steps(&steps, is_one_file);
    if is_direct {
        problems.extend(step_problems.iter().map(ToString::to_string));
        if table.format.is_none() {
            problems.push(String::from(
                "has no read_delimited, read_json_lines or read_parquet among its transformations, which a table \
                 with mode direct needs",
            ));
        }
    }
    Some(MlTableFile { paths, table })
}

/// Makes a path absolute: relative paths are below the table's folder. An address in a store stays unchanged.
/// `None` if the path cannot be read here.
fn absolute_path(path: &str, folder: &Path) -> Option<String> {
    if Address::looks_like_one(path) {
        return Some(path.to_owned());
    }
    if is_remote(path) {
        return None;
    }
    let joined: PathBuf = std::path::absolute(folder.join(path)).ok()?;
    joined.to_str().map(str::to_owned)
}
