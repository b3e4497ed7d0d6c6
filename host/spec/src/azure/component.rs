//! Components: settings of a job that are in another file, named by `component: ./file.yml`.

use super::nodes::{add_missing, entry, entry_of, scalar, take, text, text_at};
use super::text::is_remote;
use super::values::DeclaredInputs;
use crate::error::{ErrorReport, SettingOrigin};
use crate::job_file_location::JobFileLocation;
use crate::policy;
use crate::reading;
use crate::tree::{self, MapEntry, YamlNode, YamlValue, join};
use std::path::Path;
use std::sync::Arc;

/// The key that names a component.
pub(crate) const KEY: &str = "component";

/// The groups in which the entries of the job and of its component are merged. For all other keys, the job's
/// value replaces the component's.
const MERGED: [&str; 4] = ["environment_variables", "resources", "retry_settings", "task"];

/// Merges the settings of the job's component into the job. The job's own settings take precedence. `None`,
/// with an error, if the component cannot be read here.
pub(crate) fn unfold(
    mut job: YamlNode,
    place: &JobFileLocation,
    report: &ErrorReport,
) -> Option<YamlNode> {
    let YamlValue::Map(entries) = &mut job.value else { return Some(job) };
    let Some(named) = take(entries, KEY) else { return Some(job) };
    let origin = named.origin.clone();
    let component = read(named, place, report)?;
    let Some(kind) = text_at(&component, "type") else {
        let message = "does not name a parallel component: type is missing there";
        report.error(&origin, KEY, message);
        return None;
    };
    if !kind.eq_ignore_ascii_case("parallel") {
        let message = format!("names a component of type {kind:?}; one of type parallel runs here");
        report.error(&origin, KEY, message);
        return None;
    }
    refuse_unknown(entries, &component, report);
    for theirs in component {
        merge(entries, theirs);
    }
    Some(job)
}

/// The component's settings, from its file or written inline.
fn read(named: YamlNode, place: &JobFileLocation, report: &ErrorReport) -> Option<Vec<MapEntry>> {
    let path = match named.value {
        YamlValue::Map(inline) => return Some(inline),
        YamlValue::Scalar { ref text, .. } => text.clone(),
        _ => {
            report.error(&named.origin, KEY, format!("found {named}; expected a component's file"));
            return None;
        }
    };
    let path = path.trim();
    let path = path.strip_prefix("file:").unwrap_or(path);
    if is_remote(path) {
        let message = "names a component of Azure's, which cannot be read here; name its file by --set \
                       component=FILE, or write its task and its settings into the job itself";
        report.error(&named.origin, KEY, message);
        return None;
    }
    let file = place.resolve(path);
    if !place.policy.allows(policy::FolderUse::EntryScripts, KEY, &file, &named.origin, report) {
        return None;
    }
    let shown = file.display().to_string();
    let root = match reading::read(&file, "component file") {
        Ok(text) => parse(&text, &shown, report)?,
        Err(error) => {
            report.error(&named.origin, KEY, format!("{shown}: {error}"));
            return None;
        }
    };
    let YamlValue::Map(mut entries) = root.value else {
        report.error(&named.origin, KEY, format!("{shown} holds {root}; expected a component"));
        return None;
    };
    let folder = file.parent().unwrap_or(Path::new("/"));
    rebase(&mut entries, folder);
    Some(entries)
}

/// Parses the text. Errors name the component's own file and lines.
fn parse(text: &str, shown: &str, report: &ErrorReport) -> Option<YamlNode> {
    let own = ErrorReport::default();
    let root = tree::parse(text, &own);
    let file: Arc<str> = shown.into();
    for error in own.into_errors(shown).errors {
        report.error(&in_file(&error.origin, &file), &error.key, error.message);
    }
    let mut root = root?;
    root.map_origin(&|origin| in_file(origin, &file));
    Some(root)
}

fn in_file(origin: &SettingOrigin, file: &Arc<str>) -> SettingOrigin {
    match origin {
        SettingOrigin::Line(line) => SettingOrigin::In(Arc::clone(file), *line),
        SettingOrigin::File => SettingOrigin::In(Arc::clone(file), 1),
        other => other.clone(),
    }
}

/// Paths in a component are relative to its own folder.
fn rebase(entries: &mut [MapEntry], folder: &Path) {
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
    let names = |of: &[MapEntry]| match entry_of(of, "inputs").map(|entry| &entry.node.value) {
        Some(YamlValue::Map(inputs)) => {
            inputs.iter().map(|input| (input.key.clone(), input.node.origin.clone())).collect()
        }
        _ => Vec::new(),
    };
    let known: Vec<String> = names(component).into_iter().map(|(name, _)| name).collect();
    for (name, origin) in names(job) {
        if !known.contains(&name) {
            let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("the component has no such input; it has {there}");
            report.error(&origin, &join("inputs", &name), message);
        }
    }
}

/// Merges an entry of the component into the job.
fn merge(job: &mut Vec<MapEntry>, theirs: MapEntry) {
    let Some(own) = job.iter_mut().find(|entry| entry.key == theirs.key) else {
        job.push(theirs);
        return;
    };
    match (theirs.key.as_str(), &mut own.node.value, theirs.node.value) {
        ("inputs", YamlValue::Map(own), YamlValue::Map(theirs)) => {
            DeclaredInputs::new(theirs).fill(own);
        }
        ("outputs", YamlValue::Map(own), YamlValue::Map(theirs)) => {
            for theirs in theirs {
                match own.iter_mut().find(|entry| entry.key == theirs.key) {
                    Some(own) => add_type(&mut own.node, &theirs.node),
                    None => own.push(theirs),
                }
            }
        }
        (key, YamlValue::Map(own), YamlValue::Map(theirs)) if MERGED.contains(&key) => {
            theirs.into_iter().for_each(|theirs| add_missing(own, theirs));
        }
        _ => {}
    }
}

/// Adds the type of an output from the component's declaration.
fn add_type(own: &mut YamlNode, theirs: &YamlNode) {
    let YamlValue::Map(theirs) = &theirs.value else { return };
    let Some(kind) = entry_of(theirs, "type") else { return };
    if let Some(path) = text(own) {
        let path = scalar(path, &own.origin);
        own.value = YamlValue::Map(vec![entry("path", path)]);
    }
    if let YamlValue::Map(own) = &mut own.value {
        add_missing(own, kind.clone());
    }
}
