//! Typed settings to a checked job: defaults, paths, and what settings ask of each other.

use super::arguments::{self, References};
use super::error::{Origin, Report};
use super::inputs;
use super::job::JobSpec;
use super::load::DEFAULT_JOB;
use super::mounts;
use super::raw::{self, RawJob, RawLimits};
use super::scope::At;
use super::tree;
use crate::model::{
    AllowedPercent, ErrorThreshold, Limits, OnConflict, OutputAction, OutputFormat,
};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the job file lies.
pub(super) struct Place {
    /// Its folder. Absolute.
    folder: PathBuf,
    /// Its name without the ending.
    stem: String,
}

impl Place {
    /// # Errors
    /// In words, if the folder cannot be had, or its name is not text.
    pub(super) fn of(file: &Path) -> Result<Self, String> {
        let absolute = std::path::absolute(file)
            .map_err(|error| format!("the current folder cannot be found: {error}"))?;
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        if folder.to_str().is_none() {
            return Err(String::from("the path of its folder is not text in UTF-8; move it"));
        }
        let stem = absolute.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self { folder, stem: stem.unwrap_or_default() })
    }

    /// A path of the job file, made absolute.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        let joined = self.folder.join(path);
        // Drops `./` and the like; only an empty path could fail, and the folder is not empty.
        std::path::absolute(&joined).unwrap_or(joined)
    }

    /// The file's name, made to fit the rules for a job's name.
    fn job_name(&self) -> String {
        let fitted: String = self
            .stem
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
            .skip_while(|c| !c.is_ascii_alphanumeric())
            .take(64)
            .collect();
        if fitted.is_empty() { String::from("job") } else { fitted }
    }
}

/// Builds the job. What is wrong goes to the report; the job is only good if nothing did.
pub(super) fn check(raw: RawJob, imported: bool, place: &Place, report: &Report) -> JobSpec {
    let silent = Report::default();
    let defaults = tree::parse(DEFAULT_JOB, &silent).map(|root| raw::read(root, &silent));
    let defaults = Defaults { raw: defaults.flatten().unwrap_or_default(), imported, report };
    check_node_count(raw.node_count.as_ref(), report);

    let source_directory = source_directory(raw.source_directory.as_ref(), place, report);
    let script_place = source_directory.as_deref().unwrap_or(&place.folder);
    let source_is_wrong = report.blames("source_directory");
    let entry_script =
        entry_script(raw.entry_script.as_ref(), script_place, source_is_wrong, imported, report);

    let side_inputs =
        mounts::check(raw.side_inputs.as_ref().map(|at| at.value.as_slice()), place, report);
    let references = References::new(&raw, &side_inputs, source_directory.is_some());
    let arguments = arguments::arguments(raw.arguments.as_ref(), &references, report);
    let environment_variables =
        arguments::variables(raw.environment_variables.as_ref(), &references, report);

    let (output_action, append_row_file_name) = output_file(&raw, &defaults, report);
    let (inputs, input_kind) = inputs::check(&raw, &defaults, place, report);
    let hours = Duration::from_secs(600);

    JobSpec {
        name: raw.name.map_or_else(|| place.job_name(), |name| name.value),
        tenant: defaults.or("", raw.tenant, |raw| raw.tenant.clone()),
        entry_script,
        entry_script_digest: raw.entry_script_digest.map(|digest| digest.value),
        source_directory,
        inputs,
        input_kind,
        side_inputs,
        output: raw.output.and_then(|output| output_folder(&output, place, report)),
        arguments,
        environment_variables,
        process_count: process_count(raw.process_count_per_node, &defaults),
        output_action,
        append_row_file_name,
        error_threshold: defaults
            .or("error_threshold", raw.error_threshold, |raw| raw.error_threshold.clone()),
        run_max_try: defaults.or("run_max_try", raw.run_max_try, |raw| raw.run_max_try.clone()),
        run_invocation_timeout: defaults.or_shown(
            "run_invocation_timeout",
            raw.run_invocation_timeout,
            |raw| raw.run_invocation_timeout.clone(),
            |timeout| format!("{} seconds", timeout.as_secs_f64()),
        ),
        logging_level: defaults
            .or("logging_level", raw.logging_level, |raw| raw.logging_level.clone()),
        allowed_failed_count: ErrorThreshold::Ignore,
        allowed_failed_percent: AllowedPercent::ALL,
        strict_cardinality: false,
        task_overhead_timeout: hours,
        progress_update_timeout: hours * 24,
        first_task_creation_timeout: hours,
        resource_monitor_interval: Some(hours),
        profile: false,
        gpus: 0,
        partition_keys: Vec::new(),
        output_format: OutputFormat::default(),
        ordered: false,
        output_files: OnConflict::Error,
        allow_reuse: true,
        parent: None,
        metrics_name_prefix: String::new(),
        limits: limits(raw.limits, &defaults),
        notices: report.take_notices(),
    }
}

/// The defaults of `default-job.yaml`. For a saved file, says which of them were taken.
pub(super) struct Defaults<'r> {
    raw: RawJob,
    /// Whether the file is one that the Azure SDK saved.
    pub(super) imported: bool,
    report: &'r Report,
}

impl Defaults<'_> {
    /// The given value or the default. `name` is empty for what Azure does not know.
    pub(super) fn or<T: std::fmt::Display>(
        &self,
        name: &str,
        given: Option<At<T>>,
        default: impl FnOnce(&RawJob) -> Option<At<T>>,
    ) -> T {
        self.or_shown(name, given, default, ToString::to_string)
    }

    fn or_shown<T>(
        &self,
        name: &str,
        given: Option<At<T>>,
        default: impl FnOnce(&RawJob) -> Option<At<T>>,
        show: impl FnOnce(&T) -> String,
    ) -> T {
        if let Some(given) = given {
            return given.value;
        }
        let value = default(&self.raw)
            .expect("default-job.yaml gives every key that has a default, as a test holds")
            .value;
        self.mention(name, &show(&value));
        value
    }

    /// Says of a saved file that it leaves a setting out.
    pub(super) fn mention(&self, name: &str, value: &str) {
        if !self.imported || name.is_empty() || self.report.blames(name) {
            return;
        }
        let whose = match name {
            "error_threshold" => "Azure has no default for it, and no failure is ignored unasked",
            "output_action" => "Azure has no default for it",
            _ => "as in Azure",
        };
        self.report.notice(format!("{name} is not in the saved file: {value} ({whose})"));
    }
}

fn check_node_count(count: Option<&At<u32>>, report: &Report) {
    if let Some(count) = count.filter(|count| count.value != 1) {
        let message = format!(
            "found {}; only 1 is supported for now: the job runs on this machine, with \
             process_count_per_node workers",
            count.value
        );
        count.blame(report, message);
    }
}

/// What is wrong with a path that ought to lead somewhere.
pub(super) fn missing(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no {}", path.display()),
        _ => format!("{} cannot be read: {error}", path.display()),
    }
}

fn source_directory(given: Option<&At<String>>, place: &Place, report: &Report) -> Option<PathBuf> {
    let given = given?;
    let path = place.resolve(given.value.trim());
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => given.blame(
            report,
            format!("{} is not a folder; name the folder with the entry script", path.display()),
        ),
        Err(error) => given.blame(report, missing(&path, &error)),
    }
    Some(path)
}

const SCRIPT_KINDS: &str = "a component (.wasm), a core module (.wasm) or a guest crate's folder";

fn entry_script(
    given: Option<&At<String>>,
    folder: &Path,
    folder_is_wrong: bool,
    imported: bool,
    report: &Report,
) -> PathBuf {
    let Some(given) = given else {
        if !report.blames("entry_script") {
            let message = format!("missing; name {SCRIPT_KINDS}");
            report.error(&Origin::File, "entry_script", message);
        }
        return PathBuf::new();
    };
    let text = given.value.trim();
    let joined = folder.join(text);
    let path = std::path::absolute(&joined).unwrap_or(joined);
    let message = if text.is_empty() {
        Some(format!("found an empty text; name {SCRIPT_KINDS}"))
    } else if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("py")) {
        let how = if imported { ", and name it by --set entry_script=..." } else { "" };
        Some(format!(
            "found {text:?}, a Python script; entry scripts are WebAssembly components: make one \
             of it with componentize-py, or write one in Rust, starting with `sandmill new`{how}"
        ))
    } else if folder_is_wrong {
        None
    } else {
        script_problem(&path)
    };
    if let Some(message) = message {
        given.blame(report, message);
    }
    path
}

fn script_problem(path: &Path) -> Option<String> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => (!path.join("Cargo.toml").is_file()).then(|| {
            format!(
                "{} is a folder without Cargo.toml, so it is no guest crate; name {SCRIPT_KINDS}",
                path.display()
            )
        }),
        Ok(_) => None,
        Err(error) => Some(format!("{}; name {SCRIPT_KINDS}", missing(path, &error))),
    }
}

fn output_folder(given: &At<String>, place: &Place, report: &Report) -> Option<PathBuf> {
    let text = given.value.trim();
    if text.is_empty() {
        given.blame(report, "found an empty text; name a folder, or leave the key out");
        return None;
    }
    let path = place.resolve(text);
    if path.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        given.blame(report, format!("{} is a file; name a folder", path.display()));
    }
    Some(path)
}

fn output_file(raw: &RawJob, defaults: &Defaults<'_>, report: &Report) -> (OutputAction, String) {
    let output_action =
        defaults.or("output_action", raw.output_action.clone(), |raw| raw.output_action.clone());
    let append_row_file_name = defaults.or(
        if output_action == OutputAction::AppendRow { "append_row_file_name" } else { "" },
        raw.append_row_file_name.clone(),
        |raw| raw.append_row_file_name.clone(),
    );
    if output_action == OutputAction::AppendRow {
        check_file_name(raw.append_row_file_name.as_ref(), report);
    }
    (output_action, append_row_file_name)
}

/// Characters that an output file's name must not contain (prs-semantics C14).
const FORBIDDEN_IN_NAME: &str = r##"~"#%&*:<>?/\{|}"##;

fn check_file_name(given: Option<&At<String>>, report: &Report) {
    let Some(given) = given else { return };
    let name = given.value.as_str();
    if let Some(bad) = name.chars().find(|c| FORBIDDEN_IN_NAME.contains(*c) || c.is_control()) {
        let message = format!(
            "found {name:?} with {bad:?} in it; a file name must have none of \
             ~ \" # % & * : < > ? / \\ {{ | }}"
        );
        given.blame(report, message);
    } else if name.trim().is_empty() || matches!(name, "." | "..") || name.len() > 255 {
        let shown = tree::shorten(name);
        let message = format!("found {shown:?}; expected a file name of 1 to 255 bytes");
        given.blame(report, message);
    }
}

fn process_count(given: Option<At<u32>>, defaults: &Defaults<'_>) -> u32 {
    if let Some(given) = given {
        return given.value;
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let count = u32::try_from(cores).unwrap_or(u32::MAX).clamp(1, 1000);
    defaults.mention("process_count_per_node", &format!("{count}, the number of cores"));
    count
}

fn limits(raw: RawLimits, defaults: &Defaults<'_>) -> Limits {
    Limits {
        memory: defaults.or("", raw.memory, |raw| raw.limits.memory.clone()),
        fuel: raw.fuel.map(|fuel| fuel.value),
        read: defaults.or("", raw.read, |raw| raw.limits.read.clone()),
        results: defaults.or("", raw.results, |raw| raw.limits.results.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names_are_made_to_fit() {
        for (file, name) in [
            ("/a/digits.yaml", "digits"),
            ("/a/My Job (2).yaml", "my-job--2-"),
            ("/a/-_x.yaml", "x"),
            ("/a/\u{e4}\u{f6}.yaml", "job"),
            ("/a/b.c.yaml", "b-c"),
        ] {
            assert_eq!(Place::of(Path::new(file)).expect(file).job_name(), name);
        }
        let long = format!("/a/{}.yaml", "x".repeat(100));
        assert_eq!(Place::of(Path::new(&long)).expect("a place").job_name().len(), 64);
    }
}
