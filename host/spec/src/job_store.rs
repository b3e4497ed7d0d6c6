//! Checks where a job's commit log is.

use super::error::ErrorReport;
use super::job_file_location::JobFileLocation;
use super::job_store_place::JobStorePlace;
use super::output;
use super::raw::RawJob;
use super::scope::Located;
use crate::model::{Address, StorePlace};

/// Returns the place of commit logs. `None` if the job has no commit log, or if there was an error.
pub(super) fn check(
    raw: &RawJob,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<JobStorePlace> {
    let given = raw.job_store.as_ref()?;
    let text = given.value.trim();
    if text.is_empty() {
        given.blame(
            report,
            "found an empty text; name a folder or an address, or leave the key out",
        );
        return None;
    }
    if raw.output.is_none() && !report.has_error_at("output") {
        let message = "needs output: name a folder that the machines share, or an address in a store, too. \
                       Otherwise results go to the job directory, which is on one machine";
        given.blame(report, message);
    }
    if Address::looks_like_one(text) {
        return address(given, report).map(JobStorePlace::Address);
    }
    let folder = location.resolve(text);
    if folder.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        given.blame(report, format!("{} is a file; name a folder", folder.display()));
    }
    Some(JobStorePlace::Folder(folder))
}

fn address(given: &Located<String>, report: &ErrorReport) -> Option<Address> {
    let address = output::address(given, report)?;
    if matches!(address.place, StorePlace::Http(_)) {
        let message = format!(
            "found {address}; a web server cannot keep a commit log: name a folder that the machines share, or \
             an address that begins with s3://, az://, gs:// or datastore://"
        );
        given.blame(report, message);
        return None;
    }
    Some(address)
}
