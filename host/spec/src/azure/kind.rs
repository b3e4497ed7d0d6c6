//! Determines what an Azure file describes, and whether it can run here.

use super::nodes::{SCHEMA_KEY, entry_of, text, text_at};
use crate::error::{ErrorReport, SettingOrigin};
use crate::tree::{MapEntry, YamlNode, YamlValue};

/// What a file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    /// Not a file of version 2: a job in our own keys, or a file that version 1 saved.
    Other,
    /// A parallel job of version 2, its component, or a pipeline with such jobs.
    Job,
    /// A batch endpoint's deployment of a model.
    Deployment,
}

/// Determines what the file describes. `None`, with an error, if it cannot run here. `has_script`: whether
/// the command line names an entry script.
pub(crate) fn kind_of(
    root: &YamlNode,
    has_script: bool,
    report: &ErrorReport,
) -> Option<DocumentKind> {
    let YamlValue::Map(entries) = &root.value else { return Some(DocumentKind::Other) };
    let schema = text_at(entries, SCHEMA_KEY).unwrap_or_default().to_ascii_lowercase();
    // Only the last part of the schema's path counts, because folders may have any name.
    let schema = schema.rsplit(['/', '\\']).next().unwrap_or_default();
    let of_type = entry_of(entries, "type");
    let word = of_type.and_then(|entry| text(&entry.node)).unwrap_or_default().to_ascii_lowercase();
    let is_deployment = schema.contains("deployment")
        || (!matches!(word.as_str(), "parallel" | "pipeline")
            && ["code_configuration", "endpoint_name"].iter().any(|key| has(entries, key)));
    if is_deployment {
        let of_kind = if schema.contains("onlinedeployment") { "online" } else { word.as_str() };
        return deployment(entries, of_kind, has_script, report)
            .then_some(DocumentKind::Deployment);
    }
    match (word.as_str(), of_type) {
        ("parallel" | "pipeline", _) => Some(DocumentKind::Job),
        (_, Some(MapEntry { node, .. })) if !word.is_empty() => {
            let message = format!(
                "found {node}; of Azure's files, only the types parallel and pipeline run here, and \
                 deployments of batch endpoints; our own job files have no type"
            );
            report.error(&node.origin, "type", message);
            None
        }
        _ => {
            let is_map = |key| {
                entry_of(entries, key).is_some_and(|it| matches!(it.node.value, YamlValue::Map(_)))
            };
            Some(if is_map("task") || is_map("jobs") {
                DocumentKind::Job
            } else {
                DocumentKind::Other
            })
        }
    }
}

fn has(entries: &[MapEntry], key: &str) -> bool {
    entry_of(entries, key).is_some_and(|entry| entry.node.value != YamlValue::Null)
}

/// Whether a deployment can run here. Adds an error if not.
fn deployment(entries: &[MapEntry], kind: &str, has_script: bool, report: &ErrorReport) -> bool {
    let origin =
        |key| entry_of(entries, key).map_or(SettingOrigin::File, |it| it.node.origin.clone());
    match kind {
        "online" => {
            let message = "is the deployment of an online endpoint, which answers single requests; only \
                           deployments of batch endpoints run here";
            report.error(&origin(SCHEMA_KEY), "", message);
        }
        "pipeline" => {
            let message = "deploys a pipeline to a batch endpoint; run the pipeline's own file, whose parallel jobs \
                           run here one by one (--job NAME)";
            report.error(&origin("type"), "type", message);
        }
        "" | "model" if has(entries, "code_configuration") || has_script => return true,
        "" | "model" => {
            let message = "has no code_configuration: for such a model, of MLflow or of a registry, Azure makes the \
                           scoring script, which is Python; write an entry script that loads the model, and name it by \
                           --set entry_script=FILE";
            report.error(&SettingOrigin::File, "", message);
        }
        _ => {
            let message = format!(
                "found {kind:?}; of batch endpoints, only deployments of type model run here"
            );
            report.error(&origin("type"), "type", message);
        }
    }
    false
}
