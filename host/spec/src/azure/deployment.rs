//! Converts a model's deployment to a batch endpoint into keys of our own. A deployment has its settings
//! below `settings`. Older files have them at the top level.

use super::data::JobData;
use super::kind::DocumentKind;
use super::names;
use super::nodes::{
    SCHEMA_KEY, add_missing, entry, entry_of, group_or_insert, remove_key, scalar, text, text_at,
};
use super::settings::{AzureSettings, remove_group, report_unknown};
use super::text::is_remote;
use crate::error::{ErrorReport, SettingOrigin};
use crate::job_file_location::JobFileLocation;
use crate::model::{GUEST_MODELS, GUEST_SIDE_INPUTS};
use crate::policy;
use crate::tree::{MapEntry, YamlNode, YamlValue, join};

/// Azure's defaults for settings that a deployment leaves out: our key, its value, and Azure's key.
const DEFAULTS: [(&str, &str, &str); 7] = [
    ("mini_batch_size", "10", "mini_batch_size"),
    ("process_count_per_node", "1", "max_concurrency_per_instance"),
    ("error_threshold", "-1", "error_threshold"),
    ("run_max_try", "4", "retry_settings.max_retries"),
    ("run_invocation_timeout", "30", "retry_settings.timeout"),
    ("output_action", "append_row", "output_action"),
    ("append_row_file_name", "predictions.csv", "output_file_name"),
];

/// At most this many entries of a folder are searched for an ONNX file.
const MOST_SEARCHED: usize = 10_000;

/// The model's name in the converted job.
const MODEL_NAME: &str = "model";
/// The environment variable that contains the path of the model's folder (docs/parallel-run-step.md,
/// Environment variables).
const MODEL_VARIABLE: &str = "AZUREML_MODEL_DIR";

/// Converts a deployment into a tree of our keys. Errors go to the report.
pub(crate) fn convert(
    root: YamlNode,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<YamlNode> {
    let origin = root.origin.clone();
    let YamlValue::Map(mut entries) = root.value else { return None };
    // A null value means that the setting was not set.
    entries.retain(|entry| entry.node.value != YamlValue::Null);
    for key in ["type", SCHEMA_KEY] {
        remove_key(&mut entries, key);
    }
    if remove_key(&mut entries, "endpoint_name").is_some() {
        report.conversion("endpoint_name: ignored, there are no endpoints on this machine");
    }
    let is_grouped = entry_of(&entries, "settings").is_some();
    let parent_key = if is_grouped { "settings" } else { "" };
    names::record_names(DocumentKind::Deployment, parent_key, report);
    let mut inner_settings = remove_group(&mut entries, "settings", report).unwrap_or_default();
    let mut data = JobData::new(false);
    data.add_endpoint_inputs(remove_key(&mut entries, "inputs"), location, report);
    let has_tables = data.has_tables();
    let mut settings = AzureSettings::new(std::mem::take(&mut data.entries), "", report);
    add_code(&mut entries, &mut settings, report);
    let model =
        remove_key(&mut entries, "model").and_then(|model| add_model(&model, location, report));
    if let Some(environment) = remove_key(&mut entries, "environment") {
        settings.add_environment("environment", &environment, location);
    }
    settings.add_resources(&mut entries);
    if !is_grouped {
        inner_settings = entries;
    } else {
        entries.into_iter().for_each(|setting| settings.add(setting));
    }
    let mut settings = AzureSettings::new(settings.ours, parent_key, report);
    settings.add_resources(&mut inner_settings);
    settings.add_retries(&mut inner_settings);
    if let Some(name) = remove_key(&mut inner_settings, "output_file_name") {
        settings.add_renamed(&join(parent_key, "output_file_name"), "append_row_file_name", name);
    }
    inner_settings.into_iter().for_each(|setting| settings.add(setting));
    if let Some(model) = model {
        model.add_to(&mut settings.ours);
    }
    add_defaults(&mut settings.ours, parent_key, has_tables, report);
    Some(YamlNode { origin, value: YamlValue::Map(settings.into_keys()) })
}

fn add_code(entries: &mut Vec<MapEntry>, settings: &mut AzureSettings<'_>, report: &ErrorReport) {
    const GROUP: &str = "code_configuration";
    for MapEntry { key, node } in remove_group(entries, GROUP, report).unwrap_or_default() {
        match key.as_str() {
            "code" => settings.add_renamed("code_configuration.code", "source_directory", node),
            "scoring_script" => {
                settings.add_renamed("code_configuration.scoring_script", "entry_script", node);
            }
            _ => report_unknown(GROUP, &MapEntry { key, node }, "code, scoring_script", report),
        }
    }
}

/// The deployment's model, as an entry of one of our groups.
struct DeploymentModel {
    /// `models` for an ONNX model, which Sandmill can run. `side_inputs` for any other model.
    group: &'static str,
    path: YamlNode,
    folder: String,
}

fn add_model(
    model: &YamlNode,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<DeploymentModel> {
    let origin = model.origin.clone();
    let (path, key) = match &model.value {
        YamlValue::Scalar { text, .. } => (scalar(text.trim(), &origin), "model"),
        YamlValue::Map(inner) => match (entry_of(inner, "path"), text_at(inner, "name")) {
            (Some(path), _) => (path.node.clone(), "model.path"),
            (None, Some(name)) => {
                let version = text_at(inner, "version");
                let version = version.map_or_else(|| "@latest".into(), |it| format!(":{it}"));
                (scalar(format!("azureml:{name}{version}"), &origin), "model")
            }
            (None, None) => {
                report.error(&origin, "model", "has no path; name the model's file or folder");
                return None;
            }
        },
        _ => {
            report.error(&origin, "model", format!("found {model}; expected a path or a map"));
            return None;
        }
    };
    let is_onnx =
        text(&path).is_some_and(|path| !is_remote(path) && is_onnx(location, path, &origin));
    let (group, folder) = match is_onnx {
        true => ("models", GUEST_MODELS),
        false => ("side_inputs", GUEST_SIDE_INPUTS),
    };
    let folder = format!("{folder}/{MODEL_NAME}");
    report.record_name(&format!("{group}.{MODEL_NAME}.path"), key);
    report.conversion(format!(
        "{key} is read as {group}.{MODEL_NAME}, and {MODEL_VARIABLE} is its folder, {folder}"
    ));
    Some(DeploymentModel { group, path, folder })
}

/// Whether the path is an ONNX file, or a folder that contains one. A folder that the operator's policy does
/// not allow for models is not opened.
fn is_onnx(location: &JobFileLocation, path: &str, origin: &SettingOrigin) -> bool {
    let has_onnx_name = |path: &std::path::Path| {
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("onnx"))
    };
    let path = location.resolve(path);
    if has_onnx_name(&path) {
        return true;
    }
    // The later check of the model or the side input reports this refusal.
    let discarded = ErrorReport::default();
    location.policy.allows(policy::FolderUse::Models, MODEL_NAME, &path, origin, &discarded)
        && path.read_dir().is_ok_and(|entries| {
            entries.take(MOST_SEARCHED).flatten().any(|entry| has_onnx_name(&entry.path()))
        })
}

impl DeploymentModel {
    /// Adds the model. Also adds the variable with the model's folder, unless the file sets the
    /// variable.
    fn add_to(self, ours: &mut Vec<MapEntry>) {
        let Self { group, path, folder } = self;
        let origin = path.origin.clone();
        let value = YamlValue::Map(vec![entry("path", path)]);
        let model = entry(MODEL_NAME, YamlNode { origin: origin.clone(), value });
        let variable = entry(MODEL_VARIABLE, scalar(folder, &origin));
        for (group, new) in [(group, model), ("environment_variables", variable)] {
            if let Some(entries) = group_or_insert(ours, group, &origin) {
                add_missing(entries, new);
            }
        }
    }
}

fn add_defaults(
    ours: &mut Vec<MapEntry>,
    parent_key: &str,
    has_tables: bool,
    report: &ErrorReport,
) {
    for (key, value, theirs) in DEFAULTS {
        // Azure's default for `mini_batch_size` is a number of files, so it does not apply to tables.
        let is_applicable = key != "mini_batch_size" || !has_tables;
        if is_applicable && entry_of(ours, key).is_none() {
            let theirs = join(parent_key, theirs);
            // Azure's setting does not count the first attempt.
            let shown = if key == "run_max_try" { "3" } else { value };
            report.conversion(format!("{theirs} is not in the file: {shown} (as in Azure)"));
            // The origin has no line, because the value is not in the file. So an operator's ceiling lowers
            // the value and does not refuse the job.
            ours.push(entry(key, scalar(value, &SettingOrigin::File)));
        }
    }
}
