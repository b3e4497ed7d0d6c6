//! Turns typed settings into a checked job: defaults, paths, and rules that concern several settings.

use super::defaults::Defaults;
use super::dialect::JobFileDialect;
use super::error::{ErrorReport, SettingOrigin, missing};
use super::job::{JobSpec, StoredMount};
use super::job_file_location::JobFileLocation;
use super::machine::MachineSize;
use super::raw::RawJob;
use super::scope::Located;
use super::settings_files::SettingsFiles;
use super::templates::{self, TemplateNames};
use super::{
    inputs, job_store, limits, models, mounts, nodes, output, parent, prs_arguments, python,
    settings_file, times, workers,
};
use crate::model::{JobText, Mount, OutputAction, OutputFormat};
use sandmill_files::c_sources;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Builds the job. Errors go to the report. The job is valid only if the report is clean.
pub(super) fn check(
    raw: &RawJob,
    dialect: JobFileDialect,
    (location, machine): (&JobFileLocation, &MachineSize),
    report: &ErrorReport,
) -> JobSpec {
    let defaults = &Defaults::new(dialect, report);
    let node_count = nodes::count(raw, machine, report);
    let script = script(raw, dialect, location, report);
    let source = script.source_directory.as_deref();
    let script_folder = settings_folder(source, &script.entry_script, &location.files);
    let script_folder = script_folder.filter(|folder| {
        let file = folder.join(settings_file::FILE_NAME);
        let origin = raw.entry_script.as_ref().map(|setting| &setting.origin);
        location.files.are_given() || location.policy.allows_settings(&file, origin, report)
    });
    let script_folder = script_folder.as_deref().map(|folder| (folder, &location.files));
    let (settings, mut worker) = raw.settings.in_force(&defaults.raw.settings);
    let (job_limits, limits) = raw.limits.in_force(&defaults.raw.limits);
    let rows = output::rows(raw, worker.output_action, script_folder, defaults, report);
    let (inputs, input_kind, partition_keys) = inputs::check(raw, defaults, location, report);
    let source = script.source_directory.as_deref();
    let loaded = python::script(raw, &script.entry_script, source, &mut worker, location, report);
    let join = output::join(raw, &input_kind, report);
    let join = join.filter(|_| worker.output_action == OutputAction::AppendRow);
    let (process_count, gpus) = workers::check(raw, defaults, machine, report);
    // Azure's version 2 does not count the first attempt, so the note about the default gives one less than
    // our `run_max_try`.
    let tries = settings.run_max_try - u32::from(dialect.is_version_2());
    defaults.note("run_max_try", &raw.settings.run_max_try, tries);
    let progress_update_timeout = times::check(raw, &settings, defaults, report);
    limits::note_useless(raw, report);
    inputs::check_memory(raw, &input_kind, &limits, report);
    let mut stored = script.stored;
    let sides = script.side_inputs.as_slice();
    let models = models::check(raw, sides, &mut stored, limits.models, location, report);
    defaults.note("error_threshold", &raw.settings.error_threshold, settings.error_threshold);
    defaults.note("logging_level", &raw.settings.logging_level, worker.logging_level);
    let text =
        |given: &Option<Located<String>>| given.as_ref().map(|setting| setting.value.clone());
    let mut spec = JobSpec {
        name: text(&raw.name).unwrap_or_else(|| location.job_name()),
        entry_script: script.entry_script,
        entry_script_digest: text(&raw.entry_script_digest),
        source_directory: script.source_directory,
        script: loaded,
        inputs,
        input_kind,
        side_inputs: script.side_inputs,
        side_input_names: side_input_names(raw),
        models,
        stored,
        inference: models::settings(raw, defaults),
        output: raw.output.as_ref().and_then(|output| output::folder(output, location, report)),
        upload: raw.output.as_ref().and_then(|output| output::address(output, report)),
        job_store: job_store::check(raw, location, report),
        own_arguments: script.arguments.len(),
        arguments: script.arguments,
        environment_variables: script.environment_variables,
        process_count,
        node_count,
        append_row_file_name: rows.file_name,
        earlier_file_name: rows.earlier_file_name,
        progress_update_timeout,
        gpus,
        partition_keys,
        output_format: OutputFormat { join, ..rows.format },
        parent: parent::check(raw, dialect, location, report),
        settings,
        worker,
        limits,
        job_limits,
        job_file_sha256: String::new(),
        text: JobText::default(),
        fetched: location.fetched.clone(),
        latest: Vec::new(),
        named_data: BTreeMap::new(),
        notices: Vec::new(),
        conversions: Vec::new(),
    };
    if machine.has_broker {
        nodes::check_needs(&spec, raw, report);
    }
    if spec.settings.pass_settings {
        prs_arguments::append(&mut spec, raw);
    }
    spec.notices = report.take_notices();
    spec.conversions = report.take_conversions();
    spec
}

fn side_input_names(raw: &RawJob) -> Vec<String> {
    let sides = raw.side_inputs.iter().flat_map(|sides| &sides.value);
    sides.map(|side| side.name.value.clone()).collect()
}

/// The entry script, and everything that it gets besides its input.
struct ScriptInputs {
    entry_script: PathBuf,
    source_directory: Option<PathBuf>,
    side_inputs: Vec<Mount>,
    stored: Vec<StoredMount>,
    arguments: Vec<String>,
    environment_variables: Vec<(String, String)>,
}

fn script(
    raw: &RawJob,
    dialect: JobFileDialect,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> ScriptInputs {
    let source_directory = source_directory(raw.source_directory.as_ref(), location, report);
    let script_base = source_directory.as_deref().unwrap_or(&location.folder);
    let is_source_wrong = report.has_error_at("source_directory");
    // An Azure file should name the folder with the code. If it does not, Sandmill expects the script beside
    // the file, and an error about the script also mentions the missing key.
    let missing_folder_key = (dialect.is_version_2() && source_directory.is_none())
        .then(|| report.name_in_file("source_directory"));
    let entry_script = entry_script(
        raw.entry_script.as_ref(),
        script_base,
        is_source_wrong || location.fetched.entry_script.is_some(),
        missing_folder_key.as_deref(),
        report,
    );
    let (side_inputs, stored) = mounts::check(
        raw.side_inputs.as_ref().map(|setting| setting.value.as_slice()),
        location,
        report,
    );
    let references = TemplateNames::new(raw, &side_inputs, source_directory.is_some());
    let arguments = templates::arguments(raw.arguments.as_ref(), &references, dialect, report);
    let environment_variables =
        templates::variables(raw.environment_variables.as_ref(), &references, report);
    ScriptInputs {
        entry_script,
        source_directory,
        side_inputs,
        stored,
        arguments,
        environment_variables,
    }
}

/// The folder that may contain a file of settings for the entry script.
fn settings_folder(
    source: Option<&Path>,
    entry_script: &Path,
    files: &SettingsFiles,
) -> Option<PathBuf> {
    // The entry script is the folder of a guest crate.
    let is_crate = match files.are_given() {
        true => files.were_given(&entry_script.join(settings_file::FILE_NAME)),
        false => entry_script.is_dir(),
    };
    match (source, is_crate) {
        (Some(source), _) => Some(source.to_owned()),
        (None, true) => Some(entry_script.to_owned()),
        (None, false) => entry_script.parent().map(Path::to_owned),
    }
}

fn source_directory(
    given: Option<&Located<String>>,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<PathBuf> {
    let given = given?;
    let path = location.resolve(given.value.trim());
    match path.metadata() {
        _ if location.fetched.source_directory.is_some() => {}
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => given.blame(
            report,
            format!("{} is not a folder; name the folder with the entry script", path.display()),
        ),
        Err(error) => given.blame(report, missing(&path, &error)),
    }
    Some(path)
}

const SCRIPT_KINDS: &str = "a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)";

fn entry_script(
    given: Option<&Located<String>>,
    folder: &Path,
    is_not_checked: bool,
    missing_folder_key: Option<&str>,
    report: &ErrorReport,
) -> PathBuf {
    let Some(given) = given else {
        if !report.has_error_at("entry_script") {
            let message = format!("missing; name {SCRIPT_KINDS}");
            report.error(&SettingOrigin::File, "entry_script", message);
        }
        return PathBuf::new();
    };
    let text = given.value.trim();
    let joined = folder.join(text);
    let path = std::path::absolute(&joined).unwrap_or(joined);
    let message = if text.is_empty() {
        Some(format!("found an empty text; name {SCRIPT_KINDS}"))
    } else if is_not_checked {
        None
    } else {
        script_problem(&path)
    };
    if let Some(mut message) = message {
        if let Some(key) = missing_folder_key.filter(|_| !path.exists() && !text.is_empty()) {
            message.push_str(&format!(
                "; or set {key}, which is missing, to the folder that holds it"
            ));
        }
        given.blame(report, message);
    }
    path
}

/// Returns the error message if the path cannot be an entry script.
fn script_problem(path: &Path) -> Option<String> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            let has_sources = path.join("Cargo.toml").is_file() || !c_sources(path).is_empty();
            (!has_sources).then(|| {
                format!(
                    "{} is a folder with no Cargo.toml and no sources in C; name {SCRIPT_KINDS}",
                    path.display()
                )
            })
        }
        Ok(_) => None,
        Err(error) => Some(format!("{}; name {SCRIPT_KINDS}", missing(path, &error))),
    }
}
