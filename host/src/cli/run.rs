//! `sandmill run`: runs a job, from the job file to the exit code.
//!
//! If the job was run before, this command resumes the job or reuses its result.

use super::broker::{BrokerArgument, PatienceArguments};
use super::config::Config;
use super::datastores::DatastoresArgument;
use super::error::ArgumentError;
use super::event_thread::FollowerArguments;
use super::exit::{Exit, Problem};
use super::limit;
use super::logging::LoggingArguments;
use super::policy::{PolicyArgument, TenantArgument, other_policy};
use super::registry::RegistryNames;
use super::signer::SigningKeyArgument;
use super::upload::{self, UploadArgument};
use super::{refused, say, signals, terminal};
use crate::bus::Broker;
use crate::cancel::Cancel;
use crate::engine::{self, ClaimError, JobFile, Reused};
use crate::inference::NamedLibrary;
use crate::load::this_machine;
use crate::model::{InputKind, JobDir, JobResult, JobStatus, OutputAction, UploadedData};
use crate::node::{NodeError, PythonError};
use crate::nodes::{Assignment, with_advice};
use crate::report::{
    self, ParentFolder, ReportBudget, ReportPaths, Reporter, Reporters, Resume, StatusDisplay,
    Unit, log_tree, reused_text,
};
use crate::run::{self, Options, PrepareError, Prepared, ReadyJob};
use crate::spec::{self, GivenJob, JobSpec, LoadContext, MachineSize, OperatorPolicy};
use anyhow::Context;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

/// The job, and the settings that override its file.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct JobArguments {
    /// The job file.
    #[arg(value_name = "JOB.yaml")]
    pub(super) job: PathBuf,
    /// Sets KEY of the job file to VALUE, written as in the file; may be given many times.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    sets: Vec<KeyAndValue>,
    /// The parallel job to run, if a pipeline file has several.
    #[arg(long = "job", value_name = "NAME")]
    picked: Option<String>,
    #[command(flatten)]
    policy: PolicyArgument,
    #[command(flatten)]
    tenant: TenantArgument,
    #[command(flatten)]
    pub(super) datastores: DatastoresArgument,
    #[command(flatten)]
    pub(super) broker: BrokerArgument,
}

/// A key of the job file and its value.
pub(super) type KeyAndValue = (String, String);

impl JobArguments {
    /// All settings from the command line; later ones win.
    pub(super) fn all_sets(&self, counts: &OptionSettings) -> Vec<KeyAndValue> {
        let picked = self.picked.as_ref().map(|name| ("job".to_owned(), name.clone()));
        counts.appended_to(&self.sets).into_iter().chain(picked).collect()
    }

    /// The user's config file; empty if there is a policy.
    fn config(&self) -> Result<Config, Problem> {
        Config::load(&self.policy)
    }

    /// Options with the policy and the datastores, for a process that fetches the job first.
    pub(super) fn options(&self) -> Result<Options, Problem> {
        let mut options = Options::new(PathBuf::new(), this_program()?);
        options.policy = self.tenant.policy(&self.policy)?;
        options.datastores = self.datastores.load()?;
        Ok(options)
    }

    /// Reads the job file under the operator's policy.
    pub(super) fn load(&self, counts: &OptionSettings) -> Result<LoadedJob, Problem> {
        self.load_given((None, &[]), counts)
    }

    /// As [`load`](Self::load), with what replaces paths of this machine.
    pub(super) fn load_uploaded(
        &self,
        uploads: &[UploadedData],
        counts: &OptionSettings,
    ) -> Result<LoadedJob, Problem> {
        self.load_given((None, uploads), counts)
    }

    /// As [`load`](Self::load), for a job that may have been fetched.
    fn load_given(
        &self,
        (given, uploads): (Option<&GivenJob>, &[UploadedData]),
        counts: &OptionSettings,
    ) -> Result<LoadedJob, Problem> {
        let policy = self.tenant.policy(&self.policy)?;
        let mut sets = self.all_sets(counts);
        let broker = self.broker.find();
        let machine = MachineSize { has_broker: broker.is_some(), ..this_machine() };
        let names = RegistryNames::default();
        let context =
            LoadContext { policy: &policy, registrations: &names, machine: &machine, uploads };
        let read = |sets: &[KeyAndValue]| match given {
            Some(given) => spec::load_given(&self.job, given, sets, context)
                .map_err(|errors| Problem::each_line(&with_advice(&errors, &policy))),
            None => spec::load(&self.job, sets, context).map_err(refused),
        };
        let mut spec = read(&sets)?;
        if let Some(limit) = counts.limit {
            // The names of the inputs are known only after the first load.
            sets.extend(limit::settings(&spec, limit)?);
            spec = read(&sets)?;
        }
        Ok(LoadedJob { spec, policy, sets, broker })
    }
}

/// A loaded job file.
pub(super) struct LoadedJob {
    pub(super) spec: JobSpec,
    pub(super) policy: OperatorPolicy,
    /// The settings from the command line; later ones win.
    pub(super) sets: Vec<KeyAndValue>,
    /// The broker; `None` if this machine runs the workers.
    pub(super) broker: Option<Broker>,
}

/// Settings that have their own options.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct OptionSettings {
    /// Number of workers; the same as --set process_count_per_node=N.
    #[arg(long, value_name = "N", value_parser = workers)]
    process_count: Option<NonZeroU32>,
    /// Number of GPUs that workers may lease, 0 for none; the same as --set gpus=N.
    #[arg(long, value_name = "N", value_parser = gpus)]
    gpus: Option<u32>,
    /// Takes only the first N items of each input (rows of a table, or files), for a first try.
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroU64>,
    /// With a broker: machines may compute models with other libraries, versions or devices than each other; the same
    /// as --set allow_mixed_backends=true.
    #[arg(long)]
    allow_mixed: bool,
    /// Runs only this share of the mini-batches, such as 1%, for a first try; the same as --set
    /// sample=PERCENT.
    #[arg(long, value_name = "PERCENT", conflicts_with = "limit")]
    sample: Option<String>,
}

impl OptionSettings {
    /// The given settings, followed by the settings of these options.
    pub(super) fn appended_to(&self, sets: &[KeyAndValue]) -> Vec<KeyAndValue> {
        let processes = self.process_count.map(|n| ("process_count_per_node", n.to_string()));
        let gpus = self.gpus.map(|n| ("gpus", n.to_string()));
        let sample = self.sample.as_ref().map(|share| ("sample", share.clone()));
        let mixed = self.allow_mixed.then(|| ("allow_mixed_backends", "true".to_owned()));
        let given = processes.into_iter().chain(gpus).chain(sample).chain(mixed);
        let given = given.map(|(key, n)| (key.to_owned(), n));
        sets.iter().cloned().chain(given).collect()
    }

    /// A notice that the job is only a first try; `None` if it is not.
    fn first_try_notice(&self, spec: &JobSpec) -> Option<String> {
        let sample = spec.settings.sample;
        match self.limit {
            Some(limit) => {
                Some(format!("only the first {limit} items of each input are taken (--limit)"))
            }
            None if sample.is_all() => None,
            None => Some(format!("about {sample} % of the mini-batches are run (sample)")),
        }
    }
}

pub(super) fn setting(text: &str) -> Result<KeyAndValue, ArgumentError> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err(ArgumentError::Setting),
    }
}

fn workers(text: &str) -> Result<NonZeroU32, ArgumentError> {
    text.parse().map_err(|_| ArgumentError::Workers)
}

fn gpus(text: &str) -> Result<u32, ArgumentError> {
    text.parse().map_err(|_| ArgumentError::Gpus)
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    pub(super) job: JobArguments,
    /// The folder for the job's state, logs and output [default: the job's name, in the folder of
    /// $SANDMILL_JOBS_ROOT, else of jobs_root in the user's config file, else in jobs].
    #[arg(long, value_name = "DIR")]
    pub(super) job_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) counts: OptionSettings,
    /// Starts anew if the job was run before; its results are removed first.
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Waits while another machine runs the job, and continues it if that machine is lost. The job file must have
    /// job_store. If the other machine completes the job, its result is reused. If the job fails or is cancelled
    /// there, this process ends with the same exit code.
    #[arg(long, conflicts_with_all = ["overwrite", "no_reuse"])]
    standby: bool,
    #[command(flatten)]
    pub(super) nodes: PatienceArguments,
    #[command(flatten)]
    signer: SigningKeyArgument,
    /// With a broker: submits the job to an agent, which leads it, and ends when the agent has begun.
    #[arg(long, conflicts_with_all = [
        "standby", "no_takeover", "job_dir", "dry_run", "onnxruntime", "events", "json", "on_end",
    ])]
    pub(super) detach: bool,
    #[command(flatten)]
    pub(super) upload: UploadArgument,
    /// Shows what would be run, as `plan` does, and runs nothing.
    #[arg(long, conflicts_with = "upload")]
    pub(super) dry_run: bool,
    /// Fails if the job is already finished, instead of reusing its result.
    #[arg(long)]
    pub(super) no_reuse: bool,
    /// The folder for compiled entry scripts [default: $SANDMILL_CACHE_DIR, else cache_dir of the user's
    /// config file, else sandmill in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    backends: BackendArguments,
    #[command(flatten)]
    followers: FollowerArguments,
}

/// The backends for models.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct BackendArguments {
    /// ONNX Runtime's library, or a folder that holds it, for jobs with models [default:
    /// $SANDMILL_ONNXRUNTIME, else $ORT_DYLIB_PATH, else, without a policy, onnxruntime of the user's config
    /// file, else where it is found: in the active virtual environment, beside python3, or in the usual
    /// places].
    #[arg(long, value_name = "PATH")]
    onnxruntime: Option<PathBuf>,
}

impl BackendArguments {
    /// The path that the command line names.
    pub(super) fn given(&self) -> Option<PathBuf> {
        self.onnxruntime.clone()
    }

    /// The path of ONNX Runtime, as given or as found. Under a policy, Sandmill does not search for it: the
    /// environment must not choose the code that the host loads for another user's job.
    pub(super) fn onnxruntime(
        &self,
        policy: Option<&Path>,
        config: &Config,
    ) -> Option<NamedLibrary> {
        let given = NamedLibrary::given(self.onnxruntime.as_deref());
        given
            .or_else(|| config.onnxruntime())
            .or_else(|| if policy.is_none() { NamedLibrary::found() } else { None })
    }
}

impl RunArguments {
    /// Uploads the data of the job that is on this machine, if the user wants it, and reads the job again with it.
    pub(super) fn uploaded(
        &self,
        loaded: LoadedJob,
        logging: &LoggingArguments,
    ) -> Result<LoadedJob, Problem> {
        if !self.upload.is_given() {
            return Ok(loaded);
        }
        let mut options = self.job.options()?;
        options.cache_dir = self.cache_dir()?;
        options.job_dir = self.job_dir(&loaded.spec)?;
        let uploads = upload::upload(&loaded.spec, &options, logging)?;
        self.job.load_uploaded(&uploads, &self.counts)
    }

    /// The job directory on this machine.
    fn job_dir(&self, spec: &JobSpec) -> Result<PathBuf, Problem> {
        let named = match &self.job_dir {
            Some(named) => named.clone(),
            None => self.job.config()?.jobs_root().join(&spec.name),
        };
        Ok(current_dir()?.join(named))
    }

    /// The folder for compiled entry scripts, and for what is built of crates. `None` means the user's cache folder.
    pub(super) fn cache_dir(&self) -> Result<Option<PathBuf>, Problem> {
        Ok(self.job.config()?.cache_dir(self.cache_dir.as_deref()))
    }
}

/// The message for a standby without a store.
pub(super) const NO_STORE: &str = "--standby: the job file has no job_store, so this machine cannot continue a job of \
                        another one: set job_store to a folder that the machines share, or to an address in \
                        a store";

pub(super) fn run(arguments: &RunArguments, logging: &LoggingArguments) -> Result<Exit, Problem> {
    run_assigned(arguments, logging, None)
}

/// How an agent has started this process.
pub(super) struct Assigned<'a> {
    /// The command line.
    pub(super) command: Vec<String>,
    pub(super) assignment: Assignment,
    /// The job, if it was fetched.
    pub(super) job: Option<&'a GivenJob>,
}

/// As [`run`]. `assigned`: `None` if a user started this process.
pub(super) fn run_assigned(
    arguments: &RunArguments,
    logging: &LoggingArguments,
    assigned: Option<Assigned<'_>>,
) -> Result<Exit, Problem> {
    let given = assigned.as_ref().and_then(|assigned| assigned.job);
    let loaded = arguments.job.load_given((given, &[]), &arguments.counts)?;
    let loaded = arguments.uploaded(loaded, logging)?;
    let LoadedJob { spec, policy, sets, broker } = loaded;
    if arguments.standby && spec.job_store.is_none() {
        return Err(Problem::usage(anyhow::Error::msg(NO_STORE)));
    }
    let config = arguments.job.config()?;
    let mut options = Options::new(arguments.job_dir(&spec)?, this_program()?);
    options.cache_dir = config.cache_dir(arguments.cache_dir.as_deref());
    options.policy = policy;
    options.signing_key = arguments.signer.load(broker.as_ref())?;
    options.broker = broker;
    options.node_timeout = arguments.nodes.node_timeout();
    options.datastores = arguments.job.datastores.load()?;
    options.onnxruntime = arguments.backends.onnxruntime(options.policy.file(), &config);
    options.overwrite = arguments.overwrite;
    options.reuse = !arguments.no_reuse;
    options.standby = arguments.standby;
    options.takeover = arguments.nodes.takeover();
    if let Some(Assigned { command, assignment, .. }) = assigned {
        options.command = command;
        options.assignment = Some(assignment);
    }
    options.notices.extend(arguments.counts.first_try_notice(&spec));
    let mut job_file = JobFile::new(&arguments.job.job, &sets);
    job_file.latest.clone_from(&spec.latest);
    job_file.uploads.clone_from(&spec.text.uploads);
    options.job_file = Some(job_file);
    prepare_and_run(spec, options, logging, &arguments.followers)
}

pub(super) fn current_dir() -> Result<PathBuf, Problem> {
    std::env::current_dir().context("the current folder cannot be found").map_err(Problem::usage)
}

/// Runs a checked job. Returns its exit code.
pub(super) fn prepare_and_run(
    spec: JobSpec,
    mut options: Options,
    logging: &LoggingArguments,
    followers: &FollowerArguments,
) -> Result<Exit, Problem> {
    let is_quiet = logging.quiet;
    let say_progress = move |text: &str| {
        if !is_quiet {
            say(text);
        }
    };
    let shown_from = current_dir()?;
    if options.command.is_empty() {
        options.command = std::env::args_os().map(|word| word.to_string_lossy().into()).collect();
    }
    if !options.overwrite {
        options.notices.extend(other_policy(&options));
    }
    // A policy means that jobs may come from other users.
    if options.policy.file().is_some() && rustix::process::geteuid().is_root() {
        options.notices.push(engine::RUNS_AS_ROOT.to_owned());
    }
    let options = &options;
    // Read the columns of the last run now. If the job starts anew, the file that has them is removed later.
    let columns = report::earlier_columns(&JobDir::new(&options.job_dir));
    let paths =
        |spec: &JobSpec, job_dir: &JobDir, output: &Path, parent: Option<&PathBuf>| ReportPaths {
            job: spec.name.clone(),
            description: spec.settings.description.clone(),
            job_dir: job_dir.clone(),
            logs: None,
            word: None,
            output: output_path(spec, output),
            earlier_columns: columns.clone(),
            resume: Resume::for_command(&options.command, options.job_file.is_some()),
            unit: unit(&spec.input_kind),
            drops_rows: spec.worker.output_action == OutputAction::SummaryOnly,
            made_at_end: spec.output_format.is_made_at_end(),
            shown_from: shown_from.clone(),
            parent: spec.parent.as_ref().zip(parent).map(|(parent, folder)| ParentFolder {
                folder: folder.clone(),
                copy_logs: parent.copy_logs,
                push_metrics: parent.push_metrics,
            }),
            metrics_name_prefix: spec.settings.metrics_name_prefix.clone(),
            reports: ReportBudget::new(spec.job_limits.reports),
        };
    let target = match options.assignment {
        None => signals::watch(options.cancel.clone()).map(Some),
        // The agent decides when this process ends. A signal that a service manager sends to all processes of the
        // agent must not cancel the job.
        Some(_) => signals::on_each(|_, _| {}).map(|()| None),
    };
    let target = target.map_err(|e| say(&format!("warning: Ctrl-C will not wind down: {e}")));
    let target = target.ok().flatten();
    let named = spec.clone();
    let write_results = |output: &Path, exit: Exit| match exit {
        Exit::Completed => {
            upload_results(&named, options, output, &mut { say_progress }).map(|()| exit)
        }
        other => {
            options.lead_keeper.end();
            Ok(other)
        }
    };
    let prepared = match run::prepare(spec, options, &mut { say_progress }) {
        Ok(prepared) => prepared,
        // After Ctrl-C, the error may look like a failure of the compiler, because the compiler's process
        // gets the signal, too.
        Err(error) => {
            return match options.cancel.reason() {
                Some(reason) => {
                    say(&NodeError::Cancelled(reason).to_string());
                    Ok(Exit::Cancelled)
                }
                None => match ended_elsewhere(&error) {
                    Some(Exit::Completed) => {
                        say(&error.to_string());
                        Ok(Exit::Completed)
                    }
                    Some(exit) => {
                        say(&format!("error: {error}"));
                        Ok(exit)
                    }
                    None => Err(not_prepared(error)),
                },
            };
        }
    };
    match prepared {
        Prepared::Job(job) => {
            let paths = paths(&job.spec, &job.job_dir, job.claim.output(), job.parent.as_ref());
            let output = job.claim.output().to_owned();
            let shown = (target.as_ref(), logging.shown(), followers.reporter());
            let result = start(*job, &paths, &options.cancel, shown)?;
            let exit = write_results(&output, exit_of(&result));
            let status = if exit.is_err() { JobStatus::Failed } else { result.status };
            followers.call(&paths.job, &paths.job_dir, status);
            followers.print(&paths, &result, false)?;
            exit
        }
        Prepared::Reused(earlier) => {
            let Reused { spec, result, ended, output, job_dir } = &*earlier;
            let paths = paths(spec, job_dir, output, None);
            say_progress(reused_text(result, *ended, &paths).trim_end());
            let exit = write_results(output, Exit::Completed);
            let status = if exit.is_err() { JobStatus::Failed } else { result.status };
            followers.call(&paths.job, job_dir, status);
            followers.print(&paths, result, true)?;
            exit
        }
    }
}

/// Uploads the results to a store, if the job file names one.
fn upload_results(
    spec: &JobSpec,
    options: &Options,
    output: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), Problem> {
    run::upload_results(spec, options, output, say).map_err(|error| match error {
        PrepareError::JobDir(ClaimError::Superseded(_)) => Problem::failed(error),
        PrepareError::JobDir(ClaimError::UnpublishedLogGone(_)) => {
            Problem::failed(anyhow::anyhow!("{error}. The results are in {}", output.display()))
        }
        _ => Problem::failed(anyhow::anyhow!(
            "{error}. The results are in {}; run the job again to write them to the store",
            output.display()
        )),
    })
}

/// The exit code of a standby whose job has ended elsewhere.
fn ended_elsewhere(error: &PrepareError) -> Option<Exit> {
    match error {
        PrepareError::JobDir(ClaimError::EndedElsewhere { status, .. }) => Some(match status {
            JobStatus::Completed => Exit::Completed,
            JobStatus::Failed => Exit::Failed,
            JobStatus::Cancelled => Exit::Cancelled,
        }),
        PrepareError::JobDir(ClaimError::CompletedElsewhere { .. }) => Some(Exit::Completed),
        _ => None,
    }
}

pub(super) fn not_prepared(error: PrepareError) -> Problem {
    match error {
        PrepareError::Node(NodeError::Policy(errors)) => refused(errors),
        PrepareError::Node(NodeError::Python(PythonError::Refused(why))) => {
            Problem::each_line(&why)
        }
        error => Problem::usage(error),
    }
}

/// Runs the job with its reporters, and returns its result.
fn start(
    job: ReadyJob,
    paths: &ReportPaths,
    cancel: &Cancel,
    (target, shown, other): (
        Option<&signals::SignalTarget>,
        StatusDisplay,
        Option<Box<dyn Reporter>>,
    ),
) -> Result<JobResult, Problem> {
    let out = || Box::new(terminal::stderr()) as _;
    let mut reporters_list = report::terminal(paths, shown, out);
    reporters_list.extend(log_tree(paths));
    reporters_list.extend(other);
    let reporters = Reporters::new(reporters_list);
    if let Some(target) = target {
        target.report_with(reporters.clone());
    }
    run::run(job, &mut |event| reporters.on_event(event), cancel).map_err(Problem::failed)
}

fn exit_of(result: &JobResult) -> Exit {
    match result.status {
        JobStatus::Completed => Exit::Completed,
        JobStatus::Failed if result.never_began() => Exit::Usage,
        JobStatus::Failed => Exit::Failed,
        JobStatus::Cancelled => Exit::Cancelled,
    }
}

/// The path of this program, for child processes.
pub(super) fn this_program() -> Result<PathBuf, Problem> {
    std::env::current_exe()
        .context("the path of the running program cannot be found; is /proc mounted?")
        .map_err(Problem::usage)
}

/// What the items of a job are.
fn unit(kind: &InputKind) -> Unit {
    match kind {
        InputKind::Files { .. } => Unit::Files,
        InputKind::Tables { .. } => Unit::Rows,
        InputKind::Void { .. } => Unit::Items,
    }
}

/// The path of the results: the output file, or the output folder if the job writes no output file.
pub(super) fn output_path(spec: &JobSpec, folder: &Path) -> PathBuf {
    match spec.worker.output_action {
        OutputAction::AppendRow => folder.join(&spec.append_row_file_name),
        OutputAction::SummaryOnly => folder.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_a_key() {
        assert_eq!(setting("a.b=c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert!(setting("=x").is_err());
        assert!(setting("x").is_err());
    }
}
