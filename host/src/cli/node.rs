//! `sandmill node`: the agent of a machine that runs workers of other machines' jobs.

use super::broker::BrokerArgument;
use super::config::Config;
use super::datastores::DatastoresArgument;
use super::exit::{Exit, Problem};
use super::job_store_place::{address, objects_at};
use super::policy::PolicyArgument;
use super::run::{BackendArguments, current_dir, this_program};
use super::{say, signals, signer};
use crate::cancel::Cancel;
use crate::compile::Cache;
use crate::engine::{JobFile, SearchedStore};
use crate::load::{host_name, this_machine};
use crate::nodes::{AgentOptions, DiskLimits, DiskWatch, LeadingOptions, run_agent, with_advice};
use crate::run::Options;
use crate::spec::{self, GivenJob, LoadContext, MachineSize, NoRegistry, OperatorPolicy};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The message without a broker.
const NO_BROKER: &str = "no broker is given: name the NATS server that connects the machines, as in --broker nats://HOST:4222";

/// The folder for the files of workers, in the cache folder.
const WORK_FOLDER: &str = "node-work";

/// The notice if the agent must not lead jobs of users who sign nothing.
const NO_KEY: &str = "note: this machine leads no jobs, because its policy has signers, and $SANDMILL_SIGNING_KEY names no key \
                      with which to sign submitted jobs";

#[derive(Debug, clap::Args)]
pub(super) struct NodeArguments {
    #[command(flatten)]
    broker: BrokerArgument,
    /// The name of this machine in messages [default: its host name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The most jobs that the machine takes part in at the same time.
    #[arg(long, value_name = "N", default_value = "4")]
    max_jobs: NonZeroUsize,
    /// How many seconds workers continue without a word from the leader of their job.
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    leader_timeout: u32,
    /// Leads no jobs: neither those that users submit with `run --detach`, nor those whose leader is lost.
    #[arg(long, conflicts_with_all = ["max_led", "jobs_root", "store"])]
    no_lead: bool,
    /// The most jobs that the machine leads at the same time.
    #[arg(long, value_name = "N", default_value = "16")]
    max_led: NonZeroUsize,
    /// The folder for the directories of jobs that the machine leads [default: as for `run`].
    #[arg(long, value_name = "DIR")]
    jobs_root: Option<PathBuf>,
    /// Continues submitted jobs in this job store that have no leader, also if they lost it before the agent was
    /// started; may be given many times.
    #[arg(long, value_name = "STORE")]
    store: Vec<PathBuf>,
    /// The folder for entry scripts, for the files of workers of jobs whose job_store is in a store, and for copies of
    /// grouped rows and unpacked text [default: `node-work` in the cache folder]. It must be on a local disk.
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// The folder for compiled entry scripts, as for `run`.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    backends: BackendArguments,
    #[command(flatten)]
    policy: PolicyArgument,
    #[command(flatten)]
    datastores: DatastoresArgument,
}

impl NodeArguments {
    /// How the agent leads jobs. `None` if it leads none.
    fn leading(
        &self,
        config: &Config,
        policy: &OperatorPolicy,
    ) -> Result<Option<LeadingOptions>, Problem> {
        if self.no_lead {
            return Ok(None);
        }
        // A submission has no signature. So a submitter needs the operator's key, which signs the job for others.
        if policy.signers().is_some() && signer::key_of_environment().is_none() {
            say(NO_KEY);
            return Ok(None);
        }
        let here = current_dir()?;
        let root = here.join(self.jobs_root.clone().unwrap_or_else(|| config.jobs_root()));
        let files = [
            ("--policy", self.policy.which()),
            ("--datastores", self.datastores.which()),
            ("--cache-dir", self.cache_dir.clone()),
            ("--onnxruntime", self.backends.given()),
        ];
        let files = files.into_iter().filter_map(|(option, path)| Some((option, path?)));
        let words = files.map(|(option, path)| format!("{option}={}", here.join(path).display()));
        let words = words.collect();
        let store = |store: &PathBuf| -> Result<SearchedStore, Problem> {
            let Some(address) = address(store)? else {
                return Ok(SearchedStore::Folder(here.join(store)));
            };
            let objects = objects_at(&address, &self.datastores)?;
            Ok(SearchedStore::Address(address, Arc::new(objects)))
        };
        let stores = self.store.iter().map(store).collect::<Result<_, _>>()?;
        Ok(Some(LeadingOptions { max_jobs: self.max_led.get(), root, words, stores }))
    }
}

/// Runs workers of jobs that leaders on other machines offer, until a signal ends the agent.
pub(super) fn node(arguments: &NodeArguments) -> Result<Exit, Problem> {
    let broker = arguments.broker.find();
    let broker = broker.ok_or_else(|| Problem::usage(anyhow::Error::msg(NO_BROKER)))?;
    let config = Config::load(&arguments.policy)?;
    let policy = arguments.policy.load()?;
    let leading = arguments.leading(&config, &policy)?;
    let cancel = Cancel::new();
    // The agent has no job directory. Each job names its own.
    let mut options = Options::new(PathBuf::new(), this_program()?);
    options.cache_dir = config.cache_dir(arguments.cache_dir.as_deref());
    options.onnxruntime = arguments.backends.onnxruntime(policy.file(), &config);
    options.datastores = arguments.datastores.load()?;
    options.policy = policy;
    let here = current_dir()?;
    let cache = options.cache_dir.clone().or_else(Cache::default_folder);
    let work_dir = arguments.work_dir.clone().or_else(|| Some(cache.as_ref()?.join(WORK_FOLDER)));
    let work_dir = work_dir.map(|folder| here.join(folder));
    let name = arguments.name.clone().unwrap_or_else(host_name);
    let agent = AgentOptions {
        broker,
        disk: disk(&options, (&work_dir, &cache), &name)?,
        name,
        node: options.node(),
        max_jobs: arguments.max_jobs.get(),
        work_dir,
        leader_patience: Duration::from_secs(u64::from(arguments.leader_timeout.max(1))),
        leading,
        may_lead: None,
        say: Arc::new(|line: &str| say(line)),
    };
    let stop = cancel.clone();
    signals::on_each(move |count, signal_name| match count {
        1 => stop.cancel(signal_name),
        2 => stop.cancel_at_once(signal_name),
        _ => std::process::exit(signals::CANCELLED),
    })
    .map_err(Problem::usage)?;
    run_agent(agent, Arc::new(load), &cancel).map_err(Problem::usage)?;
    Ok(Exit::NodeEnded)
}

/// Begins to watch the disks of the folder for workers' files and of the cache.
fn disk(
    options: &Options,
    (work_dir, cache): (&Option<PathBuf>, &Option<PathBuf>),
    name: &str,
) -> Result<DiskWatch, Problem> {
    let caps = options.policy.machine();
    let limits = DiskLimits {
        work: caps.node_disk,
        free: caps.node_disk_free,
        work_dir: work_dir.clone(),
        cache: cache.clone(),
    };
    let name = name.to_owned();
    DiskWatch::start(limits, move |line| say(&format!("{name} {line}"))).map_err(Problem::usage)
}

/// Reads a job of another machine.
fn load(
    job_file: &JobFile,
    given: &GivenJob,
    policy: &OperatorPolicy,
) -> Result<spec::JobSpec, String> {
    let machine = MachineSize { has_broker: true, ..this_machine() };
    let context =
        LoadContext { policy, registrations: &NoRegistry, machine: &machine, uploads: &[] };
    let loaded = spec::load_given(&job_file.path, given, &job_file.overrides, context);
    loaded.map_err(|errors| with_advice(&errors, policy))
}
