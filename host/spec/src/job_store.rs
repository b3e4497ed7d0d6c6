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
        let address = address(given, report)?;
        check_output_beside(&address, raw, report);
        return Some(JobStorePlace::Address(address));
    }
    let folder = location.resolve(text);
    if folder.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        given.blame(report, format!("{} is a file; name a folder", folder.display()));
    }
    Some(JobStorePlace::Folder(folder))
}

/// Checks that the results of a job whose job store is at an address go to a store, too, and not to the same place.
fn check_output_beside(store: &Address, raw: &RawJob, report: &ErrorReport) {
    let Some(given) = &raw.output else { return };
    let text = given.value.trim();
    if !Address::looks_like_one(text) {
        let message = format!(
            "found {text}, a folder of this machine; with a job_store in a store, the results must go to a store, \
             too (e.g. s3://bucket/results)"
        );
        given.blame(report, message);
        return;
    }
    let Ok(output) = text.parse::<Address>() else { return };
    let folder = |address: &Address| format!("{}/", address.key.trim_end_matches('/'));
    let (store_folder, output_folder) = (folder(store), folder(&output));
    let contains =
        store_folder.starts_with(&output_folder) || output_folder.starts_with(&store_folder);
    let is_root = [store, &output].iter().any(|address| address.key.trim_matches('/').is_empty());
    if store.place == output.place && (contains || is_root) {
        let message = format!(
            "found {output}, and job_store is {store}: one must not be in the other; name two folders, such as \
             {place}/results and {place}/jobs",
            place = store.place
        );
        given.blame(report, message);
    }
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
