//! `sandmill resume`: `sandmill run` with the settings that the job directory or the job store has.

use super::broker::{BrokerArgument, PatienceArguments};
use super::config::Config;
use super::event_thread::FollowerArguments;
use super::exit::{Exit, Problem};
use super::job_source::{AnyJobArgument, JobSource};
use super::logging::LoggingArguments;
use super::policy::{PolicyArgument, TenantArgument};
use super::registry::RegistryNames;
use super::resume_stored::{self, ResumedFromStore};
use super::run::{
    BackendArguments, KeyAndValue, NO_STORE, OptionSettings, prepare_and_run, setting, this_program,
};
use super::signer::SigningKeyArgument;
use crate::engine::{ClaimError, JobFile, JobState, StoredView};
use crate::load::this_machine;
use crate::model::{JobDir, shell_word};
use crate::nodes::{FetchedJob, with_advice};
use crate::report::Resume;
use crate::run::Options;
use crate::spec::{self, JobSpec, LoadContext, MachineSize, NoRegistry, OperatorPolicy};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct ResumeArguments {
    #[command(flatten)]
    pub(super) job: AnyJobArgument,
    /// Sets KEY of the job file to VALUE. The other settings with which the job began stay in force. Only settings
    /// that do not change the rows may be set (time-outs, limits, thresholds, numbers of workers and attempts).
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    sets: Vec<KeyAndValue>,
    /// Waits while another machine runs the job, and continues it if that machine is lost, as for `run`.
    #[arg(long)]
    standby: bool,
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
    tenant: TenantArgument,
    #[command(flatten)]
    broker: BrokerArgument,
    #[command(flatten)]
    nodes: PatienceArguments,
    #[command(flatten)]
    signer: SigningKeyArgument,
    #[command(flatten)]
    followers: FollowerArguments,
}

/// A job to resume.
struct JobToResume {
    spec: JobSpec,
    policy: OperatorPolicy,
    job_file: JobFile,
    dir: PathBuf,
    /// Keeps the entry script's files, if they were fetched.
    _fetched: Option<FetchedJob>,
}

/// The advice if a job that was started with a broker cannot be used.
const NO_BROKER: &str = "\nthe job was started with a broker; to use one, add --broker URL";

/// Resumes a job that was interrupted, failed or was cancelled.
pub(super) fn resume(
    arguments: &ResumeArguments,
    logging: &LoggingArguments,
) -> Result<Exit, Problem> {
    let config = Config::load(&arguments.policy)?;
    let broker = arguments.broker.find();
    let machine = MachineSize { has_broker: broker.is_some(), ..this_machine() };
    let job = match arguments.job.find_below(&config)? {
        JobSource::Directory(dir) => arguments.in_directory(dir, &machine)?,
        JobSource::Store(view, store) => arguments.in_store((&view, &store), &config, &machine)?,
    };
    let JobToResume { spec, policy, mut job_file, dir, _fetched } = job;
    if arguments.standby && spec.job_store.is_none() {
        return Err(Problem::usage(anyhow::Error::msg(NO_STORE)));
    }
    job_file.latest.clone_from(&spec.latest);
    let mut options = Options::new(&dir, this_program()?);
    options.cache_dir = config.cache_dir(arguments.cache_dir.as_deref());
    options.onnxruntime = arguments.backends.onnxruntime(policy.file(), &config);
    options.policy = policy;
    options.signing_key = arguments.signer.load(broker.as_ref())?;
    options.broker = broker;
    options.node_timeout = arguments.nodes.node_timeout();
    options.takeover = arguments.nodes.takeover();
    options.standby = arguments.standby;
    options.datastores = arguments.job.datastores.load()?;
    let advice = run_advice(&job_file, &options);
    options.job_file = Some(job_file);
    let exit = prepare_and_run(spec, options, logging, &arguments.followers);
    exit.map_err(|problem| match problem.to_string().contains("--overwrite") {
        true => problem.with(&advice),
        false => problem,
    })
}

/// How to use options of `run` that an error names, and that `resume` does not have.
fn run_advice(job_file: &JobFile, options: &Options) -> String {
    let broker = options.broker.as_ref().map(|broker| broker.url.clone());
    // A URL may have a password.
    let broker = broker.filter(|url| !url.contains('@'));
    let broker = broker.map(|url| vec!["--broker".to_owned(), url]).unwrap_or_default();
    // A value may be a secret: the user adds it again.
    let is_shown = |(key, _): &&KeyAndValue| !key.starts_with("environment_variables");
    let sets: Vec<KeyAndValue> = job_file.overrides.iter().filter(is_shown).cloned().collect();
    let command = Resume::elsewhere(&broker, &job_file.path, &sets);
    format!(
        "--overwrite and --job-dir are options of sandmill run: {} --job-dir {} --overwrite",
        command.advice("", ""),
        shell_word(&options.job_dir.display().to_string())
    )
}

impl ResumeArguments {
    /// Whether settings are given.
    #[cfg(feature = "server")]
    pub(super) fn has_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// The settings with which the job began, and those of the command line. Later ones win.
    fn sets(&self, began_with: Vec<KeyAndValue>) -> Vec<KeyAndValue> {
        [began_with, self.counts.appended_to(&self.sets)].concat()
    }

    /// A job in a job directory of this machine.
    fn in_directory(&self, dir: PathBuf, machine: &MachineSize) -> Result<JobToResume, Problem> {
        let refused = |error: ClaimError| Err(Problem::usage(error));
        let Some(state) = JobState::read(&JobDir::new(&dir)).map_err(Problem::usage)? else {
            return refused(ClaimError::NoJob(dir));
        };
        let Some(JobFile { path, overrides, latest, uploads, source }) = state.job_file else {
            return refused(ClaimError::NoJobFile { dir, name: state.name });
        };
        let mut job_file = JobFile::new(&path, &self.sets(overrides));
        let policy = self.tenant.policy(&self.policy)?;
        let registrations = &RegistryNames::with(latest);
        let context = LoadContext { policy: &policy, registrations, machine, uploads: &uploads };
        let spec = spec::load(&job_file.path, &job_file.overrides, context)
            .map_err(|errors| Problem::each_line(&errors.to_string()))?;
        job_file.uploads = uploads;
        job_file.source = source;
        Ok(JobToResume { spec, policy, job_file, dir, _fetched: None })
    }

    /// A job in a job store, whose job file this machine does not have.
    fn in_store(
        &self,
        (view, store): (&StoredView, &Path),
        config: &Config,
        machine: &MachineSize,
    ) -> Result<JobToResume, Problem> {
        let mut options = Options::new(PathBuf::new(), this_program()?);
        options.cache_dir = config.cache_dir(self.cache_dir.as_deref());
        options.policy = self.tenant.policy(&self.policy)?;
        options.datastores = self.job.datastores.load()?;
        let policy = options.policy.clone();
        let resumed = resume_stored::fetch((view, store), &options.node())?;
        let ResumedFromStore { name, job_file: recorded, fetched } = resumed;
        let mut job_file = JobFile::new(&recorded.path, &self.sets(recorded.overrides));
        job_file.source = recorded.source;
        let given = &fetched.given;
        let context =
            LoadContext { policy: &policy, registrations: &NoRegistry, machine, uploads: &[] };
        let spec = spec::load_given(&job_file.path, given, &job_file.overrides, context).map_err(
            |errors| {
                let advice = if machine.has_broker { "" } else { NO_BROKER };
                Problem::each_line(&format!("{}{advice}", with_advice(&errors, &policy)))
            },
        )?;
        resume_stored::check_place(&spec, store)?;
        job_file.uploads.clone_from(&given.text.uploads);
        let here = std::env::current_dir().map_err(Problem::usage)?;
        let dir = here.join(config.jobs_root()).join(name);
        Ok(JobToResume { spec, policy, job_file, dir, _fetched: Some(fetched) })
    }
}
