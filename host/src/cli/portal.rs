//! `sandmill portal`: shows one job to browsers of this machine.

use super::config::Config;
use super::exit::{Exit, Problem};
use super::policy::PolicyArgument;
use super::run::current_dir;
use super::which::{JobArgument, is_job_dir};
use super::{say, signals};
use anyhow::anyhow;
use sandmill_server::{PortalOptions, serve_job};
use std::net::SocketAddr;
use tokio::runtime::Builder;

#[derive(Debug, clap::Args)]
pub(super) struct PortalArguments {
    #[command(flatten)]
    job: JobArgument,
    /// The address at which the pages are. It must be a loopback address; port 0 means a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Shows a job until SIGTERM or Ctrl-C.
pub(super) fn portal(arguments: &PortalArguments) -> Result<Exit, Problem> {
    let dir = arguments.job.dir_below(&Config::load(&PolicyArgument::default())?)?;
    let job_dir = current_dir()?.join(&dir);
    if !is_job_dir(&job_dir) {
        return Err(Problem::usage(anyhow!(
            "{} is not a job directory: it has no job.json; name the folder that `sandmill run` made \
             (jobs/<the job's name> unless --job-dir said otherwise)",
            dir.display()
        )));
    }
    let options = PortalOptions { job_dir, listen: arguments.listen };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::usage(anyhow!("{error}")))?;
    runtime.block_on(async {
        let end = signals::first_end().map_err(Problem::usage)?;
        let announce = |address| {
            say(&format!(
                "the job is shown at http://{address} until Ctrl-C; all users of this machine can read it there"
            ));
        };
        serve_job(options, announce, end).await.map_err(|error| Problem::usage(anyhow!("{error}")))
    })?;
    Ok(Exit::Completed)
}
