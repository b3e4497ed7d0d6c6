//! Arguments and environment variables, and the references (`${{...}}`) in them.

use super::argument_settings::{THRESHOLDS, WORKER_COUNT};
use super::dialect::JobFileDialect;
use super::error::ErrorReport;
use super::keys::{self, PrsNames};
use super::mounts;
use super::raw::RawJob;
use super::scope::{Located, Variables};
use crate::model::{GUEST_INPUTS, GUEST_MODELS, GUEST_OUTPUT, GUEST_SOURCE, Mount};

/// Whether a name is a key of the job file, and therefore not allowed as an argument
/// (docs/parallel-run-step.md C24).
fn is_reserved(name: &str) -> bool {
    keys::JOB.iter().any(|key| key.name == name && matches!(key.prs, PrsNames::Setting(..)))
}

/// The names that `${{...}}` may contain, each with the guest's path.
pub(super) struct TemplateNames {
    known: Vec<(String, String)>,
}

impl TemplateNames {
    pub(super) fn new(raw: &RawJob, side_inputs: &[Mount], has_source: bool) -> Self {
        let mut known = Vec::new();
        for input in raw.inputs.iter().flat_map(|inputs| &inputs.value) {
            let name = &input.name.value;
            known.push((format!("inputs.{name}"), format!("{GUEST_INPUTS}/{name}")));
        }
        let sides = raw.side_inputs.iter().flat_map(|sides| &sides.value);
        for (side, mount) in sides.zip(side_inputs) {
            known.push((
                format!("side_inputs.{}", side.name.value),
                mounts::guest_path_of(side, mount),
            ));
        }
        for model in raw.models.iter().flat_map(|models| &models.value) {
            let name = &model.name.value;
            known.push((format!("models.{name}"), format!("{GUEST_MODELS}/{name}")));
        }
        known.push((String::from("output"), GUEST_OUTPUT.to_owned()));
        if has_source {
            known.push((String::from("source"), GUEST_SOURCE.to_owned()));
        }
        Self { known }
    }

    /// Replaces every reference in the text.
    fn expand(&self, given: &Located<String>, report: &ErrorReport) -> String {
        let mut expanded = String::new();
        let mut rest = given.value.as_str();
        while let Some(start) = rest.find("${{") {
            expanded.push_str(&rest[..start]);
            let Some(length) = rest[start..].find("}}") else {
                given.blame(
                    report,
                    "a reference starts with ${{ and does not end; close it with }}",
                );
                return expanded;
            };
            let name = rest[start + 3..start + length].trim();
            match self.known.iter().find(|(known, _)| known == name) {
                Some((_, path)) => expanded.push_str(path),
                None => self.report_unknown(name, given, report),
            }
            rest = &rest[start + length + 2..];
        }
        expanded.push_str(rest);
        if expanded.contains('\0') {
            given.blame(report, "a NUL character cannot be passed on; remove it");
        }
        expanded
    }

    fn report_unknown(&self, name: &str, given: &Located<String>, report: &ErrorReport) {
        // The name may be unknown only because the group that the reference names has an error. Then report
        // only that error.
        let group = name.split('.').next().unwrap_or_default();
        if report.has_error_at(group) {
            return;
        }
        let as_reference =
            |(known, _): &(String, String)| format!("${{{{{}}}}}", report.name_in_file(known));
        let names: Vec<String> = self.known.iter().map(as_reference).collect();
        let hint = match name {
            "source" => {
                format!("; to use ${{{{source}}}}, set {}", report.name_in_file("source_directory"))
            }
            _ => String::new(),
        };
        let message = format!(
            "found the unknown reference ${{{{{name}}}}}; the known references are {}{hint}",
            names.join(", ")
        );
        given.blame(report, message);
    }
}

/// Checks the arguments, and replaces the references in them.
pub(super) fn arguments(
    given: Option<&Located<Vec<Located<String>>>>,
    references: &TemplateNames,
    dialect: JobFileDialect,
    report: &ErrorReport,
) -> Vec<String> {
    let Some(given) = given else { return Vec::new() };
    if let Some(first) = given.value.first().filter(|first| !first.value.starts_with('-')) {
        let message = format!(
            "found {:?}; the first argument must start with \"-\", such as in [--model, digits.bin]",
            first.value
        );
        first.blame(report, message);
    }
    given
        .value
        .iter()
        .map(|argument| {
            check_option(argument, dialect, report);
            references.expand(argument, report)
        })
        .collect()
}

/// Refuses an option that sets a key of the job file.
fn check_option(argument: &Located<String>, dialect: JobFileDialect, report: &ErrorReport) {
    let Some(option) = argument.value.strip_prefix("--") else { return };
    let name = option.split('=').next().unwrap_or_default();
    let is_allowed_option = THRESHOLDS.contains(&name) || name == WORKER_COUNT;
    if !is_reserved(name) || (dialect.is_version_2() && is_allowed_option) {
        return;
    }
    argument.blame(
        report,
        format!(
            "--{name} is a setting of the job: write the key {} in the job file instead",
            report.name_in_file(name)
        ),
    );
}

/// Checks the environment variables, in the order of the job file, and replaces the references in them.
pub(super) fn variables(
    given: Option<&Located<Variables>>,
    references: &TemplateNames,
    report: &ErrorReport,
) -> Vec<(String, String)> {
    let Some(given) = given else { return Vec::new() };
    given
        .value
        .iter()
        .map(|(name, value)| {
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!(
                    "found the name {name:?}; a variable's name must not be empty, and must have \
                     no = and no NUL in it"
                );
                value.blame(report, message);
            }
            (name.clone(), references.expand(value, report))
        })
        .collect()
}
