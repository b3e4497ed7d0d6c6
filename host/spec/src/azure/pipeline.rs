//! Picks a job of a version 2 pipeline, and inserts the pipeline's values into the job.

use super::nodes::{each_scalar, entry, is_small, remove_key, scalar, text, text_at};
use super::text::{reference, replace};
use crate::error::{ErrorReport, SettingOrigin};
use crate::job_file_location::fit_name;
use crate::model::nearest;
use crate::tree::{MapEntry, YamlNode, YamlValue};

/// The key that says from which table rows are imported. Jobs that import rows have this key. `add_sources`
/// adds the key to each input that is the output of such a job.
pub(super) const SOURCE_KEY: &str = "source";

fn is_pipeline(entries: &[MapEntry]) -> bool {
    match text_at(entries, "type") {
        Some(kind) => kind.eq_ignore_ascii_case("pipeline"),
        None => entries.iter().any(|entry| entry.key == "jobs"),
    }
}

/// The parallel job of a file.
pub(crate) struct PickedJob {
    pub(crate) job: YamlNode,
    /// The pipeline's name, if the job is in one.
    pub(crate) pipeline: Option<String>,
}

/// Picks the parallel job that has the name `wanted`. Without a name, picks the only parallel job of the
/// file. `None`, with an error, if there is no such job. `stem`: the pipeline's name if the file does not
/// give it.
pub(crate) fn pick(
    mut root: YamlNode,
    wanted: Option<&str>,
    stem: &str,
    report: &ErrorReport,
) -> Option<PickedJob> {
    let YamlValue::Map(entries) = &mut root.value else { return None };
    if !is_pipeline(entries) {
        if let Some(wanted) = wanted {
            report_no_pipeline(wanted, report);
            return None;
        }
        return Some(PickedJob { job: root, pipeline: None });
    }
    let jobs = match remove_key(entries, "jobs") {
        Some(YamlNode { value: YamlValue::Map(jobs), .. }) => jobs,
        other => {
            let origin = other.map_or(SettingOrigin::File, |node| node.origin);
            report.error(&origin, "jobs", "expected a map of names to jobs");
            return None;
        }
    };
    let name = choose(&jobs, wanted, report)?;
    for other in jobs.iter().filter(|other| other.key != name) {
        report.conversion(format!(
            "jobs.{}: not run; only the job {name} of the pipeline runs",
            other.key
        ));
    }
    let imports: Vec<(String, YamlNode)> = jobs.iter().filter_map(sql_import).collect();
    let MapEntry { node: mut job, .. } = jobs.into_iter().find(|entry| entry.key == name)?;
    let pipeline = text_at(entries, "name").map_or_else(|| stem.to_owned(), fit_name);
    for group in ["inputs", "outputs"] {
        drop_descriptions(entries, group);
    }
    insert_pipeline_values(&mut job, entries);
    add_sources(&mut job, &imports);
    if let YamlValue::Map(settings) = &mut job.value
        && settings.iter().all(|setting| setting.key != "name")
    {
        settings.push(entry("name", scalar(name, &job.origin)));
    }
    Some(PickedJob { job, pipeline: Some(pipeline) })
}

/// Removes the descriptions from a group: a long description would make a value of the group too
/// large to insert.
fn drop_descriptions(entries: &mut [MapEntry], group: &str) {
    let found = entries.iter_mut().find(|entry| entry.key == group);
    let Some(YamlValue::Map(group)) = found.map(|entry| &mut entry.node.value) else { return };
    for MapEntry { node, .. } in group {
        if let YamlValue::Map(entries) = &mut node.value {
            remove_key(entries, "description");
        }
    }
}

/// Reports that `--job` names a job, but the file is not a pipeline.
pub(crate) fn report_no_pipeline(wanted: &str, report: &ErrorReport) {
    let message = format!(
        "found {wanted:?}, but the file contains a single job, not a pipeline; leave out --job"
    );
    report.error(&SettingOrigin::Set("job".into()), "job", message);
}

fn choose(jobs: &[MapEntry], wanted: Option<&str>, report: &ErrorReport) -> Option<String> {
    let is_parallel = |job: &&MapEntry| match &job.node.value {
        YamlValue::Map(settings) => {
            text_at(settings, "type").is_some_and(|kind| kind.eq_ignore_ascii_case("parallel"))
        }
        _ => false,
    };
    let parallel: Vec<&str> =
        jobs.iter().filter(is_parallel).map(|entry| entry.key.as_str()).collect();
    let names = parallel.join(", ");
    match (wanted, parallel.as_slice()) {
        (_, []) => {
            let message =
                "the pipeline has no job of type parallel, and only parallel jobs run here";
            report.error(&SettingOrigin::File, "jobs", message);
            None
        }
        (Some(wanted), _) if !parallel.contains(&wanted) => {
            let meant = nearest(wanted, parallel.iter().copied());
            let meant = meant.map_or_else(String::new, |name| format!("; did you mean {name}?"));
            let message = format!(
                "found {wanted:?}, which is not a parallel job of this pipeline; its parallel jobs are {names}{meant}"
            );
            report.error(&SettingOrigin::Set("job".into()), "job", message);
            None
        }
        (Some(wanted), _) => Some(wanted.to_owned()),
        (None, [one]) => Some((*one).to_owned()),
        (None, _) => {
            let message =
                format!("there are several parallel jobs; pick one by --job NAME: {names}");
            report.error(&SettingOrigin::File, "jobs", message);
            None
        }
    }
}

/// Returns the name and the source of a job that imports rows from an SQL table. `None` for other jobs.
fn sql_import(job: &MapEntry) -> Option<(String, YamlNode)> {
    let YamlValue::Map(settings) = &job.node.value else { return None };
    let source = settings.iter().find(|setting| setting.key == SOURCE_KEY)?;
    let YamlValue::Map(source_entries) = &source.node.value else { return None };
    let is_database =
        text_at(source_entries, "type").is_some_and(|kind| kind.eq_ignore_ascii_case("database"));
    is_database.then(|| (job.key.clone(), source.node.clone()))
}

/// Adds the source of the rows to each input that is the output of a job that imports rows.
fn add_sources(job: &mut YamlNode, imports: &[(String, YamlNode)]) {
    let YamlValue::Map(settings) = &mut job.value else { return };
    let Some(inputs) = settings.iter_mut().find(|setting| setting.key == "inputs") else { return };
    let YamlValue::Map(inputs) = &mut inputs.node.value else { return };
    for MapEntry { node, .. } in inputs {
        let path = match &node.value {
            YamlValue::Map(entries) => text_at(entries, "path"),
            _ => text(node),
        };
        let import_job = path.and_then(reference).and_then(|it| it.strip_prefix("parent.jobs."));
        let import_job = import_job.and_then(|rest| rest.split('.').next());
        let Some((_, source)) = imports.iter().find(|(name, _)| Some(name.as_str()) == import_job)
        else {
            continue;
        };
        if matches!(node.value, YamlValue::Scalar { .. }) {
            let path = entry("path", node.clone());
            node.value = YamlValue::Map(vec![path]);
        }
        if let YamlValue::Map(entries) = &mut node.value {
            entries.push(entry(SOURCE_KEY, source.clone()));
        }
    }
}

/// Replaces the job's references to the pipeline's inputs and outputs by their values.
fn insert_pipeline_values(job: &mut YamlNode, pipeline: &[MapEntry]) {
    let group = |key: &str| match pipeline.iter().find(|entry| entry.key == key) {
        Some(MapEntry { node: YamlNode { value: YamlValue::Map(entries), .. }, .. }) => {
            entries.as_slice()
        }
        _ => &[],
    };
    let inputs = group("inputs");
    let outputs = group("outputs");
    let find = |name: &str| {
        let input = name.strip_prefix("parent.inputs.").map(|name| (inputs, name));
        let (entries, name) =
            input.or_else(|| name.strip_prefix("parent.outputs.").map(|name| (outputs, name)))?;
        let found = entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node);
        found.filter(|node| is_small(node))
    };
    each_scalar(job, &mut |node| {
        let Some(written) = text(node) else { return };
        let whole_value = reference(written).and_then(find);
        let value = match whole_value {
            Some(found) => literal(found).unwrap_or(found).value.clone(),
            None => {
                let text_of = |name: &str| {
                    let found = find(name)?;
                    text(literal(found).unwrap_or(found)).map(str::to_owned)
                };
                let text = replace(written, text_of);
                let is_text = matches!(node.value, YamlValue::Scalar { is_text: true, .. });
                YamlValue::Scalar { text, is_text }
            }
        };
        node.value = value;
    });
    for group in ["inputs", "outputs"] {
        if let YamlValue::Map(settings) = &mut job.value
            && let Some(MapEntry { node: YamlNode { value: YamlValue::Map(entries), .. }, .. }) =
                settings.iter_mut().find(|setting| setting.key == group)
        {
            entries.iter_mut().for_each(|entry| unfold_path(&mut entry.node));
        }
    }
}

/// Resolves `{path: ${{parent.inputs.x}}, mode: ..}`, after `path` has become the map of the
/// pipeline's input. Adds the entries of that map that the job's input does not have.
fn unfold_path(node: &mut YamlNode) {
    let YamlValue::Map(entries) = &mut node.value else { return };
    let Some(index) = entries.iter().position(|entry| entry.key == "path") else { return };
    if let YamlValue::Map(found) = &mut entries[index].node.value {
        let found = std::mem::take(found);
        entries.remove(index);
        for entry in found {
            if entries.iter().all(|own| own.key != entry.key) {
                entries.push(entry);
            }
        }
    }
}

/// Returns the value of an input that is not data: 5 for `{type: number, default: 5}`.
pub(super) fn literal(node: &YamlNode) -> Option<&YamlNode> {
    let YamlValue::Map(entries) = &node.value else { return None };
    if entries.iter().any(|entry| entry.key == "path") {
        return None;
    }
    let value = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node);
    value("value").or_else(|| value("default"))
}
