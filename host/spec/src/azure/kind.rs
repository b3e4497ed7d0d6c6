//! Determines what an Azure file describes, and whether it can run here.

use super::nodes::{SCHEMA_KEY, entry_of, text, text_at};
use crate::error::{ErrorReport, SettingOrigin};
use crate::tree::{MapEntry, YamlNode, YamlValue};

/// What a file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    /// Not a file for version 2 of Azure ML's SDK: a job in Sandmill's own keys, or a file that version 1 of
    /// the SDK saved.
    Other,
    /// A parallel job for SDK version 2, its component, or a pipeline with parallel jobs.
    Job,
    /// A model's deployment to a batch endpoint.
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
    let type_entry = entry_of(entries, "type");
    let type_name =
        type_entry.and_then(|entry| text(&entry.node)).unwrap_or_default().to_ascii_lowercase();
    let is_deployment = schema.contains("deployment")
        || (!matches!(type_name.as_str(), "parallel" | "pipeline")
            && ["code_configuration", "endpoint_name"].iter().any(|key| has(entries, key)));
    if is_deployment {
        let deployment_kind =
            if schema.contains("onlinedeployment") { "online" } else { type_name.as_str() };
        return can_run_deployment(entries, deployment_kind, has_script, report)
            .then_some(DocumentKind::Deployment);
    }
    match (type_name.as_str(), type_entry) {
        ("parallel" | "pipeline", _) => Some(DocumentKind::Job),
        (_, Some(MapEntry { node, .. })) if !type_name.is_empty() => {
            let message = format!(
                "found {node}; Sandmill runs only Azure files of type parallel or pipeline, and batch \
                 deployments; a Sandmill job file must not have the key type"
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
fn can_run_deployment(
    entries: &[MapEntry],
    kind: &str,
    has_script: bool,
    report: &ErrorReport,
) -> bool {
    let origin =
        |key| entry_of(entries, key).map_or(SettingOrigin::File, |it| it.node.origin.clone());
    match kind {
        "online" => {
            let message = "is a deployment to an online endpoint, which answers single requests; only \
                           deployments to batch endpoints run here";
            report.error(&origin(SCHEMA_KEY), "", message);
        }
        "pipeline" => {
            let message = "deploys a pipeline to a batch endpoint; instead, run the pipeline's own file, one \
                           parallel job at a time (--job NAME)";
            report.error(&origin("type"), "type", message);
        }
        "" | "model" if has(entries, "code_configuration") || has_script => return true,
        "" | "model" => {
            let message = "has no code_configuration: Azure generates the Python scoring script for models of MLflow \
                           or of a registry, but Sandmill does not; write an entry script that loads the model, and name \
                           it by --set entry_script=FILE";
            report.error(&SettingOrigin::File, "", message);
        }
        _ => {
            let message = format!("found {kind:?}; only deployments of type model run here");
            report.error(&origin("type"), "type", message);
        }
    }
    false
}
