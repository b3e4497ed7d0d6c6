//! Checks the folder of a job's commit log.

use super::error::ErrorReport;
use super::job_file_location::JobFileLocation;
use super::raw::RawJob;
use crate::model::Address;
use std::path::PathBuf;

/// Returns the folder of commit logs. `None` if the job has no commit log.
pub(super) fn check(
    raw: &RawJob,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<PathBuf> {
    let given = raw.job_store.as_ref()?;
    let text = given.value.trim();
    if text.is_empty() {
        given.blame(report, "found an empty text; name a folder, or leave the key out");
        return None;
    }
    if Address::looks_like_one(text) {
        let message =
            format!("found {text}, an address in a store; name a folder that the machines share");
        given.blame(report, message);
        return None;
    }
    let folder = location.resolve(text);
    if folder.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        given.blame(report, format!("{} is a file; name a folder", folder.display()));
    }
    if let Some(output) = &raw.output {
        if Address::looks_like_one(output.value.trim()) {
            let message = "needs a folder as output: results for an address in a store stay on one machine \
                           until the job ends; name a folder that the machines share";
            output.blame(report, message);
        }
    } else if !report.has_error_at("output") {
        let message = "needs output: name a folder that the machines share, too, because the job directory, \
                       where results go otherwise, is on one machine";
        given.blame(report, message);
    }
    Some(folder)
}
