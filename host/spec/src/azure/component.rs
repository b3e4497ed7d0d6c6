//! Components: settings of a job that are in another file, named by `component: ./file.yml`.

use super::nodes::{add_missing, entry, entry_of, remove_key, scalar, text, text_at};
use super::text::is_remote;
use super::values::DeclaredInputs;
use crate::error::{ErrorReport, SettingOrigin};
use crate::job_file_location::JobFileLocation;
use crate::policy;
use crate::tree::{self, MapEntry, YamlNode, YamlValue, join};
use std::path::Path;
use std::sync::Arc;

pub(crate) const COMPONENT_KEY: &str = "component";

/// The groups in which the entries of the job and of its component are merged. For all other keys, the job's
/// value replaces the component's.
const MERGED_GROUPS: [&str; 4] = ["environment_variables", "resources", "retry_settings", "task"];

/// Merges the settings of the job's component into the job. The job's own settings take precedence. Returns
/// `None`, with an error, if the component cannot be read here.
pub(crate) fn merge_component(
    mut job: YamlNode,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<YamlNode> {
    let YamlValue::Map(entries) = &mut job.value else { return Some(job) };
    let Some(named) = remove_key(entries, COMPONENT_KEY) else { return Some(job) };
    let origin = named.origin.clone();
    let component = read(named, location, report)?;
    let Some(kind) = text_at(&component, "type") else {
        let message = "names a component without a type; only components of type parallel run here";
        report.error(&origin, COMPONENT_KEY, message);
        return None;
    };
    if !kind.eq_ignore_ascii_case("parallel") {
        let message = format!(
            "names a component of type {kind:?}; only components of type parallel run here"
        );
        report.error(&origin, COMPONENT_KEY, message);
        return None;
    }
    refuse_unknown(entries, &component, report);
    for setting in component {
        merge(entries, setting);
    }
    Some(job)
}

/// Returns the component's settings. They are in a file of their own, or inline in the job.
fn read(
    named: YamlNode,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<Vec<MapEntry>> {
    let path = match named.value {
        YamlValue::Map(inline) => return Some(inline),
        YamlValue::Scalar { ref text, .. } => text.clone(),
        _ => {
            report.error(
                &named.origin,
                COMPONENT_KEY,
                format!("found {named}; expected a component's file"),
            );
            return None;
        }
    };
    let path = path.trim();
    let path = path.strip_prefix("file:").unwrap_or(path);
    if is_remote(path) {
        let message = "names a component in Azure, which cannot be read here; name its file by --set \
                       component=FILE, or write its task and its settings into the job itself";
        report.error(&named.origin, COMPONENT_KEY, message);
        return None;
    }
    let file = location.resolve(path);
    let folder_use = policy::FolderUse::EntryScripts;
    if !location.allows(folder_use, COMPONENT_KEY, &file, &named.origin, report) {
        return None;
    }
    let shown = file.display().to_string();
    let root = match location.files.read_text(&file, "component file") {
        Ok(text) => parse(&text, &shown, report)?,
        Err(error) => {
            report.error(&named.origin, COMPONENT_KEY, format!("{shown}: {error}"));
            return None;
        }
    };
    let YamlValue::Map(mut entries) = root.value else {
        report.error(
            &named.origin,
            COMPONENT_KEY,
            format!("{shown} holds {root}; expected a component"),
        );
        return None;
    };
    let folder = file.parent().unwrap_or(Path::new("/"));
    make_code_absolute(&mut entries, folder);
    Some(entries)
}

/// Parses a component's file. Errors name that file and its lines, not the job file's.
fn parse(text: &str, shown: &str, report: &ErrorReport) -> Option<YamlNode> {
    let parse_report = ErrorReport::default();
    let root = tree::parse(text, &parse_report);
    let file: Arc<str> = shown.into();
    for error in parse_report.into_errors(shown).errors {
        report.error(&origin_in_file(&error.origin, &file), &error.key, error.message);
    }
    let mut root = root?;
    root.map_origin(&|origin| origin_in_file(origin, &file));
    Some(root)
}

fn origin_in_file(origin: &SettingOrigin, file: &Arc<str>) -> SettingOrigin {
    match origin {
        SettingOrigin::Line(line) => SettingOrigin::In(Arc::clone(file), *line),
        SettingOrigin::File => SettingOrigin::In(Arc::clone(file), 1),
        other => other.clone(),
    }
}

/// Makes `task.code` absolute: in a component, this path is relative to the component's folder.
fn make_code_absolute(entries: &mut [MapEntry], folder: &Path) {
    let task = entries.iter_mut().find(|entry| entry.key == "task");
    let Some(YamlValue::Map(task)) = task.map(|entry| &mut entry.node.value) else { return };
    let code = task.iter_mut().find(|entry| entry.key == "code");
    let Some(YamlValue::Scalar { text, .. }) = code.map(|entry| &mut entry.node.value) else {
        return;
    };
    if !is_remote(text)
        && let Some(path) = std::path::absolute(folder.join(text.trim())).ok()
        && let Some(path) = path.to_str()
    {
        *text = path.to_owned();
    }
}

/// Refuses inputs that the component does not declare.
fn refuse_unknown(job: &[MapEntry], component: &[MapEntry], report: &ErrorReport) {
    let inputs_of =
        |entries: &[MapEntry]| match entry_of(entries, "inputs").map(|entry| &entry.node.value) {
            Some(YamlValue::Map(inputs)) => {
                inputs.iter().map(|input| (input.key.clone(), input.node.origin.clone())).collect()
            }
            _ => Vec::new(),
        };
    let known: Vec<String> = inputs_of(component).into_iter().map(|(name, _)| name).collect();
    for (name, origin) in inputs_of(job) {
        if !known.contains(&name) {
            let declared = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("the component has no such input; it has {declared}");
            report.error(&origin, &join("inputs", &name), message);
        }
    }
}

/// Merges a setting of the component into the job.
fn merge(job: &mut Vec<MapEntry>, setting: MapEntry) {
    let Some(own) = job.iter_mut().find(|entry| entry.key == setting.key) else {
        job.push(setting);
        return;
    };
    match (setting.key.as_str(), &mut own.node.value, setting.node.value) {
        ("inputs", YamlValue::Map(own), YamlValue::Map(declared)) => {
            DeclaredInputs::new(declared).fill(own);
        }
        ("outputs", YamlValue::Map(own), YamlValue::Map(declared)) => {
            for output in declared {
                match own.iter_mut().find(|entry| entry.key == output.key) {
                    Some(own) => add_type(&mut own.node, &output.node),
                    None => own.push(output),
                }
            }
        }
        (key, YamlValue::Map(own), YamlValue::Map(inner)) if MERGED_GROUPS.contains(&key) => {
            inner.into_iter().for_each(|setting| add_missing(own, setting));
        }
        _ => {}
    }
}

/// Adds the type of an output from the component's declaration.
fn add_type(own: &mut YamlNode, declared: &YamlNode) {
    let YamlValue::Map(declaration) = &declared.value else { return };
    let Some(kind) = entry_of(declaration, "type") else { return };
    if let Some(path) = text(own) {
        let path = scalar(path, &own.origin);
        own.value = YamlValue::Map(vec![entry("path", path)]);
    }
    if let YamlValue::Map(own) = &mut own.value {
        add_missing(own, kind.clone());
    }
}
