//! The parent of a job: another job, whose folder gets copies of this job's logs and metrics.

use super::dialect::JobFileDialect;
use super::error::ErrorReport;
use super::job::Parent;
use super::job_file_location::JobFileLocation;
use super::raw::RawJob;
use super::tree::{MapEntry, YamlNode, YamlValue};

/// Makes the pipeline the parent of its job, if the file asks for copies of logs or metrics and does not
/// name a parent.
pub(super) fn of_pipeline(root: &mut YamlNode, pipeline: &str, report: &ErrorReport) {
    let YamlValue::Map(entries) = &mut root.value else { return };
    let copy_setting = entries.iter().find(|MapEntry { key, node }| {
        matches!(key.as_str(), "copy_logs_to_parent" | "push_metrics_to_parent")
            && matches!(&node.value, YamlValue::Scalar { text, .. } if text.eq_ignore_ascii_case("true"))
    });
    let Some(origin) = copy_setting.map(|entry| entry.node.origin.clone()) else { return };
    if entries.iter().any(|entry| entry.key == "parent") {
        return;
    }
    // The dot keeps this folder apart from job directories: the names that Sandmill gives them have no dot. A
    // user may still choose a name with a dot.
    let folder = format!("jobs/{pipeline}.pipeline");
    report.conversion(format!("parent is {folder} beside the file, as the folder of the pipeline"));
    let value = YamlValue::Scalar { text: folder, is_text: true };
    entries.push(MapEntry { key: String::from("parent"), node: YamlNode { origin, value } });
}

/// Returns the parent, if the parent should get logs or metrics (docs/parallel-run-step.md A6, A8).
pub(super) fn check(
    raw: &RawJob,
    dialect: JobFileDialect,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<Parent> {
    let flags = [&raw.copy_logs_to_parent, &raw.push_metrics_to_parent];
    let set_flags = flags.map(|flag| flag.as_ref().filter(|flag| flag.value));
    let Some(given) = &raw.parent else {
        if dialect.is_azure() {
            for flag in set_flags.into_iter().flatten() {
                report.conversion(format!(
                    "{}: ignored, the job is not part of another job here",
                    flag.key
                ));
            }
        } else if !report.has_error_at("parent") {
            for flag in set_flags.into_iter().flatten() {
                let message = "needs the folder of the parent job: set parent to the folder's path, or \
                               remove this setting";
                flag.blame(report, message);
            }
        }
        return None;
    };
    let text = given.value.trim();
    let folder = location.resolve(text);
    if text.is_empty() {
        given.blame(report, "found an empty text; name a folder, or leave the key out");
    } else if folder.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        given.blame(report, format!("{} is a file; name a folder", folder.display()));
    }
    let [copy_logs, push_metrics] = set_flags.map(|flag| flag.is_some());
    if !copy_logs && !push_metrics {
        report.notice(
            "parent has no effect: neither copy_logs_to_parent nor push_metrics_to_parent is true",
        );
        return None;
    }
    Some(Parent { folder, copy_logs, push_metrics })
}
