//! `sandmill run --detach`: checks a job here, and lets an agent lead it.

use super::exit::{Exit, Problem};
use super::logging::LoggingArguments;
use super::run::{LoadedJob, RunArguments, output_path};
use super::say;
use crate::bus::{JobToLead, SourceToFetch};
use crate::engine::{JobFile, node_request, put_source};
use crate::model::shell_word;
use crate::node::find_script;
use crate::nodes::{Submitted, SubmittedJob, submit};
use crate::run;
use crate::spec::{JobSpec, JobStorePlace};
use std::path::Path;

/// The message without a broker.
const NO_BROKER: &str = "--detach: no broker is given: name the NATS server that connects the machines, as in \
                         --broker nats://HOST:4222";
/// The message without a store. A job file that is loaded for a broker has one.
const NO_STORE: &str = "--detach: the job file has no job_store";

/// The message for settings that do not fit a message to an agent.
const TOO_LARGE: &str =
    "--detach: the settings of --set are larger than 256 KiB: write them into the job file";

/// Submits a job to the agents.
pub(super) fn detach(
    arguments: &RunArguments,
    logging: &LoggingArguments,
) -> Result<Exit, Problem> {
    let wrong = |text| Problem::usage(anyhow::Error::msg(text));
    let has_broker = arguments.job.broker.find().is_some();
    has_broker.then_some(()).ok_or_else(|| wrong(NO_BROKER))?;
    let loaded = arguments.job.load(&arguments.counts)?;
    let LoadedJob { spec, sets, broker, .. } = arguments.uploaded(loaded, logging)?;
    let broker = broker.ok_or_else(|| wrong(NO_BROKER))?;
    let job_file = JobFile::new(&arguments.job.job, &sets);
    let paths = node_request(&spec, &job_file).map_err(Problem::usage)?;
    let address = spec.job_store.as_ref().and_then(JobStorePlace::address);
    // The agents use the text as the identity of the job.
    let address = address.map(|address| address.to_string().trim_end_matches('/').into());
    let store = address.or(paths.job_store).ok_or_else(|| wrong(NO_STORE))?;
    let results =
        spec.upload.as_ref().map(|address| address.to_string().trim_end_matches('/').into());
    let output = output_path(&spec, &results.or(paths.output).unwrap_or_default());
    let source = put(arguments, &spec, &job_file.path)?;
    let submitted = SubmittedJob {
        job: JobToLead {
            job: spec.name.clone(),
            file: job_file.path,
            overrides: job_file.overrides,
            store: store.join(&spec.name),
            source: Some(source),
            node_timeout: arguments.nodes.node_timeout(),
        },
        overwrite: arguments.overwrite,
        reuse: !arguments.no_reuse,
    };
    if submitted.job.is_too_large() {
        return Err(wrong(TOO_LARGE));
    }
    let done = submit(&broker, submitted, &mut say).map_err(Problem::usage)?;
    let text = match &done {
        Submitted::Leads { machine, job_dir } => {
            leads_text(&spec.name, machine, (&output, &store, job_dir))
        }
        Submitted::Ended { machine, text, .. } => format!("{machine} led the job:\n{text}"),
    };
    let exit = match done {
        Submitted::Leads { .. } | Submitted::Ended { code: 0, .. } => Exit::Completed,
        Submitted::Ended { code: 42, .. } => Exit::Failed,
        Submitted::Ended { .. } => Exit::Cancelled,
    };
    if !logging.quiet || exit != Exit::Completed {
        say(&text);
    }
    Ok(exit)
}

/// Puts what the agents need of the job into the job's store.
fn put(
    arguments: &RunArguments,
    spec: &JobSpec,
    job_file: &Path,
) -> Result<SourceToFetch, Problem> {
    let place = spec.job_store.as_ref();
    let place = place.ok_or_else(|| Problem::usage(anyhow::Error::msg(NO_STORE)))?;
    let mut options = arguments.job.options()?;
    options.cache_dir = arguments.cache_dir()?;
    let objects = run::job_objects(spec, place, &options.node()).map_err(Problem::usage)?;
    let script = find_script(spec, &options.node(), Some(job_file), &mut say);
    let script = script.map_err(Problem::usage)?;
    let content = put_source(&*objects, &spec.text, &script).map_err(Problem::usage)?;
    let tenant = spec.settings.tenant.clone();
    Ok(SourceToFetch { store: place.to_string(), tenant, content })
}

/// Where the job is led, and how to follow it.
fn leads_text(job: &str, machine: &str, (output, store, job_dir): (&Path, &Path, &Path)) -> String {
    let store = store.display().to_string();
    let place = format!("{} --store {}", shell_word(job), shell_word(&store));
    format!(
        "job {job}: the machine {machine} leads it\n  \
           output     {}\n  \
           directory  {job_dir} (on {machine})\n  \
           state      sandmill status {place}\n  \
           logs       sandmill logs {place}\n  \
           to end it  sandmill cancel {place}",
        output.display(),
        job_dir = job_dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_learns_how_to_follow_the_job() {
        let paths = ("/shared/out/rows.txt".as_ref(), "/shared/my jobs".as_ref(), "/j/a".as_ref());
        insta::assert_snapshot!(leads_text("nightly", "machine-2", paths), @"
        job nightly: the machine machine-2 leads it
          output     /shared/out/rows.txt
          directory  /j/a (on machine-2)
          state      sandmill status nightly --store '/shared/my jobs'
          logs       sandmill logs nightly --store '/shared/my jobs'
          to end it  sandmill cancel nightly --store '/shared/my jobs'
        ");
        let paths = ("s3://b/out".as_ref(), "s3://b/jobs".as_ref(), "/j/a".as_ref());
        insta::assert_snapshot!(leads_text("nightly", "machine-2", paths), @"
        job nightly: the machine machine-2 leads it
          output     s3://b/out
          directory  /j/a (on machine-2)
          state      sandmill status nightly --store s3://b/jobs
          logs       sandmill logs nightly --store s3://b/jobs
          to end it  sandmill cancel nightly --store s3://b/jobs
        ");
    }
}
