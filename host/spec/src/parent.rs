//! The parent of a job.

use super::dialect::JobFileDialect;
use super::error::ErrorReport;
use super::job::Parent;
use super::job_file_location::JobFileLocation;
use super::raw::RawJob;
use super::tree::{MapEntry, YamlNode, YamlValue};

/// Makes the pipeline the parent of its job, if the parent should get logs or metrics and the file does not
/// name one.
pub(super) fn of_pipeline(root: &mut YamlNode, pipeline: &str, report: &ErrorReport) {
    let YamlValue::Map(entries) = &mut root.value else { return };
    let is_wanted = entries.iter().find(|MapEntry { key, node }| {
        matches!(key.as_str(), "copy_logs_to_parent" | "push_metrics_to_parent")
            && matches!(&node.value, YamlValue::Scalar { text, .. } if text.eq_ignore_ascii_case("true"))
    });
    let Some(origin) = is_wanted.map(|entry| entry.node.origin.clone()) else { return };
    if entries.iter().any(|entry| entry.key == "parent") {
        return;
    }
    // Names of job directories do not contain a dot, unless a user chooses one.
    let folder = format!("jobs/{pipeline}.pipeline");
    report.conversion(format!("parent is {folder} beside the file, for the pipeline"));
    let value = YamlValue::Scalar { text: folder, is_text: true };
    entries.push(MapEntry { key: String::from("parent"), node: YamlNode { origin, value } });
}

/// The parent, if it should get logs or metrics (docs/parallel-run-step.md A6, A8).
pub(super) fn check(
    raw: &RawJob,
    dialect: JobFileDialect,
    place: &JobFileLocation,
    report: &ErrorReport,
) -> Option<Parent> {
    let flags = [&raw.copy_logs_to_parent, &raw.push_metrics_to_parent];
    let wanted = flags.map(|flag| flag.as_ref().filter(|flag| flag.value));
    let Some(given) = &raw.parent else {
        if dialect.is_azure() {
            for flag in wanted.into_iter().flatten() {
                report.conversion(format!(
                    "{}: ignored, the job is not part of another job here",
                    flag.key
                ));
            }
        } else if !report.blames("parent") {
            for flag in wanted.into_iter().flatten() {
                let message = "needs the folder of the parent job: add parent with its path, or \
                               remove this setting";
                flag.blame(report, message);
            }
        }
        return None;
    };
    let text = given.value.trim();
    let folder = place.resolve(text);
    if text.is_empty() {
        given.blame(report, "found an empty text; name a folder, or leave the key out");
    } else if folder.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        given.blame(report, format!("{} is a file; name a folder", folder.display()));
    }
    let [copy_logs, push_metrics] = wanted.map(|flag| flag.is_some());
    if !copy_logs && !push_metrics {
        report.notice(
            "parent has no effect: neither copy_logs_to_parent nor push_metrics_to_parent is true",
        );
        return None;
    }
    Some(Parent { folder, copy_logs, push_metrics })
}
