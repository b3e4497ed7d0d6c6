//! Uploads the results of a completed job to a store.

use super::{Options, PrepareError, job_objects};
use crate::engine::{DirToPublish, RunToPublish};
use crate::model::{JobDir, fail_point};
use crate::node;
use crate::spec::JobSpec;
use std::path::Path;

/// Uploads the results of a completed job to the store that the job names, if it names one. Then removes the copies
/// of results that the job's [store](JobSpec::job_store) has.
///
/// # Errors
/// If the policy does not allow the store, if the results could not be uploaded, or if the job was started over
/// elsewhere since.
pub fn upload_results(
    spec: &JobSpec,
    options: &Options,
    output: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), PrepareError> {
    let published = publish(spec, options, output, say);
    options.lead_keeper.end();
    published
}

fn publish(
    spec: &JobSpec,
    options: &Options,
    output: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), PrepareError> {
    if spec.upload.is_none() {
        return Ok(());
    }
    let node = options.node();
    let job_dir = JobDir::new(&options.job_dir);
    let held = DirToPublish::lock(&job_dir)?;
    let objects = spec.job_store.as_ref().map(|place| job_objects(spec, place, &node));
    let run = match objects.transpose()? {
        Some(objects) => RunToPublish::find(objects, &job_dir)?,
        None => None,
    };
    let may_publish = run.as_ref().map(|run| {
        || {
            let is_latest = run.check().is_ok();
            fail_point::pass("results-publishing");
            is_latest
        }
    });
    let may_publish = may_publish.as_ref().map(|ask| ask as &dyn Fn() -> bool);
    let uploaded = node::upload_results(spec, &node, output, may_publish, say);
    if let (Err(_), Some(run)) = (&uploaded, &run) {
        // This is the better reason.
        run.check()?;
    }
    uploaded.map_err(PrepareError::Node)?;
    if let Some(Err(error)) = run.map(|run| run.publish()) {
        say(&format!(
            "the results are written, but copies of them stay in the job store, which may not say that the job is \
             completed (run the job again to mend this): {error}"
        ));
        // The job directory says the same as the store.
        return Ok(());
    }
    Ok(held.published()?)
}
