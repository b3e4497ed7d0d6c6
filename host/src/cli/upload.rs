//! `sandmill run --upload`: uploads what only this machine has of a job into its job store.

use super::exit::Problem;
use super::logging::LoggingArguments;
use super::say;
use crate::model::UploadedData;
use crate::run::{self, Options};
use crate::spec::JobSpec;

/// The message without a store.
const NO_STORE: &str = "--upload: the job file has no job_store: set job_store to a folder that the machines share, or to \
                        an address in a store";

/// Whether to upload.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct UploadArgument {
    /// Uploads inputs, side inputs and models that are on this machine into the job store, so that the other machines
    /// read them there. Files that are there already are not sent again.
    #[arg(long)]
    upload: bool,
}

impl UploadArgument {
    /// Whether the user wants it.
    pub(super) fn is_given(self) -> bool {
        self.upload
    }
}

/// Uploads the data of the job that is on this machine. Returns what replaces it.
pub(super) fn upload(
    spec: &JobSpec,
    options: &Options,
    logging: &LoggingArguments,
) -> Result<Vec<UploadedData>, Problem> {
    let place = spec.job_store.as_ref();
    let place = place.ok_or_else(|| Problem::usage(anyhow::Error::msg(NO_STORE)))?;
    let is_quiet = logging.quiet;
    let mut say_progress = |line: &str| {
        if !is_quiet {
            say(line);
        }
    };
    let uploads = run::upload_data(spec, place, options, &mut say_progress);
    let uploads = uploads.map_err(Problem::usage)?;
    if uploads.is_empty() {
        say_progress("--upload: the job has no inputs, side inputs or models on this machine");
    }
    Ok(uploads)
}
