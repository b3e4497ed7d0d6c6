//! `sandmill resume`: `sandmill run` with the settings that the job directory stores.

use super::broker::{BrokerArgument, PatienceArguments};
use super::config::Config;
use super::datastores::DatastoresArgument;
use super::event_thread::FollowerArguments;
use super::exit::{Exit, Problem};
use super::logging::LoggingArguments;
use super::policy::PolicyArgument;
use super::registry::RegistryNames;
use super::run::{
    BackendArguments, KeyAndValue, OptionSettings, prepare_and_run, setting, this_program,
};
use super::signer::SigningKeyArgument;
use super::which::JobArgument;
use crate::engine::{ClaimError, JobFile, JobState};
use crate::load::this_machine;
use crate::model::JobDir;
use crate::run::Options;
use crate::spec::{self, LoadContext, MachineSize};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct ResumeArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Sets KEY of the job file to VALUE. The other settings with which the job began stay in force. Only settings
    /// that do not change the rows may be set (time-outs, limits, thresholds, numbers of workers and attempts).
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    sets: Vec<KeyAndValue>,
    #[command(flatten)]
    counts: OptionSettings,
    /// The folder for compiled entry scripts, as for `run`.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    backends: BackendArguments,
    #[command(flatten)]
    policy: PolicyArgument,
    #[command(flatten)]
    datastores: DatastoresArgument,
    #[command(flatten)]
    broker: BrokerArgument,
    #[command(flatten)]
    nodes: PatienceArguments,
    #[command(flatten)]
    signer: SigningKeyArgument,
    #[command(flatten)]
    followers: FollowerArguments,
}

/// Resumes a job that was interrupted, failed or was cancelled.
pub(super) fn resume(
    arguments: &ResumeArguments,
    logging: &LoggingArguments,
) -> Result<Exit, Problem> {
    let config = Config::load(&arguments.policy)?;
    let dir = arguments.job.dir_below(&config)?;
    let job_dir = JobDir::new(&dir);
    let refused = |error: ClaimError| Err(Problem::usage(error));
    let Some(state) = JobState::read(&job_dir).map_err(Problem::usage)? else {
        return refused(ClaimError::NoJob(dir));
    };
    let Some(JobFile { path, overrides, latest, .. }) = state.job_file else {
        return refused(ClaimError::NoJobFile { dir, name: state.name });
    };
    let new_sets = arguments.counts.appended_to(&arguments.sets);
    let mut job_file = JobFile::new(&path, &[overrides, new_sets].concat());
    let policy = arguments.policy.load()?;
    let names = RegistryNames::with(latest);
    let broker = arguments.broker.find();
    let machine = MachineSize { has_broker: broker.is_some(), ..this_machine() };
    let context = LoadContext { policy: &policy, registrations: &names, machine: &machine };
    let spec = spec::load(&job_file.path, &job_file.overrides, context)
        .map_err(|errors| Problem::each_line(&errors.to_string()))?;
    job_file.latest.clone_from(&spec.latest);
    let mut options = Options::new(&dir, this_program()?);
    options.cache_dir = config.cache_dir(arguments.cache_dir.as_deref());
    options.onnxruntime = arguments.backends.onnxruntime(policy.file(), &config);
    options.policy = policy;
    options.signing_key = arguments.signer.load(broker.as_ref())?;
    options.broker = broker;
    options.node_timeout = arguments.nodes.node_timeout();
    options.takeover = arguments.nodes.takeover();
    options.datastores = arguments.datastores.load()?;
    options.job_file = Some(job_file);
    prepare_and_run(spec, options, logging, &arguments.followers)
}
